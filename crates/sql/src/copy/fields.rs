//! A line of text or CSV to fields.
//!
//! Fields without escapes are ranges of the line; the others are put together in a scratch buffer.

use super::options::CopyOptions;
use crate::error::{Result, SqlError, state};

/// Where a field's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// NULL.
    Null,
    /// A range of the line.
    Line(usize, usize),
    /// A range of the scratch buffer.
    Scratch(usize, usize),
}

/// The fields of one line.
#[derive(Debug, Default)]
pub struct Fields {
    /// Each field.
    pub list: Vec<Field>,
    /// Fields put together.
    pub scratch: Vec<u8>,
}

impl Fields {
    /// A field's bytes; None is NULL.
    pub fn bytes<'f>(&'f self, line: &'f [u8], field: Field) -> Option<&'f [u8]> {
        match field {
            Field::Null => None,
            Field::Line(from, to) => line.get(from..to),
            Field::Scratch(from, to) => self.scratch.get(from..to),
        }
    }

    /// Splits a line of text format.
    pub fn split_text(&mut self, line: &[u8], options: &CopyOptions) {
        self.list.clear();
        self.scratch.clear();
        let null = options.null.as_bytes();
        let delimiter = options.delimiter;
        let mut start = 0;
        loop {
            let mut end = start;
            let mut escaped = false;
            while let Some(&b) = line.get(end) {
                if b == delimiter {
                    break;
                }
                if b == b'\\' {
                    escaped = true;
                    end += 1;
                }
                end += 1;
            }
            let end = end.min(line.len());
            let raw = line.get(start..end).unwrap_or_default();
            self.list.push(if raw == null {
                Field::Null
            } else if escaped {
                let from = self.scratch.len();
                unescape(raw, &mut self.scratch);
                Field::Scratch(from, self.scratch.len())
            } else {
                Field::Line(start, end)
            });
            if end >= line.len() {
                return;
            }
            start = end + 1;
        }
    }

    /// Splits a line of CSV.
    pub fn split_csv(&mut self, line: &[u8], options: &CopyOptions) -> Result<()> {
        self.list.clear();
        self.scratch.clear();
        let null = options.null.as_bytes();
        let mut at = 0;
        loop {
            let start = at;
            // Most fields have no quote: they end at the delimiter.
            while let Some(&b) = line.get(at) {
                if b == options.delimiter || b == options.quote {
                    break;
                }
                at += 1;
            }
            if line.get(at).is_some_and(|b| *b == options.quote) {
                let from = self.scratch.len();
                self.scratch.extend_from_slice(line.get(start..at).unwrap_or_default());
                at = unquote(line, at, options, &mut self.scratch)?;
                self.list.push(Field::Scratch(from, self.scratch.len()));
            } else {
                let raw = line.get(start..at).unwrap_or_default();
                self.list.push(if raw == null { Field::Null } else { Field::Line(start, at) });
            }
            if at >= line.len() {
                return Ok(());
            }
            at += 1;
        }
    }
}

/// Appends a field from its first quote on. Returns where its delimiter is.
pub(super) fn unquote(
    line: &[u8],
    mut at: usize,
    options: &CopyOptions,
    out: &mut Vec<u8>,
) -> Result<usize> {
    let mut in_quote = false;
    while let Some(&b) = line.get(at) {
        if in_quote {
            let next = line.get(at + 1).copied();
            if b == options.escape
                && next.is_some_and(|n| n == options.escape || n == options.quote)
            {
                out.extend(next);
                at += 2;
                continue;
            }
            if b == options.quote {
                in_quote = false;
            } else {
                out.push(b);
            }
        } else if b == options.delimiter {
            return Ok(at);
        } else if b == options.quote {
            in_quote = true;
        } else {
            out.push(b);
        }
        at += 1;
    }
    if in_quote {
        return Err(SqlError::new(state::BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field"));
    }
    Ok(at)
}

/// Undoes the escapes of text format.
pub(super) fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(&b) = raw.get(at) {
        at += 1;
        if b != b'\\' {
            out.push(b);
            continue;
        }
        let Some(&c) = raw.get(at) else { break };
        at += 1;
        let hex = raw.get(at).is_some_and(u8::is_ascii_hexdigit);
        let mut digits = |most: usize, radix: u32, mut value: u32| {
            for _ in 0..most {
                let Some(d) = raw.get(at).and_then(|b| char::from(*b).to_digit(radix)) else {
                    break;
                };
                value = value * radix + d;
                at += 1;
            }
            value as u8
        };
        out.push(match c {
            b'0'..=b'7' => digits(2, 8, u32::from(c - b'0')),
            b'x' if hex => digits(2, 16, 0),
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            other => other,
        });
    }
}
