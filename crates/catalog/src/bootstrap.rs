//! The rows of a new cluster: those in `data/`, with what differs from one cluster to another.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_access::nbtree::IndexShape;
use forebay_collation::{Collation, Provider, actual_version};
use forebay_format::ids::{FIRST_UNPINNED_OID, FROZEN_XID};
use forebay_format::{AttrLayout, RelFileLocator};
use forebay_types::{Datum, Oid, SqlType, oids, text_in};

use crate::arrays::{Roles, array_in};
use crate::collation_ddl::NewCollation;
use crate::error::CatalogError;
use crate::figures::Figures;
use crate::index_rows::{FoundIndexes, IndexClass, IndexRow, OperatorClasses};
use crate::index_trees::IndexTrees;
use crate::limits::Attribute;
use crate::options::StorageOptions;
use crate::row::Row;
use crate::rows::{OldestIds, system_attributes};
use crate::schema::{
    C_COLLATION, CATALOGS, CatalogColumn, CatalogTable, PG_AMPROC, PG_ATTRIBUTE, PG_AUTHID,
    PG_CLASS, PG_COLLATION, PG_DATABASE, PG_INDEX, PG_OPCLASS, POSTGRES_DB, POSTGRES_ROLE,
    TEMPLATE0_DB,
};
use crate::table::Column;
use crate::tsv::TsvFile;

/// A row's values.
type Values = Vec<Datum<'static>>;

/// A table of a new cluster: a catalog, or a TOAST table of one. It is in every database, or shared
/// by all.
#[derive(Debug)]
pub struct NewTable {
    /// pg_class.oid, and the number of its file.
    pub oid: Oid,
    /// Whether it lies in global/.
    pub shared: bool,
    /// Whether it and its indexes are found through pg_filenode.map.
    pub mapped: bool,
    /// How its columns lie in a row.
    pub layouts: Vec<AttrLayout>,
    /// Its rows.
    pub rows: Vec<Values>,
    /// Its indexes.
    pub indexes: Vec<NewIndex>,
}

/// An index of such a table.
#[derive(Debug)]
pub struct NewIndex {
    /// pg_class.oid, and the number of its file.
    pub oid: Oid,
    /// The positions of its columns in the table.
    pub columns: Vec<usize>,
    /// Whether no two rows may have the same key.
    pub unique: bool,
    /// What building it needs to know of its columns.
    pub shape: IndexShape,
}

/// What a new cluster is made with.
#[derive(Clone, Debug)]
pub struct NewCluster {
    /// The name of the bootstrap superuser.
    pub superuser: String,
    /// Rows that come later have no older ids.
    pub oldest: OldestIds,
    /// Whether there are template1 and template0 beside the database `postgres`.
    pub templates: bool,
    /// The locale of the databases. None: C.
    pub locale: Option<NewLocale>,
    /// The system's collations, which `init` adds to those of every cluster. It gives them OIDs,
    /// and leaves out one whose name and encoding an earlier one has.
    pub collations: Vec<NewCollation>,
}

/// The locale of the databases of a new cluster: columns of pg_database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLocale {
    /// encoding
    pub encoding: i32,
    /// datlocprovider
    pub provider: u8,
    /// datcollate
    pub collate: String,
    /// datctype
    pub ctype: String,
    /// datlocale
    pub locale: Option<String>,
    /// datcollversion, but for template0
    pub version: Option<String>,
}

impl NewCluster {
    /// The tables that every database has.
    pub fn tables(&self) -> Result<Vec<NewTable>, CatalogError> {
        let rows = CATALOGS.iter().map(|catalog| Ok((catalog.oid, self.rows(catalog)?)));
        let mut rows = rows.collect::<Result<HashMap<Oid, Vec<Values>>, CatalogError>>()?;
        let (mut columns, mut found) = (columns(&rows)?, indexes(&rows)?);
        let mut tables = Vec::new();
        for class in &rows[&PG_CLASS.oid] {
            let class = Row(class, PG_CLASS.name);
            if class.char(17)? == b'i' {
                continue;
            }
            let oid = class.oid(0)?;
            let columns = columns.remove(&oid).expect("a table has columns");
            tables.push(NewTable {
                oid,
                shared: class.bool(15)?,
                mapped: class.oid(7)? == 0,
                layouts: columns.iter().map(|column| column.layout).collect(),
                rows: Vec::new(),
                indexes: new_indexes(&mut found, oid, &columns)?,
            });
        }
        for table in &mut tables {
            table.rows = rows.remove(&table.oid).unwrap_or_default();
        }
        Ok(tables)
    }

