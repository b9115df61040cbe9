//! Relation forks as files: `base/DB/REL`, `global/REL`, a fork's suffix, and segments of 1 GB (`.1`, `.2`, ...).
//!
//! | module | what it holds |
//! |---|---|
//! | `files` | [`RelFork`]: one fork's size, extension lock and segment files |
//! | `private` | relation files of one backend alone, and what is left of them after a crash |
//! | `sync` | [`SyncQueue`]: which files and directories must be synced before the next checkpoint is done |
//!
//! A fork's size is read from the file system once and then kept: all changes go through here. Segments before the
//! last are full. An I/O never crosses a segment border; whoever combines blocks asks [`Smgr::room_in_segment`].

mod files;
mod private;
mod sync;

pub(crate) use files::RelFork;
pub use private::remove_private_files;
pub(crate) use sync::SyncQueue;
pub use sync::SyncReport;

use crate::error::StorageError;
use files::{ForkKey, UNKNOWN_SIZE};
use forebay_aio::sync::RwLock;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::{
    self as aio, Aio, AioError, Errno, File, FileCache, Io, IoContext, IoFlags, IoMemory, IoObject, IoOp,
    Namespace, Op, OpenOptions, Target, VirtualFile,
};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, RELSEG_BLOCKS, RelFileLocator};
use hashbrown::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SHARDS: usize = 32;
const BLOCK: u64 = BLOCK_SIZE as u64;
/// Bytes of zeros written by one write where files cannot be allocated.
const ZEROS_AT_ONCE: u64 = 1 << 20;
/// Which part of its size a growing relation sets aside, and how many blocks at most (16 MB).
const RESERVE_SHARE: u32 = 8;
const RESERVE_MOST: u32 = 2048;

/// How relation files are handled.
#[derive(Debug, Clone)]
pub struct SmgrConfig {
    /// io_direct has `data`: files bypass the kernel's page cache.
    pub direct: bool,
    /// Blocks in a segment file; anything but the default is for tests.
    pub segment_blocks: u32,
    /// Most segment files open at once.
    pub max_open_files: usize,
}

impl Default for SmgrConfig {
    fn default() -> Self {
        SmgrConfig { direct: false, segment_blocks: RELSEG_BLOCKS, max_open_files: 1000 }
    }
}

/// The relation files of one data directory.
pub struct Smgr {
    aio: Arc<Aio>,
    dir: PathBuf,
    config: SmgrConfig,
    forks: Vec<RwLock<HashMap<ForkKey, Arc<RelFork>>>>,
    files: Arc<FileCache>,
    sync: Arc<SyncQueue>,
    /// Cleared when the file system turns out not to allocate; then zeros are written.
    allocates: AtomicBool,
    /// Whose files they are, if they are one backend's own (temporary relations).
    owner: Option<i32>,
}

impl Smgr {
    /// For the data directory `dir`.
    pub fn new(aio: Arc<Aio>, dir: &Path, config: SmgrConfig) -> Arc<Self> {
        let sync = Arc::new(SyncQueue::new(config.segment_blocks));
        let files = FileCache::new(Arc::clone(aio.namespace()), config.max_open_files);
        Arc::new(Smgr {
            aio,
            files,
            dir: dir.to_path_buf(),
            config,
            forks: (0..SHARDS).map(|_| RwLock::new(HashMap::new())).collect(),
            sync,
            allocates: AtomicBool::new(true),
            owner: None,
        })
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.dir
    }

    /// Are files opened for direct I/O?
    pub fn is_direct(&self) -> bool {
        self.config.direct
    }

    pub(crate) fn sync_queue(&self) -> &Arc<SyncQueue> {
        &self.sync
    }

    pub(crate) fn aio(&self) -> &Arc<Aio> {
        &self.aio
    }

    fn namespace(&self) -> &dyn Namespace {
        self.aio.namespace().as_ref()
    }

