//! Rows as bytes: what a temporary file holds. A row is the length of what follows (four bytes),
//! and its values one after the other, each with a byte that says of which kind it is. Only this
//! process reads them, so numbers are as the processor has them.

use crate::exec::OwnedRow;
use crate::value::{Datum, Numeric};
use num_bigint::BigInt;

/// Bytes of a row's length.
pub(super) const PREFIX: usize = 4;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT2: u8 = 3;
const INT4: u8 = 4;
const INT8: u8 = 5;
const FLOAT4: u8 = 6;
const FLOAT8: u8 = 7;
const OID: u8 = 8;
const XID: u8 = 9;
const CHAR: u8 = 10;
const TEXT: u8 = 11;
const BYTES: u8 = 12;
const TIMESTAMPTZ: u8 = 13;
const NUMERIC: u8 = 14;
const NAN: u8 = 15;
const INFINITY: u8 = 16;
const NEG_INFINITY: u8 = 17;

/// What an allocation costs beside its bytes, about.
const ALLOCATION: usize = 16;

/// Bytes of memory that a row takes, about.
pub(in crate::exec) fn memory(row: &OwnedRow) -> usize {
    let heap = |value: &Datum<'_>| match value {
        Datum::Text(text) => text.len() + ALLOCATION,
        Datum::Bytes(bytes) => bytes.len() + ALLOCATION,
        Datum::Numeric(number) => {
            let digits = match &**number {
                Numeric::Finite { digits, .. } => digits.bits() as usize / 8 + 8 + ALLOCATION,
                _ => 0,
            };
            size_of::<Numeric>() + ALLOCATION + digits
        }
        _ => 0,
    };
    let values = row.capacity() * size_of::<Datum<'_>>() + ALLOCATION;
    size_of::<OwnedRow>() + values + row.iter().map(heap).sum::<usize>()
}

/// Appends a row, its length first. False if it is longer than a length can say.
pub(super) fn encode(row: &[Datum<'_>], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    for value in row {
        encode_value(value, out);
    }
    let Ok(len) = u32::try_from(out.len() - start - PREFIX) else { return false };
    if let Some(prefix) = out.get_mut(start..start + PREFIX) {
        prefix.copy_from_slice(&len.to_ne_bytes());
    }
    true
}

fn encode_value(value: &Datum<'_>, out: &mut Vec<u8>) {
    let mut put = |kind: u8, bytes: &[u8]| {
        out.push(kind);
        out.extend_from_slice(bytes);
    };
    match value {
        Datum::Null => put(NULL, &[]),
        Datum::Bool(v) => put(if *v { TRUE } else { FALSE }, &[]),
        Datum::Int2(v) => put(INT2, &v.to_ne_bytes()),
        Datum::Int4(v) => put(INT4, &v.to_ne_bytes()),
        Datum::Int8(v) => put(INT8, &v.to_ne_bytes()),
        Datum::Float4(v) => put(FLOAT4, &v.to_ne_bytes()),
        Datum::Float8(v) => put(FLOAT8, &v.to_ne_bytes()),
        Datum::Oid(v) => put(OID, &v.to_ne_bytes()),
        Datum::Xid(v) => put(XID, &v.to_ne_bytes()),
        Datum::Char(v) => put(CHAR, &[*v]),
        Datum::Timestamptz(v) => put(TIMESTAMPTZ, &v.to_ne_bytes()),
        Datum::Text(v) => {
            put(TEXT, &v.len().to_ne_bytes());
            out.extend_from_slice(v.as_bytes());
        }
        Datum::Bytes(v) => {
            put(BYTES, &v.len().to_ne_bytes());
            out.extend_from_slice(v);
        }
        Datum::Numeric(v) => match &**v {
            Numeric::NaN => put(NAN, &[]),
            Numeric::Infinity => put(INFINITY, &[]),
            Numeric::NegInfinity => put(NEG_INFINITY, &[]),
            Numeric::Finite { digits, scale } => {
                let digits = digits.to_signed_bytes_le();
                put(NUMERIC, &scale.to_ne_bytes());
                out.extend_from_slice(&digits.len().to_ne_bytes());
                out.extend_from_slice(&digits);
            }
        },
    }
}

/// The length that stands before a row.
pub(super) fn length(prefix: [u8; PREFIX]) -> usize {
    u32::from_ne_bytes(prefix) as usize
}

