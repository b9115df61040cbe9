//! The layouts of the catalogs and PostgreSQL's fixed OIDs, from the files in `data/`.

use forebay_format::{Align, AttrLayout};
use forebay_types::{Oid, oids};

/// A catalog's column.
#[derive(Clone, Copy, Debug)]
pub struct CatalogColumn {
    /// pg_attribute.attname
    pub name: &'static str,
    /// pg_attribute.atttypid
    pub type_oid: Oid,
    /// pg_attribute.attnotnull
    pub not_null: bool,
    /// How its values lie in a row.
    pub layout: AttrLayout,
}

/// A catalog.
#[derive(Clone, Copy, Debug)]
pub struct CatalogTable {
    /// pg_class.oid
    pub oid: Oid,
    /// pg_class.relname
    pub name: &'static str,
    /// pg_class.reltype: its row type.
    pub row_type: Oid,
    /// Whether it lies in global/ and belongs to all databases.
    pub shared: bool,
    /// Whether its file is found through pg_filenode.map, not through pg_class.relfilenode.
    pub mapped: bool,
    /// Its columns, in order.
    pub columns: &'static [CatalogColumn],
    /// The rows that it begins with, as in `data/`. Empty: none.
    pub(crate) rows: &'static str,
}

impl CatalogTable {
    /// The position of a column in its rows.
    ///
    /// # Panics
    /// If it has no such column.
    pub const fn place(&self, name: &str) -> usize {
        let mut place = 0;
        while place < self.columns.len() {
            if equal(self.columns[place].name.as_bytes(), name.as_bytes()) {
                return place;
            }
            place += 1;
        }
        panic!("a catalog has no such column")
    }
}

/// An index of a catalog.
#[derive(Clone, Copy, Debug)]
pub struct CatalogIndex {
    /// pg_class.oid
    pub oid: Oid,
    /// pg_class.relname
    pub name: &'static str,
    /// Its catalog. It is found through pg_filenode.map if that is.
    pub of: &'static CatalogTable,
    /// pg_index.indisunique
    pub unique: bool,
    /// The positions of its columns in the catalog. All are keys.
    pub columns: &'static [usize],
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

const fn c(
    name: &'static str,
    type_oid: Oid,
    not_null: bool,
    len: i16,
    align: u8,
    by_val: bool,
    plain: bool,
) -> CatalogColumn {
    let align = Align::from_code(align).expect("one of PostgreSQL's alignments");
    CatalogColumn { name, type_oid, not_null, layout: AttrLayout { len, align, by_val, plain } }
}

include!(concat!(env!("OUT_DIR"), "/catalogs.rs"));

/// The system columns that every table has: name, type, attnum.
pub static SYSTEM_COLUMNS: [(&str, Oid, i16); 6] = [
    ("tableoid", oids::OID, -6),
    ("cmax", oids::CID, -5),
    ("xmax", oids::XID, -4),
    ("cmin", oids::CID, -3),
    ("xmin", oids::XID, -2),
    ("ctid", oids::TID, -1),
];
