//! Creates indexes: their rows in the catalogs, and their files.
//!
//! The rows are written first, so that the index is read from them as any other; the session builds
//! it then, and [`store_built`] notes what came of it.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid, oids, type_info};

use crate::catalog_oids::{ATTRIBUTES, CLASSES, CONSTRAINTS, INDEXES};
use crate::checks::CheckedTable;
use crate::constraints::check_not_null;
use crate::database::Database;
use crate::ddl::{NewFiles, add_not_null, create_file};
use crate::error::CatalogError;
use crate::foreign_key_ddl::{NewTrigger, insert_trigger};
use crate::index::TableIndex;
use crate::index_def::{ConstraintKind, IndexDef, IndexExpression, IndexKey};
use crate::index_rows::{CSTRING, DESCENDING, NULLS_FIRST};
use crate::index_state::{IndexStep, set_flags};
use crate::inplace::RelationFigures;
use crate::keys::KeyWork;
use crate::names::{MAX_NAME, index_columns, joined};
use crate::object_rows::{ConstraintRow, IndexRowValues};
use crate::objects::{Dependency, Object};
use crate::row::Row;
use crate::row_changes::{attribute, set};
use crate::rows::{ClassRow, OldestIds};
use crate::schema::{
    BTREE_AM, PG_ATTRIBUTE, PG_CATALOG, PG_CONSTRAINT,
    PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, PG_CONSTRAINT_OID_INDEX,
    PG_OPCLASS_AM_NAME_NSP_INDEX, PG_TOAST,
};
use crate::stored_expr::{StoredExpr, stored_tree};
use crate::table::{Column, Table};
use crate::writer::Writer;

/// Most columns of an index.
const MAX_COLUMNS: usize = 32;

/// Refuses what PostgreSQL refuses of an index's definition, before the catalogs are changed.
pub fn check_index(table: &Table, def: &IndexDef) -> Result<(), CatalogError> {
    let refuse = |state, message: String| Err(CatalogError::refused(state, message));
    if table.namespace == PG_CATALOG || table.namespace == PG_TOAST {
        let message = format!("permission denied: \"{}\" is a system catalog", table.name);
        return refuse("42501", message);
    }
    if def.columns().count() > MAX_COLUMNS {
        return refuse("54011", format!("cannot use more than {MAX_COLUMNS} columns in an index"));
    }
    if def.keys.is_empty() {
        return refuse("42P17", "must specify at least one column".to_owned());
    }
    if let Some(name) = &def.name
        && table.encoding.stored_len(name) > MAX_NAME
    {
        return refuse("42622", format!("identifier \"{name}\" is too long"));
    }
    for number in def.columns().filter(|number| *number != 0) {
        if column(table, number)?.generated == b'v' {
            let what = match def.constraint {
                Some(ConstraintKind::Primary) => "primary keys",
                Some(ConstraintKind::Unique) => "unique constraints",
                None => "indexes",
            };
            let message = format!("{what} on virtual generated columns are not supported");
            return refuse("0A000", message);
        }
    }
    if def.is_primary() && table.indexes.iter().any(|index| index.primary) {
        let name = &table.name;
        return refuse(
            "42P16",
            format!("multiple primary keys for table \"{name}\" are not allowed"),
        );
    }
    Ok(())
}

/// A column of a table, by its number.
fn column(table: &Table, number: i16) -> Result<&Column, CatalogError> {
    let found = table.columns.iter().find(|column| column.attnum == number && !column.dropped);
    found.ok_or_else(|| {
        CatalogError::refused("42703", format!("column number {number} does not exist"))
    })
}

/// The name of a new index: as it is given, or chosen.
pub fn index_name(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    def: &IndexDef,
) -> Result<String, CatalogError> {
    if let Some(name) = &def.name {
        return Ok(name.clone());
    }
    let mut writer = Writer::begin(database, backend, tx)?;
    let columns = joined(&column_names(table, def)?);
    let (columns, label) = match def.constraint {
        Some(ConstraintKind::Primary) => (None, "pkey"),
        Some(ConstraintKind::Unique) => (Some(columns.as_str()), "key"),
        None => (Some(columns.as_str()), "idx"),
    };
    let parts = (table.name.as_str(), columns, label);
    writer.choose_index_name(table.namespace, parts, def.constraint.is_some())
}

fn column_names(table: &Table, def: &IndexDef) -> Result<Vec<String>, CatalogError> {
    let mut expressions = def.expressions.iter();
    let names: Result<Vec<&str>, CatalogError> = def
        .columns()
        .map(|number| match number {
            0 => Ok(expressions.next().and_then(|e| e.name.as_deref()).unwrap_or("expr")),
            number => Ok(column(table, number)?.name.as_str()),
        })
        .collect();
    Ok(index_columns(names?.into_iter(), table.encoding))
}

