//! Grouping keys as bytes.

use crate::value::Datum;

/// Bytes that are equal exactly for equal values.
pub(super) fn encode_key(value: &Datum<'_>, out: &mut Vec<u8>) {
    let mut sized = |bytes: &[u8]| {
        out.push(1);
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    let float = |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { (v + 0.0).to_bits() };
    match value {
        Datum::Null => out.push(0),
        Datum::Bool(v) => sized(&[u8::from(*v)]),
        Datum::Int2(v) => sized(&v.to_le_bytes()),
        Datum::Int4(v) => sized(&v.to_le_bytes()),
        Datum::Int8(v) | Datum::Timestamptz(v) => sized(&v.to_le_bytes()),
        Datum::Float4(v) => sized(&float(f64::from(*v)).to_le_bytes()),
        Datum::Float8(v) => sized(&float(*v).to_le_bytes()),
        Datum::Oid(v) | Datum::Xid(v) => sized(&v.to_le_bytes()),
        Datum::Char(v) => sized(&[*v]),
        Datum::Text(v) => sized(v.as_bytes()),
        Datum::Numeric(v) => {
            // 1.0 and 1.00 are equal.
            let text = v.to_string();
            let text = if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.')
            } else {
                &text
            };
            sized(text.as_bytes());
        }
        Datum::Bytes(v) => sized(v),
    }
}
