//! Statements to plans: names looked up, types settled, casts inserted.
//!
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
pub(crate) mod bind;
mod calls;
mod coerce;
mod expr;
mod fold;
mod from;
mod function;
mod insert;
mod literal;
mod names;
mod place;
mod resolve;
mod rowsets;
mod scope;
mod select;
mod types;
mod views;

pub use aggregate::{AggregateCall, AggregateKind};
pub use coerce::ParamTypes;
pub use expr::{Arithmetic, Comparison, Expr, Function};
pub use from::Relation;
pub use insert::{
    InsertPlan, InsertSource, check_left_out, live_columns, stored_type, target_columns, writable,
};
pub use rowsets::RowFunction;
pub use select::{Grouping, Planner, RowSource, SelectPlan, SortKey};
pub use views::View;
