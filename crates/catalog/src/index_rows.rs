//! Rows of the catalogs about indexes, and the indexes that they make.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use forebay_access::nbtree::{IndexShape, KeyColumn, KeyOrder};
use forebay_collation::Collation;
use forebay_format::ids::FROZEN_XID;
use forebay_format::varlena::Method;
use forebay_format::{AttrLayout, RelFileLocator, Xid};
use forebay_types::{Encoding, Oid, type_info};

use crate::error::CatalogError;
use crate::figures::Figures;
use crate::index::{KnownTrees, TableIndex};
use crate::index_trees::{IndexTrees, StoredTree};
use crate::layout::layout_of;
use crate::nodes::{Expr, type_of};
use crate::options::{BTREE, StorageOptions};
use crate::row::Row;
use crate::schema::{BTREE_AM, PG_CATALOG, PG_INDEX};
use crate::table::Column;

/// pg_type.oid of cstring, as which a B-tree keeps a name.
pub(crate) const CSTRING: Oid = 2275;
/// The number of the support function that orders values.
pub(crate) const ORDER_FUNCTION: i16 = 1;
/// pg_index.indoption: greater values come first.
pub(crate) const DESCENDING: i16 = 1;
/// pg_index.indoption: NULLs come first.
pub(crate) const NULLS_FIRST: i16 = 2;

/// Number of columns of pg_index up to indoption.
pub(crate) const INDEX_COLUMNS: usize = PG_INDEX.place("indoption") + 1;
/// Index of indislive in pg_index.
pub(crate) const IS_LIVE: usize = PG_INDEX.place("indislive");
/// Index of indexprs in pg_index.
pub(crate) const EXPRESSIONS: usize = PG_INDEX.place("indexprs");
/// Index of indpred in pg_index.
pub(crate) const PREDICATE: usize = PG_INDEX.place("indpred");

/// A row of pg_index.
#[derive(Debug)]
pub(crate) struct IndexRow {
    pub(crate) index: Oid,
    pub(crate) table: Oid,
    keys: usize,
    pub(crate) unique: bool,
    pub(crate) nulls_not_distinct: bool,
    primary: bool,
    exclusion: bool,
    immediate: bool,
    valid: bool,
    check_xmin: Option<Xid>,
    ready: bool,
    pub(crate) columns: Vec<i16>,
    pub(crate) collations: Vec<Oid>,
    pub(crate) classes: Vec<Oid>,
    pub(crate) options: Vec<i16>,
    pub(crate) expressions: StoredTree,
    pub(crate) predicate: StoredTree,
}

impl IndexRow {
    /// Reads a row that the transaction `xmin` has written.
    pub(crate) fn read(
        row: &Row<'_, '_>,
        xmin: Xid,
        (expressions, predicate): (StoredTree, StoredTree),
    ) -> Result<IndexRow, CatalogError> {
        let shorts = |index| row.vector(index).map(|all| all.map(i16::from_le_bytes).collect());
        let oids = |index| row.vector(index).map(|all| all.map(u32::from_le_bytes).collect());
        let check_xmin = row.bool(11)? && xmin != FROZEN_XID;
        let read = IndexRow {
            index: row.oid(0)?,
            table: row.oid(1)?,
            keys: usize::try_from(row.int2(3)?).unwrap_or(usize::MAX),
            unique: row.bool(4)?,
            nulls_not_distinct: row.bool(5)?,
            primary: row.bool(6)?,
            exclusion: row.bool(7)?,
            immediate: row.bool(8)?,
            valid: row.bool(10)?,
            check_xmin: check_xmin.then_some(xmin),
            ready: row.bool(12)?,
            columns: shorts(15)?,
            collations: oids(16)?,
            classes: oids(17)?,
            options: shorts(18)?,
            expressions,
            predicate,
        };
        let (keys, columns) = (read.keys, read.columns.len());
        let lengths = [read.collations.len(), read.classes.len(), read.options.len()];
        if usize::try_from(row.int2(2)?) != Ok(columns) || keys > columns || lengths != [keys; 3] {
            let message = format!("the numbers of columns of index {} disagree", read.index);
            return Err(CatalogError::corrupt(message));
        }
        Ok(read)
    }

    /// Its expressions and its predicate, or why they are not understood.
    fn trees(&self) -> Result<IndexTrees, String> {
        let expressions = self.columns.iter().filter(|number| **number == 0).count();
        IndexTrees::read(&self.expressions, &self.predicate, expressions)
    }
}

fn corrupt(row: &IndexRow, what: &dyn Display) -> CatalogError {
    CatalogError::corrupt(format!("catalog rows of index {}: {what}", row.index))
}

/// What pg_class says of an index.
#[derive(Debug)]
pub(crate) struct IndexClass {
    pub(crate) name: String,
    pub(crate) access_method: Oid,
    pub(crate) options: StorageOptions,
    pub(crate) locator: RelFileLocator,
    pub(crate) figures: Figures,
}

