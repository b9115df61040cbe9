#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
pub mod heap;
pub mod redo;
#[cfg(test)]
mod tests;
mod vm;

pub use error::AccessError;
