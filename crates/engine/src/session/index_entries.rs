//! The entries of rows in their table's indexes.
//!
//! A row goes into the heap first, then into one index after the other. If an index must be unique,
//! the entry waits for a transaction whose end decides whether its key is in use. A row whose entry
//! is refused stays behind dead: the statement fails. Of a row that may conflict with others
//! (ON CONFLICT), the keys are looked for first, and again when its entries are in.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_access::heap::{Author, Changer, Heap, RowFate, RowJudge};
use forebay_access::nbtree::{Index, IndexShape, Insertion, NewRow, RowValues, UniqueCheck};
use forebay_access::{AccessError, EntrySource, MissingRow, StoredValues};
use forebay_catalog::nodes::type_of;
use forebay_catalog::{ObjectName, Table, TableIndex, quoted};
use forebay_format::ids::INVALID_XID;
use forebay_format::varlena::Varlena;
use forebay_format::{AttrLayout, BlockNumber, IndexTuple, ItemPointer, Oid, Xid};
use forebay_storage::Backend;
use forebay_txn::locks::{Interrupt, LockOwner, OwnerId};
use forebay_types::{Repr, SqlType, to_text};

use super::locks::count_deadlock;
use super::open::Open;
use super::scan::horizon_of;
use super::state::{Session, no_transaction};
use crate::core::InDatabase;
use crate::error::EngineError;

/// Puts the entries of new rows into the indexes of their table, for a transaction.
pub(super) struct Entries<'a> {
    core: &'a InDatabase,
    table: &'a Table,
    indexes: Vec<(&'a TableIndex, Index)>,
    /// The layouts of the table's columns up to the last one that an index has.
    layouts: &'a [AttrLayout],
    rows: RowJudge<'a>,
    xid: Xid,
    owner: &'a mut LockOwner,
    interrupt: &'a Interrupt,
    /// An index tuple.
    tuple: Vec<u8>,
    /// Deferrable indexes in which another row may have the key of the last one.
    unchecked: Vec<Oid>,
}

/// What keeps an entry out of an index: a transaction, or its tentative insertion.
type Blocking = (Xid, Option<u32>);

impl<'a> Entries<'a> {
    /// For rows that a transaction puts into a heap. None if the table has no indexes.
    pub(super) fn new(
        core: &'a InDatabase,
        (table, heap): (&'a Table, &'a Heap),
        (open, author): (&'a mut Open, Author),
        (owner, interrupt): (&'a mut LockOwner, &'a Interrupt),
    ) -> Option<Entries<'a>> {
        if table.indexes.is_empty() {
            return None;
        }
        let ready = table.indexes.iter().filter(|index| index.ready);
        let indexes = ready.map(|index| (&**index, index.open(heap))).collect();
        let columns = table.indexed_columns.last().map_or(0, |last| last + 1);
        let Open { tx, sets, .. } = open;
        let own = tx.full_xid();
        let changer = Changer { xacts: &core.xacts, tx, author, sets, queues: None };
        Some(Entries {
            core,
            table,
            indexes,
            layouts: table.layouts.get(..columns).unwrap_or(&table.layouts),
            rows: RowJudge::new(heap, changer, horizon_of(table), core.database.oid, own),
            xid: author.xid,
            owner,
            interrupt,
            tuple: Vec::new(),
            unchecked: Vec::new(),
        })
    }

    /// Adds the entries of a row that was put at a place. 23505 if a key is in use.
    pub(super) fn add(
        &mut self,
        backend: &mut Backend,
        place: ItemPointer,
        tuple: &[u8],
    ) -> Result<(), EngineError> {
        let added = self.add_version(backend, place, tuple, None, &[])?;
        assert!(added, "without arbiters an entry is added or refused");
        Ok(())
    }

