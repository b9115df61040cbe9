//! Reading rows.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::AccessError;
use forebay_access::heap::{self, Heap, ReadAhead, RowReader, SharedBlocks, Visibility};
use forebay_catalog::Table;
use forebay_format::{FullXid, ItemPointer};
use forebay_storage::Backend;
use forebay_txn::locks::LockMode;
use forebay_txn::{HorizonKind, ReadCounter, Snapshot};

use super::marks::Mark;
use super::state::Session;
use super::stored::{RowView, StoredRow};
use crate::core::InDatabase;
use crate::error::EngineError;

/// A version of a row and its place, if there is one.
type Found = Result<Option<(ItemPointer, Vec<u8>)>, AccessError>;

/// How a statement reads a table, in whatever thread.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) heap: Heap,
    snapshot: Snapshot,
    ahead: ReadAhead,
    /// The transaction's id, if it has one.
    own: Option<FullXid>,
    /// Pages are pruned of what no snapshot of this kind sees any more. None: they are not pruned.
    prune_by: Option<HorizonKind>,
    /// Whether scans of the whole table begin where others of it are.
    pub(super) synchronized: bool,
}

/// A scan of a table. It keeps its snapshot, and stays valid while other statements of the
/// transaction run. After the end of its transaction, or the rollback of the subtransaction that
/// took its snapshot or locked its table, it returns errors.
#[derive(Debug)]
pub struct HeapScan {
    mark: Mark,
    table: Arc<Table>,
    scan: heap::HeapScan,
    /// Where the rows are counted.
    reads: Arc<ReadCounter>,
    /// Number of visible rows of the current page.
    rows: usize,
    next: usize,
}

impl Session {
    /// Starts a scan of the rows that the statement's snapshot sees. The transaction must have
    /// locked the table. On its way it removes versions that nobody sees any more.
    pub fn scan(&mut self, table: &Arc<Table>) -> Result<HeapScan, EngineError> {
        let scan = self.call(|session, core| session.reading(core, table)?.begin(core, None))?;
        self.heap_scan(table, scan)
    }

    /// A scan that the running statement has begun.
    pub(super) fn heap_scan(
        &mut self,
        table: &Arc<Table>,
        scan: heap::HeapScan,
    ) -> Result<HeapScan, EngineError> {
        let mark = self.snapshot_mark()?;
        let reads = self.count_scan(table)?;
        Ok(HeapScan { mark, table: Arc::clone(table), scan, reads, rows: 0, next: 0 })
    }

    /// How the running statement reads a table, which the transaction must have locked.
    pub(super) fn reading(
        &mut self,
        core: &InDatabase,
        table: &Table,
    ) -> Result<Reading, EngineError> {
        table.check_readable()?;
        let snapshot = self.snapshot()?;
        self.check_locked(table, LockMode::AccessShare)?;
        let (ahead, heap) = (self.read_ahead(), self.heap(core, table)?);
        let own = self.running()?.tx.full_xid();
        let prune_by = table.is_prunable().then(|| horizon_of(table));
        let synchronized = self.settings.synchronize_seqscans && !table.is_temporary();
        Ok(Reading { heap, snapshot, ahead, own, prune_by, synchronized })
    }

    /// What the running statement sees.
    pub(super) fn visibility(&mut self, core: &InDatabase) -> Result<Visibility, EngineError> {
        Ok(Visibility::new(self.snapshot()?, core.heaps.outcomes.clone()))
    }

    /// Counts the rows that a scan would return, without decoding them.
    pub fn count_rows(&mut self, table: &Table) -> Result<u64, EngineError> {
        self.call(|session, core| {
            let mut scan = session.reading(core, table)?.begin(core, None)?;
            let rows = scan.count(&mut session.backend, &session.interrupt)?;
            session.count_scan(table)?.returned(rows as usize);
            Ok(rows)
        })
    }

    /// The version of a row at a place, if the statement's snapshot sees it. The transaction must
    /// have locked the table.
    pub fn fetch_row(
        &mut self,
        table: &Arc<Table>,
        tid: ItemPointer,
    ) -> Result<Option<StoredRow>, EngineError> {
        self.find_row(table, |heap, backend, visibility| {
            Ok(heap.fetch(backend, visibility, tid)?.map(|tuple| (tid, tuple)))
        })
    }

    /// The newest version that the statement's snapshot sees of the row whose version is at a
    /// place: the transaction may have updated it since it was read there. The transaction must
    /// have locked the table.
    pub fn newest_row(
        &mut self,
        table: &Arc<Table>,
        tid: ItemPointer,
    ) -> Result<Option<StoredRow>, EngineError> {
        self.find_row(table, |heap, backend, visibility| heap.newest_seen(backend, visibility, tid))
    }

