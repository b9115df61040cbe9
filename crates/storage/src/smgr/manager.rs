//! The storage manager itself: names, existence, sizes and open files.

use super::extend_method::{ExtendMethod, Growing};
use super::fork::{ForkKey, RelFork, UNKNOWN_SIZE};
use super::sync_queue::SyncQueue;
use super::written::WrittenPages;
use crate::error::{StorageError, file_error, relation_path};
use forebay_aio::sync::RwLock;
use forebay_aio::{Aio, Errno, File, FileCache, IoObject, Namespace, OpenOptions, VirtualFile};
use forebay_format::ids::DEFAULT_TABLESPACE;
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageTag, RELSEG_BLOCKS, RelFileLocator};
use hashbrown::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SHARDS: usize = 32;
pub(super) const BLOCK: u64 = BLOCK_SIZE as u64;

/// How the storage manager handles relation files.
#[derive(Debug, Clone)]
pub struct SmgrConfig {
    /// Files bypass the kernel's page cache (io_direct contains `data`).
    pub direct: bool,
    /// Blocks in a segment file. Only tests use another value than the default.
    pub segment_blocks: u32,
    /// The most segment files that are open at once.
    pub max_open_files: usize,
    /// How files grow (file_extend_method).
    pub extend_method: ExtendMethod,
    /// Pages that the pool has written are recorded, and `BufferPool::sync_pending` reads them
    /// back.
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
    pub(super) aio: Arc<Aio>,
    dir: PathBuf,
    pub(super) config: SmgrConfig,
    pub(super) forks: Vec<RwLock<HashMap<ForkKey, Arc<RelFork>>>>,
    files: Arc<FileCache>,
    pub(super) sync: Arc<SyncQueue>,
    pub(super) written: Arc<WrittenPages>,
    /// How files grow; shared with the managers of temporary relations.
    pub(super) growing: Arc<Growing>,
    /// The backend whose temporary relations these are; None for permanent relations.
    owner: Option<i32>,
}

impl Smgr {
    /// Makes a storage manager for the data directory `dir`.
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

    /// Makes a storage manager for the temporary relations of backend `owner`. It shares the data
    /// directory and the budget of open files.
    pub fn temporary(&self, owner: i32) -> Arc<Smgr> {
        Arc::new(Smgr {
            aio: Arc::clone(&self.aio),
            dir: self.dir.clone(),
            config: self.config.clone(),
            forks: (0..SHARDS).map(|_| RwLock::new(HashMap::new())).collect(),
            files: Arc::clone(&self.files),
            sync: Arc::new(SyncQueue::disabled(self.config.segment_blocks)),
            written: Arc::new(WrittenPages::new(false)),
            growing: Arc::clone(&self.growing),
            owner: Some(owner),
        })
    }

    /// The backend whose temporary relations these are, if they are temporary.
    pub(crate) fn owner(&self) -> Option<i32> {
        self.owner
    }

    /// Whether the files are temporary relations of one backend.
    pub fn is_temporary(&self) -> bool {
        self.owner.is_some()
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.dir
    }

    /// Whether files are opened for direct I/O.
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

    /// The kind of object that statistics count the files' I/O under.
    pub(crate) fn object(&self) -> IoObject {
        if self.is_temporary() { IoObject::TempRelation } else { IoObject::Relation }
    }

    pub(crate) fn file_cache(&self) -> &Arc<FileCache> {
        &self.files
    }

    pub(super) fn namespace(&self) -> &dyn Namespace {
        self.aio.namespace().as_ref()
    }

    /// Returns the number of blocks from `block` to the end of its segment.
    pub(crate) fn room_in_segment(&self, block: BlockNumber) -> u32 {
        self.config.segment_blocks - block % self.config.segment_blocks
    }

    /// Returns the number of the segment that contains a block.
    pub(crate) fn segment_of(&self, block: BlockNumber) -> u32 {
        block / self.config.segment_blocks
    }

    /// Returns a block's offset in its segment file, in bytes.
    pub(crate) fn offset_in_segment(&self, block: BlockNumber) -> u64 {
        u64::from(block % self.config.segment_blocks) * BLOCK
    }

    /// Returns the name of the file that contains a page, relative to the data directory.
    pub(crate) fn file_name(&self, page: &PageTag) -> String {
        self.segment_name(page.rel, page.fork, self.segment_of(page.block))
    }

    /// Returns the name of a segment's file, relative to the data directory.
    pub(super) fn segment_name(&self, rel: RelFileLocator, fork: Fork, segment: u32) -> String {
        if self.owner.is_none() {
            return rel.segment_path(fork, segment);
        }
        let path = relation_path(rel, fork, self.owner);
        if segment == 0 { path } else { format!("{path}.{segment}") }
    }

    pub(crate) fn segment_path(&self, rel: RelFileLocator, fork: Fork, segment: u32) -> PathBuf {
        self.dir.join(self.segment_name(rel, fork, segment))
    }

    // ---- existence and size

    /// Whether the fork has a file.
    pub fn exists(&self, rel: RelFileLocator, fork: Fork) -> Result<bool, StorageError> {
        if self.fork(rel, fork).known_size().is_some() {
            return Ok(true);
        }
        let path = self.segment_path(rel, fork, 0);
        self.namespace().exists(&path).map_err(|e| file_error("stat", &path, &e))
    }

