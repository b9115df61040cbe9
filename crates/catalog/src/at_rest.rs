//! Rows of the catalogs of a cluster that no server has open, of PostgreSQL 15 to 18.
//!
//! The caller reads the pages and decides which rows count. Only leading columns are decoded.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::nbtree::KeyColumn;
use forebay_collation::{Collation, Definition, Provider, version_agrees};
use forebay_format::tuple::deform;
use forebay_format::{Align, AttrLayout, HeapTuple, Xid};
use forebay_types::{Oid, oids};

use crate::index_rows::{DESCENDING, NULLS_FIRST, OperatorClass, OperatorClasses};
use crate::row::elements;
use crate::schema::{
    CatalogColumn, CatalogTable, DEFAULT_COLLATION, PG_AMPROC, PG_ATTRIBUTE, PG_CLASS, PG_DATABASE,
    PG_INDEX, PG_NAMESPACE, PG_OPCLASS,
};

/// A relation, as its row of pg_class says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationRow {
    /// pg_class.oid
    pub oid: Oid,
    /// pg_class.relname
    pub name: String,
    /// pg_class.relnamespace
    pub namespace: Oid,
    /// pg_class.relam
    pub access_method: Oid,
    /// pg_class.relfilenode: 0 if `pg_filenode.map` has it.
    pub filenode: Oid,
    /// pg_class.reltablespace: 0 for the database's.
    pub tablespace: Oid,
    /// pg_class.reltoastrelid: 0 if it has none.
    pub toast: Oid,
    /// pg_class.relisshared
    pub shared: bool,
    /// pg_class.relpersistence
    pub persistence: u8,
    /// pg_class.relkind
    pub kind: u8,
    /// pg_class.relnatts
    pub columns: i16,
    /// pg_class.relfrozenxid
    pub frozen_xid: Xid,
    /// pg_class.relminmxid
    pub min_multi: u32,
    /// pg_class.reltuples, when it was counted or estimated last; `None`: never.
    pub rows: Option<u64>,
}

/// A column, as its row of pg_attribute says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnRow {
    /// pg_attribute.attrelid
    pub relation: Oid,
    /// pg_attribute.attnum
    pub number: i16,
    /// How its values lie in a row.
    pub layout: AttrLayout,
}

/// A database, as its row of pg_database says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseRow {
    /// pg_database.oid
    pub oid: Oid,
    /// pg_database.datname
    pub name: String,
    /// pg_database.dattablespace
    pub tablespace: Oid,
    /// A DROP DATABASE of it was interrupted, so files may be missing.
    pub half_dropped: bool,
    /// Its collation. None: it is not known, or not of the version by which indexes were made.
    pub collation: Option<Arc<Collation>>,
}

/// An index, as its row of pg_index says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// pg_index.indexrelid
    pub index: Oid,
    /// pg_index.indrelid
    pub table: Oid,
    /// pg_index.indnkeyatts
    pub keys: usize,
    /// pg_index.indisunique
    pub unique: bool,
    /// pg_index.indnullsnotdistinct
    pub nulls_are_equal: bool,
    /// pg_index.indisvalid and indisready: all rows are in it.
    pub valid: bool,
    /// pg_index.indisready: it was built.
    pub ready: bool,
    /// pg_index.indkey: columns of the table, 0 for an expression.
    pub columns: Vec<i16>,
    /// Whether pg_index.indpred is not NULL.
    pub is_partial: bool,
    collations: Vec<Oid>,
    classes: Vec<Oid>,
    options: Vec<i16>,
}

/// Collations that have the order of bytes: C, POSIX, ucs_basic, pg_c_utf8 and pg_unicode_fast. 0:
/// none, of a type without collations.
const BY_BYTES: [Oid; 6] = [0, 950, 951, 962, 811, 6411];

/// How the operator classes of a database order values.
#[derive(Debug, Default)]
pub struct KeyOrders(OperatorClasses);