    /// Blocks from `block` to the end of its segment.
    pub fn room_in_segment(&self, block: BlockNumber) -> u32 {
        self.config.segment_blocks - block % self.config.segment_blocks
    }

    /// The name of the file that holds a block, relative to the data directory.
    pub fn file_name(&self, rel: RelFileLocator, fork: Fork, block: BlockNumber) -> String {
        self.segment_name(rel, fork, block / self.config.segment_blocks)
    }

    pub(crate) fn segment_path(&self, rel: RelFileLocator, fork: Fork, segment: u32) -> PathBuf {
        self.dir.join(self.segment_name(rel, fork, segment))
    }

    // ---- existence and size

    /// Does the fork have a file?
    pub fn exists(&self, rel: RelFileLocator, fork: Fork) -> Result<bool, StorageError> {
        if self.fork(rel, fork).known_size().is_some() {
            return Ok(true);
        }
        let path = self.segment_path(rel, fork, 0);
        self.namespace().exists(&path).map_err(|e| file_error("stat", &path, &e))
    }

    /// Creates a fork's first file. With `redo` an existing one, or a missing directory, is no error.
    pub fn create(&self, rel: RelFileLocator, fork: Fork, redo: bool) -> Result<(), StorageError> {
        let entry = self.fork(rel, fork);
        let _lock = entry.extending.lock();
        if redo && entry.known_size().is_some() {
            return Ok(());
        }
        let path = self.segment_path(rel, fork, 0);
        if redo {
            self.make_directories(&path)?;
        }
        let existed = redo && self.namespace().exists(&path).map_err(|e| file_error("stat", &path, &e))?;
        let file = self.segment(&entry, rel, fork, 0)?;
        let made = if existed { file.open() } else { file.create(true) };
        made.map_err(|e| file_error("create", &path, &e))?;
        self.sync.request_segment(rel, fork, 0);
        self.sync.request_directory(&path);
        entry.set_size(if existed { UNKNOWN_SIZE } else { 0 });
        Ok(())
    }

    fn make_directories(&self, file: &Path) -> Result<(), StorageError> {
        let missing: Vec<&Path> = file
            .ancestors()
            .skip(1)
            .take_while(|dir| dir.starts_with(&self.dir) && !matches!(self.namespace().exists(dir), Ok(true)))
            .collect();
        for dir in missing.into_iter().rev() {
            match self.namespace().mkdir(dir) {
                Ok(()) => self.sync.request_directory(dir),
                Err(e) if e.errno() == Some(Errno::EXIST) => {}
                Err(e) => return Err(file_error("create directory", dir, &e)),
            }
        }
        Ok(())
    }

    /// Blocks in the fork.
    pub fn nblocks(&self, rel: RelFileLocator, fork: Fork) -> Result<BlockNumber, StorageError> {
        let entry = self.fork(rel, fork);
        if let Some(n) = entry.known_size() {
            return Ok(n);
        }
        let _lock = entry.extending.lock();
        self.size_locked(&entry, rel, fork)
    }

    /// The size, under the extension lock.
    pub(crate) fn size_locked(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
    ) -> Result<BlockNumber, StorageError> {
        if let Some(n) = entry.known_size() {
            return Ok(n);
        }
        let mut total = 0u32;
        for segment in 0.. {
            let path = self.segment_path(rel, fork, segment);
            let stat = self.namespace().stat(&path).map_err(|e| file_error("stat", &path, &e))?;
            let Some(stat) = stat else {
                if segment == 0 {
                    let errno = Errno::NOENT;
                    return Err(StorageError::File { operation: "open", file: path, errno });
                }
                break;
            };
            let blocks = (stat.len / BLOCK).min(u64::from(self.config.segment_blocks)) as u32;
            total += blocks;
            if blocks < self.config.segment_blocks {
                break;
            }
        }
        entry.set_size(u64::from(total));
        Ok(total)
    }

    // ---- growing and shrinking

