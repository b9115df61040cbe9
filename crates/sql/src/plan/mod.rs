//! Statements to plans, over analyzed expressions.
//!
//! - `tree.rs`: plans: trees of operators; `query.rs`: analyzed queries, which become such trees
//! - `catalog.rs`: Catalog: what planning asks of its surroundings
//! - `planner.rs`: Planner: what planning works with
//! - `select.rs`: SELECT and VALUES
//! - `from.rs`: FROM
//! - `conversion.rs`: another type of a column; `printing.rs`: stored expressions as SQL
//! - `stored.rs`: expressions that tables keep, `stored_index.rs`: those of indexes;
//!   `reading.rs`: read; `rules.rs`: what they make of new rows
//! - `insert.rs`: INSERT; `conflict.rs`: ON CONFLICT; `update.rs`: UPDATE and DELETE;
//!   `returning.rs`: RETURNING
//! - `assign.rs`: tables that are changed, and values on their way into their columns
//! - `locks.rs`: FOR UPDATE and its kind
//! - `tid.rs`: conditions on ctid
//! - `paths.rs`: the ways to read a table; `index_read.rs`: through an index; `estimate.rs`: what
//!   plans cost; `size.rs`: how large tables are
//! - `selectivity.rs`: which part of the rows a condition leaves; `column_values.rs`: by the values
//!   that statistics have
//! - `bitmap_paths.rs`: which indexes find rows together, by bitmaps; `bitmap_cost.rs`: their cost
//! - `computed.rs`: expressions and predicates of indexes; `implied.rs`: whether a query's
//!   conditions imply a predicate
//! - `bounding.rs`: which conditions bound a scan of an index
//! - `expr.rs`: expressions as they are evaluated; `lower/`: made of analyzed ones
//! - `order.rs`: the order of values
//! - `fold.rs`: constant expressions
//! - `aggregate.rs`: aggregates and GROUP BY
//! - `page_usage.rs`: what was done to pages, for EXPLAIN (BUFFERS)
//! - `explain.rs`: plans as text; `deparse.rs`: expressions as text
//! - `scroll.rs`: what a cursor over a plan can do
//! - `parallel.rs`: which aggregates worker threads help with
//! - `views.rs`: columns of the computed views
//! - `rowsets.rs`: functions whose result is a row, or several

mod aggregate;
mod assign;
mod bitmap_cost;
mod bitmap_paths;
mod bounding;
mod catalog;
mod column_values;
mod computed;
mod conflict;
mod conversion;
mod deparse;
mod estimate;
mod explain;
mod expr;
mod fold;
mod from;
mod implied;
mod index_read;
mod insert;
mod locks;
mod lower;
mod order;
mod page_usage;
mod parallel;
mod paths;
mod planner;
mod printing;
mod query;
mod reading;
mod returning;
pub mod rowsets;
mod rules;
mod scroll;
mod select;
mod selectivity;
mod size;
mod stored;
mod stored_index;
mod tid;
mod tree;
mod update;

pub use crate::analyze::{ParamTypes, SystemColumn};
pub use aggregate::{AggregateCall, AggregateKind};
pub use assign::{Verb, live_columns, stored_type, target_columns, writable};
pub use catalog::Catalog;
pub use computed::ComputedIndex;
pub use conversion::Conversion;
pub use estimate::Estimator;
pub use explain::{Actual, Shown, explain};
pub use expr::{Arithmetic, Builtin, Comparison, Expr, Function, PartOf, RowCollations};
pub use locks::locking_words;
pub use lower::is_reg;
pub use order::ValueOrder;
pub use page_usage::PageUsage;
pub use planner::{Planner, Relation};
pub use printing::printed;
pub use reading::stored_expr;
pub use returning::version_width;
pub use rowsets::RowFunction;
pub use stored::{StoredColumn, may_vary, nextval_default};
pub use stored_index::AnalyzedKey;
pub use tree::{
    Bitmap, BitmapRead, Change, ChangePlan, Grouping, IndexCondition, IndexRead, LockPolicy,
    Modify, Node, OnConflict, RowLock, RowRules, SelectPlan, SortKey, TableRead,
};
