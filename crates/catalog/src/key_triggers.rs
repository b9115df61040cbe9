//! Reads foreign keys, and the triggers by which they and deferrable keys are enforced: rows of
//! pg_constraint and pg_trigger that the server itself has made.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_types::{Datum, Oid};

use crate::error::CatalogError;
use crate::keys::{ForeignKey, KeyAction, KeyTrigger, KeyWork};
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{
    PG_CLASS, PG_CONSTRAINT, PG_CONSTRAINT_CONNAME_NSP_INDEX,
    PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, PG_CONSTRAINT_OID_INDEX, PG_DEPEND,
    PG_DEPEND_REFERENCE_INDEX, PG_TRIGGER, PG_TRIGGER_TGRELID_TGNAME_INDEX,
};

/// The triggers of a table.
#[derive(Debug, Default)]
pub(crate) struct FoundTriggers {
    pub(crate) known: Vec<Arc<KeyTrigger>>,
    /// Why rows cannot be changed, if there is one that is not understood.
    pub(crate) unknown: bool,
}

/// A row of pg_trigger.
struct TriggerRow {
    trigger: KeyTrigger,
    /// It is one that somebody has made, or one of a partition, or does something else.
    unknown: bool,
    enabled: bool,
}

const TRIGGER_COLUMNS: usize = PG_TRIGGER.place("tgattr");

impl TriggerRow {
    fn read(row: &Row<'_, '_>) -> Result<TriggerRow, CatalogError> {
        let place = |name| PG_TRIGGER.place(name);
        let work = KeyWork::of_function(row.oid(place("tgfoid"))?);
        let internal = row.bool(place("tgisinternal"))?;
        let events = row.int2(place("tgtype"))?;
        let known = work.filter(|work| internal && work.events() == events);
        let inherited = row.oid(place("tgparentid"))? != 0;
        Ok(TriggerRow {
            unknown: known.is_none() || inherited,
            // O: as usual, A: always; D: not at all, R: on replicas only.
            enabled: matches!(row.char(place("tgenabled"))?, b'O' | b'A'),
            trigger: KeyTrigger {
                oid: row.oid(place("oid"))?,
                name: row.name(place("tgname"))?.to_owned(),
                work: known.unwrap_or(KeyWork::Recheck),
                deferrable: row.bool(place("tgdeferrable"))?,
                deferred: row.bool(place("tginitdeferred"))?,
                constraint: row.oid(place("tgconstraint"))?,
                index: row.oid(place("tgconstrindid"))?,
                key: None,
            },
        })
    }
}