    /// The same, for a newer version of a row, of which these columns changed. False, and some
    /// entries are missing, if a row may be live that has the same key in one of the `arbiters`.
    fn add_version(
        &mut self,
        backend: &mut Backend,
        place: ItemPointer,
        tuple: &[u8],
        changed: Option<&[usize]>,
        arbiters: &[Oid],
    ) -> Result<bool, EngineError> {
        let values = RowValues::new(tuple, self.layouts)?;
        let Entries { core, table, indexes, rows, xid, owner, interrupt, tuple, unchecked, .. } =
            self;
        unchecked.clear();
        for (index, open) in indexes {
            let failed = |error| failed(table, index, error);
            let formed = form(&values, index, &open.shape, place, tuple).map_err(failed)?;
            let Some(computed) = formed else { continue };
            let unique = match arbiters.contains(&index.oid) {
                true => UniqueCheck::Partial,
                false if index.unique && !index.immediate => UniqueCheck::Partial,
                false => UniqueCheck::of(index.unique),
            };
            let unchanged = changed.is_some_and(|changed| is_unchanged(index, changed));
            let entry = NewRow { tuple, xid: *xid, unique, unchanged };
            let mut last = None;
            loop {
                let blocking = match open.insert(backend, rows, entry).map_err(failed)? {
                    Insertion::Done => break,
                    Insertion::Unchecked if arbiters.contains(&index.oid) => return Ok(false),
                    Insertion::Unchecked => {
                        unchecked.push(index.oid);
                        break;
                    }
                    Insertion::Duplicate(_) => {
                        let keys = index.key_sources().map(|source| match source {
                            EntrySource::Column(column) => values.get(column),
                            EntrySource::Expression(n) => computed.get(n)?.as_deref(),
                        });
                        return Err(duplicate(table, index, shown_key(table, index, keys)));
                    }
                    Insertion::Wait { xid, token, .. } => (xid, token),
                };
                let waited = (place, &*index.name);
                wait(core, backend, owner, interrupt, decisive(&mut last, blocking), waited)?;
            }
        }
        Ok(true)
    }

    /// The deferrable indexes in which another row may have the key of the row added last.
    pub(super) fn unchecked(&self) -> &[Oid] {
        &self.unchecked
    }

    /// Checks that no other live row has the key of a row at a place in a deferrable index. Waits
    /// for transactions that decide that. 23505 if there is one; nothing if the row is gone.
    pub(super) fn recheck(
        &mut self,
        backend: &mut Backend,
        (place, row): (ItemPointer, &[u8]),
        wanted: Oid,
    ) -> Result<(), EngineError> {
        let Entries { core, table, indexes, rows, xid, owner, interrupt, tuple, .. } = self;
        if !matches!(rows.fate(backend, place)?, RowFate::Live(_)) {
            return Ok(());
        }
        let values = RowValues::new(row, self.layouts)?;
        for (index, open) in indexes.iter().filter(|(index, _)| index.oid == wanted) {
            let failed = |error| failed(table, index, error);
            let columns = index.table_columns();
            values.form_entry(&open.shape, columns, place, tuple).map_err(failed)?;
            let (unique, unchanged) = (UniqueCheck::Yes, false);
            let entry = NewRow { tuple, xid: *xid, unique, unchanged };
            let mut last = None;
            loop {
                let blocking = match open.find_conflict(backend, rows, entry).map_err(failed)? {
                    Some(Insertion::Duplicate(_)) => {
                        let keys = index.key_columns().map(|column| values.get(column));
                        return Err(duplicate(table, index, shown_key(table, index, keys)));
                    }
                    Some(Insertion::Wait { xid, token, .. }) => (xid, token),
                    None | Some(Insertion::Done | Insertion::Unchecked) => break,
                };
                let waited = (place, &*index.name);
                wait(core, backend, owner, interrupt, decisive(&mut last, blocking), waited)?;
            }
        }
        Ok(())
    }

