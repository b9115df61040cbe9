//! Answers the kernel's requests from a disk.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Duration, Mutex, SystemTime};
use forebay_sim::Node;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

use crate::change::Manner;
use crate::disk::{Disk, Meta, inode};

/// How long the kernel may keep what it knows: all changes come through it.
const VALID: Duration = Duration::from_secs(60);
const GENERATION: Generation = Generation(0);

/// Open flags, as Linux has them on the architectures that tests run on.
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
/// Part of O_SYNC too.
const O_DSYNC: i32 = rustix::fs::OFlags::DSYNC.bits() as i32;

/// A name in a directory when it was opened.
type Listed = (u64, FileType, OsString);

/// The file system as fuser wants it.
pub(crate) struct Requests {
    disk: Arc<Disk>,
    listings: Mutex<BTreeMap<u64, Arc<Vec<Listed>>>>,
    next: AtomicU64,
}

impl Requests {
    pub fn new(disk: Arc<Disk>) -> Requests {
        Requests { disk, listings: Mutex::new(BTreeMap::new()), next: AtomicU64::new(1) }
    }

    fn look_up(&self, parent: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let state = self.disk.powered()?;
        let node = state.names.look_up(state.directory(parent)?, name).ok_or(Errno::ENOENT)?;
        state.attr(inode(node))
    }

    fn list(&self, ino: u64) -> Result<Vec<Listed>, Errno> {
        let state = self.disk.powered()?;
        let number = state.directory(ino)?;
        let own = [".", ".."].map(|name| (ino, FileType::Directory, OsString::from(name)));
        let named = state.names.entries(number).map(|(name, node)| {
            let kind = if matches!(node, Node::File(_)) {
                FileType::RegularFile
            } else {
                FileType::Directory
            };
            (inode(node), kind, name.clone())
        });
        Ok(own.into_iter().chain(named).collect())
    }

    fn read(&self, ino: u64, offset: u64, size: usize) -> Result<Vec<u8>, Errno> {
        let mut state = self.disk.powered()?;
        let mut bytes = vec![0; size];
        let n = state.file(ino)?.1.live().read(offset, &mut bytes);
        bytes.truncate(n);
        Ok(bytes)
    }

    fn set_meta(&self, ino: u64, change: impl FnOnce(&mut Meta)) -> Result<FileAttr, Errno> {
        let mut state = self.disk.powered()?;
        change(state.metas.get_mut(&ino).ok_or(Errno::ESTALE)?);
        state.attr(ino)
    }
}

fn new_meta(request: &Request, mode: u32) -> Meta {
    let mode = (mode & 0o7777) as u16;
    Meta { mode, uid: request.uid(), gid: request.gid(), modified: SystemTime::now() }
}

/// Direct descriptors bypass the kernel's cache, and several of their requests run at a time.
fn open_flags(flags: i32) -> FopenFlags {
    if flags & O_DIRECT == 0 {
        FopenFlags::empty()
    } else {
        FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
    }
}

fn entry(reply: ReplyEntry, outcome: Result<FileAttr, Errno>) {
    match outcome {
        Ok(attr) => reply.entry(&VALID, &attr, GENERATION),
        Err(e) => reply.error(e),
    }
}

fn attributes(reply: ReplyAttr, outcome: Result<FileAttr, Errno>) {
    match outcome {
        Ok(attr) => reply.attr(&VALID, &attr),
        Err(e) => reply.error(e),
    }
}

fn empty(reply: ReplyEmpty, outcome: Result<(), Errno>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

impl Filesystem for Requests {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Kernels without these capabilities handle fewer requests at a time.
        for wanted in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_PARALLEL_DIROPS] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.look_up(parent.0, name));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.disk.powered().and_then(|state| state.attr(ino.0)));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.map_or(Ok(()), |len| self.disk.set_len(ino.0, len));
        let change = |meta: &mut Meta| {
            meta.mode = mode.map_or(meta.mode, |mode| (mode & 0o7777) as u16);
            (meta.uid, meta.gid) = (uid.unwrap_or(meta.uid), gid.unwrap_or(meta.gid));
            match mtime {
                Some(TimeOrNow::SpecificTime(time)) => meta.modified = time,
                Some(TimeOrNow::Now) => meta.modified = SystemTime::now(),
                None => {}
            }
        };
        attributes(reply, resized.and_then(|()| self.set_meta(ino.0, change)));
    }

    fn mkdir(
        &self,
        r: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        entry(reply, self.disk.make(parent.0, name, true, new_meta(r, mode)));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.disk.make(parent.0, name, false, new_meta(request, mode)) {
            Ok(attr) => reply.created(&VALID, &attr, GENERATION, FileHandle(0), open_flags(flags)),
            Err(e) => reply.error(e),
        }
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.disk.link(ino.0, parent.0, name));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.disk.remove(parent.0, name, false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.disk.remove(parent.0, name, true));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.intersects(!RenameFlags::RENAME_NOREPLACE) {
            return reply.error(Errno::EINVAL);
        }
        let replace = flags.is_empty();
        empty(reply, self.disk.rename((parent.0, name), (newparent.0, newname), replace));
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), open_flags(flags.0));
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read(ino.0, offset, size as usize) {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let manner = Manner { direct: flags.0 & O_DIRECT != 0, durable: flags.0 & O_DSYNC != 0 };
        match self.disk.write(ino.0, offset, data, manner) {
            Ok(()) => reply.written(data.len() as u32),
            Err(e) => reply.error(e),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.disk.allocate(ino.0, offset, length, mode));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        empty(reply, self.disk.sync_file(ino.0));
    }

    fn fsyncdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.disk.sync_directory(ino.0));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(ino.0) {
            Ok(listing) => {
                let handle = self.next.fetch_add(1, Ordering::Relaxed);
                self.listings.lock().insert(handle, Arc::new(listing));
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(e) => reply.error(e),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(listing) = self.listings.lock().get(&handle.0).cloned() else {
            return reply.error(Errno::EBADF);
        };
        for (place, (ino, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*ino), place as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings.lock().remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        const BLOCKS: u64 = 1 << 20;
        reply.statfs(BLOCKS, BLOCKS / 2, BLOCKS / 2, BLOCKS, BLOCKS / 2, 4096, 255, 4096);
    }
}
