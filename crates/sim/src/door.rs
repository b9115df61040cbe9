//! The two halves of aio's door: names, and the execution of I/O on open files.

use std::path::{Path, PathBuf};

use forebay_aio::execute::{Executor, Request};
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Arc, Duration, UNIX_EPOCH};
use forebay_aio::{
    AioError, DirEntry, DirectAlignment, DirectRefusal, Errno, File, FileFlags, FileKind, FileStat,
    Namespace, OpKind, OpenOptions,
};

use crate::disk::{SimDisk, State, told};
use crate::faults::FaultClass;
use crate::file::SECTOR;
use crate::names::Node;

/// What an open file refers to.
struct Opened {
    disk: SimDisk,
    /// None: a directory.
    number: Option<u64>,
    path: PathBuf,
    locked: AtomicBool,
}

impl Opened {
    fn file(&self) -> Result<u64, Errno> {
        self.number.ok_or(Errno::BADF)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.locked.load(Ordering::Relaxed) {
            self.disk.state.lock().locked.remove(&self.path);
        }
    }
}

impl SimDisk {
    /// What was opened; EBADF where the file is another disk's, such as that from before a crash.
    fn opened<'f>(&self, file: &'f File) -> Result<&'f Opened, Errno> {
        let opened = file.object().and_then(|object| object.downcast_ref::<Opened>()).ok_or(Errno::BADF)?;
        if Arc::ptr_eq(&opened.disk.state, &self.state) { Ok(opened) } else { Err(Errno::BADF) }
    }

    fn named<T>(
        &self,
        action: &'static str,
        path: &Path,
        call: impl FnOnce(&mut State) -> Result<T, Errno>,
    ) -> Result<T, AioError> {
        call(&mut self.state.lock()).map_err(|errno| AioError::os(action, path, errno))
    }

    fn move_name(&self, from: &Path, to: &Path, replace: bool) -> Result<(), AioError> {
        self.named("rename file", from, |state| {
            state.look()?;
            match (state.names.get(from), state.names.get(to)) {
                (None, _) => Err(Errno::NOENT),
                (Some(Node::Directory), _) | (_, Some(Node::Directory)) => Err(Errno::OPNOTSUPP),
                (_, Some(_)) if !replace => Err(Errno::EXIST),
                _ => {
                    let crashed = state.change()?;
                    state.names.rename(from, to);
                    told(crashed, ())
                }
            }
        })
    }
}