    /// Looks for a live row that has a key of this new one in one of the `arbiters`. Waits for
    /// transactions that decide whether there is one.
    pub(super) fn conflict(
        &mut self,
        backend: &mut Backend,
        tuple: &[u8],
        arbiters: &[Oid],
    ) -> Result<Option<ItemPointer>, EngineError> {
        let values = RowValues::new(tuple, self.layouts)?;
        let Entries { core, table, indexes, rows, xid, owner, interrupt, tuple, .. } = self;
        for (index, open) in indexes.iter().filter(|(index, _)| arbiters.contains(&index.oid)) {
            if !index.immediate {
                let message = "ON CONFLICT does not support deferrable unique \
                               constraints/exclusion constraints as arbiters";
                return Err(EngineError::statement("55000", message).about(object(table, index)));
            }
            let failed = |error| failed(table, index, error);
            let formed = form(&values, index, &open.shape, NOWHERE, tuple).map_err(failed)?;
            if formed.is_none() {
                continue;
            }
            let unique = UniqueCheck::Yes;
            let entry = NewRow { tuple, xid: *xid, unique, unchanged: false };
            let mut last = None;
            loop {
                let (tid, blocking) = match open.find_conflict(backend, rows, entry) {
                    Ok(Some(Insertion::Duplicate(version))) => return Ok(Some(version)),
                    Ok(Some(Insertion::Wait { tid, xid, token })) => (tid, (xid, token)),
                    Ok(None | Some(Insertion::Done | Insertion::Unchecked)) => break,
                    // No row has such a key. Its insertion fails, and tells the place.
                    Err(AccessError::IndexRowTooBig { .. }) => break,
                    Err(error) => return Err(error.into()),
                };
                let blocking = decisive(&mut last, blocking);
                wait(core, backend, owner, interrupt, blocking, (tid, &table.name))?;
            }
        }
        Ok(None)
    }

    /// Inserts a row into the heap and the indexes, unless a row may be live that has the same key
    /// in one of the `arbiters`: then what was inserted is taken back.
    pub(super) fn insert_tentatively(
        &mut self,
        backend: &mut Backend,
        (heap, author): (&Heap, Author),
        row: (&[u8], &[u8]),
        arbiters: &[Oid],
    ) -> Result<Option<ItemPointer>, EngineError> {
        let token = self.owner.begin_insertion();
        let settled = self.settle(backend, heap, (author, token), row, arbiters);
        // Also after an error: then the row ends with the transaction.
        self.core.locks.insertion_ended(self.owner, author.xid, token);
        settled
    }

    fn settle(
        &mut self,
        backend: &mut Backend,
        heap: &Heap,
        (author, token): (Author, u32),
        (stored, tuple): (&[u8], &[u8]),
        arbiters: &[Oid],
    ) -> Result<Option<ItemPointer>, EngineError> {
        let place = heap.insert_tentatively(backend, author, token, stored)?;
        if self.add_version(backend, place, tuple, None, arbiters)? {
            heap.confirm(backend, author.xid, place)?;
            return Ok(Some(place));
        }
        heap.take_back(backend, author.xid, place)?;
        Ok(None)
    }
}

/// Puts the entry of a row into `tuple`. Returns the values of the index's expressions. None: it
/// has no entry of the row.
fn form(
    values: &RowValues<'_>,
    index: &TableIndex,
    shape: &IndexShape,
    place: ItemPointer,
    tuple: &mut Vec<u8>,
) -> Result<Option<StoredValues>, AccessError> {
    match &index.computed {
        Some(entries) => values.form_computed(shape, entries, place, tuple),
        None => {
            values.form_entry(shape, index.table_columns(), place, tuple)?;
            Ok(Some(Vec::new()))
        }
    }
}

/// Whether the key of a row's newer version, of which these columns changed, is the older one's.
fn is_unchanged(index: &TableIndex, changed: &[usize]) -> bool {
    match index.trees.expressions.is_empty() {
        true => !index.key_columns().any(|key| changed.contains(&key)),
        false => !index.columns_read().iter().any(|column| changed.contains(column)),
    }
}

