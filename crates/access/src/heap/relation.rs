//! A heap relation with what is needed to work on it.

use std::sync::Arc;

use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageTag, RelFileLocator};
use forebay_storage::{Backend, BufferPool};
use forebay_wal::Wal;

use super::critical::PageFailure;
use super::outcomes::Outcomes;
use super::space::{RelationSpace, SpaceMap};
use crate::error::AccessError;

/// More than any heap record takes in the log: images of two pages and of their pages of the map.
const RECORD_ROOM: u64 = 5 * 8192;

/// A relation's main fork with what is needed to work on it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Heap {
    /// The relation.
    pub locator: RelFileLocator,
    /// Its pages.
    pub pool: Arc<BufferPool>,
    /// The log of changes.
    pub wal: Arc<Wal>,
    /// Whether changes are logged: not those of a temporary table.
    pub logged: bool,
    /// Outcomes of transactions.
    pub outcomes: Outcomes,
    /// Blocks with room.
    pub space: Arc<RelationSpace>,
    /// How full insertions make a page, in percent (fillfactor).
    pub fill_factor: usize,
    /// Stops the engine if a page was changed and the change could not be logged.
    pub failure: Arc<dyn PageFailure>,
}

/// What the heaps of an engine share.
#[derive(Debug)]
pub struct Heaps {
    /// Shared pages.
    pub pool: Arc<BufferPool>,
    /// The log of changes.
    pub wal: Arc<Wal>,
    /// Outcomes of transactions.
    pub outcomes: Outcomes,
    /// Blocks with room, by relation.
    pub spaces: SpaceMap,
    /// Stops the engine if a page was changed and the change could not be logged.
    pub failure: Arc<dyn PageFailure>,
}

impl Heaps {
    /// The heap of a relation whose pages are in the shared pool.
    pub fn open(&self, locator: RelFileLocator, logged: bool) -> Heap {
        Heap {
            locator,
            pool: Arc::clone(&self.pool),
            wal: Arc::clone(&self.wal),
            logged,
            outcomes: self.outcomes.clone(),
            space: self.spaces.relation(locator),
            fill_factor: 100,
            failure: Arc::clone(&self.failure),
        }
    }
}

impl Heap {
    /// The same heap, with all that a running engine knows of transactions.
    #[must_use]
    pub fn with_outcomes(self, outcomes: Outcomes) -> Heap {
        Heap { outcomes, ..self }
    }

    /// Makes sure, before a page is locked, that the log has room for a new row.
    pub(super) fn ensure_log_room(&self, backend: &mut Backend) -> Result<(), AccessError> {
        if self.logged {
            self.wal.ensure_room(&mut backend.io, RECORD_ROOM)?;
        }
        Ok(())
    }

    /// The same for a deletion, which may use the log's reserve: on a full disk deletions make
    /// room.
    pub(super) fn ensure_log_room_to_delete(
        &self,
        backend: &mut Backend,
    ) -> Result<(), AccessError> {
        if self.logged {
            self.wal.ensure_room_to_free_space(&mut backend.io, RECORD_ROOM)?;
        }
        Ok(())
    }

    /// Bytes of a page that insertions leave to updates of its rows.
    pub(super) fn kept_free(&self) -> usize {
        assert!((10..=100).contains(&self.fill_factor), "fill factor {}", self.fill_factor);
        BLOCK_SIZE * (100 - self.fill_factor) / 100
    }

    pub(super) fn tag(&self, block: BlockNumber) -> PageTag {
        PageTag::new(self.locator, Fork::Main, block)
    }
}