impl Namespace for SimDisk {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        let number = self.named("open file", path, |state| {
            state.look()?;
            match state.names.get(path) {
                Some(Node::Directory) if options.write => Err(Errno::INVAL),
                Some(Node::Directory) => Ok(None),
                Some(Node::File(_)) if options.create_new => Err(Errno::EXIST),
                Some(Node::File(number)) if options.truncate => {
                    let crashed = state.change()?;
                    state.file(number)?.set_len(0);
                    told(crashed, Some(number))
                }
                Some(Node::File(number)) => Ok(Some(number)),
                None if !(options.create || options.create_new) => Err(Errno::NOENT),
                None if path.parent().and_then(|dir| state.names.get(dir)) != Some(Node::Directory) => {
                    Err(Errno::NOENT)
                }
                None => {
                    let crashed = state.change()?;
                    let number = state.create(path);
                    told(crashed, Some(number))
                }
            }
        })?;
        let opened =
            Opened { disk: self.clone(), number, path: path.to_owned(), locked: AtomicBool::new(false) };
        let flags = FileFlags { direct: options.direct, dsync: options.dsync };
        Ok(File::from_object(path.to_owned(), flags, Arc::new(opened)))
    }

    fn mkdir(&self, path: &Path) -> Result<(), AioError> {
        self.named("create directory", path, |state| {
            state.look()?;
            if state.names.get(path).is_some() {
                return Err(Errno::EXIST);
            }
            if path.parent().and_then(|dir| state.names.get(dir)) != Some(Node::Directory) {
                return Err(Errno::NOENT);
            }
            let crashed = state.change()?;
            state.names.add(path, Node::Directory);
            told(crashed, ())
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
            state.look()?;
            match state.names.get(path) {
                None => return Err(Errno::NOENT),
                Some(Node::Directory) => return Err(Errno::INVAL),
                Some(Node::File(_)) => {}
            }
            let crashed = state.change()?;
            state.names.remove(path);
            told(crashed, ())
        })
    }

    fn rmdir(&self, path: &Path) -> Result<(), AioError> {
        self.named("remove directory", path, |state| {
            state.look()?;
            if state.names.get(path) != Some(Node::Directory) {
                return Err(Errno::NOENT);
            }
            if state.names.children(path).next().is_some() {
                return Err(Errno::EXIST);
            }
            let crashed = state.change()?;
            state.names.remove(path);
            told(crashed, ())
        })
    }

    fn link_count(&self, path: &Path) -> Result<u64, AioError> {
        self.named("stat file", path, |state| {
            state.look()?;
            match state.names.get(path) {
                Some(Node::File(number)) => Ok(state.names.links(number)),
                Some(Node::Directory) => Ok(2),
                None => Err(Errno::NOENT),
            }
        })
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, AioError> {
        self.named("read directory", path, |state| {
            state.look()?;
            if state.names.get(path) != Some(Node::Directory) {
                return Err(Errno::NOENT);
            }
            let entry = |(child, node): (&Path, Node)| {
                Some(DirEntry { name: child.file_name()?.to_owned(), kind: kind(node) })
            };
            Ok(state.names.children(path).filter_map(entry).collect())
        })
    }

    fn stat(&self, path: &Path) -> Result<Option<FileStat>, AioError> {
        self.named("stat file", path, |state| {
            state.look()?;
            let Some(node) = state.names.get(path) else { return Ok(None) };
            let (len, links, mode) = match node {
                Node::File(number) => (state.file(number)?.live().len(), state.names.links(number), 0o600),
                Node::Directory => (0, 2, 0o700),
            };
            let uid = rustix::process::geteuid().as_raw();
            let modified = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            Ok(Some(FileStat { kind: kind(node), len, links, mode, uid, modified }))
        })
    }

    fn file_len(&self, file: &File) -> Result<u64, AioError> {
        self.named("stat file", file.path(), |state| {
            state.look()?;
            Ok(state.file(self.opened(file)?.file()?)?.live().len())
        })
    }

    fn set_len(&self, file: &File, len: u64) -> Result<(), AioError> {
        self.named("truncate file", file.path(), |state| {
            let crashed = state.change()?;
            state.file(self.opened(file)?.file()?)?.set_len(len);
            told(crashed, ())
        })
    }

    fn allocate(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        self.named("extend file", file.path(), |state| {
            state.allocate(self.opened(file)?.file()?, offset, len)
        })
    }

    fn sync_file(&self, file: &File) -> Result<(), AioError> {
        self.named("sync file", file.path(), |state| state.sync(self.opened(file)?.file()?, file.path()))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), AioError> {
        self.named("sync directory", path, |state| {
            let crashed = state.change()?;
            if !crashed && state.heeds_names(path) {
                state.names.sync(path);
            }
            told(crashed, ())
        })
    }

    fn sync_file_system(&self, path: &Path) -> Result<(), AioError> {
        self.named("synchronize file system for file", path, |state| {
            let crashed = state.change()?;
            if !crashed {
                state.files.values_mut().for_each(|file| file.sync());
                state.names.sync_all();
            }
            told(crashed, ())
        })
    }

    fn try_lock(&self, file: &File) -> Result<bool, AioError> {
        self.named("lock file", file.path(), |state| {
            state.look()?;
            let opened = self.opened(file)?;
            let free = state.locked.insert(opened.path.clone());
            if free {
                opened.locked.store(true, Ordering::Relaxed);
            }
            Ok(free)
        })
    }

    fn probe_direct(&self, _dir: &Path) -> Result<DirectAlignment, DirectRefusal> {
        Ok(DirectAlignment { memory: SECTOR, offset: SECTOR, filesystem: "simulated".to_owned(), note: None })
    }
}