    /// The rows that a catalog begins with.
    pub(crate) fn rows(&self, catalog: &'static CatalogTable) -> Result<Vec<Values>, CatalogError> {
        let (file, roles) = (TsvFile::new(catalog.rows), Roles::new(&TsvFile::new(PG_AUTHID.rows)));
        let mut rows = Vec::new();
        for cells in file.rows() {
            let values = catalog.columns.iter().zip(cells);
            let values = values.map(|(column, cell)| self.value(column, cell, &roles));
            let mut row = values.collect::<Result<Vec<_>, _>>()?;
            if self.adapt(catalog, &mut row) {
                rows.push(row);
            }
        }
        if catalog.oid == PG_COLLATION.oid {
            self.add_collations(&mut rows);
        }
        if catalog.oid == PG_ATTRIBUTE.oid {
            let classes = TsvFile::new(PG_CLASS.rows);
            let (oid, kind) = (classes.column("oid"), classes.column("relkind"));
            for class in classes.rows().filter(|class| class[kind] != Some("i")) {
                let oid = class[oid].and_then(|oid| oid.parse().ok()).expect("an OID");
                rows.extend(system_attributes(oid)?.iter().map(|row| row.datums()));
            }
        }
        Ok(rows)
    }

    /// Adds the rows of further collations. They get the first OIDs of what is not pinned.
    fn add_collations(&self, rows: &mut Vec<Values>) {
        let (name, encoding) = (PG_COLLATION.place("collname"), PG_COLLATION.place("collencoding"));
        let mut oid = FIRST_UNPINNED_OID;
        for new in &self.collations {
            let row = new.datums(oid).to_vec();
            let is_same = |other: &Values| {
                other[name] == row[name]
                    && (other[encoding] == row[encoding] || other[encoding] == Datum::Int4(-1))
            };
            if !rows.iter().any(is_same) {
                rows.push(row);
                oid += 1;
            }
        }
    }

    /// The first OID that no row has.
    pub fn next_oid(&self) -> Result<Oid, CatalogError> {
        let is_new = |row: &&Values| matches!(row[0], Datum::Oid(oid) if oid >= FIRST_UNPINNED_OID);
        let made = self.rows(&PG_COLLATION)?.iter().filter(is_new).count();
        let made = Oid::try_from(made).map_err(|_| CatalogError::corrupt("too many collations"))?;
        Ok(FIRST_UNPINNED_OID + made)
    }

    fn value(
        &self,
        column: &CatalogColumn,
        cell: Option<&'static str>,
        roles: &Roles,
    ) -> Result<Datum<'static>, CatalogError> {
        let Some(text) = cell else { return Ok(Datum::Null) };
        Ok(match (column.name, column.type_oid) {
            // 0 stands for none.
            ("relfrozenxid" | "datfrozenxid", _) if text != "0" => Datum::Xid(self.oldest.xid),
            ("relminmxid" | "datminmxid", _) if text != "0" => Datum::Xid(self.oldest.multi),
            (_, oids::PG_NODE_TREE) => Datum::text(text),
            (_, type_oid) => match array_in(type_oid, text, roles) {
                Some(array) => array,
                None => text_in(text, SqlType::of(type_oid))?,
            },
        })
    }

    /// Makes a row that of this cluster. Whether the cluster has it.
    fn adapt(&self, catalog: &CatalogTable, row: &mut [Datum<'_>]) -> bool {
        let at = |name| catalog.place(name);
        match catalog.oid {
            oid if oid == PG_AUTHID.oid && row[at("oid")] == Datum::Oid(POSTGRES_ROLE) => {
                row[at("rolname")] = Datum::string(self.superuser.clone());
            }
            oid if oid == PG_COLLATION.oid && row[at("collprovider")] == Datum::Char(b'i') => {
                let locale = row[at("colllocale")].as_str().unwrap_or_default();
                let version = actual_version(Provider::Icu, locale);
                row[at("collversion")] = version.map_or(Datum::Null, Datum::string);
            }
            oid if oid == PG_DATABASE.oid => {
                if let Some(locale) = &self.locale {
                    let text = |value: &Option<String>| match value {
                        Some(value) => Datum::string(value.clone()),
                        None => Datum::Null,
                    };
                    row[at("encoding")] = Datum::Int4(locale.encoding);
                    row[at("datlocprovider")] = Datum::Char(locale.provider);
                    row[at("datcollate")] = Datum::string(locale.collate.clone());
                    row[at("datctype")] = Datum::string(locale.ctype.clone());
                    row[at("datlocale")] = text(&locale.locale);
                    if row[at("oid")] != Datum::Oid(TEMPLATE0_DB) {
                        row[at("datcollversion")] = text(&locale.version);
                    }
                }
                return self.templates || row[at("oid")] == Datum::Oid(POSTGRES_DB);
            }
            _ => {}
        }
        true
    }
}