/// The place of a row that has none yet.
const NOWHERE: ItemPointer = ItemPointer::new(BlockNumber::MAX, 1);

/// What is to be waited for. If a tentative insertion is in the way again though it has ended, it
/// has failed, and the end of its transaction decides.
fn decisive(last: &mut Option<Blocking>, blocking: Blocking) -> Blocking {
    let again = last.replace(blocking) == Some(blocking);
    (blocking.0, blocking.1.filter(|_| !again))
}

/// Waits for what keeps the entry of a row at a place out of an index, or of a table's indexes.
fn wait(
    core: &InDatabase,
    backend: &mut Backend,
    owner: &LockOwner,
    interrupt: &Interrupt,
    (xid, token): Blocking,
    (place, relation): (ItemPointer, &str),
) -> Result<(), EngineError> {
    // The transaction might wait for this backend's I/O.
    backend.io.submit();
    let runner = || core.xacts.procs().runner(xid).map(OwnerId);
    let waited = match token {
        Some(token) => core.locks.wait_for_insertion(owner, (xid, token), runner, interrupt),
        None => core.locks.wait_for_transaction(owner, xid, runner, interrupt),
    };
    waited.map_err(|error| {
        let context = format!("while inserting index tuple {place} in relation \"{relation}\"");
        count_deadlock(core, EngineError::RowLock { error, context })
    })
}

/// What an error about an index is about.
pub(super) fn object(table: &Table, index: &TableIndex) -> ObjectName {
    ObjectName {
        schema: table.schema.clone(),
        table: table.name.clone(),
        constraint: index.name.clone(),
    }
}

/// The entry of a row could not be added.
#[cold]
pub(super) fn failed(table: &Table, index: &TableIndex, error: AccessError) -> EngineError {
    let AccessError::IndexRowTooBig { tid, .. } = error else { return error.into() };
    EngineError::from(error)
        .with_detail(format!("Index row references tuple {tid} in relation \"{}\".", table.name))
        .with_hint(
            "Values larger than 1/3 of a buffer page cannot be indexed.\nConsider a function \
             index of an MD5 hash of the value, or use full text indexing.",
        )
        .about(object(table, index))
}

/// The refusal of a row whose key is in use.
#[cold]
fn duplicate(table: &Table, index: &TableIndex, key: Option<String>) -> EngineError {
    let name = &index.name;
    let message = format!("duplicate key value violates unique constraint \"{name}\"");
    let refused = EngineError::statement("23505", message).about(object(table, index));
    match key {
        Some(key) => refused.with_detail(format!("Key {key} already exists.")),
        None => refused,
    }
}

/// Adds the entry of a row that an index lacks since it was built beside writers. 23505 if its key
/// is in use, unless the row is dead by now.
pub(super) fn add_lacking(
    core: &InDatabase,
    backend: &mut Backend,
    (table, index, open): (&Table, &TableIndex, &Index),
    (owner, interrupt): (&LockOwner, &Interrupt),
    rows: &mut RowJudge<'_>,
    row: MissingRow<'_>,
) -> Result<(), EngineError> {
    let MissingRow { place, tuple } = row;
    let failed = |error| failed(table, index, error);
    let mut unique = UniqueCheck::of(index.unique);
    let mut last = None;
    loop {
        // The transaction changes no rows, so it has no id.
        let entry = NewRow { tuple, xid: INVALID_XID, unique, unchanged: false };
        let blocking = match open.insert(backend, rows, entry).map_err(failed)? {
            Insertion::Done | Insertion::Unchecked => return Ok(()),
            Insertion::Wait { xid, token, .. } => (xid, token),
            Insertion::Duplicate(_) => match rows.fate(backend, place)? {
                // Snapshots may still see it, so it gets an entry.
                RowFate::Dead | RowFate::Gone => {
                    unique = UniqueCheck::No;
                    continue;
                }
                RowFate::Live(_) | RowFate::InDoubt(_) | RowFate::Speculative(..) => {
                    return Err(duplicate(table, index, key_of(table, index, tuple)));
                }
            },
        };
        let waited = (place, &*index.name);
        wait(core, backend, owner, interrupt, decisive(&mut last, blocking), waited)?;
    }
}

