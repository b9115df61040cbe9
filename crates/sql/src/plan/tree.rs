//! Plans: trees of operators. The executor pulls rows out of the root.
//!
//! ```text
//!   SELECT a, count(*) FROM t WHERE b GROUP BY a HAVING c ORDER BY 2 LIMIT 5
//!
//!   Limit -> Sort -> Project -> Filter (c) -> Aggregate -> Filter (b) -> Scan
//!
//!   SELECT a FROM t WHERE b ORDER BY a LIMIT 5 FOR UPDATE
//!
//!   Limit -> LockRows -> Sort -> Project -> Filter (b) -> Scan
//!
//!   UPDATE t SET a = 1 WHERE b RETURNING c
//!
//!   Modify (a = 1, c) -> Filter (b) -> Scan
//! ```
//!
//! A row of a scan has the table's columns, and behind them its system columns. It brings its place
//! in the table along: Filter, Project and Limit hand it on, Sort if it is asked to.

use super::aggregate::{AggregateCall, AggregateKind};
use super::expr::{Comparison, Expr};
use super::order::ValueOrder;
use super::rowsets::RowFunction;
use crate::column::ColumnDesc;
use crate::views::View;
use forebay_engine::{LockMode, LockStrength, Table, TableIndex};
use forebay_types::SqlType;
use std::sync::Arc;

/// An operator, with those it pulls its rows from.
#[derive(Clone, Debug)]
pub enum Node {
    /// One row without columns.
    Result,
    /// The rows of a table.
    Scan(TableRead),
    /// The rows of a table at certain places, in their order there. The expressions are tids; they
    /// read no row.
    TidScan(TableRead, Vec<Expr>),
    /// The rows of a table that an index finds, in its order.
    IndexScan(Box<IndexRead>),
    /// The rows of a table at the places that a bitmap has, in their order there.
    BitmapScan(Box<BitmapRead>),
    /// WHERE CURRENT OF: the newest version of the row of a table that the cursor of that name is
    /// on.
    CurrentRow(TableRead, String),
    /// generate_series.
    Series {
        /// Start, stop and step, cast to int4 or int8.
        args: Box<[Expr; 3]>,
        /// int8, not int4.
        wide: bool,
    },
    /// A view that is computed when the operator is opened.
    View(View),
    /// VALUES.
    Values(Vec<Vec<Expr>>),
    /// A single row with the value of a function in FROM.
    Function(Box<Expr>),
    /// The rows of a function in FROM.
    Rows {
        /// The function.
        function: RowFunction,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// The rows for which a condition is true.
    Filter {
        /// Where they come from.
        input: Box<Node>,
        /// The condition.
        condition: Expr,
    },
    /// Expressions over each row.
    Project {
        /// Where the rows come from.
        input: Box<Node>,
        /// The expressions.
        output: Vec<Expr>,
    },
    /// One row for each group: its keys, then its aggregates.
    Aggregate {
        /// Where the rows come from.
        input: Box<Node>,
        /// Keys and aggregates.
        grouping: Grouping,
    },
    /// The rows in order.
    Sort {
        /// Where they come from.
        input: Box<Node>,
        /// What they are ordered by.
        keys: Vec<SortKey>,
        /// Number of leading columns that go on; the rows are only sorted by the others.
        width: usize,
        /// Whether the rows keep their places in the table.
        placed: bool,
    },
    /// The rows of a table, each locked. A row that another transaction has changed meanwhile is
    /// evaluated again below this operator.
    LockRows {
        /// Where they come from.
        input: Box<Node>,
        /// The table.
        table: Arc<Table>,
        /// How they are locked.
        lock: RowLock,
    },
    /// Rows inserted, updated or deleted, when the operator is opened. What they return.
    Modify(Box<Modify>),
    /// Some of the rows.
    Limit {
        /// Where they come from.
        input: Box<Node>,
        /// LIMIT.
        limit: Option<Expr>,
        /// OFFSET.
        offset: Option<Expr>,
    },
}

/// A table whose rows are read.
#[derive(Clone, Debug)]
pub struct TableRead {
    /// The table.
    pub table: Arc<Table>,
    /// Its schema as written.
    pub schema: Option<String>,
    /// Its name in the statement, if it is another one.
    pub alias: Option<String>,
    /// How the table is locked.
    pub mode: LockMode,
    /// The columns that are decoded, which are those that expressions read.
    pub decode: Vec<bool>,
    /// The decoded columns that are only passed on: to the new version of a row, or to a function
    /// that reads a part of the value. Values stored out of line are not fetched for them.
    pub handed_on: Vec<bool>,
}

impl TableRead {
    /// The same table, of which these columns are decoded, and fetched where they are `used`.
    pub fn of_columns(&self, decode: Vec<bool>, used: &[bool]) -> TableRead {
        let handed_on = (0..decode.len()).map(|column| used.get(column) != Some(&true)).collect();
        TableRead { decode, handed_on, ..self.clone() }
    }
}

/// A table whose rows are found through an index.
#[derive(Clone, Debug)]
pub struct IndexRead {
    /// The table.
    pub read: TableRead,
    /// The index.
    pub index: Arc<TableIndex>,
    /// What its keys must satisfy, in the order of the keys.
    pub conditions: Vec<IndexCondition>,
    /// The same, one by one, as expressions over the table's row.
    pub tests: Vec<Expr>,
    /// Parts of the query's condition that the index's predicate implies: nothing tests them.
    pub implied: Vec<Expr>,
    /// From its end to its beginning.
    pub backward: bool,
    /// The values are the index's own: no other columns are read.
    pub entries_only: bool,
}

/// A table whose rows are found by a bitmap of their places.
#[derive(Clone, Debug)]
pub struct BitmapRead {
    /// The table.
    pub read: TableRead,
    /// Where the bitmap comes from.
    pub bitmap: Bitmap,
    /// What the rows satisfy of which the bitmap has the places. It is tested for those of which it
    /// knows no more than the page.
    pub recheck: Option<Expr>,
    /// All conditions on the rows, those of the Filter above included.
    pub conditions: Vec<Expr>,
}

/// Where a bitmap of places comes from.
#[derive(Clone, Debug)]
pub enum Bitmap {
    /// The rows that an index finds.
    Index(Box<IndexRead>),
    /// Rows that are in all bitmaps.
    And(Vec<Bitmap>),
    /// Rows that are in one of the bitmaps.
    Or(Vec<Bitmap>),
}

impl Bitmap {
    /// The bitmaps of which it is made.
    pub fn parts(&self) -> &[Bitmap] {
        match self {
            Bitmap::Index(_) => &[],
            Bitmap::And(parts) | Bitmap::Or(parts) => parts,
        }
    }

