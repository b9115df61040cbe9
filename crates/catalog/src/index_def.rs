//! What an index is to be.

use forebay_types::Oid;

use crate::stored_expr::StoredExpr;

/// A key column of a new index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexKey {
    /// The table's column (pg_attribute.attnum). 0: the next one of the index's expressions.
    pub attnum: i16,
    /// COLLATE; None: the column's collation.
    pub collation: Option<Oid>,
    /// The operator class; None: the type's default.
    pub opclass: Option<Oid>,
    /// Greater values come first.
    pub descending: bool,
    /// NULLs come before all values.
    pub nulls_first: bool,
}

impl IndexKey {
    /// A column in its default order.
    pub fn new(attnum: i16) -> IndexKey {
        IndexKey { attnum, collation: None, opclass: None, descending: false, nulls_first: false }
    }
}

/// An expression that is a key of a new index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexExpression {
    /// Its tree.
    pub expr: StoredExpr,
    /// The type of its values.
    pub type_oid: Oid,
    /// Their type modifier, or -1.
    pub typmod: i32,
    /// Their collation, or 0.
    pub collation: Oid,
    /// The name that its column gets, unless another one has it. None: `expr`.
    pub name: Option<String>,
}

/// A constraint that an index enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// PRIMARY KEY
    Primary,
    /// UNIQUE
    Unique,
}

/// A new index: a B-tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexDef {
    /// Its name, or the constraint's. None: chosen as PostgreSQL does, from the names of the table
    /// and the columns.
    pub name: Option<String>,
    /// The key columns.
    pub keys: Vec<IndexKey>,
    /// The expressions among the keys, in their order.
    pub expressions: Vec<IndexExpression>,
    /// The condition on the rows that it has. None: it has all.
    pub predicate: Option<StoredExpr>,
    /// Further columns of the table (INCLUDE), by number.
    pub included: Vec<i16>,
    /// Whether no two rows may have the same key. A constraint's index is unique.
    pub unique: bool,
    /// Whether NULLs count as equal then.
    pub nulls_not_distinct: bool,
    /// The constraint that it enforces.
    pub constraint: Option<ConstraintKind>,
    /// Whether the constraint is DEFERRABLE.
    pub deferrable: bool,
    /// Whether it is INITIALLY DEFERRED.
    pub deferred: bool,
    /// Whether it is built later, while others change the table.
    pub concurrently: bool,
    /// fillfactor
    pub fill_factor: Option<u8>,
    /// deduplicate_items
    pub deduplicate: Option<bool>,
    /// The tablespace that its file goes to. None: the session's default.
    pub tablespace: Option<Oid>,
}

impl IndexDef {
    /// Whether no two rows may have the same key.
    pub fn is_unique(&self) -> bool {
        self.unique || self.constraint.is_some()
    }

    /// Whether it is the primary key's.
    pub fn is_primary(&self) -> bool {
        self.constraint == Some(ConstraintKind::Primary)
    }

    /// The collations of its keys, and those that its trees refer to.
    pub fn collations(&self) -> impl Iterator<Item = Oid> {
        let trees = self.expressions.iter().map(|e| &e.expr).chain(&self.predicate);
        let of_keys = self.keys.iter().filter_map(|key| key.collation);
        of_keys.chain(trees.flat_map(StoredExpr::collations))
    }

    /// The table's columns that it has, by number: first the keys. 0: an expression.
    pub fn columns(&self) -> impl Iterator<Item = i16> {
        self.keys.iter().map(|key| key.attnum).chain(self.included.iter().copied())
    }
}
