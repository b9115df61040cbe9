//! The temporary files of a data directory: their names and totals.

use crate::smgr::Smgr;
use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use forebay_aio::sync::{Arc, RwLock};
use forebay_aio::{Aio, AioError, Errno, FileCache, IfFound, OpenOptions, VirtualFile};
use std::path::PathBuf;

/// The directory of the files, in a database's parent directory or a tablespace's.
pub(super) const DIRECTORY: &str = "pgsql_tmp";
/// The prefix of the files' names.
pub(super) const PREFIX: &str = "pgsql_tmp";

/// Totals of the temporary files that were removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TempStats {
    /// The number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The temporary files of one data directory.
pub struct TempFiles {
    pub(super) aio: Arc<Aio>,
    cache: Arc<FileCache>,
    pub(super) data_dir: PathBuf,
    /// False if the directory turns out to be on a file system without direct I/O.
    pub(super) direct: AtomicBool,
    pub(super) next: AtomicU64,
    /// Files are made and removed under the shared lock. True after [`Self::close`]: the directory
    /// may then belong to another engine.
    pub(super) closed: RwLock<bool>,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl TempFiles {
    /// Makes temporary files for the data directory of a storage manager. They share its budget of
    /// open files, and use direct I/O if its relations do. Nothing is created yet.
    pub fn new(smgr: &Smgr) -> Arc<TempFiles> {
        Arc::new(TempFiles {
            aio: Arc::clone(smgr.aio()),
            cache: Arc::clone(smgr.file_cache()),
            data_dir: smgr.data_dir().to_path_buf(),
            direct: AtomicBool::new(smgr.is_direct()),
            next: AtomicU64::new(0),
            closed: RwLock::new(false),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        })
    }

    /// Creates and opens the file. Its directory is created when it is first needed.
    pub(super) fn make(&self, name: &str) -> Result<VirtualFile, AioError> {
        let closed = self.closed.read();
        let path = self.data_dir.join(name);
        if *closed {
            return Err(AioError::os("create file", &path, Errno::CANCELED));
        }
        let mut made_directory = false;
        loop {
            let direct = self.direct.load(Relaxed);
            let file = self.cache.file(path.clone(), OpenOptions::READ_WRITE.direct(direct));
            match file.create(true) {
                Ok(_) => return Ok(file),
                Err(AioError::Direct(why)) if direct => {
                    // pgsql_tmp is a link to another file system: the data directory itself
                    // supports direct I/O.
                    tracing::warn!("temporary files are buffered by the kernel: {why}");
                    self.direct.store(false, Relaxed);
                    // The system creates the file before it finds that it cannot open it so.
                    self.aio.namespace().unlink(&path).if_found()?;
                }
                Err(error) if error.is_not_found() && !made_directory => {
                    made_directory = true;
                    self.make_directory()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn make_directory(&self) -> Result<(), AioError> {
        let made = self.aio.namespace().mkdir(&self.data_dir.join("base").join(DIRECTORY));
        made.or_else(|e| if e.errno() == Some(Errno::EXIST) { Ok(()) } else { Err(e) })
    }

    /// Returns the totals of the files that were removed.
    pub fn stats(&self) -> TempStats {
        TempStats { files: self.files.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }

    /// Sets [`Self::stats`] to zero.
    pub fn reset_stats(&self) {
        self.files.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
    }

    pub(super) fn count(&self, bytes: u64) {
        self.files.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

impl std::fmt::Debug for TempFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TempFiles").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
