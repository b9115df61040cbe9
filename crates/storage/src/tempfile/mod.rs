//! Temporary files, for sorts and whatever else does not fit into memory:
//! `base/pgsql_tmp/pgsql_tmpOWNER.N`.
//!
//! | module | what it holds |
//! |---|---|
//! | `file` | [`TempFile`]: a file that is written; it goes when nobody has it any more |
//! | `writer` | [`TempWriter`]: bytes in at the end, out as large writes, a bounded number of them in flight |
//! | `reader` | [`TempReader`]: bytes from any place on, with look-ahead that grows when a wait blocked |
//! | `space` | [`TempSpace`]: what one session has in such files, and may have (temp_file_limit) |
//! | `leftovers` | what a crash has left, removed at the start |
//!
//! ```text
//!   TempFiles::create -> TempWriter -> finish() -> TempFile -> reader(), reader_of(range), ... any number at a time
//! ```
//!
//! # Choices
//!
//! - OWNER is the number of the session, as pg_backend_pid() shows it; N goes on for the whole data
//!   directory, so that a number used again meets no old file. A name that is taken all the same is
//!   passed over.
//! - A file is not cut into pieces of 1 GB. PostgreSQL does that because its C library may have had
//!   short offsets; here it would only make pg_stat_database and log_temp_files count one thing
//!   several times.
//! - Bytes count against temp_file_limit when their write starts, as in PostgreSQL; files and bytes
//!   count for pg_stat_database when the file goes.
//! - A file for direct I/O ends with a whole aligned piece, zeros behind the last byte: cutting it
//!   to its size would pull that piece into the kernel's cache. How long it is its [`TempFile`]
//!   knows.
//! - pg_stat_io counts nothing of this: its "temp relation" is about temporary tables, and
//!   PostgreSQL leaves spill files out.
//! - Nothing is ever synced.

mod file;
mod leftovers;
mod reader;
mod space;
mod writer;

pub use file::TempFile;
pub use leftovers::LeftoverReport;
pub use reader::TempReader;
pub use space::TempSpace;
pub use writer::TempWriter;

use crate::error::StorageError;
use crate::smgr::{Smgr, file_error};
use file::Stored;
use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use forebay_aio::sync::{Arc, RwLock};
use forebay_aio::{Aio, AioError, AlignedBuf, Errno, FileCache, OpenOptions, VirtualFile};
use forebay_format::BLOCK_SIZE;
use std::path::{Path, PathBuf};

/// Where the files are, in a database's parent directory or a tablespace's.
const DIRECTORY: &str = "pgsql_tmp";
/// How the name of each begins.
const PREFIX: &str = "pgsql_tmp";

/// How a file is written or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TempOptions {
    /// Most blocks of one write or read (io_combine_limit).
    pub combine: u32,
    /// Writes in flight, or reads ahead; with 0 each is waited for at once
    /// (effective_io_concurrency).
    pub depth: u32,
}

impl Default for TempOptions {
    fn default() -> Self {
        TempOptions { combine: 16, depth: 4 }
    }
}

impl TempOptions {
    /// Bytes of one write, and the most of one read.
    fn bytes(self) -> usize {
        self.combine.clamp(1, 1024) as usize * BLOCK_SIZE
    }

    fn buffer(self) -> Result<AlignedBuf, StorageError> {
        Ok(AlignedBuf::zeroed(self.bytes())?)
    }
}

/// What temporary files came to; those that there are still are not in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TempStats {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The temporary files of one data directory.
pub struct TempFiles {
    aio: Arc<Aio>,
    cache: Arc<FileCache>,
    data_dir: PathBuf,
    /// Cleared if the directory turns out to be on a file system without direct I/O.
    direct: AtomicBool,
    next: AtomicU64,
    /// Names are given and taken under the shared lock. Set: the directory may be another engine's
    /// by now.
    closed: RwLock<bool>,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl TempFiles {
    /// In the data directory of the relation files, with open files out of the same budget, direct
    /// where they are. Nothing is made yet.
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

    /// Makes an empty file for the session `owner`.
    pub fn create(
        self: &Arc<Self>,
        owner: i32,
        space: &Arc<TempSpace>,
        options: TempOptions,
    ) -> Result<TempWriter, StorageError> {
        loop {
            let n = self.next.fetch_add(1, Relaxed);
            let name = format!("base/{DIRECTORY}/{PREFIX}{owner}.{n}");
            match self.make(&name) {
                Ok(file) => {
                    let stored = Stored::new(Arc::clone(self), name, file, Arc::clone(space));
                    return Ok(TempWriter::new(stored, options));
                }
                // Left by a crash, and could not be removed at the start.
                Err(error) if error.errno() == Some(Errno::EXIST) => {}
                Err(error) => return Err(file_error("create", Path::new(&name), &error)),
            }
        }
    }

    /// The file, open; its directory is made when it is first wanted.
    fn make(&self, name: &str) -> Result<VirtualFile, AioError> {
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
                    // pgsql_tmp is a link to elsewhere: the data directory itself can do direct
                    // I/O.
                    tracing::warn!("temporary files are buffered by the kernel: {why}");
                    self.direct.store(false, Relaxed);
                    // The system makes the file before it finds that it can't open it so.
                    match self.aio.namespace().unlink(&path) {
                        Err(error) if !error.is_not_found() => return Err(error),
                        _ => {}
                    }
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
        match self.aio.namespace().mkdir(&self.data_dir.join("base").join(DIRECTORY)) {
            Err(error) if error.errno() != Some(Errno::EXIST) => Err(error),
            _ => Ok(()),
        }
    }

    /// The engine stops: removes all files, whoever still has them, and makes no new ones. What is
    /// dropped later touches no name.
    pub fn close(&self) -> LeftoverReport {
        let mut closed = self.closed.write();
        if std::mem::replace(&mut *closed, true) {
            return LeftoverReport::default();
        }
        self.remove_leftovers()
    }

    /// What the files that have gone came to.
    pub fn stats(&self) -> TempStats {
        TempStats { files: self.files.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }

    /// Sets [`Self::stats`] to zero.
    pub fn reset_stats(&self) {
        self.files.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
    }

    fn count(&self, bytes: u64) {
        self.files.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

impl std::fmt::Debug for TempFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TempFiles").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
