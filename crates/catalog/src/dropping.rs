//! Drops tables and indexes, with what belongs to them.
//!
//! pg_depend says what goes with an object: types and indexes with their table, an index with its
//! constraint. What depends on it otherwise, such as a view, prevents that it is dropped. An object
//! of a kind that is not understood here does so too.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use std::collections::HashSet;

use forebay_format::RelFileLocator;
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{
    ATTRIBUTES, CLASSES, COLLATIONS, CONSTRAINTS, DEFAULTS, NAMESPACES, TRIGGERS, TYPES,
};
use crate::checks::count_checks;
use crate::constraints::Constraint;
use crate::database::Database;
use crate::describe::describe;
use crate::error::CatalogError;
use crate::index_ddl::set_not_null;
use crate::index_state::IS_VALID;
use crate::objects::{Depends, Object};
use crate::reader::Reader;
use crate::row::Row;
use crate::row_changes::drop_column_row;
use crate::schema::{
    self, PG_ATTRDEF, PG_ATTRDEF_OID_INDEX, PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX,
    PG_CLASS_OID_INDEX, PG_CONSTRAINT_OID_INDEX, PG_INDEX_INDEXRELID_INDEX,
    PG_INHERITS_PARENT_INDEX, PG_INHERITS_RELID_SEQNO_INDEX, PG_SEQUENCE_SEQRELID_INDEX,
    PG_STATISTIC_RELID_ATT_INH_INDEX, PG_TRIGGER_OID_INDEX, PG_TYPE_OID_INDEX,
};
use crate::sequences::SequenceOwner;
use crate::table::Table;
use crate::writer::{Found, Writer};

/// Drops tables; with `cascade` foreign keys of others that refer to them, too. The caller holds
/// their locks, and those of [`relations_to_lock`]. `path`: the namespaces that messages leave out.
pub fn drop_tables(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    tables: &[Arc<Table>],
    (cascade, path): (bool, Vec<Oid>),
) -> Result<Dropped, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.path = path;
    for table in tables {
        table.check_alterable(&table.name)?;
        writer.row(&PG_CLASS_OID_INDEX, table.oid)?;
    }
    let objects: Vec<Object> = tables.iter().map(|table| Object::relation(table.oid)).collect();
    let dropped = drop_cascading(&mut writer, &objects, cascade)?;
    writer.next_command()?;
    Ok(dropped)
}

/// Removes temporary relations from the catalogs, with all that depends on them. Those that are
/// gone are passed over. Returns the relations that went; a session removes their files itself.
pub fn drop_temporary(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    relations: &[Oid],
) -> Result<Vec<Oid>, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut objects = Vec::with_capacity(relations.len());
    for oid in relations {
        if writer.reader().class(*oid)?.is_some() {
            objects.push(Object::relation(*oid));
        }
    }
    let targets = targets_of(&mut writer, &objects)?;
    drop_targets(&mut writer, &targets)?;
    writer.next_command()?;
    let gone = targets.iter().map(|target| target.object);
    Ok(gone.filter(|object| object.class == CLASSES).map(|object| object.oid).collect())
}

/// Drops a sequence, which the caller has locked; with `cascade` the defaults that use it. 2BP01 if
/// it is a part of an identity column, or without `cascade` in use. Returns what goes along.
pub fn drop_sequence(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (oid, name): (Oid, &str),
    cascade: bool,
) -> Result<Dropped, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let owner = writer.reader().sequence_owner(oid)?.filter(|owner| owner.identity);
    if let Some(SequenceOwner { table, column, .. }) = owner {
        let column = describe(&mut writer, Object::column(table, column))?;
        let message = format!("cannot drop sequence {name} because {column} requires it");
        let error = CatalogError::refused("2BP01", message);
        return Err(error.with_hint(format!("You can drop {column} instead.")));
    }
    let dropped = drop_cascading(&mut writer, &[Object::relation(oid)], cascade)?;
    writer.next_command()?;
    Ok(dropped)
}

/// Drops an index, which the caller has locked, and its table. 2BP01 if a constraint needs it.
pub fn drop_index(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (index, name): (Oid, &str),
    table: &Table,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    check_free(&mut writer, (index, name), table)?;
    drop_all(&mut writer, Object::relation(index))?;
    writer.next_command()
}

