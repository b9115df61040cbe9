//! Rows of tables: sequential scans, and rows at given places.

use super::eval::{Params, eval_all, is_true};
use super::host::Host;
use super::row::{Flow, Row, Visit};
use crate::error::Result;
use crate::plan::{Expr, SystemColumn, TableRead};
use forebay_engine::{HeapScan, ItemPointer, Part, RowView, ScanPart, Table};
use forebay_types::Datum;

/// A scan of a table.
pub(super) struct Scan {
    heap: Heap,
    /// Rows on the current page, and the next of them.
    on_page: usize,
    next: usize,
}

/// Who scans it.
enum Heap {
    Session(Box<HeapScan>),
    Worker(Box<ScanPart>),
}

/// Rows at given places.
pub(super) struct TidScan {
    places: Vec<ItemPointer>,
    /// How many of them were looked at.
    next: usize,
}

/// A condition on the rows of a scan. It is tried before the columns are decoded that it does not
/// read: most rows do not fulfil it.
pub(super) struct Sieve<'s> {
    condition: &'s Expr,
    params: Params<'s>,
    /// The columns that it reads.
    columns: Vec<bool>,
    /// Those of them of which it takes only a part.
    parts: Vec<bool>,
}

impl<'s> Sieve<'s> {
    pub(super) fn new(condition: &'s Expr, params: Params<'s>) -> Sieve<'s> {
        let (mut columns, mut used) = (Vec::new(), Vec::new());
        condition.mark_columns(&mut columns);
        condition.mark_whole(&mut used);
        let parts = (0..columns.len()).map(|column| used.get(column) != Some(&true)).collect();
        Sieve { condition, params, columns, parts }
    }

    /// Whether a row with these values fulfils the condition.
    pub(super) fn is_true(&self, values: &[Datum<'_>], host: &mut Host) -> Result<bool> {
        is_true(self.condition, values, self.params, host)
    }

    /// Whether a row fulfils the condition. Uses `values` for its columns.
    pub(super) fn passes<'v>(
        &self,
        row: &RowView<'v>,
        read: &TableRead,
        values: &mut Vec<Datum<'v>>,
        host: &mut Host,
    ) -> Result<bool> {
        decode_columns(row, read, (&self.columns, &self.parts), values)?;
        fetch(values, &read.table, &self.parts, host)?;
        is_true(self.condition, values, self.params, host)
    }
}

/// The columns of a stored row that are wanted: the table's, then the system columns. What is
/// stored out of line is fetched, unless it is only handed on.
pub(super) fn decode<'v>(
    row: &RowView<'v>,
    read: &TableRead,
    out: &mut Vec<Datum<'v>>,
    host: &mut Host,
) -> Result<()> {
    decode_columns(row, read, (&read.decode, &read.handed_on), out)?;
    fetch(out, &read.table, &read.handed_on, host)
}

/// Fetches what is stored out of line of a row's columns, but for those that are left as they are.
pub(super) fn fetch(
    row: &mut [Datum<'_>],
    table: &Table,
    left: &[bool],
    host: &mut Host,
) -> Result<()> {
    if table.toasting.relation.is_none() {
        return Ok(());
    }
    for (number, (value, column)) in row.iter_mut().zip(&table.columns).enumerate() {
        if matches!(value, Datum::Toasted(_)) && left.get(number) != Some(&true) {
            *value = host.fetch_value(value, column.repr, Part::Whole)?;
        }
    }
    Ok(())
}

fn decode_columns<'v>(
    row: &RowView<'v>,
    read: &TableRead,
    (columns, kept): (&[bool], &[bool]),
    out: &mut Vec<Datum<'v>>,
) -> Result<()> {
    out.clear();
    if columns.is_empty() {
        return Ok(());
    }
    row.decode_wanted(columns, kept, out)?;
    let system = columns.get(read.table.columns.len()..).unwrap_or_default();
    for (column, wanted) in SystemColumn::ALL.into_iter().zip(system) {
        let value = if *wanted { system_value(row, column, read.table.oid) } else { Datum::Null };
        out.push(value);
    }
    Ok(())
}

