//! Columns of tables that are there: another type, identity, what they are generated of.
//!
//! The rows of a column's indexes follow its type in place. A check that reads the column is
//! analyzed anew by the caller, which also writes the rows anew if they have to be.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid, TypeInfo, format_type, type_info};

use crate::catalog_oids::{ATTRIBUTES, CONSTRAINTS, DEFAULTS, INDEXES};
use crate::columns_ddl::missing_array;
use crate::database::Database;
use crate::defaults::{delete_default, insert_default, mark_default};
use crate::describe::describe;
use crate::error::CatalogError;
use crate::index_ddl::operator_classes;
use crate::index_def::{IndexDef, IndexKey};
use crate::index_rows::{CSTRING, EXPRESSIONS, PREDICATE};
use crate::object_rows::oid_vector;
use crate::objects::{Dependency, Object};
use crate::row::Row;
use crate::row_changes::attribute;
use crate::schema::{
    PG_ATTRDEF, PG_ATTRDEF_OID_INDEX, PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, PG_CLASS,
    PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, PG_DEPEND_DEPENDER_INDEX, PG_INDEX,
    PG_INDEX_INDEXRELID_INDEX, PG_STATISTIC_RELID_ATT_INH_INDEX,
};
use crate::stored_expr::{StoredExpr, stored_tree};
use crate::table::{Column, Table};
use crate::writer::{Found, Writer};

fn put(row: &mut [Datum<'static>], name: &str, value: Datum<'static>) {
    if let Some(slot) = row.get_mut(PG_ATTRIBUTE.place(name)) {
        *slot = value;
    }
}

/// The type that a column is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewType {
    /// pg_attribute.attnum
    pub column: i16,
    /// The type.
    pub type_oid: Oid,
    /// Its modifier, or -1.
    pub typmod: i32,
    /// The column's collation, or 0.
    pub collation: Oid,
}

/// Refuses a column on which something depends that does not follow another type. Returns the
/// checks that read it, by OID.
pub fn checks_to_follow(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    column: &Column,
) -> Result<Vec<Oid>, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let (mut checks, name) = (Vec::new(), &column.name);
    for depends in writer.dependents(Object::column(table.oid, column.attnum))? {
        let object = depends.object;
        if depends.on.column != column.attnum {
            continue;
        }
        match object.class {
            DEFAULTS => {
                let found = writer.row(&PG_ATTRDEF_OID_INDEX, object.oid)?;
                let number = Row(&found.values, PG_ATTRDEF.name).int2(2)?;
                let other = table.columns.iter().find(|other| other.attnum == number);
                if let Some(other) = other.filter(|other| other.attnum != column.attnum) {
                    let message = "cannot alter type of a column used by a generated column";
                    let detail = format!(
                        "Column \"{name}\" is used by generated column \"{}\".",
                        other.name
                    );
                    return Err(CatalogError::refused("0A000", message).with_detail(detail));
                }
            }
            CONSTRAINTS => {
                let found = writer.row(&PG_CONSTRAINT_OID_INDEX, object.oid)?;
                let kind =
                    Row(&found.values, PG_CONSTRAINT.name).char(PG_CONSTRAINT.place("contype"))?;
                match kind {
                    b'c' if !checks.contains(&object.oid) => checks.push(object.oid),
                    b'c' | b'n' | b'p' | b'u' => {}
                    _ => return Err(refused(&mut writer, object, name)?),
                }
            }
            class if class == PG_CLASS.oid => {
                let kind = writer.reader().class(object.oid)?.map(|class| class.kind);
                if !matches!(kind, Some(b'i' | b'S')) {
                    return Err(refused(&mut writer, object, name)?);
                }
            }
            _ => return Err(refused(&mut writer, object, name)?),
        }
    }
    Ok(checks)
}

fn refused(
    writer: &mut Writer<'_>,
    object: Object,
    column: &str,
) -> Result<CatalogError, CatalogError> {
    let what = describe(writer, object)?;
    let message = format!("altering the type of a column that {what} reads is not supported");
    Ok(CatalogError::refused("0A000", message)
        .with_detail(format!("{what} depends on column \"{column}\".")))
}

