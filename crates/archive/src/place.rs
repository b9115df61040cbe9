//! A directory that files are stored in: durably, and so that none is ever replaced.
//!
//! ```text
//!   temporary file, locked ──▶ written, several writes in flight ──▶ synced
//!     ──▶ renamed without replacing ──▶ directory synced, and the parents of directories that are new to us
//! ```
//!
//! A file has its name only when it is whole and durable. Who comes second finds the name taken:
//! then what is stored is synced, read from the medium and compared. It succeeds if it is the same,
//! and changes nothing if not.
//!
//! Temporary files carry an advisory lock while somebody writes them. Those without one were left
//! by a process that is gone, and are removed at start and when there is no room.
//!
//! A file whose sync failed is thrown away and written anew. After a failed sync of a directory the
//! next attempt finds the file under its name, reads it back from the medium, and syncs the
//! directory again: whether it is durable is only said by a sync that succeeds after the file was
//! seen there. (File systems that lose a directory's change in their journal refuse all further
//! syncs.)

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{
    Aio, AioError, AlignedBuf, Backend, Errno, File, FileKind, IO_ALIGN, OpenOptions, OwnedIo,
    Target,
};

use crate::digest::{Digest, Hasher};
use crate::error::{ArchiveError, Result};
use crate::module::Archived;
use crate::pipe::{Buffers, CHUNK, DEPTH, Reader};
use crate::source::Source;

/// Names of temporary files begin like this.
pub const TEMPORARY: &str = "forebay-temp.";

/// Attempts to find a name for a temporary file.
const MOST_NAMES: u64 = 1000;
/// Attempts at a file that others store and remove meanwhile.
const MOST_TURNS: usize = 3;

/// What came of storing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It has its name now, durably.
    Stored,
    /// The name is taken. Nothing was changed.
    Exists,
}

/// A file in a place, as the medium has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its length.
    pub len: u64,
    /// Hash of its contents.
    pub digest: Digest,
}

/// A directory that files are stored in. Names may have directories of their own, which are made as
/// they are needed; the place itself must exist.
pub struct Place {
    aio: Arc<Aio>,
    dir: PathBuf,
    /// Past the kernel's cache; not any more once the file system has refused it.
    direct: AtomicBool,
    /// Directories whose own names are durable.
    settled: Mutex<HashSet<PathBuf>>,
    /// Numbers of temporary files.
    next: AtomicU64,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("dir", &self.dir)
            .field("direct", &self.direct)
            .finish_non_exhaustive()
    }
}

