//! The temporary relations of one session: a buffer pool (temp_buffers) over files of their own.
//!
//! The pool is a [`BufferPool`], so reading, streams, extension and writing out work as they do on
//! the shared one. The differences:
//!
//! - Files are named for the session's backend (`base/5/t3_16384`). They are never synced, and no
//!   log is flushed for them.
//! - Only the session uses the pool, so nobody waits for its locks. Checkpointer and cleaner leave
//!   it alone: a dirty page is written when its buffer is reused.
//! - Its I/O counts as that of temporary relations, whatever the strategy. Wrong checksums count
//!   with those of the shared pool.
//!
//! The memory is mapped when the pool is made; the system provides it as pages are used.

use crate::error::StorageError;
use crate::pool::{Backend, BufferPool, PoolConfig};
use crate::smgr::Smgr;
use forebay_aio::sync::Mutex;
use forebay_format::{Fork, RelFileLocator};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The temporary relations of one session.
pub struct TempRelations {
    pool: Arc<BufferPool>,
    relations: Mutex<BTreeSet<RelFileLocator>>,
}

impl TempRelations {
    /// Makes a pool of `buffers` pages (at least 16) beside the shared one, for the session of
    /// backend `owner`. No two sessions may have the same number at one time.
    pub fn new(shared: &BufferPool, owner: i32, buffers: usize) -> Result<Self, StorageError> {
        let pool = make_pool(shared, shared.smgr.temporary(owner), buffers)?;
        Ok(TempRelations { pool, relations: Mutex::default() })
    }

    /// The pool that contains the relations' pages.
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// Whether a page has ever been in a buffer. The number of buffers is fixed from then on.
    pub fn is_used(&self) -> bool {
        self.pool.stats().allocated > 0
    }

    /// Changes the number of buffers of a pool that was never used.
    pub fn resize(&mut self, buffers: usize) -> Result<(), StorageError> {
        if !self.is_used() {
            self.pool = make_pool(&self.pool, Arc::clone(&self.pool.smgr), buffers)?;
        }
        Ok(())
    }

    /// Creates the main fork of a relation. Files that an earlier session of the same number left
    /// behind are removed.
    pub fn create(&self, backend: &mut Backend, rel: RelFileLocator) -> Result<(), StorageError> {
        let new = self.relations.lock().insert(rel);
        if new {
            self.pool.drop_relation(backend, rel)?;
        }
        self.pool.smgr.create(rel, Fork::Main, false)
    }

    /// Removes a relation with all its forks. The caller holds no pin on it.
    pub fn drop_relation(
        &self,
        backend: &mut Backend,
        rel: RelFileLocator,
    ) -> Result<(), StorageError> {
        self.pool.drop_relation(backend, rel)?;
        self.relations.lock().remove(&rel);
        Ok(())
    }

    /// Removes all relations, as the session ends. Continues after an error, and returns the first.
    pub fn clear(&self, backend: &mut Backend) -> Result<(), StorageError> {
        let mut result = Ok(());
        for rel in self.relations() {
            result = result.and(self.drop_relation(backend, rel));
        }
        result
    }

    /// Returns the relations that exist.
    pub fn relations(&self) -> Vec<RelFileLocator> {
        self.relations.lock().iter().copied().collect()
    }
}

fn make_pool(
    like: &BufferPool,
    smgr: Arc<Smgr>,
    buffers: usize,
) -> Result<Arc<BufferPool>, StorageError> {
    let config = PoolConfig { buffers, max_buffers: 0, ..like.config.clone() };
    let failures = Arc::clone(&like.core.checksum_failures);
    BufferPool::counting(config, Arc::clone(&like.aio), smgr, failures)
}

impl std::fmt::Debug for TempRelations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TempRelations").field("pool", &self.pool).finish_non_exhaustive()
    }
}
