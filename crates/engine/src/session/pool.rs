//! Sizes of relations, prewarming, and functions for single buffers.

use std::ops::Range;
use std::sync::Arc;

use forebay_catalog::{Reader, Table};
use forebay_format::{Fork, RelFileLocator};
use forebay_storage::{
    BufferPool, Dirtied, DirtyReport, EvictReport, Evicted, KernelCached, MemoryChecksums,
    PrewarmMode, Smgr,
};
use forebay_txn::locks::LockMode;
use forebay_types::Oid;

use super::index_checks::{IndexOfTable, index_of};
use super::state::Session;
use super::temp_tables::owner_number;
use crate::core::InDatabase;
use crate::error::EngineError;

/// The blocks of a fork to prewarm, as the user gave them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRange {
    /// The first one. None: the fork's first.
    pub first: Option<i64>,
    /// The last one. None: the fork's last.
    pub last: Option<i64>,
}

impl BlockRange {
    /// The range in a fork of `blocks` blocks.
    fn within(self, blocks: u32) -> Result<Range<u32>, EngineError> {
        let last = i64::from(blocks) - 1;
        let check = |word: &str, given: Option<i64>, default: i64| match given {
            None => Ok(default),
            Some(block) if (0..=last).contains(&block) => Ok(block),
            Some(_) => {
                let message = format!("{word} block number must be between 0 and {last}");
                Err(EngineError::statement("22023", message))
            }
        };
        let first = check("starting", self.first, 0)?;
        let end = check("ending", self.last, last)? + 1;
        // Both are block numbers now, or one more.
        Ok(u32::try_from(first).unwrap_or(u32::MAX)..u32::try_from(end).unwrap_or(u32::MAX))
    }
}

/// What a relation may consist of.
pub const ALL_FORKS: [Fork; 4] = [Fork::Main, Fork::Fsm, Fork::Vm, Fork::Init];

impl Session {
    /// Number of blocks of a fork of a table. None if it does not exist.
    pub fn fork_blocks(&mut self, table: &Table, fork: Fork) -> Result<Option<u32>, EngineError> {
        self.call(|session, core| {
            let pool = session.pool_to_look(core, table)?;
            fork_blocks(pool.smgr(), (table.temp, table.locator), fork)
        })
    }

    /// Number of blocks of some forks of an index. None if no index of a table has this OID.
    pub fn blocks_of_index(
        &mut self,
        oid: Oid,
        forks: &[Fork],
    ) -> Result<Option<u64>, EngineError> {
        self.call(|session, core| {
            let Some((table, index)) = session.index_by_oid(core, oid)? else { return Ok(None) };
            let pool = session.pool_to_look(core, &table)?;
            let of = (table.temp, index.locator);
            let mut blocks = 0;
            for fork in forks {
                blocks += u64::from(fork_blocks(pool.smgr(), of, *fork)?.unwrap_or(0));
            }
            Ok(Some(blocks))
        })
    }

    /// The pool of a table, or for another session's temporary table that of ordinary ones.
    fn pool_to_look(
        &mut self,
        core: &InDatabase,
        table: &Table,
    ) -> Result<Arc<BufferPool>, EngineError> {
        if self.owns(table) { self.pool_of(core, table) } else { Ok(Arc::clone(&core.pool)) }
    }

    /// Number of blocks of all forks of a table, its TOAST table and the index of that; and of its
    /// own indexes, if they are wanted.
    pub fn total_blocks(&mut self, table: &Table, indexes: bool) -> Result<u64, EngineError> {
        self.call(|session, core| {
            let pool = session.pool_to_look(core, table)?;
            let mut files = vec![table.locator];
            if indexes {
                files.extend(table.indexes.iter().map(|index| index.locator));
            }
            if let Some(toast) = table.toasting.relation {
                let toast = session.toast_relation(core, toast)?;
                files.push(toast.locator);
                files.extend(toast.indexes.iter().map(|index| index.locator));
            }
            let mut blocks = 0;
            for file in files {
                for fork in ALL_FORKS {
                    let found = fork_blocks(pool.smgr(), (table.temp, file), fork)?;
                    blocks += u64::from(found.unwrap_or(0));
                }
            }
            Ok(blocks)
        })
    }

    /// Loads a table into memory. Returns the number of blocks.
    pub fn prewarm(&mut self, table: &Table, mode: PrewarmMode) -> Result<u64, EngineError> {
        self.prewarm_range(table, mode, Fork::Main, BlockRange::default())
    }

    /// Loads blocks of a fork of a table into memory. Returns their number. A lock protects the
    /// table from being dropped meanwhile.
    pub fn prewarm_range(
        &mut self,
        table: &Table,
        mode: PrewarmMode,
        fork: Fork,
        blocks: BlockRange,
    ) -> Result<u64, EngineError> {
        self.call(|session, core| {
            let pool = session.pool_of(core, table)?;
            session.lock_table(core, table, LockMode::AccessShare)?;
            session.load_range(&pool, (table.temp, table.locator), mode, fork, blocks)
        })
    }

