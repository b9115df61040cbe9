//! Creates tables and namespaces.
//!
//! A new table's file is created before its creation is logged and its rows are written. It is
//! removed if the transaction aborts. A dropped table's file is removed once the transaction has
//! committed. A lock on the name excludes a second creation of the same name, so that nobody has to
//! wait for an entry of a catalog's index.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use forebay_format::wal::Rmgr;
use forebay_format::wal::rmgr::INFO_SPECIAL_REL_UPDATE;
use forebay_format::wal::smgr::{CREATE, SmgrCreate};
use forebay_format::{Fork, RelFileLocator, Xid};
use forebay_storage::{Backend, TempRelations};
use forebay_txn::Transaction;
use forebay_txn::locks::LockTag;
use forebay_types::{Datum, Encoding, Oid, type_info};
use forebay_wal::Record;

use crate::catalog_oids::{ATTRIBUTES, CLASSES, CONSTRAINTS, NAMESPACES, TYPES};
use crate::checks::{CheckedTable, count_checks, insert_check};
use crate::database::Database;
use crate::defaults::insert_default;
use crate::error::CatalogError;
use crate::names::MAX_NAME;
use crate::object_rows::{ConstraintRow, TableType, table_type};
use crate::objects::{Dependency, Object};
use crate::row::Row;
use crate::rows::{ClassRow, OWNER, OldestIds, namespace_datums, user_attributes};
use crate::schema::{
    PG_CATALOG, PG_CLASS, PG_CLASS_OID_INDEX, PG_CONSTRAINT_OID_INDEX, PG_NAMESPACE_OID_INDEX,
    PG_TOAST, PG_TYPE, PG_TYPE_OID_INDEX, PG_TYPE_TYPNAME_NSP_INDEX, SYSTEM_COLUMNS,
};
use crate::stored_expr::CheckDef;
use crate::table::ColumnDef;
use crate::writer::Writer;

/// Most columns of a table.
const MAX_COLUMNS: usize = 1600;

/// The lock of a name in a namespace of a database. Names with the same hash share a lock.
pub fn name_lock(database: Oid, namespace: Oid, name: &str) -> LockTag {
    let mut hasher = DefaultHasher::new();
    (namespace, name).hash(&mut hasher);
    let object = hasher.finish() as u32;
    LockTag::Object { database, class: PG_CLASS.oid, object }
}

