//! Relation forks as files: `base/DB/REL`, `global/REL`, a fork's suffix, and segments of 1 GB
//! (`.1`, `.2`, ...).
//!
//! | module | what it holds |
//! |---|---|
//! | `files` | [`RelFork`]: one fork's size, extension lock and segment files |
//! | `grow` | [`ExtendMethod`]: blocks of zeros at a fork's end, and taking them back |
//! | `line` | those who want a fork to grow at the same time, served together |
//! | `shrink` | cutting and removing files, after what is in flight on them |
//! | `transfer` | [`Transfer`]: reads and writes of blocks, across segments |
//! | `private` | relation files of one backend alone, and what is left of them after a crash |
//! | `sync` | [`SyncQueue`]: which files and directories must be synced before the next checkpoint is done |
//! | `written` | [`WrittenPages`]: which pages are to be read back before it is done |
//!
//! A fork's size is read from the file system once and then kept: all changes go through here.
//! Segments before the last are full. An I/O never crosses a segment border; whoever combines
//! blocks asks [`Smgr::room_in_segment`], and [`Smgr::start_read`] and [`Smgr::start_write`] take
//! any range apart themselves.

mod files;
mod grow;
mod line;
mod private;
mod shrink;
mod sync;
mod transfer;
mod written;

pub(crate) use files::RelFork;
pub use grow::ExtendMethod;
pub(crate) use line::Turn;
pub use private::{database_dirs, remove_private_files};
pub(crate) use sync::SyncQueue;
pub use sync::SyncReport;
pub use transfer::Transfer;
pub(crate) use written::{Version, WrittenPages, WrittenRun};

use crate::error::StorageError;
use files::{ForkKey, UNKNOWN_SIZE};
use forebay_aio::sync::RwLock;
use forebay_aio::{
    self as aio, Aio, AioError, Errno, File, FileCache, IoObject, Namespace, OpenOptions,
    VirtualFile,
};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, RELSEG_BLOCKS, RelFileLocator};
use grow::Growing;
use hashbrown::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SHARDS: usize = 32;
const BLOCK: u64 = BLOCK_SIZE as u64;

/// How relation files are handled.
#[derive(Debug, Clone)]
pub struct SmgrConfig {
    /// io_direct has `data`: files bypass the kernel's page cache.
    pub direct: bool,
    /// Blocks in a segment file; anything but the default is for tests.
    pub segment_blocks: u32,
    /// Most segment files open at once.
    pub max_open_files: usize,
    /// file_extend_method: how files grow.
    pub extend_method: ExtendMethod,
    /// Pages that the pool has written are noted, and read back by
    /// [`BufferPool::sync_pending`](crate::BufferPool::sync_pending).
    pub verify_writes: bool,
}

impl Default for SmgrConfig {
    fn default() -> Self {
        SmgrConfig {
            direct: false,
            segment_blocks: RELSEG_BLOCKS,
            max_open_files: 1000,
            extend_method: ExtendMethod::default(),
            verify_writes: false,
        }
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
    written: Arc<WrittenPages>,
    /// How files grow; of all who share the directory.
    growing: Arc<Growing>,
    /// Whose files they are, if they are one backend's own (temporary relations).
    owner: Option<i32>,
}

impl Smgr {
    /// For the data directory `dir`.
    pub fn new(aio: Arc<Aio>, dir: &Path, config: SmgrConfig) -> Arc<Self> {
        let sync = Arc::new(SyncQueue::new(config.segment_blocks));
        let files = FileCache::new(Arc::clone(aio.namespace()), config.max_open_files);
        Arc::new(Smgr {
            growing: Arc::new(Growing::new(config.extend_method)),
            written: Arc::new(WrittenPages::new(config.verify_writes)),
            aio,
            files,
            dir: dir.to_path_buf(),
            config,
            forks: (0..SHARDS).map(|_| RwLock::new(HashMap::new())).collect(),
            sync,
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

    pub(crate) fn written(&self) -> &Arc<WrittenPages> {
        &self.written
    }

    pub(crate) fn aio(&self) -> &Arc<Aio> {
        &self.aio
    }

    /// As what the files' I/O is counted.
    pub(crate) fn object(&self) -> IoObject {
        if self.is_private() { IoObject::TempRelation } else { IoObject::Relation }
    }

    pub(crate) fn file_cache(&self) -> &Arc<FileCache> {
        &self.files
    }

    fn namespace(&self) -> &dyn Namespace {
        self.aio.namespace().as_ref()
    }

    /// Blocks from `block` to the end of its segment.
    pub fn room_in_segment(&self, block: BlockNumber) -> u32 {
        self.config.segment_blocks - block % self.config.segment_blocks
    }

    /// The number of the segment that has a block.
    pub(crate) fn segment_of(&self, block: BlockNumber) -> u32 {
        block / self.config.segment_blocks
    }

    /// Where a block is in its segment's file.
    pub(crate) fn offset_in_segment(&self, block: BlockNumber) -> u64 {
        u64::from(block % self.config.segment_blocks) * BLOCK
    }

    /// The name of the file that holds a block, relative to the data directory.
    pub fn file_name(&self, rel: RelFileLocator, fork: Fork, block: BlockNumber) -> String {
        self.segment_name(rel, fork, self.segment_of(block))
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

    /// Creates a fork's first file. With `redo` an existing one, or a missing directory, is no
    /// error.
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
        let existed =
            redo && self.namespace().exists(&path).map_err(|e| file_error("stat", &path, &e))?;
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
            .take_while(|dir| {
                dir.starts_with(&self.dir) && !matches!(self.namespace().exists(dir), Ok(true))
            })
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

    // ---- syncs and open files

    /// Syncs every file and directory with a pending request: files asynchronously, several at
    /// once.
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
        entry.segment(segment, || self.files.file(path(), options)).ok_or_else(|| {
            StorageError::File { operation: "open", file: path(), errno: Errno::NOENT }
        })
    }
}

/// Names the operation and the file of an error from below.
pub(crate) fn file_error(operation: &'static str, path: &Path, error: &AioError) -> StorageError {
    StorageError::File {
        operation,
        file: path.to_path_buf(),
        errno: error.errno().unwrap_or(Errno::IO),
    }
}

impl std::fmt::Debug for Smgr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Smgr")
            .field("dir", &self.dir)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