/// The key of an index tuple in messages. None if a value has no text form here.
pub(super) fn key_of(table: &Table, index: &TableIndex, tuple: &[u8]) -> Option<String> {
    let layouts = &index.shape.layouts;
    let mut walk = IndexTuple::new(tuple).ok()?.values(layouts.len());
    let mut values = Vec::with_capacity(layouts.len());
    for layout in layouts {
        values.push(match walk.next(*layout).ok()? {
            None => None,
            Some(Varlena::Plain(bytes)) => Some(bytes),
            Some(_) => return None,
        });
    }
    shown_key(table, index, values.into_iter())
}

/// A key in messages. None if values of a type have no text form here.
fn shown_key<'v>(
    table: &Table,
    index: &TableIndex,
    values: impl Iterator<Item = Option<&'v [u8]>>,
) -> Option<String> {
    let (mut names, mut shown) = (Vec::new(), Vec::new());
    for (source, value) in index.key_sources().zip(values) {
        let (name, ty) = match source {
            EntrySource::Column(column) => {
                let column = table.columns.get(column)?;
                (quoted(&column.name).into_owned(), column.type_oid)
            }
            EntrySource::Expression(n) => {
                let text = index.computed.as_ref()?.expressions.text(n);
                (text.to_owned(), type_of(index.trees.expressions.get(n)?))
            }
        };
        names.push(name);
        let text = |bytes| {
            let value = Repr::of(ty).decode(bytes, table.encoding).ok()?;
            to_text(&value, SqlType::of(ty)).ok()
        };
        shown.push(value.map_or_else(|| Some("null".to_owned()), text)?);
    }
    Some(format!("({})=({})", names.join(", "), shown.join(", ")))
}

impl Session {
    /// An index of a table, to read or change it. Another session's temporary table is refused.
    pub(super) fn index(
        &mut self,
        core: &InDatabase,
        table: &Table,
        index: &TableIndex,
    ) -> Result<Index, EngineError> {
        Ok(index.open(&self.heap(core, table)?))
    }

    /// Adds the entries of a row that the running command has put into a table.
    pub(super) fn add_entries(
        &mut self,
        core: &InDatabase,
        table: &Table,
        heap: &Heap,
        (place, tuple, changed): (ItemPointer, &[u8], &[usize]),
    ) -> Result<Vec<Oid>, EngineError> {
        let Session { open: Some(open), backend, locks, interrupt, .. } = self else {
            return Err(no_transaction());
        };
        let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
        let author = Author { xid, command: open.tx.use_command() };
        match Entries::new(core, (table, heap), (open, author), (locks, interrupt)) {
            Some(mut entries) => {
                let added = entries.add_version(backend, place, tuple, Some(changed), &[])?;
                assert!(added, "without arbiters an entry is added or refused");
                Ok(entries.unchecked)
            }
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tentative_insertion_that_has_failed_is_not_waited_for_again() {
        let mut last = None;
        assert_eq!(decisive(&mut last, (7, Some(1))), (7, Some(1)));
        // It has ended and is still there: its transaction decides.
        assert_eq!(decisive(&mut last, (7, Some(1))), (7, None));
        assert_eq!(decisive(&mut last, (7, Some(2))), (7, Some(2)), "the next try of the same");
        assert_eq!(decisive(&mut last, (8, Some(2))), (8, Some(2)));
        assert_eq!(decisive(&mut last, (8, None)), (8, None));
    }
}
