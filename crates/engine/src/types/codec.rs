//! Values to and from their bytes in a row.
//!
//! The bytes are those after a varlena's length word, or the fixed-length image; `format` lays them out in a tuple.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::{Datum, Oid, oids};
use crate::error::EngineError;

/// How a type's bytes become a [`Datum`]. Types the engine only carries are `Raw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repr {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Oid,
    Xid,
    Char,
    Name,
    Text,
    Raw,
}

/// Bytes of a name, its terminating zero included.
pub(crate) const NAME_LEN: usize = 64;

impl Repr {
    /// The representation of a type's values.
    pub(crate) fn of(type_oid: Oid) -> Repr {
        match type_oid {
            oids::BOOL => Repr::Bool,
            oids::INT2 => Repr::Int2,
            oids::INT4 => Repr::Int4,
            oids::INT8 => Repr::Int8,
            oids::FLOAT4 => Repr::Float4,
            oids::FLOAT8 => Repr::Float8,
            oids::OID | oids::REGPROC => Repr::Oid,
            oids::XID | oids::CID => Repr::Xid,
            oids::CHAR => Repr::Char,
            oids::NAME => Repr::Name,
            oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::PG_NODE_TREE => Repr::Text,
            _ => Repr::Raw,
        }
    }

    /// The value in these bytes.
    pub(crate) fn decode<'a>(self, bytes: &'a [u8]) -> Result<Datum<'a>, EngineError> {
        Ok(match self {
            Repr::Bool => Datum::Bool(fixed::<1>(bytes)? != [0]),
            Repr::Int2 => Datum::Int2(i16::from_le_bytes(fixed(bytes)?)),
            Repr::Int4 => Datum::Int4(i32::from_le_bytes(fixed(bytes)?)),
            Repr::Int8 => Datum::Int8(i64::from_le_bytes(fixed(bytes)?)),
            Repr::Float4 => Datum::Float4(f32::from_le_bytes(fixed(bytes)?)),
            Repr::Float8 => Datum::Float8(f64::from_le_bytes(fixed(bytes)?)),
            Repr::Oid => Datum::Oid(u32::from_le_bytes(fixed(bytes)?)),
            Repr::Xid => Datum::Xid(u32::from_le_bytes(fixed(bytes)?)),
            Repr::Char => Datum::Char(u8::from_le_bytes(fixed(bytes)?)),
            Repr::Name => {
                let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
                Datum::Name(utf8(bytes.get(..end).unwrap_or(bytes))?)
            }
            Repr::Text => Datum::Text(utf8(bytes)?),
            Repr::Raw => Datum::Bytes(bytes),
        })
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], EngineError> {
    bytes
        .try_into()
        .map_err(|_| EngineError::corrupt(format!("a value has {} bytes instead of {N}", bytes.len())))
}

fn utf8(bytes: &[u8]) -> Result<&str, EngineError> {
    std::str::from_utf8(bytes).map_err(|e| {
        let at = bytes.get(e.valid_up_to()..).unwrap_or_default();
        let bad = at.iter().take(e.error_len().unwrap_or(at.len())).map(|b| format!(" 0x{b:02x}"));
        EngineError::statement(
            "22021",
            format!("invalid byte sequence for encoding \"UTF8\":{}", bad.collect::<String>()),
        )
    })
}

/// Room for the bytes of values that a [`Datum`] does not hold in their stored form.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    fixed: Vec<[u8; 8]>,
    names: Vec<[u8; NAME_LEN]>,
}

/// Where a value's stored bytes are.
enum Place<'a> {
    Null,
    Fixed(usize, usize),
    Name(usize),
    Borrowed(&'a [u8]),
}