/// The rows of pg_attribute of a new index, and the collations of its keys.
type CollatedColumns = (Vec<Vec<Datum<'static>>>, Vec<Oid>);

fn collated_columns(
    writer: &mut Writer<'_>,
    table: &Table,
    def: &IndexDef,
) -> Result<CollatedColumns, CatalogError> {
    let mut rows = table_columns(writer, table, def)?;
    for (row, key) in rows.iter_mut().zip(&def.keys) {
        if let (Some(collation), Some(place)) = (key.collation, row.get_mut(COLLATION)) {
            *place = Datum::Oid(collation);
        }
    }
    let collation = |row: &Vec<Datum<'_>>| Row(row, "pg_attribute").oid(COLLATION);
    let keys = rows.iter().take(def.keys.len());
    let collations = keys.map(collation).collect::<Result<Vec<Oid>, CatalogError>>()?;
    Ok((rows, collations))
}

/// A new index of a table, whose file is empty. The caller has locked the table, and the index's
/// name. Returns it with the columns that have to be checked for NULLs, by number: a primary key's.
pub fn create_index(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    (def, name): (&IndexDef, &str),
    files: NewFiles<'_>,
) -> Result<(Arc<TableIndex>, Vec<i16>), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    if writer.has_relation(table.namespace, name)? {
        let message = format!("relation \"{name}\" already exists");
        return Err(CatalogError::refused("42P07", message));
    }
    if def.constraint.is_some() {
        refuse_constraint_name(&mut writer, table, name)?;
    }
    let classes = operator_classes(&mut writer, table, def)?;
    let not_null = match def.is_primary() {
        true => make_not_null(&mut writer, table, def, false)?,
        false => Vec::new(),
    };
    let locator = create_file(&mut writer, files)?;
    let oid = locator.rel;
    insert_class(&mut writer, table, def, (oid, name), files)?;
    let (rows, collations) = collated_columns(&mut writer, table, def)?;
    writer.depend_on_collations(Object::relation(oid), &collations)?;
    insert_columns(&mut writer, rows, column_names(table, def)?, (oid, &classes))?;
    let option = |key: &IndexKey| {
        let flag = |on, flag| if on { flag } else { 0 };
        flag(key.descending, DESCENDING) | flag(key.nulls_first, NULLS_FIRST)
    };
    let expressions: Vec<&str> = def.expressions.iter().map(|e| &*e.expr.tree).collect();
    let row = IndexRowValues {
        oid,
        table: table.oid,
        unique: def.is_unique(),
        nulls_not_distinct: def.nulls_not_distinct,
        // The chunks of values are told apart by their keys, without a constraint.
        primary: def.is_primary() || table.kind == b't',
        immediate: !def.deferrable,
        usable: !def.concurrently,
        columns: def.columns().collect(),
        collations,
        classes: classes.iter().map(|class| class.oid).collect(),
        options: def.keys.iter().map(option).collect(),
        expressions: (!expressions.is_empty())
            .then(|| stored_tree(&format!("({})", expressions.join(" ")), database.encoding))
            .transpose()?,
        predicate: (def.predicate.as_ref())
            .map(|predicate| stored_tree(&predicate.tree, database.encoding))
            .transpose()?,
    };
    writer.insert(INDEXES, &row.datums())?;
    if def.concurrently {
        // Others look for indexes from the commit on.
        database.mark_indexed(writer.backend, writer.tx, table.oid)?;
    }
    match def.constraint {
        Some(kind) => insert_constraint(&mut writer, table, def, (oid, name), kind)?,
        None => {
            depend_on_columns(&mut writer, oid, table, def.columns())?;
            let expressions: Vec<&StoredExpr> = def.expressions.iter().map(|e| &e.expr).collect();
            depend_on_trees(&mut writer, oid, table, (&expressions, def.predicate.as_ref()))?;
        }
    }
    writer.next_command()?;
    Ok((read_index(&mut writer, table, oid)?, not_null))
}

/// An index goes with the columns that it has, and with its table if it has none.
pub(crate) fn depend_on_columns(
    writer: &mut Writer<'_>,
    index: Oid,
    table: &Table,
    columns: impl Iterator<Item = i16>,
) -> Result<(), CatalogError> {
    let mut numbers: Vec<i16> = columns.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.retain(|number| *number != 0);
    if numbers.is_empty() {
        let on = Object::relation(table.oid);
        return writer.depend(Object::relation(index), on, Dependency::Auto);
    }
    for number in numbers {
        let on = Object::column(table.oid, number);
        writer.depend(Object::relation(index), on, Dependency::Auto)?;
    }
    Ok(())
}

