//! Statements to plans: names looked up, types settled, casts inserted.
//!
//! - `tree.rs`: plans: trees of operators; `query.rs`: analyzed queries, which become such trees
//! - `catalog.rs`: Catalog: what planning asks of its surroundings
//! - `planner.rs`: Planner: what planning works with; `ident.rs`: names as the parser gives them
//! - `select.rs`: SELECT and VALUES
//! - `from.rs`, `scope.rs`: FROM, and the names it brings
//! - `names.rs`: names of output columns
//! - `insert.rs`: INSERT
//! - `bind.rs`, `calls.rs`, `literal.rs`: expressions
//! - `place.rs`: where an expression begins and ends
//! - `expr.rs`: typed expressions
//! - `fold.rs`: constant expressions
//! - `coerce.rs`: casts, types of literals and parameters
//! - `resolve.rs`: which operator or function is meant
//! - `function.rs`, `types.rs`: calls and type names as the parser gives them
//! - `aggregate.rs`: aggregates and GROUP BY
//! - `views.rs`: columns of the computed views
//! - `rowsets.rs`: functions whose result is a row, or several

mod aggregate;
mod bind;
mod calls;
mod catalog;
mod coerce;
mod expr;
mod fold;
mod from;
mod function;
mod ident;
mod insert;
mod literal;
mod names;
mod place;
mod planner;
mod query;
mod resolve;
pub mod rowsets;
mod scope;
mod select;
mod tree;
mod types;

pub use aggregate::{AggregateCall, AggregateKind};
pub use catalog::Catalog;
pub use coerce::ParamTypes;
pub use expr::{AdvisoryLock, Arithmetic, Comparison, Expr, Function};
pub use insert::{check_left_out, live_columns, stored_type, target_columns, writable};
pub use planner::{Planner, Relation};
pub use rowsets::RowFunction;
pub use tree::{Grouping, InsertPlan, Node, SelectPlan, SortKey};