    /// Whether it comes from an index of that name, among others.
    fn reads_through(&self, index: &str) -> bool {
        match self {
            Bitmap::Index(scan) => scan.index.name == index,
            _ => self.parts().iter().any(|part| part.reads_through(index)),
        }
    }
}

/// A condition on a key column of an index, counted from 0. The expressions read no row.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexCondition {
    /// `key < value` and its kind.
    Compare {
        /// The key column.
        key: usize,
        /// The operator, which is not `<>`.
        comparison: Comparison,
        /// What it is compared with.
        value: Expr,
    },
    /// `key IN (...)`
    AnyOf {
        /// The key column.
        key: usize,
        /// The values.
        values: Vec<Expr>,
    },
    /// `key = ANY (array)`
    AnyOfArray {
        /// The key column.
        key: usize,
        /// The array.
        array: Expr,
        /// The types as whose values its elements are read and compared.
        elements: (SqlType, SqlType),
    },
    /// `(key, key) < (value, value)` and its kind.
    Row {
        /// The key columns.
        keys: Vec<usize>,
        /// The operator, which orders.
        comparison: Comparison,
        /// What they are compared with.
        values: Vec<Expr>,
        /// Whether these are all columns of the comparison. If not, it stays a filter.
        whole: bool,
    },
    /// IS NULL, IS NOT NULL
    Null {
        /// The key column.
        key: usize,
        /// IS NULL
        is_null: bool,
    },
}

impl IndexCondition {
    /// The key column.
    pub fn key(&self) -> usize {
        match self {
            IndexCondition::Compare { key, .. }
            | IndexCondition::AnyOf { key, .. }
            | IndexCondition::AnyOfArray { key, .. }
            | IndexCondition::Null { key, .. } => *key,
            IndexCondition::Row { keys, .. } => keys.first().copied().unwrap_or(0),
        }
    }