impl KeyOrders {
    /// The first key columns of an index, as far as their order is known. `default`: the database's
    /// collation.
    pub fn columns(&self, row: &IndexRow, default: Option<&Arc<Collation>>) -> Vec<KeyColumn> {
        let by_bytes = Arc::new(Collation::c());
        let each = row.classes.iter().zip(&row.collations).zip(&row.options);
        let known = each.map_while(|((&class, &collation), &option)| {
            let collation = match collation {
                DEFAULT_COLLATION => default?,
                _ if BY_BYTES.contains(&collation) => &by_bytes,
                _ => return None,
            };
            let (order, _) = self.0.order(class, collation)?;
            let (descending, nulls_first) = (option & DESCENDING != 0, option & NULLS_FIRST != 0);
            Some(KeyColumn { order, descending, nulls_first })
        });
        known.take(row.keys).collect()
    }
}

/// pg_database.datconnlimit of a database whose DROP DATABASE has begun.
const INVALID_DATABASE: u32 = -2_i32 as u32;

/// Decodes the rows of one version's catalogs. `None` from its functions: the row is damaged.
#[derive(Debug)]
pub struct RowReader {
    class: Leading,
    attribute: Leading,
    namespace: Leading,
    database: Leading,
    collation_version: Leading,
    index: Leading,
    predicate: Leading,
    operator_class: Leading,
    support: Leading,
}

/// The columns of a catalog up to the last one that is read.
#[derive(Debug)]
struct Leading {
    layouts: Vec<AttrLayout>,
    /// The columns to read.
    wanted: Vec<usize>,
}

impl Leading {
    fn new(catalog: &CatalogTable, major: u32, wanted: &[&str]) -> Option<Leading> {
        let columns = columns_of(catalog, major);
        let find = |name: &&str| columns.iter().position(|column| column.name == *name);
        let wanted: Vec<usize> = wanted.iter().map(find).collect::<Option<_>>()?;
        let last = wanted.iter().max().map_or(0, |last| last + 1);
        let layouts = columns.iter().take(last).map(|column| column.layout);
        Some(Leading { layouts: layouts.collect(), wanted })
    }

    /// The wanted columns of a row, none of which may be NULL.
    fn read<'a>(&self, tuple: HeapTuple<'a>) -> Option<Fields<'a>> {
        let mut all = vec![None; self.layouts.len()];
        deform(tuple, &self.layouts, &mut all).ok()?;
        let fields = self.wanted.iter().map(|&n| all.get(n).copied().flatten());
        Some(Fields(fields.collect::<Option<Vec<_>>>()?.into_iter()))
    }

    /// The last column, which may be NULL.
    fn last<'a>(&self, tuple: HeapTuple<'a>) -> Option<Option<&'a [u8]>> {
        let mut all = vec![None; self.layouts.len()];
        deform(tuple, &self.layouts, &mut all).ok()?;
        all.last().copied()
    }

    /// Whether the last column is NULL. One that is compressed is not.
    fn ends_in_null(&self, tuple: HeapTuple<'_>) -> bool {
        let mut all = vec![None; self.layouts.len()];
        deform(tuple, &self.layouts, &mut all).is_ok() && all.last() == Some(&None)
    }
}

