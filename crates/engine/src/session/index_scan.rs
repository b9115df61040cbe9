//! Reading rows through an index: in its order, its entries alone, or by a bitmap.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::EntrySource;
use forebay_access::heap::RowReader;
use forebay_access::index_scan::{self, Leaves, RowRef, ScanOptions, ScanStats, TidBitmap};
use forebay_access::nbtree::{BatchOptions, Condition, Direction, IndexShape};
use forebay_catalog::nodes::type_of;
use forebay_catalog::{Table, TableIndex};
use forebay_format::ItemPointer;
use forebay_format::nbtree::Tuple;
use forebay_storage::StreamStats;
use forebay_txn::ReadCounter;
use forebay_txn::locks::LockMode;
use forebay_types::{Datum, Repr};

use super::marks::Mark;
use super::scan::Reading;
use super::state::Session;
use super::stored::RowView;
use crate::core::InDatabase;
use crate::error::EngineError;

/// How an index scan reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexScanOptions {
    /// Only values of the index's columns are wanted: [`IndexRows::next_entry`]. Rows are looked at
    /// if the visibility map does not say that everybody sees them.
    pub entries_only: bool,
    /// Rows that are wanted at most, as far as that is known: no more are read ahead.
    pub limit: Option<u64>,
}

/// A scan of a table in the order of an index. It keeps its snapshot, and is valid as long as a
/// [`HeapScan`](super::HeapScan) would be.
#[derive(Debug)]
pub struct IndexRows {
    mark: Mark,
    table: Arc<Table>,
    index: Arc<TableIndex>,
    /// Where what it returns is counted.
    reads: Arc<ReadCounter>,
    rows: index_scan::IndexRows,
}

/// An entry of an index, in the memory of a scan.
#[derive(Clone, Copy, Debug)]
pub struct IndexEntry<'a> {
    table: &'a Table,
    index: &'a TableIndex,
    tuple: Tuple<'a>,
    place: ItemPointer,
}

/// Rows of a table that indexes have found, for [`Session::bitmap_scan`].
#[derive(Clone, Debug)]
pub struct IndexBitmap {
    mark: Mark,
    table: Arc<Table>,
    /// With the snapshot of the statement that found them: a later one may see other rows in the
    /// same places.
    reading: Reading,
    tids: TidBitmap,
    /// Entries that its index scans have found.
    found: u64,
    /// What its index scans have read.
    stats: ScanStats,
}

/// A scan of a table by a bitmap, in the order of its pages.
#[derive(Debug)]
pub struct BitmapRows {
    mark: Mark,
    table: Arc<Table>,
    /// Where its rows are counted.
    reads: Arc<ReadCounter>,
    rows: index_scan::BitmapRows,
}

impl Session {
    /// Whether the running statement may read a table through an index: it is complete and
    /// understood, and not too new for the statement's snapshot (indcheckxmin).
    pub fn can_use_index(&mut self, index: &TableIndex) -> Result<bool, EngineError> {
        Ok(index.unknown.is_none() && index.serves(self.snapshot()?.xmin()))
    }

    /// Starts a scan of the rows that satisfy all conditions and that the statement's snapshot
    /// sees, in the order of an index of their table. The transaction must have locked the table.
    /// On its way it removes versions that nobody sees any more.
    pub fn index_scan(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<TableIndex>,
        conditions: Vec<Condition>,
        options: IndexScanOptions,
    ) -> Result<IndexRows, EngineError> {
        let rows = self.call(|session, core| {
            let reading = session.index_reading(core, table, index)?;
            let (heap, ahead) = (reading.heap.clone(), reading.ahead());
            let index = session.index(core, table, index)?;
            let options = ScanOptions {
                entries_only: options.entries_only,
                ahead,
                limit: options.limit,
                interrupt: session.interrupt.clone(),
            };
            let reader = reading.into_row_reader(core);
            Ok(index_scan::IndexRows::new(&heap, &index, conditions, reader, options))
        })?;
        let mark = self.snapshot_mark()?;
        let (table, reads) = (Arc::clone(table), self.count_index_scan(index)?);
        Ok(IndexRows { mark, table, index: Arc::clone(index), reads, rows })
    }

