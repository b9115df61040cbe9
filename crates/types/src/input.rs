//! Values from text: PostgreSQL's input functions and their messages.

use std::borrow::Cow;

use crate::array::text::parse;
use crate::array::{Array, Dim};
use crate::bits;
use crate::datetime::input::{date_in, time_in, timestamp_in, timestamptz_in, timetz_in};
use crate::datetime::interval::interval_in;
use crate::datetime::typmod::IntervalFields;
use crate::datum::Datum;
use crate::digits::{decode_hex, is_space, strip_underscores};
use crate::encoding::Encoding;
use crate::error::{Problem, Result, ValueError};
use crate::json::{self, Json};
use crate::network;
use crate::numeric::Numeric;
use crate::sqltype::SqlType;
use crate::style::TextStyle;
use crate::typmod;
use crate::uuid;

/// What an input function says of a text that it can't read.
fn invalid_input(ty: SqlType, text: &str) -> ValueError {
    Problem::InvalidText { ty: ty.sql_name(), text: text.to_owned() }.into()
}

fn out_of_range(ty: SqlType, text: &str) -> ValueError {
    Problem::OutOfRange { ty: ty.sql_name(), text: text.to_owned() }.into()
}

/// Reads a value of `ty` from its text form, with the default settings. Text-like results borrow.
pub fn text_in<'a>(text: &'a str, ty: SqlType) -> Result<Datum<'a>> {
    text_in_as(text, ty, -1, &TextStyle::default())
}

/// Reads a value of a type with a type modifier, -1 for none, from its text form. Text-like results
/// borrow.
pub fn text_in_as<'a>(
    text: &'a str,
    ty: SqlType,
    typmod: i32,
    style: &TextStyle<'_>,
) -> Result<Datum<'a>> {
    let value = read(text, ty, typmod, style)?;
    if typmod < 0 { Ok(value) } else { typmod::coerce(value, ty, typmod, false) }
}

fn read<'a>(text: &'a str, ty: SqlType, typmod: i32, style: &TextStyle<'_>) -> Result<Datum<'a>> {
    Ok(match ty {
        SqlType::Int4 => Datum::Int4(int_in(text, ty)? as i32),
        SqlType::Int8 => Datum::Int8(int_in(text, ty)?),
        SqlType::Int2 => Datum::Int2(int_in(text, ty)? as i16),
        SqlType::Bool => Datum::Bool(bool_in(text)?),
        SqlType::Float8 => Datum::Float8(float8_in(text)?),
        SqlType::Float4 => Datum::Float4(float4_in(text)?),
        SqlType::Numeric => {
            Datum::numeric(Numeric::parse(text)?.ok_or_else(|| invalid_input(ty, text))?)
        }
        SqlType::Text | SqlType::Varchar | SqlType::Bpchar | SqlType::Unknown => Datum::text(text),
        SqlType::Name => Datum::text(style.encoding.truncate_name(text)),
        SqlType::Oid | SqlType::Regproc => Datum::Oid(oid_in(text, SqlType::Oid)?),
        SqlType::Xid | SqlType::Cid => Datum::Xid(oid_in(text, ty)?),
        SqlType::Tid => tid_in(text)?,
        SqlType::Char => Datum::Char(char_in(&style.encoding.encode(text)?)),
        SqlType::Bytea => Datum::Bytes(Cow::Owned(bytea_in(text, style.encoding)?)),
        SqlType::PgLsn => Datum::Lsn(pg_lsn_in(text)?),
        SqlType::Xid8 => Datum::Xid8(unsigned_in(text, ty)?),
        SqlType::Date => date_in(text, style)?,
        SqlType::Time => Datum::Time(time_in(text, style)?),
        SqlType::Timetz => {
            let (time, zone) = timetz_in(text, style)?;
            Datum::Timetz(time, zone)
        }
        SqlType::Timestamp => Datum::Timestamp(timestamp_in(text, style)?),
        SqlType::Timestamptz => Datum::Timestamptz(timestamptz_in(text, style)?),
        SqlType::Interval => {
            Datum::Interval(interval_in(text, IntervalFields::of_typmod(typmod), style)?)
        }
        SqlType::Uuid => Datum::Uuid(uuid::parse(text).ok_or_else(|| invalid_input(ty, text))?),
        SqlType::Bit | SqlType::Varbit => {
            let (len, bytes) = bits::parse(text)?;
            Datum::Bits(len, bytes.into())
        }
        SqlType::Inet | SqlType::Cidr => Datum::Inet(network::parse(text, ty == SqlType::Cidr)?),
        SqlType::Macaddr => Datum::Macaddr(network::parse_mac(text)?),
        SqlType::Macaddr8 => Datum::Macaddr8(network::parse_mac8(text)?),
        SqlType::Json => {
            json::parse(text, None)?;
            Datum::text(text)
        }
        SqlType::Jsonb => Datum::Jsonb(Json::parse(text, style.encoding)?.to_stored()?.into()),
        SqlType::Int2Vector | SqlType::OidVector => vector_in(text, ty)?,
        _ => match ty.element() {
            Some(element) => {
                let parts = parse(text)?;
                let items = items_in(&parts.items, element, typmod, style)?;
                Datum::Array(Array::of(element.oid(), &parts.dims, &items)?)
            }
            None => return Err(ValueError::carried("input", ty.oid())),
        },
    })
}

