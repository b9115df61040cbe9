//! A directory in which files are stored durably and never replaced.
//!
//! ```text
//!   temporary file, locked ──▶ written, several writes in flight ──▶ synced
//!     ──▶ renamed without replacing ──▶ directory synced, and the parents of new directories
//! ```
//!
//! A file gets its name only when it is whole and durable. A second writer finds the name taken. It
//! then syncs the stored file, reads it back from the medium and compares: equal contents are a
//! success, others an error that changes nothing.
//!
//! A writer holds an advisory lock on its temporary file. A temporary file without a lock was left
//! behind by a process that died. It is removed at start and when the disk is full.
//!
//! A file whose sync failed is thrown away and written anew. If the sync of a directory failed, the
//! next attempt finds the file under its name, reads it back and syncs the directory again. The
//! file counts as durable only after a sync that succeeds once it was seen there. (File systems
//! that lose a directory's change in their journal refuse all further syncs.)

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{
    Aio, AioError, AlignedBuf, Errno, File, FileKind, IfFound, IoBackend, OpenOptions,
};

use crate::digest::{Digest, Hasher};
use crate::error::{ArchiveError, Result};
use crate::module::Archived;
use crate::pipe::{Buffers, CHUNK, Reader, Writer};
use crate::source::Source;

/// What the names of temporary files begin with.
pub const TEMPORARY: &str = "forebay-temp.";

/// Attempts to find a free name for a temporary file.
const MOST_NAMES: u64 = 1000;
/// Attempts to store a file that others store and remove at the same time.
const MOST_ATTEMPTS: usize = 3;

/// Whether a file got its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It has its name, durably.
    Stored,
    /// The name is taken. Nothing was changed.
    Exists,
}

/// Length and hash of a file's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Contents {
    len: u64,
    digest: Digest,
}

/// A directory in which files are stored. Names may contain slashes: subdirectories are created as
/// they are needed. The directory itself must exist.
pub struct DurableDir {
    aio: Arc<Aio>,
    dir: PathBuf,
    /// Use direct I/O; cleared once the file system has refused it.
    direct: AtomicBool,
    /// Directories whose own names are known to be durable.
    durable_dirs: Mutex<HashSet<PathBuf>>,
    /// Number of the next temporary file.
    next: AtomicU64,
}

impl std::fmt::Debug for DurableDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableDir")
            .field("dir", &self.dir)
            .field("direct", &self.direct)
            .finish_non_exhaustive()
    }
}