fn kind(node: Node) -> FileKind {
    match node {
        Node::Directory => FileKind::Directory,
        Node::File(_) => FileKind::File,
    }
}

impl State {
    fn allocate(&mut self, number: u64, offset: u64, len: u64) -> Result<(), Errno> {
        let crashed = self.change()?;
        if self.faults.strikes(FaultClass::NoSpace) {
            return Err(Errno::NOSPC);
        }
        let file = self.file(number)?;
        file.set_len(file.live().len().max(offset + len));
        told(crashed, ())
    }

    fn sync(&mut self, number: u64, path: &Path) -> Result<(), Errno> {
        let crashed = self.change()?;
        if self.faults.strikes(FaultClass::FailedSync) {
            self.file(number)?.forget_unsynced();
            return Err(Errno::IO);
        }
        // A crash during a sync leaves what the survival of the unsynced leaves.
        if !crashed && self.heeds_file(path) {
            self.file(number)?.sync();
        }
        told(crashed, ())
    }

    /// Bytes that are read. A short read ends between sectors.
    fn read(&mut self, number: u64, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        self.look()?;
        if self.faults.strikes(FaultClass::ReadError) {
            return Err(Errno::IO);
        }
        let most = self.part(into.len());
        let n = self.file(number)?.live().read(offset, &mut into[..most]);
        Ok(n)
    }

    fn write(&mut self, number: u64, offset: u64, bytes: &[u8], durably: bool) -> Result<usize, Errno> {
        let crashed = self.change()?;
        let end = offset + bytes.len() as u64;
        if end > self.file(number)?.live().len() && self.faults.strikes(FaultClass::NoSpace) {
            return Err(Errno::NOSPC);
        }
        let failed = self.faults.strikes(FaultClass::WriteError);
        let most = if failed {
            self.faults.dice.below(bytes.len() as u64 + 1) as usize
        } else {
            self.part(bytes.len())
        };
        let file = self.file(number)?;
        file.write(offset, &bytes[..most]);
        if failed {
            return Err(Errno::IO);
        }
        if durably && !crashed {
            file.sync();
        }
        told(crashed, most)
    }

    /// How many of `n` bytes a transfer moves.
    fn part(&mut self, n: usize) -> usize {
        let sectors = n / SECTOR;
        if sectors > 1 && self.faults.strikes(FaultClass::Short) {
            (1 + self.faults.dice.below(sectors as u64 - 1) as usize) * SECTOR
        } else {
            n
        }
    }
}

impl Executor for SimDisk {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let file = request.file();
        let number = self.opened(file)?.file()?;
        let aligned = |n: u64| n.is_multiple_of(SECTOR as u64);
        let transfers = matches!(request.op(), OpKind::Readv | OpKind::Writev);
        if transfers && file.is_direct() && !(aligned(request.offset()) && aligned(request.length())) {
            return Err(Errno::INVAL);
        }
        match request.op() {
            OpKind::Readv => {
                let mut bytes = vec![0; request.length() as usize];
                let n = self.state.lock().read(number, request.offset(), &mut bytes)?;
                Ok(request.fill(&bytes[..n]))
            }
            OpKind::Writev => {
                let bytes = request.bytes();
                let mut state = self.state.lock();
                let durably = file.is_dsync() && state.heeds_file(file.path());
                state.write(number, request.offset(), &bytes, durably)
            }
            OpKind::Fsync | OpKind::Fdatasync => self.state.lock().sync(number, file.path()).map(|()| 0),
            OpKind::SyncFileRange => self.state.lock().look().map(|()| 0),
            OpKind::Allocate => {
                self.state.lock().allocate(number, request.offset(), request.length()).map(|()| 0)
            }
            OpKind::Invalid => Err(Errno::INVAL),
        }
    }
}