    /// The same for an index. None if no index of a table has this OID.
    pub fn prewarm_index(
        &mut self,
        oid: Oid,
        mode: PrewarmMode,
        fork: Fork,
        blocks: BlockRange,
    ) -> Result<Option<u64>, EngineError> {
        self.call(|session, core| {
            let Some((table, _)) = session.index_by_oid(core, oid)? else { return Ok(None) };
            let pool = session.pool_of(core, &table)?;
            session.lock_table(core, &table, LockMode::AccessShare)?;
            // It may have been dropped or rebuilt meanwhile.
            let Some((table, index)) = session.index_by_oid(core, oid)? else { return Ok(None) };
            session.load_range(&pool, (table.temp, index.locator), mode, fork, blocks).map(Some)
        })
    }

    /// An index with its table. None if no index of a table has this OID.
    fn index_by_oid(
        &mut self,
        core: &InDatabase,
        oid: Oid,
    ) -> Result<Option<IndexOfTable>, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        match reader.class(oid)?.filter(|class| class.kind == b'i') {
            Some(class) => index_of(&mut reader, &class),
            None => Ok(None),
        }
    }

    /// Loads blocks of a fork of a locked relation into memory.
    fn load_range(
        &mut self,
        pool: &Arc<BufferPool>,
        of: (Option<u32>, RelFileLocator),
        mode: PrewarmMode,
        fork: Fork,
        blocks: BlockRange,
    ) -> Result<u64, EngineError> {
        let Some(size) = fork_blocks(pool.smgr(), of, fork)? else {
            let message = format!("fork \"{}\" does not exist for this relation", fork.name());
            return Err(EngineError::statement("22023", message));
        };
        let range = blocks.within(size)?;
        if range.is_empty() {
            return Ok(0);
        }
        Ok(forebay_storage::prewarm(pool, &mut self.backend, of.1, fork, range, mode)?)
    }

    /// Evicts the page in a buffer, unless it is in use. Buffers are numbered from 0. None if there
    /// is no such buffer.
    pub fn evict_buffer(&mut self, buffer: u32) -> Result<Option<Evicted>, EngineError> {
        self.call(|session, core| Ok(core.pool.evict_buffer(&mut session.backend, buffer)?))
    }

    /// Evicts the pages of a table, except those in use.
    pub fn evict_table(&mut self, table: &Table) -> Result<EvictReport, EngineError> {
        shared_only(table, "pg_buffercache_evict_relation")?;
        self.call(|session, core| {
            session.lock_table(core, table, LockMode::AccessShare)?;
            Ok(core.pool.evict_relation(&mut session.backend, table.locator)?)
        })
    }

    /// Evicts all pages, except those in use.
    pub fn evict_all(&mut self) -> Result<EvictReport, EngineError> {
        self.call(|session, core| Ok(core.pool.evict_unused(&mut session.backend)?))
    }

    /// Marks the page in a buffer dirty, unless it is in use. Buffers are numbered from 0. None if
    /// there is no such buffer.
    pub fn dirty_buffer(&mut self, buffer: u32) -> Result<Option<Dirtied>, EngineError> {
        self.call(|_, core| Ok(core.pool.dirty_buffer(buffer)))
    }

    /// Marks the pages of a table in memory dirty, except those in use.
    pub fn dirty_table(&mut self, table: &Table) -> Result<DirtyReport, EngineError> {
        shared_only(table, "pg_buffercache_mark_dirty_relation")?;
        self.call(|session, core| {
            session.lock_table(core, table, LockMode::AccessShare)?;
            Ok(core.pool.dirty_pages(Some(table.locator)))
        })
    }

    /// Marks all pages in memory dirty, except those in use.
    pub fn dirty_all(&mut self) -> Result<DirtyReport, EngineError> {
        self.call(|_, core| Ok(core.pool.dirty_pages(None)))
    }

    /// Computes the checksums of all pages in memory, and compares those of clean ones.
    pub fn verify_memory(&mut self) -> Result<MemoryChecksums, EngineError> {
        self.call(|session, core| {
            let found = core.pool.verify_memory(&mut session.backend);
            for tag in &found.failed {
                let relation = tag.rel.path(tag.fork);
                tracing::warn!(
                    "wrong checksum in memory: block {} of relation \"{relation}\"",
                    tag.block
                );
            }
            Ok(found)
        })
    }

    /// The part of a table's files that the kernel caches.
    pub fn kernel_cache(&mut self, table: &Table) -> Result<Vec<KernelCached>, EngineError> {
        self.call(|session, core| {
            session.lock_table(core, table, LockMode::AccessShare)?;
            Ok(session.pool_of(core, table)?.kernel_cache(table.locator)?)
        })
    }
}

/// Refuses a temporary table, which is not in the shared pool.
fn shared_only(table: &Table, function: &str) -> Result<(), EngineError> {
    if !table.is_temporary() {
        return Ok(());
    }
    let message = format!(
        "relation uses local buffers, {function}() is intended to be used for shared buffers only"
    );
    Err(EngineError::statement("22023", message))
}

fn fork_blocks(
    smgr: &Smgr,
    (temp, file): (Option<u32>, RelFileLocator),
    fork: Fork,
) -> Result<Option<u32>, EngineError> {
    // Another session's temporary table: only its files are read.
    let owner = temp.filter(|_| !smgr.is_temporary());
    let theirs = owner.map(|slot| smgr.temporary(owner_number(slot)));
    let smgr = theirs.as_deref().unwrap_or(smgr);
    let exists = smgr.exists(file, fork)?;
    Ok(if exists { Some(smgr.nblocks(file, fork)?) } else { None })
}