/// Refuses what PostgreSQL refuses of a table's definition, in a database with an encoding.
pub fn check_definition(
    (namespace, name): (Oid, &str),
    columns: &[ColumnDef],
    encoding: Encoding,
) -> Result<(), CatalogError> {
    let refuse = |state, message: String| Err(CatalogError::refused(state, message));
    if namespace == PG_CATALOG || namespace == PG_TOAST {
        let schema = if namespace == PG_CATALOG { "pg_catalog" } else { "pg_toast" };
        let error = CatalogError::refused(
            "42501",
            format!("permission denied to create \"{schema}.{name}\""),
        );
        return Err(error.with_detail("System catalog modifications are currently disallowed."));
    }
    if columns.len() > MAX_COLUMNS {
        return refuse("54011", format!("tables can have at most {MAX_COLUMNS} columns"));
    }
    let mut seen = HashSet::new();
    for text in columns.iter().map(|c| c.name.as_str()).chain([name]) {
        if encoding.stored_len(text) > MAX_NAME {
            return refuse("42622", format!("identifier \"{text}\" is too long"));
        }
        if text.is_empty() {
            return refuse("42601", "zero-length delimited identifier".to_owned());
        }
    }
    for column in columns {
        let name = &column.name;
        if SYSTEM_COLUMNS.iter().any(|(system, ..)| system == name) {
            return refuse(
                "42701",
                format!("column name \"{name}\" conflicts with a system column name"),
            );
        }
        if !seen.insert(name.as_str()) {
            return refuse("42701", format!("column \"{name}\" specified more than once"));
        }
        match type_info(column.type_oid) {
            None => {
                return refuse(
                    "42704",
                    format!("type with OID {} does not exist", column.type_oid),
                );
            }
            Some(t) if t.kind == b'p' => {
                return refuse("42P16", format!("column \"{name}\" has pseudo-type {}", t.name));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Who can use a new table.
#[derive(Clone, Copy, Debug)]
pub enum Persistence<'a> {
    /// All sessions. Its changes are logged.
    Permanent,
    /// All sessions. Its changes are not logged, and recovery takes it back to its init fork.
    Unlogged,
    /// The session that creates it, in its own pool. Its changes are not logged.
    Temporary(&'a TempRelations),
}

/// The files of a new relation.
#[derive(Clone, Copy, Debug)]
pub struct NewFiles<'a> {
    /// Whether all sessions use the files, and whether changes are logged.
    pub persistence: Persistence<'a>,
    /// The tablespace that they go to. 0: the database's.
    pub tablespace: Oid,
}

impl NewFiles<'_> {
    /// pg_class.reltablespace
    pub(crate) fn class_tablespace(self, database: &Database) -> Oid {
        if self.tablespace == database.tablespace { 0 } else { self.tablespace }
    }
}

/// A new table.
#[derive(Clone, Copy, Debug)]
pub struct NewTable<'a> {
    /// Its namespace.
    pub namespace: Oid,
    /// Its name.
    pub name: &'a str,
    /// Its columns.
    pub columns: &'a [ColumnDef],
    /// Its checks.
    pub checks: &'a [CheckDef],
    /// Its storage parameters, without those of its TOAST table.
    pub options: &'a [String],
}

/// Creates a table. The caller holds the lock of its name and knows that the name is free. Returns
/// the table's file.
pub fn create_table(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    new: NewTable<'_>,
    files: NewFiles<'_>,
) -> Result<RelFileLocator, CatalogError> {
    let NewTable { namespace, name, columns, checks, options } = new;
    let mut writer = Writer::begin(database, backend, tx)?;
    let owner = writer.owner();
    database.check_default_privileges((owner, namespace, b'r'))?;
    let locator = create_file(&mut writer, files)?;
    let oid = locator.rel;
    let types = table_types(&mut writer, namespace, name)?;
    let class = ClassRow {
        oid,
        name,
        namespace,
        owner,
        row_type: types.row,
        filenode: oid,
        tablespace: files.class_tablespace(database),
        shared: false,
        persistence: files.persistence.code(),
        columns: i16::try_from(columns.len()).expect("check_definition allows 1600"),
        replica_identity: b'd',
        oldest: OldestIds {
            xid: database.xacts.oldest_running().xid(),
            multi: database.heaps.outcomes.oldest_multi(),
        },
        options,
    };
    writer.insert(CLASSES, &class.datums())?;
    writer.tx.note_relation(oid, true);
    for attribute in user_attributes(oid, columns)? {
        writer.insert(ATTRIBUTES, &attribute.datums())?;
    }
    let of = TableType::Row { table: oid, array: types.array };
    writer.insert(TYPES, &table_type(types.row, name, (namespace, owner), of))?;
    let of = TableType::Array { of: types.row };
    writer.insert(TYPES, &table_type(types.array, &types.array_name, (namespace, owner), of))?;
    let (row, array) = (Object::new(TYPES, types.row), Object::new(TYPES, types.array));
    writer.depend(row, Object::relation(oid), Dependency::Internal)?;
    writer.depend(array, row, Dependency::Internal)?;
    let namespace_object = Object::new(NAMESPACES, namespace);
    writer.depend(Object::relation(oid), namespace_object, Dependency::Normal)?;
    writer.note_owner(Object::relation(oid), owner)?;
    for (number, column) in (1..).zip(columns) {
        if let Some(collation) = column.collation {
            writer.depend_on_collation(Object::column(oid, number), collation)?;
        }
    }
    add_constraints(&mut writer, CheckedTable { oid, name, namespace }, columns, checks)?;
    writer.next_command()?;
    Ok(locator)
}

/// Adds defaults, checks and NOT NULL constraints to a new table.
fn add_constraints(
    writer: &mut Writer<'_>,
    table: CheckedTable<'_>,
    columns: &[ColumnDef],
    checks: &[CheckDef],
) -> Result<(), CatalogError> {
    let CheckedTable { oid, .. } = table;
    for (number, column) in (1..).zip(columns) {
        if let Some(default) = &column.default {
            insert_default(writer, (oid, number), default, column.generated != 0)?;
        }
    }
    for check in checks {
        writer.next_command()?;
        let only = match &check.condition.columns[..] {
            [number] => usize::try_from(*number - 1).ok().and_then(|place| columns.get(place)),
            _ => None,
        };
        insert_check(writer, table, check, only.map(|column| column.name.as_str()))?;
    }
    if !checks.is_empty() {
        writer.next_command()?;
        let more = i16::try_from(checks.len())
            .map_err(|_| CatalogError::refused("54000", "too many check constraints".to_owned()))?;
        count_checks(writer, oid, more)?;
    }
    for (number, column) in (1..).zip(columns).filter(|(_, column)| column.not_null) {
        writer.next_command()?;
        let given = column.not_null_name.as_deref();
        add_not_null(writer, table, (number, &column.name), given)?;
    }
    Ok(())
}

impl Persistence<'_> {
    /// pg_class.relpersistence
    pub(crate) fn code(self) -> u8 {
        match self {
            Persistence::Permanent => b'p',
            Persistence::Unlogged => b'u',
            Persistence::Temporary(_) => b't',
        }
    }
}

