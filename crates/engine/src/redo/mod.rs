//! Redo: what each record of the WAL did, done again.
//!
//! | file | holds |
//! |---|---|
//! | `error.rs` | [`RedoError`] |
//! | `context.rs` | [`RedoContext`]: what redo works on, and the counters it carries forward |
//! | `pages.rs` | bringing a record's page to where the record left it: images, LSN check, missing pages |
//! | `xlog.rs` | checkpoints, OID counter, full-page images |
//! | `xact.rs` | commit and abort |
//! | `clog.rs` | pages of `pg_xact` |
//! | `smgr.rs` | relation files created and truncated |
//! | `heap.rs` | heap, both resource managers of it |
//! | `standby.rs` | what only standbys need |
//!
//! Redo can be repeated from any point at or after the redo pointer: a page that is already newer
//! than a record is left alone. A record that is not understood is found by [`Registry::check`],
//! and stops recovery before anything is changed; a log that this engine wrote has none, a
//! directory left behind by another server may.
//!
//! Pages that a record wants to change but that do not exist are remembered: a later record must
//! drop or truncate their relation, else the log does not belong to these files.

mod clog;
mod context;
mod error;
mod heap;
mod pages;
mod smgr;
mod standby;
#[cfg(test)]
mod tests;
mod xact;
mod xlog;

pub use context::{Counters, RedoContext};
pub use error::RedoError;

use std::collections::HashMap;
use std::sync::Arc;

use forebay_format::Lsn;
use forebay_format::wal::{DecodedRecord, Rmgr};

/// A record with its place.
#[derive(Debug)]
pub struct RedoRecord<'a> {
    /// Its first byte.
    pub start: Lsn,
    /// Its end: the LSN of the pages it changed.
    pub end: Lsn,
    /// What it says.
    pub record: &'a DecodedRecord<'a>,
}

impl RedoRecord<'_> {
    /// A refusal: this kind of record is not redone here.
    pub fn unsupported(&self) -> RedoError {
        let header = &self.record.header;
        RedoError::Unsupported { rmgr: header.rmgr, info: header.info, lsn: self.start }
    }

    /// A refusal: the record says something impossible.
    pub fn damaged(&self, problem: impl Into<String>) -> RedoError {
        RedoError::Damaged {
            rmgr: self.record.header.rmgr,
            lsn: self.start,
            problem: problem.into(),
        }
    }

    /// What was logged as the record's kind, without the bits common to all.
    pub fn kind(&self) -> u8 {
        self.record.kind()
    }
}

/// Knows how to redo the records of one number.
pub trait ResourceManager: Send + Sync {
    /// The number.
    fn id(&self) -> Rmgr;
    /// Whether records of this kind can be redone, by the info bits of their header; asked before
    /// any record is. `redo` is not called for others.
    fn knows(&self, info: u8) -> bool {
        let _ = info;
        true
    }
    /// Does again what the record did. Before it removes or cuts files it calls
    /// [`RedoContext::before_files_go`].
    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError>;
}

/// The resource managers of an engine.
pub struct Registry {
    managers: HashMap<u8, Arc<dyn ResourceManager>>,
}

impl Registry {
    /// All that the engine itself brings.
    pub fn new() -> Registry {
        let mut registry = Registry { managers: HashMap::new() };
        registry.add(Arc::new(xlog::XlogManager));
        registry.add(Arc::new(xact::XactRedo));
        registry.add(Arc::new(clog::ClogManager));
        registry.add(Arc::new(smgr::SmgrManager));
        registry.add(Arc::new(standby::StandbyManager));
        registry.add(Arc::new(heap::HeapManager));
        registry.add(Arc::new(heap::Heap2Manager));
        registry
    }

    /// Adds a manager, in place of one of the same number.
    pub fn add(&mut self, manager: Arc<dyn ResourceManager>) {
        self.managers.insert(manager.id().0, manager);
    }

    /// Who redoes a record; an error if nobody does.
    fn manager(&self, record: &RedoRecord<'_>) -> Result<&dyn ResourceManager, RedoError> {
        let header = &record.record.header;
        let manager =
            self.managers.get(&header.rmgr.0).filter(|manager| manager.knows(header.info));
        manager.map(Arc::as_ref).ok_or_else(|| record.unsupported())
    }

    /// Whether a record can be redone here, as far as that can be told from the record: its kind,
    /// its images.
    pub fn check(&self, record: &RedoRecord<'_>) -> Result<(), RedoError> {
        self.manager(record)?;
        for image in record.record.blocks.iter().filter_map(|block| block.image) {
            image.check_method().map_err(|error| record.damaged(error.to_string()))?;
        }
        Ok(())
    }

    /// Redoes one record.
    pub fn redo(
        &self,
        record: &RedoRecord<'_>,
        ctx: &mut RedoContext<'_>,
    ) -> Result<(), RedoError> {
        let header = &record.record.header;
        let manager = self.manager(record)?;
        ctx.counters.advance_past(header.xid);
        manager.redo(record, ctx)
    }
}

/// Resource managers beside the engine's own: an embedder's, for its own records.
#[derive(Clone, Default)]
pub struct ResourceManagers(pub Vec<Arc<dyn ResourceManager>>);

impl std::fmt::Debug for ResourceManagers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|manager| manager.id())).finish()
    }
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::new()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("managers", &self.managers.len()).finish()
    }
}