    /// Appends `n` blocks of zeros, and returns the first one's number. For files without pages in the pool.
    pub fn extend(
        &self,
        io: &mut aio::Backend,
        rel: RelFileLocator,
        fork: Fork,
        n: u32,
    ) -> Result<BlockNumber, StorageError> {
        io.submit();
        let entry = self.fork(rel, fork);
        let _lock = entry.extending.lock();
        let first = self.size_locked(&entry, rel, fork)?;
        self.grow_locked(io, &entry, rel, fork, first, n)?;
        entry.set_size(u64::from(first) + u64::from(n));
        Ok(first)
    }

    /// Makes room for blocks `first..first + n`, which read as zeros, under the extension lock. The new size is not
    /// published: the caller does, with [`RelFork::set_size`]. After an error the files have their old sizes.
    pub(crate) fn grow_locked(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        n: u32,
    ) -> Result<(), StorageError> {
        if u64::from(first) + u64::from(n) >= u64::from(u32::MAX) {
            return Err(StorageError::TooManyBlocks { relation: rel.path(fork) });
        }
        let mut at = first;
        while at < first + n {
            let count = self.room_in_segment(at).min(first + n - at);
            if let Err(error) = self.grow_segment(io, entry, rel, fork, at, count) {
                self.shrink_files(entry, rel, fork, first, at + count);
                return Err(error);
            }
            at += count;
        }
        Ok(())
    }

    fn grow_segment(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        at: BlockNumber,
        count: u32,
    ) -> Result<(), StorageError> {
        let segment = at / self.config.segment_blocks;
        let (file, created) = self.open_segment(entry, rel, fork, segment, segment > 0)?;
        let offset = u64::from(at % self.config.segment_blocks) * BLOCK;
        let len = u64::from(count) * BLOCK;
        let failed = |e: &AioError| StorageError::Extend {
            file: self.segment_name(rel, fork, segment),
            errno: e.errno().unwrap_or(Errno::IO),
        };
        if entry.reserved() >= u64::from(at) + u64::from(count) {
            self.namespace().set_len(&file, offset + len).map_err(|e| failed(&e))?;
        } else {
            self.allocate(io, entry, &file, at, count).map_err(|e| failed(&e))?;
        }
        self.sync.request_segment(rel, fork, segment);
        if created {
            self.sync.request_directory(file.path());
        }
        Ok(())
    }

    /// Allocates blocks at a file's end. For a relation of some size, sets aside more than asked for: an allocation
    /// waits until all I/O on the file has ended, so it had better be rare while the file is being filled.
    fn allocate(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        file: &File,
        at: BlockNumber,
        count: u32,
    ) -> Result<(), AioError> {
        let offset = u64::from(at % self.config.segment_blocks) * BLOCK;
        let len = u64::from(count) * BLOCK;
        let ahead = (at / RESERVE_SHARE).min(RESERVE_MOST).min(self.room_in_segment(at));
        if ahead > count && self.namespace().reserve(file, offset, u64::from(ahead) * BLOCK).is_ok() {
            entry.set_reserved(u64::from(at) + u64::from(ahead));
            return self.namespace().set_len(file, offset + len);
        }
        if self.allocates.load(Ordering::Relaxed) {
            match self.namespace().allocate(file, offset, len) {
                Err(e) if e.errno() == Some(Errno::OPNOTSUPP) => {
                    self.allocates.store(false, Ordering::Relaxed)
                }
                allocated => return allocated,
            }
        }
        let mut done = 0;
        while done < len {
            let zeros = aio::AlignedBuf::zeroed((len - done).min(ZEROS_AT_ONCE) as usize)?;
            io.write_all_at(file, offset + done, &zeros)?;
            done += zeros.len() as u64;
        }
        Ok(())
    }