/// Fails if [`drop_index`] would fail.
pub fn check_index_free(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (index, name): (Oid, &str),
    table: &Table,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    check_free(&mut writer, (index, name), table)?;
    let dropped = all_that_goes(&mut writer, Object::relation(index))?;
    dropped.iter().try_for_each(|object| check_object(&mut writer, *object))
}

/// Refuses an index of a catalog, or of a constraint. One of a TOAST table can be dropped if a
/// REINDEX CONCURRENTLY has left it.
fn check_free(
    writer: &mut Writer<'_>,
    (index, name): (Oid, &str),
    table: &Table,
) -> Result<(), CatalogError> {
    if table.kind != b't' || is_valid(writer, index)? {
        table.check_alterable(name)?;
    }
    let object = Object::relation(index);
    let references = writer.references(object)?;
    let of = references.iter().find(|depends| depends.object == object && depends.code == b'i');
    if let Some(Depends { on, .. }) = of
        && on.class == CONSTRAINTS
    {
        let constraint = writer.row(&PG_CONSTRAINT_OID_INDEX, on.oid)?;
        let Some(Datum::Text(constraint)) = constraint.values.get(1) else {
            return Err(CatalogError::corrupt("a row of pg_constraint has no name"));
        };
        let what = format!("constraint {constraint} on table {}", table.name);
        let message = format!("cannot drop index {name} because {what} requires it");
        let error = CatalogError::refused("2BP01", message);
        return Err(error.with_hint(format!("You can drop {what} instead.")));
    }
    Ok(())
}

fn is_valid(writer: &mut Writer<'_>, index: Oid) -> Result<bool, CatalogError> {
    let found = writer.row(&PG_INDEX_INDEXRELID_INDEX, index)?;
    Ok(found.values.get(IS_VALID) == Some(&Datum::Bool(true)))
}

/// Drops a constraint of a table, which the caller has locked, with its index. A primary key's
/// columns still refuse NULL. 42704 if there is none of that name. With `cascade` foreign keys to
/// it go along. `path`: the namespaces that messages leave out.
pub fn drop_constraint(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    (name, cascade, path): (&str, bool, Vec<Oid>),
) -> Result<Dropped, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.path = path;
    let found = writer.reader().constraint(table.oid, name)?;
    let Some(Constraint { oid, kind, column, .. }) = found else {
        let of = &table.name;
        let message = format!("constraint \"{name}\" of relation \"{of}\" does not exist");
        return Err(CatalogError::refused("42704", message));
    };
    match (kind, column) {
        (b'p' | b'u' | b'f' | b'c', _) => {}
        (b'n', Some(column)) => {
            refuse_key_column(table, column)?;
            set_not_null(&mut writer, table, column, false)?;
        }
        _ => {
            let message = format!("cannot drop constraint \"{name}\": its kind is not supported");
            return Err(CatalogError::refused("0A000", message));
        }
    }
    let dropped = drop_cascading(&mut writer, &[Object::new(CONSTRAINTS, oid)], cascade)?;
    writer.next_command()?;
    Ok(dropped)
}

/// Refuses a column of the primary key.
fn refuse_key_column(table: &Table, number: i16) -> Result<(), CatalogError> {
    let mut primary = table.indexes.iter().filter(|index| index.primary);
    let columns = primary.next().map_or(&[][..], |index| {
        index.columns.get(..index.shape.keys.len()).unwrap_or(&index.columns)
    });
    let column = table.columns.iter().find(|column| column.attnum == number);
    match column.filter(|_| columns.contains(&number)) {
        None => Ok(()),
        Some(column) => {
            let message = format!("column \"{}\" is in a primary key", column.name);
            Err(CatalogError::refused("42P16", message))
        }
    }
}

/// What goes with a column.
#[derive(Debug, Default)]
pub(crate) struct ColumnParts {
    /// What was dropped.
    pub(crate) dropped: Vec<Object>,
    /// Columns that are generated of it, which are to be dropped as well.
    pub(crate) generated: Vec<Object>,
    /// What goes by CASCADE, in words.
    pub(crate) told: Vec<String>,
}

