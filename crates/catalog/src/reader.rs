//! Finds tables by scans of the catalogs.
//!
//! It decodes only the leading columns that the engine uses, so it can read rows that PostgreSQL
//! wrote, with their access lists and options.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::fmt::Display;

use forebay_access::heap::{HeapScan, ReadAhead, Visibility};
use forebay_format::tuple::{Deform, deform};
use forebay_format::varlena::Varlena;
use forebay_format::{Align, AttrLayout, HeapTuple, ItemPointer, RelFileLocator};
use forebay_storage::Backend;
use forebay_txn::Snapshot;
use forebay_types::{Datum, Oid, Repr};

use crate::database::Database;
use crate::error::CatalogError;
use crate::layout::layout_of;
use crate::limits::{self, Attribute, ClassTraits};
use crate::maps::unmapped;
use crate::options;
use crate::schema::PG_NAMESPACE;
use crate::table::{Column, Limits, Table};

/// Number of columns of pg_class up to relispartition.
const CLASS_COLUMNS: usize = 28;
/// Number of columns of pg_attribute up to attcollation.
const ATTRIBUTE_COLUMNS: usize = 20;
/// Index of reloptions in pg_class.
const OPTIONS: usize = 32;
/// Index of attmissingval in pg_attribute.
const MISSING_VALUE: usize = 24;
/// Number of columns of pg_namespace up to nspname.
const NAMESPACE_COLUMNS: usize = 2;

/// The part of a relation's pg_class row that the engine uses.
#[derive(Clone, Debug)]
pub struct Class {
    pub(crate) tid: ItemPointer,
    pub(crate) oid: Oid,
    pub(crate) name: String,
    pub(crate) namespace: Oid,
    filenode: Oid,
    tablespace: Oid,
    toast: Oid,
    indexed: bool,
    shared: bool,
    persistence: u8,
    /// pg_class.relnatts
    columns: i16,
    /// pg_class.relkind
    pub kind: u8,
    fill_factor: u8,
    traits: ClassTraits,
}

impl Class {
    /// Whether it has rows to scan: tables, TOAST tables and materialized views do.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.kind, b'r' | b't' | b'm')
    }

    /// Whether all databases share it.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether it is a session's temporary relation.
    pub(crate) fn is_temporary(&self) -> bool {
        self.persistence == b't'
    }

    /// Takes its columns out of those of all relations.
    fn take_columns(
        &self,
        all: &mut HashMap<Oid, Vec<Attribute>>,
    ) -> Result<Vec<Attribute>, CatalogError> {
        let again = || self.corrupt("pg_class has it twice");
        self.in_order(all.remove(&self.oid).ok_or_else(again)?)
    }

    /// Orders its columns by number. There must be as many as pg_class says.
    fn in_order(&self, mut columns: Vec<Attribute>) -> Result<Vec<Attribute>, CatalogError> {
        columns.sort_by_key(|a| a.column.attnum);
        let numbers = columns.iter().map(|a| a.column.attnum);
        if numbers.eq(1..=self.columns) {
            return Ok(columns);
        }
        let (found, said) = (columns.len(), self.columns);
        Err(self.corrupt(format!("pg_attribute has {found} columns, and pg_class {said}")))
    }

    /// The name that was found of its namespace.
    fn in_namespace(&self, name: Option<String>) -> Result<String, CatalogError> {
        let missing = || format!("there is no namespace with OID {}", self.namespace);
        name.ok_or_else(|| self.corrupt(missing()))
    }

    fn corrupt(&self, what: impl Display) -> CatalogError {
        let Class { name, oid, .. } = self;
        CatalogError::corrupt(format!("catalog rows of relation \"{name}\" ({oid}): {what}"))
    }
}

/// A row of pg_attribute, by its key.
#[derive(Debug)]
pub(crate) struct AttributePlace {
    pub(crate) tid: ItemPointer,
    pub(crate) name: String,
    pub(crate) number: i16,
}

