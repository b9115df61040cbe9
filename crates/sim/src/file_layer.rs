//! The simulated disk as aio's file layer: a namespace, and the execution of I/O on open files.

use std::path::Path;

use forebay_aio::execute::{Executor, Request};
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Arc, Duration, UNIX_EPOCH};
use forebay_aio::{
    AioError, DirEntry, DirectAlignment, DirectRefusal, Errno, File, FileKind, FileStat, Namespace,
    OpKind, OpenOptions,
};

use crate::disk::{SimDisk, State};
use crate::faults::{CallKind, Strike};
use crate::file::InFlight;
use crate::names::Node;
use crate::survival::SECTOR;

/// EISDIR.
const ISDIR: Errno = Errno(21);

/// What an open file refers to.
struct Opened {
    disk: SimDisk,
    node: Node,
    locked: AtomicBool,
}

impl Opened {
    fn file(&self) -> Result<u64, Errno> {
        match self.node {
            Node::File(number) => Ok(number),
            Node::Directory(_) => Err(Errno::BADF),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.locked.load(Ordering::Relaxed) {
            self.disk.state.lock().locked.remove(&self.node);
        }
    }
}

impl SimDisk {
    /// The open file; EBADF if it belongs to another disk, such as the one before a crash.
    fn opened<'f>(&self, file: &'f File) -> Result<&'f Opened, Errno> {
        let opened =
            file.object().and_then(|object| object.downcast_ref::<Opened>()).ok_or(Errno::BADF)?;
        if Arc::ptr_eq(&opened.disk.state, &self.state) { Ok(opened) } else { Err(Errno::BADF) }
    }

    fn named<T>(
        &self,
        action: &'static str,
        path: &Path,
        call: impl FnOnce(&mut State) -> Result<T, Errno>,
    ) -> Result<T, AioError> {
        let answer = call(&mut self.state.lock());
        self.settle();
        answer.map_err(|errno| AioError::os(action, path, errno))
    }

    fn move_name(&self, from: &Path, to: &Path, replace: bool) -> Result<(), AioError> {
        self.named("rename file", from, |state| {
            match (state.names.get(from), state.names.get(to)) {
                (None, _) => Err(Errno::NOENT),
                (_, Some(_)) if !replace => Err(Errno::EXIST),
                (Some(Node::Directory(_)), Some(Node::File(_))) => Err(Errno::NOTDIR),
                (Some(Node::File(_)), Some(Node::Directory(_))) => Err(ISDIR),
                (Some(Node::Directory(_)), Some(_)) if !state.names.children(to).is_empty() => {
                    Err(Errno::EXIST)
                }
                (Some(Node::Directory(_)), _) if to.starts_with(from) => Err(Errno::INVAL),
                _ if !state.names.has_parent(to) => Err(Errno::NOENT),
                _ => {
                    let change = state.change(CallKind::Rename, from, false)?;
                    state.names.rename(from, to);
                    change.told(())
                }
            }
        })
    }
}

