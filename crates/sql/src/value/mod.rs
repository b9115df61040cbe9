//! Values: types, input and output in text and binary.
//!
//! - `types.rs`: SqlType: the types this server knows, their OIDs and facts
//! - `datum.rs`: Datum: a value; comparison
//! - `numeric.rs`: Numeric: decimals of any size, with PostgreSQL's scales
//! - `float.rs`: floats in text
//! - `input.rs`: text to value
//! - `output.rs`: value to text
//! - `binary.rs`: the binary form, both ways
//! - `length.rs`: how long values, lines and rows may be

mod binary;
mod datum;
pub(crate) mod float;
mod input;
mod length;
pub mod numeric;
pub(crate) mod output;
mod types;

pub use binary::{BinaryDefect, binary_in, binary_out, checked_utf8};
pub use datum::{Datum, compare};
pub use input::{float4_in, float8_in, int_in, invalid_input, text_in, truncate_name};
pub use length::{HEADER, MAX_ALLOC, check_enlarge, enlarge, out_of_memory, text_of};
pub use numeric::Numeric;
pub use output::{text_out, to_text};
pub use types::SqlType;