impl Place {
    /// The directory `dir`; files are written and read past the kernel's cache if `direct`.
    pub fn new(aio: &Arc<Aio>, dir: &Path, direct: bool) -> Place {
        Place {
            aio: Arc::clone(aio),
            dir: dir.to_path_buf(),
            direct: AtomicBool::new(direct),
            settled: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The door it is reached through.
    pub fn aio(&self) -> &Arc<Aio> {
        &self.aio
    }

    /// Where a file of that name is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Whether the directory is there. Err: why not.
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

    /// Whether there is a file of that name. Says nothing about its durability.
    pub fn has(&self, name: &str) -> Result<bool> {
        let path = self.path(name);
        self.aio.namespace().exists(&path).map_err(ArchiveError::io("look for", &path))
    }

    /// Begins a file, under a temporary name.
    pub fn begin(&self, name: &str, buffers: &Buffers) -> Result<Incoming<'_>> {
        let path = self.path(name);
        let dir = path.parent().unwrap_or(&self.dir).to_path_buf();
        self.make_dirs(&dir).map_err(ArchiveError::io("store", &path))?;
        let (temporary, file) = self.temporary(&dir, &path).map_err(|e| {
            if e.is_not_found() {
                // The directory is gone: what was known of it as well.
                self.settled.lock().clear();
            }
            ArchiveError::io("store", &path)(e)
        })?;
        Ok(Incoming {
            place: self,
            path,
            dir,
            temporary: Some(temporary),
            file,
            flying: VecDeque::new(),
            fill: None,
            len: 0,
            padded: false,
            buffers: buffers.clone(),
        })
    }

    /// Makes a temporary file that is ours alone.
    fn temporary(&self, dir: &Path, path: &Path) -> Result<(PathBuf, File), AioError> {
        let base = path.file_name().unwrap_or_default().to_string_lossy();
        let mut taken = AioError::os("create a temporary file for", path, Errno::EXIST);
        for _ in 0..MOST_NAMES {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let temporary = dir.join(format!("{TEMPORARY}{base}.{}.{n}", std::process::id()));
            let options = OpenOptions::READ_WRITE.create_new();
            let direct = self.direct.load(Ordering::Relaxed);
            match self.aio.namespace().open(&temporary, &options.direct(direct)) {
                // Who cleans up may have taken it for a left one, in the moment before it was
                // locked.
                Ok(file) => match self.aio.namespace().try_lock(&file) {
                    Ok(false) => {}
                    // Without locks nobody cleans up either.
                    Ok(true) | Err(_) => return Ok((temporary, file)),
                },
                Err(e) if e.errno() == Some(Errno::EXIST) => taken = e,
                // It has its name all the same.
                Err(AioError::Direct(_)) if direct => {
                    self.direct.store(false, Ordering::Relaxed);
                    let _ = self.aio.namespace().unlink(&temporary);
                }
                Err(e) => return Err(e),
            }
        }
        Err(taken)
    }

    /// Stores a file of the log under its name, or under that of the same contents.
    pub fn store(&self, io: &mut Backend, name: &str, source: &mut Source) -> Result<Archived> {
        for turn in 0..MOST_TURNS {
            let mut exists = self.has(name)?;
            forebay_aio::planted_bug!(self.aio, ArchiveReplacesFile, exists = false);
            if !exists {
                if turn > 0 {
                    source.rewind(io);
                }
                match self.copy(io, name, source) {
                    Ok(Placed::Stored) => return Ok(Archived::Stored),
                    Ok(Placed::Exists) => {}
                    Err(e) => return Err(self.make_room(e)),
                }
            }
            let offered = match source.digest() {
                Some(digest) => digest,
                None => source.read_to_end(io)?,
            };
            let offered = StoredFile { len: source.len(), digest: offered };
            if let Some(archived) = self.same(io, name, offered, source.buffers())? {
                return Ok(archived);
            }
        }
        Err(ArchiveError::io("store", &self.path(name))(AioError::os(
            "keep file, which others remove,",
            &self.path(name),
            Errno::NOENT,
        )))
    }

    /// Stores a small file whose contents are at hand.
    pub fn store_bytes(
        &self,
        io: &mut Backend,
        name: &str,
        bytes: &[u8],
        buffers: &Buffers,
    ) -> Result<Archived> {
        let offered = StoredFile { len: bytes.len() as u64, digest: Digest::of(bytes) };
        for _ in 0..MOST_TURNS {
            if !self.has(name)? {
                let mut incoming = self.begin(name, buffers)?;
                let written = incoming.write(io, bytes);
                match incoming.end(io, written) {
                    Ok(Placed::Stored) => return Ok(Archived::Stored),
                    Ok(Placed::Exists) => {}
                    Err(e) => return Err(self.make_room(e)),
                }
            }
            if let Some(archived) = self.same(io, name, offered, buffers)? {
                return Ok(archived);
            }
        }
        let path = self.path(name);
        Err(ArchiveError::io("store", &path)(AioError::os("keep file", &path, Errno::NOENT)))
    }

    /// If there was no room, what others have left may take it.
    fn make_room(&self, error: ArchiveError) -> ArchiveError {
        if error.is_full()
            && let Err(e) = self.clean()
        {
            tracing::warn!("could not remove left-over temporary files: {e}");
        }
        error
    }

    fn copy(&self, io: &mut Backend, name: &str, source: &mut Source) -> Result<Placed> {
        let mut incoming = self.begin(name, source.buffers())?;
        let copied = incoming.reserve(source.len()).and_then(|()| {
            while let Some(piece) = source.next(io)? {
                incoming.put(io, piece.buf, piece.len)?;
            }
            Ok(())
        });
        incoming.end(io, copied)
    }

    /// Compares with what is stored under that name, and makes that durable if it is the same.
    /// None: nothing is there any more.
    pub fn same(
        &self,
        io: &mut Backend,
        name: &str,
        offered: StoredFile,
        buffers: &Buffers,
    ) -> Result<Option<Archived>> {
        let Some(stored) = self.stored(io, name, buffers)? else { return Ok(None) };
        let path = self.path(name);
        if stored != offered {
            return Err(ArchiveError::Different {
                file: path,
                stored: stored.digest,
                stored_len: stored.len,
                offered: offered.digest,
                offered_len: offered.len,
            });
        }
        self.settle_names(path.parent().unwrap_or(&self.dir))
            .map_err(ArchiveError::io("settle", &path))?;
        Ok(Some(Archived::Identical))
    }

    /// Makes a stored file durable, and reads it from the medium: what the kernel has cached of it
    /// may be what a failed write-out never brought there. Its name may not be durable yet
    /// ([`Place::settle_names`]). None: there is no such file.
    pub fn stored(
        &self,
        io: &mut Backend,
        name: &str,
        buffers: &Buffers,
    ) -> Result<Option<StoredFile>> {
        let path = self.path(name);
        self.read_back(io, &path, buffers).or_else(|e| {
            if e.is_not_found() { Ok(None) } else { Err(ArchiveError::io("compare", &path)(e)) }
        })
    }

    /// Opens a file for reading, and syncs it.
    fn open_synced(&self, io: &mut Backend, path: &Path) -> Result<File, AioError> {
        let file = self.aio.namespace().open(path, &OpenOptions::READ)?;
        forebay_aio::planted_bug!(self.aio, ArchiveIdenticalFileNotSynced, return Ok(file));
        io.fsync(&file)?;
        Ok(file)
    }

    fn read_back(
        &self,
        io: &mut Backend,
        path: &Path,
        buffers: &Buffers,
    ) -> Result<Option<StoredFile>, AioError> {
        let file = self.open_synced(io, path)?;
        // Where there is no such advice, a direct read does it.
        let _ = self.aio.namespace().forget_cached(&file);
        drop(file);
        // Past the cache where that is possible, whatever is asked for.
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
        read.map(|()| Some(StoredFile { len: reader.len(), digest: hasher.finish() }))
    }

    /// Makes the directories from the place to `dir` that are missing.
    fn make_dirs(&self, dir: &Path) -> Result<(), AioError> {
        let Ok(below) = dir.strip_prefix(&self.dir) else { return Ok(()) };
        let mut path = self.dir.clone();
        for part in below.components() {
            path.push(part);
            if self.settled.lock().contains(&path) || self.aio.namespace().exists(&path)? {
                continue;
            }
            match self.aio.namespace().mkdir(&path) {
                Err(e) if e.errno() != Some(Errno::EXIST) => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the names in `dir` durable, and that of `dir` itself if that is not known.
    pub fn settle_names(&self, dir: &Path) -> Result<(), AioError> {
        forebay_aio::planted_bug!(self.aio, ArchiveNamesNotSynced, return Ok(()));
        // From the top: a directory is found again only if all above it are.
        let mut unknown: Vec<&Path> = Vec::new();
        for dir in dir.ancestors().take_while(|dir| dir.starts_with(&self.dir)) {
            if !self.settled.lock().contains(dir) {
                unknown.push(dir);
            }
        }
        for dir in unknown.into_iter().rev() {
            forebay_aio::planted_bug!(self.aio, ArchiveParentNotSynced, continue);
            let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
            if let Some(parent) = parent {
                match self.aio.namespace().sync_dir(parent) {
                    // The place itself may be in a directory that is none of our business.
                    Err(e) if dir == self.dir && e.errno() == Some(Errno::ACCES) => {}
                    synced => synced?,
                }
            }
            self.settled.lock().insert(dir.to_path_buf());
        }
        self.aio.namespace().sync_dir(dir)
    }

    /// Removes temporary files that nobody writes any more, from the place's own directory. How
    /// many.
    pub fn clean(&self) -> Result<usize> {
        self.clean_in(&self.dir)
    }

    /// Removes temporary files that nobody writes any more. How many.
    pub fn clean_in(&self, dir: &Path) -> Result<usize> {
        let names = self.aio.namespace();
        let mut removed = 0;
        for entry in names.list(dir).map_err(ArchiveError::io("clean up", dir))? {
            let ours = entry.name.to_str().is_some_and(|name| name.starts_with(TEMPORARY));
            if !ours || entry.kind != FileKind::File {
                continue;
            }
            let path = dir.join(&entry.name);
            let cleaned = names.open(&path, &OpenOptions::READ_WRITE).and_then(|file| {
                // Held until it is removed. Where there are no locks, nobody can tell.
                let free = names.try_lock(&file).unwrap_or(false);
                if free { names.unlink(&path).map(|()| 1) } else { Ok(0) }
            });
            match cleaned {
                Ok(n) => removed += n,
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(ArchiveError::io("remove", &path)(e)),
            }
        }
        Ok(removed)
    }
}

/// A file on its way into a place. Dropped before its end, it leaves nothing behind.
#[derive(Debug)]
pub struct Incoming<'p> {
    place: &'p Place,
    path: PathBuf,
    dir: PathBuf,
    /// None: it has its name, or is gone.
    temporary: Option<PathBuf>,
    file: File,
    flying: VecDeque<(OwnedIo, usize)>,
    /// Bytes that wait for more.
    fill: Option<(AlignedBuf, usize)>,
    /// Bytes taken so far.
    len: u64,
    /// The file is longer than that, since it is written in whole blocks.
    padded: bool,
    buffers: Buffers,
}

impl Incoming<'_> {
    /// Bytes taken so far.
    pub fn len(&self) -> u64 {
        self.len + self.fill.as_ref().map_or(0, |(_, n)| *n as u64)
    }

    /// None so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets room aside for so many bytes: if there is none, that is known before anything is
    /// written.
    pub fn reserve(&self, len: u64) -> Result<()> {
        if len <= CHUNK as u64 {
            return Ok(());
        }
        match self.place.aio.namespace().reserve(&self.file, 0, len) {
            // Some file systems can't.
            Err(e) if e.errno() == Some(Errno::OPNOTSUPP) => Ok(()),
            reserved => reserved.map_err(ArchiveError::io("store", &self.path)),
        }
    }

    /// Takes the first `len` bytes of a buffer, and the buffer with them. All but the last come in
    /// whole blocks of 4096 bytes.
    pub fn put(&mut self, io: &mut Backend, buf: AlignedBuf, len: usize) -> Result<()> {
        if self.fill.is_some() || self.padded || !self.len.is_multiple_of(IO_ALIGN as u64) {
            let misuse = AioError::Misuse("a buffer follows a part of a block");
            return Err(ArchiveError::io("store", &self.path)(misuse));
        }
        self.write_out(io, buf, len).map_err(ArchiveError::io("store", &self.path))
    }

    /// Takes some bytes.
    pub fn write(&mut self, io: &mut Backend, bytes: &[u8]) -> Result<()> {
        self.write_some(io, bytes).map_err(ArchiveError::io("store", &self.path))
    }

    fn write_some(&mut self, io: &mut Backend, mut bytes: &[u8]) -> Result<(), AioError> {
        while !bytes.is_empty() {
            let (mut buf, used) = match self.fill.take() {
                Some(fill) => fill,
                None => (self.buffers.take()?, 0),
            };
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - used));
            if let Some(room) = buf.get_mut(used..used + now.len()) {
                room.copy_from_slice(now);
            }
            let used = used + now.len();
            bytes = later;
            if used == CHUNK {
                self.write_out(io, buf, used)?;
            } else {
                self.fill = Some((buf, used));
            }
        }
        Ok(())
    }