/// Gets a row with its place. Returns whether to go on.
pub(crate) type RowSink<'a> =
    dyn FnMut(ItemPointer, &[Datum<'_>]) -> Result<bool, CatalogError> + 'a;

/// The same with the whole row as stored.
type TupleSink<'a> =
    dyn FnMut(ItemPointer, &[Datum<'_>], HeapTuple<'_>) -> Result<bool, CatalogError> + 'a;

/// Reads the catalogs with one snapshot.
pub struct Reader<'a> {
    database: &'a Database,
    backend: &'a mut Backend,
    snapshot: Snapshot,
}

impl<'a> Reader<'a> {
    /// A reader that sees what the snapshot sees.
    pub fn new(database: &'a Database, backend: &'a mut Backend, snapshot: Snapshot) -> Reader<'a> {
        Reader { database, backend, snapshot }
    }

    /// The database that it reads.
    pub(crate) fn database(&self) -> &'a Database {
        self.database
    }

    /// Decodes the first `columns` of every visible row, and shows the row to `row`.
    pub(crate) fn scan(
        &mut self,
        table: &Table,
        columns: usize,
        row: &mut RowSink<'_>,
    ) -> Result<(), CatalogError> {
        self.scan_tuples(table, columns, &mut |tid, datums, _| row(tid, datums))
    }

    fn scan_tuples(
        &mut self,
        table: &Table,
        columns: usize,
        row: &mut TupleSink<'_>,
    ) -> Result<(), CatalogError> {
        let layouts = table.layouts.get(..columns).unwrap_or(&table.layouts);
        let reprs: Vec<Repr> = table.columns.iter().take(columns).map(|c| c.repr).collect();
        let outcomes = self.database.heaps.outcomes.clone();
        let visibility = Visibility::new(self.snapshot.clone(), outcomes);
        let ahead = ReadAhead::default();
        let mut scan =
            HeapScan::begin(&self.database.heaps.pool, table.locator, visibility, ahead)?;
        let mut bytes: Vec<Option<&[u8]>> = Vec::new();
        while let Some(rows) = scan.next_page(self.backend)? {
            for index in 0..rows {
                let mut fields = std::mem::take(&mut bytes);
                fields.clear();
                fields.resize(layouts.len(), None);
                let tuple = HeapTuple::new(scan.tuple(index))?;
                deform(tuple, layouts, &mut fields)?;
                let datums = fields
                    .iter()
                    .zip(&reprs)
                    .map(|(field, repr)| field.map_or(Ok(Datum::Null), |bytes| repr.decode(bytes)))
                    .collect::<Result<Vec<_>, _>>()?;
                if !row(scan.tuple_id(index), &datums, tuple)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The relations that `wanted` selects by name, namespace and OID. With `one`, only the first.
    fn classes_where(
        &mut self,
        one: bool,
        wanted: &dyn Fn(&str, Oid, Oid) -> bool,
    ) -> Result<Vec<Class>, CatalogError> {
        let mut found = Vec::new();
        let database = self.database;
        self.scan_tuples(&database.class, CLASS_COLUMNS, &mut |tid, row, tuple| {
            let class = Row(row, "pg_class");
            let (oid, name, namespace) = (class.oid(0)?, class.name(1)?, class.oid(2)?);
            if wanted(name, namespace, oid) {
                found.push(Class {
                    tid,
                    oid,
                    name: name.to_owned(),
                    namespace,
                    filenode: class.oid(7)?,
                    tablespace: class.oid(8)?,
                    toast: class.oid(13)?,
                    indexed: class.bool(14)?,
                    shared: class.bool(15)?,
                    persistence: class.char(16)?,
                    kind: class.char(17)?,
                    columns: class.int2(18)?,
                    fill_factor: match value_at(tuple, &database.class.layouts, OPTIONS)? {
                        Some(options) => options::fill_factor(options)?,
                        None => options::FULL,
                    },
                    traits: ClassTraits {
                        access_method: class.oid(6)?,
                        unlogged: class.char(16)? == b'u',
                        checks: class.int2(19)? > 0,
                        rules: class.bool(20)?,
                        triggers: class.bool(21)?,
                        children: class.bool(22)?,
                        populated: class.bool(25)?,
                        partition: class.bool(27)?,
                    },
                });
            }
            Ok(!one || found.is_empty())
        })?;
        Ok(found)
    }

    /// A relation by its name, of any kind.
    pub fn class_named(
        &mut self,
        namespace: Oid,
        name: &str,
    ) -> Result<Option<Class>, CatalogError> {
        let found = self.classes_where(true, &|n, ns, _| n == name && ns == namespace)?;
        Ok(found.into_iter().next())
    }

    /// The temporary relations of all sessions.
    pub(crate) fn temporary(&mut self) -> Result<Vec<Class>, CatalogError> {
        let mut found = self.classes_where(false, &|_, _, _| true)?;
        found.retain(Class::is_temporary);
        Ok(found)
    }

    /// A relation by its OID.
    pub(crate) fn class(&mut self, oid: Oid) -> Result<Option<Class>, CatalogError> {
        Ok(self.classes_where(true, &|_, _, o| o == oid)?.into_iter().next())
    }

    /// A table by its OID. None if there is none, or it is another kind of relation.
    pub fn table_by_oid(&mut self, oid: Oid) -> Result<Option<Table>, CatalogError> {
        let class = self.class(oid)?.filter(Class::is_table);
        class.map(|class| self.table(&class)).transpose()
    }

    /// All tables, with their columns.
    pub fn tables(&mut self) -> Result<Vec<Table>, CatalogError> {
        let mut classes = self.classes_where(false, &|_, _, _| true)?;
        classes.retain(Class::is_table);
        let mut columns: HashMap<Oid, Vec<Attribute>> =
            classes.iter().map(|c| (c.oid, Vec::new())).collect();
        let database = self.database;
        self.scan(&database.attribute, ATTRIBUTE_COLUMNS, &mut |_, row| {
            let row = Row(row, "pg_attribute");
            let columns = columns.get_mut(&row.oid(0)?);
            if let Some(columns) = columns
                && row.int2(4)? > 0
            {
                columns.push(Attribute::read(&row)?);
            }
            Ok(true)
        })?;
        let mut schemas: HashMap<Oid, String> = HashMap::new();
        self.scan_namespaces(&mut |oid, name| {
            schemas.insert(oid, name.to_owned());
        })?;
        let mut tables = Vec::with_capacity(classes.len());
        for class in &classes {
            let columns = class.take_columns(&mut columns)?;
            let schema = schemas.get(&class.namespace).cloned();
            tables.push(self.assemble(class, columns, class.in_namespace(schema)?)?);
        }
        Ok(tables)
    }

    /// The columns of a relation, and the rows of all its columns, including system columns.
    pub(crate) fn attributes(
        &mut self,
        class: &Class,
    ) -> Result<(Vec<Attribute>, Vec<AttributePlace>), CatalogError> {
        let (mut columns, mut rows) = (Vec::new(), Vec::new());
        let database = self.database;
        self.scan(&database.attribute, ATTRIBUTE_COLUMNS, &mut |tid, row| {
            let row = Row(row, "pg_attribute");
            if row.oid(0)? == class.oid {
                let (name, number) = (row.name(1)?.to_owned(), row.int2(4)?);
                rows.push(AttributePlace { tid, name, number });
                if number > 0 {
                    columns.push(Attribute::read(&row)?);
                }
            }
            Ok(true)
        })?;
        Ok((class.in_order(columns)?, rows))
    }

    /// A namespace by its name.
    pub fn namespace(&mut self, name: &str) -> Result<Option<Oid>, CatalogError> {
        let mut found = None;
        self.scan_namespaces(&mut |oid, n| {
            if n == name {
                found = Some(oid);
            }
        })?;
        Ok(found)
    }

    /// The name of a relation's namespace.
    fn namespace_name(&mut self, class: &Class) -> Result<String, CatalogError> {
        match class.namespace {
            crate::schema::PG_CATALOG => return Ok("pg_catalog".to_owned()),
            crate::schema::PG_TOAST => return Ok("pg_toast".to_owned()),
            _ => {}
        }
        let mut found = None;
        self.scan_namespaces(&mut |oid, name| {
            if oid == class.namespace {
                found = Some(name.to_owned());
            }
        })?;
        class.in_namespace(found)
    }

    /// The table pg_namespace.
    pub(crate) fn namespaces(&mut self) -> Result<Table, CatalogError> {
        let class = self.class(PG_NAMESPACE.oid)?.ok_or_else(|| {
            CatalogError::corrupt("pg_class does not have pg_namespace".to_owned())
        })?;
        self.table(&class)
    }

    fn scan_namespaces(&mut self, see: &mut dyn FnMut(Oid, &str)) -> Result<(), CatalogError> {
        let table = self.namespaces()?;
        self.scan(&table, NAMESPACE_COLUMNS, &mut |_, row| {
            let row = Row(row, "pg_namespace");
            see(row.oid(0)?, row.name(1)?);
            Ok(true)
        })
    }

    /// The table of a pg_class row.
    pub fn table(&mut self, class: &Class) -> Result<Table, CatalogError> {
        let (columns, _) = self.attributes(class)?;
        let schema = self.namespace_name(class)?;
        self.assemble(class, columns, schema)
    }

    fn assemble(
        &mut self,
        class: &Class,
        attributes: Vec<Attribute>,
        schema: String,
    ) -> Result<Table, CatalogError> {
        let mut limits = limits::of(class.kind, class.indexed, &class.traits, &attributes);
        let missing = attributes.iter().any(|a| a.has_missing && !a.column.dropped);
        let mut columns: Vec<Column> = attributes.into_iter().map(|a| a.column).collect();
        if missing {
            self.read_missing(class.oid, &mut columns, &mut limits)?;
        }
        // A temporary table outside of a session's schema belongs to no session.
        let temp = class.is_temporary().then(|| temp_slot(&schema).unwrap_or(u32::MAX));
        Ok(Table {
            temp,
            oid: class.oid,
            name: class.name.clone(),
            namespace: class.namespace,
            schema,
            kind: class.kind,
            layouts: columns.iter().map(|c| c.layout).collect(),
            columns,
            has_toast: class.toast != 0,
            fill_factor: class.fill_factor,
            limits,
            locator: self.locator(class)?,
        })
    }

    /// Reads the values of a relation's columns for rows that are older than the columns.
    fn read_missing(
        &mut self,
        relation: Oid,
        columns: &mut [Column],
        limits: &mut Limits,
    ) -> Result<(), CatalogError> {
        let database = self.database;
        let table = &database.attribute;
        let mut scan = database.heap(table).scan(self.snapshot.clone(), ReadAhead::default())?;
        while let Some(rows) = scan.next_page(self.backend)? {
            for index in 0..rows {
                let tuple = HeapTuple::new(scan.tuple(index))?;
                let mut first = [None; 5];
                deform(tuple, &table.layouts, &mut first)?;
                let oid = |n: usize| first.get(n).copied().flatten();
                if oid(0) != Some(&relation.to_le_bytes()) {
                    continue;
                }
                let column = columns.iter_mut().find(|c| oid(4) == Some(&c.attnum.to_le_bytes()));
                let Some(column) = column.filter(|c| !c.dropped) else { continue };
                if let Some(array) = value_at(tuple, &table.layouts, MISSING_VALUE)? {
                    column.missing = limits::missing_value(column, array)?;
                    if column.missing.is_none() {
                        let what = format!(
                            "the value of column \"{}\" in older rows is compressed",
                            column.name
                        );
                        limits.read.get_or_insert(what);
                    }
                }
            }
        }
        Ok(())
    }

    /// Fails (0A000) if the catalogs have indexes, as PostgreSQL's have: it would not find rows
    /// that are added without them.
    pub fn refuse_indexed_catalogs(&mut self) -> Result<(), CatalogError> {
        match self.class(crate::schema::PG_CLASS.oid)? {
            Some(class) if !class.indexed => Ok(()),
            _ => Err(CatalogError::refused(
                "0A000",
                "cannot change the catalogs of a database made by PostgreSQL: they have indexes",
            )),
        }
    }

    fn locator(&self, class: &Class) -> Result<RelFileLocator, CatalogError> {
        let Class { oid, shared, filenode, tablespace, .. } = *class;
        let found = self.database.maps.locator(oid, shared, filenode, tablespace);
        found.ok_or_else(|| unmapped(&class.name))
    }
}

/// The value of a row's column, by its index, as stored.
fn value_at<'t>(
    tuple: HeapTuple<'t>,
    layouts: &[AttrLayout],
    index: usize,
) -> Result<Option<Varlena<'t>>, CatalogError> {
    let mut walk = Deform::new(tuple)?;
    let mut value = None;
    for layout in layouts.iter().take(index + 1) {
        value = walk.next(*layout)?;
    }
    Ok(value)
}

/// The namespace of a session slot's temporary tables.
pub fn temp_namespace(slot: u32) -> String {
    format!("pg_temp_{slot}")
}

/// The session slot of a namespace of temporary tables.
fn temp_slot(namespace: &str) -> Option<u32> {
    namespace.strip_prefix("pg_temp_")?.parse().ok()
}

impl Attribute {
    fn read(row: &Row<'_, '_>) -> Result<Attribute, CatalogError> {
        Ok(Attribute {
            column: column(row)?,
            has_missing: row.bool(13)?,
            generated: row.char(15)?,
            collation: row.oid(19)?,
        })
    }
}

fn column(row: &Row<'_, '_>) -> Result<Column, CatalogError> {
    let bad = |what: &str| CatalogError::corrupt(format!("pg_attribute has a column with {what}"));
    let align = Align::from_code(row.char(8)?).ok_or_else(|| bad("an unknown alignment"))?;
    let type_oid = row.oid(2)?;
    let layout =
        AttrLayout { len: row.int2(3)?, align, by_val: row.bool(7)?, plain: row.char(9)? == b'p' };
    let repr = Repr::of(type_oid);
    if !matches!(repr, Repr::Carried(_)) {
        let expected = layout_of(type_oid)?;
        if (expected.len, expected.align) != (layout.len, layout.align) {
            return Err(bad("a length or an alignment that is not its type's"));
        }
    }
    Ok(Column {
        name: row.name(1)?.to_owned(),
        type_oid,
        typmod: row.int4(5)?,
        not_null: row.bool(11)?,
        attnum: row.int2(4)?,
        dropped: row.bool(16)?,
        has_default: row.bool(12)? || row.char(14)? != 0,
        always_identity: row.char(14)? == b'a',
        missing: None,
        layout,
        repr,
    })
}

/// The values of a catalog row, and the catalog's name. A value of another type than the layout
/// says means that the catalog is damaged.
pub(crate) struct Row<'a, 'b>(pub(crate) &'a [Datum<'b>], pub(crate) &'static str);

macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        pub(crate) fn $name(&self, index: usize) -> Result<$type, CatalogError> {
            match self.0.get(index) {
                Some(Datum::$variant(value)) => Ok(*value),
                _ => Err(self.lacks(index)),
            }
        }
    };
}

