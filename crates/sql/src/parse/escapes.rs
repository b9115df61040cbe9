//! Escapes in strings of the form E'...': the bytes that they stand for. The tokenizer knows only
//! those of ASCII.

use crate::error::{Result, SqlError, state};
use forebay_types::Encoding;
use std::iter::Peekable;
use std::str::Chars;

/// A text whose escapes of bytes above 127, and of zeros, are others of the same length, where
/// `within` says so of the place of their backslash. None: there are none.
pub(super) fn masked(text: &str, within: impl Fn(usize) -> bool) -> Option<String> {
    if !text.contains('\\') {
        return None;
    }
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut at, mut found) = (String::with_capacity(text.len()), 0, false);
    while let Some(c) = chars.get(at) {
        let next = chars.get(at + 1..).unwrap_or_default();
        let mask = match next {
            _ if *c != '\\' || !within(at) => None,
            ['x', '8'..='9' | 'a'..='f' | 'A'..='F', low, ..] if low.is_ascii_hexdigit() => {
                Some("\\x41")
            }
            ['x', '0', '0', ..] => Some("\\x41"),
            ['2'..='7', '0'..='7', '0'..='7', ..] | ['0', '0', '0', ..] => Some("\\101"),
            _ => None,
        };
        let taken = match mask {
            Some(mask) => {
                found = true;
                out.push_str(mask);
                4
            }
            // The character behind a backslash is no other's beginning.
            None => {
                let pair = if *c == '\\' { 2 } else { 1 };
                out.extend(chars.get(at..(at + pair).min(chars.len())).unwrap_or_default());
                pair
            }
        };
        at += taken;
    }
    found.then_some(out)
}

/// The value of a string by its text, E and quotation marks included. The position of an error is
/// that of the backslash in it, from 0.
pub(super) fn unescaped(literal: &str, encoding: Encoding) -> Result<String> {
    let inner = literal.get(2..literal.len().saturating_sub(1)).unwrap_or_default();
    let bytes = Vec::with_capacity(inner.len());
    let (chars, len) = (inner.chars().peekable(), inner.chars().count());
    let mut string = Unescape { chars, encoding, bytes, len };
    while let Some(c) = string.chars.next() {
        match c {
            // Two of them stand for one.
            '\'' => {
                string.chars.next();
                string.push('\'')?;
            }
            '\\' => string.escape()?,
            c => string.push(c)?,
        }
    }
    Ok(encoding.checked(&string.bytes)?.into_owned())
}

/// A string whose escapes are read.
struct Unescape<'t> {
    chars: Peekable<Chars<'t>>,
    encoding: Encoding,
    bytes: Vec<u8>,
    /// How many characters there are.
    len: usize,
}

impl Unescape<'_> {
    fn push(&mut self, c: char) -> Result<()> {
        let mut utf8 = [0; 4];
        self.bytes.extend_from_slice(&self.encoding.encode(c.encode_utf8(&mut utf8))?);
        Ok(())
    }

    /// What stands behind a backslash.
    fn escape(&mut self) -> Result<()> {
        let Some(c) = self.chars.next() else { return Ok(()) };
        let byte = match c {
            'b' => 0x08,
            'f' => 0x0c,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'x' => self.number(None, 16, 2).map_or(b'x', |number| number as u8),
            '0'..='7' => self.number(c.to_digit(8), 8, 2).unwrap_or(0) as u8,
            'u' => return self.code_point(4),
            'U' => return self.code_point(8),
            other => return self.push(other),
        };
        self.bytes.push(byte);
        Ok(())
    }

    /// A number that goes on with at most so many digits.
    fn number(&mut self, begun: Option<u32>, radix: u32, most: usize) -> Option<u32> {
        let mut number = begun;
        for _ in 0..most {
            let Some(digit) = self.chars.peek().and_then(|c| c.to_digit(radix)) else { break };
            self.chars.next();
            number = Some(number.unwrap_or(0).wrapping_mul(radix) + digit);
        }
        number
    }

    fn code_point(&mut self, digits: usize) -> Result<()> {
        let code = self.number(None, 16, digits).unwrap_or(0);
        let invalid = || SqlError::new(state::SYNTAX_ERROR, "invalid Unicode escape value");
        let c = char::from_u32(code).ok_or_else(invalid)?;
        if self.encoding != Encoding::Utf8 && !c.is_ascii() {
            let behind = self.chars.clone().count() + digits + 2;
            let at = self.len.saturating_sub(behind) + 2;
            return Err(no_conversion().at(at as u32));
        }
        self.push(c)
    }
}

/// Where the first escape of Unicode beyond ASCII is in a string of the form U&'...'.
pub(super) fn first_beyond_ascii(literal: &str) -> Option<usize> {
    let chars: Vec<char> = literal.chars().collect();
    let digits = |from: usize, most: usize| {
        let digits: Option<String> = chars.get(from..from + most).map(|d| d.iter().collect());
        digits.and_then(|digits| u32::from_str_radix(&digits, 16).ok())
    };
    (0..chars.len()).find(|at| {
        let code = match chars.get(*at..).unwrap_or_default() {
            ['\\', '+', ..] => digits(at + 2, 6),
            ['\\', ..] => digits(at + 1, 4),
            _ => None,
        };
        code.is_some_and(|code| code > 0x7f)
    })
}

/// The error of Unicode beyond ASCII in SQL_ASCII.
pub(super) fn no_conversion() -> SqlError {
    let message = "conversion between UTF8 and SQL_ASCII is not supported";
    SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_bytes_are_masked_and_read() {
        let text = r"E'a\\\xe9\351\x41\n''b''\101'";
        let masked = masked(text, |_| true).expect("two of them");
        assert_eq!(masked, r"E'a\\\x41\101\x41\n''b''\101'");
        let read = unescaped(text, Encoding::SqlAscii).expect("a string");
        assert_eq!(read, "a\\\u{e9}\u{e9}A\n'b'A");
        assert!(unescaped(text, Encoding::Utf8).is_err(), "no UTF-8");
        assert_eq!(unescaped(r"E'\xc3\xa9\303\251é'", Encoding::Utf8).expect("UTF-8"), "ééé");
    }

    #[test]
    fn nothing_else_is_masked() {
        for text in ["plain", r"E'\\xe9'", r"E'\x7f\177\e9\x01'", r"\"] {
            assert_eq!(masked(text, |_| true), None, "{text}");
        }
        assert_eq!(masked(r"E'\xe9'", |at| at > 2), None);
    }

    #[test]
    fn unicode_beyond_ascii_is_not_in_sql_ascii() {
        let error = unescaped(r"E'\u00e9'", Encoding::SqlAscii).expect_err("refused");
        assert_eq!(error.sqlstate, "0A000");
        assert_eq!(error.position, Some(2));
        assert!(unescaped(r"E'\x00'", Encoding::SqlAscii).is_err());
        assert_eq!(first_beyond_ascii(r"U&'a\0041\+000041\+0000e9'"), Some(17));
        assert_eq!(first_beyond_ascii(r"U&'a\0041'"), None);
    }
}