impl Reader<'_> {
    /// The triggers of a table that fire, in the order of their names.
    pub(crate) fn key_triggers(&mut self, table: Oid) -> Result<FoundTriggers, CatalogError> {
        let (mut rows, key) = (Vec::new(), [Datum::Oid(table)]);
        let of_table = Rows::Of((&PG_TRIGGER_TGRELID_TGNAME_INDEX, &key));
        self.read(of_table, TRIGGER_COLUMNS, &mut |_, row, _| {
            rows.push(TriggerRow::read(&Row(row, PG_TRIGGER.name))?);
            Ok(true)
        })?;
        let mut found = FoundTriggers::default();
        for TriggerRow { mut trigger, unknown, enabled } in rows {
            if unknown {
                found.unknown = true;
                continue;
            }
            if trigger.work != KeyWork::Recheck {
                let Some(key) = self.foreign_key(trigger.constraint)? else {
                    found.unknown = true;
                    continue;
                };
                trigger.key = Some(Arc::new(key));
            }
            if enabled {
                found.known.push(Arc::new(trigger));
            }
        }
        found.known.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// A foreign key by its OID. None: there is none, or it is one of partitions or periods.
    pub fn foreign_key(&mut self, oid: Oid) -> Result<Option<ForeignKey>, CatalogError> {
        let key = [Datum::Oid(oid)];
        Ok(self.keys(Rows::Of((&PG_CONSTRAINT_OID_INDEX, &key)))?.pop().flatten())
    }

    /// The foreign keys of a table that refers to others. None: one that is not understood.
    pub fn foreign_keys_of(&mut self, child: Oid) -> Result<Vec<Option<ForeignKey>>, CatalogError> {
        let key = [Datum::Oid(child), Datum::Oid(0)];
        self.keys(Rows::Of((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key)))
    }

    /// The tables that refer to a table by foreign keys, enforced or not, by their OIDs.
    pub fn tables_referring_to(&mut self, parent: Oid) -> Result<Vec<Oid>, CatalogError> {
        let mut keys = Vec::new();
        let of_table = [Datum::Oid(PG_CLASS.oid), Datum::Oid(parent)];
        let dependents = Rows::Of((&PG_DEPEND_REFERENCE_INDEX, &of_table));
        self.read(dependents, 2, &mut |_, row, _| {
            let row = Row(row, PG_DEPEND.name);
            if row.oid(0)? == PG_CONSTRAINT.oid {
                keys.push(row.oid(1)?);
            }
            Ok(true)
        })?;
        keys.sort_unstable();
        keys.dedup();
        let mut found = Vec::new();
        for key in keys {
            let by_oid = [Datum::Oid(key)];
            let columns = PG_CONSTRAINT.place("confrelid") + 1;
            let rows = Rows::Of((&PG_CONSTRAINT_OID_INDEX, &by_oid));
            self.read(rows, columns, &mut |_, row, _| {
                let row = Row(row, PG_CONSTRAINT.name);
                let oid = |name| row.oid(PG_CONSTRAINT.place(name));
                if oid("confrelid")? == parent {
                    found.push(oid("conrelid")?);
                }
                Ok(true)
            })?;
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The constraints of a name in a namespace: their OIDs, and whether each is deferrable.
    pub fn constraints_named(
        &mut self,
        namespace: Oid,
        name: &str,
    ) -> Result<Vec<(Oid, bool)>, CatalogError> {
        let key = [Datum::text(name), Datum::Oid(namespace)];
        let mut found = Vec::new();
        let deferrable = PG_CONSTRAINT.place("condeferrable");
        let of_name = Rows::Of((&PG_CONSTRAINT_CONNAME_NSP_INDEX, &key));
        self.read(of_name, deferrable + 1, &mut |_, row, _| {
            let row = Row(row, PG_CONSTRAINT.name);
            found.push((row.oid(0)?, row.bool(deferrable)?));
            Ok(true)
        })?;
        Ok(found)
    }

    fn keys(&mut self, rows: Rows<'_>) -> Result<Vec<Option<ForeignKey>>, CatalogError> {
        let mut found = Vec::new();
        let columns = PG_CONSTRAINT.place("confdelsetcols") + 1;
        self.read(rows, columns, &mut |_, row, _| {
            let row = Row(row, PG_CONSTRAINT.name);
            if row.char(PG_CONSTRAINT.place("contype"))? == b'f' {
                found.push(read_key(&row)?);
            }
            Ok(true)
        })?;
        Ok(found)
    }
}

fn read_key(row: &Row<'_, '_>) -> Result<Option<ForeignKey>, CatalogError> {
    let place = |name| PG_CONSTRAINT.place(name);
    let numbers = |name| {
        let all = row.vector::<2>(place(name))?;
        Ok::<_, CatalogError>(all.map(i16::from_le_bytes).collect::<Vec<i16>>())
    };
    let actions = ["confdeltype", "confupdtype"].map(|name| row.char(place(name)));
    let [on_delete, on_update] = actions;
    let (on_delete, on_update) = (KeyAction::of_code(on_delete?), KeyAction::of_code(on_update?));
    let full = match row.char(place("confmatchtype"))? {
        b's' => false,
        b'f' => true,
        _ => return Ok(None),
    };
    let (Some(on_delete), Some(on_update)) = (on_delete, on_update) else { return Ok(None) };
    if row.bool(place("conperiod"))? || row.oid(place("conparentid"))? != 0 {
        return Ok(None);
    }
    let set_columns = match row.0.get(place("confdelsetcols")) {
        Some(Datum::Null) | None => Vec::new(),
        Some(_) => numbers("confdelsetcols")?,
    };
    let key = ForeignKey {
        oid: row.oid(0)?,
        name: row.name(1)?.to_owned(),
        child: row.oid(place("conrelid"))?,
        parent: row.oid(place("confrelid"))?,
        columns: numbers("conkey")?,
        parent_columns: numbers("confkey")?,
        full,
        on_delete,
        on_update,
        set_columns,
        enforced: row.bool(place("conenforced"))?,
        validated: row.bool(place("convalidated"))?,
    };
    if key.columns.is_empty() || key.columns.len() != key.parent_columns.len() {
        let message = format!("foreign key \"{}\" has keys of different lengths", key.name);
        return Err(CatalogError::corrupt(message));
    }
    Ok(Some(key))
}
