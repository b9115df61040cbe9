//! One value.

use std::borrow::Cow;

use crate::array::Array;
use crate::inet::Inet;
use crate::interval::Interval;
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
    Int8(i64),
    Float4(f32),
    Float8(f64),
    /// oid and its aliases (regclass, regproc, regtype)
    Oid(u32),
    /// xid, cid
    Xid(u32),
    /// tid: the block of a stored row and its number there
    Tid(u32, u16),
    /// "char"
    Char(u8),
    /// text, varchar, bpchar, name, json, unknown
    Text(Cow<'a, str>),
    Numeric(Box<Numeric>),
    /// bytea
    Bytes(Cow<'a, [u8]>),
    /// A value of a type that is only carried: the type, and the stored bytes without a length
    /// word. It comes out of a table and goes into one; nothing can compare or compute with it.
    Carried(Oid, Cow<'a, [u8]>),
    /// Days since 2000-01-01; the least and the greatest number are the infinities.
    Date(i32),
    /// Microseconds since midnight, up to 24:00.
    Time(i64),
    /// timetz: microseconds since midnight, and seconds by which its zone is behind UTC
    Timetz(i64, i32),
    /// timestamp, in microseconds since 2000-01-01 00:00
    Timestamp(i64),
    /// timestamptz, in microseconds since 2000-01-01 00:00 UTC
    Timestamptz(i64),
    Interval(Interval),
    Uuid([u8; 16]),
    /// pg_lsn
    Lsn(u64),
    Xid8(u64),
    /// bit, varbit: how many bits, and their bytes, in which the last bits are zero
    Bits(u32, Cow<'a, [u8]>),
    /// jsonb, as it is stored
    Jsonb(Cow<'a, [u8]>),
    /// inet, cidr
    Inet(Inet),
    Macaddr([u8; 6]),
    Macaddr8([u8; 8]),
    /// An array of any type; int2vector, oidvector
    Array(Array<'a>),
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
            Datum::Bits(len, _) => *len as usize,
            // Rather more than less.
            Datum::Jsonb(bytes) => bytes.len() * 2,
            Datum::Array(array) => array.bytes().len() * 2,
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
            Datum::Date(v) => Datum::Date(v),
            Datum::Time(v) => Datum::Time(v),
            Datum::Timetz(v, zone) => Datum::Timetz(v, zone),
            Datum::Timestamp(v) => Datum::Timestamp(v),
            Datum::Timestamptz(v) => Datum::Timestamptz(v),
            Datum::Interval(v) => Datum::Interval(v),
            Datum::Uuid(v) => Datum::Uuid(v),
            Datum::Lsn(v) => Datum::Lsn(v),
            Datum::Xid8(v) => Datum::Xid8(v),
            Datum::Bits(len, v) => Datum::Bits(len, Cow::Owned(v.into_owned())),
            Datum::Jsonb(v) => Datum::Jsonb(Cow::Owned(v.into_owned())),
            Datum::Inet(v) => Datum::Inet(v),
            Datum::Macaddr(v) => Datum::Macaddr(v),
            Datum::Macaddr8(v) => Datum::Macaddr8(v),
            Datum::Array(v) => Datum::Array(v.into_owned()),
            Datum::Toasted(v) => Datum::Toasted(Cow::Owned(v.into_owned())),
        }
    }

    /// The same value, borrowed from this one.
    pub fn reborrow(&'a self) -> Datum<'a> {
        match self {
            Datum::Text(v) => Datum::Text(Cow::Borrowed(v)),
            Datum::Bytes(v) => Datum::Bytes(Cow::Borrowed(v)),
            Datum::Carried(ty, v) => Datum::Carried(*ty, Cow::Borrowed(v)),
            Datum::Bits(len, v) => Datum::Bits(*len, Cow::Borrowed(v)),
            Datum::Jsonb(v) => Datum::Jsonb(Cow::Borrowed(v)),
            Datum::Array(v) => Datum::Array(v.reborrow()),
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
            | Datum::Bits(_, Cow::Owned(bytes))
            | Datum::Jsonb(Cow::Owned(bytes))
            | Datum::Toasted(Cow::Owned(bytes)) => bytes.len() + ALLOCATION,
            Datum::Array(array) => array.allocated(ALLOCATION),
            Datum::Numeric(number) => size_of::<Numeric>() + ALLOCATION + number.allocated(),
            _ => 0,
        }
    }

    /// The bytes of a value that is stored with a length word and that this crate keeps as it is
    /// stored: an array, jsonb, one of a type that is only carried.
    pub fn stored_bytes(&self) -> Option<&[u8]> {
        match self {
            Datum::Array(array) => Some(array.bytes()),
            Datum::Jsonb(bytes) | Datum::Carried(_, bytes) => Some(bytes),
            _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_no_larger_than_a_type_and_a_vector() {
        assert_eq!(size_of::<Datum<'_>>(), 32);
        assert_eq!(size_of::<Option<Datum<'_>>>(), 32);
    }
}