/// An index also goes with the columns that its expressions and its predicate read, and keeps what
/// else they refer to.
pub(crate) fn depend_on_trees(
    writer: &mut Writer<'_>,
    index: Oid,
    table: &Table,
    (expressions, predicate): (&[&StoredExpr], Option<&StoredExpr>),
) -> Result<(), CatalogError> {
    let index = Object::relation(index);
    for group in [expressions, predicate.as_slice()] {
        let (mut columns, mut references) = (BTreeSet::new(), BTreeSet::new());
        for expr in group {
            columns.extend(expr.columns.iter().copied());
            references.extend(expr.references.iter().copied());
        }
        for number in columns {
            writer.depend(index, Object::column(table.oid, number), Dependency::Auto)?;
        }
        for (class, oid) in references {
            writer.depend(index, Object::new(class, oid), Dependency::Normal)?;
        }
    }
    Ok(())
}

/// The index as the catalogs describe it. 0A000 if that is not understood.
pub(crate) fn read_index(
    writer: &mut Writer<'_>,
    table: &Table,
    oid: Oid,
) -> Result<Arc<TableIndex>, CatalogError> {
    let indexes = writer.reader().indexes_of(table)?;
    let found = indexes.into_iter().find(|index| index.oid == oid);
    let index = found.ok_or_else(|| {
        CatalogError::corrupt(format!("pg_index has no row of the new index {oid}"))
    })?;
    match &index.unknown {
        None => Ok(index),
        Some(why) => {
            let message = format!("cannot create index \"{}\": {why}", index.name);
            Err(CatalogError::refused("0A000", message))
        }
    }
}

fn refuse_constraint_name(
    writer: &mut Writer<'_>,
    table: &Table,
    name: &str,
) -> Result<(), CatalogError> {
    // It belongs to a table, not to a type.
    let key = [Datum::Oid(table.oid), Datum::Oid(0), Datum::text(name)];
    if !writer.has((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key))? {
        return Ok(());
    }
    let table = &table.name;
    let message = format!("constraint \"{name}\" for relation \"{table}\" already exists");
    Err(CatalogError::refused("42710", message))
}

/// An operator class of a key.
pub(crate) struct KeyClass {
    pub(crate) oid: Oid,
    /// The type of what is stored, if it is not the column's.
    pub(crate) stored: Oid,
}

/// The operator class of each key: the given one, or the type's default.
pub(crate) fn operator_classes(
    writer: &mut Writer<'_>,
    table: &Table,
    def: &IndexDef,
) -> Result<Vec<KeyClass>, CatalogError> {
    let found = writer.rows((&PG_OPCLASS_AM_NAME_NSP_INDEX, &[Datum::Oid(BTREE_AM)]), 9)?;
    let mut classes = Vec::with_capacity(def.keys.len());
    let mut expressions = def.expressions.iter();
    for key in &def.keys {
        let type_oid = match (key.attnum, expressions.as_slice().first()) {
            (0, Some(expression)) => {
                expressions.next();
                expression.type_oid
            }
            (number, _) => column(table, number)?.type_oid,
        };
        // A varchar is a text to the operators.
        let input = if type_oid == oids::VARCHAR { oids::TEXT } else { type_oid };
        let mut class = None;
        for found in &found {
            let row = Row(&found.values, "pg_opclass");
            let (oid, is_default) = (row.oid(0)?, row.oid(6)? == input && row.bool(7)?);
            if key.opclass.map_or(is_default, |wanted| wanted == oid) {
                class = Some(KeyClass { oid, stored: row.oid(8)? });
            }
        }
        classes.push(class.ok_or_else(|| no_class(type_oid))?);
    }
    Ok(classes)
}

#[cold]
fn no_class(type_oid: Oid) -> CatalogError {
    let name = match type_info(type_oid) {
        // PostgreSQL has classes of any array, any enum, any range.
        Some(info) if info.elem != 0 && info.name.starts_with('_') => {
            let message = format!("an index on values of type {} is not supported", info.sql_name);
            return CatalogError::refused("0A000", message);
        }
        Some(info) => info.name,
        None => return no_index_of(type_oid),
    };
    let message =
        format!("data type {name} has no default operator class for access method \"btree\"");
    CatalogError::refused("42704", message).with_hint(
        "You must specify an operator class for the index or define a default operator class for \
         the data type.",
    )
}