    fn write_out(
        &mut self,
        io: &mut Backend,
        mut buf: AlignedBuf,
        len: usize,
    ) -> Result<(), AioError> {
        if len == 0 {
            self.buffers.give_back(buf);
            return Ok(());
        }
        let mut out = len;
        if self.file.is_direct() && !len.is_multiple_of(IO_ALIGN) {
            out = len.next_multiple_of(IO_ALIGN);
            if let Some(rest) = buf.get_mut(len..out) {
                rest.fill(0);
            }
            self.padded = true;
        }
        if self.flying.len() >= DEPTH {
            self.take_oldest(io)?;
        }
        let write = io.start_write(&self.file, self.len, buf, 0..out, Target::File);
        self.flying.push_back((write, out));
        self.len += len as u64;
        Ok(())
    }

    fn take_oldest(&mut self, io: &mut Backend) -> Result<(), AioError> {
        let Some((write, len)) = self.flying.pop_front() else { return Ok(()) };
        let (buf, wrote) = io.finish_owned(write);
        self.buffers.give_back(buf);
        match wrote {
            Ok(n) if n < len => {
                Err(AioError::os("write all of file", self.file.path(), Errno::NOSPC))
            }
            other => other.map(drop),
        }
    }

    /// Gives it its name if all went well so far, else removes it.
    pub fn end(self, io: &mut Backend, so_far: Result<()>) -> Result<Placed> {
        match so_far {
            Ok(()) => self.commit(io),
            Err(e) => {
                self.abandon(io);
                Err(e)
            }
        }
    }