impl Namespace for SimDisk {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        let node = self.named("open file", path, |state| {
            state.look(CallKind::Look, path)?;
            match state.names.get(path) {
                Some(Node::Directory(_)) if options.write => Err(Errno::INVAL),
                Some(Node::File(_)) if options.create_new => Err(Errno::EXIST),
                Some(Node::File(number)) if options.truncate => {
                    let change = state.change(CallKind::Resize, path, false)?;
                    state.file(number)?.set_len(0);
                    change.told(Node::File(number))
                }
                Some(node) => Ok(node),
                None if !(options.create || options.create_new) => Err(Errno::NOENT),
                None if !state.names.has_parent(path) => Err(Errno::NOENT),
                None => {
                    let change = state.change(CallKind::Rename, path, true)?;
                    let number = state.create(path);
                    change.told(Node::File(number))
                }
            }
        })?;
        let opened = Opened { disk: self.clone(), node, locked: AtomicBool::new(false) };
        let flags = options.flags();
        Ok(File::from_object(path.to_owned(), flags, Arc::new(opened)))
    }

    fn mkdir(&self, path: &Path) -> Result<(), AioError> {
        self.named("create directory", path, |state| {
            state.look(CallKind::Look, path)?;
            if state.names.get(path).is_some() {
                return Err(Errno::EXIST);
            }
            if !state.names.has_parent(path) {
                return Err(Errno::NOENT);
            }
            let change = state.change(CallKind::Rename, path, true)?;
            state.names.add_directory(path);
            change.told(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        self.move_name(from, to, true)
    }

    fn rename_noreplace(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        self.move_name(from, to, false)
    }

    fn unlink(&self, path: &Path) -> Result<(), AioError> {
        self.named("remove file", path, |state| {
            state.look(CallKind::Look, path)?;
            match state.names.get(path) {
                None => return Err(Errno::NOENT),
                Some(Node::Directory(_)) => return Err(Errno::INVAL),
                Some(Node::File(_)) => {}
            }
            let change = state.change(CallKind::Rename, path, false)?;
            state.names.remove(path);
            change.told(())
        })
    }

    fn rmdir(&self, path: &Path) -> Result<(), AioError> {
        self.named("remove directory", path, |state| {
            state.look(CallKind::Look, path)?;
            if !state.names.get(path).is_some_and(Node::is_directory) {
                return Err(Errno::NOENT);
            }
            if !state.names.children(path).is_empty() {
                return Err(Errno::EXIST);
            }
            let change = state.change(CallKind::Rename, path, false)?;
            state.names.remove(path);
            change.told(())
        })
    }

    fn link_count(&self, path: &Path) -> Result<u64, AioError> {
        self.named("stat file", path, |state| {
            state.look(CallKind::Look, path)?;
            match state.names.get(path) {
                Some(Node::File(number)) => Ok(state.names.links(number)),
                Some(Node::Directory(_)) => Ok(2),
                None => Err(Errno::NOENT),
            }
        })
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, AioError> {
        self.named("read directory", path, |state| {
            state.look(CallKind::Look, path)?;
            if !state.names.get(path).is_some_and(Node::is_directory) {
                return Err(Errno::NOENT);
            }
            let entry = |(name, node)| DirEntry { name, kind: kind(node) };
            Ok(state.names.children(path).into_iter().map(entry).collect())
        })
    }

    fn stat(&self, path: &Path) -> Result<Option<FileStat>, AioError> {
        self.named("stat file", path, |state| {
            state.look(CallKind::Look, path)?;
            let Some(node) = state.names.get(path) else { return Ok(None) };
            let (len, links, mode) = match node {
                Node::File(number) => {
                    (state.file(number)?.live().len(), state.names.links(number), 0o600)
                }
                Node::Directory(_) => (0, 2, 0o700),
            };
            let uid = rustix::process::geteuid().as_raw();
            let changed = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            Ok(Some(FileStat {
                kind: kind(node),
                len,
                links,
                mode,
                uid,
                modified: changed,
                changed,
            }))
        })
    }

    fn file_len(&self, file: &File) -> Result<u64, AioError> {
        self.named("stat file", file.path(), |state| {
            state.look(CallKind::Look, file.path())?;
            Ok(state.file(self.opened(file)?.file()?)?.live().len())
        })
    }

    fn set_len(&self, file: &File, len: u64) -> Result<(), AioError> {
        self.named("truncate file", file.path(), |state| {
            let number = self.opened(file)?.file()?;
            let grows = len > state.file(number)?.live().len();
            let change = state.change(CallKind::Resize, file.path(), grows)?;
            state.file(number)?.set_len(len);
            change.told(())
        })
    }

    fn allocate(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        self.named("extend file", file.path(), |state| {
            state.allocate(self.opened(file)?.file()?, file.path(), offset, len)
        })
    }

    fn sync_file(&self, file: &File) -> Result<(), AioError> {
        self.named(AioError::SYNC_FILE, file.path(), |state| {
            state.sync(self.opened(file)?.file()?, file.path())
        })
    }

    fn sync_dir(&self, path: &Path) -> Result<(), AioError> {
        self.named(AioError::SYNC_DIRECTORY, path, |state| {
            let change = state.change(CallKind::SyncNames, path, false)?;
            if change.is_whole() && state.heeds_names(path) {
                let changed = state.names.sync(path).ok_or(Errno::NOENT)?;
                if changed {
                    state.became_durable();
                }
            }
            change.told(())
        })
    }

    fn sync_file_system(&self, path: &Path) -> Result<(), AioError> {
        self.named("synchronize file system for file", path, |state| {
            let change = state.change(CallKind::Sync, path, false)?;
            if change.is_whole() {
                for file in state.files.values_mut() {
                    file.sync();
                }
                state.names.sync_all();
                state.became_durable();
            }
            change.told(())
        })
    }

    fn forget_cached(&self, file: &File) -> Result<(), AioError> {
        self.named("forget", file.path(), |state| {
            state.look(CallKind::Look, file.path())?;
            state.file(self.opened(file)?.file()?)?.forget_cached();
            Ok(())
        })
    }

    fn try_lock(&self, file: &File) -> Result<bool, AioError> {
        self.named("lock file", file.path(), |state| {
            state.look(CallKind::Look, file.path())?;
            let opened = self.opened(file)?;
            let free = state.locked.insert(opened.node);
            if free {
                opened.locked.store(true, Ordering::Relaxed);
            }
            Ok(free)
        })
    }

    fn probe_direct(&self, _dir: &Path) -> Result<DirectAlignment, DirectRefusal> {
        Ok(DirectAlignment {
            memory: SECTOR,
            offset: SECTOR,
            filesystem: "simulated".to_owned(),
            note: None,
        })
    }
}

fn kind(node: Node) -> FileKind {
    match node {
        Node::Directory(_) => FileKind::Directory,
        Node::File(_) => FileKind::File,
    }
}

impl State {
    fn allocate(&mut self, number: u64, path: &Path, offset: u64, len: u64) -> Result<(), Errno> {
        let end = offset + len;
        let grows = end > self.file(number)?.live().len();
        let change = self.change(CallKind::Resize, path, grows)?;
        if let Some(Strike::Part(_, Some(errno))) = change.strike {
            return Err(errno);
        }
        let file = self.file(number)?;
        file.set_len(file.live().len().max(end));
        change.told(())
    }

    fn sync(&mut self, number: u64, path: &Path) -> Result<(), Errno> {
        let change = self.change(CallKind::Sync, path, false)?;
        if change.strike == Some(Strike::Forget) {
            self.file(number)?.forget_unsynced();
            return Err(Errno::IO);
        }
        // At a crash during a sync, survival decides what is left.
        if change.is_whole() && self.heeds_file(path) && self.file(number)?.sync() {
            self.became_durable();
        }
        if change.strike == Some(Strike::Alarm) {
            return Err(Errno::IO);
        }
        change.told(())
    }

    /// Reads, and returns the number of bytes. A short read ends between sectors.
    fn read(
        &mut self,
        file: &File,
        number: u64,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        let strike = self.look(CallKind::Read, file.path())?;
        let most =
            if let Some(Strike::Part(..)) = strike { self.part(into.len()) } else { into.len() };
        let found = self.file(number)?;
        let into = &mut into[..most];
        Ok(if file.is_direct() {
            found.read_direct(offset, into)
        } else {
            found.live().read(offset, into)
        })
    }

    fn write(
        &mut self,
        file: &File,
        number: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<usize, Errno> {
        let path = file.path();
        let durably = file.is_dsync() && self.heeds_file(path);
        let end = offset + bytes.len() as u64;
        let grows = end > self.file(number)?.live().len();
        let change = self.change(CallKind::Write, path, grows)?;
        let (mut bytes, mut failed) = (bytes, None);
        match change.strike {
            Some(Strike::Lose) => {
                self.file(number)?.lose_write(offset, bytes, file.is_direct());
                return change.told(bytes.len());
            }
            Some(Strike::Misdirect) => {
                if let Some((victim, at)) = self.victim((number, offset), bytes.len()) {
                    self.file(number)?.lose_write(offset, bytes, file.is_direct());
                    self.file(victim)?.damage(at, bytes);
                    return change.told(bytes.len());
                }
            }
            Some(Strike::Part(_, errno)) => {
                let most = self.part(bytes.len());
                // A failed write may have reached its last byte, or none.
                let most = match errno {
                    Some(_) if self.faults.dice.chance(200) => bytes.len(),
                    Some(_) if self.faults.dice.chance(300) => 0,
                    _ => most,
                };
                (bytes, failed) = (&bytes[..most], errno);
            }
            _ => {}
        }
        let target = self.file(number)?;
        if durably && change.is_whole() && failed.is_none() && !grows {
            target.write_durably(offset, bytes);
            self.became_durable();
        } else {
            target.write(offset, bytes);
            if durably && change.is_whole() && failed.is_none() {
                // A write that extends the file makes its length durable too.
                target.sync();
                self.became_durable();
            }
        }
        match failed {
            Some(errno) => Err(errno),
            None => change.told(bytes.len()),
        }
    }

    /// A part of `n` bytes in whole sectors, or in whole pages if the disk writes those whole.
    fn part(&mut self, n: usize) -> usize {
        let unit = if self.whole_pages { 16 * SECTOR } else { SECTOR };
        let units = n / unit;
        if units > 1 { (1 + self.faults.dice.below(units as u64 - 1) as usize) * unit } else { n }
    }

    /// Notes I/O that was in flight when the disk ended. Nobody receives its answer.
    fn note_in_flight(&mut self, request: &Request<'_>, file: u64) -> Result<usize, Errno> {
        if request.op() == OpKind::Writev {
            self.in_flight.push(InFlight {
                file,
                offset: request.offset(),
                bytes: request.bytes(),
            });
        }
        Err(Errno::IO)
    }
}

impl SimDisk {
    fn transfer(&self, request: &Request<'_>, number: u64) -> Result<usize, Errno> {
        let file = request.file();
        let mut state = self.state.lock();
        if state.is_dying() {
            return state.note_in_flight(request, number);
        }
        match request.op() {
            OpKind::Readv => {
                let mut bytes = vec![0; request.length() as usize];
                let n = state.read(file, number, request.offset(), &mut bytes)?;
                Ok(request.fill(&bytes[..n]))
            }
            OpKind::Writev => state.write(file, number, request.offset(), &request.bytes()),
            OpKind::Fsync | OpKind::Fdatasync => state.sync(number, file.path()).map(|()| 0),
            OpKind::SyncFileRange => state.look(CallKind::Look, file.path()).map(|_| 0),
            OpKind::Allocate => {
                state.allocate(number, file.path(), request.offset(), request.length()).map(|()| 0)
            }
            OpKind::Invalid => Err(Errno::INVAL),
        }
    }
}

impl Executor for SimDisk {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let file = request.file();
        let number = self.opened(file)?.file()?;
        let aligned = |n: u64| n.is_multiple_of(SECTOR as u64);
        let transfers = matches!(request.op(), OpKind::Readv | OpKind::Writev);
        if transfers
            && file.is_direct()
            && !(aligned(request.offset()) && aligned(request.length()))
        {
            return Err(Errno::INVAL);
        }
        let dying = self.state.lock().is_dying();
        let result = self.transfer(request, number);
        // A call during the end comes from `settle` itself.
        if !dying {
            self.settle();
        }
        result
    }
}
