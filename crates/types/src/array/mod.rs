//! Arrays: of any number of dimensions up to six, each with its lower bound, and with NULLs.
//!
//! - [`value`]: an array as it is stored, and the making of one
//! - [`text`]: the words and braces of the text form

pub(crate) mod text;
pub(crate) mod value;

pub use value::{Array, Dim, MAX_DIMENSIONS, RawElements, Shape};
