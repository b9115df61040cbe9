//! Adds foreign keys: pg_constraint, and the triggers of pg_trigger that enforce them; the trigger
//! of a deferrable key too.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid, SqlType, oids, type_info};

use crate::arrays::array_of;
use crate::catalog_oids::{CLASSES, CONSTRAINTS, OPERATORS, TRIGGERS};
use crate::database::Database;
use crate::error::CatalogError;
use crate::index::TableIndex;
use crate::index_rows::{EXPRESSIONS, PREDICATE};
use crate::keys::{KeyAction, KeyWork};
use crate::names::joined;
use crate::object_rows::{ConstraintRow, int2s};
use crate::objects::{Dependency, Object};
use crate::row::Row;
use crate::row_changes::set;
use crate::schema::{
    PG_AMOP, PG_AMOP_FAM_STRAT_INDEX, PG_CAST, PG_CAST_SOURCE_TARGET_INDEX, PG_CLASS,
    PG_CLASS_OID_INDEX, PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX,
    PG_CONSTRAINT_OID_INDEX, PG_INDEX, PG_INDEX_INDEXRELID_INDEX, PG_OPCLASS, PG_OPCLASS_OID_INDEX,
    PG_TRIGGER_OID_INDEX,
};
use crate::table::{Column, Table};
use crate::writer::Writer;

/// A foreign key that is added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeyDef {
    /// Its name. None: one is chosen.
    pub name: Option<String>,
    /// The columns of the table that refers, by number.
    pub columns: Vec<i16>,
    /// Those of the table that is referred to. None: its primary key's.
    pub parent_columns: Option<Vec<i16>>,
    /// MATCH FULL.
    pub full: bool,
    /// ON DELETE.
    pub on_delete: KeyAction,
    /// ON UPDATE.
    pub on_update: KeyAction,
    /// The columns that ON DELETE SET NULL or SET DEFAULT sets. Empty: all.
    pub set_columns: Vec<i16>,
    /// DEFERRABLE.
    pub deferrable: bool,
    /// INITIALLY DEFERRED.
    pub deferred: bool,
    /// Not NOT ENFORCED.
    pub enforced: bool,
    /// All rows are known to satisfy it.
    pub validated: bool,
}

/// The operators that compare the values of a foreign key.
#[derive(Default)]
struct KeyOperators {
    /// A parent's with a child's: conpfeqop.
    mixed: Vec<Oid>,
    /// Two parents': conppeqop.
    parents: Vec<Oid>,
    /// Two children's: conffeqop.
    children: Vec<Oid>,
}

/// Adds a foreign key to a table (the child). Both tables are locked by the caller in mode
/// `ShareRowExclusive`. Whether the rows satisfy the key is for the caller to see. Returns its OID.
pub fn add_foreign_key(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (child, parent): (&Table, &Table),
    def: &ForeignKeyDef,
) -> Result<Oid, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    check_set_columns(child, def)?;
    let (index, parent_columns) = parent_index(&mut writer, parent, def)?;
    check_generated(child, def)?;
    if def.columns.len() != parent_columns.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(CatalogError::refused("42830", message));
    }
    let name = key_name(&mut writer, child, def)?;
    let pairs = (child, &def.columns[..], parent, &parent_columns[..]);
    let operators = operators(&mut writer, (&name, index.oid), pairs)?;
    let oid = writer.free_oid(&PG_CONSTRAINT_OID_INDEX)?;
    insert_row(&mut writer, (oid, &name), pairs, (def, index.oid), &operators)?;
    insert_dependencies(&mut writer, oid, pairs, index.oid, &operators)?;
    writer.next_command()?;
    if def.enforced {
        let deferrable = (def.deferrable, def.deferred);
        let timing = |action| if action == KeyAction::NoAction { deferrable } else { NEVER };
        let mut add = |on: &Table, work, timing, other| {
            let (constraint, index, primary) = (oid, index.oid, false);
            let new = NewTrigger { work, timing, other, constraint, index, primary };
            insert_trigger(&mut writer, on.oid, &new)
        };
        let (on_delete, on_update) = (def.on_delete, def.on_update);
        add(parent, KeyWork::Deleted(on_delete), timing(on_delete), child.oid)?;
        add(parent, KeyWork::Updated(on_update), timing(on_update), child.oid)?;
        add(child, KeyWork::CheckInserted, deferrable, parent.oid)?;
        add(child, KeyWork::CheckUpdated, deferrable, parent.oid)?;
    }
    Ok(oid)
}

