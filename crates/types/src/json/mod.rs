//! JSON: texts that are checked, and the stored form of jsonb.
//!
//! - [`parse`]:  a text to a tree that knows where each value stands
//! - [`value`]:  the tree of a jsonb; its text
//! - [`stored`]: a tree to jsonb's stored form and back
//! - [`order`]:  the B-tree's order

pub mod order;
pub mod parse;
pub mod stored;
pub mod value;

pub use parse::{Kind, Node, parse};
pub use value::Json;