/// The elements of an array's text form in storage order, as values of a type.
pub fn array_elements(text: &str, element: SqlType) -> Result<Vec<Datum<'static>>> {
    items_in(&parse(text)?.items, element, -1, &TextStyle::default())
}

fn items_in(
    items: &[Option<String>],
    element: SqlType,
    typmod: i32,
    style: &TextStyle<'_>,
) -> Result<Vec<Datum<'static>>> {
    let read = |found: &Option<String>| match found {
        None => Ok(Datum::Null),
        Some(text) => Ok(text_in_as(text, element, typmod, style)?.into_owned()),
    };
    items.iter().map(read).collect()
}

/// int2vector and oidvector: numbers with blanks between them, counted from 0.
fn vector_in(text: &str, ty: SqlType) -> Result<Datum<'static>> {
    let element = SqlType::of(ty.info().elem);
    let words = text.split(|c: char| c.is_ascii() && is_space(c as u8));
    let items = words
        .filter(|word| !word.is_empty())
        .map(|word| text_in(word, element))
        .collect::<Result<Vec<_>>>()?;
    if items.is_empty() {
        return Ok(Datum::Array(Array::empty_vector(element.oid())));
    }
    let dim = Dim { len: items.len() as i32, lower: 0 };
    Ok(Datum::Array(Array::of(element.oid(), &[dim], &items)?))
}

/// A number of 64 bits, as C's `strtoull` reads it: with a sign, in base 2, 8, 10 or 16.
fn unsigned_in(text: &str, ty: SqlType) -> Result<u64> {
    let body = trim(text);
    let (negative, digits) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(invalid_input(ty, text));
    }
    let value = u64::from_str_radix(digits, radix).map_err(|_| out_of_range(ty, text))?;
    Ok(if negative { value.wrapping_neg() } else { value })
}

fn trim(text: &str) -> &str {
    if let [first, .., last] = text.as_bytes()
        && !is_space(*first)
        && !is_space(*last)
    {
        return text;
    }
    text.trim_matches(|c: char| c.is_ascii() && is_space(c as u8))
}