/// A trigger that is not deferrable.
const NEVER: (bool, bool) = (false, false);

/// ON DELETE SET sets columns of the key only.
fn check_set_columns(child: &Table, def: &ForeignKeyDef) -> Result<(), CatalogError> {
    match def.set_columns.iter().find(|number| !def.columns.contains(number)) {
        None => Ok(()),
        Some(number) => {
            let column = &column(child, *number)?.name;
            let message = format!(
                "column \"{column}\" referenced in ON DELETE SET action must be part of foreign key"
            );
            Err(CatalogError::refused("42P10", message))
        }
    }
}

/// The values of generated columns cannot be set.
fn check_generated(child: &Table, def: &ForeignKeyDef) -> Result<(), CatalogError> {
    for number in &def.columns {
        let generated = column(child, *number)?.generated;
        let sets = |action| matches!(action, KeyAction::SetNull | KeyAction::SetDefault);
        let invalid = |what| {
            let message = format!(
                "invalid {what} action for foreign key constraint containing generated column"
            );
            Err(CatalogError::refused("42601", message))
        };
        match generated {
            0 => {}
            b'v' => {
                let message =
                    "foreign key constraints on virtual generated columns are not supported";
                return Err(CatalogError::refused("0A000", message));
            }
            _ if sets(def.on_update) || def.on_update == KeyAction::Cascade => {
                return invalid("ON UPDATE");
            }
            _ if sets(def.on_delete) => return invalid("ON DELETE"),
            _ => {}
        }
    }
    Ok(())
}

fn column(table: &Table, number: i16) -> Result<&Column, CatalogError> {
    let found = table.columns.iter().find(|column| column.attnum == number && !column.dropped);
    found.ok_or_else(|| CatalogError::corrupt(format!("\"{}\" has no column {number}", table.name)))
}

/// The index of the parent that keeps its key unique, and the columns that are referred to.
fn parent_index(
    writer: &mut Writer<'_>,
    parent: &Table,
    def: &ForeignKeyDef,
) -> Result<(Arc<TableIndex>, Vec<i16>), CatalogError> {
    let keys = |index: &TableIndex| {
        let keys = index.columns.get(..index.shape.keys.len()).unwrap_or(&index.columns);
        keys.to_vec()
    };
    let name = &parent.name;
    let Some(columns) = &def.parent_columns else {
        let found = parent.indexes.iter().find(|index| index.primary && index.valid);
        let Some(index) = found else {
            let message = format!("there is no primary key for referenced table \"{name}\"");
            return Err(CatalogError::refused("42704", message));
        };
        if !index.immediate {
            let message =
                format!("cannot use a deferrable primary key for referenced table \"{name}\"");
            return Err(CatalogError::refused("55000", message));
        }
        return Ok((Arc::clone(index), keys(index)));
    };
    if columns.iter().enumerate().any(|(n, number)| columns.iter().take(n).any(|o| o == number)) {
        let message = "foreign key referenced-columns list must not contain duplicates";
        return Err(CatalogError::refused("42830", message));
    }
    let mut deferrable = false;
    for index in parent.indexes.iter().filter(|index| index.unique && index.valid) {
        let of_index = keys(index);
        let same = of_index.len() == columns.len() && columns.iter().all(|c| of_index.contains(c));
        if !same || index.unknown.is_some() || !covers_all_rows(writer, index.oid)? {
            continue;
        }
        if index.immediate {
            return Ok((Arc::clone(index), columns.clone()));
        }
        deferrable = true;
    }
    Err(match deferrable {
        true => {
            let message = format!(
                "cannot use a deferrable unique constraint for referenced table \"{name}\""
            );
            CatalogError::refused("55000", message)
        }
        false => {
            let message = format!(
                "there is no unique constraint matching given keys for referenced table \"{name}\""
            );
            CatalogError::refused("42830", message)
        }
    })
}