/// The types that come with a table.
struct TableTypes {
    row: Oid,
    array: Oid,
    array_name: String,
}

fn table_types(
    writer: &mut Writer<'_>,
    namespace: Oid,
    name: &str,
) -> Result<TableTypes, CatalogError> {
    let array = writer.free_oid(&PG_TYPE_OID_INDEX)?;
    free_type_name(writer, namespace, name)?;
    let array_name = writer.choose_array_name(namespace, name)?;
    Ok(TableTypes { row: writer.free_oid(&PG_TYPE_OID_INDEX)?, array, array_name })
}

/// Makes sure that no type has a name. An array type that has it gets another one.
fn free_type_name(writer: &mut Writer<'_>, namespace: Oid, name: &str) -> Result<(), CatalogError> {
    let key = [Datum::text(name), Datum::Oid(namespace)];
    let found = writer.rows((&PG_TYPE_TYPNAME_NSP_INDEX, &key), usize::MAX)?.pop();
    let Some(mut found) = found else { return Ok(()) };
    let row = Row(&found.values, PG_TYPE.name);
    let (oid, element) = (row.oid(0)?, row.oid(13)?);
    let element = writer.rows((&PG_TYPE_OID_INDEX, &[Datum::Oid(element)]), 15)?.pop();
    let array = element.map(|element| Row(&element.values, PG_TYPE.name).oid(14)).transpose()?;
    if array != Some(oid) {
        let error = CatalogError::refused("42710", format!("type \"{name}\" already exists"));
        return Err(error.with_hint(
            "A relation has an associated type of the same name, so you must use a name that \
             doesn't conflict with any existing type.",
        ));
    }
    let new = writer.choose_array_name(namespace, name)?;
    if let Some(value) = found.values.get_mut(1) {
        *value = Datum::string(new);
    }
    writer.update(TYPES, found.tid, &found.values)?;
    writer.next_command()
}

/// Renames a table's type and the array of it.
pub(crate) fn rename_types(
    writer: &mut Writer<'_>,
    namespace: Oid,
    row_type: Oid,
    name: &str,
) -> Result<(), CatalogError> {
    free_type_name(writer, namespace, name)?;
    let array = {
        let found = writer.row(&PG_TYPE_OID_INDEX, row_type)?;
        Row(&found.values, PG_TYPE.name).oid(14)?
    };
    rename_type(writer, row_type, name)?;
    if array != 0 {
        let array_name = writer.choose_array_name(namespace, name)?;
        rename_type(writer, array, &array_name)?;
    }
    Ok(())
}

fn rename_type(writer: &mut Writer<'_>, oid: Oid, name: &str) -> Result<(), CatalogError> {
    let mut found = writer.row(&PG_TYPE_OID_INDEX, oid)?;
    writer.announce(TYPES, &found.values);
    if let Some(value) = found.values.get_mut(1) {
        *value = Datum::string(name.to_owned());
    }
    writer.update(TYPES, found.tid, &found.values)?;
    writer.next_command()
}

/// Adds the NOT NULL constraint of a column, whose row says so already.
pub(crate) fn add_not_null(
    writer: &mut Writer<'_>,
    CheckedTable { oid: table, name, namespace }: CheckedTable<'_>,
    (number, column): (i16, &str),
    given: Option<&str>,
) -> Result<(), CatalogError> {
    let name = match given {
        Some(given) => given.to_owned(),
        None => writer.choose_constraint_name(namespace, (name, Some(column)), "not_null")?,
    };
    let oid = writer.free_oid(&PG_CONSTRAINT_OID_INDEX)?;
    let (columns, index) = (&[number][..], 0);
    let row = ConstraintRow { oid, name: &name, namespace, kind: b'n', table, index, columns };
    writer.insert(CONSTRAINTS, &row.datums())?;
    let on = Object::column(table, number);
    writer.depend(Object::new(CONSTRAINTS, oid), on, Dependency::Auto)
}

