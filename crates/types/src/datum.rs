//! One value.

use std::borrow::Cow;

use crate::numeric::Numeric;
use crate::oid::Oid;

/// Bytes that an allocation costs beside its content, about.
const ALLOCATION: usize = 16;

/// A value: by value, or its bytes, borrowed from a page or a message or owned. Its type is known
/// from the column or the plan ([`crate::SqlType`]); the variant is its representation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the types")]
pub enum Datum<'a> {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    /// int8; pg_lsn, of which the log has no more than 63 bits
    Int8(i64),
    Float4(f32),
    Float8(f64),
    /// oid and its aliases (regclass, regproc)
    Oid(u32),
    /// xid, cid
    Xid(u32),
    /// tid: the block of a stored row and its number there
    Tid(u32, u16),
    /// "char"
    Char(u8),
    /// text, varchar, name, unknown
    Text(Cow<'a, str>),
    Numeric(Box<Numeric>),
    /// bytea
    Bytes(Cow<'a, [u8]>),
    /// A value of a type that is only carried: the type, and the stored bytes without a length
    /// word. It comes out of a table and goes into one; nothing can compare or compute with it.
    Carried(Oid, Cow<'a, [u8]>),
    /// timestamptz, in microseconds since 2000-01-01
    Timestamptz(i64),
    /// A value that is stored out of line, its TOAST pointer; or that is compressed, as it is
    /// stored. Whoever has the session fetches the value first; any other use is an error.
    Toasted(Cow<'a, [u8]>),
}

impl<'a> Datum<'a> {
    /// The bytes of its text, where they are the client's to choose.
    pub fn text_size(&self) -> usize {
        match self {
            Datum::Text(text) => text.len(),
            Datum::Bytes(bytes) => bytes.len() * 2 + 2,
            _ => 0,
        }
    }

    /// Whether this is SQL NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// A text value that borrows.
    pub fn text(s: &'a str) -> Datum<'a> {
        Datum::Text(Cow::Borrowed(s))
    }

    /// A text value that owns.
    pub fn string(s: String) -> Datum<'static> {
        Datum::Text(Cow::Owned(s))
    }

    /// Bytes that are borrowed.
    pub fn bytes(bytes: &'a [u8]) -> Datum<'a> {
        Datum::Bytes(Cow::Borrowed(bytes))
    }

    /// A numeric value.
    pub fn numeric(n: Numeric) -> Datum<'static> {
        Datum::Numeric(Box::new(n))
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Datum<'static> {
        match self {
            Datum::Null => Datum::Null,
            Datum::Bool(v) => Datum::Bool(v),
            Datum::Int2(v) => Datum::Int2(v),
            Datum::Int4(v) => Datum::Int4(v),
            Datum::Int8(v) => Datum::Int8(v),
            Datum::Float4(v) => Datum::Float4(v),
            Datum::Float8(v) => Datum::Float8(v),
            Datum::Oid(v) => Datum::Oid(v),
            Datum::Xid(v) => Datum::Xid(v),
            Datum::Tid(block, number) => Datum::Tid(block, number),
            Datum::Char(v) => Datum::Char(v),
            Datum::Text(v) => Datum::Text(Cow::Owned(v.into_owned())),
            Datum::Numeric(v) => Datum::Numeric(v),
            Datum::Bytes(v) => Datum::Bytes(Cow::Owned(v.into_owned())),
            Datum::Carried(ty, v) => Datum::Carried(ty, Cow::Owned(v.into_owned())),
            Datum::Timestamptz(v) => Datum::Timestamptz(v),
            Datum::Toasted(v) => Datum::Toasted(Cow::Owned(v.into_owned())),
        }
    }

    /// The same value, borrowed from this one.
    pub fn reborrow(&'a self) -> Datum<'a> {
        match self {
            Datum::Text(v) => Datum::Text(Cow::Borrowed(v)),
            Datum::Bytes(v) => Datum::Bytes(Cow::Borrowed(v)),
            Datum::Carried(ty, v) => Datum::Carried(*ty, Cow::Borrowed(v)),
            Datum::Toasted(v) => Datum::Toasted(Cow::Borrowed(v)),
            other => other.clone(),
        }
    }

    /// Bytes that it has allocated, about.
    pub fn allocated(&self) -> usize {
        match self {
            Datum::Text(Cow::Owned(text)) => text.len() + ALLOCATION,
            Datum::Bytes(Cow::Owned(bytes))
            | Datum::Carried(_, Cow::Owned(bytes))
            | Datum::Toasted(Cow::Owned(bytes)) => bytes.len() + ALLOCATION,
            Datum::Numeric(number) => size_of::<Numeric>() + ALLOCATION + number.allocated(),
            _ => 0,
        }
    }

    /// The text of a text-like value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Datum::Text(v) => Some(v),
            _ => None,
        }
    }
}