/// Whether an index is of columns alone, and of all rows.
fn covers_all_rows(writer: &mut Writer<'_>, index: Oid) -> Result<bool, CatalogError> {
    let found = writer.row(&PG_INDEX_INDEXRELID_INDEX, index)?;
    let is_null = |place| found.values.get(place) == Some(&Datum::Null);
    Ok(is_null(EXPRESSIONS) && is_null(PREDICATE))
}

fn key_name(
    writer: &mut Writer<'_>,
    child: &Table,
    def: &ForeignKeyDef,
) -> Result<String, CatalogError> {
    let Some(name) = &def.name else {
        let columns = def.columns.iter().map(|number| Ok(column(child, *number)?.name.clone()));
        let columns = columns.collect::<Result<Vec<String>, CatalogError>>()?;
        let of = (child.name.as_str(), Some(joined(&columns)));
        let of = (of.0, of.1.as_deref());
        return writer.choose_constraint_name(child.namespace, of, "fkey");
    };
    let key = [Datum::Oid(child.oid), Datum::Oid(0), Datum::text(name)];
    if writer.has((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key))? {
        let message =
            format!("constraint \"{name}\" for relation \"{}\" already exists", child.name);
        return Err(CatalogError::refused("42710", message));
    }
    Ok(name.clone())
}

/// A child and its columns, a parent and its columns.
type Pairs<'a> = (&'a Table, &'a [i16], &'a Table, &'a [i16]);

/// The strategy number of = in B-trees.
const EQUAL: i16 = 3;

fn operators(
    writer: &mut Writer<'_>,
    (name, index): (&str, Oid),
    (child, columns, parent, parent_columns): Pairs<'_>,
) -> Result<KeyOperators, CatalogError> {
    let found = writer.row(&PG_INDEX_INDEXRELID_INDEX, index)?;
    let row = Row(&found.values, PG_INDEX.name);
    let vector = |name| row.vector::<2>(PG_INDEX.place(name));
    let of_index: Vec<i16> = vector("indkey")?.map(i16::from_le_bytes).collect();
    let classes = row.vector::<4>(PG_INDEX.place("indclass"))?;
    let classes: Vec<Oid> = classes.map(u32::from_le_bytes).collect();
    let mut operators = KeyOperators::default();
    for (number, parent_number) in columns.iter().zip(parent_columns) {
        let place = of_index.iter().position(|key| key == parent_number);
        let class = place.and_then(|place| classes.get(place));
        let class = class.ok_or_else(|| CatalogError::corrupt("an index lacks a key"))?;
        let class = writer.row(&PG_OPCLASS_OID_INDEX, *class)?;
        let class = Row(&class.values, PG_OPCLASS.name);
        let of_class = |name| class.oid(PG_OPCLASS.place(name));
        let (family, input) = (of_class("opcfamily")?, of_class("opcintype")?);
        let [of_child, of_parent] = [column(child, *number)?, column(parent, *parent_number)?];
        let types = (of_child.type_oid, of_parent.type_oid);
        let found = equality(writer, (family, input), types)?;
        let Some([mixed, parents, children]) = found else {
            if let Some(carried) =
                [types.0, types.1].into_iter().find(|ty| type_info(*ty).is_none())
            {
                let message = format!(
                    "a foreign key on values of the type with OID {carried} is not supported"
                );
                return Err(CatalogError::refused("0A000", message));
            }
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            let shown = |oid: Oid| SqlType::of(oid).sql_name();
            let detail = format!(
                "Key columns \"{}\" of the referencing table and \"{}\" of the referenced table \
                 are of incompatible types: {} and {}.",
                of_child.name,
                of_parent.name,
                shown(types.0),
                shown(types.1)
            );
            return Err(CatalogError::refused("42804", message).with_detail(detail));
        };
        operators.mixed.push(mixed);
        operators.parents.push(parents);
        operators.children.push(children);
    }
    Ok(operators)
}

