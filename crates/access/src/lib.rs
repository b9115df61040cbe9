#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod check;
mod codec;
mod error;
mod fsm;
pub mod heap;
mod heap_check;
mod index_build;
mod index_check;
pub mod index_scan;
mod maps;
pub mod nbtree;
pub mod redo;
mod sort;
#[cfg(test)]
mod tests;
pub mod toast;
mod vm;

pub use codec::{form_row, layout_of};
pub use error::{AccessError, RowWork};
pub use heap_check::{SkipPages, TableCheck};
pub use index_build::{BuildReport, Built, RowSource, build_index};
pub use index_check::IndexCheck;
pub use sort::SortResources;