/// Gives a column of a table, which the caller has locked, another type. `missing`: the value of
/// rows that are older than the column, if they stay as they are.
pub fn set_column_type(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, new): (&Table, NewType),
    missing: Option<&Datum<'_>>,
) -> Result<(), CatalogError> {
    let NewType { column: number, type_oid, typmod, collation } = new;
    let info = type_info(type_oid).ok_or_else(|| {
        CatalogError::refused("42704", format!("type with OID {type_oid} does not exist"))
    })?;
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = attribute(&mut writer, table, number, usize::MAX)?;
    retype(&mut found.values, info, (typmod, collation));
    let array =
        missing.map(|value| missing_array(type_oid, value, database.encoding)).transpose()?;
    put(&mut found.values, "atthasmissing", Datum::Bool(array.is_some()));
    put(&mut found.values, "attmissingval", array.unwrap_or(Datum::Null));
    writer.update(ATTRIBUTES, found.tid, &found.values)?;
    writer.change_collations(Object::column(table.oid, number), &[collation])?;
    let key = [Datum::Oid(table.oid), Datum::Int2(number)];
    writer.delete_all((&PG_STATISTIC_RELID_ATT_INH_INDEX, &key), 3)?;
    writer.next_command()
}

/// The values of pg_attribute that follow from a type.
fn retype(row: &mut [Datum<'static>], info: &TypeInfo, (typmod, collation): (i32, Oid)) {
    for (name, value) in [
        ("atttypid", Datum::Oid(info.oid)),
        ("attlen", Datum::Int2(info.len)),
        ("atttypmod", Datum::Int4(typmod)),
        ("attndims", Datum::Int2(0)),
        ("attbyval", Datum::Bool(info.by_val)),
        ("attalign", Datum::Char(info.align)),
        ("attstorage", Datum::Char(info.storage)),
        ("attcompression", Datum::Char(0)),
        ("attcollation", Datum::Oid(collation)),
    ] {
        put(row, name, value);
    }
}

/// Lets the indexes of a table follow the types that its columns have now. `old`: the table before.
/// Returns those whose entries are to be made anew, by OID.
pub fn follow_types(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (old, new): (&Table, &Table),
    columns: &[i16],
) -> Result<Vec<Oid>, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut changed = Vec::new();
    for index in &old.indexes {
        if !index.columns.iter().any(|number| columns.contains(number)) {
            refuse_expressions(&mut writer, (old, columns), (index.oid, &index.name))?;
            continue;
        }
        let found = writer.row(&PG_INDEX_INDEXRELID_INDEX, index.oid)?;
        let has = |place: usize| found.values.get(place).is_some_and(|v| *v != Datum::Null);
        if has(EXPRESSIONS) || has(PREDICATE) {
            return Err(refused_index(&index.name));
        }
        if follow(&mut writer, (old, new), (index.oid, &index.columns), columns, found)? {
            changed.push(index.oid);
        }
    }
    writer.next_command()?;
    Ok(changed)
}

fn refused_index(name: &str) -> CatalogError {
    let message = format!(
        "altering the type of a column that an expression or the predicate of index \"{name}\" \
         reads is not supported"
    );
    CatalogError::refused("0A000", message)
}

/// Refuses an index whose expressions or predicate read one of the columns.
fn refuse_expressions(
    writer: &mut Writer<'_>,
    (table, columns): (&Table, &[i16]),
    (index, name): (Oid, &str),
) -> Result<(), CatalogError> {
    let reads = writer.references(Object::relation(index))?.iter().any(|depends| {
        depends.on.class == PG_CLASS.oid
            && depends.on.oid == table.oid
            && columns.contains(&depends.on.column)
    });
    if reads { Err(refused_index(name)) } else { Ok(()) }
}