/// The operators of a family that compare a parent's value with a child's, two parents' and two
/// children's. Without one for both types, the child's value is cast to the family's type.
fn equality(
    writer: &mut Writer<'_>,
    (family, input): (Oid, Oid),
    (child, parent): (Oid, Oid),
) -> Result<Option<[Oid; 3]>, CatalogError> {
    let Some(parents) = member(writer, family, (input, input))? else { return Ok(None) };
    let mixed = member(writer, family, (input, child))?;
    let children = member(writer, family, (child, child))?;
    if let (Some(mixed), Some(children)) = (mixed, children) {
        return Ok(Some([mixed, parents, children]));
    }
    let casts = is_implicit(writer, (child, input), parent)?
        && is_implicit(writer, (parent, input), parent)?;
    Ok(casts.then_some([parents, parents, parents]))
}

fn member(
    writer: &mut Writer<'_>,
    family: Oid,
    (left, right): (Oid, Oid),
) -> Result<Option<Oid>, CatalogError> {
    let key = [Datum::Oid(family), Datum::Oid(left), Datum::Oid(right), Datum::Int2(EQUAL)];
    let place = PG_AMOP.place("amopopr");
    let found = writer.rows((&PG_AMOP_FAM_STRAT_INDEX, &key), place + 1)?.pop();
    found.map(|found| Row(&found.values, PG_AMOP.name).oid(place)).transpose()
}

/// Whether values of a type become those of another without being asked to.
fn is_implicit(
    writer: &mut Writer<'_>,
    (from, to): (Oid, Oid),
    parent: Oid,
) -> Result<bool, CatalogError> {
    if from == to {
        return Ok(true);
    }
    if to == oids::ANYARRAY {
        return Ok(from == parent && SqlType::of(from).info().category == b'A');
    }
    let key = [Datum::Oid(from), Datum::Oid(to)];
    let place = PG_CAST.place("castcontext");
    let found = writer.rows((&PG_CAST_SOURCE_TARGET_INDEX, &key), place + 1)?.pop();
    let context = found.map(|found| Row(&found.values, PG_CAST.name).char(place)).transpose()?;
    Ok(context == Some(b'i'))
}

fn insert_row(
    writer: &mut Writer<'_>,
    (oid, name): (Oid, &str),
    (child, columns, parent, parent_columns): Pairs<'_>,
    (def, index): (&ForeignKeyDef, Oid),
    operators: &KeyOperators,
) -> Result<(), CatalogError> {
    let (namespace, table, kind) = (child.namespace, child.oid, b'f');
    let row = ConstraintRow { oid, name, namespace, kind, table, index, columns };
    let mut row = row.datums();
    let oids = |values: &[Oid]| {
        let stored = values.iter().map(|value| value.to_le_bytes().to_vec());
        array_of(oids::OID_ARRAY, oids::OID, stored)
    };
    let set_columns = match def.set_columns.as_slice() {
        [] => Datum::Null,
        columns => int2s(oids::INT2_ARRAY, columns),
    };
    for (name, value) in [
        ("condeferrable", Datum::Bool(def.deferrable)),
        ("condeferred", Datum::Bool(def.deferred)),
        ("conenforced", Datum::Bool(def.enforced)),
        ("convalidated", Datum::Bool(def.validated && def.enforced)),
        ("confrelid", Datum::Oid(parent.oid)),
        ("confupdtype", Datum::Char(def.on_update.code())),
        ("confdeltype", Datum::Char(def.on_delete.code())),
        ("confmatchtype", Datum::Char(if def.full { b'f' } else { b's' })),
        ("confkey", int2s(oids::INT2_ARRAY, parent_columns)),
        ("conpfeqop", oids(&operators.mixed)),
        ("conppeqop", oids(&operators.parents)),
        ("conffeqop", oids(&operators.children)),
        ("confdelsetcols", set_columns),
    ] {
        if let Some(slot) = row.get_mut(PG_CONSTRAINT.place(name)) {
            *slot = value;
        }
    }
    writer.insert(CONSTRAINTS, &row)
}