    /// A version that the statement's snapshot sees.
    fn find_row(
        &mut self,
        table: &Arc<Table>,
        find: impl FnOnce(&Heap, &mut Backend, &mut Visibility) -> Found,
    ) -> Result<Option<StoredRow>, EngineError> {
        self.call(|session, core| {
            table.check_readable()?;
            let mut visibility = session.visibility(core)?;
            session.check_locked(table, LockMode::AccessShare)?;
            let heap = session.heap(core, table)?;
            let found = find(&heap, &mut session.backend, &mut visibility)?;
            found.map(|(place, tuple)| StoredRow::new(table, tuple, place)).transpose()
        })
    }
}

impl Session {
    /// The version of a row at a place, whoever sees it: one that this command has made, or has
    /// deleted.
    pub fn row_at(
        &mut self,
        table: &Arc<Table>,
        tid: ItemPointer,
    ) -> Result<Option<StoredRow>, EngineError> {
        self.call(|session, core| {
            let heap = session.heap(core, table)?;
            let found = heap.any_version(&mut session.backend, tid)?;
            found.map(|tuple| StoredRow::new(table, tuple, tid)).transpose()
        })
    }
}

impl Reading {
    /// Begins a scan: of all blocks, or of those that it takes before others do.
    pub(super) fn begin(
        self,
        core: &InDatabase,
        shared: Option<&Arc<SharedBlocks>>,
    ) -> Result<heap::HeapScan, EngineError> {
        let Reading { heap, snapshot, ahead, own, prune_by, synchronized } = self;
        let visibility = Visibility::new(snapshot, core.heaps.outcomes.clone());
        let (pool, locator) = (&heap.pool, heap.locator);
        let scan = match shared {
            None if synchronized => heap::HeapScan::synchronized(&heap, visibility, ahead)?,
            None => heap::HeapScan::begin(pool, locator, visibility, ahead)?,
            Some(blocks) => {
                let scan = heap::HeapScan::sharing(blocks, pool, locator, visibility, ahead);
                if synchronized { scan.synchronized_from(&heap, blocks.start()) } else { scan }
            }
        };
        Ok(match prune_by {
            Some(kind) => scan.pruning(heap.into_pruner(kind, core.database.oid, own)),
            None => scan,
        })
    }

    /// What reads rows of pages that indexes lead to.
    pub(super) fn into_row_reader(self, core: &InDatabase) -> RowReader {
        let Reading { heap, snapshot, own, prune_by, .. } = self;
        let visibility = Visibility::new(snapshot, core.heaps.outcomes.clone());
        RowReader::new(
            visibility,
            prune_by.and_then(|k| heap.into_pruner(k, core.database.oid, own)),
        )
    }

    /// How it reads ahead.
    pub(super) fn ahead(&self) -> ReadAhead {
        self.ahead
    }

    /// Blocks in one I/O, at most.
    pub(super) fn combine_limit(&self) -> usize {
        self.ahead.combine_limit as usize
    }
}

/// Whose snapshots may see a table's rows.
pub(super) fn horizon_of(table: &Table) -> HorizonKind {
    if table.is_temporary() {
        HorizonKind::Temporary
    } else if table.locator.db == 0 {
        HorizonKind::Shared
    } else if table.is_catalog() {
        HorizonKind::Catalog
    } else {
        HorizonKind::Data
    }
}

impl HeapScan {
    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Moves to the next page with visible rows. Returns their number, or None at the end.
    pub fn next_page(&mut self, session: &mut Session) -> Result<Option<usize>, EngineError> {
        (self.rows, self.next) = (0, 0);
        self.check_usable(session)?;
        let rows = session.call(|session, _| Ok(self.scan.next_page(&mut session.backend)?))?;
        self.rows = rows.unwrap_or(0);
        self.reads.returned(self.rows);
        Ok(rows)
    }

    /// Counts the rows of the pages that are left, without decoding them.
    pub fn count(&mut self, session: &mut Session) -> Result<u64, EngineError> {
        self.check_usable(session)?;
        let rows = session
            .call(|session, _| Ok(self.scan.count(&mut session.backend, &session.interrupt)?))?;
        self.reads.returned(rows as usize);
        Ok(rows)
    }

    /// Fails if its transaction has ended, or does not hold the table's lock any more.
    fn check_usable(&self, session: &Session) -> Result<(), EngineError> {
        session.check_mark(&self.mark, || format!("a scan of relation \"{}\"", self.table.name))?;
        session.check_locked(&self.table, LockMode::AccessShare)
    }

    /// A row of the current page.
    ///
    /// # Panics
    /// If the page has no row of this index.
    pub fn row(&self, index: usize) -> RowView<'_> {
        RowView::new(&self.table, self.scan.tuple(index), self.scan.tuple_id(index))
    }

    /// The next row. Moves to the next page if necessary.
    pub fn next(&mut self, session: &mut Session) -> Result<Option<RowView<'_>>, EngineError> {
        if self.next >= self.rows && self.next_page(session)?.is_none() {
            return Ok(None);
        }
        let index = self.next;
        self.next += 1;
        Ok(Some(self.row(index)))
    }
}
