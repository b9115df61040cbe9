//! Values to text: PostgreSQL's output functions.

use super::{Datum, SqlType, float};
use crate::error::{Result, SqlError};
use forebay_engine::Lsn;
use std::io::Write;

/// Appends a number in decimal.
pub(crate) fn write_u64(mut v: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        if let Some(d) = digits.get_mut(at) {
            *d = b'0' + (v % 10) as u8;
        }
        v /= 10;
        if v == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

/// Appends a signed number in decimal.
pub(crate) fn write_i64(v: i64, out: &mut Vec<u8>) {
    if v < 0 {
        out.push(b'-');
    }
    write_u64(v.unsigned_abs(), out);
}

/// Appends the text form of a value that is not NULL.
pub fn text_out(value: &Datum<'_>, ty: SqlType, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Null => {}
        Datum::Bool(v) => out.push(if *v { b't' } else { b'f' }),
        Datum::Int2(v) => write_i64(i64::from(*v), out),
        Datum::Int4(v) => write_i64(i64::from(*v), out),
        Datum::Int8(v) if ty == SqlType::PgLsn => {
            let _ = write!(out, "{}", Lsn(*v as u64));
        }
        Datum::Int8(v) => write_i64(*v, out),
        Datum::Float4(v) => float::write_f32(*v, out),
        Datum::Float8(v) => float::write_f64(*v, out),
        Datum::Oid(0) if matches!(ty, SqlType::Regclass | SqlType::Regproc) => out.push(b'-'),
        Datum::Oid(v) | Datum::Xid(v) => write_u64(u64::from(*v), out),
        Datum::Char(0) => {}
        Datum::Char(v) if *v < 0x80 => out.push(*v),
        Datum::Char(v) => {
            let _ = write!(out, "\\{v:03o}");
        }
        Datum::Text(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Numeric(v) => {
            let _ = write!(out, "{v}");
        }
        Datum::Timestamptz(v) => {
            out.extend_from_slice(forebay_engine::time::timestamp(*v).as_bytes())
        }
        Datum::Bytes(v) => return bytes_out(v, ty, out),
    }
    Ok(())
}

/// The text form as a string.
pub fn to_text(value: &Datum<'_>, ty: SqlType) -> Result<String> {
    let mut out = Vec::new();
    text_out(value, ty, &mut out)?;
    Ok(String::from_utf8(out)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

fn bytes_out(bytes: &[u8], ty: SqlType, out: &mut Vec<u8>) -> Result<()> {
    match ty {
        SqlType::Bytea => {
            out.extend_from_slice(b"\\x");
            for b in bytes {
                let _ = write!(out, "{b:02x}");
            }
            Ok(())
        }
        SqlType::Int2Vector => vector_out(bytes, 2, out),
        SqlType::OidVector => vector_out(bytes, 4, out),
        SqlType::PgNodeTree => {
            out.extend_from_slice(String::from_utf8_lossy(bytes).as_bytes());
            Ok(())
        }
        _ => Err(SqlError::unsupported(format!("output of type {}", ty.sql_name()))),
    }
}

/// int2vector and oidvector: an array's header (dimensions, offset, element type, length, lower
/// bound), then the elements.
fn vector_out(bytes: &[u8], size: usize, out: &mut Vec<u8>) -> Result<()> {
    for (i, element) in bytes.get(20..).unwrap_or_default().chunks_exact(size).enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        match *element {
            [a, b] => write_i64(i64::from(i16::from_le_bytes([a, b])), out),
            [a, b, c, d] => write_u64(u64::from(u32::from_le_bytes([a, b, c, d])), out),
            _ => {}
        }
    }
    Ok(())
}
