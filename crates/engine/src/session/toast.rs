//! Long values of rows: stored before their row, read where they are used, deleted with their row.
//!
//! ```text
//!   insert:  plan ─ values to the TOAST table ─ the row
//!   update:  plan ─ the old version locked ─ values ─ the new version ─ replaced values deleted
//!   delete:  the row ─ its values deleted
//! ```
//!
//! An update locks the row before it stores values: if another transaction changed the row first,
//! they would be left behind.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::AccessError;
use forebay_access::heap::{Author, Changer, Heap, RowJudge};
use forebay_access::toast::{Plan, Storer, ToastTable, has_pointers, is_wide, pointers};
use forebay_catalog::schema::PG_TOAST;
use forebay_catalog::{
    ColumnDef, FilePlace, Table, create_toast_table, needs_toast_table, temp_toast_namespace,
};
use forebay_format::varlena::{ToastPointer, Varlena, decode};
use forebay_format::{HeapTuple, ItemPointer};
use forebay_storage::Backend;
use forebay_txn::CountedRelation;
use forebay_txn::locks::LockMode;
use forebay_types::{Datum, Encoding, Oid, Repr};

use super::indexes::Rows;
use super::locks::lock_tag;
use super::open::Open;
use super::parts::{Part, Source, fetched};
use super::rows::form_checked;
use super::scan::horizon_of;
use super::state::{Session, no_transaction};
use super::stored::decoded;
use super::temp_tables::OnCommit;
use super::toast_tables::ToastTables;
use crate::core::InDatabase;
use crate::error::EngineError;

/// A new version of a row, formed.
pub(super) struct NewTuple {
    /// The tuple. Its pointers are those of the old version. Values that do not change are as the
    /// old version has them.
    pub(super) tuple: Vec<u8>,
    /// What its index entries are made of, if that is not the tuple.
    entry: Option<Vec<u8>>,
}

impl NewTuple {
    /// A tuple with the same values in indexed columns, none of them stored elsewhere.
    pub(super) fn for_entries(&self) -> &[u8] {
        self.entry.as_deref().unwrap_or(&self.tuple)
    }
}

/// What is stored of a value that is out of line or compressed.
fn stored_form<'v>(value: &'v Datum<'_>) -> Result<Varlena<'v>, EngineError> {
    let Datum::Toasted(stored) = value else {
        return Err(EngineError::internal("the value is neither out of line nor compressed"));
    };
    let damaged = || EngineError::internal("a TOAST pointer is damaged");
    decode(stored).map(|(value, _)| value).ok_or_else(damaged)
}

/// The pointer to a value that is stored out of line.
pub(super) fn pointer_of(value: &Datum<'_>) -> Result<ToastPointer, EngineError> {
    match stored_form(value)? {
        Varlena::External(pointer) => Ok(pointer),
        _ => Err(EngineError::internal("the value is not stored out of line")),
    }
}

/// A value that is compressed in its row ([`Datum::Toasted`]), or a part of it. None: it is out of
/// line.
pub fn compressed_value(
    value: &Datum<'_>,
    repr: Repr,
    part: &Part,
    encoding: Encoding,
) -> Result<Option<Datum<'static>>, EngineError> {
    let Varlena::Compressed { raw_size, method, data } = stored_form(value)? else {
        return Ok(None);
    };
    fetched(Source::Row { raw_size, method, data }, (repr, part.clone()), encoding).map(Some)
}

/// A TOAST table in statistics.
fn chunks_of(toast: &ToastTable) -> CountedRelation {
    CountedRelation { db: toast.heap.locator.db, rel: toast.oid }
}

/// A value for a column that an index entry does not have: nothing, or zero of a numeric.
fn placeholder(repr: Repr) -> Result<Datum<'static>, EngineError> {
    let of_bytes = |bytes| decoded(bytes, repr, Encoding::Utf8);
    of_bytes(Vec::new()).or_else(|_| of_bytes(vec![0x00, 0x80]))
}

