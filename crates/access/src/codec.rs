//! Forms tuples of rows of values.
//!
//! The stored bytes of a value are its fixed-length image, or what follows a varlena's length word.
//! `format` lays them out in a tuple.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::tuple::{TupleBuilder, TupleError};
use forebay_format::varlena::{Varlena, decode};
use forebay_format::{Align, AttrLayout};
use forebay_types::{Datum, Encoding, NAME_LEN, Oid, ValueError, type_info};

/// How a type's values lie in a row. None if the type is not known.
pub fn layout_of(oid: Oid) -> Option<AttrLayout> {
    let info = type_info(oid)?;
    let align = Align::from_code(info.align).expect("the alignment of a known type");
    Some(AttrLayout { len: info.len, align, by_val: info.by_val, plain: info.storage == b'p' })
}

/// Appends the tuple of a row, with texts in an encoding, to `out`. Returns its length. After an
/// error `out` is as it was.
///
/// # Panics
/// If a value has no stored form: the caller has asked `Repr::accepts`.
pub fn form_row(
    layouts: &[AttrLayout],
    values: &[Datum<'_>],
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<usize, TupleError> {
    if layouts.len() != values.len() {
        return Err(TupleError::WrongCount { values: values.len(), layouts: layouts.len() });
    }
    let start = out.len();
    let mut tuple = TupleBuilder::new(values.len(), values.iter().any(Datum::is_null), out)?;
    for (layout, value) in layouts.iter().zip(values) {
        if let Err(error) = append(&mut tuple, *layout, value, encoding) {
            out.truncate(start);
            return Err(error);
        }
    }
    tuple.finish()
}

/// Appends one value to a tuple.
#[inline]
pub(crate) fn append(
    tuple: &mut TupleBuilder<'_>,
    layout: AttrLayout,
    value: &Datum<'_>,
    encoding: Encoding,
) -> Result<(), TupleError> {
    match value {
        Datum::Null => {
            tuple.null();
            Ok(())
        }
        Datum::Bool(v) => tuple.fixed(layout, [u8::from(*v)]),
        Datum::Int2(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Int4(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Int8(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Float4(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Float8(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Oid(v) | Datum::Xid(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Tid(block, number) => {
            // A block's number is stored as two halves, the higher one first.
            let ([a, b, c, d], [e, f]) = (block.to_le_bytes(), number.to_le_bytes());
            tuple.fixed(layout, [c, d, a, b, e, f])
        }
        Datum::Char(v) => tuple.fixed(layout, [*v]),
        Datum::Text(v) if layout.len == NAME_LEN as i16 => {
            tuple.fixed(layout, padded_name(v, encoding)?)
        }
        Datum::Text(v) => tuple.value(layout, &encoding.encode(v).map_err(unstorable)?),
        Datum::Timestamptz(v) | Datum::Timestamp(v) | Datum::Time(v) => {
            tuple.fixed(layout, v.to_le_bytes())
        }
        Datum::Date(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Lsn(v) | Datum::Xid8(v) => tuple.fixed(layout, v.to_le_bytes()),
        Datum::Uuid(v) => tuple.fixed(layout, *v),
        Datum::Macaddr(v) => tuple.fixed(layout, *v),
        Datum::Macaddr8(v) => tuple.fixed(layout, *v),
        Datum::Bytes(v) | Datum::Carried(_, v) => tuple.value(layout, v),
        Datum::Jsonb(_)
        | Datum::Array(_)
        | Datum::Timetz(..)
        | Datum::Interval(_)
        | Datum::Bits(..)
        | Datum::Inet(_) => {
            tuple.value(layout, &value.to_stored(layout.len, encoding).map_err(unstorable)?)
        }
        Datum::Numeric(v) => tuple.value(layout, &v.to_stored()),
        Datum::Toasted(v) => match decode(v) {
            Some((stored @ (Varlena::External(_) | Varlena::Compressed { .. }), _)) => {
                tuple.varlena(layout, stored)
            }
            _ => unreachable!("{value:?} is neither compressed nor elsewhere"),
        },
    }
}

/// A stored name: its first 63 bytes at most, then zeros.
fn padded_name(name: &str, encoding: Encoding) -> Result<[u8; NAME_LEN], TupleError> {
    let mut padded = [0; NAME_LEN];
    let bytes = encoding.encode(encoding.truncate_name(name)).map_err(unstorable)?;
    padded.iter_mut().zip(bytes.iter()).for_each(|(to, from)| *to = *from);
    Ok(padded)
}

/// The error of a text that cannot be stored in the database's encoding.
#[cold]
fn unstorable(error: ValueError) -> TupleError {
    TupleError::Unstorable { why: error.to_string() }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "tests may panic")]
mod tests {
    use forebay_format::tuple::HeapTuple;
    use forebay_types::{Repr, oids};

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
            (oids::NAME, Datum::text("relname")),
            (oids::TEXT, Datum::text("grün")),
            (oids::TIMESTAMPTZ, Datum::Timestamptz(-1)),
            (oids::BYTEA, Datum::bytes(&[0, 255])),
            (oids::TID, Datum::Tid(0x0001_0002, 3)),
            (oids::TEXT, Datum::Null),
        ];
        let datums: Vec<Datum<'_>> = values.iter().map(|v| v.1.clone()).collect();
        let types = values.each_ref().map(|v| v.0);
        for ((oid, datum), stored) in values.iter().zip(stored(&types, &datums)) {
            let repr = Repr::of(*oid);
            assert!(repr.accepts(datum));
            let back = stored
                .as_deref()
                .map_or(Ok(Datum::Null), |b| repr.decode(b, Encoding::Utf8))
                .expect("a value");
            assert_eq!(back, *datum);
        }
    }

    /// The values' bytes in a tuple of these types.
    fn stored(types: &[Oid], values: &[Datum<'_>]) -> Vec<Option<Vec<u8>>> {
        let layouts: Vec<AttrLayout> =
            types.iter().map(|t| layout_of(*t).expect("a type")).collect();
        let mut tuple = Vec::new();
        form_row(&layouts, values, Encoding::Utf8, &mut tuple).expect("a row");
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
                [Datum::Bool(true), Datum::Int8(-5), Datum::text("abc"), Datum::Int2(300)];
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
            let len = form_row(&layouts, &values, Encoding::Utf8, &mut row).expect("a row");
            let want = forebay_format::tuple::form_tuple(&layouts, &bytes).expect("a tuple");
            assert_eq!((&row[6..], len), (want.as_slice(), want.len()));
        }
    }

    #[test]
    fn a_value_of_another_length_leaves_nothing() {
        let mut out = b"before".to_vec();
        let layouts = [AttrLayout::INT4, AttrLayout::INT8];
        let values = [Datum::Int4(1), Datum::Int4(1)];
        form_row(&layouts, &values, Encoding::Utf8, &mut out).expect_err("4 bytes for 8");
        assert_eq!(out, b"before");
    }

    #[test]
    fn a_long_name_is_cut_at_63_bytes() {
        let long = "x".repeat(80);
        let bytes = stored(&[oids::NAME], &[Datum::text(&long)]);
        let name =
            Repr::Name.decode(bytes[0].as_deref().expect("bytes"), Encoding::Utf8).expect("a name");
        assert_eq!(name, Datum::text(&long[..63]));
    }
}