    /// Whether it leaves one value only.
    pub(super) fn is_equality(&self) -> bool {
        match self {
            IndexCondition::Compare { comparison, .. } => *comparison == Comparison::Eq,
            IndexCondition::Null { is_null, .. } => *is_null,
            IndexCondition::AnyOf { .. }
            | IndexCondition::AnyOfArray { .. }
            | IndexCondition::Row { .. } => false,
        }
    }

    /// Whether it says less than the condition of which it was made, which stays a filter.
    pub(super) fn is_partial(&self) -> bool {
        matches!(self, IndexCondition::Row { whole: false, .. })
    }
}

/// How the rows of a query are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLock {
    /// FOR UPDATE and its kind.
    pub strength: LockStrength,
    /// NOWAIT and SKIP LOCKED.
    pub policy: LockPolicy,
}

/// What is done about a row that another transaction has locked. Of several, the last one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockPolicy {
    /// Wait for it.
    Wait,
    /// SKIP LOCKED.
    Skip,
    /// NOWAIT.
    Fail,
}

/// Rows to be changed.
#[derive(Clone, Debug)]
pub struct Modify {
    /// INSERT: the rows to insert, with a value for each live column. Otherwise the table's rows to
    /// change.
    pub input: Node,
    /// The table.
    pub table: Arc<Table>,
    /// Its schema as written.
    pub schema: Option<String>,
    /// What is done.
    pub change: Change,
    /// The table's columns whose values UPDATE reads whole, and so has no more as they are stored.
    pub read_whole: Vec<bool>,
    /// RETURNING, over two versions of each row; see `returning.rs`.
    pub returning: Option<Vec<Expr>>,
    /// What is computed and checked of each new row.
    pub rules: Option<Arc<RowRules>>,
}

/// How rows are changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// INSERT, and what is done instead if a key is in use (ON CONFLICT).
    Insert(Option<Box<OnConflict>>),
    /// UPDATE: a value for each live column, over the old row.
    Update(Vec<Expr>),
    /// DELETE.
    Delete,
}

impl Change {
    /// The statement's first word.
    pub fn command(&self) -> &'static str {
        match self {
            Change::Insert(_) => "INSERT",
            Change::Update(_) => "UPDATE",
            Change::Delete => "DELETE",
        }
    }
}

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub struct OnConflict {
    /// The name of the table in the statement.
    pub alias: String,
    /// The unique indexes in which a conflict is looked for.
    pub arbiters: Vec<Arc<TableIndex>>,
    /// Whether the statement says which: otherwise they are all.
    pub chosen: bool,
    /// DO UPDATE. None: DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// DO UPDATE. The expressions are over the columns and system columns of the row that is there,
/// and behind them the columns of the one proposed for insertion.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// A value for each live column.
    pub values: Vec<Expr>,
    /// WHERE
    pub filter: Option<Expr>,
    /// Whether it assigns columns of unique indexes.
    pub key: bool,
}

impl ConflictUpdate {
    /// Which of so many columns of the row that is there are not read, but perhaps handed on.
    pub fn unread(&self, columns: usize) -> Vec<bool> {
        let mut read = vec![false; columns];
        let computed = self.values.iter().filter(|value| !matches!(value, Expr::Column(_)));
        computed.chain(&self.filter).for_each(|expr| expr.mark_columns(&mut read));
        read.into_iter().take(columns).map(|read| !read).collect()
    }
}

/// Keys of groups, and aggregates over them.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// The keys over input rows; none: one group.
    pub keys: Vec<Expr>,
    /// Their types.
    pub types: Vec<SqlType>,
    /// The aggregates over input rows.
    pub calls: Vec<AggregateCall>,
}

/// A key of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// Index into the row.
    pub column: usize,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
    /// The order of its values.
    pub order: ValueOrder,
}