/// The columns of all relations.
fn columns(rows: &HashMap<Oid, Vec<Values>>) -> Result<HashMap<Oid, Vec<Column>>, CatalogError> {
    let mut columns: HashMap<Oid, Vec<Column>> = HashMap::new();
    for row in &rows[&PG_ATTRIBUTE.oid] {
        let row = Row(row, PG_ATTRIBUTE.name);
        // The rows are in the order of their numbers.
        if row.int2(4)? > 0 {
            columns.entry(row.oid(0)?).or_default().push(Attribute::read(&row)?.column);
        }
    }
    Ok(columns)
}

/// The indexes of all tables.
fn indexes(rows: &HashMap<Oid, Vec<Values>>) -> Result<FoundIndexes, CatalogError> {
    let mut found = FoundIndexes::default();
    for oid in [0, C_COLLATION] {
        found.collations.insert(oid, Ok(Arc::new(Collation::c())));
    }
    for row in &rows[&PG_INDEX.oid] {
        let row = IndexRow::read(&Row(row, PG_INDEX.name), FROZEN_XID, (None, None))?;
        found.rows.entry(row.table).or_default().push(row);
    }
    for row in &rows[&PG_CLASS.oid] {
        let row = Row(row, PG_CLASS.name);
        let (oid, shared) = (row.oid(0)?, row.bool(15)?);
        let class = IndexClass {
            name: row.name(1)?.to_owned(),
            access_method: row.oid(6)?,
            options: StorageOptions::default(),
            locator: match shared {
                true => RelFileLocator::shared(oid),
                false => RelFileLocator::in_default(POSTGRES_DB, oid),
            },
            figures: Figures::UNKNOWN,
        };
        found.classes.insert(oid, class);
    }
    let mut classes = OperatorClasses::default();
    for row in &rows[&PG_OPCLASS.oid] {
        classes.add_class(&Row(row, PG_OPCLASS.name))?;
    }
    for row in &rows[&PG_AMPROC.oid] {
        classes.add_function(&Row(row, PG_AMPROC.name))?;
    }
    found.operator_classes = Arc::new(classes);
    Ok(found)
}

