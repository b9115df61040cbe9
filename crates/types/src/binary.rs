//! Values to and from the protocol's binary form: PostgreSQL's send and receive functions.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Ordering;

use crate::array::split_binary;
use crate::datum::Datum;
use crate::error::{Problem, Result, ValueError};
use crate::input::truncate_name;
use crate::numeric::Numeric;
use crate::output::array_text;
use crate::sqltype::SqlType;

/// Appends the binary form of a value that is not NULL. Of NULL it appends nothing.
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
        Datum::Tid(block, number) => {
            out.extend_from_slice(&block.to_be_bytes());
            out.extend_from_slice(&number.to_be_bytes());
        }
        Datum::Char(v) => out.push(*v),
        Datum::Text(_) if !is_text_in_binary(ty) => return Err(no_function("output", ty)),
        Datum::Text(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Numeric(v) => v.write_binary(out),
        Datum::Bytes(v) => out.extend_from_slice(v),
        Datum::Carried(of, _) => return Err(ValueError::carried("output", *of)),
        Datum::Toasted(_) => return Err(Problem::NotFetched.into()),
    }
    Ok(())
}

/// Whether a [`Datum::Text`] of this type is its own binary form: some types' values are only made
/// as texts.
pub fn is_text_in_binary(ty: SqlType) -> bool {
    ty.element().is_none() && !matches!(ty, SqlType::Record | SqlType::Regclass | SqlType::Regtype)
}

fn no_function(what: &'static str, ty: SqlType) -> ValueError {
    Problem::NoBinary { what, ty: ty.sql_name() }.into()
}

/// Reads a binary value.
pub fn binary_in(bytes: &[u8], ty: SqlType) -> Result<Datum<'_>> {
    Ok(match ty {
        SqlType::Bool => Datum::Bool(fixed::<1>(bytes)? != [0]),
        SqlType::Int2 => Datum::Int2(i16::from_be_bytes(fixed(bytes)?)),
        SqlType::Int4 => Datum::Int4(i32::from_be_bytes(fixed(bytes)?)),
        SqlType::Int8 | SqlType::PgLsn => Datum::Int8(i64::from_be_bytes(fixed(bytes)?)),
        SqlType::Float4 => Datum::Float4(f32::from_be_bytes(fixed(bytes)?)),
        SqlType::Float8 => Datum::Float8(f64::from_be_bytes(fixed(bytes)?)),
        SqlType::Oid | SqlType::Regclass | SqlType::Regproc => {
            Datum::Oid(u32::from_be_bytes(fixed(bytes)?))
        }
        SqlType::Xid | SqlType::Cid => Datum::Xid(u32::from_be_bytes(fixed(bytes)?)),
        SqlType::Tid => {
            let [a, b, c, d, number @ ..] = fixed::<6>(bytes)?;
            Datum::Tid(u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes(number))
        }
        SqlType::Char => Datum::Char(u8::from_be_bytes(fixed(bytes)?)),
        SqlType::Timestamptz => Datum::Timestamptz(i64::from_be_bytes(fixed(bytes)?)),
        SqlType::Text | SqlType::Varchar | SqlType::Bpchar | SqlType::Unknown => {
            Datum::text(checked_utf8(bytes)?)
        }
        SqlType::Name => Datum::text(truncate_name(checked_utf8(bytes)?)),
        SqlType::Numeric => {
            Datum::numeric(Numeric::read_binary(bytes).ok_or(Problem::BinaryNumeric)?)
        }
        SqlType::Bytea => Datum::bytes(bytes),
        _ => {
            if let Some(element) = ty.element() {
                return array_in(bytes, element);
            }
            if let Ok(size) = usize::try_from(ty.typlen()) {
                check_length(bytes, size)?;
            }
            return Err(no_function("input", ty));
        }
    })
}

/// Reads an array: its value is its text.
fn array_in(bytes: &[u8], element: SqlType) -> Result<Datum<'static>> {
    let read = |found: &Option<&[u8]>| match found {
        None => Ok(Datum::Null),
        Some(bytes) => Ok(binary_in(bytes, element)?.into_owned()),
    };
    let elements: Result<Vec<Datum<'_>>> = split_binary(bytes, element)?.iter().map(read).collect();
    Ok(Datum::string(array_text(&elements?, element)?))
}

fn check_length(bytes: &[u8], size: usize) -> Result<()> {
    match bytes.len().cmp(&size) {
        Ordering::Less => Err(Problem::BinaryTooShort.into()),
        Ordering::Greater => Err(Problem::BinaryTooLong.into()),
        Ordering::Equal => Ok(()),
    }
}

#[inline]
fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    match bytes.try_into() {
        Ok(bytes) => Ok(bytes),
        Err(_) => check_length(bytes, N).map(|()| [0; N]),
    }
}

/// Bytes as text, or the error of PostgreSQL's encoding check. Text has no zero bytes.
pub fn checked_utf8(bytes: &[u8]) -> Result<&str> {
    let bad = match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => return Ok(text),
        Ok(_) => bytes.len(),
        Err(error) => error.valid_up_to(),
    };
    let (_, rest) = bytes.split_at(bytes.iter().position(|b| *b == 0).unwrap_or(bad).min(bad));
    Err(invalid_sequence(rest))
}

/// `invalid byte sequence for encoding "UTF8"`, naming the bytes of one character as its first byte
/// promises.
fn invalid_sequence(rest: &[u8]) -> ValueError {
    let promised = match rest.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = rest.iter().take(promised).map(|b| format!("0x{b:02x}")).collect();
    Problem::InvalidUtf8 { bytes: shown.join(" ") }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_is_not_the_types_is_refused() {
        let state = |bytes: &[u8], ty| binary_in(bytes, ty).expect_err("refused").sqlstate();
        assert_eq!(state(b"\0\0\0", SqlType::Int4), "08P01");
        assert_eq!(state(b"\0\0\0\0\0", SqlType::Int4), "22P03");
        assert_eq!(state(b"", SqlType::Bool), "08P01");
        assert_eq!(state(b"\0", SqlType::Regtype), "08P01");
        assert_eq!(state(b"\0\0\0\0", SqlType::Regtype), "42883");
        assert_eq!(state(b"a\0b", SqlType::Text), "22021");
    }

    #[test]
    fn a_tid_is_a_block_and_a_number() {
        let value = binary_in(b"\0\0\x01\x02\0\x03", SqlType::Tid).expect("six bytes");
        assert_eq!(value, Datum::Tid(0x102, 3));
        let mut bytes = Vec::new();
        binary_out(&value, SqlType::Tid, &mut bytes).expect("it has a binary form");
        assert_eq!(bytes, b"\0\0\x01\x02\0\x03");
    }

    #[test]
    fn the_bytes_of_a_bad_character_are_named() {
        for (bytes, shown) in [
            (&b"ab\xe2\x28\xa1"[..], "0xe2 0x28 0xa1"),
            (b"a\0\xff", "0x00"),
            (b"\xff", "0xff"),
            (b"\xc3", "0xc3"),
        ] {
            let error = checked_utf8(bytes).expect_err("no text").to_string();
            assert_eq!(error, format!("invalid byte sequence for encoding \"UTF8\": {shown}"));
        }
    }
}