/// A name is kept in an index as a C string.
fn store_as_c_string(values: &mut [Datum<'static>]) {
    for (name, value) in [
        ("atttypid", Datum::Oid(CSTRING)),
        ("attlen", Datum::Int2(-2)),
        ("attbyval", Datum::Bool(false)),
        ("attalign", Datum::Char(b'c')),
        ("attstorage", Datum::Char(b'p')),
    ] {
        put(values, name, value);
    }
}

/// Lets the rows of an index follow. Whether its entries differ now.
fn follow(
    writer: &mut Writer<'_>,
    (old, new): (&Table, &Table),
    (index, index_columns): (Oid, &[i16]),
    columns: &[i16],
    mut found: Found,
) -> Result<bool, CatalogError> {
    let row = Row(&found.values, PG_INDEX.name);
    let oids = |place| row.vector(place).map(|all| all.map(u32::from_le_bytes).collect());
    let mut classes: Vec<Oid> = oids(PG_INDEX.place("indclass"))?;
    let mut collations: Vec<Oid> = oids(PG_INDEX.place("indcollation"))?;
    let mut differs = false;
    for (n, number) in index_columns.iter().enumerate().filter(|(_, n)| columns.contains(n)) {
        let column = new.columns.iter().find(|column| column.attnum == *number);
        let Some(column) = column else { continue };
        let info = type_info(column.type_oid);
        let info = info.ok_or_else(|| CatalogError::corrupt("a column has an unknown type"))?;
        let key = IndexDef { keys: vec![IndexKey::new(*number)], ..IndexDef::default() };
        let (mut stored, mut own) = (None, 0);
        if let (Some(class), Some(collation)) = (classes.get_mut(n), collations.get_mut(n)) {
            let default = operator_classes(writer, old, &key)?.pop().map(|class| class.oid);
            if default != Some(*class) {
                let message = "altering the type of a column with an index whose operator class \
                               is not the type's default one is not supported";
                return Err(CatalogError::refused("0A000", message));
            }
            let Some(now) = operator_classes(writer, new, &key)?.pop() else { continue };
            let before = old.columns.iter().find(|column| column.attnum == *number);
            // A collation that the index alone has stays.
            own = match before.is_some_and(|before| before.collation == *collation) {
                true => column.collation,
                false => *collation,
            };
            if own != 0 && info.collation == 0 {
                let ty = format_type(info.oid, None);
                let message = format!("collations are not supported by type {ty}");
                return Err(CatalogError::refused("42804", message));
            }
            differs |= now.oid != *class || *collation != own;
            (*class, *collation, stored) = (now.oid, own, Some(now.stored));
        }
        let key = [Datum::Oid(index), Datum::Int2(i16::try_from(n + 1).unwrap_or(i16::MAX))];
        let of_column = (&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key[..]);
        for mut found in writer.rows(of_column, usize::MAX)? {
            // An included column has no order.
            retype(&mut found.values, info, (column.typmod, own));
            if stored == Some(CSTRING) {
                store_as_c_string(&mut found.values);
            }
            writer.update(ATTRIBUTES, found.tid, &found.values)?;
        }
    }
    for (name, value) in
        [("indclass", oid_vector(&classes)), ("indcollation", oid_vector(&collations))]
    {
        if let Some(slot) = found.values.get_mut(PG_INDEX.place(name)) {
            *slot = value;
        }
    }
    writer.update(INDEXES, found.tid, &found.values)?;
    writer.change_collations(Object::relation(index), &collations)?;
    Ok(differs)
}

/// Replaces the condition of a check of a table, which the caller has locked.
pub fn set_check_condition(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, check): (&Table, Oid),
    condition: &StoredExpr,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = writer.row(&PG_CONSTRAINT_OID_INDEX, check)?;
    if let Some(slot) = found.values.get_mut(PG_CONSTRAINT.place("conbin")) {
        *slot = stored_tree(&condition.tree, database.encoding)?;
    }
    writer.update(CONSTRAINTS, found.tid, &found.values)?;
    let key = [Datum::Oid(CONSTRAINTS), Datum::Oid(check)];
    writer.delete_all((&PG_DEPEND_DEPENDER_INDEX, &key), 7)?;
    let object = Object::new(CONSTRAINTS, check);
    let columns = condition.columns.iter().copied().filter(|column| *column > 0);
    for column in columns {
        writer.depend(object, Object::column(table.oid, column), Dependency::Auto)?;
    }
    writer.depend_on_expr(object, (condition, table.oid))?;
    writer.next_command()
}

/// Replaces what a column of a table, which the caller has locked, gets where no value is given:
/// its default or, by `generated`, what it is generated of.
pub fn replace_default(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, column): (&Table, i16),
    (value, generated): (&StoredExpr, bool),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    delete_default(&mut writer, (table.oid, column))?;
    writer.next_command()?;
    insert_default(&mut writer, (table.oid, column), value, generated)?;
    let key = [Datum::Oid(table.oid), Datum::Int2(column)];
    writer.delete_all((&PG_STATISTIC_RELID_ATT_INH_INDEX, &key), 3)?;
    writer.next_command()
}

/// Makes a column of a table, which the caller has locked, an identity column (a: always, d: by
/// default) or none (0).
pub fn set_identity(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, column): (&Table, i16),
    identity: u8,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = attribute(&mut writer, table, column, usize::MAX)?;
    put(&mut found.values, "attidentity", Datum::Char(identity));
    writer.update(ATTRIBUTES, found.tid, &found.values)?;
    writer.next_command()
}

/// Makes a generated column of a table, which the caller has locked, a column of values.
pub fn drop_expression(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, column): (&Table, i16),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = attribute(&mut writer, table, column, usize::MAX)?;
    put(&mut found.values, "attgenerated", Datum::Char(0));
    writer.update(ATTRIBUTES, found.tid, &found.values)?;
    writer.next_command()?;
    if delete_default(&mut writer, (table.oid, column))? {
        mark_default(&mut writer, table, column, false)?;
    }
    writer.next_command()
}
