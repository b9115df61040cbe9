//! Values to and from the protocol's binary form: PostgreSQL's send and receive functions.

use super::numeric::Numeric;
use super::{Datum, SqlType};
use crate::error::{Result, SqlError, state};
use std::borrow::Cow;

/// Appends the binary form of a value that is not NULL.
pub fn binary_out(value: &Datum<'_>, ty: SqlType, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Null => {}
        Datum::Bool(v) => out.push(u8::from(*v)),
        Datum::Int2(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Int4(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Int8(v) | Datum::Timestamptz(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Float4(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Float8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Oid(v) | Datum::Xid(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Char(v) => out.push(*v),
        Datum::Text(_)
            if matches!(
                ty,
                SqlType::TextArray
                    | SqlType::Int8Array
                    | SqlType::Record
                    | SqlType::Regclass
                    | SqlType::Regtype
            ) =>
        {
            return Err(no_function("output", ty));
        }
        Datum::Text(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Numeric(v) => v.write_binary(out),
        Datum::Bytes(v) if matches!(ty, SqlType::Bytea | SqlType::PgNodeTree) => {
            out.extend_from_slice(v)
        }
        Datum::Bytes(_) => return Err(no_function("output", ty)),
    }
    Ok(())
}

fn no_function(what: &str, ty: SqlType) -> SqlError {
    SqlError::new(
        state::UNDEFINED_FUNCTION,
        format!("no binary {what} function available for type {}", ty.sql_name()),
    )
}

/// What is wrong with a binary value, for the caller to put into the words of its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryDefect {
    /// Fewer bytes than the type has.
    TooShort,
    /// More bytes than the type has.
    TooLong,
}

/// Reads a binary value. Ok(Err(defect)) when the length does not fit the type.
pub fn binary_in<'a>(
    bytes: &'a [u8],
    ty: SqlType,
) -> Result<std::result::Result<Datum<'a>, BinaryDefect>> {
    let size = ty.typlen();
    if size > 0 && ty != SqlType::Name {
        match bytes.len().cmp(&(size as usize)) {
            std::cmp::Ordering::Less => return Ok(Err(BinaryDefect::TooShort)),
            std::cmp::Ordering::Greater => return Ok(Err(BinaryDefect::TooLong)),
            std::cmp::Ordering::Equal => {}
        }
    }
    let word = |n: usize| match bytes {
        [a] => u64::from(*a),
        [a, b] => u64::from(u16::from_be_bytes([*a, *b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([*a, *b, *c, *d])),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => bytes.iter().take(n).fold(0u64, |w, b| (w << 8) | u64::from(*b)),
    };
    Ok(Ok(match ty {
        SqlType::Bool => Datum::Bool(word(1) != 0),
        SqlType::Int2 => Datum::Int2(word(2) as i16),
        SqlType::Int4 => Datum::Int4(word(4) as i32),
        SqlType::Int8 | SqlType::PgLsn => Datum::Int8(word(8) as i64),
        SqlType::Float4 => Datum::Float4(f32::from_bits(word(4) as u32)),
        SqlType::Float8 => Datum::Float8(f64::from_bits(word(8))),
        SqlType::Oid | SqlType::Regclass | SqlType::Regproc => Datum::Oid(word(4) as u32),
        SqlType::Xid | SqlType::Cid => Datum::Xid(word(4) as u32),
        SqlType::Char => Datum::Char(word(1) as u8),
        SqlType::Timestamptz => Datum::Timestamptz(word(8) as i64),
        SqlType::Text | SqlType::Varchar | SqlType::Bpchar | SqlType::Name | SqlType::Unknown => {
            let text = checked_utf8(bytes)?;
            Datum::text(if ty == SqlType::Name { super::input::truncate_name(text) } else { text })
        }
        SqlType::Numeric => Datum::numeric(Numeric::read_binary(bytes).ok_or_else(|| {
            SqlError::new(
                state::INVALID_BINARY_REPRESENTATION,
                "invalid length in external \"numeric\" value",
            )
        })?),
        SqlType::Bytea => Datum::Bytes(Cow::Borrowed(bytes)),
        _ => return Err(no_function("input", ty)),
    }))
}

/// Bytes as text, or the error of PostgreSQL's encoding check.
pub fn checked_utf8(bytes: &[u8]) -> Result<&str> {
    let valid = std::str::from_utf8(bytes);
    match valid {
        Ok(text) if !bytes.contains(&0) => Ok(text),
        _ => {
            let bad = valid.err().map_or(usize::MAX, |e| e.valid_up_to());
            let nul = bytes.iter().position(|b| *b == 0).unwrap_or(usize::MAX);
            Err(invalid_sequence(bytes.get(bad.min(nul)..).unwrap_or_default()))
        }
    }
}

/// `invalid byte sequence for encoding "UTF8"`, naming the bytes of one character as its first byte
/// promises.
fn invalid_sequence(rest: &[u8]) -> SqlError {
    let promised = match rest.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = rest.iter().take(promised).map(|b| format!("0x{b:02x}")).collect();
    SqlError::new(
        state::CHARACTER_NOT_IN_REPERTOIRE,
        format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
    )
}
