//! Finds tables, their columns and their indexes in the catalogs.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

use forebay_access::ComputedEntries;
use forebay_access::toast::{THRESHOLD, Toasting};
use forebay_format::RelFileLocator;
use forebay_types::{Datum, Oid};

use crate::class::{CLASS_COLUMNS, Class};
use crate::error::CatalogError;
use crate::index::{self, TableIndex};
use crate::index_rows::{
    EXPRESSIONS, FoundIndexes, INDEX_COLUMNS, IS_LIVE, IndexClass, IndexRow, ORDER_FUNCTION,
    OperatorClasses, PREDICATE,
};
use crate::key_triggers::FoundTriggers;
use crate::limits::{self, Attribute, ClassTraits};
use crate::lookup::Key;
use crate::maps::unmapped;
use crate::options::FULL;
use crate::reader::{Reader, Rows};
use crate::row::{Row, value_at};
use crate::schema::{
    PG_AMPROC, PG_AMPROC_FAM_PROC_INDEX, PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, PG_CATALOG,
    PG_CLASS, PG_CLASS_OID_INDEX, PG_CLASS_RELNAME_NSP_INDEX, PG_INDEX, PG_INDEX_INDEXRELID_INDEX,
    PG_INDEX_INDRELID_INDEX, PG_NAMESPACE, PG_NAMESPACE_NSPNAME_INDEX, PG_NAMESPACE_OID_INDEX,
    PG_OPCLASS, PG_OPCLASS_OID_INDEX, PG_PUBLICATION_REL_PRRELID_PRPUBID_INDEX, PG_TOAST,
};
use crate::stored_expr::tree_text;
use crate::table::{Column, Limits, Table};

/// Number of columns of pg_attribute up to attcollation.
const ATTRIBUTE_COLUMNS: usize = PG_ATTRIBUTE.place("attcollation") + 1;
/// Index of attmissingval in pg_attribute.
const MISSING_VALUE: usize = PG_ATTRIBUTE.place("attmissingval");
/// Number of columns of pg_namespace up to nspname.
const NAMESPACE_COLUMNS: usize = PG_NAMESPACE.place("nspname") + 1;