impl<'a> Row<'a, '_> {
    getter!(oid, Oid, Oid);
    getter!(bool, Bool, bool);
    getter!(char, Char, u8);
    getter!(int2, Int2, i16);
    getter!(int4, Int4, i32);
    getter!(xid, Xid, u32);
    getter!(float4, Float4, f32);

    pub(crate) fn name(&self, index: usize) -> Result<&'a str, CatalogError> {
        self.text(index)?.ok_or_else(|| self.lacks(index))
    }

    /// A text that may be NULL.
    pub(crate) fn text(&self, index: usize) -> Result<Option<&'a str>, CatalogError> {
        match self.0.get(index) {
            Some(Datum::Text(text)) => Ok(Some(text)),
            Some(Datum::Null) => Ok(None),
            _ => Err(self.lacks(index)),
        }
    }

    fn lacks(&self, index: usize) -> CatalogError {
        CatalogError::corrupt(format!("a row of {} has no column {}", self.1, index + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(columns: i16) -> Class {
        Class {
            tid: ItemPointer { block: 0, offset: 1 },
            oid: 16384,
            name: "t".to_owned(),
            namespace: 2200,
            filenode: 16384,
            tablespace: 0,
            toast: 0,
            indexed: false,
            shared: false,
            persistence: b'p',
            columns,
            kind: b'r',
            fill_factor: options::FULL,
            traits: ClassTraits {
                access_method: 2,
                unlogged: false,
                checks: false,
                rules: false,
                triggers: false,
                children: false,
                populated: true,
                partition: false,
            },
        }
    }

    fn columns(numbers: &[i16]) -> Vec<Attribute> {
        let column = |attnum: &i16| Attribute {
            column: Column {
                name: format!("c{attnum}"),
                type_oid: 23,
                typmod: -1,
                not_null: false,
                attnum: *attnum,
                dropped: false,
                has_default: false,
                always_identity: false,
                missing: None,
                layout: AttrLayout::INT4,
                repr: Repr::Int4,
            },
            has_missing: false,
            generated: 0,
            collation: 0,
        };
        numbers.iter().map(column).collect()
    }

    fn refusal<T>(result: Result<T, CatalogError>) -> String {
        let error = result.map(drop).expect_err("the catalogs contradict each other");
        assert_eq!(error.sqlstate(), "XX001");
        error.to_string()
    }

    #[test]
    fn a_relation_that_is_there_twice_is_refused() {
        let mut all = HashMap::from([(16384, columns(&[2, 1]))]);
        let found = class(2).take_columns(&mut all).expect("the first time");
        assert!(found.iter().map(|a| a.column.attnum).eq([1, 2]));
        let message = "catalog rows of relation \"t\" (16384): pg_class has it twice";
        assert_eq!(refusal(class(2).take_columns(&mut all)), message);
    }

    #[test]
    fn columns_are_as_many_as_pg_class_says() {
        for (said, numbers) in [(3, &[1, 2][..]), (1, &[1, 2]), (2, &[1, 3]), (2, &[1, 1])] {
            let message = format!(
                "catalog rows of relation \"t\" (16384): pg_attribute has {} columns, and pg_class \
                 {said}",
                numbers.len()
            );
            assert_eq!(refusal(class(said).in_order(columns(numbers))), message);
        }
        class(0).in_order(Vec::new()).expect("a table without columns");
    }

    #[test]
    fn a_namespace_that_is_missing_is_refused() {
        let message = "catalog rows of relation \"t\" (16384): there is no namespace with OID 2200";
        assert_eq!(refusal(class(1).in_namespace(None)), message);
    }
}
