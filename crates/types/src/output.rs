//! Values to text: PostgreSQL's output functions.

use std::fmt::Display;
use std::io::Write;

use crate::array::array_out;
use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::float;
use crate::oid::{Oid, oids};
use crate::sqltype::SqlType;
use crate::time::timestamp;

/// Appends what is shown of a value.
fn show(value: impl Display, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("a vector takes any bytes");
}

/// Appends a signed number in decimal.
fn write_i64(v: i64, out: &mut Vec<u8>) {
    if v < 0 {
        out.push(b'-');
    }
    float::write_u64(v.unsigned_abs(), out);
}

/// Appends the text form of a value that is not NULL.
pub fn text_out(value: &Datum<'_>, ty: SqlType, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Null => {}
        Datum::Bool(v) => out.push(if *v { b't' } else { b'f' }),
        Datum::Int2(v) => write_i64(i64::from(*v), out),
        Datum::Int4(v) => write_i64(i64::from(*v), out),
        Datum::Int8(v) if ty == SqlType::PgLsn => {
            let lsn = *v as u64;
            show(format_args!("{:X}/{:X}", lsn >> 32, lsn as u32), out);
        }
        Datum::Int8(v) => write_i64(*v, out),
        Datum::Float4(v) => float::write_f32(*v, out),
        Datum::Float8(v) => float::write_f64(*v, out),
        Datum::Oid(0) if matches!(ty, SqlType::Regclass | SqlType::Regproc) => out.push(b'-'),
        Datum::Oid(v) | Datum::Xid(v) => float::write_u64(u64::from(*v), out),
        Datum::Tid(block, number) => show(format_args!("({block},{number})"), out),
        Datum::Char(0) => {}
        Datum::Char(v) if *v < 0x80 => out.push(*v),
        Datum::Char(v) => show(format_args!("\\{v:03o}"), out),
        Datum::Text(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Numeric(v) => show(v, out),
        Datum::Timestamptz(v) => out.extend_from_slice(timestamp(*v).as_bytes()),
        Datum::Bytes(v) => {
            out.extend_from_slice(b"\\x");
            v.iter().for_each(|b| show(format_args!("{b:02x}"), out));
        }
        Datum::Carried(of, v) => return carried_out(*of, v, out),
        Datum::Toasted(_) => return Err(Problem::NotFetched.into()),
    }
    Ok(())
}

/// The text form as a string.
pub fn to_text(value: &Datum<'_>, ty: SqlType) -> Result<String> {
    let mut out = Vec::new();
    text_out(value, ty, &mut out)?;
    Ok(String::from_utf8(out).expect("output functions write UTF-8"))
}

fn carried_out(ty: Oid, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match ty {
        oids::INT2VECTOR => vector_out(bytes, out, |element, out| {
            write_i64(i64::from(i16::from_le_bytes(element)), out);
        }),
        oids::OIDVECTOR => vector_out(bytes, out, |element, out| {
            float::write_u64(u64::from(u32::from_le_bytes(element)), out);
        }),
        oids::ANYARRAY | oids::FLOAT4_ARRAY => array_out(ty, bytes, &text_out, out),
        _ => Err(ValueError::carried("output", ty)),
    }
}