fn int_bounds(ty: SqlType) -> (i64, i64) {
    match ty {
        SqlType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        SqlType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Reads int2, int4 or int8; the result is within the type's range.
pub fn int_in(text: &str, ty: SqlType) -> Result<i64> {
    let (min, max) = int_bounds(ty);
    if let Some(v) = short_decimal(text.as_bytes())
        && (min..=max).contains(&v)
    {
        return Ok(v);
    }
    let body = trim(text);
    let (negative, body) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    let (radix, prefixed) = match body.get(..2) {
        Some("0x" | "0X") => (16, true),
        Some("0o" | "0O") => (8, true),
        Some("0b" | "0B") => (2, true),
        _ => (10, false),
    };
    let digits = if prefixed { &body[2..] } else { body };
    let digits = strip_underscores(digits, radix, prefixed).filter(|d| !d.is_empty());
    let digits = digits.ok_or_else(|| invalid_input(ty, text))?;
    let magnitude = i128::from_str_radix(&digits, radix).map_err(|_| out_of_range(ty, text))?;
    let value = if negative { -magnitude } else { magnitude };
    match i64::try_from(value) {
        Ok(v) if (min..=max).contains(&v) => Ok(v),
        _ => Err(out_of_range(ty, text)),
    }
}

/// The common case: an optional minus and up to 18 digits.
fn short_decimal(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, bytes),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0i64;
    for b in digits {
        let d = b.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        value = value * 10 + i64::from(d);
    }
    Some(if negative { -value } else { value })
}

fn bool_in(text: &str) -> Result<bool> {
    match text {
        "t" => return Ok(true),
        "f" => return Ok(false),
        _ => {}
    }
    let word = trim(text);
    let is = |full: &str, least: usize| {
        word.len() >= least && full.get(..word.len()).is_some_and(|f| f.eq_ignore_ascii_case(word))
    };
    if is("true", 1) || is("yes", 1) || is("on", 2) || word == "1" {
        Ok(true)
    } else if is("false", 1) || is("no", 1) || is("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(invalid_input(SqlType::Bool, text))
    }
}

/// What floats of either size share: the text to parse, or a special value.
fn float_text(text: &str, ty: SqlType) -> Result<&str> {
    let body = trim(text);
    let unsigned = body.strip_prefix(['+', '-']).unwrap_or(body);
    let special = ["nan", "inf", "infinity"].iter().any(|w| unsigned.eq_ignore_ascii_case(w));
    let numeric = unsigned
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if body.is_empty() || !(special || numeric) {
        return Err(invalid_input(ty, text));
    }
    Ok(body)
}

fn float_range(finite_text: &str, infinite: bool, zero: bool) -> bool {
    let digits = finite_text.split(['e', 'E']).next().unwrap_or("");
    let written_zero = !digits.bytes().any(|b| matches!(b, b'1'..=b'9'));
    let special = digits.bytes().any(|b| b.is_ascii_alphabetic());
    special || !(infinite || zero && !written_zero)
}

fn float_out_of_range(text: &str, ty: SqlType) -> ValueError {
    Problem::FloatOutOfRange { ty: ty.sql_name(), text: text.to_owned() }.into()
}

/// Reads a float8.
pub fn float8_in(text: &str) -> Result<f64> {
    // Most are plain numbers; what is special, zero or too large gets a closer look.
    if let Ok(v) = text.parse::<f64>()
        && v.is_finite()
        && v != 0.0
    {
        return Ok(v);
    }
    let body = float_text(text, SqlType::Float8)?;
    let v: f64 = body.parse().map_err(|_| invalid_input(SqlType::Float8, text))?;
    if !float_range(body, v.is_infinite(), v == 0.0) {
        return Err(float_out_of_range(text, SqlType::Float8));
    }
    Ok(if v.is_nan() { f64::NAN } else { v })
}

/// Reads a float4.
pub fn float4_in(text: &str) -> Result<f32> {
    // Most are plain numbers; what is special, zero or too large gets a closer look.
    if let Ok(v) = text.parse::<f32>()
        && v.is_finite()
        && v != 0.0
    {
        return Ok(v);
    }
    let body = float_text(text, SqlType::Float4)?;
    let v: f32 = body.parse().map_err(|_| invalid_input(SqlType::Float4, text))?;
    if !float_range(body, v.is_infinite(), v == 0.0) {
        return Err(float_out_of_range(text, SqlType::Float4));
    }
    Ok(if v.is_nan() { f32::NAN } else { v })
}

fn oid_in(text: &str, ty: SqlType) -> Result<u32> {
    let value = unsigned_in(text, ty)?;
    // Small negative numbers wrap.
    u32::try_from(value)
        .or_else(|_| i32::try_from(value.cast_signed()).map(i32::cast_unsigned))
        .map_err(|_| out_of_range(ty, text))
}

fn char_in(bytes: &[u8]) -> u8 {
    if let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] = bytes {
        return ((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0');
    }
    bytes.first().copied().unwrap_or(0)
}

/// A row's place: `(block,number)`. As in PostgreSQL, what stands before the parenthesis and behind
/// the other one is not looked at, and a small negative block number wraps.
fn tid_in(text: &str) -> Result<Datum<'static>> {
    let number = |part: &str| {
        let part = part.trim_start_matches(|c: char| c.is_ascii() && is_space(c as u8));
        let (negative, digits) = match part.as_bytes().first() {
            Some(b'-') => (true, &part[1..]),
            Some(b'+') => (false, &part[1..]),
            _ => (false, part),
        };
        let value: i64 = Some(digits)
            .filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))?
            .parse()
            .ok()?;
        Some(if negative { -value } else { value })
    };
    let parsed = || {
        let (head, _) = text.split_once(')')?;
        let (_, inside) = head.split_once('(')?;
        let (block, offset) = inside.split_once(',')?;
        let block = number(block)?;
        let block = u32::try_from(block).or_else(|_| i32::try_from(block).map(|b| b as u32));
        Some(Datum::Tid(block.ok()?, u16::try_from(number(offset)?).ok()?))
    };
    parsed().ok_or_else(|| invalid_input(SqlType::Tid, text))
}

/// A position in the log: two hexadecimal numbers of up to 8 digits.
fn pg_lsn_in(text: &str) -> Result<u64> {
    let half = |part: &str| {
        let hex = (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| u64::from_str_radix(part, 16).ok()).flatten()
    };
    let parsed = text.split_once('/').and_then(|(high, low)| Some(half(high)? << 32 | half(low)?));
    parsed.ok_or_else(|| invalid_input(SqlType::PgLsn, text))
}

fn bytea_in(text: &str, encoding: Encoding) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return decode_hex(hex);
    }
    let bytes = encoding.encode(text)?;
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = &*bytes;
    while let Some((first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                out.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                tail
            }
            (b'\\', _) => {
                return Err(ValueError::new("22P02", "invalid input syntax for type bytea"));
            }
            (plain, tail) => {
                out.push(*plain);
                tail
            }
        };
    }
    Ok(out)
}