    /// Makes it durable, and gives it its name, unless that is taken. Whatever goes wrong before
    /// leaves nothing behind.
    pub fn commit(mut self, io: &mut Backend) -> Result<Placed> {
        let placed = self.make_durable(io).and_then(|()| self.give_name());
        let placed = match placed {
            Ok(Placed::Stored) => self.place.settle_names(&self.dir).map(|()| Placed::Stored),
            other => other,
        };
        let path = self.path.clone();
        self.abandon(io);
        placed.map_err(ArchiveError::io("store", &path))
    }

    fn make_durable(&mut self, io: &mut Backend) -> Result<(), AioError> {
        if let Some((buf, used)) = self.fill.take() {
            self.write_out(io, buf, used)?;
        }
        while !self.flying.is_empty() {
            self.take_oldest(io)?;
        }
        let namespace = self.place.aio.namespace();
        if self.padded {
            namespace.set_len(&self.file, self.len)?;
        }
        forebay_aio::planted_bug!(self.place.aio, ArchiveFileNotSynced, return Ok(()));
        io.fsync(&self.file)?;
        if !self.file.is_direct() {
            // It is advice: others need the kernel's memory more than a file nobody reads.
            let _ = namespace.forget_cached(&self.file);
        }
        Ok(())
    }

    fn give_name(&mut self) -> Result<Placed, AioError> {
        let Some(temporary) = &self.temporary else { return Ok(Placed::Exists) };
        let namespace = self.place.aio.namespace();
        forebay_aio::planted_bug!(self.place.aio, ArchiveReplacesFile, {
            namespace.rename(temporary, &self.path)?;
            self.temporary = None;
            return Ok(Placed::Stored);
        });
        match namespace.rename_noreplace(temporary, &self.path) {
            Ok(()) => {
                self.temporary = None;
                Ok(Placed::Stored)
            }
            Err(e) if e.errno() == Some(Errno::EXIST) => Ok(Placed::Exists),
            Err(e) => Err(e),
        }
    }

    /// Gives it up: waits for what is in flight, and removes it.
    pub fn abandon(mut self, io: &mut Backend) {
        for (write, _) in std::mem::take(&mut self.flying) {
            let (buf, _) = io.finish_owned(write);
            self.buffers.give_back(buf);
        }
        self.remove();
    }

    fn remove(&mut self) {
        if let Some(temporary) = self.temporary.take()
            && let Err(e) = self.place.aio.namespace().unlink(&temporary)
            && !e.is_not_found()
        {
            tracing::warn!("could not remove a temporary file: {e}");
        }
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}
