//! A value in flight: borrowed from a row where it can be, owned where it was computed.

use super::numeric::Numeric;
use forebay_engine::Datum as Stored;
use std::borrow::Cow;

/// A value of one of the supported types. The static type ([`super::SqlType`]) is known from the
/// plan; the variant is its representation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the types")]
pub enum Datum<'a> {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    /// int8; pg_lsn, of which the engine has no more than 63 bits
    Int8(i64),
    Float4(f32),
    Float8(f64),
    /// oid and its aliases (regclass, regproc)
    Oid(u32),
    /// xid, cid
    Xid(u32),
    /// "char"
    Char(u8),
    /// text, varchar, name, unknown
    Text(Cow<'a, str>),
    Numeric(Box<Numeric>),
    /// Types that are only carried.
    Bytes(Cow<'a, [u8]>),
    /// timestamptz, in microseconds since 2000-01-01
    Timestamptz(i64),
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

    /// Is it NULL?
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
            Datum::Char(v) => Datum::Char(v),
            Datum::Text(v) => Datum::Text(Cow::Owned(v.into_owned())),
            Datum::Numeric(v) => Datum::Numeric(v),
            Datum::Bytes(v) => Datum::Bytes(Cow::Owned(v.into_owned())),
            Datum::Timestamptz(v) => Datum::Timestamptz(v),
        }
    }

    /// The same value, borrowed from this one.
    pub fn reborrow(&'a self) -> Datum<'a> {
        match self {
            Datum::Text(v) => Datum::Text(Cow::Borrowed(v)),
            Datum::Bytes(v) => Datum::Bytes(Cow::Borrowed(v)),
            Datum::Null => Datum::Null,
            Datum::Bool(v) => Datum::Bool(*v),
            Datum::Int2(v) => Datum::Int2(*v),
            Datum::Int4(v) => Datum::Int4(*v),
            Datum::Int8(v) => Datum::Int8(*v),
            Datum::Float4(v) => Datum::Float4(*v),
            Datum::Float8(v) => Datum::Float8(*v),
            Datum::Oid(v) => Datum::Oid(*v),
            Datum::Xid(v) => Datum::Xid(*v),
            Datum::Char(v) => Datum::Char(*v),
            Datum::Numeric(v) => Datum::Numeric(v.clone()),
            Datum::Timestamptz(v) => Datum::Timestamptz(*v),
        }
    }

    /// A value as the engine reads it.
    pub fn from_stored(stored: Stored<'a>) -> Datum<'a> {
        match stored {
            Stored::Null => Datum::Null,
            Stored::Bool(v) => Datum::Bool(v),
            Stored::Int2(v) => Datum::Int2(v),
            Stored::Int4(v) => Datum::Int4(v),
            Stored::Int8(v) => Datum::Int8(v),
            Stored::Float4(v) => Datum::Float4(v),
            Stored::Float8(v) => Datum::Float8(v),
            Stored::Oid(v) => Datum::Oid(v),
            Stored::Xid(v) => Datum::Xid(v),
            Stored::Char(v) => Datum::Char(v),
            Stored::Name(v) | Stored::Text(v) => Datum::Text(Cow::Borrowed(v)),
            Stored::Bytes(v) => Datum::Bytes(Cow::Borrowed(v)),
        }
    }

    /// The value as the engine stores it; types the engine cannot store become NULL (the planner
    /// has refused such columns before).
    pub fn to_stored(&self) -> Stored<'_> {
        match self {
            Datum::Null | Datum::Numeric(_) => Stored::Null,
            Datum::Bool(v) => Stored::Bool(*v),
            Datum::Int2(v) => Stored::Int2(*v),
            Datum::Int4(v) => Stored::Int4(*v),
            Datum::Int8(v) | Datum::Timestamptz(v) => Stored::Int8(*v),
            Datum::Float4(v) => Stored::Float4(*v),
            Datum::Float8(v) => Stored::Float8(*v),
            Datum::Oid(v) => Stored::Oid(*v),
            Datum::Xid(v) => Stored::Xid(*v),
            Datum::Char(v) => Stored::Char(*v),
            Datum::Text(v) => Stored::Text(v),
            Datum::Bytes(v) => Stored::Bytes(v),
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

/// Orders two values of the same type as a btree does; NaN is greater than all numbers and equal to
/// itself. Neither may be NULL. Values of different variants (a planner's bug) are equal.
pub fn compare(a: &Datum<'_>, b: &Datum<'_>) -> std::cmp::Ordering {
    use std::cmp::Ordering::Equal;
    match (a, b) {
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Int2(a), Datum::Int2(b)) => a.cmp(b),
        (Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b)) | (Datum::Timestamptz(a), Datum::Timestamptz(b)) => {
            a.cmp(b)
        }
        (Datum::Float4(a), Datum::Float4(b)) => compare_floats(f64::from(*a), f64::from(*b)),
        (Datum::Float8(a), Datum::Float8(b)) => compare_floats(*a, *b),
        (Datum::Oid(a), Datum::Oid(b)) | (Datum::Xid(a), Datum::Xid(b)) => a.cmp(b),
        (Datum::Char(a), Datum::Char(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        _ => Equal,
    }
}

fn compare_floats(a: f64, b: f64) -> std::cmp::Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
