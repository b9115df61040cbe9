//! Makes rows of the catalogs: the values of all columns, in the order of [`crate::schema`].

use forebay_format::Xid;
use forebay_format::multixact::MultiXactId;
use forebay_types::{Datum, Oid, TypeInfo, type_info};

use crate::error::CatalogError;
use crate::options;
use crate::schema::{HEAP_AM, POSTGRES_ROLE, SYSTEM_COLUMNS};
use crate::table::ColumnDef;

/// The bootstrap superuser.
pub(crate) const OWNER: Oid = POSTGRES_ROLE;
/// The oldest ids that a row of a table or database may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldestIds {
    /// relfrozenxid or datfrozenxid: older ids are frozen.
    pub xid: Xid,
    /// relminmxid or datminmxid
    pub multi: MultiXactId,
}

/// The values in which the pg_class rows of tables differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassRow<'a> {
    pub oid: Oid,
    pub name: &'a str,
    pub namespace: Oid,
    pub owner: Oid,
    pub row_type: Oid,
    /// 0: found through pg_filenode.map.
    pub filenode: Oid,
    /// 0: the database's own.
    pub tablespace: Oid,
    pub shared: bool,
    /// p for a permanent table, t for a temporary one
    pub persistence: u8,
    pub columns: i16,
    /// d for a user's table, n for a catalog
    pub replica_identity: u8,
    pub oldest: OldestIds,
    /// Storage parameters, as `name=value`.
    pub options: &'a [String],
}

impl<'a> ClassRow<'a> {
    /// The row's columns.
    pub(crate) fn datums(&self) -> Vec<Datum<'a>> {
        vec![
            Datum::Oid(self.oid),
            Datum::text(self.name),
            Datum::Oid(self.namespace),
            Datum::Oid(self.row_type),
            Datum::Oid(0), // reloftype
            Datum::Oid(self.owner),
            Datum::Oid(HEAP_AM),
            Datum::Oid(self.filenode),
            Datum::Oid(self.tablespace),
            Datum::Int4(0),      // relpages
            Datum::Float4(-1.0), // reltuples: not known
            Datum::Int4(0),      // relallvisible
            Datum::Int4(0),      // relallfrozen
            Datum::Oid(0),       // reltoastrelid
            Datum::Bool(false),  // relhasindex
            Datum::Bool(self.shared),
            Datum::Char(self.persistence),
            Datum::Char(b'r'), // relkind
            Datum::Int2(self.columns),
            Datum::Int2(0),     // relchecks
            Datum::Bool(false), // relhasrules
            Datum::Bool(false), // relhastriggers
            Datum::Bool(false), // relhassubclass
            Datum::Bool(false), // relrowsecurity
            Datum::Bool(false), // relforcerowsecurity
            Datum::Bool(true),  // relispopulated
            Datum::Char(self.replica_identity),
            Datum::Bool(false), // relispartition
            Datum::Oid(0),      // relrewrite
            Datum::Xid(self.oldest.xid),
            Datum::Xid(self.oldest.multi),
            Datum::Null, // relacl
            options::stored(self.options),
            Datum::Null, // relpartbound
        ]
    }
}

/// A column's pg_attribute row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeRow<'a> {
    pub relation: Oid,
    pub name: &'a str,
    pub type_info: &'static TypeInfo,
    pub number: i16,
    pub typmod: i32,
    pub dimensions: i16,
    pub not_null: bool,
    pub collation: Oid,
    /// How its long values may be stored.
    pub storage: u8,
    /// How they are compressed, if that is not the session's default.
    pub compression: u8,
    /// Whether pg_attrdef has a row of it.
    pub has_default: bool,
    /// 0, or a: identity, generated always, d: by default
    pub identity: u8,
    /// 0, or s: generated and stored, v: generated when read
    pub generated: u8,
}

impl<'a> AttributeRow<'a> {
    /// The row's columns.
    pub(crate) fn datums(&self) -> Vec<Datum<'a>> {
        vec![
            Datum::Oid(self.relation),
            Datum::text(self.name),
            Datum::Oid(self.type_info.oid),
            Datum::Int2(self.type_info.len),
            Datum::Int2(self.number),
            Datum::Int4(self.typmod),
            Datum::Int2(self.dimensions),
            Datum::Bool(self.type_info.by_val),
            Datum::Char(self.type_info.align),
            Datum::Char(self.storage),
            Datum::Char(self.compression),
            Datum::Bool(self.not_null),
            Datum::Bool(self.has_default),
            Datum::Bool(false), // atthasmissing
            Datum::Char(self.identity),
            Datum::Char(self.generated),
            Datum::Bool(false), // attisdropped
            Datum::Bool(true),  // attislocal
            Datum::Int2(0),     // attinhcount
            Datum::Oid(self.collation),
            Datum::Null, // attstattarget
            Datum::Null, // attacl
            Datum::Null, // attoptions
            Datum::Null, // attfdwoptions
            Datum::Null, // attmissingval
        ]
    }
}

fn known_type(oid: Oid) -> Result<&'static TypeInfo, CatalogError> {
    type_info(oid).ok_or_else(|| {
        CatalogError::refused("42704", format!("type with OID {oid} does not exist"))
    })
}

/// The rows of the columns every table has.
pub(crate) fn system_attributes(relation: Oid) -> Result<Vec<AttributeRow<'static>>, CatalogError> {
    SYSTEM_COLUMNS
        .iter()
        .map(|&(name, type_oid, number)| {
            let type_info = known_type(type_oid)?;
            Ok(AttributeRow {
                relation,
                name,
                type_info,
                number,
                typmod: -1,
                dimensions: 0,
                not_null: true,
                collation: 0,
                storage: type_info.storage,
                compression: 0,
                has_default: false,
                identity: 0,
                generated: 0,
            })
        })
        .collect()
}

/// The pg_attribute rows of a user's table.
pub(crate) fn user_attributes(
    relation: Oid,
    columns: &[ColumnDef],
) -> Result<Vec<AttributeRow<'_>>, CatalogError> {
    let mut rows = Vec::with_capacity(columns.len() + SYSTEM_COLUMNS.len());
    for (number, column) in (1..).zip(columns) {
        rows.push(user_attribute(relation, number, column)?);
    }
    rows.extend(system_attributes(relation)?);
    Ok(rows)
}

/// The pg_attribute row of a user's column.
pub(crate) fn user_attribute(
    relation: Oid,
    number: i16,
    column: &ColumnDef,
) -> Result<AttributeRow<'_>, CatalogError> {
    let type_info = known_type(column.type_oid)?;
    Ok(AttributeRow {
        relation,
        name: &column.name,
        type_info,
        number,
        typmod: column.typmod,
        dimensions: 0,
        not_null: column.not_null,
        collation: column.collation.unwrap_or(type_info.collation),
        storage: column.storage.unwrap_or(type_info.storage),
        compression: column.compression,
        has_default: column.default.is_some(),
        identity: column.identity,
        generated: column.generated,
    })
}

/// A namespace's row.
pub(crate) fn namespace_datums(oid: Oid, name: &str, owner: Oid) -> Vec<Datum<'_>> {
    vec![Datum::Oid(oid), Datum::text(name), Datum::Oid(owner), Datum::Null]
}