    /// Finds the rows that satisfy all conditions on an index, for a scan in the order of their
    /// pages. The bitmap takes at most about work_mem.
    pub fn index_bitmap(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<TableIndex>,
        conditions: Vec<Condition>,
    ) -> Result<IndexBitmap, EngineError> {
        let (reading, tids, found, stats) = self.call(|session, core| {
            let reading = session.index_reading(core, table, index)?;
            let of = index;
            let scan = session
                .index(core, table, index)?
                .scan(conditions, BatchOptions::default())
                .interruptible(session.interrupt.clone());
            let mut tids = TidBitmap::new(session.work_memory());
            let mut leaves = Leaves::new(scan, reading.ahead());
            let found = leaves.for_each(&mut session.backend, |tid| tids.add(tid, false))?;
            session.count_index_scan(of)?.returned(found as usize);
            Ok((reading, tids, found, leaves.stats()))
        })?;
        let mark = self.snapshot_mark()?;
        Ok(IndexBitmap { mark, table: Arc::clone(table), reading, tids, found, stats })
    }

    /// Starts a scan of the rows of a bitmap that its snapshot sees.
    ///
    /// Vacuum may have freed a place since its entry was read, and another row may have it now: the
    /// bitmap keeps no page pinned. That row was inserted after the snapshot was taken, as vacuum
    /// frees no place of a row that a registered snapshot still sees; so the scan does not see it.
    /// What it does see at a place of the bitmap is the row whose entry satisfied the conditions.
    pub fn bitmap_scan(&mut self, bitmap: IndexBitmap) -> Result<BitmapRows, EngineError> {
        let IndexBitmap { mark, table, reading, tids, .. } = bitmap;
        check_usable(self, &mark, &table)?;
        let rows = self.call(|session, core| {
            let (heap, ahead) = (reading.heap.clone(), reading.ahead());
            let reader: RowReader = reading.into_row_reader(core);
            let interrupt = session.interrupt.clone();
            Ok(index_scan::BitmapRows::new(&heap, tids, reader, ahead, interrupt))
        })?;
        let reads = self.count_bitmap(&table)?;
        Ok(BitmapRows { mark, table, reads, rows })
    }

    /// How the running statement reads a table through an index.
    fn index_reading(
        &mut self,
        core: &InDatabase,
        table: &Table,
        index: &TableIndex,
    ) -> Result<Reading, EngineError> {
        let reading = self.reading(core, table)?;
        if self.can_use_index(index)? {
            return Ok(reading);
        }
        let name = &index.name;
        let message = format!("index \"{name}\" cannot be used by this statement");
        Err(EngineError::statement("55000", message))
    }
}

/// Fails if a scan's transaction has ended, or does not hold the table's lock any more.
fn check_usable(session: &Session, mark: &Mark, table: &Table) -> Result<(), EngineError> {
    session.check_mark(mark, || format!("a scan of relation \"{}\"", table.name))?;
    session.check_locked(table, LockMode::AccessShare)
}

/// The next row of an index scan. One that was copied with the row before needs no checks.
fn next_row<'a>(
    session: &mut Session,
    mark: &Mark,
    table: &Table,
    rows: &'a mut index_scan::IndexRows,
    direction: Direction,
) -> Result<Option<RowRef<'a>>, EngineError> {
    if rows.has_copied(direction) {
        return Ok(rows.next_copied(direction));
    }
    check_usable(session, mark, table)?;
    session.call(|session, _| Ok(rows.next(&mut session.backend, direction)?))
}

impl IndexRows {
    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The index.
    pub fn index(&self) -> &Arc<TableIndex> {
        &self.index
    }

    /// The next row in a direction; None behind the last one. A call in the other direction returns
    /// the row before the last one returned, or after None the last one.
    pub fn next(
        &mut self,
        session: &mut Session,
        direction: Direction,
    ) -> Result<Option<RowView<'_>>, EngineError> {
        let IndexRows { mark, rows, table, reads, .. } = self;
        let found = next_row(session, mark, table, rows, direction)?;
        if found.is_some() {
            reads.returned(1);
            reads.fetched(1);
        }
        Ok(found.map(|row| RowView::new(table, row.tuple, row.tid)))
    }

    /// The same for a scan of entries.
    pub fn next_entry(
        &mut self,
        session: &mut Session,
        direction: Direction,
    ) -> Result<Option<IndexEntry<'_>>, EngineError> {
        let IndexRows { mark, rows, table, index, reads } = self;
        let found = next_row(session, mark, table, rows, direction)?;
        let Some(row) = found else { return Ok(None) };
        reads.returned(1);
        let tuple = Tuple::new(row.tuple).map_err(|error| unreadable(index, row.tid, &error))?;
        Ok(Some(IndexEntry { table, index, tuple, place: row.tid }))
    }

    /// Begins anew with other conditions, and keeps what it has allocated.
    pub fn rescan(
        &mut self,
        session: &mut Session,
        conditions: Vec<Condition>,
        limit: Option<u64>,
    ) -> Result<(), EngineError> {
        check_usable(session, &self.mark, &self.table)?;
        session.call(|_, _| Ok(self.rows.rescan(conditions, limit)?))?;
        self.reads = session.count_index_scan(&self.index)?;
        Ok(())
    }

    /// Remembers the place of the last row returned.
    pub fn set_mark(&mut self) {
        self.rows.set_mark();
    }

    /// Goes back to the remembered place: the next row is that behind it.
    ///
    /// # Panics
    /// If there is none.
    pub fn go_to_mark(&mut self, session: &mut Session) -> Result<(), EngineError> {
        check_usable(session, &self.mark, &self.table)?;
        session.call(|_, _| Ok(self.rows.go_to_mark()?))
    }

    /// What it has read so far, rescans included, and how far ahead.
    pub fn stats(&self) -> ScanStats {
        self.rows.stats()
    }
}

