#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod check;
mod codec;
mod error;
mod fsm;
pub mod heap;
mod maps;
pub mod nbtree;
pub mod redo;
#[cfg(test)]
mod tests;
mod vm;

pub use codec::{form_row, layout_of};
pub use error::{AccessError, RowWork};