impl DurableDir {
    /// The directory `dir`; with `direct`, files are written and read with direct I/O.
    pub fn new(aio: &Arc<Aio>, dir: &Path, direct: bool) -> DurableDir {
        DurableDir {
            aio: Arc::clone(aio),
            dir: dir.to_path_buf(),
            direct: AtomicBool::new(direct),
            durable_dirs: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Its path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of the file `name`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Checks that the directory exists. The error is the reason for a message.
    pub fn check(&self) -> Result<(), String> {
        match self.aio.namespace().stat(&self.dir) {
            Ok(Some(stat)) if stat.kind == FileKind::Directory => Ok(()),
            Ok(Some(_)) => Err(format!("\"{}\" is not a directory.", self.dir.display())),
            Ok(None) => {
                Err(format!("Archive directory \"{}\" does not exist.", self.dir.display()))
            }
            Err(e) => Err(format!("Archive directory can't be used: {e}.")),
        }
    }

    /// Whether there is a file `name`, durable or not.
    fn has(&self, name: &str) -> Result<bool> {
        let path = self.path(name);
        self.aio.namespace().exists(&path).map_err(ArchiveError::io("look for", &path))
    }

    /// Begins the file `name`, under a temporary name.
    pub fn begin(&self, name: &str, buffers: &Buffers) -> Result<NewFile<'_>> {
        let path = self.path(name);
        let parent = self.parent(&path).to_path_buf();
        self.make_dirs(&parent).map_err(ArchiveError::io("store", &path))?;
        let (temporary, file) = self.temporary(&parent, &path).map_err(|e| {
            if e.is_not_found() {
                // The directory was removed, so nothing is known about its durability.
                self.durable_dirs.lock().clear();
            }
            ArchiveError::io("store", &path)(e)
        })?;
        let writer = Writer::new(file, buffers);
        Ok(NewFile { dir: self, path, parent, temporary: Some(temporary), writer })
    }

    fn parent<'p>(&'p self, path: &'p Path) -> &'p Path {
        path.parent().unwrap_or(&self.dir)
    }

    /// Creates and locks a temporary file in `dir` for the file `path`.
    fn temporary(&self, dir: &Path, path: &Path) -> Result<(PathBuf, File), AioError> {
        let base = path.file_name().unwrap_or_default().to_string_lossy();
        let mut taken = AioError::os("create a temporary file for", path, Errno::EXIST);
        for _ in 0..MOST_NAMES {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let temporary = dir.join(format!("{TEMPORARY}{base}.{}.{n}", std::process::id()));
            let options = OpenOptions::READ_WRITE.create_new();
            let direct = self.direct.load(Ordering::Relaxed);
            match self.aio.namespace().open(&temporary, &options.direct(direct)) {
                Ok(file) => match self.aio.namespace().try_lock(&file) {
                    // A clean-up locked it before we did, and removes it.
                    Ok(false) => {}
                    // Where locks fail, clean-ups fail as well, so it is safe.
                    Ok(true) | Err(_) => return Ok((temporary, file)),
                },
                Err(e) if e.errno() == Some(Errno::EXIST) => taken = e,
                // The file was created nevertheless.
                Err(AioError::Direct(_)) if direct => {
                    self.direct.store(false, Ordering::Relaxed);
                    let _ = self.aio.namespace().unlink(&temporary);
                }
                Err(e) => return Err(e),
            }
        }
        Err(taken)
    }

    /// Stores a file of the log under `name`, or finds the same contents under that name.
    pub fn store(&self, io: &mut IoBackend, name: &str, source: &mut Source) -> Result<Archived> {
        for attempt in 0..MOST_ATTEMPTS {
            let mut exists = self.has(name)?;
            forebay_aio::planted_bug!(self.aio, ArchiveReplacesFile, exists = false);
            if !exists {
                if attempt > 0 {
                    source.rewind(io);
                }
                match self.copy(io, name, source) {
                    Ok(StoreOutcome::Stored) => return Ok(Archived::Stored),
                    Ok(StoreOutcome::Exists) => {}
                    Err(e) => return Err(self.make_room(&self.dir, e)),
                }
            }
            let digest = match source.digest() {
                Some(digest) => digest,
                None => source.read_to_end(io)?,
            };
            let offered = Contents { len: source.len(), digest };
            if let Some(archived) = self.compare(io, name, offered, source.buffers())? {
                return Ok(archived);
            }
        }
        let path = self.path(name);
        let removed = AioError::os("keep file, which others remove,", &path, Errno::NOENT);
        Err(ArchiveError::io("store", &path)(removed))
    }

    /// If `error` says that the disk is full, removes left-over temporary files from `dir`.
    pub(crate) fn make_room(&self, dir: &Path, error: ArchiveError) -> ArchiveError {
        if error.is_full()
            && let Err(e) = self.clean_in(dir)
        {
            tracing::warn!("could not remove left-over temporary files: {e}");
        }
        error
    }

    fn copy(&self, io: &mut IoBackend, name: &str, source: &mut Source) -> Result<StoreOutcome> {
        let mut new = self.begin(name, source.buffers())?;
        let copied = new.reserve(source.len()).and_then(|()| {
            while let Some(piece) = source.next(io)? {
                new.put(io, piece.buf, piece.len)?;
            }
            Ok(())
        });
        new.end(io, copied)
    }

    /// Compares `offered` with the file `name`, which is made durable if it is the same. None: the
    /// file is gone.
    fn compare(
        &self,
        io: &mut IoBackend,
        name: &str,
        offered: Contents,
        buffers: &Buffers,
    ) -> Result<Option<Archived>> {
        let path = self.path(name);
        let read = self.read_back(io, &path, buffers).if_found();
        let Some(stored) = read.map_err(ArchiveError::io("compare", &path))? else {
            return Ok(None);
        };
        if stored != offered {
            return Err(ArchiveError::Different {
                file: path,
                stored: stored.digest,
                stored_len: stored.len,
                offered: offered.digest,
                offered_len: offered.len,
            });
        }
        self.sync_names(self.parent(&path)).map_err(ArchiveError::io("sync", &path))?;
        Ok(Some(Archived::Identical))
    }

    fn open_synced(&self, io: &mut IoBackend, path: &Path) -> Result<File, AioError> {
        let file = self.aio.namespace().open(path, &OpenOptions::READ)?;
        forebay_aio::planted_bug!(self.aio, ArchiveIdenticalFileNotSynced, return Ok(file));
        io.fsync(&file)?;
        Ok(file)
    }

    /// Syncs a file and reads it from the medium: the kernel's cache may hold what a failed
    /// write-out never brought there. The file's name may not be durable yet
    /// ([`DurableDir::sync_names`]).
    fn read_back(
        &self,
        io: &mut IoBackend,
        path: &Path,
        buffers: &Buffers,
    ) -> Result<Contents, AioError> {
        let file = self.open_synced(io, path)?;
        // Where the cache can't be dropped, the direct read bypasses it.
        let _ = self.aio.namespace().forget_cached(&file);
        drop(file);
        // Direct where possible, whatever the setting.
        let mut reader = Reader::open(&self.aio, path, true, buffers)?;
        let mut hasher = Hasher::new();
        let read = loop {
            match reader.next(io) {
                Ok(Some(piece)) => {
                    hasher.update(piece.bytes());
                    buffers.give_back(piece.buf);
                }
                Ok(None) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        reader.close(io);
        read.map(|()| Contents { len: reader.len(), digest: hasher.finish() })
    }

    /// Creates the missing directories on the way to `dir`.
    fn make_dirs(&self, dir: &Path) -> Result<(), AioError> {
        let below = dir.strip_prefix(&self.dir).expect("files are stored below the directory");
        let mut path = self.dir.clone();
        for part in below.components() {
            path.push(part);
            if self.durable_dirs.lock().contains(&path) || self.aio.namespace().exists(&path)? {
                continue;
            }
            match self.aio.namespace().mkdir(&path) {
                Ok(()) => {}
                Err(e) if e.errno() == Some(Errno::EXIST) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Makes the names in `dir` durable, and the name of `dir` itself unless it is known to be.
    pub fn sync_names(&self, dir: &Path) -> Result<(), AioError> {
        forebay_aio::planted_bug!(self.aio, ArchiveNamesNotSynced, return Ok(()));
        // From the top: after a crash, a directory is found only if all above it are.
        let mut unknown: Vec<&Path> = Vec::new();
        for dir in dir.ancestors().take_while(|dir| dir.starts_with(&self.dir)) {
            if !self.durable_dirs.lock().contains(dir) {
                unknown.push(dir);
            }
        }
        for dir in unknown.into_iter().rev() {
            forebay_aio::planted_bug!(self.aio, ArchiveParentNotSynced, continue);
            let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
            if let Some(parent) = parent {
                match self.aio.namespace().sync_dir(parent) {
                    // The archive may lie in a directory that we may not read.
                    Err(e) if dir == self.dir && e.errno() == Some(Errno::ACCES) => {}
                    synced => synced?,
                }
            }
            self.durable_dirs.lock().insert(dir.to_path_buf());
        }
        self.aio.namespace().sync_dir(dir)
    }

    /// Removes temporary files of dead processes from the directory itself. Returns how many.
    pub fn clean(&self) -> Result<usize> {
        self.clean_in(&self.dir)
    }

    /// Removes temporary files of dead processes from `dir`. Returns how many.
    pub(crate) fn clean_in(&self, dir: &Path) -> Result<usize> {
        let names = self.aio.namespace();
        let mut removed = 0;
        for entry in names.list(dir).map_err(ArchiveError::io("clean up", dir))? {
            let ours = entry.name.to_str().is_some_and(|name| name.starts_with(TEMPORARY));
            if !ours || entry.kind != FileKind::File {
                continue;
            }
            let path = dir.join(&entry.name);
            let cleaned = names.open(&path, &OpenOptions::READ_WRITE).and_then(|file| {
                // The lock is held until the file is removed. Where there are no locks, nobody
                // knows whether a writer is alive, so the file stays.
                let unlocked = names.try_lock(&file).unwrap_or(false);
                if unlocked { names.unlink(&path).map(|()| 1) } else { Ok(0) }
            });
            let cleaned = cleaned.if_found().map_err(ArchiveError::io("remove", &path))?;
            removed += cleaned.unwrap_or(0);
        }
        Ok(removed)
    }
}

/// A file that is being stored. Dropped before its end, it leaves nothing behind.
#[derive(Debug)]
pub struct NewFile<'d> {
    dir: &'d DurableDir,
    path: PathBuf,
    parent: PathBuf,
    /// None: it was renamed or removed.
    temporary: Option<PathBuf>,
    writer: Writer,
}

impl NewFile<'_> {
    /// Bytes written so far.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.writer.len()
    }

    /// Reserves `len` bytes, so that a full disk is noticed before anything is written.
    fn reserve(&self, len: u64) -> Result<()> {
        if len <= CHUNK as u64 {
            return Ok(());
        }
        match self.dir.aio.namespace().reserve(self.writer.file(), 0, len) {
            // Some file systems can't.
            Err(e) if e.errno() == Some(Errno::OPNOTSUPP) => Ok(()),
            reserved => reserved.map_err(ArchiveError::io("store", &self.path)),
        }
    }

    /// Appends the first `len` bytes of `buf` without copying them. Whatever precedes them must be
    /// whole blocks of 4096 bytes.
    pub(crate) fn put(&mut self, io: &mut IoBackend, buf: AlignedBuf, len: usize) -> Result<()> {
        self.writer.put(io, buf, len).map_err(ArchiveError::io("store", &self.path))
    }

    /// Appends `bytes`.
    pub fn write(&mut self, io: &mut IoBackend, bytes: &[u8]) -> Result<()> {
        self.writer.write(io, bytes).map_err(ArchiveError::io("store", &self.path))
    }

    /// Commits the file if writing it succeeded, removes it otherwise.
    pub(crate) fn end(self, io: &mut IoBackend, written: Result<()>) -> Result<StoreOutcome> {
        match written {
            Ok(()) => self.commit(io),
            Err(e) => {
                self.abandon(io);
                Err(e)
            }
        }
    }

    /// Makes the file durable and gives it its name, unless that is taken. An error before the
    /// renaming leaves nothing behind.
    pub fn commit(mut self, io: &mut IoBackend) -> Result<StoreOutcome> {
        let renamed = self.make_durable(io).and_then(|()| self.rename());
        let outcome = match renamed {
            Ok(StoreOutcome::Stored) => {
                self.dir.sync_names(&self.parent).map(|()| StoreOutcome::Stored)
            }
            other => other,
        };
        let path = self.path.clone();
        self.abandon(io);
        outcome.map_err(ArchiveError::io("store", &path))
    }

    fn make_durable(&mut self, io: &mut IoBackend) -> Result<(), AioError> {
        self.writer.finish(io)?;
        let file = self.writer.file();
        forebay_aio::planted_bug!(self.dir.aio, ArchiveFileNotSynced, return Ok(()));
        io.fsync(file)?;
        if !file.is_direct() {
            // Nobody will read it soon, so the kernel can use the memory for something else.
            let _ = self.dir.aio.namespace().forget_cached(file);
        }
        Ok(())
    }

    fn rename(&mut self) -> Result<StoreOutcome, AioError> {
        let temporary = self.temporary.as_ref().expect("a file is renamed only once");
        let namespace = self.dir.aio.namespace();
        forebay_aio::planted_bug!(self.dir.aio, ArchiveReplacesFile, {
            namespace.rename(temporary, &self.path)?;
            self.temporary = None;
            return Ok(StoreOutcome::Stored);
        });
        match namespace.rename_noreplace(temporary, &self.path) {
            Ok(()) => {
                self.temporary = None;
                Ok(StoreOutcome::Stored)
            }
            Err(e) if e.errno() == Some(Errno::EXIST) => Ok(StoreOutcome::Exists),
            Err(e) => Err(e),
        }
    }

    /// Waits for the writes in flight, and removes the temporary file.
    fn abandon(mut self, io: &mut IoBackend) {
        self.writer.abandon(io);
        self.remove();
    }

    fn remove(&mut self) {
        if let Some(temporary) = self.temporary.take()
            && let Err(e) = self.dir.aio.namespace().unlink(&temporary).if_found()
        {
            tracing::warn!("could not remove a temporary file: {e}");
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