/// A row of pg_opclass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperatorClass {
    pub(crate) method: Oid,
    pub(crate) family: Oid,
    pub(crate) input: Oid,
    /// The type of the values that are kept, if it is not that of the column.
    pub(crate) key_type: Oid,
}

/// Operator classes, with the functions that order their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperatorClasses {
    classes: HashMap<Oid, OperatorClass>,
    /// By operator family and type.
    functions: HashMap<(Oid, Oid), Oid>,
}

impl OperatorClasses {
    /// The operator family and the type of a class.
    pub(crate) fn family(&self, class: Oid) -> Option<(Oid, Oid)> {
        self.classes.get(&class).map(|class| (class.family, class.input))
    }

    /// Adds others.
    pub(crate) fn extend(&mut self, others: OperatorClasses) {
        self.classes.extend(others.classes);
        self.functions.extend(others.functions);
    }

    /// Adds a row of pg_opclass.
    pub(crate) fn add_class(&mut self, row: &Row<'_, '_>) -> Result<(), CatalogError> {
        let (method, family) = (row.oid(1)?, row.oid(5)?);
        let (input, key_type) = (row.oid(6)?, row.oid(8)?);
        self.insert_class(row.oid(0)?, OperatorClass { method, family, input, key_type });
        Ok(())
    }

    pub(crate) fn insert_class(&mut self, oid: Oid, class: OperatorClass) {
        self.classes.insert(oid, class);
    }

    /// Adds a row of pg_amproc.
    pub(crate) fn add_function(&mut self, row: &Row<'_, '_>) -> Result<(), CatalogError> {
        let types = (row.oid(2)?, row.oid(3)?);
        self.insert_function((row.oid(1)?, types), row.int2(4)?, row.oid(5)?);
        Ok(())
    }

    /// Adds a support function of an operator family for two types.
    pub(crate) fn insert_function(
        &mut self,
        (family, types): (Oid, (Oid, Oid)),
        number: i16,
        function: Oid,
    ) {
        if types.0 == types.1 && number == ORDER_FUNCTION {
            self.functions.insert((family, types.0), function);
        }
    }

    /// How a class orders values, with texts by a collation, and the class; None if that is not
    /// known.
    pub(crate) fn order(
        &self,
        class: Oid,
        collation: &Arc<Collation>,
    ) -> Option<(KeyOrder, OperatorClass)> {
        let class = self.classes.get(&class).filter(|class| class.method == BTREE_AM)?;
        let function = self.functions.get(&(class.family, class.input))?;
        Some((KeyOrder::of_support(*function, collation)?, *class))
    }

    /// How a class orders values that lie so in a row, with texts by a collation, and how they lie
    /// in the index. Or why that is not known.
    fn key(
        &self,
        (class, collation): (Oid, Oid),
        layout: AttrLayout,
        collations: &IndexCollations,
    ) -> Result<(KeyOrder, AttrLayout), String> {
        let not_known = || format!("its operator class (OID {class}) is not supported");
        let collation = match collations.get(&collation) {
            Some(known) => known.as_ref().map_err(String::clone)?,
            None => return Err(format!("its collation (OID {collation}) is not known")),
        };
        let (order, found) = self.order(class, collation).ok_or_else(not_known)?;
        let layout = match found.key_type {
            0 => layout,
            CSTRING => AttrLayout::CSTRING,
            _ => return Err(not_known()),
        };
        Ok((order, layout))
    }
}

/// What the catalogs say of the indexes of some tables.
#[derive(Debug, Default)]
pub(crate) struct FoundIndexes {
    /// By table.
    pub(crate) rows: HashMap<Oid, Vec<IndexRow>>,
    /// By index.
    pub(crate) classes: HashMap<Oid, IndexClass>,
    pub(crate) operator_classes: Arc<OperatorClasses>,
    pub(crate) collations: IndexCollations,
    /// That of their database.
    pub(crate) encoding: Encoding,
}

/// The collations of indexes, by OID; or why one cannot be used.
pub(crate) type IndexCollations = HashMap<Oid, Result<Arc<Collation>, String>>;

impl FoundIndexes {
    /// The indexes of a table with these columns, by OID.
    pub(crate) fn take(
        &mut self,
        trees: &KnownTrees,
        table: (Oid, Oid),
        columns: &[Column],
    ) -> Result<Vec<TableIndex>, CatalogError> {
        let (table, namespace) = table;
        let mut rows = self.rows.remove(&table).unwrap_or_default();
        rows.sort_by_key(|row| row.index);
        let of_catalog = namespace == PG_CATALOG;
        let indexes = rows.into_iter().map(|row| self.index(trees, row, columns, of_catalog));
        indexes.collect()
    }

