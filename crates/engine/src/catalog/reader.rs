//! Finding tables by scanning the catalogs.
//!
//! Only the leading columns that the engine uses are decoded, so rows written by PostgreSQL itself, with their access
//! lists and options, read as well.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::sync::Arc;

use forebay_format::tuple::deform;
use forebay_format::{Align, AttrLayout, HeapTuple, ItemPointer, RelFileLocator};
use forebay_storage::Backend;

use super::schema::PG_NAMESPACE;
use crate::core::Core;
use crate::error::EngineError;
use crate::heap::{HeapScan, ReadAhead, Visibility};
use crate::table::{Column, Table};
use crate::types::codec::Repr;
use crate::types::{Datum, Oid, oids};
use crate::xact::Snapshot;

/// Columns of pg_class up to relkind.
const CLASS_COLUMNS: usize = 18;
/// Columns of pg_attribute up to attisdropped.
const ATTRIBUTE_COLUMNS: usize = 17;
/// Columns of pg_namespace up to nspname.
const NAMESPACE_COLUMNS: usize = 2;

/// A relation's pg_class row, as far as the engine uses it.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub tid: ItemPointer,
    pub oid: Oid,
    pub name: String,
    pub namespace: Oid,
    filenode: Oid,
    tablespace: Oid,
    indexed: bool,
    shared: bool,
    persistence: u8,
    pub kind: u8,
}

impl Class {
    /// What has rows: tables, catalogs and TOAST tables. Views, indexes and sequences have none to scan.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.kind, b'r' | b't' | b'm')
    }

    /// Whether it belongs to a session.
    pub(crate) fn is_temporary(&self) -> bool {
        self.persistence == b't'
    }
}

/// Is shown a row with its place, and says whether to go on.
type RowSink<'a> = dyn FnMut(ItemPointer, &[Datum<'_>]) -> Result<bool, EngineError> + 'a;

/// Reads the catalogs with one snapshot.
pub(crate) struct Reader<'a> {
    core: &'a Core,
    be: &'a mut Backend,
    snapshot: Snapshot,
}