    /// Takes back a growth that failed half-way: the files end at `keep` again.
    fn shrink_files(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        keep: BlockNumber,
        end: BlockNumber,
    ) {
        let per_segment = self.config.segment_blocks;
        // Cutting a file also gives back what was set aside behind its end.
        entry.set_reserved(0);
        for segment in keep / per_segment..=(end - 1) / per_segment {
            let start = segment * per_segment;
            let undone = if start >= keep && segment > 0 {
                self.sync.forget_segment(rel, fork, segment);
                entry.forget(segment);
                self.namespace().unlink(&self.segment_path(rel, fork, segment))
            } else {
                self.open_segment(entry, rel, fork, segment, false).map_or(Ok(()), |(file, _)| {
                    self.namespace().set_len(&file, u64::from(keep - start) * BLOCK)
                })
            };
            if let Err(error) = undone
                && !error.is_not_found()
            {
                tracing::warn!(%error, "could not take back a failed extension");
            }
        }
    }

    /// Cuts a fork to `n` blocks. Its later pages must be gone from the pool already.
    pub(crate) fn truncate_locked(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        n: BlockNumber,
    ) -> Result<(), StorageError> {
        let old = self.size_locked(entry, rel, fork)?;
        if n >= old {
            return Ok(());
        }
        entry.set_reserved(0);
        let per_segment = self.config.segment_blocks;
        // From the end, so that a crash or an error leaves no gap.
        for segment in (n / per_segment..=(old - 1) / per_segment).rev() {
            let keep = n.saturating_sub(segment * per_segment);
            let (file, _) = self.open_segment(entry, rel, fork, segment, false)?;
            entry.set_size(UNKNOWN_SIZE);
            self.namespace()
                .set_len(&file, u64::from(keep) * BLOCK)
                .map_err(|e| file_error("truncate", file.path(), &e))?;
            self.sync.request_segment(rel, fork, segment);
        }
        entry.set_size(u64::from(n));
        Ok(())
    }

    /// Removes all files of a relation; missing ones are no error. Its pages must be gone from the pool already.
    pub fn unlink(&self, rel: RelFileLocator) -> Result<(), StorageError> {
        for fork in Fork::ALL {
            let entry = self.fork(rel, fork);
            let _lock = entry.extending.lock();
            self.sync.forget(rel, fork);
            entry.set_size(UNKNOWN_SIZE);
            entry.remove();
            self.shard(rel).write().remove(&(rel, fork));
            for segment in 0.. {
                let path = self.segment_path(rel, fork, segment);
                // An I/O handle that has not been used again keeps its last file open: emptied, the file takes no space
                // however long that lasts. Should it fail, the space comes back later.
                let _ = self.namespace().open(&path, &OpenOptions::READ_WRITE.truncate());
                match self.namespace().unlink(&path) {
                    Ok(()) => {}
                    Err(e) if e.is_not_found() => break,
                    Err(e) => return Err(file_error("remove", &path, &e)),
                }
            }
        }
        Ok(())
    }

    // ---- transfers

    /// A read of blocks that lie in one segment, ready to be given a completion and started.
    pub(crate) fn read_io(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: IoMemory,
    ) -> Result<Io, StorageError> {
        let (file, offset, target) = self.place(rel, fork, first, memory.len())?;
        Ok(Io::read(file, offset, memory, target))
    }

    /// The open file that holds a block, and where in it.
    pub(crate) fn file_at(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        block: BlockNumber,
    ) -> Result<(File, u64), StorageError> {
        let (file, offset, _) = self.place(rel, fork, block, BLOCK_SIZE)?;
        Ok((file, offset))
    }

    /// A hint to the kernel that it should write back blocks that were written. None if it would be of no use.
    pub(crate) fn writeback_io(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        blocks: u32,
    ) -> Option<Io> {
        let len = blocks as usize * BLOCK_SIZE;
        // The file may be gone by now.
        let (file, offset, target) = self.place(rel, fork, first, len).ok()?;
        let hint = Op::SyncFileRange { offset, len: len as u64 };
        let flags = IoFlags { detached: true, ..IoFlags::default() };
        Some(Io::new(file, hint, target).flags(flags).account(
            IoObject::Relation,
            IoContext::Normal,
            IoOp::Writeback,
        ))
    }