/// Creates a new relation's file.
pub(crate) fn create_file(
    writer: &mut Writer<'_>,
    files: NewFiles<'_>,
) -> Result<RelFileLocator, CatalogError> {
    let locator = free_file(writer, files.tablespace)?;
    let (database, xid) = (writer.database, writer.xid());
    match files.persistence {
        Persistence::Permanent => {
            database.xacts.drop_at_abort(writer.tx, locator);
            database.heaps.pool.smgr().create(locator, Fork::Main, false)?;
            log_file(database, writer.backend, (locator, Fork::Main), xid)?;
        }
        Persistence::Unlogged => {
            database.xacts.drop_at_abort(writer.tx, locator);
            database.heaps.pool.smgr().create(locator, Fork::Main, false)?;
            database.heaps.pool.smgr().create(locator, Fork::Init, false)?;
            let aio = writer.backend.io.aio();
            forebay_aio::planted_bug!(aio, InitForkNotLogged, return Ok(locator));
            log_file(database, writer.backend, (locator, Fork::Init), xid)?;
        }
        Persistence::Temporary(pool) => pool.create(writer.backend, locator)?,
    }
    Ok(locator)
}

/// Logs that a relation's file was created.
pub fn log_file(
    database: &Database,
    backend: &mut Backend,
    (rel, fork): (RelFileLocator, Fork),
    xid: Xid,
) -> Result<(), CatalogError> {
    forebay_aio::planted_bug!(backend.io.aio(), FileCreationNotLogged, return Ok(()));
    let main = SmgrCreate { rel, fork }.encode();
    let record = Record {
        rmgr: Rmgr::SMGR,
        info: CREATE | INFO_SPECIAL_REL_UPDATE,
        xid,
        main: &main,
        blocks: &[],
    };
    database.heaps.wal.insert(&mut backend.io, &record)?;
    Ok(())
}

/// Creates a namespace. Its name is free, and no other session creates it. Returns its OID.
pub fn create_namespace(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    name: &str,
) -> Result<Oid, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let oid = writer.free_oid(&PG_NAMESPACE_OID_INDEX)?;
    writer.insert(NAMESPACES, &namespace_datums(oid, name, OWNER))?;
    writer.next_command()?;
    Ok(oid)
}

/// A new OID that no relation has, and for which there is no file: a crash may have left one
/// behind.
fn free_file(writer: &mut Writer<'_>, tablespace: Oid) -> Result<RelFileLocator, CatalogError> {
    let Database { oid: db, tablespace: own, .. } = *writer.database;
    let spc = if tablespace == 0 { own } else { tablespace };
    loop {
        let rel = writer.free_oid(&PG_CLASS_OID_INDEX)?;
        let locator = RelFileLocator { spc, db, rel };
        if !writer.database.heaps.pool.smgr().exists(locator, Fork::Main)? {
            return Ok(locator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::oids;

    fn refusal(name: &str, columns: &[ColumnDef]) -> (&'static str, String) {
        let error = check_definition((2200, name), columns, Encoding::Utf8).expect_err("refused");
        (error.sqlstate(), error.to_string())
    }

    #[test]
    fn definitions_are_refused_as_postgresql_refuses_them() {
        let int = |name: &str| ColumnDef::new(name, oids::INT4);
        check_definition((2200, "t"), &[int("a"), int("b")], Encoding::Utf8).expect("fine");
        check_definition((2200, "t"), &[], Encoding::Utf8).expect("no columns are fine");
        assert_eq!(
            refusal("t", &[int("a"), int("a")]),
            ("42701", "column \"a\" specified more than once".to_owned())
        );
        assert_eq!(
            refusal("t", &[int("ctid")]),
            ("42701", "column name \"ctid\" conflicts with a system column name".to_owned())
        );
        assert_eq!(
            refusal("t", &[ColumnDef::new("a", oids::ANYARRAY)]),
            ("42P16", "column \"a\" has pseudo-type anyarray".to_owned())
        );
        let many: Vec<ColumnDef> = (0..1601).map(|n| int(&format!("c{n}"))).collect();
        assert_eq!(
            refusal("t", &many),
            ("54011", "tables can have at most 1600 columns".to_owned())
        );
        let error = check_definition((11, "t"), &[], Encoding::Utf8).expect_err("catalog");
        assert_eq!(error.sqlstate(), "42501");
    }
}