impl Reader<'_> {
    /// Whether a relation is part of a publication.
    pub fn is_published(&mut self, relation: Oid) -> Result<bool, CatalogError> {
        let (index, mut found) = (&PG_PUBLICATION_REL_PRRELID_PRPUBID_INDEX, false);
        self.read(Rows::Of((index, &[Datum::Oid(relation)])), 0, &mut |_, _, _| {
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }

    pub(crate) fn classes(&mut self, rows: Rows<'_>) -> Result<Vec<Class>, CatalogError> {
        let mut found = Vec::new();
        self.read(rows, CLASS_COLUMNS, &mut |tid, row, tuple| {
            found.push(Class::read(tid, row, tuple)?);
            Ok(true)
        })?;
        Ok(found)
    }

    /// A relation by its name, of any kind.
    pub fn class_named(
        &mut self,
        namespace: Oid,
        name: &str,
    ) -> Result<Option<Class>, CatalogError> {
        let key = [Datum::text(name), Datum::Oid(namespace)];
        Ok(self.classes(Rows::Of((&PG_CLASS_RELNAME_NSP_INDEX, &key)))?.pop())
    }

    /// The temporary relations of all sessions.
    pub(crate) fn temporary(&mut self) -> Result<Vec<Class>, CatalogError> {
        let mut found = self.classes(Rows::All(&PG_CLASS))?;
        found.retain(Class::is_temporary);
        Ok(found)
    }

    /// A relation by its OID.
    pub fn class(&mut self, oid: Oid) -> Result<Option<Class>, CatalogError> {
        Ok(self.classes(Rows::Of((&PG_CLASS_OID_INDEX, &[Datum::Oid(oid)])))?.pop())
    }

    /// A table or a sequence by its OID. None if there is none, or it is another kind of relation.
    pub fn table_by_oid(&mut self, oid: Oid) -> Result<Option<Table>, CatalogError> {
        let class = self.class(oid)?.filter(|class| class.is_table() || class.kind == b'S');
        class.map(|class| self.table(&class)).transpose()
    }

    /// The tables whose names are wanted, and why others of them are left out: the catalogs
    /// contradict each other about them.
    pub fn tables(
        &mut self,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<(Vec<Table>, Vec<CatalogError>), CatalogError> {
        let mut classes = self.classes(Rows::All(&PG_CLASS))?;
        classes.retain(|class| class.is_table() && wanted(&class.name));
        let (mut tables, mut broken) = (Vec::with_capacity(classes.len()), Vec::new());
        for class in &classes {
            match self.table(class) {
                Ok(table) => tables.push(table),
                Err(CatalogError::Refused(why)) if why.sqlstate == "XX001" => {
                    broken.push(CatalogError::Refused(why));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((tables, broken))
    }

    /// The columns of a relation.
    pub(crate) fn attributes(&mut self, class: &Class) -> Result<Vec<Attribute>, CatalogError> {
        let mut columns = Vec::new();
        let key = [Datum::Oid(class.oid)];
        let rows = Rows::Of((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key));
        self.read(rows, ATTRIBUTE_COLUMNS, &mut |_, row, _| {
            let row = Row(row, PG_ATTRIBUTE.name);
            if row.int2(4)? > 0 {
                columns.push(Attribute::read(&row)?);
            }
            Ok(true)
        })?;
        class.in_order(columns)
    }

    /// A namespace by its name.
    pub fn namespace(&mut self, name: &str) -> Result<Option<Oid>, CatalogError> {
        let found = self.namespace_of((&PG_NAMESPACE_NSPNAME_INDEX, &[Datum::text(name)]))?;
        Ok(found.map(|(oid, _)| oid))
    }

    /// The name of a relation's namespace.
    pub(crate) fn namespace_name(&mut self, class: &Class) -> Result<String, CatalogError> {
        match class.namespace {
            PG_CATALOG => return Ok("pg_catalog".to_owned()),
            PG_TOAST => return Ok("pg_toast".to_owned()),
            _ => {}
        }
        let key = [Datum::Oid(class.namespace)];
        let found = self.namespace_of((&PG_NAMESPACE_OID_INDEX, &key))?;
        class.in_namespace(found.map(|(_, name)| name))
    }

    fn namespace_of(&mut self, key: Key<'_>) -> Result<Option<(Oid, String)>, CatalogError> {
        let mut found = None;
        self.read(Rows::Of(key), NAMESPACE_COLUMNS, &mut |_, row, _| {
            let row = Row(row, PG_NAMESPACE.name);
            found = Some((row.oid(0)?, row.name(1)?.to_owned()));
            Ok(false)
        })?;
        Ok(found)
    }

    /// The table of a pg_class row.
    pub fn table(&mut self, class: &Class) -> Result<Table, CatalogError> {
        let columns = self.attributes(class)?;
        let schema = self.namespace_name(class)?;
        let mut indexes = match class.indexed {
            true => self.find_indexes(class.oid)?,
            false => FoundIndexes::default(),
        };
        self.assemble(class, columns, schema, &mut indexes)
    }

    /// The live indexes of a table, by OID.
    pub fn indexes_of(&mut self, table: &Table) -> Result<Vec<Arc<TableIndex>>, CatalogError> {
        let mut found = self.find_indexes(table.oid)?;
        let of = (table.oid, table.namespace);
        let indexes = found.take(&self.database().trees, of, &table.columns)?;
        self.compiled(indexes, (&table.name, &table.columns))
    }

    /// Indexes of a table with their expressions ready to be evaluated.
    fn compiled(
        &mut self,
        indexes: Vec<TableIndex>,
        (table, columns): (&str, &[Column]),
    ) -> Result<Vec<Arc<TableIndex>>, CatalogError> {
        let mut compiled = Vec::with_capacity(indexes.len());
        for mut index in indexes {
            if !index.trees.is_empty() {
                let compiler = self.database().compiler.clone();
                let expressions = match compiler {
                    Some(compiler) => compiler.compile(self, (table, columns), &index.trees),
                    None => Err(CatalogError::refused(
                        "0A000",
                        "nothing evaluates its expressions or its predicate here",
                    )),
                };
                match expressions {
                    Ok(expressions) => {
                        let sources = index.sources().collect();
                        index.computed = Some(ComputedEntries { sources, expressions });
                    }
                    Err(CatalogError::Refused(refusal)) if !passes(refusal.sqlstate) => {
                        index.is_unknown(refusal.message);
                    }
                    Err(error) => return Err(error),
                }
            }
            compiled.push(Arc::new(index));
        }
        Ok(compiled)
    }

    /// The table that an index is of.
    pub fn table_of_index(&mut self, index: &Class) -> Result<Option<Oid>, CatalogError> {
        let mut found = None;
        let key = [Datum::Oid(index.oid)];
        self.read(Rows::Of((&PG_INDEX_INDEXRELID_INDEX, &key)), 2, &mut |_, row, _| {
            found = Some(Row(row, PG_INDEX.name).oid(1)?);
            Ok(false)
        })?;
        Ok(found)
    }

    /// What the catalogs say of the live indexes of a table.
    fn find_indexes(&mut self, table: Oid) -> Result<FoundIndexes, CatalogError> {
        let (mut rows, key) = (Vec::new(), [Datum::Oid(table)]);
        let of_table = Rows::Of((&PG_INDEX_INDRELID_INDEX, &key));
        let encoding = self.database().encoding;
        self.read(of_table, INDEX_COLUMNS, &mut |_, row, tuple| {
            let row = Row(row, PG_INDEX.name);
            if row.bool(IS_LIVE)? {
                let text = |value| tree_text(value, encoding);
                let tree = |index| value_at(tuple, &PG_INDEX, index)?.map(text).transpose();
                let trees = (tree(EXPRESSIONS)?, tree(PREDICATE)?);
                rows.push(IndexRow::read(&row, tuple.xmin(), trees)?);
            }
            Ok(true)
        })?;
        let mut found = FoundIndexes { encoding, ..FoundIndexes::default() };
        for row in &rows {
            let Some(class) = self.class(row.index)? else { continue };
            let locator = self.locator(&class)?;
            let Class { oid, name, options, traits, figures, .. } = class;
            let access_method = traits.access_method;
            let class = IndexClass { name, access_method, options, locator, figures };
            found.classes.insert(oid, class);
        }
        if !rows.is_empty() {
            found.operator_classes = self.operator_classes(&rows)?;
            for oid in rows.iter().flat_map(|row| row.collations.iter().copied()) {
                if let Entry::Vacant(place) = found.collations.entry(oid) {
                    place.insert(self.index_collation(oid)?);
                }
            }
            found.rows.insert(table, rows);
        }
        Ok(found)
    }

    /// Operator classes, with those of these indexes.
    fn operator_classes(
        &mut self,
        indexes: &[IndexRow],
    ) -> Result<Arc<OperatorClasses>, CatalogError> {
        let known = Arc::clone(&self.database().operator_classes.lock());
        let classes = indexes.iter().flat_map(|index| index.classes.iter().copied());
        let missing: Vec<Oid> = classes.filter(|class| known.family(*class).is_none()).collect();
        if missing.is_empty() {
            return Ok(known);
        }
        let mut found = OperatorClasses::default();
        for class in missing {
            let rows = Rows::Of((&PG_OPCLASS_OID_INDEX, &[Datum::Oid(class)]));
            self.read(rows, usize::MAX, &mut |_, row, _| {
                found.add_class(&Row(row, PG_OPCLASS.name))?;
                Ok(false)
            })?;
            let Some((family, input)) = found.family(class) else { continue };
            let input = Datum::Oid(input);
            let key = [Datum::Oid(family), input.clone(), input, Datum::Int2(ORDER_FUNCTION)];
            let rows = Rows::Of((&PG_AMPROC_FAM_PROC_INDEX, &key));
            self.read(rows, usize::MAX, &mut |_, row, _| {
                found.add_function(&Row(row, PG_AMPROC.name))?;
                Ok(false)
            })?;
        }
        let mut all = self.database().operator_classes.lock();
        Arc::make_mut(&mut all).extend(found);
        Ok(Arc::clone(&all))
    }

    fn assemble(
        &mut self,
        class: &Class,
        attributes: Vec<Attribute>,
        schema: String,
        indexes: &mut FoundIndexes,
    ) -> Result<Table, CatalogError> {
        let triggers = match class.traits.triggers {
            true => self.key_triggers(class.oid)?,
            false => FoundTriggers::default(),
        };
        let traits = ClassTraits { triggers: triggers.unknown, ..class.traits };
        let mut limits = limits::of(class.kind, &traits);
        let missing = attributes.iter().any(|a| a.has_missing && !a.column.dropped);
        let toasting = Toasting {
            columns: attributes.iter().map(|a| a.toast).collect(),
            target: class.options.toast_target.map_or(THRESHOLD, usize::from),
            relation: Some(class.toast).filter(|&oid| oid != 0),
        };
        let mut columns: Vec<Column> = attributes.into_iter().map(|a| a.column).collect();
        if missing {
            self.read_missing(class.oid, &mut columns, &mut limits)?;
        }
        if columns.iter().any(|column| column.has_default && !column.dropped) {
            for (number, tree) in self.defaults(class.oid)? {
                if let Some(column) = columns.iter_mut().find(|c| c.attnum == number) {
                    column.default = tree;
                }
            }
        }
        let checks = if class.traits.checks { self.checks(class.oid)? } else { Vec::new() };
        let trees = &self.database().trees;
        let indexes = indexes.take(trees, (class.oid, class.namespace), &columns)?;
        let indexes = self.compiled(indexes, (&class.name, &columns))?;
        let (key_columns, indexed_columns) = index::columns_of(&indexes);
        // A temporary table outside of a session's schema belongs to no session.
        let temp = class.is_temporary().then(|| temp_slot(&schema).unwrap_or(u32::MAX));
        Ok(Table {
            temp,
            oid: class.oid,
            name: class.name.clone(),
            namespace: class.namespace,
            owner: class.owner,
            schema,
            kind: class.kind,
            layouts: columns.iter().map(|c| c.layout).collect(),
            columns,
            checks,
            triggers: triggers.known,
            indexes,
            key_columns,
            indexed_columns,
            toasting,
            fill_factor: class.options.fill_factor.unwrap_or(FULL),
            vacuum: class.options.vacuum,
            parallel_workers: class.options.parallel_workers,
            figures: class.figures,
            limits,
            locator: self.locator(class)?,
            encoding: self.database().encoding,
            statistics: OnceLock::new(),
        })
    }

    /// Reads the values of a relation's columns for rows that are older than the columns.
    fn read_missing(
        &mut self,
        relation: Oid,
        columns: &mut [Column],
        limits: &mut Limits,
    ) -> Result<(), CatalogError> {
        let key = [Datum::Oid(relation)];
        let rows = Rows::Of((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key));
        self.read(rows, ATTRIBUTE_COLUMNS, &mut |_, row, tuple| {
            let number = Row(row, PG_ATTRIBUTE.name).int2(4)?;
            let column = columns.iter_mut().find(|c| c.attnum == number && !c.dropped);
            let Some(column) = column else { return Ok(true) };
            if let Some(array) = value_at(tuple, &PG_ATTRIBUTE, MISSING_VALUE)? {
                column.missing = limits::missing_value(column, array)?;
                if column.missing.is_none() {
                    let name = &column.name;
                    let what =
                        format!("the value of column \"{name}\" in older rows is compressed");
                    limits.read.get_or_insert(what);
                }
            }
            Ok(true)
        })
    }

    /// The file of a relation.
    pub(crate) fn locator(&self, class: &Class) -> Result<RelFileLocator, CatalogError> {
        let Class { oid, shared, filenode, tablespace, .. } = *class;
        let found = self.database().maps.locator(oid, shared, filenode, tablespace);
        found.ok_or_else(|| unmapped(&class.name))
    }
}

/// Whether an error may not be there the next time, or tells of damage: it says nothing of the
/// index.
fn passes(sqlstate: &str) -> bool {
    let classes = ["40", "53", "57", "58"];
    classes.iter().any(|class| sqlstate.starts_with(class)) || matches!(sqlstate, "XX001" | "XX002")
}

/// The namespace of a session slot's temporary tables.
pub fn temp_namespace(slot: u32) -> String {
    format!("pg_temp_{slot}")
}

/// The namespace of their TOAST tables.
pub fn temp_toast_namespace(slot: u32) -> String {
    format!("pg_toast_temp_{slot}")
}

/// The session slot of a namespace of temporary tables, or of their TOAST tables.
fn temp_slot(namespace: &str) -> Option<u32> {
    let slot = namespace.strip_prefix("pg_temp_");
    slot.or_else(|| namespace.strip_prefix("pg_toast_temp_"))?.parse().ok()
}