/// The columns that were asked for, one after the other.
struct Fields<'a>(std::vec::IntoIter<&'a [u8]>);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.0.next()?.try_into().ok()
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn short(&mut self) -> Option<i16> {
        self.array().map(i16::from_le_bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().map(|byte| byte != 0)
    }

    fn shorts(&mut self) -> Option<Vec<i16>> {
        Some(elements(self.0.next()?)?.iter().map(|bytes| i16::from_le_bytes(*bytes)).collect())
    }

    fn numbers(&mut self) -> Option<Vec<u32>> {
        Some(elements(self.0.next()?)?.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.0.next()?).into_owned())
    }

    fn name(&mut self) -> Option<String> {
        let bytes = self.0.next()?.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

impl RowReader {
    /// Decodes catalogs of a major version; `None` if it is not known.
    pub fn new(major: u32) -> Option<RowReader> {
        if !(15..=18).contains(&major) {
            return None;
        }
        let class = [
            "oid",
            "relname",
            "relnamespace",
            "relam",
            "relfilenode",
            "reltablespace",
            "reltuples",
            "reltoastrelid",
            "relisshared",
            "relpersistence",
            "relkind",
            "relnatts",
            "relfrozenxid",
            "relminmxid",
        ];
        let attribute = ["attrelid", "attnum", "attlen", "attbyval", "attalign"];
        let database = [
            "oid",
            "datname",
            "datconnlimit",
            "dattablespace",
            "datlocprovider",
            "datcollate",
            "datctype",
        ];
        let index = [
            "indexrelid",
            "indrelid",
            "indnkeyatts",
            "indisunique",
            "indnullsnotdistinct",
            "indisvalid",
            "indisready",
            "indkey",
            "indcollation",
            "indclass",
            "indoption",
        ];
        let class_of = ["oid", "opcmethod", "opcfamily", "opcintype", "opckeytype"];
        let support = ["amprocfamily", "amproclefttype", "amprocrighttype", "amprocnum", "amproc"];
        Some(RowReader {
            class: Leading::new(&PG_CLASS, major, &class)?,
            attribute: Leading::new(&PG_ATTRIBUTE, major, &attribute)?,
            namespace: Leading::new(&PG_NAMESPACE, major, &["oid", "nspname"])?,
            database: Leading::new(&PG_DATABASE, major, &database)?,
            collation_version: Leading::new(&PG_DATABASE, major, &["datcollversion"])?,
            index: Leading::new(&PG_INDEX, major, &index)?,
            predicate: Leading::new(&PG_INDEX, major, &["indpred"])?,
            operator_class: Leading::new(&PG_OPCLASS, major, &class_of)?,
            support: Leading::new(&PG_AMPROC, major, &support)?,
        })
    }

    /// A row of pg_class.
    pub fn relation(&self, tuple: HeapTuple<'_>) -> Option<RelationRow> {
        let mut row = self.class.read(tuple)?;
        let (oid, name, namespace) = (row.number()?, row.name()?, row.number()?);
        let (access_method, filenode) = (row.number()?, row.number()?);
        let (tablespace, rows) = (row.number()?, f32::from_bits(row.number()?));
        Some(RelationRow {
            oid,
            name,
            namespace,
            access_method,
            filenode,
            tablespace,
            rows: (rows >= 0.0).then_some(rows as u64),
            toast: row.number()?,
            shared: row.byte()? != 0,
            persistence: row.byte()?,
            kind: row.byte()?,
            columns: row.short()?,
            frozen_xid: row.number()?,
            min_multi: row.number()?,
        })
    }

    /// A row of pg_attribute.
    pub fn column(&self, tuple: HeapTuple<'_>) -> Option<ColumnRow> {
        let mut row = self.attribute.read(tuple)?;
        let (relation, number, len) = (row.number()?, row.short()?, row.short()?);
        let by_val = row.byte()? != 0;
        let align = Align::from_code(row.byte()?)?;
        let layout = AttrLayout { len, align, by_val, plain: false };
        (len >= -2).then_some(ColumnRow { relation, number, layout })
    }

    /// A row of pg_namespace: its OID and its name.
    pub fn namespace(&self, tuple: HeapTuple<'_>) -> Option<(Oid, String)> {
        let mut row = self.namespace.read(tuple)?;
        Some((row.number()?, row.name()?))
    }

    /// A row of pg_database.
    pub fn database(&self, tuple: HeapTuple<'_>) -> Option<DatabaseRow> {
        let mut row = self.database.read(tuple)?;
        Some(DatabaseRow {
            oid: row.number()?,
            name: row.name()?,
            half_dropped: row.number()? == INVALID_DATABASE,
            tablespace: row.number()?,
            collation: match row.byte()? {
                b'b' => Some(Arc::new(Collation::c())),
                b'c' => {
                    let (collate, ctype) = (row.text()?, row.text()?);
                    libc_collation(&collate, &ctype, self.collation_version.last(tuple)?)
                }
                _ => None,
            },
        })
    }

    /// A row of pg_index.
    pub fn index(&self, tuple: HeapTuple<'_>) -> Option<IndexRow> {
        let mut row = self.index.read(tuple)?;
        let (index, table) = (row.number()?, row.number()?);
        let keys = usize::try_from(row.short()?).ok()?;
        let (unique, nulls_are_equal) = (row.flag()?, row.flag()?);
        let (valid, ready) = (row.flag()?, row.flag()?);
        let valid = valid && ready;
        let (columns, collations, classes) = (row.shorts()?, row.numbers()?, row.numbers()?);
        let options = row.shorts()?;
        let is_partial = !self.predicate.ends_in_null(tuple);
        let lengths = [collations.len(), classes.len(), options.len()];
        let fits = lengths == [keys; 3] && keys <= columns.len();
        fits.then_some(IndexRow {
            index,
            table,
            keys,
            unique,
            nulls_are_equal,
            valid,
            ready,
            columns,
            is_partial,
            collations,
            classes,
            options,
        })
    }

    /// Adds a row of pg_opclass. Returns whether it could be decoded.
    pub fn operator_class(&self, orders: &mut KeyOrders, tuple: HeapTuple<'_>) -> bool {
        let add = |mut row: Fields<'_>| {
            let (oid, method) = (row.number()?, row.number()?);
            let (family, input, key_type) = (row.number()?, row.number()?, row.number()?);
            orders.0.insert_class(oid, OperatorClass { method, family, input, key_type });
            Some(())
        };
        self.operator_class.read(tuple).and_then(add).is_some()
    }

    /// Adds a row of pg_amproc. Returns whether it could be decoded.
    pub fn support_function(&self, orders: &mut KeyOrders, tuple: HeapTuple<'_>) -> bool {
        let add = |mut row: Fields<'_>| {
            let (family, types) = (row.number()?, (row.number()?, row.number()?));
            orders.0.insert_function((family, types), row.short()?, row.number()?);
            Some(())
        };
        self.support.read(tuple).and_then(add).is_some()
    }
}