/// The bytes of a value that is stored out of line or compressed. None: its pointer is damaged.
pub fn toasted_size(value: &Datum<'_>) -> Option<usize> {
    match stored_form(value).ok()? {
        Varlena::External(pointer) => Some(pointer.value_size()? as usize),
        Varlena::Compressed { raw_size, .. } => Some(raw_size as usize),
        Varlena::Plain(value) => Some(value.len()),
    }
}

impl Session {
    /// Reads a value that is stored out of line or compressed ([`Datum::Toasted`]), of a column's
    /// representation, or a part of it. The caller sees its row by a snapshot that it still has.
    pub fn fetch_value(
        &mut self,
        value: &Datum<'_>,
        repr: Repr,
        part: Part,
    ) -> Result<Datum<'static>, EngineError> {
        let encoding = self.core.database.encoding;
        if let Some(value) = compressed_value(value, repr, &part, encoding)? {
            return Ok(value);
        }
        let pointer = pointer_of(value)?;
        self.call(|session, core| {
            let table = session.toast_table(core, pointer.toast_rel, LockMode::AccessShare)?;
            let source = Source::Table(&table, &mut session.backend, pointer);
            fetched(source, (repr, part), encoding)
        })
    }

    /// A TOAST table, locked until the transaction ends.
    pub(super) fn toast_table(
        &mut self,
        core: &InDatabase,
        oid: Oid,
        mode: LockMode,
    ) -> Result<ToastTable, EngineError> {
        let table = self.locked_toast(core, oid, mode)?;
        let (ahead, heap) = (self.read_ahead(), self.heap(core, &table)?);
        let refused = |why: &str| {
            let message = format!("cannot use relation \"{}\": {why}", table.name);
            EngineError::statement("0A000", message)
        };
        let ready: Vec<_> = table.indexes.iter().filter(|index| index.ready).collect();
        if ready.iter().any(|index| index.unknown.is_some() || index.shape.keys.len() != 2) {
            return Err(refused("its index is not understood"));
        }
        // While its index is built anew beside writers it has two.
        let (valid, others): (Vec<_>, Vec<_>) = ready.into_iter().partition(|index| index.valid);
        let [index] = valid[..] else {
            return Err(refused("it does not have one index"));
        };
        Ok(ToastTable {
            oid,
            name: table.name.clone(),
            index: index.open(&heap),
            others: others.into_iter().map(|index| index.open(&heap)).collect(),
            heap,
            ahead,
            interrupt: self.interrupt.clone(),
        })
    }

    /// What the catalogs say of a TOAST table, which is locked until the transaction ends.
    pub(super) fn locked_toast(
        &mut self,
        core: &InDatabase,
        oid: Oid,
        mode: LockMode,
    ) -> Result<Arc<Table>, EngineError> {
        let table = self.toast_relation(core, oid)?;
        if self.locks.holds_at_least(lock_tag(&table), mode) {
            return Ok(table);
        }
        self.lock_table(core, &table, mode)?;
        // It may have got a new file meanwhile.
        self.toast_relation(core, oid)
    }

    /// What the catalogs say of a TOAST table.
    pub(super) fn toast_relation(
        &mut self,
        core: &InDatabase,
        oid: Oid,
    ) -> Result<Arc<Table>, EngineError> {
        let moved = core.database.cache.moved();
        if let Some(table) = self.known_toast()?.get(moved, oid) {
            return Ok(Arc::clone(table));
        }
        let found = self.find_by_oid(core, oid)?.filter(|table| table.kind == b't');
        let missing = || EngineError::corrupt(format!("there is no TOAST table with OID {oid}"));
        let table = found.ok_or_else(missing)?;
        if core.database.cache.moved() == moved {
            self.known_toast()?.put(moved, &table);
        }
        Ok(table)
    }

    /// The TOAST tables that were found: a transaction that has changed the catalogs knows its own.
    fn known_toast(&mut self) -> Result<&mut ToastTables, EngineError> {
        let Session { open: Some(open), toast_tables, .. } = self else {
            return Err(no_transaction());
        };
        Ok(if open.changed_catalogs { &mut open.own_toast } else { toast_tables })
    }

    /// Creates the TOAST table of a new table with these columns, if they need one.
    pub(super) fn create_toast(
        &mut self,
        core: &InDatabase,
        (table, place): (Oid, FilePlace),
        columns: &[ColumnDef],
        options: &[String],
    ) -> Result<(), EngineError> {
        if !needs_toast_table(columns, core.database.encoding)? {
            return Ok(());
        }
        let temporary = place.persistence == b't';
        let namespace = match temporary {
            true => self.own_namespace(core, &temp_toast_namespace(self.temp.slot))?,
            false => PG_TOAST,
        };
        let (toast, index) = self.with_files(core, place, |session, files| {
            let (tx, backend) = session.changing()?;
            let of = (table, namespace, options);
            Ok(create_toast_table(&core.database, backend, tx, of, files)?)
        })?;
        if temporary {
            for (name, file) in [(&toast.name, toast.locator), (&index.name, index.locator)] {
                self.note_temp_made((Some(table), name), file, OnCommit::PreserveRows);
            }
        }
        self.build(core, &toast, &index, (&[], Rows::All))
    }

    /// How a formed row is to be stored. None: as it is.
    pub(super) fn plan<'t>(
        &self,
        table: &Table,
        tuple: &'t [u8],
    ) -> Result<Option<Plan<'t>>, EngineError> {
        if !is_wide(tuple) {
            return Ok(None);
        }
        let method = self.settings.default_toast_compression;
        let view = HeapTuple::new(tuple)?;
        Ok(Some(Plan::new(view, &table.layouts, &table.toasting, method)?))
    }

    /// A new row as it is to be stored, its long values in the TOAST table. None: as it is. The
    /// table must be locked in mode `RowExclusive`.
    pub(super) fn toasted(
        &mut self,
        table: &Table,
        tuple: &[u8],
    ) -> Result<Option<Vec<u8>>, EngineError> {
        if !is_wide(tuple) {
            return Ok(None);
        }
        if has_pointers(tuple) {
            return Err(EngineError::internal("a value of a new row was not fetched"));
        }
        self.call(|session, core| {
            session.check_locked(table, LockMode::RowExclusive)?;
            let Some(plan) = session.plan(table, tuple)? else { return Ok(None) };
            Ok(Some(session.store(core, table, &plan)?))
        })
    }

    /// Stores the values of a plan that go out of line. Returns the row.
    pub(super) fn store(
        &mut self,
        core: &InDatabase,
        table: &Table,
        plan: &Plan<'_>,
    ) -> Result<Vec<u8>, EngineError> {
        let mut row = Vec::new();
        let Some(oid) = table.toasting.relation.filter(|_| plan.stores()) else {
            let stays =
                |_, _: Varlena<'_>| Err(AccessError::Internal("no value goes out".to_owned()));
            plan.form(stays, &mut row)?;
            return Ok(row);
        };
        let toast = self.toast_table(core, oid, LockMode::RowExclusive)?;
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
        let author = Author { xid, command: open.tx.use_command() };
        let Open { tx, sets, .. } = open;
        let own = tx.full_xid();
        let changer = Changer { xacts: &core.xacts, tx, author, sets, queues: None };
        let rows = RowJudge::new(&toast.heap, changer, horizon_of(table), core.database.oid, own);
        let mut storer = Storer::new(&toast, author, rows);
        let mut next_id = |backend: &mut Backend| Ok(core.database.next_oid(backend)?);
        let formed = plan.form(|_, value| storer.store(backend, value, &mut next_id), &mut row);
        let stored = storer.stored();
        open.tx.count_inserted(chunks_of(&toast), stored);
        formed?;
        Ok(row)
    }

    /// Forms the new version of a row at `tid`. Values that stay where they are in the TOAST table,
    /// or stay compressed, are not read, unless an index has them.
    pub(super) fn new_tuple(
        &mut self,
        table: &Table,
        tid: ItemPointer,
        values: &[Datum<'_>],
    ) -> Result<NewTuple, EngineError> {
        let mut tuple = Vec::new();
        if !values.iter().any(|value| matches!(value, Datum::Toasted(_))) {
            form_checked(table, values, &mut tuple)?;
            return Ok(NewTuple { tuple, entry: None });
        }
        let old = self.call(|session, core| {
            let heap = session.heap(core, table)?;
            let old = heap.any_version(&mut session.backend, tid)?;
            let old = old.as_deref().map(HeapTuple::new).transpose()?;
            Ok(old.map_or(Ok(Vec::new()), |old| pointers(old, &table.layouts))?)
        })?;
        let mut row: Vec<Datum<'_>> = values.iter().map(Datum::reborrow).collect();
        let columns = || table.columns.iter().enumerate().filter(|(_, column)| !column.dropped);
        for (value, (number, column)) in row.iter_mut().zip(columns()) {
            let Datum::Toasted(bytes) = &*value else { continue };
            let Some((Varlena::External(pointer), _)) = decode(bytes) else { continue };
            if !old.contains(&(number, pointer)) {
                *value = self.fetch_value(value, column.repr, Part::Whole)?;
            }
        }
        form_checked(table, &row, &mut tuple)?;
        if table.indexes.is_empty() {
            return Ok(NewTuple { tuple, entry: None });
        }
        for (value, (number, column)) in row.iter_mut().zip(columns()) {
            if matches!(value, Datum::Toasted(_)) {
                *value = match table.indexed_columns.contains(&number) {
                    true => self.fetch_value(value, column.repr, Part::Whole)?,
                    false => placeholder(column.repr)?,
                };
            }
        }
        let mut entry = Vec::new();
        form_checked(table, &row, &mut entry)?;
        Ok(NewTuple { tuple, entry: Some(entry) })
    }

    /// Takes the values of a row back that was not inserted after all.
    pub(super) fn take_values_back(
        &mut self,
        table: &Table,
        row: &[u8],
    ) -> Result<(), EngineError> {
        let stored = pointers(HeapTuple::new(row)?, &table.layouts)?;
        self.call(|session, core| {
            for (_, pointer) in stored {
                let toast = session.toast_table(core, pointer.toast_rel, LockMode::RowExclusive)?;
                let Session { open: Some(open), backend, .. } = session else {
                    return Err(no_transaction());
                };
                let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
                let gone = toast.take_back(backend, xid, pointer)?;
                open.tx.count_deleted(chunks_of(&toast), gone);
            }
            Ok(())
        })
    }

    /// Deletes the values of the version at `tid`, which the running command has deleted or
    /// replaced, but for those that the new version `kept` has.
    pub(super) fn remove_values(
        &mut self,
        core: &InDatabase,
        (table, heap): (&Table, &Heap),
        tid: ItemPointer,
        kept: Option<&[u8]>,
    ) -> Result<(), EngineError> {
        if table.toasting.relation.is_none() {
            return Ok(());
        }
        let Some(old) = heap.any_version(&mut self.backend, tid)? else { return Ok(()) };
        let mut gone = pointers(HeapTuple::new(&old)?, &table.layouts)?;
        if let Some(kept) = kept.filter(|_| !gone.is_empty()) {
            let kept = pointers(HeapTuple::new(kept)?, &table.layouts)?;
            gone.retain(|pointer| !kept.contains(pointer));
        }
        for (_, pointer) in gone {
            let toast = self.toast_table(core, pointer.toast_rel, LockMode::RowExclusive)?;
            let Session { open: Some(open), backend, .. } = self else {
                return Err(no_transaction());
            };
            let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
            let author = Author { xid, command: open.tx.use_command() };
            let Open { tx, sets, .. } = open;
            let mut changer = Changer { xacts: &core.xacts, tx, author, sets, queues: None };
            let gone = toast.remove(backend, &mut changer, pointer)?;
            tx.count_deleted(chunks_of(&toast), gone);
        }
        Ok(())
    }
}
