//! Temporary relations of one session: a pool of its own (temp_buffers), over files of its own.
//!
//! It is a [`BufferPool`] like the shared one, so that everything that works on pages works on it:
//! reading, streams, extension, writing out. What differs:
//!
//! - files are named for the session's backend (`base/5/t3_16384`) and never synced, and no log is
//!   flushed for them;
//! - nobody else knows the pool, so its locks are never waited for, and no checkpoint or cleaner
//!   looks at it: a dirty page is written when its buffer is wanted;
//! - its I/O counts as that of temporary relations, whatever the strategy; wrong checksums count
//!   with everyone's.
//!
//! The memory is mapped when the pool is made, and takes none until pages are used.

use crate::Backend;
use crate::error::StorageError;
use crate::pool::{BufferPool, PoolConfig};
use crate::smgr::Smgr;
use forebay_aio::sync::Mutex;
use forebay_format::{Fork, RelFileLocator};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

/// The temporary relations of one session.
pub struct LocalPool {
    pool: Arc<BufferPool>,
    relations: Mutex<BTreeSet<RelFileLocator>>,
}

impl LocalPool {
    /// A pool of `buffers` pages (at least 16) beside the shared one, for the session of backend
    /// `owner`. No two sessions may have the same number at one time.
    pub fn new(shared: &BufferPool, owner: i32, buffers: usize) -> Result<Self, StorageError> {
        let pool = LocalPool::pool(shared, shared.smgr.private(owner), buffers)?;
        Ok(LocalPool { pool, relations: Mutex::default() })
    }

    fn pool(
        like: &BufferPool,
        smgr: Arc<Smgr>,
        buffers: usize,
    ) -> Result<Arc<BufferPool>, StorageError> {
        let config = PoolConfig { buffers, ..like.config.clone() };
        let failures = Arc::clone(&like.core.checksum_failures);
        BufferPool::counting(config, Arc::clone(&like.aio), smgr, failures)
    }

    /// Has a page ever been in a buffer? From then on the number of buffers is what it is.
    pub fn is_used(&self) -> bool {
        self.pool.stats().allocated > 0
    }

    /// Gives a pool that was never used another number of buffers.
    pub fn resize(&mut self, buffers: usize) -> Result<(), StorageError> {
        if !self.is_used() {
            self.pool = LocalPool::pool(&self.pool, Arc::clone(&self.pool.smgr), buffers)?;
        }
        Ok(())
    }

    /// Makes the main fork of a relation. A file that an earlier session of the same number left is
    /// in the way of nobody: it is removed.
    pub fn create(&self, be: &mut Backend, rel: RelFileLocator) -> Result<(), StorageError> {
        let new = self.relations.lock().insert(rel);
        if new {
            self.pool.drop_relation(be, rel)?;
        }
        self.pool.smgr.create(rel, Fork::Main, false)
    }

    /// Removes a relation with all its forks. The caller holds no pin on it.
    pub fn drop_relation(&self, be: &mut Backend, rel: RelFileLocator) -> Result<(), StorageError> {
        self.pool.drop_relation(be, rel)?;
        self.relations.lock().remove(&rel);
        Ok(())
    }

    /// Removes all relations: the session ends. Goes on after an error, and returns the first.
    pub fn clear(&self, be: &mut Backend) -> Result<(), StorageError> {
        let all: Vec<_> = self.relations.lock().iter().copied().collect();
        let mut result = Ok(());
        for rel in all {
            result = result.and(self.drop_relation(be, rel));
        }
        result
    }

    /// The relations that there are.
    pub fn relations(&self) -> Vec<RelFileLocator> {
        self.relations.lock().iter().copied().collect()
    }
}

/// Where a pool is wanted, for pages of temporary relations.
impl Deref for LocalPool {
    type Target = Arc<BufferPool>;

    fn deref(&self) -> &Arc<BufferPool> {
        &self.pool
    }
}

impl std::fmt::Debug for LocalPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalPool").field("pool", &self.pool).finish_non_exhaustive()
    }
}
