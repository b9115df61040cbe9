//! Which row changes foreign keys and deferrable keys have to look at, and taking these events out
//! of their queue.
//!
//! The engine notes what must be looked at; the caller fires: it takes the events one by one
//! ([`Session::next_key_event`]) and does what their triggers say. A transaction with events that
//! nobody has taken does not commit.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_catalog::{ForeignKey, KeyTrigger, KeyWork, Reader, Table};
use forebay_format::tuple::Deform;
use forebay_format::varlena::Varlena;
use forebay_format::{HeapTuple, ItemPointer};
use forebay_types::Oid;

use super::key_events::FoundEvent;
use super::state::Session;
use super::stored::StoredRow;
use crate::core::InDatabase;
use crate::error::EngineError;

/// A trigger that is due for a row.
#[derive(Clone, Debug)]
pub struct KeyEvent {
    /// The table whose row has changed.
    pub table: Arc<Table>,
    /// What has to be done.
    pub trigger: Arc<KeyTrigger>,
    /// The version that was updated or deleted.
    pub old: Option<StoredRow>,
    /// The version that was made.
    pub new: Option<StoredRow>,
}

/// Which events are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Those of the statement.
    Statement,
    /// Those too that SET CONSTRAINTS has made immediate.
    Immediate,
    /// All: the transaction is about to commit.
    All,
}

/// The values of some columns, as stored.
type Values<'a> = Vec<Option<Varlena<'a>>>;

impl Session {
    /// A row was put at a place. `unchecked`: deferrable indexes in which another may have its key.
    pub(super) fn note_inserted(
        &mut self,
        table: &Arc<Table>,
        place: ItemPointer,
        tuple: &[u8],
        unchecked: &[Oid],
    ) -> Result<(), EngineError> {
        for trigger in &table.triggers {
            let due = match (trigger.work, &trigger.key) {
                (KeyWork::Recheck, _) => unchecked.contains(&trigger.index),
                (KeyWork::CheckInserted, Some(key)) => {
                    refers(key, &values(table, tuple, &key.columns)?)
                }
                _ => false,
            };
            if due {
                self.running()?.keys.add(table, trigger, (None, Some(place)))?;
            }
        }
        Ok(())
    }

    /// The version of a row at a place was replaced.
    pub(super) fn note_updated(
        &mut self,
        table: &Arc<Table>,
        (old_place, new_place): (ItemPointer, ItemPointer),
        (old, new): (&[u8], &[u8]),
        unchecked: &[Oid],
    ) -> Result<(), EngineError> {
        for trigger in &table.triggers {
            let due = match (trigger.work, &trigger.key) {
                (KeyWork::Recheck, _) => unchecked.contains(&trigger.index),
                (KeyWork::CheckUpdated, Some(key)) => {
                    let now = values(table, new, &key.columns)?;
                    // The check of an own insertion finds a version that is gone.
                    refers(key, &now)
                        && (self.is_own_version(old)? || now != values(table, old, &key.columns)?)
                }
                (KeyWork::Updated(_), Some(key)) => {
                    let before = values(table, old, &key.parent_columns)?;
                    before.iter().all(Option::is_some)
                        && before != values(table, new, &key.parent_columns)?
                }
                _ => false,
            };
            if due {
                let places = (Some(old_place), Some(new_place));
                self.running()?.keys.add(table, trigger, places)?;
            }
        }
        Ok(())
    }

    /// The version of a row at a place was deleted.
    pub(super) fn note_deleted(
        &mut self,
        table: &Arc<Table>,
        place: ItemPointer,
        tuple: &[u8],
    ) -> Result<(), EngineError> {
        for trigger in &table.triggers {
            if let (KeyWork::Deleted(_), Some(key)) = (trigger.work, &trigger.key)
                && values(table, tuple, &key.parent_columns)?.iter().all(Option::is_some)
            {
                self.running()?.keys.add(table, trigger, (Some(place), None))?;
            }
        }
        Ok(())
    }

    fn is_own_version(&mut self, tuple: &[u8]) -> Result<bool, EngineError> {
        let inserter = HeapTuple::new(tuple)?.xmin();
        Ok(self.running()?.tx.is_own(inserter))
    }

