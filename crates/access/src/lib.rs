#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod analyze_progress;
pub mod check;
pub mod cluster_progress;
mod codec;
mod error;
mod fsm;
pub mod heap;
mod heap_check;
mod index_build;
mod index_check;
mod index_expressions;
pub mod index_scan;
mod index_validate;
mod maps;
pub mod nbtree;
pub mod progress;
pub mod redo;
mod rewrite;
pub mod sequence;
mod sort;
#[cfg(test)]
mod tests;
pub mod toast;
pub mod vacuum_progress;
mod vm;

pub use codec::{form_row, layout_of};
pub use error::{AccessError, ExpressionError, RowWork};
pub use heap_check::{SkipPages, TableCheck};
pub use index_build::{BuildReport, Built, RowSource, build_index};
pub use index_check::IndexCheck;
pub use index_expressions::{ComputedEntries, EntrySource, IndexExpressions, StoredValues};
pub use index_validate::{MissingRow, RowsInIndex, add_missing};
pub use rewrite::{Rewrite, RewriteReport, RewrittenColumns};
pub use sort::SortResources;