/// The indexes of a table with these columns.
fn new_indexes(
    found: &mut FoundIndexes,
    table: Oid,
    columns: &[Column],
) -> Result<Vec<NewIndex>, CatalogError> {
    let mut indexes = Vec::new();
    for row in found.rows.remove(&table).unwrap_or_default() {
        let class = found.classes.remove(&row.index).expect("pg_class has every index");
        let (shape, trees) = found.shape(&row, &class, columns, true)?;
        assert_eq!(trees, Ok(IndexTrees::default()), "index {}", class.name);
        let columns = row.columns.iter().map(|number| usize::from(number.unsigned_abs()) - 1);
        let (oid, unique, columns) = (row.index, row.unique, columns.collect());
        indexes.push(NewIndex { oid, columns, unique, shape });
    }
    Ok(indexes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_access::layout_of;
    use forebay_types::{Repr, all_types};

    fn cluster() -> NewCluster {
        let oldest = OldestIds { xid: 777, multi: 5 };
        NewCluster {
            superuser: "me".to_owned(),
            oldest,
            templates: true,
            locale: None,
            collations: Vec::new(),
        }
    }

    #[test]
    fn every_row_has_its_catalog_s_columns() {
        let mut total = 0;
        for catalog in CATALOGS {
            let rows = cluster().rows(catalog).expect("rows");
            total += rows.len();
            for row in rows {
                assert_eq!(row.len(), catalog.columns.len(), "{}", catalog.name);
                for (value, column) in row.iter().zip(catalog.columns) {
                    let place = format!("{}.{}", catalog.name, column.name);
                    assert!(Repr::of(column.type_oid).accepts(value), "{place}: {value:?}");
                    assert!(!(column.not_null && value.is_null()), "{place}");
                }
            }
        }
        assert!(total > 8000, "{total}");
    }

    #[test]
    fn further_collations_come_once_and_move_the_counter() {
        let new = |name: &str, encoding| NewCollation {
            name: name.to_owned(),
            namespace: 11,
            owner: 10,
            provider: b'c',
            deterministic: true,
            encoding,
            collate: Some(name.to_owned()),
            ctype: Some(name.to_owned()),
            locale: None,
            version: None,
        };
        let collations = vec![new("a", 6), new("C", 6), new("a", 6), new("a", 8)];
        let before = cluster().rows(&PG_COLLATION).expect("rows").len();
        let with = NewCluster { collations, ..cluster() };
        let rows = with.rows(&PG_COLLATION).expect("rows");
        let oids: Vec<&Datum<'_>> = rows[before..].iter().map(|row| &row[0]).collect();
        assert_eq!(oids, [&Datum::Oid(12000), &Datum::Oid(12001)]);
        assert_eq!(cluster().next_oid().expect("rows"), 12000);
        assert_eq!(with.next_oid().expect("rows"), 12002);
    }

    #[test]
    fn every_table_comes_with_its_indexes() {
        let tables = cluster().tables().expect("tables");
        let toast = tables.len() - CATALOGS.len();
        let indexes = tables.iter().map(|table| table.indexes.len()).sum::<usize>();
        assert_eq!((toast, indexes), (35, 159));
    }

    #[test]
    fn the_files_have_the_columns_of_their_catalogs() {
        for catalog in CATALOGS.iter().filter(|catalog| !catalog.rows.is_empty()) {
            let file = TsvFile::new(catalog.rows);
            let places = catalog.columns.iter().map(|column| file.column(column.name));
            assert!(places.eq(0..catalog.columns.len()), "{}", catalog.name);
        }
    }

    #[test]
    fn what_differs_between_clusters_is_put_in() {
        let find = |catalog: &'static CatalogTable, column: &str, oid: u32| {
            let rows = cluster().rows(catalog).expect("rows");
            let row = rows.into_iter().find(|row| row[0] == Datum::Oid(oid)).expect("the row");
            row[catalog.place(column)].clone()
        };
        assert_eq!(find(&PG_AUTHID, "rolname", 10), Datum::text("me"));
        assert_eq!(find(&PG_CLASS, "relfrozenxid", 1259), Datum::Xid(777));
        assert_eq!(find(&PG_CLASS, "relminmxid", 1259), Datum::Xid(5));
        assert_eq!(find(&PG_DATABASE, "datfrozenxid", 1), Datum::Xid(777));
        let one = NewCluster { templates: false, ..cluster() };
        assert_eq!(one.rows(&PG_DATABASE).expect("rows").len(), 1);
    }

    /// What `types` knows of types is what the catalogs say.
    #[test]
    fn types_are_known_as_the_catalogs_have_them() {
        let file = TsvFile::new(crate::schema::PG_TYPE.rows);
        let by_oid: HashMap<&str, _> =
            file.rows().map(|row| (row[0].expect("an OID"), row)).collect();
        for known in all_types() {
            let row = &by_oid[known.oid.to_string().as_str()];
            let cell = |column: &str| row[file.column(column)].expect("no NULL");
            let number = |column| cell(column).parse::<u32>().expect("an OID");
            let letter = |column| cell(column).as_bytes()[0];
            assert_eq!(known.name, cell("typname"));
            assert_eq!(known.len.to_string(), cell("typlen"), "{}", known.name);
            assert_eq!(known.by_val, cell("typbyval") == "t", "{}", known.name);
            assert_eq!(known.preferred, cell("typispreferred") == "t", "{}", known.name);
            let letters = [known.kind, known.category, known.align, known.storage];
            let columns = ["typtype", "typcategory", "typalign", "typstorage"];
            assert_eq!(letters, columns.map(letter), "{}", known.name);
            let known_oids = [known.relid, known.subscript, known.elem, known.array];
            let columns = ["typrelid", "typsubscript", "typelem", "typarray"];
            assert_eq!(known_oids, columns.map(number), "{}", known.name);
            let columns = ["typinput", "typoutput", "typreceive", "typsend"];
            assert_eq!(known.io, columns.map(number), "{}", known.name);
            let known_oids = [known.modin, known.modout, known.collation];
            let columns = ["typmodin", "typmodout", "typcollation"];
            assert_eq!(known_oids, columns.map(number), "{}", known.name);
        }
    }

    #[test]
    fn columns_lie_in_rows_as_their_types_say() {
        for column in CATALOGS.iter().flat_map(|catalog| catalog.columns) {
            let of_type = layout_of(column.type_oid);
            assert!(of_type.is_none_or(|layout| layout == column.layout), "{}", column.name);
        }
    }
}