/// The value of a system column.
pub(super) fn system_value(row: &RowView<'_>, column: SystemColumn, table: u32) -> Datum<'static> {
    match column {
        SystemColumn::Ctid => place_value(row.place()),
        SystemColumn::Xmin => Datum::Xid(row.xmin()),
        SystemColumn::Cmin => Datum::Xid(row.cmin()),
        SystemColumn::Xmax => Datum::Xid(row.xmax()),
        SystemColumn::Cmax => Datum::Xid(row.cmax()),
        SystemColumn::TableOid => Datum::Oid(table),
    }
}

/// A place as a value.
pub(super) fn place_value(place: ItemPointer) -> Datum<'static> {
    Datum::Tid(place.block, place.offset)
}

/// The place that a value is.
pub(super) fn place_of(value: &Datum<'_>) -> Option<ItemPointer> {
    match value {
        Datum::Tid(block, offset) => Some(ItemPointer { block: *block, offset: *offset }),
        _ => None,
    }
}

impl Scan {
    pub(super) fn open(read: &TableRead, host: &mut Host) -> Result<Scan> {
        Ok(Scan::of(host.call(|session| session.scan(&read.table))?))
    }

    /// A scan that the session has begun.
    pub(super) fn of(heap: HeapScan) -> Scan {
        Scan { heap: Heap::Session(Box::new(heap)), on_page: 0, next: 0 }
    }

    /// A worker's part of a scan.
    pub(super) fn of_worker(part: ScanPart) -> Scan {
        Scan { heap: Heap::Worker(Box::new(part)), on_page: 0, next: 0 }
    }

    /// Hands on the rows that pass the sieve, or all if there is none.
    pub(super) fn run(
        &mut self,
        read: &TableRead,
        sieve: Option<&Sieve<'_>>,
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        let Scan { heap, on_page, next } = self;
        loop {
            if *next >= *on_page {
                match heap.next_page(host)? {
                    Some(rows) => (*on_page, *next) = (rows, 0),
                    None => {
                        (*on_page, *next) = (0, 0);
                        return Ok(Flow::Continue);
                    }
                }
                host.check_cancel()?;
            }
            let mut values: Vec<Datum<'_>> = Vec::with_capacity(read.decode.len());
            while *next < *on_page {
                let row = heap.row(*next);
                *next += 1;
                if let Some(sieve) = sieve
                    && !sieve.passes(&row, read, &mut values, host)?
                {
                    continue;
                }
                decode(&row, read, &mut values, host)?;
                let ctid = Some(row.place());
                if visit(Row { values: &values, ctid }, host)? == Flow::Rest {
                    return Ok(Flow::Rest);
                }
            }
        }
    }
}

impl Heap {
    fn next_page(&mut self, host: &mut Host) -> Result<Option<usize>> {
        match self {
            Heap::Session(scan) => host.call(|session| scan.next_page(session)),
            Heap::Worker(part) => Ok(part.next_page()?),
        }
    }

    fn row(&self, index: usize) -> RowView<'_> {
        match self {
            Heap::Session(scan) => scan.row(index),
            Heap::Worker(part) => part.row(index),
        }
    }
}

impl TidScan {
    /// Evaluates the places, and puts them in order.
    pub(super) fn open(
        tids: &[Expr],
        params: &[Datum<'static>],
        host: &mut Host,
    ) -> Result<TidScan> {
        let mut places: Vec<ItemPointer> =
            eval_all(tids, &[], params, host)?.iter().filter_map(place_of).collect();
        places.sort_unstable();
        places.dedup();
        Ok(TidScan { places, next: 0 })
    }

    /// At the row that a cursor is on.
    pub(super) fn at(read: &TableRead, cursor: &str, host: &mut Host) -> Result<TidScan> {
        let place = host.current_row(cursor, &read.table)?;
        let newest = host.call(|session| session.newest_row(&read.table, place))?;
        Ok(TidScan { places: newest.iter().map(|row| row.place()).collect(), next: 0 })
    }

    pub(super) fn run(
        &mut self,
        read: &TableRead,
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        while let Some(place) = self.places.get(self.next) {
            self.next += 1;
            let Some(found) = host.call(|session| session.fetch_row(&read.table, *place))? else {
                continue;
            };
            let row = found.view();
            let mut values = Vec::with_capacity(read.decode.len());
            decode(&row, read, &mut values, host)?;
            let ctid = Some(row.place());
            if visit(Row { values: &values, ctid }, host)? == Flow::Rest {
                return Ok(Flow::Rest);
            }
            host.step()?;
        }
        Ok(Flow::Continue)
    }
}
