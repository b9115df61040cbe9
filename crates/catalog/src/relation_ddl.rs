//! Relations as a whole: their owners and schemas, with what follows a table, and marks of indexes
//! that others read: replica identity and clustering.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{
    ATTRIBUTES, CLASSES, CONSTRAINTS, DEPENDENCIES, INDEXES, NAMESPACES, TYPES,
};
use crate::database::Database;
use crate::describe::describe;
use crate::dropping::inherits;
use crate::error::CatalogError;
use crate::objects::{Depends, Object};
use crate::privileges::give_privileges;
use crate::row::Row;
use crate::row_changes::set;
use crate::schema::{
    PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, PG_CLASS, PG_CLASS_OID_INDEX,
    PG_CLASS_RELNAME_NSP_INDEX, PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX,
    PG_DEPEND, PG_DEPEND_DEPENDER_INDEX, PG_INDEX, PG_INDEX_INDEXRELID_INDEX,
    PG_INDEX_INDRELID_INDEX, PG_TYPE, PG_TYPE_OID_INDEX, PG_TYPE_TYPNAME_NSP_INDEX,
};
use crate::table::Table;
use crate::writer::{Found, Writer};

/// Indexes of columns of pg_class.
const NAMESPACE: usize = PG_CLASS.place("relnamespace");
const ROW_TYPE: usize = PG_CLASS.place("reltype");
const OWNER: usize = PG_CLASS.place("relowner");
const TOAST: usize = PG_CLASS.place("reltoastrelid");
const KIND: usize = PG_CLASS.place("relkind");
const PRIVILEGES: usize = PG_CLASS.place("relacl");
/// Indexes of columns of pg_index.
const CLUSTERED: usize = PG_INDEX.place("indisclustered");
const REPLICA_IDENTITY: usize = PG_INDEX.place("indisreplident");

