//! The versions of a table's rows that a new index leads to.
//!
//! If the table is locked in mode `Share` at least, no other transaction that changes it runs.
//! Otherwise the index leads to what a snapshot sees ([`IndexableScan::seen_by`]).
//! An entry leads to the root of its version's HOT chain. A version that is dead for some but not
//! for all gets an entry too, unless a newer one of its chain does: then transactions that may see
//! the older one must not use the index.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::page::{ItemState, Page, PageBytes};
use forebay_format::tuple::HeapTuple;
use forebay_format::{
    BlockNumber, CommandId, Fork, FullXid, ItemPointer, OffsetNumber, Oid, PageTag, Xid,
};
use forebay_storage::{Backend, ReadStream, Strategy, StreamFlags, StreamSettings};
use forebay_txn::{HorizonKind, RemovableTest};

use super::changer::Changer;
use super::relation::Heap;
use super::scan::ReadAhead;
use super::status::{Fate, TupleStatus, tuple_status, updater};
use super::tuple_at::{located, tuple_at};
use super::visibility::Visibility;
use crate::error::AccessError;

/// Gives the stream its block numbers.
type NextBlock = Box<dyn FnMut() -> Option<BlockNumber> + Send>;

/// A version that gets an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexable {
    /// Where the entry leads.
    pub root: ItemPointer,
    /// The version's line pointer on the page.
    number: OffsetNumber,
    /// Whether it is live, so that its key must be unique.
    pub live: bool,
}

/// Reads the versions that a new index leads to, page by page.
pub struct IndexableScan<'a> {
    heap: &'a Heap,
    changer: Changer<'a>,
    removable: RemovableTest,
    /// Decides, if others may change the table.
    visibility: Option<Visibility>,
    stream: ReadStream<NextBlock>,
    tag: PageTag,
    page: Box<PageBytes>,
    found: Vec<Indexable>,
    /// Pages of the table.
    pub blocks: BlockNumber,
    /// Live rows so far.
    pub live: u64,
    /// Whether an older version was left out whose HOT chain has a newer one.
    pub broken_chain: bool,
}

impl Heap {
    /// Begins to read them for a transaction in `database` that has the id `own`.
    pub fn indexable<'a>(
        &'a self,
        mut changer: Changer<'a>,
        (kind, database, own): (HorizonKind, Oid, Option<FullXid>),
        ahead: ReadAhead,
    ) -> Result<IndexableScan<'a>, AccessError> {
        // All that the transaction did by now counts.
        changer.author.command = CommandId::MAX;
        let blocks = self.pool.nblocks(self.locator, Fork::Main)?;
        let mut range = 0..blocks;
        let next_block: NextBlock = Box::new(move || range.next());
        let stream = ReadStream::new(
            &self.pool,
            self.locator,
            Fork::Main,
            next_block,
            StreamFlags::FULL,
            Strategy::BulkRead,
            StreamSettings::new(ahead.io_concurrency, ahead.combine_limit),
        );
        Ok(IndexableScan {
            heap: self,
            changer,
            removable: RemovableTest::new(kind, database, own),
            visibility: None,
            stream,
            tag: PageTag::new(self.locator, Fork::Main, 0),
            page: Box::new([0; forebay_format::BLOCK_SIZE]),
            found: Vec::new(),
            blocks,
            live: 0,
            broken_chain: false,
        })
    }
}

/// What becomes of a version.
enum Entry {
    /// It gets none.
    None,
    /// It gets one.
    Made { live: bool },
}

