//! Values: types, input and output in text and binary.
//!
//!     types.rs        SqlType: the types this server knows, their OIDs and facts

mod types;

pub use types::SqlType;

use crate::error::Result;
use std::borrow::Cow;

/// A value of one of the supported types.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the types")]
pub enum Datum<'a> {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    Oid(u32),
    Char(u8),
    Text(Cow<'a, str>),
}

impl Datum<'_> {
    /// Is it NULL?
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}

/// Appends the text form.
pub fn text_out(_value: &Datum<'_>, _ty: SqlType, _out: &mut Vec<u8>) -> Result<()> {
    Ok(())
}

/// Appends the binary form.
pub fn binary_out(_value: &Datum<'_>, _ty: SqlType, _out: &mut Vec<u8>) -> Result<()> {
    Ok(())
}