    /// Creates a fork's first file. With `redo` an existing file is kept, and missing directories
    /// are made. That of the database in another tablespace is made in any case.
    pub fn create(&self, rel: RelFileLocator, fork: Fork, redo: bool) -> Result<(), StorageError> {
        let entry = self.fork(rel, fork);
        let _lock = entry.extending.lock();
        if redo && entry.known_size().is_some() {
            return Ok(());
        }
        let path = self.segment_path(rel, fork, 0);
        if redo {
            self.make_directories(&path)?;
        } else if let Some(dir) = path.parent().filter(|_| rel.spc != DEFAULT_TABLESPACE) {
            self.ensure_directory(dir)?;
        }
        let existed =
            redo && self.namespace().exists(&path).map_err(|e| file_error("stat", &path, &e))?;
        let file = self.segment(&entry, 0)?;
        let made = if existed { file.open() } else { file.create(true) };
        made.map_err(|e| file_error("create", &path, &e))?;
        self.sync.request_segment(rel, fork, 0);
        self.sync.request_directory(&path);
        entry.set_size(if existed { UNKNOWN_SIZE } else { 0 });
        Ok(())
    }

    pub(super) fn make_directories(&self, file: &Path) -> Result<(), StorageError> {
        let missing: Vec<&Path> = file
            .ancestors()
            .skip(1)
            .take_while(|dir| {
                dir.starts_with(&self.dir) && !matches!(self.namespace().exists(dir), Ok(true))
            })
            .collect();
        for dir in missing.into_iter().rev() {
            self.ensure_directory(dir)?;
        }
        Ok(())
    }

    /// Makes a directory, if it is not there.
    fn ensure_directory(&self, dir: &Path) -> Result<(), StorageError> {
        match self.namespace().mkdir(dir) {
            Ok(()) => self.sync.request_directory(dir),
            Err(e) if e.errno() == Some(Errno::EXIST) => {}
            Err(e) => return Err(file_error("create directory", dir, &e)),
        }
        Ok(())
    }

    /// Returns the number of blocks in the fork.
    pub fn nblocks(&self, rel: RelFileLocator, fork: Fork) -> Result<BlockNumber, StorageError> {
        let entry = self.fork(rel, fork);
        if let Some(n) = entry.known_size() {
            return Ok(n);
        }
        let _lock = entry.extending.lock();
        self.size_locked(&entry)
    }

    /// Returns the number of blocks; the caller holds the extension lock.
    pub(crate) fn size_locked(&self, entry: &RelFork) -> Result<BlockNumber, StorageError> {
        if let Some(n) = entry.known_size() {
            return Ok(n);
        }
        let mut total = 0u32;
        for segment in 0.. {
            let path = self.segment_path(entry.rel, entry.fork, segment);
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

    /// Whether no sync is pending.
    pub fn nothing_to_sync(&self) -> bool {
        self.sync.is_empty()
    }

    /// Closes all files. A file with I/O in flight closes when the I/O ends.
    pub fn close_files(&self) {
        self.files.close_all();
    }

    /// The cache of open relation files.
    pub fn files(&self) -> &FileCache {
        &self.files
    }

    pub(super) fn shard(&self, rel: RelFileLocator) -> &RwLock<HashMap<ForkKey, Arc<RelFork>>> {
        &self.forks[rel.rel as usize % SHARDS]
    }

    /// Returns the entry of a fork, which is made at the first call.
    pub(crate) fn fork(&self, rel: RelFileLocator, fork: Fork) -> Arc<RelFork> {
        let shard = self.shard(rel);
        if let Some(entry) = shard.read().get(&(rel, fork)) {
            return Arc::clone(entry);
        }
        Arc::clone(
            shard.write().entry((rel, fork)).or_insert_with(|| Arc::new(RelFork::new(rel, fork))),
        )
    }

    /// Opens a segment's file. The second value tells whether this call created it.
    pub(crate) fn open_segment(
        &self,
        entry: &RelFork,
        segment: u32,
        create: bool,
    ) -> Result<(File, bool), StorageError> {
        if let Some(file) = entry.file(segment) {
            return Ok((file, false));
        }
        let file = self.segment(entry, segment)?;
        match file.open() {
            Err(e) if create && e.is_not_found() => match file.create(false) {
                Ok(opened) => Ok((opened, true)),
                Err(e) => Err(file_error("create", file.path(), &e)),
            },
            Ok(opened) => Ok((opened, false)),
            Err(e) => Err(file_error("open", file.path(), &e)),
        }
    }

    /// Returns the entry of a segment's file; ENOENT if the fork was removed.
    fn segment(&self, entry: &RelFork, segment: u32) -> Result<Arc<VirtualFile>, StorageError> {
        let path = || self.segment_path(entry.rel, entry.fork, segment);
        let options = OpenOptions::READ_WRITE.direct(self.config.direct);
        entry.segment(segment, || self.files.file(path(), options)).ok_or_else(|| {
            StorageError::File { operation: "open", file: path(), errno: Errno::NOENT }
        })
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
