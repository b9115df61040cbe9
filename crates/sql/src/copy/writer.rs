//! COPY TO: rows to bytes.

use super::binary::SIGNATURE;
use super::options::{CopyFormat, CopyOptions, Header};
use crate::column::ColumnDesc;
use crate::error::Result;
use forebay_types::{Datum, MAX_ALLOC, binary_out, check_enlarge, enlarge, text_out};

/// Forms rows; each is one CopyData message.
pub struct CopyWriter {
    options: CopyOptions,
    scratch: Vec<u8>,
    /// The binary header was written; it precedes the first row.
    started: bool,
    /// Numbers and booleans never need escapes or quotes.
    plain_numbers: bool,
}

impl CopyWriter {
    /// For a COPY with these options.
    pub fn new(options: CopyOptions) -> CopyWriter {
        let rare = |b: u8| matches!(b, b'\t' | b',' | b';' | b'|' | b'"' | b'\'');
        let quoted = options.force_quote || !options.null.is_empty() || !rare(options.quote);
        let plain_numbers =
            rare(options.delimiter) && !(options.format == CopyFormat::Csv && quoted);
        CopyWriter { options, scratch: Vec::new(), started: false, plain_numbers }
    }

    /// Appends the header line, if there is one.
    pub fn header(&mut self, columns: &[ColumnDesc], out: &mut Vec<u8>) {
        if self.options.header == Header::No {
            return;
        }
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.push(self.options.delimiter);
            }
            match self.options.format {
                CopyFormat::Csv => {
                    csv_field(column.name.as_bytes(), &self.options, columns.len() == 1, false, out)
                }
                _ => escape(column.name.as_bytes(), self.options.delimiter, out),
            }
        }
        out.push(b'\n');
    }

    /// Appends a row.
    pub fn row(
        &mut self,
        values: &[Datum<'_>],
        columns: &[ColumnDesc],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.options.format == CopyFormat::Binary {
            self.binary_header(out);
            return binary_row(values, columns, out);
        }
        for (i, (value, column)) in values.iter().zip(columns).enumerate() {
            if i > 0 {
                out.push(self.options.delimiter);
            }
            if value.is_null() {
                out.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            enlarge(out, 0, value.text_size(), MAX_ALLOC)?;
            self.scratch.clear();
            let text: &[u8] = match value {
                Datum::Text(text) => text.as_bytes(),
                Datum::Bool(_)
                | Datum::Int2(_)
                | Datum::Int4(_)
                | Datum::Int8(_)
                | Datum::Float4(_)
                | Datum::Float8(_)
                    if self.plain_numbers =>
                {
                    text_out(value, column.ty, out)?;
                    continue;
                }
                other => {
                    text_out(other, column.ty, &mut self.scratch)?;
                    &self.scratch
                }
            };
            match self.options.format {
                CopyFormat::Csv => {
                    csv_field(
                        text,
                        &self.options,
                        values.len() == 1,
                        self.options.force_quote,
                        out,
                    );
                }
                _ => escape(text, self.options.delimiter, out),
            }
        }
        out.push(b'\n');
        // Escapes have made it longer.
        Ok(check_enlarge(out.len(), 0, MAX_ALLOC)?)
    }

    /// Appends what ends the data.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            self.binary_header(out);
            out.extend_from_slice(&(-1i16).to_be_bytes());
        }
    }

    fn binary_header(&mut self, out: &mut Vec<u8>) {
        if !self.started {
            self.started = true;
            out.extend_from_slice(SIGNATURE);
            out.extend_from_slice(&[0; 8]);
        }
    }
}

fn binary_row(values: &[Datum<'_>], columns: &[ColumnDesc], out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(&(values.len() as i16).to_be_bytes());
    for (value, column) in values.iter().zip(columns) {
        if value.is_null() {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            continue;
        }
        enlarge(out, 0, value.text_size() + 4, MAX_ALLOC)?;
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        binary_out(value, column.ty, out)?;
        let length = (out.len() - at - 4) as i32;
        if let Some(field) = out.get_mut(at..at + 4) {
            field.copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(())
}

/// Escapes of text format.
fn escape(text: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b < 0x20 || *b == b'\\' || *b == delimiter) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((b, tail)) = tail.split_first() else { return };
        match b {
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x0b => out.extend_from_slice(b"\\v"),
            b if *b == b'\\' || *b == delimiter => out.extend_from_slice(&[b'\\', *b]),
            b => out.push(*b),
        }
        rest = tail;
    }
    out.extend_from_slice(rest);
}

/// A CSV field, quoted where it must be.
fn csv_field(text: &[u8], options: &CopyOptions, single: bool, force: bool, out: &mut Vec<u8>) {
    let special =
        |b: &u8| *b == options.delimiter || *b == options.quote || *b == b'\n' || *b == b'\r';
    let quoted = force
        || text == options.null.as_bytes()
        // A lone `\.` could be taken for the end of the data.
        || single && text == b"\\."
        || text.iter().any(special);
    if !quoted {
        return out.extend_from_slice(text);
    }
    out.push(options.quote);
    for b in text {
        if *b == options.quote || *b == options.escape {
            out.push(options.escape);
        }
        out.push(*b);
    }
    out.push(options.quote);
}