/// A row from what follows its length. None: those are not the bytes of a row.
pub(super) fn decode(mut bytes: &[u8], columns: usize) -> Option<OwnedRow> {
    let mut row = Vec::with_capacity(columns);
    while !bytes.is_empty() {
        row.push(decode_value(&mut bytes)?);
    }
    Some(row)
}

fn decode_value(bytes: &mut &[u8]) -> Option<Datum<'static>> {
    let [kind] = take(bytes)?;
    Some(match kind {
        NULL => Datum::Null,
        FALSE => Datum::Bool(false),
        TRUE => Datum::Bool(true),
        INT2 => Datum::Int2(i16::from_ne_bytes(take(bytes)?)),
        INT4 => Datum::Int4(i32::from_ne_bytes(take(bytes)?)),
        INT8 => Datum::Int8(i64::from_ne_bytes(take(bytes)?)),
        FLOAT4 => Datum::Float4(f32::from_ne_bytes(take(bytes)?)),
        FLOAT8 => Datum::Float8(f64::from_ne_bytes(take(bytes)?)),
        OID => Datum::Oid(u32::from_ne_bytes(take(bytes)?)),
        XID => Datum::Xid(u32::from_ne_bytes(take(bytes)?)),
        CHAR => Datum::Char(take::<1>(bytes)?[0]),
        TIMESTAMPTZ => Datum::Timestamptz(i64::from_ne_bytes(take(bytes)?)),
        TEXT => Datum::string(String::from_utf8(sized(bytes)?.to_vec()).ok()?),
        BYTES => Datum::Bytes(sized(bytes)?.to_vec().into()),
        NAN => Datum::numeric(Numeric::NaN),
        INFINITY => Datum::numeric(Numeric::Infinity),
        NEG_INFINITY => Datum::numeric(Numeric::NegInfinity),
        NUMERIC => {
            let scale = u32::from_ne_bytes(take(bytes)?);
            Datum::numeric(Numeric::Finite {
                digits: BigInt::from_signed_bytes_le(sized(bytes)?),
                scale,
            })
        }
        _ => return None,
    })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

fn sized<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::from_ne_bytes(take(bytes)?);
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> OwnedRow {
        let number =
            |digits: i128, scale| Datum::numeric(Numeric::Finite { digits: digits.into(), scale });
        vec![
            Datum::Null,
            Datum::Bool(true),
            Datum::Bool(false),
            Datum::Int2(-2),
            Datum::Int4(i32::MIN),
            Datum::Int8(i64::MAX),
            Datum::Float4(-0.0),
            Datum::Float8(f64::INFINITY),
            Datum::Oid(u32::MAX),
            Datum::Xid(3),
            Datum::Char(0xff),
            Datum::string("Straße".to_owned()),
            Datum::string(String::new()),
            Datum::Bytes(vec![0, 255].into()),
            Datum::Timestamptz(-1),
            number(0, 3),
            number(-(1 << 100), 20),
            Datum::numeric(Numeric::NaN),
            Datum::numeric(Numeric::Infinity),
            Datum::numeric(Numeric::NegInfinity),
        ]
    }

    #[test]
    fn rows_come_back_as_they_went() {
        let row = samples();
        let mut bytes = vec![9];
        assert!(encode(&row, &mut bytes));
        let (prefix, payload) = bytes[1..].split_first_chunk().expect("a length");
        assert_eq!(length(*prefix), payload.len());
        let back = decode(payload, row.len()).expect("a row");
        // By their text, since NaN is not equal to itself.
        assert_eq!(format!("{back:?}"), format!("{row:?}"));
        assert!(memory(&back) > payload.len());
    }

    #[test]
    fn bytes_that_are_no_row_are_refused() {
        let mut bytes = Vec::new();
        assert!(encode(&samples(), &mut bytes));
        let payload = &bytes[PREFIX..];
        let whole = |n: usize| decode(&payload[..n], 0).map_or(0, |row| row.len());
        let ends = (0..payload.len()).filter(|&n| decode(&payload[..n], 0).is_some()).map(whole);
        // Only where a value ends.
        assert_eq!(ends.collect::<Vec<_>>(), (0..samples().len()).collect::<Vec<_>>());
        assert!(decode(&[99], 1).is_none() && decode(&[TEXT, 255], 1).is_none());
        let mut huge = vec![BYTES];
        huge.extend_from_slice(&usize::MAX.to_ne_bytes());
        assert!(decode(&huge, 1).is_none());
    }
}