/// The error of an index on values that are only carried.
fn no_index_of(type_oid: Oid) -> CatalogError {
    let message = format!("an index on values of the type with OID {type_oid} is not supported");
    CatalogError::refused("0A000", message)
}

fn insert_class(
    writer: &mut Writer<'_>,
    table: &Table,
    def: &IndexDef,
    (oid, name): (Oid, &str),
    files: NewFiles<'_>,
) -> Result<(), CatalogError> {
    let columns = def.columns().count();
    let factor = def.fill_factor.map(|factor| format!("fillfactor={factor}"));
    let word = |on| if on { "on" } else { "off" };
    let deduplicate = def.deduplicate.map(|on| format!("deduplicate_items={}", word(on)));
    let options: Vec<String> = factor.into_iter().chain(deduplicate).collect();
    let class = ClassRow {
        oid,
        name,
        namespace: table.namespace,
        owner: table.owner,
        row_type: 0,
        filenode: oid,
        tablespace: files.class_tablespace(writer.database),
        shared: false,
        persistence: files.persistence.code(),
        columns: i16::try_from(columns).expect("at most 32 columns"),
        replica_identity: b'n',
        oldest: OldestIds { xid: 0, multi: 0 },
        options: &options,
    };
    let mut row = class.datums();
    for (name, value) in [
        ("relam", Datum::Oid(BTREE_AM)),
        ("relkind", Datum::Char(b'i')),
        ("reltuples", Datum::Float4(0.0)),
    ] {
        set(&mut row, name, value);
    }
    writer.insert(CLASSES, &row)?;
    writer.tx.note_relation(oid, true);
    Ok(())
}

/// The rows of the table's columns that the index has, up to their collation.
fn table_columns(
    writer: &mut Writer<'_>,
    table: &Table,
    def: &IndexDef,
) -> Result<Vec<Vec<Datum<'static>>>, CatalogError> {
    let mut expressions = def.expressions.iter();
    let row_of = |number| match number {
        0 => expressions.next().map(expression_column).ok_or_else(|| {
            CatalogError::refused("XX000", "an index has fewer expressions than it says")
        })?,
        number => Ok(attribute(writer, table, number, COLLATION + 1)?.values),
    };
    def.columns().map(row_of).collect()
}

/// The same for an expression.
fn expression_column(expression: &IndexExpression) -> Result<Vec<Datum<'static>>, CatalogError> {
    let IndexExpression { type_oid, typmod, collation, .. } = *expression;
    let info = type_info(type_oid).ok_or_else(|| no_index_of(type_oid))?;
    let mut row = vec![Datum::Null; COLLATION + 1];
    let typmod = Datum::Int4(typmod);
    for (place, value) in [
        (0, Datum::Oid(0)),
        (2, Datum::Oid(type_oid)),
        (3, Datum::Int2(info.len)),
        (5, typmod),
        (6, Datum::Int2(0)), // attndims
        (7, Datum::Bool(info.by_val)),
        (8, Datum::Char(info.align)),
        (9, Datum::Char(info.storage)),
        (10, Datum::Char(0)),     // attcompression
        (16, Datum::Bool(false)), // attisdropped
        (COLLATION, Datum::Oid(collation)),
    ] {
        if let Some(slot) = row.get_mut(place) {
            *slot = value;
        }
    }
    Ok(row)
}

/// Indexes of columns of pg_attribute.
const NUMBER: usize = PG_ATTRIBUTE.place("attnum");
const NOT_NULL: usize = PG_ATTRIBUTE.place("attnotnull");
pub(crate) const COLLATION: usize = PG_ATTRIBUTE.place("attcollation");
/// How many columns pg_attribute has.
const ATTRIBUTE_COLUMNS: usize = PG_ATTRIBUTE.columns.len();

/// The columns of an index are those of its table, as far as their type goes.
fn insert_columns(
    writer: &mut Writer<'_>,
    rows: Vec<Vec<Datum<'static>>>,
    names: Vec<String>,
    (index, classes): (Oid, &[KeyClass]),
) -> Result<(), CatalogError> {
    for (n, (mut row, name)) in rows.into_iter().zip(names).enumerate() {
        let number = i16::try_from(n + 1).expect("at most 32 columns");
        let mut changes = vec![
            (0, Datum::Oid(index)),
            (1, Datum::string(name)),
            (NUMBER, Datum::Int2(number)),
            (11, Datum::Bool(false)), // attnotnull
            (12, Datum::Bool(false)), // atthasdef
            (13, Datum::Bool(false)), // atthasmissing
            (14, Datum::Char(0)),     // attidentity
            (15, Datum::Char(0)),     // attgenerated
            (17, Datum::Bool(true)),  // attislocal
            (18, Datum::Int2(0)),     // attinhcount
        ];
        match classes.get(n).map(|class| class.stored) {
            // A name is kept as a C string.
            Some(CSTRING) => changes.extend([
                (2, Datum::Oid(CSTRING)),
                (3, Datum::Int2(-2)),    // attlen
                (7, Datum::Bool(false)), // attbyval
                (8, Datum::Char(b'c')),  // attalign
                (9, Datum::Char(b'p')),  // attstorage
                (10, Datum::Char(0)),    // attcompression
            ]),
            Some(_) => {}
            // An included column has no order.
            None => changes.push((COLLATION, Datum::Oid(0))),
        }
        for (place, value) in changes {
            *row.get_mut(place).expect("these columns were read") = value;
        }
        row.resize(ATTRIBUTE_COLUMNS, Datum::Null);
        writer.insert(ATTRIBUTES, &row)?;
    }
    Ok(())
}

