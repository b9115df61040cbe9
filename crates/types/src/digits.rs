//! Digits as numbers have them in PostgreSQL's texts: with underscores between them.

use std::borrow::Cow;

use crate::error::{Problem, Result};

/// Whether PostgreSQL takes a byte for white space.
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Digits of a radix with single underscores between them removed (`leading`: one may come first,
/// as after 0x). None if anything else is there.
pub(crate) fn strip_underscores(digits: &str, radix: u32, leading: bool) -> Option<Cow<'_, str>> {
    if digits.bytes().all(|b| char::from(b).is_digit(radix)) {
        return Some(Cow::Borrowed(digits));
    }
    let mut clean = String::with_capacity(digits.len());
    let mut previous_digit = leading;
    for c in digits.chars() {
        if c == '_' && previous_digit {
            previous_digit = false;
        } else if c.is_digit(radix) {
            clean.push(c);
            previous_digit = true;
        } else {
            return None;
        }
    }
    previous_digit.then_some(Cow::Owned(clean))
}

/// A signed exponent; huge ones are clamped.
pub(crate) fn parse_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let digits = strip_underscores(digits, 10, false)?;
    let value = digits.parse::<i64>().unwrap_or(i64::MAX).min(i64::from(i32::MAX));
    Some(if negative { -value } else { value })
}

/// Bytes of pairs of hexadecimal digits; white space may stand between the pairs.
pub(crate) fn decode_hex(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut chars = text.chars();
    let digit = |c: char| c.to_digit(16).map(|d| d as u8).ok_or(Problem::HexDigit { digit: c });
    while let Some(high) = chars.next() {
        if matches!(high, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(high)?;
        let low = digit(chars.next().ok_or(Problem::OddHexDigits)?)?;
        out.push(high << 4 | low);
    }
    Ok(out)
}
