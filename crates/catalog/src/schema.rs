//! The layouts of the catalogs: PostgreSQL 18's columns, in its order, and its fixed OIDs.

use forebay_types::{Oid, oids};

/// The namespace of the catalogs.
pub const PG_CATALOG: Oid = 11;
/// The namespace of out-of-line storage.
pub const PG_TOAST: Oid = 99;
/// The namespace of users' tables.
pub const PUBLIC: Oid = 2200;
/// The database `postgres`.
pub const POSTGRES_DB: Oid = 5;

/// A catalog's column.
#[derive(Clone, Copy, Debug)]
pub struct CatalogColumn {
    /// pg_attribute.attname
    pub name: &'static str,
    /// pg_attribute.atttypid
    pub type_oid: Oid,
    /// pg_attribute.attnotnull
    pub not_null: bool,
}

/// A catalog.
#[derive(Clone, Copy, Debug)]
pub struct CatalogTable {
    /// pg_class.oid
    pub oid: Oid,
    /// pg_class.relname
    pub name: &'static str,
    /// pg_class.reltype: its row type, 0 if PostgreSQL's OID for it is not fixed.
    pub row_type: Oid,
    /// Whether it lies in global/ and belongs to all databases.
    pub shared: bool,
    /// Whether its file is found through pg_filenode.map, not through pg_class.relfilenode.
    pub mapped: bool,
    /// Its columns, in order.
    pub columns: &'static [CatalogColumn],
}

const fn c(name: &'static str, type_oid: Oid, not_null: bool) -> CatalogColumn {
    CatalogColumn { name, type_oid, not_null }
}

/// pg_type
pub static PG_TYPE: CatalogTable = CatalogTable {
    oid: 1247,
    name: "pg_type",
    row_type: 71,
    shared: false,
    mapped: true,
    columns: &[
        c("oid", oids::OID, true),
        c("typname", oids::NAME, true),
        c("typnamespace", oids::OID, true),
        c("typowner", oids::OID, true),
        c("typlen", oids::INT2, true),
        c("typbyval", oids::BOOL, true),
        c("typtype", oids::CHAR, true),
        c("typcategory", oids::CHAR, true),
        c("typispreferred", oids::BOOL, true),
        c("typisdefined", oids::BOOL, true),
        c("typdelim", oids::CHAR, true),
        c("typrelid", oids::OID, true),
        c("typsubscript", oids::REGPROC, true),
        c("typelem", oids::OID, true),
        c("typarray", oids::OID, true),
        c("typinput", oids::REGPROC, true),
        c("typoutput", oids::REGPROC, true),
        c("typreceive", oids::REGPROC, true),
        c("typsend", oids::REGPROC, true),
        c("typmodin", oids::REGPROC, true),
        c("typmodout", oids::REGPROC, true),
        c("typanalyze", oids::REGPROC, true),
        c("typalign", oids::CHAR, true),
        c("typstorage", oids::CHAR, true),
        c("typnotnull", oids::BOOL, true),
        c("typbasetype", oids::OID, true),
        c("typtypmod", oids::INT4, true),
        c("typndims", oids::INT4, true),
        c("typcollation", oids::OID, true),
        c("typdefaultbin", oids::PG_NODE_TREE, false),
        c("typdefault", oids::TEXT, false),
        c("typacl", oids::ACLITEM_ARRAY, false),
    ],
};

/// pg_attribute
pub static PG_ATTRIBUTE: CatalogTable = CatalogTable {
    oid: 1249,
    name: "pg_attribute",
    row_type: 75,
    shared: false,
    mapped: true,
    columns: &[
        c("attrelid", oids::OID, true),
        c("attname", oids::NAME, true),
        c("atttypid", oids::OID, true),
        c("attlen", oids::INT2, true),
        c("attnum", oids::INT2, true),
        c("atttypmod", oids::INT4, true),
        c("attndims", oids::INT2, true),
        c("attbyval", oids::BOOL, true),
        c("attalign", oids::CHAR, true),
        c("attstorage", oids::CHAR, true),
        c("attcompression", oids::CHAR, true),
        c("attnotnull", oids::BOOL, true),
        c("atthasdef", oids::BOOL, true),
        c("atthasmissing", oids::BOOL, true),
        c("attidentity", oids::CHAR, true),
        c("attgenerated", oids::CHAR, true),
        c("attisdropped", oids::BOOL, true),
        c("attislocal", oids::BOOL, true),
        c("attinhcount", oids::INT2, true),
        c("attcollation", oids::OID, true),
        c("attstattarget", oids::INT2, false),
        c("attacl", oids::ACLITEM_ARRAY, false),
        c("attoptions", oids::TEXT_ARRAY, false),
        c("attfdwoptions", oids::TEXT_ARRAY, false),
        c("attmissingval", oids::ANYARRAY, false),
    ],
};

