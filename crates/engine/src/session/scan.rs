//! Reading rows.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::heap::{self, Visibility};
use forebay_catalog::Table;
use forebay_format::tuple::deform;
use forebay_format::{HeapTuple, ItemPointer, TupleError};
use forebay_txn::locks::LockMode;
use forebay_types::Datum;
use smallvec::SmallVec;

use super::state::{Session, TransactionMark};
use crate::core::Core;
use crate::error::EngineError;

/// A scan of a table. It keeps its snapshot, and stays valid while other statements of the
/// transaction run. After the end of its transaction it returns errors.
#[derive(Debug)]
pub struct HeapScan {
    mark: TransactionMark,
    table: Arc<Table>,
    scan: heap::HeapScan,
    /// Number of visible rows of the current page.
    rows: usize,
    next: usize,
}

impl Session {
    /// Starts a scan of the rows that the statement's snapshot sees. The transaction must have
    /// locked the table.
    pub fn scan(&mut self, table: &Arc<Table>) -> Result<HeapScan, EngineError> {
        let scan = self.call(|session, core| session.begin_scan(core, table))?;
        Ok(HeapScan { mark: self.mark(), table: Arc::clone(table), scan, rows: 0, next: 0 })
    }

    fn begin_scan(&mut self, core: &Core, table: &Table) -> Result<heap::HeapScan, EngineError> {
        table.check_readable()?;
        let snapshot = self.snapshot()?;
        self.check_locked(table, LockMode::AccessShare)?;
        let (ahead, pool) = (self.read_ahead(), self.pool_of(core, table)?);
        let visibility = Visibility::new(snapshot, Arc::clone(&core.heaps.clog));
        Ok(heap::HeapScan::begin(&pool, table.locator, visibility, ahead)?)
    }

    /// Counts the rows that a scan would return, without decoding them.
    pub fn count_rows(&mut self, table: &Table) -> Result<u64, EngineError> {
        self.call(|session, core| {
            let mut scan = session.begin_scan(core, table)?;
            Ok(scan.count(&mut session.backend, &session.interrupt)?)
        })
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
        session.check_mark(self.mark, || format!("a scan of relation \"{}\"", self.table.name))?;
        let rows = session.call(|session, _| Ok(self.scan.next_page(&mut session.backend)?))?;
        self.rows = rows.unwrap_or(0);
        Ok(rows)
    }

    /// A row of the current page.
    ///
    /// # Panics
    /// If the page has no row of this index.
    pub fn row(&self, index: usize) -> RowView<'_> {
        RowView {
            table: &self.table,
            tuple: self.scan.tuple(index),
            place: self.scan.tuple_id(index),
        }
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

/// A row of a scan's current page.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    table: &'a Table,
    tuple: &'a [u8],
    place: ItemPointer,
}

impl<'a> RowView<'a> {
    /// Decodes the first `upto` columns into `out`, which is cleared first. Dropped columns are
    /// NULL, so that indexes are those of the table's columns.
    pub fn decode_into(&self, upto: usize, out: &mut Vec<Datum<'a>>) -> Result<(), EngineError> {
        self.decode_some(upto, |_| true, out)
    }

    /// Like [`RowView::decode_into`], for the wanted columns: the other ones are NULL.
    pub fn decode_wanted(
        &self,
        wanted: &[bool],
        out: &mut Vec<Datum<'a>>,
    ) -> Result<(), EngineError> {
        self.decode_some(wanted.len(), |column| wanted.get(column) == Some(&true), out)
    }

    fn decode_some(
        &self,
        upto: usize,
        wanted: impl Fn(usize) -> bool,
        out: &mut Vec<Datum<'a>>,
    ) -> Result<(), EngineError> {
        out.clear();
        let upto = upto.min(self.table.columns.len());
        let layouts = self.table.layouts.get(..upto).unwrap_or_default();
        let mut fields: SmallVec<[Option<&'a [u8]>; 16]> = SmallVec::from_elem(None, upto);
        let stored = HeapTuple::new(self.tuple)
            .and_then(|tuple| {
                deform(tuple, layouts, &mut fields)?;
                Ok(tuple.attribute_count())
            })
            .map_err(|error| self.unreadable(error))?;
        for (index, (field, column)) in fields.iter().zip(&self.table.columns).enumerate() {
            out.push(match (field, &column.missing) {
                _ if !wanted(index) => Datum::Null,
                (Some(bytes), _) if !column.dropped => column.repr.decode(bytes)?,
                // The row is older than the column.
                (None, Some(bytes)) if index >= stored => column.repr.decode(bytes)?,
                _ => Datum::Null,
            });
        }
        Ok(())
    }

    /// All columns.
    pub fn decode(&self) -> Result<Vec<Datum<'a>>, EngineError> {
        let mut out = Vec::with_capacity(self.table.columns.len());
        self.decode_into(self.table.columns.len(), &mut out)?;
        Ok(out)
    }

    /// The place of the row, as ctid shows it: block and number.
    pub fn place(&self) -> (u32, u16) {
        (self.place.block, self.place.offset)
    }

    /// An error with the row's place.
    fn unreadable(&self, error: TupleError) -> EngineError {
        let (block, number) = self.place();
        let context =
            format!("row ({block},{number}) of relation \"{}\": {error}", self.table.name);
        EngineError::corrupt(context)
    }
}