impl IndexableScan<'_> {
    /// Reads what a snapshot sees, while others may change the table.
    #[must_use]
    pub fn seen_by(mut self, mut visibility: Visibility) -> Self {
        visibility.keep_multis();
        self.visibility = Some(visibility);
        self
    }

    /// The block of the page.
    pub fn block(&self) -> BlockNumber {
        self.tag.block
    }

    /// Moves to the next page. False at the end.
    pub fn next_page(&mut self, backend: &mut Backend) -> Result<bool, AccessError> {
        self.found.clear();
        let Some(pin) = self.stream.next(backend)? else { return Ok(false) };
        self.tag = pin.tag();
        // Outcomes may have to be read from files. The pin keeps them, as for a scan.
        self.page = pin.lock_shared().copy();
        let page = std::mem::replace(&mut self.page, Box::new([0; forebay_format::BLOCK_SIZE]));
        let judged = self.judge(backend, Page::new(&page));
        self.page = page;
        judged.map(|()| true)
    }

    /// The versions of the page that get entries.
    pub fn found(&self) -> &[Indexable] {
        &self.found
    }

    /// The tuple of one of them.
    pub fn tuple(&self, of: &Indexable) -> Result<HeapTuple<'_>, AccessError> {
        let tuple = tuple_at(Page::new(&self.page), self.tag, of.number)?;
        tuple.ok_or_else(|| AccessError::Internal("a copied row is gone".to_owned()))
    }

    fn judge(&mut self, backend: &mut Backend, page: Page<'_>) -> Result<(), AccessError> {
        let tag = self.tag;
        let mut roots = None;
        for number in 1..=page.item_count() {
            let Some(tuple) = tuple_at(page, tag, number)? else { continue };
            let entry = self.entry(backend, tuple).map_err(|error| located(tag, number, error))?;
            let Entry::Made { live } = entry else { continue };
            let mut root = number;
            if tuple.is_heap_only() {
                if roots.is_none() {
                    roots = Some(self.roots(backend, page)?);
                }
                let of = roots.as_ref().and_then(|roots| roots.get(usize::from(number)));
                root = of.copied().filter(|root| *root != 0).ok_or_else(|| {
                    let problem = "failed to find parent tuple for heap-only tuple";
                    located(tag, number, AccessError::Corrupt(problem.to_owned()))
                })?;
            }
            let root = ItemPointer::new(tag.block, root);
            self.found.push(Indexable { root, number, live });
        }
        Ok(())
    }

    fn entry(&mut self, backend: &mut Backend, tuple: HeapTuple<'_>) -> Result<Entry, AccessError> {
        if let Some(visibility) = &mut self.visibility {
            let live = visibility.sees(&mut backend.io, tuple)?;
            self.live += u64::from(live);
            return Ok(if live { Entry::Made { live } } else { Entry::None });
        }
        let status = tuple_status(&mut backend.io, &mut self.changer, tuple)?;
        Ok(match status {
            TupleStatus::NotInserted(Fate::Running) => return Err(unlocked(tuple.xmin())),
            TupleStatus::NotInserted(_) => Entry::None,
            TupleStatus::Live | TupleStatus::Locked => {
                self.live += 1;
                Entry::Made { live: true }
            }
            TupleStatus::BeingUpdated(xid) => return Err(unlocked(xid)),
            TupleStatus::Updated(xid)
                if self.removable.is_xid_over_for_all(self.changer.xacts.procs(), xid) =>
            {
                Entry::None
            }
            TupleStatus::Updated(_) | TupleStatus::UpdatedByOwn(_) if tuple.is_hot_updated() => {
                self.broken_chain = true;
                Entry::None
            }
            TupleStatus::Updated(_) | TupleStatus::UpdatedByOwn(_) => Entry::Made { live: false },
        })
    }

    /// The root of the chain of each line pointer, by number; 0: of none.
    fn roots(
        &mut self,
        backend: &mut Backend,
        page: Page<'_>,
    ) -> Result<Vec<OffsetNumber>, AccessError> {
        let mut roots = vec![0; usize::from(page.item_count()) + 1];
        for root in 1..=page.item_count() {
            let (mut at, mut by) = match page.item_id(root) {
                Some(id) if id.state == ItemState::Redirect => (id.offset, None::<Xid>),
                _ => match tuple_at(page, self.tag, root)? {
                    Some(tuple) if !tuple.is_heap_only() && tuple.is_hot_updated() => {
                        (tuple.ctid().offset, self.updater(backend, tuple)?)
                    }
                    _ => continue,
                },
            };
            // No longer than the page has line pointers: a damaged chain may be a circle.
            for _ in 0..page.item_count() {
                let Some(tuple) = tuple_at(page, self.tag, at)? else { break };
                if by.is_some_and(|by| by != tuple.xmin()) || !tuple.is_heap_only() {
                    break;
                }
                if let Some(slot) = roots.get_mut(usize::from(at)) {
                    *slot = root;
                }
                if !tuple.is_hot_updated() {
                    break;
                }
                (at, by) = (tuple.ctid().offset, self.updater(backend, tuple)?);
            }
        }
        Ok(roots)
    }

    fn updater(
        &mut self,
        backend: &mut Backend,
        tuple: HeapTuple<'_>,
    ) -> Result<Option<Xid>, AccessError> {
        updater(&mut backend.io, &mut self.changer, tuple)
    }

    /// The table that is read.
    pub fn heap(&self) -> &Heap {
        self.heap
    }
}

/// A transaction changes the table although it is locked.
#[cold]
fn unlocked(xid: Xid) -> AccessError {
    AccessError::Internal(format!("transaction {xid} changes a table that is being indexed"))
}

impl std::fmt::Debug for IndexableScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexableScan").field("tag", &self.tag).finish_non_exhaustive()
    }
}
