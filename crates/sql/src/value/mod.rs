//! Values: types, input and output in text and binary.
//!
//! - `types.rs`: SqlType: the types this server knows, their OIDs and facts
//! - `datum.rs`: Datum: a value; comparison
//! - `numeric.rs`: Numeric: decimals of any size, with PostgreSQL's scales
//! - `float.rs`: floats in text
//! - `input.rs`: text to value
//! - `output.rs`: value to text
//! - `binary.rs`: the binary form, both ways

mod binary;
mod datum;
pub(crate) mod float;
mod input;
pub mod numeric;
pub(crate) mod output;
mod types;

pub use binary::{BinaryDefect, binary_in, binary_out, checked_utf8};
pub use datum::{Datum, compare};
pub use input::{float4_in, float8_in, int_in, invalid_input, text_in, truncate_name};
pub use numeric::Numeric;
pub use output::{text_out, to_text};
pub use types::SqlType;