fn insert_dependencies(
    writer: &mut Writer<'_>,
    oid: Oid,
    (child, columns, parent, parent_columns): Pairs<'_>,
    index: Oid,
    operators: &KeyOperators,
) -> Result<(), CatalogError> {
    let object = Object::new(CONSTRAINTS, oid);
    let mut of_child = columns.to_vec();
    of_child.sort_unstable();
    of_child.dedup();
    for number in of_child {
        writer.depend(object, Object::column(child.oid, number), Dependency::Auto)?;
    }
    for number in parent_columns {
        writer.depend(object, Object::column(parent.oid, *number), Dependency::Normal)?;
    }
    writer.depend(object, Object::relation(index), Dependency::Normal)?;
    let all = [&operators.mixed, &operators.parents, &operators.children];
    let mut all: Vec<Oid> = all.into_iter().flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().try_for_each(|operator| {
        writer.depend(object, Object::new(OPERATORS, operator), Dependency::Normal)
    })
}

/// A trigger that enforces a constraint.
pub(crate) struct NewTrigger {
    pub(crate) work: KeyWork,
    /// Whether it is deferrable, and deferred.
    pub(crate) timing: (bool, bool),
    /// The other table of a foreign key, or 0.
    pub(crate) other: Oid,
    pub(crate) constraint: Oid,
    pub(crate) index: Oid,
    /// Whether that is the primary key's, which is checked again.
    pub(crate) primary: bool,
}

/// Inserts a trigger of a table.
pub(crate) fn insert_trigger(
    writer: &mut Writer<'_>,
    table: Oid,
    new: &NewTrigger,
) -> Result<(), CatalogError> {
    let oid = writer.free_oid(&PG_TRIGGER_OID_INDEX)?;
    let name = match new.work {
        KeyWork::CheckInserted | KeyWork::CheckUpdated => format!("RI_ConstraintTrigger_c_{oid}"),
        KeyWork::Deleted(_) | KeyWork::Updated(_) => format!("RI_ConstraintTrigger_a_{oid}"),
        KeyWork::Recheck if new.primary => format!("PK_ConstraintTrigger_{oid}"),
        KeyWork::Recheck => format!("Unique_ConstraintTrigger_{oid}"),
    };
    let row = [
        Datum::Oid(oid),
        Datum::Oid(table),
        Datum::Oid(0), // tgparentid
        Datum::string(name),
        Datum::Oid(new.work.function()),
        Datum::Int2(new.work.events()),
        Datum::Char(b'O'), // tgenabled
        Datum::Bool(true), // tgisinternal
        Datum::Oid(new.other),
        Datum::Oid(new.index),
        Datum::Oid(new.constraint),
        Datum::Bool(new.timing.0),
        Datum::Bool(new.timing.1),
        Datum::Int2(0), // tgnargs
        int2s(oids::INT2VECTOR, &[]),
        Datum::Bytes(Vec::new().into()), // tgargs
        Datum::Null,                     // tgqual
        Datum::Null,                     // tgoldtable
        Datum::Null,                     // tgnewtable
    ];
    writer.insert(TRIGGERS, &row)?;
    let on = Object::new(CONSTRAINTS, new.constraint);
    writer.depend(Object::new(TRIGGERS, oid), on, Dependency::Internal)?;
    note_triggers(writer, table)
}

/// pg_class tells that a table has triggers.
fn note_triggers(writer: &mut Writer<'_>, table: Oid) -> Result<(), CatalogError> {
    let mut found = writer.row(&PG_CLASS_OID_INDEX, table)?;
    if !Row(&found.values, PG_CLASS.name).bool(PG_CLASS.place("relhastriggers"))? {
        set(&mut found.values, "relhastriggers", Datum::Bool(true));
        writer.update(CLASSES, found.tid, &found.values)?;
    }
    writer.next_command()
}