fn put(row: &mut [Datum<'static>], place: usize, value: Datum<'static>) {
    if let Some(slot) = row.get_mut(place) {
        *slot = value;
    }
}

/// Refuses a table that others inherit from or that inherits, and one whose rows are values of
/// columns: what is changed of it would have to be changed there, too.
pub fn check_alone(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    if inherits(&mut writer, table.oid)? {
        let message =
            format!("cannot alter table \"{}\": inheritance is not supported", table.name);
        return Err(CatalogError::refused("0A000", message));
    }
    let found = writer.row(&PG_CLASS_OID_INDEX, table.oid)?;
    let row_type = Row(&found.values, PG_CLASS.name).oid(ROW_TYPE)?;
    let types = if row_type == 0 { Vec::new() } else { types_of(&mut writer, row_type)? };
    for oid in types {
        let users = writer.dependents(Object::new(TYPES, oid))?;
        let column = users
            .iter()
            .map(|user| user.object)
            .find(|user| user.class == CLASSES && user.column != 0 && user.oid != table.oid);
        if let Some(column) = column {
            let what = describe(&mut writer, column)?;
            let message =
                format!("cannot alter table \"{}\" because {what} uses its row type", table.name);
            return Err(CatalogError::refused("0A000", message));
        }
    }
    Ok(())
}

/// The indexes of a relation, by their rows in pg_index.
fn index_oids(writer: &mut Writer<'_>, table: Oid) -> Result<Vec<Oid>, CatalogError> {
    let found = writer.rows((&PG_INDEX_INDRELID_INDEX, &[Datum::Oid(table)]), 1)?;
    found.iter().map(|found| Row(&found.values, PG_INDEX.name).oid(0)).collect()
}

/// The sequences that belong to columns of a table.
fn own_sequences(writer: &mut Writer<'_>, table: Oid) -> Result<Vec<Oid>, CatalogError> {
    let owned = writer.reader().owned_sequences(table)?;
    Ok(owned.into_iter().map(|(sequence, _)| sequence).collect())
}

/// Gives a relation, which the caller has locked, another owner: a table with its types, indexes,
/// TOAST table and the sequences of its columns, or a sequence.
pub fn set_relation_owner(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (relation, owner): (Oid, Oid),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut waiting = vec![relation];
    while let Some(oid) = waiting.pop() {
        let mut found = writer.row(&PG_CLASS_OID_INDEX, oid)?;
        let row = Row(&found.values, PG_CLASS.name);
        let (kind, row_type, toast) = (row.char(KIND)?, row.oid(ROW_TYPE)?, row.oid(TOAST)?);
        let old = row.oid(OWNER)?;
        if old != owner {
            give_privileges(&mut found.values, PRIVILEGES, (old, owner))?;
            give_column_privileges(&mut writer, oid, (old, owner))?;
            put(&mut found.values, OWNER, Datum::Oid(owner));
            writer.update(CLASSES, found.tid, &found.values)?;
            if !matches!(kind, b'i' | b't') {
                writer.change_owner(Object::relation(oid), owner)?;
            }
            if row_type != 0 {
                own_types(&mut writer, row_type, owner)?;
            }
            writer.next_command()?;
        }
        if matches!(kind, b'r' | b'm' | b't') {
            waiting.extend(index_oids(&mut writer, oid)?);
            waiting.extend(Some(toast).filter(|toast| *toast != 0));
        }
        if kind == b'r' {
            waiting.extend(own_sequences(&mut writer, oid)?);
        }
    }
    writer.next_command()
}

/// Privileges on single columns of a relation that gets another owner.
fn give_column_privileges(
    writer: &mut Writer<'_>,
    relation: Oid,
    owners: (Oid, Oid),
) -> Result<(), CatalogError> {
    let place = PG_ATTRIBUTE.place("attacl");
    let of_relation = [Datum::Oid(relation)];
    for mut found in writer.rows((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &of_relation), usize::MAX)? {
        if found.values.get(place).is_some_and(|list| *list != Datum::Null) {
            give_privileges(&mut found.values, place, owners)?;
            writer.update(ATTRIBUTES, found.tid, &found.values)?;
        }
    }
    Ok(())
}

/// A table's type and the array of it have its owner.
fn own_types(writer: &mut Writer<'_>, row_type: Oid, owner: Oid) -> Result<(), CatalogError> {
    for oid in types_of(writer, row_type)? {
        let mut found = writer.row(&PG_TYPE_OID_INDEX, oid)?;
        let place = PG_TYPE.place("typowner");
        let old = Row(&found.values, PG_TYPE.name).oid(place)?;
        give_privileges(&mut found.values, PG_TYPE.place("typacl"), (old, owner))?;
        put(&mut found.values, place, Datum::Oid(owner));
        writer.update(TYPES, found.tid, &found.values)?;
    }
    Ok(())
}

/// A table's type, and the array of it if there is one.
fn types_of(writer: &mut Writer<'_>, row_type: Oid) -> Result<Vec<Oid>, CatalogError> {
    let found = writer.row(&PG_TYPE_OID_INDEX, row_type)?;
    let array = Row(&found.values, PG_TYPE.name).oid(PG_TYPE.place("typarray"))?;
    Ok([row_type, array].into_iter().filter(|oid| *oid != 0).collect())
}

/// The relations that follow a table into another schema: its indexes and the sequences of its
/// columns, by OID and name.
pub fn followers(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    relation: Oid,
) -> Result<Vec<(Oid, String)>, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut all = index_oids(&mut writer, relation)?;
    all.extend(own_sequences(&mut writer, relation)?);
    let mut named = Vec::with_capacity(all.len());
    for oid in all {
        let class = writer.reader().class(oid)?;
        named.extend(class.map(|class| (oid, class.name)));
    }
    Ok(named)
}

/// Moves a relation into another schema (its OID and its name), with what follows a table. The
/// caller has locked them and their new names. 42P07 or 42710 if one is taken.
pub fn set_relation_schema(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    relation: Oid,
    (namespace, schema): (Oid, &str),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let row_type = move_class(&mut writer, relation, (namespace, schema), true)?;
    if row_type != 0 {
        for oid in types_of(&mut writer, row_type)? {
            move_type(&mut writer, oid, (namespace, schema))?;
        }
    }
    for index in index_oids(&mut writer, relation)? {
        move_class(&mut writer, index, (namespace, schema), false)?;
    }
    for sequence in own_sequences(&mut writer, relation)? {
        move_class(&mut writer, sequence, (namespace, schema), true)?;
    }
    let of_table = [Datum::Oid(relation)];
    let of_table = (&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &of_table[..]);
    for mut found in writer.rows(of_table, usize::MAX)? {
        put(&mut found.values, PG_CONSTRAINT.place("connamespace"), Datum::Oid(namespace));
        writer.update(CONSTRAINTS, found.tid, &found.values)?;
    }
    writer.next_command()
}

