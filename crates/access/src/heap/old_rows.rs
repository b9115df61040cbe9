//! The versions of a table's rows that go to a new file, page by page.
//!
//! The table is locked in mode `AccessExclusive`, so no other transaction changes it. Versions that
//! nobody sees any more are told too: the version before one may be waiting for it. Ids are frozen
//! as far as they can be.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::page::{Page, PageBytes};
use forebay_format::tuple::HeapTuple;
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, ItemPointer, OffsetNumber, PageTag, Xid};
use forebay_storage::{Backend, ReadStream, Strategy, StreamFlags};

use super::freeze::{Freezer, FrozenHeader, PageIds, Remaining};
use super::prune::Pruner;
use super::prune_plan::{Fact, Item, State};
use super::relation::Heap;
use super::tuple_at::{located, tuple_at};
use super::vacuum_job::VacuumJob;
use crate::error::AccessError;

/// Gives the stream its block numbers.
type NextBlock = Box<dyn FnMut() -> Option<BlockNumber> + Send>;

/// A version of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OldRow {
    /// Where it is.
    pub(crate) place: ItemPointer,
    number: OffsetNumber,
    /// Its header in the new file. None: nobody sees it.
    pub(crate) kept: Option<FrozenHeader>,
    /// Whether it was updated or deleted, and someone may still see it.
    pub(crate) recently_dead: bool,
    /// The transaction that replaced it, and the place of the version that did.
    pub(crate) successor: Option<(Xid, ItemPointer)>,
}

/// Reads the versions of a table's rows, to move them.
pub(crate) struct OldRows {
    pruner: Pruner,
    job: VacuumJob,
    stream: ReadStream<NextBlock>,
    tag: PageTag,
    page: Box<PageBytes>,
    found: Vec<OldRow>,
    /// Pages of the table.
    pub(crate) blocks: BlockNumber,
}

impl Heap {
    /// Begins to read them. The job tells whose snapshots count, and which ids are frozen.
    pub(crate) fn old_rows(&self, job: &VacuumJob) -> Result<OldRows, AccessError> {
        let blocks = self.pool.nblocks(self.locator, Fork::Main)?;
        let unknown = || AccessError::Internal("vacuum without transactions".to_owned());
        let mut pruner = self.pruner(job.kind, job.database, None).ok_or_else(unknown)?;
        pruner.sets.begin();
        pruner.raise_horizon(job.cutoffs.oldest_xid);
        let mut range = 0..blocks;
        let next_block: NextBlock = Box::new(move || range.next());
        let stream = ReadStream::new(
            &self.pool,
            self.locator,
            Fork::Main,
            next_block,
            StreamFlags::FULL,
            Strategy::BulkRead,
            job.stream,
        );
        Ok(OldRows {
            pruner,
            job: *job,
            stream,
            tag: self.tag(0),
            page: Box::new([0; BLOCK_SIZE]),
            found: Vec::new(),
            blocks,
        })
    }
}

impl OldRows {
    /// Moves to the next page. False at the end.
    pub(crate) fn next_page(&mut self, backend: &mut Backend) -> Result<bool, AccessError> {
        self.found.clear();
        let Some(pin) = self.stream.next(backend)? else { return Ok(false) };
        self.tag = pin.tag();
        self.page = pin.lock_shared().copy();
        drop(pin);
        let page = std::mem::replace(&mut self.page, Box::new([0; BLOCK_SIZE]));
        let judged = self.judge(backend, Page::new(&page));
        self.page = page;
        judged.map(|()| true)
    }

    /// The versions on the page.
    pub(crate) fn found(&self) -> &[OldRow] {
        &self.found
    }

    /// The tuple of one of them.
    pub(crate) fn tuple(&self, of: &OldRow) -> Result<HeapTuple<'_>, AccessError> {
        let tuple = tuple_at(Page::new(&self.page), self.tag, of.number)?;
        tuple.ok_or_else(|| AccessError::Internal("a copied row is gone".to_owned()))
    }

    fn judge(&mut self, backend: &mut Backend, page: Page<'_>) -> Result<(), AccessError> {
        if page.is_new() {
            return Ok(());
        }
        let tag = self.tag;
        let items = self.pruner.items(backend, page, tag.block)?;
        for (number, item) in (1..).zip(&items) {
            let Item::Tuple(fact) = *item else { continue };
            let Some(tuple) = tuple_at(page, tag, number)? else { continue };
            let row = self.row(backend, (tuple, fact), number);
            self.found.push(row.map_err(|error| located(tag, number, error))?);
        }
        self.pruner.spare = items;
        Ok(())
    }

    fn row(
        &mut self,
        backend: &mut Backend,
        (tuple, fact): (HeapTuple<'_>, Fact),
        number: OffsetNumber,
    ) -> Result<OldRow, AccessError> {
        let place = ItemPointer::new(self.tag.block, number);
        let recently_dead = match fact.state {
            State::Dead => {
                let (kept, recently_dead, successor) = (None, false, None);
                return Ok(OldRow { place, number, kept, recently_dead, successor });
            }
            State::Kept => false,
            State::RecentlyDead => true,
            State::BeingInserted => return Err(unlocked(fact.xmin)),
            State::BeingUpdated => return Err(unlocked(fact.updater.unwrap_or(fact.xmin))),
        };
        let cutoffs = &self.job.cutoffs;
        let Pruner { xacts, sets, .. } = &mut self.pruner;
        let (xid, multi) = (cutoffs.oldest_xid, cutoffs.oldest_multi);
        let mut ids = PageIds::new(Remaining { xid, multi });
        let mut freezer = Freezer { cutoffs, xacts, sets };
        let frozen = freezer.prepare(&mut backend.io, (tuple, fact), &mut ids)?;
        let header = frozen.header.unwrap_or_else(|| FrozenHeader::of(tuple));
        let moved_on = !tuple.moved_partitions() && tuple.ctid() != place;
        let successor = fact.updater.filter(|_| moved_on).map(|by| (by, tuple.ctid()));
        Ok(OldRow { place, number, kept: Some(header), recently_dead, successor })
    }
}

/// A transaction changes the table although it is locked.
#[cold]
fn unlocked(xid: Xid) -> AccessError {
    AccessError::Internal(format!("transaction {xid} changes a table that is being rewritten"))
}

impl std::fmt::Debug for OldRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OldRows").field("tag", &self.tag).finish_non_exhaustive()
    }
}
