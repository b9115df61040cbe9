//! Inserting rows.

use std::sync::Arc;

use forebay_access::form_row;
use forebay_access::heap::{Author, Heap, TupleBatch};
use forebay_access::toast::is_wide;
use forebay_catalog::Table;
use forebay_format::ItemPointer;
use forebay_storage::{Backend, Strategy};
use forebay_txn::locks::LockMode;
use forebay_types::{Datum, type_info};

use super::counting::counted;
use super::index_entries::Entries;
use super::state::{Session, no_transaction};
use crate::error::EngineError;

/// A batch of at least this many bytes is a bulk load.
const BULK_BYTES: usize = 64 << 10;

/// Rows to be inserted into a table, already as tuples.
#[derive(Debug)]
pub struct RowBatch {
    table: Arc<Table>,
    tuples: TupleBatch,
    /// Whether a row may have to be stored in another way than it was formed.
    wide: bool,
    /// Whether a column was dropped: then rows have fewer values than the table has columns.
    has_dropped: bool,
    /// The row at which an insertion of the batch failed.
    failed: Option<usize>,
    /// Whether foreign keys and deferrable keys look at the rows.
    noted: bool,
}

impl RowBatch {
    /// An empty batch for a table.
    pub fn new(table: &Arc<Table>) -> RowBatch {
        RowBatch {
            table: Arc::clone(table),
            tuples: TupleBatch::new(),
            wide: false,
            has_dropped: has_dropped(table),
            failed: None,
            noted: true,
        }
    }

    /// Lets its rows be frozen when they are inserted. [`Session::check_freezable`] must have
    /// allowed that.
    pub fn freeze(&mut self) {
        self.tuples.set_frozen(true);
    }

    /// The rows are those of the table itself, written anew: keys need not look at them.
    pub fn leave_keys(&mut self) {
        self.noted = false;
    }