impl<'a> IndexEntry<'a> {
    /// Decodes the values of the index's columns into `out`, which is cleared first: the key
    /// columns, then the included ones. `columns` of them at most.
    pub fn decode_into(&self, columns: usize, out: &mut Vec<Datum<'a>>) -> Result<(), EngineError> {
        out.clear();
        let IndexEntry { table, index, tuple, place } = *self;
        let shape: &IndexShape = &index.shape;
        let mut values = shape.values(tuple);
        for source in index.sources().take(columns) {
            let repr = match source {
                EntrySource::Column(column) => table.columns.get(column).map(|c| c.repr),
                EntrySource::Expression(n) => {
                    index.trees.expressions.get(n).map(|expr| Repr::of(type_of(expr)))
                }
            };
            let repr = repr.ok_or_else(|| {
                unreadable(index, place, &"it has a column that its table does not have")
            })?;
            let value = values.next_value().map_err(|error| unreadable(index, place, &error))?;
            out.push(match value {
                None => Datum::Null,
                Some(std::borrow::Cow::Borrowed(bytes)) => repr.decode(bytes, shape.encoding)?,
                Some(std::borrow::Cow::Owned(bytes)) => {
                    repr.decode(&bytes, shape.encoding)?.into_owned()
                }
            });
        }
        Ok(())
    }

    /// The place to which it leads: that of a row's first version, not of the one that is seen.
    pub fn place(&self) -> ItemPointer {
        self.place
    }
}

/// An error with the place to which an entry leads.
fn unreadable(
    index: &TableIndex,
    place: ItemPointer,
    error: &dyn std::fmt::Display,
) -> EngineError {
    let name = &index.name;
    EngineError::statement("XX002", format!("entry of index \"{name}\" for row {place}: {error}"))
}

impl IndexBitmap {
    /// Keeps the rows that another bitmap of the same statement and table has too.
    pub fn and(&mut self, other: &IndexBitmap) {
        self.check_table(other);
        self.tids.and(&other.tids);
        self.stats.add(&other.stats);
    }

    /// Adds the rows of another bitmap of the same statement and table.
    pub fn or(&mut self, other: &IndexBitmap) {
        self.check_table(other);
        self.tids.or(&other.tids);
        self.stats.add(&other.stats);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.tids.is_empty()
    }

    /// Entries that its index scans have found.
    pub fn found(&self) -> u64 {
        self.found
    }

    fn check_table(&self, other: &IndexBitmap) {
        assert_eq!(self.table.oid, other.table.oid, "bitmaps of two tables");
    }

    /// What its index scans have read.
    pub fn stats(&self) -> ScanStats {
        self.stats
    }
}

impl BitmapRows {
    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The next row, and whether it must be checked that it satisfies the conditions: the bitmap
    /// may know only its page.
    pub fn next(
        &mut self,
        session: &mut Session,
    ) -> Result<Option<(RowView<'_>, bool)>, EngineError> {
        check_usable(session, &self.mark, &self.table)?;
        let (rows, table) = (&mut self.rows, &self.table);
        let found = session.call(|session, _| Ok(rows.next(&mut session.backend)?))?;
        self.reads.fetched(usize::from(found.is_some()));
        Ok(found.map(|(row, recheck)| (RowView::new(table, row.tuple, row.tid), recheck)))
    }

    /// Pages of which it knew the rows, and others: Heap Blocks: exact, lossy.
    pub fn pages(&self) -> (u64, u64) {
        self.rows.pages()
    }

    /// What its read stream has done.
    pub fn stats(&self) -> StreamStats {
        self.rows.stats()
    }
}