    fn index(
        &mut self,
        trees: &KnownTrees,
        row: IndexRow,
        columns: &[Column],
        of_catalog: bool,
    ) -> Result<TableIndex, CatalogError> {
        let class = self.classes.remove(&row.index);
        let class = class.ok_or_else(|| corrupt(&row, &"pg_class does not have it"))?;
        let (shape, understood) = self.shape(&row, &class, columns, of_catalog)?;
        let (own, unknown) = match understood {
            Ok(own) => (own, None),
            Err(why) => (IndexTrees::default(), Some(why)),
        };
        Ok(TableIndex {
            oid: row.index,
            name: class.name,
            table: row.table,
            locator: class.locator,
            figures: class.figures,
            columns: row.columns,
            unique: row.unique,
            primary: row.primary,
            exclusion: row.exclusion,
            immediate: row.immediate,
            valid: row.valid,
            ready: row.ready,
            check_xmin: row.check_xmin,
            shape: Arc::new(shape),
            known: trees.tree(class.locator),
            shared: Arc::clone(&trees.shared),
            trees: Arc::new(own),
            computed: None,
            unknown,
        })
    }

    /// What working on an index needs to know of its columns, and its trees. Or why it is not
    /// understood: then there are no key columns.
    pub(crate) fn shape(
        &self,
        row: &IndexRow,
        class: &IndexClass,
        columns: &[Column],
        of_catalog: bool,
    ) -> Result<(IndexShape, Result<IndexTrees, String>), CatalogError> {
        let mut of_table = Vec::with_capacity(row.columns.len());
        for &number in &row.columns {
            if number == 0 {
                of_table.push(None);
                continue;
            }
            let column = usize::try_from(number).ok().and_then(|n| columns.get(n.checked_sub(1)?));
            let column = column.ok_or_else(|| corrupt(row, &format!("no column {number}")))?;
            of_table.push(Some((column.layout, column.compression)));
        }
        let understood = self.columns(row, class, &of_table);
        let (trees, IndexColumns { keys, layouts, compression }) = match understood {
            Ok((trees, columns)) => (Ok(trees), columns),
            Err(why) => (Err(why), IndexColumns::default()),
        };
        let shape = IndexShape {
            name: class.name.clone(),
            layouts,
            compression,
            keys,
            nulls_are_equal: row.nulls_not_distinct,
            fill_factor: class.options.fill_factor.unwrap_or(BTREE).into(),
            deduplicate: class.options.deduplicate.unwrap_or(true),
            of_catalog,
            encoding: self.encoding,
        };
        Ok((shape, trees))
    }

    /// The trees and the columns of an index. Or why they are not known. Columns of the table are
    /// given as they lie in a row, with how their values are compressed.
    fn columns(
        &self,
        row: &IndexRow,
        class: &IndexClass,
        of_table: &[Option<(AttrLayout, Option<Method>)>],
    ) -> Result<(IndexTrees, IndexColumns), String> {
        let method = class.access_method;
        if method != BTREE_AM {
            return Err(format!("its access method (OID {method}) is not supported"));
        }
        if row.exclusion {
            return Err("it is for an exclusion constraint".to_owned());
        }
        let trees = row.trees()?;
        let mut expressions = trees.expressions.iter();
        let (mut found, mut stored) = (IndexColumns::default(), Vec::new());
        for of_table in of_table {
            let (layout, compression) = match of_table {
                Some(known) => *known,
                None => of_expression(expressions.next().ok_or("an expression is missing")?)?,
            };
            stored.push(layout);
            found.compression.push(compression);
        }
        let of_keys = row.classes.iter().zip(&row.collations).zip(&row.options);
        for (layout, ((class, collation), options)) in stored.iter().zip(of_keys) {
            let by = (*class, *collation);
            let (order, layout) = self.operator_classes.key(by, *layout, &self.collations)?;
            let (descending, nulls_first) = (options & DESCENDING != 0, options & NULLS_FIRST != 0);
            found.keys.push(KeyColumn { order, descending, nulls_first });
            found.layouts.push(layout);
        }
        found.layouts.extend(stored.iter().skip(found.keys.len()));
        Ok((trees, found))
    }
}

/// The columns of an index: the keys, and how the values of all of them lie there.
#[derive(Default)]
struct IndexColumns {
    keys: Vec<KeyColumn>,
    layouts: Vec<AttrLayout>,
    compression: Vec<Option<Method>>,
}

/// How the values of an expression lie in an index.
fn of_expression(expr: &Expr) -> Result<(AttrLayout, Option<Method>), String> {
    let ty = type_of(expr);
    let found = layout_of(ty).ok().zip(type_info(ty));
    let (layout, info) =
        found.ok_or_else(|| format!("the type of its expression (OID {ty}) is not supported"))?;
    let compressed = matches!(info.storage, b'x' | b'm');
    Ok((layout, compressed.then_some(Method::Pglz)))
}