    /// Adds a row: a value for each column that is not dropped, of exactly the column's type.
    /// Checks NOT NULL (23502). After an error the batch is as it was.
    pub fn push(&mut self, values: &[Datum<'_>]) -> Result<(), EngineError> {
        let RowBatch { table, tuples, has_dropped, wide, .. } = self;
        tuples.push_any_with(|out| {
            let start = out.len();
            form(table, *has_dropped, values, out)?;
            *wide |= out.get(start..).is_some_and(is_wide);
            Ok(())
        })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Bytes of the rows. A batch should be inserted at a few hundred kilobytes.
    pub fn bytes(&self) -> usize {
        self.tuples.bytes()
    }

    /// The row of the batch, from 0, whose entry in an index was refused when the batch was
    /// inserted.
    pub fn failed_row(&self) -> Option<usize> {
        self.failed
    }

    /// Removes the rows.
    pub fn clear(&mut self) {
        self.tuples.clear();
        self.wide = false;
        self.failed = None;
    }
}

/// Appends the tuple of a row to `out`: a value for each column that is not dropped. After an error
/// `out` is as it was.
pub(super) fn form_checked(
    table: &Table,
    values: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    form(table, has_dropped(table), values, out)
}

fn has_dropped(table: &Table) -> bool {
    table.columns.iter().any(|column| column.dropped)
}

fn form(
    table: &Table,
    has_dropped: bool,
    values: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    if !has_dropped {
        return form_all(table, values, out);
    }
    let mut given = values.iter();
    let mut all = Vec::with_capacity(table.columns.len());
    for column in &table.columns {
        all.push(if column.dropped {
            Datum::Null
        } else {
            given.next().ok_or_else(|| wrong_count(table))?.reborrow()
        });
    }
    match given.next() {
        None => form_all(table, &all, out),
        Some(_) => Err(wrong_count(table)),
    }
}

/// The same for a value for each column, NULL for dropped ones.
fn form_all(table: &Table, values: &[Datum<'_>], out: &mut Vec<u8>) -> Result<(), EngineError> {
    if values.len() != table.columns.len() {
        return Err(wrong_count(table));
    }
    for (value, column) in values.iter().zip(&table.columns) {
        // What is generated when it is read is not stored.
        let stored = !column.dropped && column.generated != b'v';
        if value.is_null() && column.not_null && stored {
            let message = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, table.name
            );
            return Err(EngineError::statement("23502", message));
        }
        let elsewhere = column.layout.len == -1 && matches!(value, Datum::Toasted(_));
        if !elsewhere && !column.repr.accepts(value) {
            let name = type_info(column.type_oid).map_or("unknown", |t| t.name);
            let message = format!(
                "column \"{}\" is of type {name} but the value {value:?} is not",
                column.name
            );
            return Err(EngineError::statement("42804", message));
        }
    }
    form_row(&table.layouts, values, table.encoding, out)?;
    Ok(())
}

fn wrong_count(table: &Table) -> EngineError {
    EngineError::internal(format!(
        "a row for relation \"{}\" has the wrong number of values",
        table.name
    ))
}

impl Session {
    /// Fails (55000) unless new rows of the table can be frozen at once. If the subtransaction
    /// aborts, they must be gone with the table's file: so it must have made that.
    pub fn check_freezable(&mut self, table: &Table) -> Result<(), EngineError> {
        if self.running()?.tx.has_made(table.locator) {
            return Ok(());
        }
        let message = "cannot perform COPY FREEZE because the table was not created or truncated \
                       in the current subtransaction";
        Err(EngineError::statement("55000", message))
    }

    /// Inserts the rows of a batch and empties it. Returns the number of rows. The table must be
    /// locked in mode `RowExclusive`. 23505 if a key is in use: see [`RowBatch::failed_row`].
    pub fn insert_batch(&mut self, table: &Table, rows: &mut RowBatch) -> Result<u64, EngineError> {
        if rows.table.oid != table.oid || rows.table.locator != table.locator {
            return Err(EngineError::internal("the rows are for another table"));
        }
        check_insertable(table)?;
        if rows.is_empty() {
            return Ok(0);
        }
        let noted = rows.noted && !table.triggers.is_empty();
        let of = Arc::clone(&rows.table);
        let RowBatch { tuples, failed, wide, .. } = &mut *rows;
        *failed = None;
        let toasted = if *wide { Some(self.toasted_batch(table, tuples, failed)?) } else { None };
        let inserted =
            self.inserting(table, |Target { backend, heap, author, mut entries, placed }| {
                let stored = toasted.as_ref().unwrap_or(tuples);
                let mut places = Vec::new();
                if stored.len() == 1 && !stored.is_frozen() {
                    let place = heap.insert(backend, author, stored.get(0))?;
                    placed.inserted = 1;
                    places.push(place);
                } else {
                    let bulk = stored.bytes() >= BULK_BYTES;
                    let strategy = if bulk { Strategy::BulkWrite } else { Strategy::Normal };
                    let places = (noted || entries.is_some()).then_some(&mut places);
                    heap.insert_batch(backend, author, stored, strategy, places)?;
                    placed.inserted = stored.len() as u64;
                }
                let mut inserted = Vec::new();
                let Some(entries) = &mut entries else {
                    inserted.extend(places.into_iter().map(|place| (place, Vec::new())));
                    return Ok(inserted);
                };
                assert_eq!(places.len(), tuples.len(), "each row of the batch has a place");
                for (row, place) in places.into_iter().enumerate() {
                    let added = entries.add(backend, place, tuples.get(row));
                    added.inspect_err(|_| *failed = Some(row))?;
                    if noted {
                        inserted.push((place, entries.unchecked().to_vec()));
                    }
                }
                Ok(inserted)
            })?;
        if noted {
            for (row, (place, unchecked)) in inserted.into_iter().enumerate() {
                self.note_inserted(&of, place, tuples.get(row), &unchecked)?;
            }
        }
        let count = rows.len() as u64;
        rows.clear();
        Ok(count)
    }

    /// The rows of a batch as they are to be stored, their long values in the TOAST table. Notes
    /// the row that fits on no page.
    fn toasted_batch(
        &mut self,
        table: &Table,
        tuples: &TupleBatch,
        failed: &mut Option<usize>,
    ) -> Result<TupleBatch, EngineError> {
        let mut stored = TupleBatch::new();
        stored.set_frozen(tuples.is_frozen());
        for row in 0..tuples.len() {
            let tuple = tuples.get(row);
            let toasted = self.toasted(table, tuple)?;
            let pushed = stored.push(toasted.as_deref().unwrap_or(tuple));
            pushed.inspect_err(|_| *failed = Some(row))?;
        }
        Ok(stored)
    }

    /// Inserts a row: a value for each column that is not dropped, of exactly the column's type.
    /// Returns its place. Checks NOT NULL (23502), the row's size (54000), and that its keys are
    /// not in use (23505). The table must be locked in mode `RowExclusive`.
    pub fn insert_row(
        &mut self,
        table: &Arc<Table>,
        values: &[Datum<'_>],
    ) -> Result<ItemPointer, EngineError> {
        check_insertable(table)?;
        let mut tuple = Vec::new();
        form_checked(table, values, &mut tuple)?;
        let toasted = self.toasted(table, &tuple)?;
        let (place, unchecked) =
            self.inserting(table, |Target { backend, heap, author, entries, placed }| {
                let place = heap.insert(backend, author, toasted.as_deref().unwrap_or(&tuple))?;
                placed.inserted = 1;
                let Some(mut entries) = entries else { return Ok((place, Vec::new())) };
                entries.add(backend, place, &tuple)?;
                Ok((place, entries.unchecked().to_vec()))
            })?;
        self.note_inserted(table, place, &tuple, &unchecked)?;
        Ok(place)
    }

    /// Inserts into a table in the name of the running command.
    pub(super) fn inserting<T>(
        &mut self,
        table: &Table,
        insert: impl FnOnce(Target<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.call(|session, core| {
            session.check_locked(table, LockMode::RowExclusive)?;
            let heap = session.heap(core, table)?;
            let Session { open: Some(open), backend, locks, interrupt, .. } = session else {
                return Err(no_transaction());
            };
            let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
            let author = Author { xid, command: open.tx.use_command() };
            let entries = Entries::new(core, (table, &heap), (open, author), (locks, interrupt));
            let mut placed = Placed::default();
            let inserted =
                insert(Target { backend, heap: &heap, author, entries, placed: &mut placed });
            // Also if an entry was refused: then the rows stay behind dead.
            open.tx.count_inserted(counted(table), placed.inserted);
            if placed.taken_back > 0 {
                open.tx.count_deleted(counted(table), placed.taken_back);
            }
            inserted
        })
    }
}

/// Where new rows go, and who puts them there.
pub(super) struct Target<'a> {
    pub(super) backend: &'a mut Backend,
    pub(super) heap: &'a Heap,
    pub(super) author: Author,
    /// What adds their entries, if the table has indexes.
    pub(super) entries: Option<Entries<'a>>,
    pub(super) placed: &'a mut Placed,
}

/// Rows that an insertion has put into the heap, and of these the ones that it took back.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) inserted: u64,
    pub(super) taken_back: u64,
}

pub(super) fn check_insertable(table: &Table) -> Result<(), EngineError> {
    if table.is_catalog() {
        let message = format!("permission denied: \"{}\" is a system catalog", table.name);
        return Err(EngineError::statement("42501", message));
    }
    Ok(table.check_insertable()?)
}
