//! Expressions, analyzed by PostgreSQL's rules: names, types, overloads and casts are looked up in
//! the catalogs. What comes out has the shape of PostgreSQL's node trees ([`Expr`]).
//!
//! - `lookups.rs`: Names: what analysis asks of the catalogs
//! - `typed.rs`: an analyzed expression, and the making of nodes
//! - `scope.rs`: the columns that names mean; `system.rs`: system columns
//! - `params.rs`: parameters, whose types are found on the way
//! - `bind.rs`: the parser's expressions; `tests.rs`: those that are true, false or unknown;
//!   `lists.rs`: IN, ANY, ALL and rows; `arrays.rs`: ARRAY\[...\] and subscripts; `syntax.rs`:
//!   functions with a syntax of their own; `literal.rs`: numbers
//! - `calls.rs`: functions and aggregates; `arguments.rs`: arguments that are named or left out;
//!   `operators.rs`: operators; `candidates.rs`: which of several is meant
//! - `polymorphic.rs`: polymorphic types; `generic.rs`: what they mean in a call
//! - `coerce.rs`: casts; `context.rs`: what asks for them; `pathway.rs`: how one type becomes
//!   another; `common.rs`: the common type of alternatives
//! - `types.rs`: type names with modifiers; `type_names.rs`: types in messages
//! - `collate.rs`: collations
//! - `names.rs`: names of output columns
//! - `function.rs`, `ident.rs`: calls and names as the parser gives them; `place.rs`: where an
//!   expression begins and ends

mod arguments;
mod arrays;
mod bind;
mod calls;
mod candidates;
mod coerce;
mod collate;
mod common;
mod context;
mod function;
mod generic;
mod ident;
mod lists;
mod literal;
mod lookups;
mod names;
mod operators;
mod params;
mod pathway;
mod place;
mod polymorphic;
mod scope;
mod syntax;
mod system;
mod tests;
mod type_names;
mod typed;
mod types;

pub use bind::{AggregateArgs, Aggregated, Binder};
pub use calls::{IN_FROM, NO_FUNCTION, NOT_UNIQUE};
pub use coerce::{coerce, coerce_to_type};
pub use collate::{
    assign_collations, assign_key_collations, collation_for, collation_named, common_collation,
};
pub use common::coerce_all;
pub use context::Context;
pub use function::{FunctionCall, is_row};
pub use ident::{ident_name, qualified_name};
pub use lists::is_ordered;
pub use lookups::{Names, SearchPath};
pub use names::{column_name, figured_name};
pub use params::ParamTypes;
pub use place::start;
pub use scope::{EXCLUDED, Scope, ScopeColumn};
pub use system::SystemColumn;
pub use type_names::type_name;
pub use typed::{AGGREGATES, Typed};
pub use types::{NamedType, type_of_name};