/// Moves a row of pg_class. Returns the relation's row type, or 0.
fn move_class(
    writer: &mut Writer<'_>,
    oid: Oid,
    (namespace, schema): (Oid, &str),
    depends: bool,
) -> Result<Oid, CatalogError> {
    let mut found = writer.row(&PG_CLASS_OID_INDEX, oid)?;
    let row = Row(&found.values, PG_CLASS.name);
    let (row_type, old) = (row.oid(ROW_TYPE)?, row.oid(NAMESPACE)?);
    let name = row.text(1)?.unwrap_or_default().to_owned();
    let key = [Datum::text(&name), Datum::Oid(namespace)];
    if writer.has((&PG_CLASS_RELNAME_NSP_INDEX, &key))? {
        let message = format!("relation \"{name}\" already exists in schema \"{schema}\"");
        return Err(CatalogError::refused("42P07", message));
    }
    writer.announce(CLASSES, &found.values);
    put(&mut found.values, NAMESPACE, Datum::Oid(namespace));
    writer.update(CLASSES, found.tid, &found.values)?;
    if depends {
        move_dependency(writer, Object::relation(oid), old, namespace)?;
    }
    writer.next_command()?;
    Ok(row_type)
}

fn move_type(
    writer: &mut Writer<'_>,
    oid: Oid,
    (namespace, schema): (Oid, &str),
) -> Result<(), CatalogError> {
    let mut found = writer.row(&PG_TYPE_OID_INDEX, oid)?;
    let name = Row(&found.values, PG_TYPE.name).text(1)?.unwrap_or_default().to_owned();
    let key = [Datum::text(&name), Datum::Oid(namespace)];
    if writer.has((&PG_TYPE_TYPNAME_NSP_INDEX, &key))? {
        let message = format!("type \"{name}\" already exists in schema \"{schema}\"");
        return Err(CatalogError::refused("42710", message));
    }
    writer.announce(TYPES, &found.values);
    put(&mut found.values, PG_TYPE.place("typnamespace"), Datum::Oid(namespace));
    writer.update(TYPES, found.tid, &found.values)?;
    writer.next_command()
}

/// An object depends on its new schema, not on the old one.
fn move_dependency(
    writer: &mut Writer<'_>,
    object: Object,
    old: Oid,
    new: Oid,
) -> Result<(), CatalogError> {
    let key = [Datum::Oid(object.class), Datum::Oid(object.oid)];
    for mut found in writer.rows((&PG_DEPEND_DEPENDER_INDEX, &key), usize::MAX)? {
        let Depends { on, .. } = Depends::read(&Row(&found.values, PG_DEPEND.name))?;
        if on == Object::new(NAMESPACES, old) {
            put(&mut found.values, PG_DEPEND.place("refobjid"), Datum::Oid(new));
            writer.update(DEPENDENCIES, found.tid, &found.values)?;
        }
    }
    Ok(())
}

/// How updates and deletions of a table's rows are logged for subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// By the primary key.
    Default,
    /// By all columns.
    Full,
    /// Not at all.
    Nothing,
    /// By an index, by its OID.
    Index(Oid),
}

/// Changes the replica identity of a table, which the caller has locked.
pub fn set_replica_identity(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    identity: ReplicaIdentity,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let (code, index) = match identity {
        ReplicaIdentity::Default => (b'd', None),
        ReplicaIdentity::Full => (b'f', None),
        ReplicaIdentity::Nothing => (b'n', None),
        ReplicaIdentity::Index(index) => (b'i', Some(index)),
    };
    let mut class = writer.row(&PG_CLASS_OID_INDEX, table.oid)?;
    let place = PG_CLASS.place("relreplident");
    if class.values.get(place) != Some(&Datum::Char(code)) {
        set(&mut class.values, "relreplident", Datum::Char(code));
        writer.update(CLASSES, class.tid, &class.values)?;
    }
    mark_index(&mut writer, table.oid, REPLICA_IDENTITY, index)
}

/// Notes by which index of a table, which the caller has locked, CLUSTER orders its rows.
pub fn mark_clustered(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    index: Option<Oid>,
) -> Result<(), CatalogError> {
    mark_index(&mut Writer::begin(database, backend, tx)?, table.oid, CLUSTERED, index)
}

/// Sets a flag of pg_index for one index of a table, and clears it for the others.
fn mark_index(
    writer: &mut Writer<'_>,
    table: Oid,
    flag: usize,
    index: Option<Oid>,
) -> Result<(), CatalogError> {
    for oid in index_oids(writer, table)? {
        let Found { tid, mut values } = writer.row(&PG_INDEX_INDEXRELID_INDEX, oid)?;
        let wanted = Datum::Bool(index == Some(oid));
        if values.get(flag).is_some_and(|value| *value != wanted) {
            put(&mut values, flag, wanted);
            writer.update(INDEXES, tid, &values)?;
        }
    }
    writer.next_command()
}