/// int2vector and oidvector: an array's header (dimensions, offset, element type, length, lower
/// bound), then the elements of N bytes each.
fn vector_out<const N: usize>(
    bytes: &[u8],
    out: &mut Vec<u8>,
    write: impl Fn([u8; N], &mut Vec<u8>),
) -> Result<()> {
    const ARRAY_HEADER: usize = 20;
    let damaged = || Problem::StoredLength { len: bytes.len(), expected: ARRAY_HEADER };
    let (_, elements) = bytes.split_at_checked(ARRAY_HEADER).ok_or_else(damaged)?;
    for (i, element) in elements.as_chunks::<N>().0.iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        write(*element, out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_postgresql_writes_them() {
        let text = |value, ty| to_text(&value, ty).expect("text");
        assert_eq!(text(Datum::Int8(i64::MIN), SqlType::Int8), "-9223372036854775808");
        assert_eq!(text(Datum::Int8(0x1_0000_a0b0), SqlType::PgLsn), "1/A0B0");
        assert_eq!(text(Datum::Oid(0), SqlType::Regclass), "-");
        assert_eq!(text(Datum::Tid(u32::MAX, 1), SqlType::Tid), "(4294967295,1)");
        assert_eq!(text(Datum::Char(0xff), SqlType::Char), "\\377");
        assert_eq!(text(Datum::bytes(&[0, 255]), SqlType::Bytea), "\\x00ff");
        let mut vector = vec![0; 20];
        vector.extend_from_slice(&[1, 0, 254, 255]);
        let vector = Datum::Carried(oids::INT2VECTOR, vector.into());
        assert_eq!(text(vector, SqlType::Int2Vector), "1 -2");
        let short = Datum::Carried(oids::OIDVECTOR, b"short".into());
        assert_eq!(to_text(&short, SqlType::OidVector).expect_err("short").sqlstate(), "XX001");
        let uuid = to_text(&Datum::Carried(2950, vec![0; 16].into()), SqlType::of(2950));
        let error = uuid.expect_err("only carried");
        assert_eq!(error.to_string(), "output of type uuid is not supported");
        let pointer = Datum::Toasted(b"pointer".into());
        assert_eq!(to_text(&pointer, SqlType::Text).expect_err("pointer").sqlstate(), "0A000");
    }

    fn array(words: &[u32], rest: &[&[u8]]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        words.chain(rest.iter().flat_map(|part| part.iter().copied())).collect()
    }

    fn array_text(bytes: &[u8]) -> Result<String> {
        to_text(&Datum::Carried(oids::ANYARRAY, bytes.into()), SqlType::AnyArray)
    }

    /// A text with its length word and padding.
    fn element(text: &str) -> Vec<u8> {
        let mut bytes = ((text.len() as u32 + 4) << 2).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn arrays_are_written_as_postgresql_writes_them() {
        let ints = [1_i32, -2].map(i32::to_le_bytes);
        let of_ints = |lower| array(&[1, 0, oids::INT4, 2, lower], &[&ints[0], &ints[1]]);
        assert_eq!(array_text(&of_ints(1)).expect("it"), "{1,-2}");
        assert_eq!(array_text(&of_ints(0)).expect("it"), "[0:1]={1,-2}");
        assert_eq!(array_text(&array(&[0, 0, oids::INT4], &[])).expect("it"), "{}");
        let bits = [0b101, 0, 0, 0];
        let nulls = array(&[1, 32, oids::INT4, 3, 1], &[&bits, &[0; 4], &ints[0], &ints[1]]);
        assert_eq!(array_text(&nulls).expect("it"), "{1,NULL,-2}");
        let words = ["a", "", "nUlL", "x y", "q\"\\", "ä,", "{}"].map(element);
        let parts: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let texts = array(&[1, 0, oids::TEXT, 7, 1], &parts);
        let expected = r#"{a,"","nUlL","x y","q\"\\","ä,","{}"}"#;
        assert_eq!(array_text(&texts).expect("it"), expected);
        let long = [1.5_f64, f64::INFINITY].map(f64::to_le_bytes);
        let floats = array(&[1, 0, oids::FLOAT8, 2, 1], &[&long[0], &long[1]]);
        assert_eq!(array_text(&floats).expect("it"), "{1.5,Infinity}");
        // Whatever the bytes, that is an error.
        for bytes in [&nulls, &texts, &floats] {
            for len in 0..bytes.len() - 3 {
                assert!(array_text(&bytes[..len]).is_err(), "{len}");
            }
        }
        let cubes = array(&[2, 0, oids::INT4, 1, 1, 1, 1], &[&ints[0]]);
        assert_eq!(array_text(&cubes).expect_err("two dimensions").sqlstate(), "0A000");
        let uuids = array(&[1, 0, 2950, 1, 1], &[&[0; 16]]);
        assert_eq!(array_text(&uuids).expect_err("only carried").sqlstate(), "0A000");
    }
}