impl Node {
    /// The operator that this one pulls its rows from.
    pub fn input(&self) -> Option<&Node> {
        match self {
            Node::Result
            | Node::Scan(_)
            | Node::TidScan(..)
            | Node::IndexScan(_)
            | Node::BitmapScan(_)
            | Node::CurrentRow(..)
            | Node::Series { .. }
            | Node::View(_)
            | Node::Values(_)
            | Node::Function(_)
            | Node::Rows { .. } => None,
            Node::Filter { input, .. }
            | Node::Project { input, .. }
            | Node::Aggregate { input, .. }
            | Node::Sort { input, .. }
            | Node::LockRows { input, .. }
            | Node::Limit { input, .. } => Some(input),
            Node::Modify(modify) => Some(&modify.input),
        }
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(self), |node| node.input())
    }

    /// The tables that are used, with their schemas as written, and how they are locked.
    pub fn tables(&self) -> impl Iterator<Item = (Option<&str>, &Arc<Table>, LockMode)> {
        self.nodes().filter_map(|node| match node {
            Node::Scan(read) | Node::TidScan(read, _) | Node::CurrentRow(read, _) => {
                Some((read.schema.as_deref(), &read.table, read.mode))
            }
            Node::IndexScan(scan) => {
                let read = &scan.read;
                Some((read.schema.as_deref(), &read.table, read.mode))
            }
            Node::BitmapScan(scan) => {
                let read = &scan.read;
                Some((read.schema.as_deref(), &read.table, read.mode))
            }
            // UPDATE and DELETE scan their table.
            Node::Modify(m) if matches!(m.change, Change::Insert(_)) => {
                Some((m.schema.as_deref(), &m.table, LockMode::RowExclusive))
            }
            _ => None,
        })
    }

    /// Whether a table is read through an index of that name.
    pub fn reads_through(&self, index: &str) -> bool {
        self.nodes().any(|node| match node {
            Node::IndexScan(scan) => scan.index.name == index,
            Node::BitmapScan(scan) => scan.bitmap.reads_through(index),
            _ => false,
        })
    }

    /// The table whose rows are locked, and how.
    pub fn locked(&self) -> Option<(&Arc<Table>, RowLock)> {
        self.nodes().find_map(|node| match node {
            Node::LockRows { table, lock, .. } => Some((table, *lock)),
            _ => None,
        })
    }

    /// The table whose rows are counted, and nothing else is done with them.
    pub fn counted_table(&self) -> Option<&Arc<Table>> {
        let Node::Aggregate { input, grouping: Grouping { keys, calls, .. } } = self else {
            return None;
        };
        let counts = |c: &AggregateCall| c.kind == AggregateKind::CountStar && c.filter.is_none();
        match &**input {
            Node::Scan(read) if keys.is_empty() && calls.iter().all(counts) => Some(&read.table),
            _ => None,
        }
    }
}

/// A query's plan.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    /// Its rows.
    pub root: Arc<Node>,
    /// Their columns.
    pub columns: Vec<ColumnDesc>,
}

/// The plan of an INSERT, UPDATE or DELETE.
#[derive(Clone, Debug)]
pub struct ChangePlan {
    /// A [`Node::Modify`].
    pub root: Arc<Node>,
    /// The columns of RETURNING.
    pub columns: Option<Vec<ColumnDesc>>,
}

impl ChangePlan {
    /// A plan.
    pub(super) fn new(modify: Modify, columns: Option<Vec<ColumnDesc>>) -> ChangePlan {
        ChangePlan { root: Arc::new(Node::Modify(Box::new(modify))), columns }
    }

    /// What it does.
    pub fn modify(&self) -> &Modify {
        let Node::Modify(modify) = &*self.root else { unreachable!("it was made of one") };
        modify
    }

    /// The command tag for so many rows.
    pub fn tag(&self, rows: u64) -> String {
        match self.modify().change {
            Change::Insert(_) => format!("INSERT 0 {rows}"),
            Change::Update(_) => format!("UPDATE {rows}"),
            Change::Delete => format!("DELETE {rows}"),
        }
    }
}

/// What is computed and checked of each new row, over the values of the live columns.
#[derive(Debug, Default)]
pub struct RowRules {
    /// Stored generated columns: their places, and what makes their values.
    pub generated: Vec<(usize, Expr)>,
    /// Columns that are generated when they are read and refuse NULL, likewise.
    pub not_null: Vec<(usize, Expr)>,
    /// Checks by their names.
    pub checks: Vec<(String, Expr)>,
    /// The columns that these read.
    pub reads: Vec<bool>,
}