    /// A write of blocks that lie in one segment. Whoever starts it must see to a sync request when it has ended.
    pub(crate) fn write_io(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: IoMemory,
    ) -> Result<Io, StorageError> {
        let (file, offset, target) = self.place(rel, fork, first, memory.len())?;
        Ok(Io::write(file, offset, memory, target))
    }

    fn place(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        block: BlockNumber,
        len: usize,
    ) -> Result<(File, u64, Target), StorageError> {
        let count = (len / BLOCK_SIZE) as u32;
        debug_assert!(count >= 1 && count <= self.room_in_segment(block) && len.is_multiple_of(BLOCK_SIZE));
        let entry = self.fork(rel, fork);
        let (file, _) = self.open_segment(&entry, rel, fork, block / self.config.segment_blocks, false)?;
        let offset = u64::from(block % self.config.segment_blocks) * BLOCK;
        let RelFileLocator { spc, db, rel } = rel;
        let temp = self.is_private();
        let target = Target::Smgr { spc, db, rel, fork: fork.suffix(), block, count, temp };
        Ok((file, offset, target))
    }

    /// Syncs every file and directory with a pending request: files asynchronously, several at once.
    pub fn sync_pending(&self, io: &mut aio::Backend) -> Result<SyncReport, StorageError> {
        sync::sync_pending(self, io)
    }

    /// True if nothing waits for a sync.
    pub fn nothing_to_sync(&self) -> bool {
        self.sync.is_empty()
    }

    /// Closes all files (those with I/O in flight close when it ends).
    pub fn close_files(&self) {
        self.files.close_all();
    }

    /// The relation files kept open.
    pub fn files(&self) -> &FileCache {
        &self.files
    }

    // ---- open files

    fn shard(&self, rel: RelFileLocator) -> &RwLock<HashMap<ForkKey, Arc<RelFork>>> {
        &self.forks[rel.rel as usize % SHARDS]
    }

    /// The entry of a fork; made when first asked for.
    pub(crate) fn fork(&self, rel: RelFileLocator, fork: Fork) -> Arc<RelFork> {
        let shard = self.shard(rel);
        if let Some(entry) = shard.read().get(&(rel, fork)) {
            return Arc::clone(entry);
        }
        Arc::clone(shard.write().entry((rel, fork)).or_default())
    }

    /// A segment's open file, and whether it was created now.
    pub(crate) fn open_segment(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        segment: u32,
        create: bool,
    ) -> Result<(File, bool), StorageError> {
        if let Some(file) = entry.file(segment) {
            return Ok((file, false));
        }
        let file = self.segment(entry, rel, fork, segment)?;
        match file.open() {
            Err(e) if create && e.is_not_found() => match file.create(false) {
                Ok(opened) => Ok((opened, true)),
                Err(e) => Err(file_error("create", file.path(), &e)),
            },
            Ok(opened) => Ok((opened, false)),
            Err(e) => Err(file_error("open", file.path(), &e)),
        }
    }

    /// The entry of a segment's file; ENOENT if the fork was removed.
    fn segment(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        segment: u32,
    ) -> Result<Arc<VirtualFile>, StorageError> {
        let path = || self.segment_path(rel, fork, segment);
        let options = OpenOptions::READ_WRITE.direct(self.config.direct);
        entry.segment(segment, || self.files.file(path(), options)).ok_or_else(|| StorageError::File {
            operation: "open",
            file: path(),
            errno: Errno::NOENT,
        })
    }
}

/// Names the operation and the file of an error from below.
pub(crate) fn file_error(operation: &'static str, path: &Path, error: &AioError) -> StorageError {
    StorageError::File { operation, file: path.to_path_buf(), errno: error.errno().unwrap_or(Errno::IO) }
}

impl std::fmt::Debug for Smgr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Smgr").field("dir", &self.dir).field("config", &self.config).finish_non_exhaustive()
    }
}