impl<'a> Reader<'a> {
    /// Sees what the snapshot sees.
    pub(crate) fn new(core: &'a Core, be: &'a mut Backend, snapshot: Snapshot) -> Reader<'a> {
        Reader { core, be, snapshot }
    }

    /// Decodes the first `columns` of every visible row; `row` says whether to go on.
    fn scan(&mut self, table: &Table, columns: usize, row: &mut RowSink<'_>) -> Result<(), EngineError> {
        let layouts = table.layouts.get(..columns).unwrap_or(&table.layouts);
        let reprs: Vec<Repr> = table.columns.iter().take(columns).map(|c| c.repr).collect();
        let visibility = Visibility::new(self.snapshot.clone(), Arc::clone(&self.core.clog));
        let ahead = ReadAhead::default();
        let mut scan = HeapScan::begin(&self.core.pool, table.locator, visibility, ahead)?;
        let mut bytes: Vec<Option<&[u8]>> = Vec::new();
        while let Some(rows) = scan.next_page(self.be)? {
            for index in 0..rows {
                let mut fields = std::mem::take(&mut bytes);
                fields.clear();
                fields.resize(layouts.len(), None);
                deform(HeapTuple::new(scan.tuple(index))?, layouts, &mut fields)?;
                let datums = fields
                    .iter()
                    .zip(&reprs)
                    .map(|(field, repr)| field.map_or(Ok(Datum::Null), |bytes| repr.decode(bytes)))
                    .collect::<Result<Vec<_>, _>>()?;
                if !row(scan.tuple_id(index), &datums)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The relations that `wanted` picks, given their name, namespace and OID; `one`: stop at the first.
    fn classes_where(
        &mut self,
        one: bool,
        wanted: &dyn Fn(&str, Oid, Oid) -> bool,
    ) -> Result<Vec<Class>, EngineError> {
        let mut found = Vec::new();
        let core = self.core;
        self.scan(&core.catalogs.class, CLASS_COLUMNS, &mut |tid, row| {
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
                    indexed: class.bool(14)?,
                    shared: class.bool(15)?,
                    persistence: class.char(16)?,
                    kind: class.char(17)?,
                });
            }
            Ok(!one || found.is_empty())
        })?;
        Ok(found)
    }

    /// A relation of this name, of whatever kind.
    pub(crate) fn class_named(&mut self, namespace: Oid, name: &str) -> Result<Option<Class>, EngineError> {
        let found = self.classes_where(true, &|n, ns, _| n == name && ns == namespace)?;
        Ok(found.into_iter().next())
    }

    /// All temporary relations, whosever they are.
    pub(crate) fn temporary(&mut self) -> Result<Vec<Class>, EngineError> {
        let mut found = self.classes_where(false, &|_, _, _| true)?;
        found.retain(Class::is_temporary);
        Ok(found)
    }

    /// A relation by its OID.
    pub(crate) fn class(&mut self, oid: Oid) -> Result<Option<Class>, EngineError> {
        Ok(self.classes_where(true, &|_, _, o| o == oid)?.into_iter().next())
    }

    /// All relations that have rows, with their columns.
    pub(crate) fn tables(&mut self) -> Result<Vec<Table>, EngineError> {
        let mut classes = self.classes_where(false, &|_, _, _| true)?;
        classes.retain(Class::is_table);
        let mut columns: HashMap<Oid, Vec<Column>> = classes.iter().map(|c| (c.oid, Vec::new())).collect();
        let core = self.core;
        self.scan(&core.catalogs.attribute, ATTRIBUTE_COLUMNS, &mut |_, row| {
            let row = Row(row, "pg_attribute");
            if let Some(columns) = columns.get_mut(&row.oid(0)?).filter(|_| row.int2(4).is_ok_and(|n| n > 0))
            {
                columns.push(column(&row)?);
            }
            Ok(true)
        })?;
        let mut schemas: HashMap<Oid, String> = HashMap::new();
        self.scan_namespaces(&mut |oid, name| {
            schemas.insert(oid, name.to_owned());
        })?;
        let build = |class: &Class| {
            let columns = in_order(class.oid, columns.remove(&class.oid).unwrap_or_default())?;
            self.assemble(class, columns, schemas.get(&class.namespace).cloned().unwrap_or_default())
        };
        classes.iter().map(build).collect()
    }

    /// The columns of relations, by relation, and the places of their rows (those of system columns included).
    pub(crate) fn attributes(
        &mut self,
        relation: Oid,
    ) -> Result<(Vec<Column>, Vec<ItemPointer>), EngineError> {
        let (mut columns, mut places) = (Vec::new(), Vec::new());
        let core = self.core;
        self.scan(&core.catalogs.attribute, ATTRIBUTE_COLUMNS, &mut |tid, row| {
            let row = Row(row, "pg_attribute");
            if row.oid(0)? == relation {
                places.push(tid);
                if row.int2(4)? > 0 {
                    columns.push(column(&row)?);
                }
            }
            Ok(true)
        })?;
        Ok((in_order(relation, columns)?, places))
    }

    /// A namespace by its name.
    pub(crate) fn namespace(&mut self, name: &str) -> Result<Option<Oid>, EngineError> {
        let mut found = None;
        self.scan_namespaces(&mut |oid, n| {
            if n == name {
                found = Some(oid);
            }
        })?;
        Ok(found)
    }

    /// A namespace's name; that of a namespace which is gone is empty.
    fn namespace_name(&mut self, oid: Oid) -> Result<String, EngineError> {
        match oid {
            super::bootstrap::PG_CATALOG => return Ok("pg_catalog".to_owned()),
            super::bootstrap::PG_TOAST => return Ok("pg_toast".to_owned()),
            _ => {}
        }
        let mut found = String::new();
        self.scan_namespaces(&mut |o, name| {
            if o == oid {
                name.clone_into(&mut found);
            }
        })?;
        Ok(found)
    }

    /// The catalog of namespaces.
    pub(crate) fn namespaces(&mut self) -> Result<Table, EngineError> {
        let class = self
            .class(PG_NAMESPACE.oid)?
            .ok_or_else(|| EngineError::corrupt("pg_class does not have pg_namespace".to_owned()))?;
        self.table(&class)
    }

    fn scan_namespaces(&mut self, see: &mut dyn FnMut(Oid, &str)) -> Result<(), EngineError> {
        let table = self.namespaces()?;
        self.scan(&table, NAMESPACE_COLUMNS, &mut |_, row| {
            let row = Row(row, "pg_namespace");
            see(row.oid(0)?, row.name(1)?);
            Ok(true)
        })
    }

    /// A relation with its columns.
    pub(crate) fn table(&mut self, class: &Class) -> Result<Table, EngineError> {
        let (columns, _) = self.attributes(class.oid)?;
        let schema = self.namespace_name(class.namespace)?;
        self.assemble(class, columns, schema)
    }

    fn assemble(&self, class: &Class, columns: Vec<Column>, schema: String) -> Result<Table, EngineError> {
        // A temporary table outside of such a schema is nobody's.
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
            indexed: class.indexed,
            locator: self.locator(class)?,
        })
    }

    /// PostgreSQL's own catalogs have indexes, through which it finds their rows: rows added behind its back would
    /// be lost to it.
    pub(crate) fn refuse_indexed_catalogs(&mut self) -> Result<(), EngineError> {
        match self.class(super::schema::PG_CLASS.oid)? {
            Some(class) if !class.indexed => Ok(()),
            _ => Err(EngineError::statement(
                "0A000",
                "cannot change the catalogs of a database made by PostgreSQL: they have indexes",
            )),
        }
    }

    fn locator(&self, class: &Class) -> Result<RelFileLocator, EngineError> {
        let found = self.core.catalogs.locator(class.oid, class.shared, class.filenode, class.tablespace);
        found.ok_or_else(|| {
            EngineError::corrupt(format!("could not find relation mapping for relation \"{}\"", class.name))
        })
    }
}

