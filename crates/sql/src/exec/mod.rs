//! Running plans.
//!
//! - `cursor.rs`: a running plan, which can rest
//! - `operator.rs`: operators at work: filter, project, aggregate, sort, limit
//! - `index_scan.rs`: rows that an index finds; `scan.rs`: rows of tables; `row.rs`: rows on their
//!   way
//! - `modify.rs`: INSERT, UPDATE and DELETE; `rules.rs`: generated columns and checks of new rows;
//!   `loader.rs`: rows on their way into a table
//! - `lock.rs`: FOR UPDATE; `recheck.rs`: a row that was changed meanwhile
//! - `sort/`: ORDER BY, in memory and beyond; `spill.rs`: rows in temporary files
//! - `store.rs`: rows that a cursor goes back to
//! - `groups/`: GROUP BY, in memory and beyond; `aggregate.rs`: accumulators; `parallel.rs`: with
//!   worker threads
//! - `bitmap_scan.rs`: rows at the places that a bitmap has
//! - `eval.rs`: expressions over a row
//! - `cast.rs`, `like.rs`, `arrays.rs`: parts of that; `functions/`: functions, by OID; `parts.rs`:
//!   functions that need a part of a value
//! - `views.rs`: rows of the computed views
//! - `measure.rs`: what operators do, for EXPLAIN ANALYZE
//! - `cursors.rs`: the row that WHERE CURRENT OF means
//! - `rowsets.rs`: functions whose result is a row, or several
//! - `catalog.rs`: the catalogs, for the planner; `names.rs`: for analysis; `tree_names.rs`: for
//!   texts of stored trees
//! - `index_expressions.rs`: expressions and predicates of indexes, for the engine
//! - `host.rs`: the engine's session and the settings, as statements reach them; `modes.rs`: the
//!   transaction's modes

mod aggregate;
mod arrays;
mod bitmap_scan;
mod cast;
mod catalog;
mod cursor;
mod cursors;
mod eval;
mod functions;
mod groups;
mod host;
mod index_expressions;
mod index_scan;
mod like;
mod loader;
mod lock;
mod measure;
mod modes;
mod modify;
mod names;
mod operator;
mod parallel;
mod parts;
mod recheck;
mod row;
mod rowsets;
mod rules;
mod scan;
mod sort;
mod spill;
mod store;
mod tree_names;
mod views;

pub use cursor::Cursor;
pub use eval::eval;
pub use functions::reg_input::oid_of;
pub use host::{Host, Identity, NamedRow};
pub use index_expressions::Compiler;
pub use loader::Loader;
pub use measure::Measures;
pub use row::{Flow, Row, Visit};
pub use rules::complete;
pub use store::RowStore;