/// The collation of a database by libc, unless another version of it was recorded.
fn libc_collation(collate: &str, ctype: &str, recorded: Option<&[u8]>) -> Option<Arc<Collation>> {
    let recorded = recorded.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let agrees = |version: &String| version_agrees(Provider::Libc, collate, Some(version));
    if recorded.as_ref().is_some_and(|version| !agrees(version)) {
        return None;
    }
    let (name, provider) = ("default", Provider::Libc);
    let (locale, rules, deterministic) = (collate, None, true);
    let definition = Definition { name, provider, locale, ctype, rules, deterministic };
    Collation::open(&definition).ok().map(Arc::new)
}

/// A catalog's columns in a version: those of PostgreSQL 18 with the differences that older ones
/// have in the leading columns.
fn columns_of(catalog: &CatalogTable, major: u32) -> Vec<CatalogColumn> {
    let mut columns = catalog.columns.to_vec();
    let position = |columns: &[CatalogColumn], name| {
        columns.iter().position(|column| column.name == name).expect("a column of the catalog")
    };
    let (type_oid, layout) = (oids::INT4, AttrLayout::INT4);
    let added = |name| CatalogColumn { name, type_oid, not_null: true, layout };
    if major < 18 {
        columns.retain(|column| column.name != "relallfrozen");
    }
    if major < 17 {
        columns.retain(|column| column.name != "dathasloginevt");
    }
    if major < 18 && catalog.oid == PG_ATTRIBUTE.oid {
        let at = position(&columns, "atttypmod");
        columns.insert(at, added("attcacheoff"));
    }
    if major < 16 && catalog.oid == PG_ATTRIBUTE.oid {
        let at = position(&columns, "attlen");
        columns.insert(at, added("attstattarget"));
        let dimensions = position(&columns, "attndims");
        columns.remove(dimensions);
        let at = position(&columns, "attcacheoff");
        columns.insert(at, added("attndims"));
    }
    columns
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn older_versions_differ_in_leading_columns() {
        let names = |catalog, major, count| -> Vec<&str> {
            columns_of(catalog, major).iter().take(count).map(|column| column.name).collect()
        };
        let start = ["attrelid", "attname", "atttypid"];
        let fifteen = ["attstattarget", "attlen", "attnum", "attndims", "attcacheoff", "atttypmod"];
        assert_eq!(names(&PG_ATTRIBUTE, 15, 10), [&start[..], &fifteen, &["attbyval"]].concat());
        let sixteen = ["attlen", "attnum", "attcacheoff", "atttypmod", "attndims", "attbyval"];
        assert_eq!(names(&PG_ATTRIBUTE, 16, 9), [&start[..], &sixteen].concat());
        assert_eq!(names(&PG_ATTRIBUTE, 17, 9), names(&PG_ATTRIBUTE, 16, 9));
        assert_eq!(names(&PG_CLASS, 17, 13)[12], "reltoastrelid");
        assert_eq!(names(&PG_DATABASE, 16, 8)[7], "datconnlimit");
        assert!((15..=18).all(|major| RowReader::new(major).is_some()));
        assert!(RowReader::new(14).is_none() && RowReader::new(19).is_none());
    }
}
