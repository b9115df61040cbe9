//! Statements to plans: names looked up, types settled, casts inserted.
//!
//! - `tree.rs`: plans: trees of operators; `query.rs`: analyzed queries, which become such trees
//! - `catalog.rs`: Catalog: what planning asks of its surroundings
//! - `planner.rs`: Planner: what planning works with; `ident.rs`: names as the parser gives them
//! - `select.rs`: SELECT and VALUES
//! - `from.rs`, `scope.rs`: FROM, and the names it brings
//! - `names.rs`: names of output columns
//! - `insert.rs`: INSERT; `conflict.rs`: ON CONFLICT; `update.rs`: UPDATE and DELETE;
//!   `returning.rs`: RETURNING
//! - `assign.rs`: tables that are changed, and values on their way into their columns
//! - `locks.rs`: FOR UPDATE and its kind
//! - `system.rs`: system columns; `tid.rs`: conditions on ctid
//! - `paths.rs`: the ways to read a table; `index_read.rs`: through an index; `estimate.rs`: what
//!   plans cost; `size.rs`: how large tables are
//! - `selectivity.rs`: which part of the rows a condition leaves; `column_values.rs`: by the values
//!   that statistics have
//! - `bitmap_paths.rs`: which indexes find rows together, by bitmaps; `bitmap_cost.rs`: their cost
//! - `bounding.rs`: which conditions bound a scan of an index
//! - `bind.rs`, `calls.rs`, `literal.rs`: expressions; `lists.rs`: IN, ANY, ALL and rows
//! - `place.rs`: where an expression begins and ends
//! - `expr.rs`: typed expressions
//! - `fold.rs`: constant expressions
//! - `coerce.rs`: casts, types of literals and parameters
//! - `resolve.rs`: which operator or function is meant
//! - `named.rs`: arguments with names and defaults
//! - `function.rs`, `types.rs`: calls and type names as the parser gives them
//! - `aggregate.rs`: aggregates and GROUP BY
//! - `page_usage.rs`: what was done to pages, for EXPLAIN (BUFFERS)
//! - `explain.rs`: plans as text; `deparse.rs`: expressions as text
//! - `scroll.rs`: what a cursor over a plan can do
//! - `parallel.rs`: which aggregates worker threads help with
//! - `views.rs`: columns of the computed views
//! - `rowsets.rs`: functions whose result is a row, or several

mod aggregate;
mod assign;
mod bind;
mod bitmap_cost;
mod bitmap_paths;
mod bounding;
mod calls;
mod catalog;
mod coerce;
mod column_values;
mod conflict;
mod deparse;
mod estimate;
mod explain;
mod expr;
mod fold;
mod from;
mod function;
mod ident;
mod index_read;
mod insert;
mod lists;
mod literal;
mod locks;
mod named;
mod names;
mod page_usage;
mod parallel;
mod paths;
mod place;
mod planner;
mod query;
mod resolve;
mod returning;
pub mod rowsets;
mod scope;
mod scroll;
mod select;
mod selectivity;
mod size;
mod system;
mod tid;
mod tree;
mod types;
mod update;

pub use aggregate::{AggregateCall, AggregateKind};
pub use assign::{Verb, check_left_out, live_columns, stored_type, target_columns, writable};
pub use catalog::Catalog;
pub use coerce::ParamTypes;
pub use estimate::Estimator;
pub use explain::{Actual, Shown, explain};
pub use expr::{AdvisoryLock, Arithmetic, Comparison, Expr, Function};
pub use locks::locking_words;
pub use page_usage::PageUsage;
pub use planner::{Planner, Relation};
pub use returning::version_width;
pub use rowsets::RowFunction;
pub use system::SystemColumn;
pub use tree::{
    Bitmap, BitmapRead, Change, ChangePlan, Grouping, IndexCondition, IndexRead, LockPolicy,
    Modify, Node, OnConflict, RowLock, SelectPlan, SortKey, TableRead,
};