/// pg_class
pub static PG_CLASS: CatalogTable = CatalogTable {
    oid: 1259,
    name: "pg_class",
    row_type: 83,
    shared: false,
    mapped: true,
    columns: &[
        c("oid", oids::OID, true),
        c("relname", oids::NAME, true),
        c("relnamespace", oids::OID, true),
        c("reltype", oids::OID, true),
        c("reloftype", oids::OID, true),
        c("relowner", oids::OID, true),
        c("relam", oids::OID, true),
        c("relfilenode", oids::OID, true),
        c("reltablespace", oids::OID, true),
        c("relpages", oids::INT4, true),
        c("reltuples", oids::FLOAT4, true),
        c("relallvisible", oids::INT4, true),
        c("relallfrozen", oids::INT4, true),
        c("reltoastrelid", oids::OID, true),
        c("relhasindex", oids::BOOL, true),
        c("relisshared", oids::BOOL, true),
        c("relpersistence", oids::CHAR, true),
        c("relkind", oids::CHAR, true),
        c("relnatts", oids::INT2, true),
        c("relchecks", oids::INT2, true),
        c("relhasrules", oids::BOOL, true),
        c("relhastriggers", oids::BOOL, true),
        c("relhassubclass", oids::BOOL, true),
        c("relrowsecurity", oids::BOOL, true),
        c("relforcerowsecurity", oids::BOOL, true),
        c("relispopulated", oids::BOOL, true),
        c("relreplident", oids::CHAR, true),
        c("relispartition", oids::BOOL, true),
        c("relrewrite", oids::OID, true),
        c("relfrozenxid", oids::XID, true),
        c("relminmxid", oids::XID, true),
        c("relacl", oids::ACLITEM_ARRAY, false),
        c("reloptions", oids::TEXT_ARRAY, false),
        c("relpartbound", oids::PG_NODE_TREE, false),
    ],
};

/// pg_database
pub static PG_DATABASE: CatalogTable = CatalogTable {
    oid: 1262,
    name: "pg_database",
    row_type: 1248,
    shared: true,
    mapped: true,
    columns: &[
        c("oid", oids::OID, true),
        c("datname", oids::NAME, true),
        c("datdba", oids::OID, true),
        c("encoding", oids::INT4, true),
        c("datlocprovider", oids::CHAR, true),
        c("datistemplate", oids::BOOL, true),
        c("datallowconn", oids::BOOL, true),
        c("dathasloginevt", oids::BOOL, true),
        c("datconnlimit", oids::INT4, true),
        c("datfrozenxid", oids::XID, true),
        c("datminmxid", oids::XID, true),
        c("dattablespace", oids::OID, true),
        c("datcollate", oids::TEXT, true),
        c("datctype", oids::TEXT, true),
        c("datlocale", oids::TEXT, false),
        c("daticurules", oids::TEXT, false),
        c("datcollversion", oids::TEXT, false),
        c("datacl", oids::ACLITEM_ARRAY, false),
    ],
};

/// pg_namespace
pub static PG_NAMESPACE: CatalogTable = CatalogTable {
    oid: 2615,
    name: "pg_namespace",
    row_type: 0,
    shared: false,
    mapped: false,
    columns: &[
        c("oid", oids::OID, true),
        c("nspname", oids::NAME, true),
        c("nspowner", oids::OID, true),
        c("nspacl", oids::ACLITEM_ARRAY, false),
    ],
};

/// Every catalog, by ascending OID.
pub static CATALOGS: [&CatalogTable; 5] =
    [&PG_TYPE, &PG_ATTRIBUTE, &PG_CLASS, &PG_DATABASE, &PG_NAMESPACE];

/// The system columns that every table has: name, type, attnum.
pub static SYSTEM_COLUMNS: [(&str, Oid, i16); 6] = [
    ("tableoid", oids::OID, -6),
    ("cmax", oids::CID, -5),
    ("xmax", oids::XID, -4),
    ("cmin", oids::CID, -3),
    ("xmin", oids::XID, -2),
    ("ctid", oids::TID, -1),
];
