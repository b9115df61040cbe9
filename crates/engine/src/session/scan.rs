//! Reading rows.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::AccessError;
use forebay_access::heap::{self, Heap, Visibility};
use forebay_catalog::Table;
use forebay_catalog::schema::POSTGRES_DB;
use forebay_format::ItemPointer;
use forebay_storage::Backend;
use forebay_txn::HorizonKind;
use forebay_txn::locks::LockMode;

use super::marks::Mark;
use super::state::Session;
use super::stored::{RowView, StoredRow};
use crate::core::Core;
use crate::error::EngineError;

/// A version of a row and its place, if there is one.
type Found = Result<Option<(ItemPointer, Vec<u8>)>, AccessError>;

/// A scan of a table. It keeps its snapshot, and stays valid while other statements of the
/// transaction run. After the end of its transaction, or the rollback of the subtransaction that
/// took its snapshot or locked its table, it returns errors.
#[derive(Debug)]
pub struct HeapScan {
    mark: Mark,
    table: Arc<Table>,
    scan: heap::HeapScan,
    /// Number of visible rows of the current page.
    rows: usize,
    next: usize,
}

impl Session {
    /// Starts a scan of the rows that the statement's snapshot sees. The transaction must have
    /// locked the table. On its way it removes versions that nobody sees any more.
    pub fn scan(&mut self, table: &Arc<Table>) -> Result<HeapScan, EngineError> {
        let scan = self.call(|session, core| session.begin_scan(core, table))?;
        let mark = self.snapshot_mark()?;
        Ok(HeapScan { mark, table: Arc::clone(table), scan, rows: 0, next: 0 })
    }

    fn begin_scan(&mut self, core: &Core, table: &Table) -> Result<heap::HeapScan, EngineError> {
        table.check_readable()?;
        let visibility = self.visibility(core)?;
        self.check_locked(table, LockMode::AccessShare)?;
        let (ahead, heap) = (self.read_ahead(), self.heap(core, table)?);
        let own = self.running()?.tx.full_xid();
        let scan = heap::HeapScan::begin(&heap.pool, table.locator, visibility, ahead)?;
        Ok(match table.is_prunable() {
            true => scan.pruning(heap.into_pruner(horizon_of(table), POSTGRES_DB, own)),
            false => scan,
        })
    }

    /// What the running statement sees.
    pub(super) fn visibility(&mut self, core: &Core) -> Result<Visibility, EngineError> {
        Ok(Visibility::new(self.snapshot()?, core.heaps.outcomes.clone()))
    }

    /// Counts the rows that a scan would return, without decoding them.
    pub fn count_rows(&mut self, table: &Table) -> Result<u64, EngineError> {
        self.call(|session, core| {
            let mut scan = session.begin_scan(core, table)?;
            Ok(scan.count(&mut session.backend, &session.interrupt)?)
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

/// Whose snapshots may see a table's rows.
fn horizon_of(table: &Table) -> HorizonKind {
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
        session.check_mark(&self.mark, || format!("a scan of relation \"{}\"", self.table.name))?;
        session.check_locked(&self.table, LockMode::AccessShare)?;
        let rows = session.call(|session, _| Ok(self.scan.next_page(&mut session.backend)?))?;
        self.rows = rows.unwrap_or(0);
        Ok(rows)
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
