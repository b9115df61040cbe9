//! Values to and from their bytes in a row.
//!
//! The bytes are those after a varlena's length word, or the fixed-length image; `format` lays them
//! out in a tuple.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::AttrLayout;
use forebay_format::tuple::{TupleBuilder, TupleError};

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
    bytes.try_into().map_err(|_| {
        EngineError::corrupt(format!("a value has {} bytes instead of {N}", bytes.len()))
    })
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

/// Appends the tuple of a row to `out`; its length. After an error `out` is as it was.
pub(crate) fn form_row(
    layouts: &[AttrLayout],
    values: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<usize, TupleError> {
    if layouts.len() != values.len() {
        return Err(TupleError::WrongCount { values: values.len(), layouts: layouts.len() });
    }
    let start = out.len();
    let mut tuple = TupleBuilder::new(values.len(), values.iter().any(Datum::is_null), out)?;
    for (layout, value) in layouts.iter().zip(values) {
        if let Err(error) = append(&mut tuple, *layout, value) {
            out.truncate(start);
            return Err(error);
        }
    }
    tuple.finish()
}

#[inline]
fn append(
    tuple: &mut TupleBuilder<'_>,
    layout: AttrLayout,
    value: &Datum<'_>,
) -> Result<(), TupleError> {
    match *value {
        Datum::Null => {
            tuple.null();
            Ok(())
        }
        Datum::Bool(v) => tuple.fixed(layout, [u8::from(v)]),
        Datum::Int2(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Int4(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Int8(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Float4(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Float8(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Oid(v) | Datum::Xid(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Char(v) => tuple.fixed(layout, [v]),
        Datum::Name(v) => {
            let mut padded = [0; NAME_LEN];
            let room = padded.iter_mut().take(NAME_LEN - 1);
            room.zip(v.bytes()).for_each(|(to, from)| *to = from);
            tuple.fixed(layout, padded)
        }
        Datum::Text(v) => tuple.value(layout, v.as_bytes()),
        Datum::Bytes(v) => tuple.value(layout, v),
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
    use crate::types::layout_of;
    use forebay_format::tuple::HeapTuple;

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
        for ((oid, datum), stored) in values.iter().zip(stored(&values.map(|v| v.0), &datums)) {
            let repr = Repr::of(*oid);
            assert!(fits(repr, datum));
            let back =
                stored.as_deref().map_or(Ok(Datum::Null), |b| repr.decode(b)).expect("decode");
            assert_eq!(back, *datum);
        }
    }

    /// The values' bytes in a tuple of these types.
    fn stored(types: &[Oid], values: &[Datum<'_>]) -> Vec<Option<Vec<u8>>> {
        let layouts: Vec<AttrLayout> =
            types.iter().map(|t| layout_of(*t).expect("a type")).collect();
        let mut tuple = Vec::new();
        form_row(&layouts, values, &mut tuple).expect("a row");
        let mut bytes = vec![None; values.len()];
        let tuple = HeapTuple::new(&tuple).expect("a tuple");
        forebay_format::tuple::deform(tuple, &layouts, &mut bytes).expect("its values");
        bytes.into_iter().map(|b| b.map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn a_row_is_what_the_bytes_of_its_values_make() {
        let layouts = [AttrLayout::BYTE, AttrLayout::INT8, AttrLayout::VARLENA, AttrLayout::INT2];
        for null in [None, Some(1), Some(2)] {
            let mut values =
                [Datum::Bool(true), Datum::Int8(-5), Datum::Text("abc"), Datum::Int2(300)];
            let mut bytes: [Option<Vec<u8>>; 4] = [
                Some(vec![1]),
                Some((-5i64).to_le_bytes().to_vec()),
                Some(b"abc".to_vec()),
                Some(300i16.to_le_bytes().to_vec()),
            ];
            if let Some(n) = null {
                values[n] = Datum::Null;
                bytes[n] = None;
            }
            let bytes: Vec<Option<&[u8]>> = bytes.iter().map(Option::as_deref).collect();
            let mut row = b"before".to_vec();
            let len = form_row(&layouts, &values, &mut row).expect("a row");
            let want = forebay_format::tuple::form_tuple(&layouts, &bytes).expect("a tuple");
            assert_eq!((&row[6..], len), (want.as_slice(), want.len()));
        }
    }

    #[test]
    fn a_value_of_another_length_leaves_nothing() {
        let mut out = b"before".to_vec();
        let layouts = [AttrLayout::INT4, AttrLayout::INT8];
        form_row(&layouts, &[Datum::Int4(1), Datum::Int4(1)], &mut out).expect_err("4 bytes for 8");
        assert_eq!(out, b"before");
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
        let bytes = stored(&[oids::NAME], &[Datum::Name(&long)]);
        let name = Repr::Name.decode(bytes[0].as_deref().expect("bytes")).expect("name");
        assert_eq!(name, Datum::Name(&long[..63]));
    }
}