/// The namespace of a session slot's temporary tables.
pub(crate) fn temp_namespace(slot: u32) -> String {
    format!("pg_temp_{slot}")
}

/// The slot that such a namespace belongs to.
fn temp_slot(namespace: &str) -> Option<u32> {
    namespace.strip_prefix("pg_temp_")?.parse().ok()
}

/// A relation's columns by number; all must be there.
fn in_order(relation: Oid, mut columns: Vec<Column>) -> Result<Vec<Column>, EngineError> {
    columns.sort_by_key(|c| c.attnum);
    if !columns.iter().zip(1..).all(|(c, n)| c.attnum == n) {
        return Err(EngineError::corrupt(format!(
            "pg_attribute does not have all columns of relation {relation}"
        )));
    }
    Ok(columns)
}

fn column(row: &Row<'_, '_>) -> Result<Column, EngineError> {
    let bad = |what: &str| EngineError::corrupt(format!("pg_attribute has a column with {what}"));
    let align = Align::from_code(row.char(8)?).ok_or_else(|| bad("an unknown alignment"))?;
    let type_oid = row.oid(2)?;
    let layout = AttrLayout { len: row.int2(3)?, align, by_val: row.bool(7)?, plain: row.char(9)? == b'p' };
    let repr = Repr::of(type_oid);
    if type_oid != 0 && repr != Repr::Raw {
        let expected = crate::types::layout_of(type_oid)?;
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
        layout,
        repr: if type_oid == oids::UNKNOWN { Repr::Raw } else { repr },
    })
}

/// A catalog row, whose columns are what the layout says or the catalog is damaged.
struct Row<'a, 'b>(&'a [Datum<'b>], &'static str);

macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        fn $name(&self, index: usize) -> Result<$type, EngineError> {
            match self.0.get(index) {
                Some(Datum::$variant(value)) => Ok(*value),
                _ => Err(EngineError::corrupt(format!("a row of {} has no column {}", self.1, index + 1))),
            }
        }
    };
}

impl<'b> Row<'_, 'b> {
    getter!(oid, Oid, Oid);
    getter!(name, Name, &'b str);
    getter!(bool, Bool, bool);
    getter!(char, Char, u8);
    getter!(int2, Int2, i16);
    getter!(int4, Int4, i32);
}