/// Drops what belongs to a column, but not the column itself, after `each` has seen it; with
/// `cascade` also what else depends on it, which is 2BP01 otherwise.
pub(crate) fn drop_dependents(
    writer: &mut Writer<'_>,
    column: Object,
    cascade: bool,
    mut each: impl FnMut(&mut Writer<'_>, Object) -> Result<(), CatalogError>,
) -> Result<ColumnParts, CatalogError> {
    let (mut parts, mut others) = (ColumnParts::default(), Vec::new());
    for Depends { object, on, code } in writer.dependents(column)? {
        if on.column != column.column {
            continue;
        }
        let whole = Object { column: 0, ..object };
        if !matches!(code, b'i' | b'a' | b'P' | b'S') {
            others.push(whole);
            continue;
        }
        for target in targets_of(writer, &[whole])? {
            if target.is_reported(&[whole]) {
                others.push(target.object);
            } else if !parts.dropped.contains(&target.object) {
                parts.dropped.push(target.object);
            }
        }
    }
    others.retain(|other| !parts.dropped.contains(other));
    others.sort_by_key(|other| other.oid);
    others.dedup();
    if cascade {
        others.iter().try_for_each(|other| take_along(writer, *other, &mut parts))?;
    } else if !others.is_empty() {
        let what = describe(writer, column)?;
        let message = format!("cannot drop {what} because other objects depend on it");
        let mut lines = Vec::new();
        for other in others.iter().take(MOST_LISTED) {
            lines.push(format!("{} depends on {what}", describe_owner(writer, *other)?));
        }
        let error = CatalogError::refused("2BP01", message).with_detail(lines.join("\n"));
        return Err(error.with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    let dropped = &parts.dropped;
    dropped.iter().try_for_each(|object| check_object(writer, *object))?;
    dropped.iter().try_for_each(|object| each(writer, *object))?;
    unmark_defaults(writer, dropped)?;
    dropped.iter().try_for_each(|object| drop_object(writer, *object))?;
    dropped.iter().try_for_each(|object| writer.delete_notes(*object))?;
    Ok(parts)
}

/// Adds to a column's parts an object that depends on the column, with all that goes with that.
fn take_along(
    writer: &mut Writer<'_>,
    other: Object,
    parts: &mut ColumnParts,
) -> Result<(), CatalogError> {
    let references = writer.references(other)?;
    let part_of = references.iter().find(|depends| depends.code == b'i');
    if let Some(depends) = part_of.filter(|_| other.class == DEFAULTS) {
        parts.generated.push(depends.on);
        parts.told.push(describe(writer, depends.on)?);
        return Ok(());
    }
    for target in targets_of(writer, &[other])? {
        if parts.dropped.contains(&target.object) {
            continue;
        }
        if !target.belongs {
            parts.told.push(describe(writer, target.object)?);
        }
        parts.dropped.push(target.object);
    }
    Ok(())
}

/// An object in messages; of a generated column's expression the column.
fn describe_owner(writer: &mut Writer<'_>, object: Object) -> Result<String, CatalogError> {
    let references = writer.references(object)?;
    let part_of = references.iter().find(|depends| depends.code == b'i');
    match part_of.filter(|_| object.class == DEFAULTS) {
        Some(depends) => describe(writer, depends.on),
        None => describe(writer, object),
    }
}

/// Drops an object with all that goes with it. Fails if something else depends on them.
fn drop_all(writer: &mut Writer<'_>, object: Object) -> Result<(), CatalogError> {
    drop_cascading(writer, &[object], false).map(drop)
}

/// An object with all that goes with it. Fails if something else depends on them.
fn all_that_goes(writer: &mut Writer<'_>, object: Object) -> Result<Vec<Object>, CatalogError> {
    let targets = targets_of(writer, &[object])?;
    refuse_dependents(writer, &[object], &targets)?;
    Ok(targets.into_iter().map(|target| target.object).collect())
}

/// What a DROP ... CASCADE takes along, in words.
#[derive(Debug, Default)]
pub struct Dropped(pub Vec<String>);

/// Drops objects with all that goes with them. What else depends on them prevents that, unless it
/// is to be dropped as well.
pub(crate) fn drop_cascading(
    writer: &mut Writer<'_>,
    objects: &[Object],
    cascade: bool,
) -> Result<Dropped, CatalogError> {
    let targets = targets_of(writer, objects)?;
    let mut told = Dropped::default();
    match cascade {
        false => refuse_dependents(writer, objects, &targets)?,
        true => {
            for target in targets.iter().rev().filter(|target| target.is_reported(objects)) {
                told.0.push(describe(writer, target.object)?);
            }
        }
    }
    drop_targets(writer, &targets)?;
    Ok(told)
}

fn drop_targets(writer: &mut Writer<'_>, targets: &[Target]) -> Result<(), CatalogError> {
    let objects: Vec<Object> = targets.iter().map(|target| target.object).collect();
    objects.iter().try_for_each(|object| check_object(writer, *object))?;
    unmark_defaults(writer, &objects)?;
    uncount_checks(writer, &objects)?;
    objects.iter().try_for_each(|object| drop_object(writer, *object))?;
    objects.iter().try_for_each(|object| match object.column {
        0 => writer.delete_notes(*object),
        _ => writer.delete_column_notes(*object),
    })
}

/// Tables whose checks go, and which stay, have fewer from now on.
fn uncount_checks(writer: &mut Writer<'_>, gone: &[Object]) -> Result<(), CatalogError> {
    for object in gone.iter().filter(|object| object.class == CONSTRAINTS) {
        let found = writer.row(&PG_CONSTRAINT_OID_INDEX, object.oid)?;
        let row = Row(&found.values, schema::PG_CONSTRAINT.name);
        let table = row.oid(schema::PG_CONSTRAINT.place("conrelid"))?;
        let is_check = row.char(schema::PG_CONSTRAINT.place("contype"))? == b'c';
        if is_check && table != 0 && !gone.contains(&Object::relation(table)) {
            count_checks(writer, table, -1)?;
            writer.next_command()?;
        }
    }
    Ok(())
}

/// Columns whose defaults go, and whose tables stay, have none from now on.
fn unmark_defaults(writer: &mut Writer<'_>, gone: &[Object]) -> Result<(), CatalogError> {
    const HAS_DEFAULT: usize = PG_ATTRIBUTE.place("atthasdef");
    for object in gone.iter().filter(|object| object.class == DEFAULTS) {
        let found = writer.row(&PG_ATTRDEF_OID_INDEX, object.oid)?;
        let row = Row(&found.values, PG_ATTRDEF.name);
        let (table, column) = (row.oid(1)?, row.int2(2)?);
        if gone.contains(&Object::relation(table)) {
            continue;
        }
        let key = [Datum::Oid(table), Datum::Int2(column)];
        for mut found in writer.rows((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key), usize::MAX)? {
            if let Some(value) = found.values.get_mut(HAS_DEFAULT) {
                *value = Datum::Bool(false);
            }
            writer.update(ATTRIBUTES, found.tid, &found.values)?;
        }
    }
    Ok(())
}

/// An object that is to be dropped.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) object: Object,
    /// Whether it goes without a word: it belongs to another one.
    belongs: bool,
    /// What it depends on.
    on: Object,
}

impl Target {
    fn is_reported(&self, dropped: &[Object]) -> bool {
        !self.belongs && !dropped.contains(&self.object)
    }
}

/// Most objects in a row of which each depends on the one before.
const DEEPEST: usize = 500;
/// Most objects that a message lists.
const MOST_LISTED: usize = 100;

/// Objects and all that depends on them, in the order in which they can be dropped.
pub(crate) fn targets_of(
    writer: &mut Writer<'_>,
    objects: &[Object],
) -> Result<Vec<Target>, CatalogError> {
    let mut targets = Vec::new();
    for object in objects {
        find_targets(writer, (*object, false, *object), &mut targets, &mut Vec::new())?;
    }
    // Columns go with their tables.
    let relations = targets.iter().map(|target| target.object);
    let relations: HashSet<Oid> = relations
        .filter(|object| object.class == CLASSES && object.column == 0)
        .map(|object| object.oid)
        .collect();
    targets.retain(|Target { object, .. }| {
        object.class != CLASSES || object.column == 0 || !relations.contains(&object.oid)
    });
    Ok(targets)
}

fn find_targets(
    writer: &mut Writer<'_>,
    (object, belongs, on): (Object, bool, Object),
    targets: &mut Vec<Target>,
    path: &mut Vec<Object>,
) -> Result<(), CatalogError> {
    if let Some(known) = targets.iter_mut().find(|target| target.object == object) {
        known.belongs |= belongs;
        return Ok(());
    }
    if path.contains(&object) {
        return Ok(());
    }
    if path.len() >= DEEPEST {
        return Err(CatalogError::refused("54001", "stack depth limit exceeded"));
    }
    if !path.is_empty()
        && let Some(owner) = owner_of(writer, object)?
        && !path.contains(&owner)
        && !targets.iter().any(|target| target.object == owner)
    {
        // It goes with what it is a part of.
        find_targets(writer, (owner, belongs, on), targets, path)?;
        return Ok(());
    }
    path.push(object);
    let mut found = writer.dependents(object)?;
    found.retain(|depends| object.column == 0 || depends.on.column == object.column);
    found.sort_by_key(|depends| std::cmp::Reverse(depends.object.oid));
    for Depends { object: dependent, code, .. } in found {
        let whole = match is_column_elsewhere(dependent, object) {
            true => dependent,
            false => Object { column: 0, ..dependent },
        };
        if whole != object {
            let belongs = matches!(code, b'i' | b'a' | b'P' | b'S' | b'e' | b'x');
            find_targets(writer, (whole, belongs, object), targets, path)?;
        }
    }
    path.pop();
    targets.push(Target { object, belongs, on });
    Ok(())
}

/// Whether it is a column of another relation, which stays.
fn is_column_elsewhere(dependent: Object, on: Object) -> bool {
    dependent.class == CLASSES
        && dependent.column > 0
        && (on.class, on.oid) != (CLASSES, dependent.oid)
}

/// What an object is a part of.
fn owner_of(writer: &mut Writer<'_>, object: Object) -> Result<Option<Object>, CatalogError> {
    let references = writer.references(object)?;
    let owner = references.iter().find(|depends| depends.object == object && depends.code == b'i');
    Ok(owner.map(|depends| Object { column: 0, ..depends.on }))
}

/// Refuses to drop objects on which others depend.
fn refuse_dependents(
    writer: &mut Writer<'_>,
    objects: &[Object],
    targets: &[Target],
) -> Result<(), CatalogError> {
    let others: Vec<&Target> =
        targets.iter().rev().filter(|target| target.is_reported(objects)).collect();
    if others.is_empty() {
        return Ok(());
    }
    let mut lines = Vec::new();
    for Target { object, on, .. } in others.iter().take(MOST_LISTED) {
        lines.push(format!("{} depends on {}", describe(writer, *object)?, describe(writer, *on)?));
    }
    if others.len() > MOST_LISTED {
        let rest = others.len() - MOST_LISTED;
        let objects = if rest == 1 { "object" } else { "objects" };
        lines.push(format!("\nand {rest} other {objects} (see server log for list)"));
    }
    let message = match objects {
        [object] => {
            let what = describe(writer, *object)?;
            format!("cannot drop {what} because other objects depend on it")
        }
        _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
    };
    let error = CatalogError::refused("2BP01", message).with_detail(lines.join("\n"));
    Err(error.with_hint("Use DROP ... CASCADE to drop the dependent objects too."))
}

/// Refuses an object that cannot be dropped, before anything is.
fn check_object(writer: &mut Writer<'_>, object: Object) -> Result<(), CatalogError> {
    let Object { class, oid, .. } = object;
    let refused = |what: String, why: &str| {
        Err(CatalogError::refused("0A000", format!("cannot drop {what}: {why}")))
    };
    match class {
        COLLATIONS | CONSTRAINTS | DEFAULTS | NAMESPACES | TRIGGERS => return Ok(()),
        TYPES => return check_type(writer, object),
        CLASSES => {}
        _ => return refused(describe(writer, object)?, "it is of a kind that is not supported"),
    }
    let kind = writer.reader().class(oid)?.map(|class| class.kind);
    if !matches!(kind, Some(b'r' | b't' | b'm' | b'i' | b'S')) {
        return refused(describe(writer, object)?, "it is of a kind that is not supported");
    }
    match inherits(writer, oid)? {
        true => refused(describe(writer, object)?, "inheritance is not supported"),
        false => Ok(()),
    }
}

/// Refuses a type that is not the type of a table's rows, or an array of such.
fn check_type(writer: &mut Writer<'_>, object: Object) -> Result<(), CatalogError> {
    let found = writer.row(&PG_TYPE_OID_INDEX, object.oid)?;
    let row = Row(&found.values, schema::PG_TYPE.name);
    let (kind, element) = (row.char(6)?, row.oid(13)?);
    if kind == b'c' || kind == b'b' && element != 0 && row.int2(4)? == -1 {
        return Ok(());
    }
    let what = describe(writer, object)?;
    let message = format!("cannot drop {what}: it is of a kind that is not supported");
    Err(CatalogError::refused("0A000", message))
}

/// Whether a relation has a parent or a child, such as the index of a partition.
pub(crate) fn inherits(writer: &mut Writer<'_>, oid: Oid) -> Result<bool, CatalogError> {
    let key = [Datum::Oid(oid)];
    Ok(writer.has((&PG_INHERITS_RELID_SEQNO_INDEX, &key))?
        || writer.has((&PG_INHERITS_PARENT_INDEX, &key))?)
}

fn drop_object(writer: &mut Writer<'_>, object: Object) -> Result<(), CatalogError> {
    let Object { class, oid, .. } = object;
    match class {
        CLASSES if object.column > 0 => {
            writer.next_command()?;
            drop_column_row(writer, oid, object.column)
        }
        TYPES => writer.delete_all((&PG_TYPE_OID_INDEX, &[Datum::Oid(oid)]), 3),
        CONSTRAINTS => drop_constraint_row(writer, oid),
        TRIGGERS => writer.delete_all((&PG_TRIGGER_OID_INDEX, &[Datum::Oid(oid)]), 4),
        DEFAULTS => writer.delete_all((&PG_ATTRDEF_OID_INDEX, &[Datum::Oid(oid)]), 3),
        NAMESPACES => writer.delete_all((&schema::PG_NAMESPACE_OID_INDEX, &[Datum::Oid(oid)]), 2),
        COLLATIONS => writer.delete_all((&schema::PG_COLLATION_OID_INDEX, &[Datum::Oid(oid)]), 7),
        _ => drop_relation(writer, oid),
    }
}

/// Drops a constraint.
fn drop_constraint_row(writer: &mut Writer<'_>, oid: Oid) -> Result<(), CatalogError> {
    let found = writer.row(&PG_CONSTRAINT_OID_INDEX, oid)?;
    writer.delete(CONSTRAINTS, &found)
}

/// Drops a table, a TOAST table, an index or a sequence.
fn drop_relation(writer: &mut Writer<'_>, oid: Oid) -> Result<(), CatalogError> {
    let class = writer.reader().class(oid)?;
    let class = class
        .ok_or_else(|| CatalogError::corrupt(format!("pg_class has no row of relation {oid}")))?;
    let key = [Datum::Oid(oid)];
    writer.delete_all((&PG_INDEX_INDEXRELID_INDEX, &key), 2)?;
    writer.delete_all((&PG_SEQUENCE_SEQRELID_INDEX, &key), 1)?;
    let file: RelFileLocator = writer.reader().locator(&class)?;
    writer.delete_all((&PG_STATISTIC_RELID_ATT_INH_INDEX, &key), 3)?;
    let (tx, name) = (&mut *writer.tx, class.name.clone());
    tx.note_relation(oid, false);
    if !class.is_temporary() {
        tx.drop_at_commit(file);
    }
    let row = [Datum::Oid(oid), Datum::string(name), Datum::Oid(class.namespace)];
    let values = row.into_iter().chain((3..15).map(|_| Datum::Null)).collect::<Vec<_>>();
    let values = [values, vec![Datum::Bool(class.is_shared())]].concat();
    writer.delete(CLASSES, &Found { tid: class.tid, values })?;
    writer.delete_all((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key), 5)
}

impl Database {
    /// Removes temporary tables from the catalogs, at a start: their sessions are gone.
    pub fn drop_stale_temporary(&self, backend: &mut Backend) -> Result<(), CatalogError> {
        let mut tx = self.transaction();
        let snapshot = self.xacts.snapshot(&tx);
        let mut stale = Reader::new(self, backend, snapshot).temporary()?;
        // What belongs to a table goes with it.
        stale.retain(|class| matches!(class.kind, b'r' | b'S'));
        for class in &stale {
            match drop_temporary(self, backend, &mut tx, &[class.oid]) {
                // What PostgreSQL has made and is not understood here stays.
                Err(CatalogError::Refused(why)) if why.sqlstate == "0A000" => {}
                dropped => drop(dropped?),
            }
        }
        // Without any the transaction has no id, and its commit writes nothing.
        self.xacts.commit(&mut backend.io, &mut tx)?;
        Ok(())
    }
}