impl Scratch {
    /// Gives the stored bytes of `values` to `take`, NULL as None.
    pub(crate) fn with_bytes<R>(
        &mut self,
        values: &[Datum<'_>],
        take: impl FnOnce(&[Option<&[u8]>]) -> R,
    ) -> R {
        self.fixed.clear();
        self.names.clear();
        let mut places: smallvec::SmallVec<[Place<'_>; 16]> = smallvec::SmallVec::with_capacity(values.len());
        for value in values {
            let place = self.place(value);
            places.push(place);
        }
        let bytes: smallvec::SmallVec<[Option<&[u8]>; 16]> = places
            .iter()
            .map(|place| match place {
                Place::Null => None,
                Place::Fixed(index, len) => self.fixed.get(*index).and_then(|b| b.get(..*len)),
                Place::Name(index) => self.names.get(*index).map(|b| b.as_slice()),
                Place::Borrowed(b) => Some(*b),
            })
            .collect();
        take(&bytes)
    }

    fn place<'a>(&mut self, value: &Datum<'a>) -> Place<'a> {
        match *value {
            Datum::Null => Place::Null,
            Datum::Bool(v) => self.fixed([u8::from(v)]),
            Datum::Int2(v) => self.fixed(v.to_le_bytes()),
            Datum::Int4(v) => self.fixed(v.to_le_bytes()),
            Datum::Int8(v) => self.fixed(v.to_le_bytes()),
            Datum::Float4(v) => self.fixed(v.to_le_bytes()),
            Datum::Float8(v) => self.fixed(v.to_le_bytes()),
            Datum::Oid(v) | Datum::Xid(v) => self.fixed(v.to_le_bytes()),
            Datum::Char(v) => self.fixed([v]),
            Datum::Name(v) => {
                let mut padded = [0; NAME_LEN];
                let room = padded.iter_mut().take(NAME_LEN - 1);
                room.zip(v.bytes()).for_each(|(to, from)| *to = from);
                self.names.push(padded);
                Place::Name(self.names.len() - 1)
            }
            Datum::Text(v) => Place::Borrowed(v.as_bytes()),
            Datum::Bytes(v) => Place::Borrowed(v),
        }
    }

    fn fixed<'a, const N: usize>(&mut self, bytes: [u8; N]) -> Place<'a> {
        let mut slot = [0; 8];
        slot.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        self.fixed.push(slot);
        Place::Fixed(self.fixed.len() - 1, N)
    }
}

/// Whether a value may be stored in a column of this representation.
pub(crate) fn fits(repr: Repr, value: &Datum<'_>) -> bool {
    matches!(
        (repr, value),
        (_, Datum::Null)
            | (Repr::Bool, Datum::Bool(_))
            | (Repr::Int2, Datum::Int2(_))
            | (Repr::Int4, Datum::Int4(_))
            | (Repr::Int8, Datum::Int8(_))
            | (Repr::Float4, Datum::Float4(_))
            | (Repr::Float8, Datum::Float8(_))
            | (Repr::Oid, Datum::Oid(_))
            | (Repr::Xid, Datum::Xid(_))
            | (Repr::Char, Datum::Char(_))
            | (Repr::Name, Datum::Name(_))
            | (Repr::Text, Datum::Text(_))
            | (Repr::Raw, Datum::Bytes(_))
    )
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn values_survive_their_stored_form() {
        let values = [
            (oids::BOOL, Datum::Bool(true)),
            (oids::INT2, Datum::Int2(-2)),
            (oids::INT4, Datum::Int4(i32::MIN)),
            (oids::INT8, Datum::Int8(i64::MAX)),
            (oids::FLOAT4, Datum::Float4(-0.5)),
            (oids::FLOAT8, Datum::Float8(1e300)),
            (oids::OID, Datum::Oid(u32::MAX)),
            (oids::XID, Datum::Xid(3)),
            (oids::CHAR, Datum::Char(b'r')),
            (oids::NAME, Datum::Name("relname")),
            (oids::TEXT, Datum::Text("grün")),
            (oids::TID, Datum::Bytes(b"\0\0\x01\0\x02\0")),
            (oids::TEXT, Datum::Null),
        ];
        let datums: Vec<Datum<'_>> = values.iter().map(|v| v.1).collect();
        Scratch::default().with_bytes(&datums, |bytes| {
            for ((oid, datum), stored) in values.iter().zip(bytes) {
                let repr = Repr::of(*oid);
                assert!(fits(repr, datum));
                let back = stored.map_or(Ok(Datum::Null), |b| repr.decode(b)).expect("decode");
                assert_eq!(back, *datum);
            }
        });
    }

    #[test]
    fn bad_bytes_are_errors() {
        assert_eq!(Repr::Int4.decode(b"abc").expect_err("short").sqlstate(), "XX001");
        let error = Repr::Text.decode(b"ab\xff").expect_err("not UTF-8");
        assert_eq!(error.sqlstate(), "22021");
        assert_eq!(error.to_string(), "invalid byte sequence for encoding \"UTF8\": 0xff");
    }

    #[test]
    fn a_long_name_is_cut_at_63_bytes() {
        let long = "x".repeat(80);
        Scratch::default().with_bytes(&[Datum::Name(&long)], |bytes| {
            assert_eq!(Repr::Name.decode(bytes[0].expect("bytes")).expect("name"), Datum::Name(&long[..63]));
        });
    }
}