    /// Takes the next event that is due out of the queue.
    pub fn next_key_event(&mut self, due: Due) -> Result<Option<KeyEvent>, EngineError> {
        let taken = self.running()?.keys.take(due != Due::Statement, due == Due::All);
        let Some(FoundEvent { table, trigger, old, new }) = taken else { return Ok(None) };
        let mut version = |place: Option<ItemPointer>| match place {
            Some(place) => self.row_at(&table, place),
            None => Ok(None),
        };
        let (old, new) = (version(old)?, version(new)?);
        Ok(Some(KeyEvent { table, trigger, old, new }))
    }

    /// Whether the statement that ran last has brought events that nobody has taken.
    pub fn has_statement_events(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.keys.has_statement())
    }

    /// Whether events are due that nobody has taken.
    pub fn has_key_events(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.keys.has_pending(None))
    }

    /// Whether events of a table wait.
    pub fn has_key_events_of(&self, table: Oid) -> bool {
        self.open.as_ref().is_some_and(|open| open.keys.has_pending(Some(table)))
    }

    /// Looks through the deferred events from the first one on: before SET CONSTRAINTS or a commit
    /// fires them.
    pub fn begin_deferred_round(&mut self) -> Result<(), EngineError> {
        self.running()?.keys.begin_round();
        Ok(())
    }

    /// Lets constraints, by their OIDs, or all of them, be checked at the end of the transaction or
    /// of each statement.
    pub fn set_constraints(
        &mut self,
        constraints: Option<&[Oid]>,
        deferred: bool,
    ) -> Result<(), EngineError> {
        self.running()?.keys.set_modes(constraints, deferred);
        Ok(())
    }

    /// The constraints of a name, in a schema or in the first of the search path that has one:
    /// their OIDs, and whether each is deferrable.
    pub fn constraints_named(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Vec<(Oid, bool)>, EngineError> {
        self.call(|session, core| {
            let namespaces = match schema {
                Some(schema) => {
                    let found = session.namespace(core, schema)?;
                    vec![found.ok_or_else(|| super::path::no_schema(schema))?]
                }
                None => session.visible_namespaces(core)?,
            };
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            for namespace in namespaces {
                let found = reader.constraints_named(namespace, name)?;
                if !found.is_empty() {
                    return Ok(found);
                }
            }
            Ok(Vec::new())
        })
    }

    /// A number that changes with the catalogs. None: the transaction has changed them itself.
    pub fn catalog_version(&self) -> Option<u64> {
        let changed = self.has_changed_catalogs();
        (!changed).then(|| self.core.database.cache.moved())
    }

    /// Fails (XX000) if the transaction has left events.
    pub(super) fn check_no_key_events(&self, _core: &InDatabase) -> Result<(), EngineError> {
        match self.has_key_events() {
            false => Ok(()),
            true => Err(EngineError::internal("checks of keys were left out before the commit")),
        }
    }
}

/// Whether a row with these values of a foreign key's columns must have a parent, or be refused.
fn refers(key: &ForeignKey, values: &Values<'_>) -> bool {
    match key.full {
        true => values.iter().any(Option::is_some),
        false => values.iter().all(Option::is_some),
    }
}

/// The stored values of columns, by number.
fn values<'a>(
    table: &'a Table,
    tuple: &'a [u8],
    numbers: &[i16],
) -> Result<Values<'a>, EngineError> {
    let tuple = HeapTuple::new(tuple)?;
    let stored = tuple.attribute_count();
    let last = numbers.iter().copied().max().unwrap_or(0);
    let mut walk = Deform::new(tuple)?;
    let mut all = Vec::new();
    let columns = table.layouts.iter().zip(&table.columns);
    for (n, (layout, column)) in columns.enumerate().take(usize::try_from(last).unwrap_or(0)) {
        let missing = column.missing.as_deref().filter(|_| n >= stored);
        all.push(walk.next(*layout)?.or(missing.map(Varlena::Plain)));
    }
    let value = |number: &i16| {
        let place = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
        place.and_then(|place| all.get(place).copied().flatten())
    };
    Ok(numbers.iter().map(value).collect())
}