pub(crate) fn insert_constraint(
    writer: &mut Writer<'_>,
    table: &Table,
    def: &IndexDef,
    (index, name): (Oid, &str),
    kind: ConstraintKind,
) -> Result<(), CatalogError> {
    let oid = writer.free_oid(&PG_CONSTRAINT_OID_INDEX)?;
    let columns: Vec<i16> = def.keys.iter().map(|key| key.attnum).collect();
    let kind = match kind {
        ConstraintKind::Primary => b'p',
        ConstraintKind::Unique => b'u',
    };
    let row = ConstraintRow {
        oid,
        name,
        namespace: table.namespace,
        kind,
        table: table.oid,
        index,
        columns: &columns,
    };
    let primary = row.kind == b'p';
    let mut row = row.datums();
    for (name, value) in [("condeferrable", def.deferrable), ("condeferred", def.deferred)] {
        if let Some(slot) = row.get_mut(PG_CONSTRAINT.place(name)) {
            *slot = Datum::Bool(value);
        }
    }
    writer.insert(CONSTRAINTS, &row)?;
    let object = Object::new(CONSTRAINTS, oid);
    for number in def.columns() {
        writer.depend(object, Object::column(table.oid, number), Dependency::Auto)?;
    }
    writer.depend(Object::relation(index), object, Dependency::Internal)?;
    if !def.deferrable {
        return Ok(());
    }
    let (work, timing) = (KeyWork::Recheck, (true, def.deferred));
    let recheck = NewTrigger { work, timing, other: 0, constraint: oid, index, primary };
    insert_trigger(writer, table.oid, &recheck)
}

/// Lets the columns of a primary key refuse NULL. Returns those that did not: the caller checks
/// their values.
pub(crate) fn make_not_null(
    writer: &mut Writer<'_>,
    table: &Table,
    def: &IndexDef,
    using_index: bool,
) -> Result<Vec<i16>, CatalogError> {
    let mut changed = Vec::new();
    for key in &def.keys {
        let column = column(table, key.attnum)?;
        if column.not_null {
            check_not_null(writer, table, column, using_index)?;
            continue;
        }
        set_not_null(writer, table, key.attnum, true)?;
        let of = CheckedTable::of(table);
        add_not_null(writer, of, (key.attnum, &column.name), None)?;
        writer.next_command()?;
        changed.push(key.attnum);
    }
    Ok(changed)
}

/// Lets a column of a table refuse NULL or not.
pub(crate) fn set_not_null(
    writer: &mut Writer<'_>,
    table: &Table,
    number: i16,
    on: bool,
) -> Result<(), CatalogError> {
    let mut found = attribute(writer, table, number, usize::MAX)?;
    let value = found.values.get_mut(NOT_NULL);
    *value.expect("pg_attribute has this column") = Datum::Bool(on);
    writer.update(ATTRIBUTES, found.tid, &found.values)
}

/// Notes what the build of an index came to: figures of the table and of the index, as PostgreSQL
/// stores them in place; and who may use it.
pub fn store_built(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, index): (Oid, Oid),
    built: &BuiltFigures,
) -> Result<(), CatalogError> {
    let tables = RelationFigures { has_index: true, ..built.table };
    database.update_figures(backend, tx, table, &tables)?;
    database.update_figures(backend, tx, index, &built.index)?;
    let mut writer = Writer::begin(database, backend, tx)?;
    set_flags(&mut writer, index, built.step)?;
    writer.next_command()
}

/// What a build has found.
#[derive(Clone, Copy, Debug)]
pub struct BuiltFigures {
    /// The table.
    pub table: RelationFigures,
    /// The index.
    pub index: RelationFigures,
    /// Who may use it.
    pub step: IndexStep,
}
