//! Values to text: PostgreSQL's output functions.

use std::fmt::Display;
use std::io::Write;

use crate::array::join;
use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::float;
use crate::oid::{Oid, oids};
use crate::sqltype::SqlType;
use crate::stored_array::array_out;
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

/// The text form of an array.
pub fn array_text(elements: &[Datum<'_>], element: SqlType) -> Result<String> {
    let text = |value: &Datum<'_>| match value {
        Datum::Null => Ok(None),
        value => to_text(value, element).map(Some),
    };
    let texts: Result<Vec<Option<String>>> = elements.iter().map(text).collect();
    Ok(join(&texts?))
}

fn carried_out(ty: Oid, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match ty {
        oids::INT2VECTOR => vector_out(bytes, out, |element, out| {
            write_i64(i64::from(i16::from_le_bytes(element)), out);
        }),
        oids::OIDVECTOR => vector_out(bytes, out, |element, out| {
            float::write_u64(u64::from(u32::from_le_bytes(element)), out);
        }),
        oids::ANYARRAY | oids::FLOAT4_ARRAY => array_out(ty, bytes, text_out, out),
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
}
