#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod array;
mod array_items;
mod binary;
mod bits;
mod compare;
pub mod datetime;
mod datum;
mod digits;
mod encoded;
mod encoding;
mod error;
mod facts;
mod float;
pub mod functions;
mod inet;
mod input;
mod interval;
pub mod json;
mod length;
mod network;
mod numeric;
mod numeric_math;
mod oid;
mod output;
mod packed;
mod sqltype;
mod stored;
mod style;
mod text_order;
pub mod time;
mod typmod;
mod uuid;

pub use array::{Array, Dim, MAX_DIMENSIONS, RawElements, Shape};
pub use binary::{binary_in, binary_out, is_text_in_binary};
pub use compare::{compare, compare_as, compare_by};
pub use datetime::typmod::IntervalFields;
pub use datetime::zone::{Zone, ZoneInfo};
pub use datum::Datum;
pub use encoding::{Encoding, NAME_LEN};
pub use error::ValueError;
pub use facts::{Repr, TypeInfo, all_types, type_by_name, type_info, type_name};
pub use inet::Inet;
pub use input::{array_elements, float4_in, float8_in, int_in, text_in, text_in_as};
pub use interval::Interval;
pub use length::{
    HEADER, MAX_ALLOC, check_alloc, check_enlarge, enlarge, out_of_memory, push_repeated, text_of,
};
pub use numeric::Numeric;
pub use oid::{Oid, oids};
pub use output::{array_text, text_out, text_out_as, to_text, to_text_as};
pub use packed::{pack, pack_key, pack_key_as, unpack};
pub use sqltype::SqlType;
pub use style::{ByteaOutput, DateFormat, DateOrder, IntervalStyle, ObjectNames, TextStyle};
pub use text_order::TextOrder;
pub use typmod::{coerce, format_type, typmod_in, typmod_out};
