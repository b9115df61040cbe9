//! COPY TO: rows to bytes.

use super::binary::SIGNATURE;
use super::options::{CopyFormat, CopyOptions, Header};
use crate::column::ColumnDesc;
use crate::error::Result;
use crate::pieces::{FieldForm, Form, LONG, LongValue, append_field, whole_length};
use forebay_types::{Datum, MAX_ALLOC, TextStyle, check_enlarge, enlarge, text_out_as};
use std::sync::Arc;

/// Forms rows; each is one CopyData message.
pub struct CopyWriter {
    options: CopyOptions,
    style: Arc<TextStyle<'static>>,
    scratch: Vec<u8>,
    /// The binary header was written; it precedes the first row.
    started: bool,
    /// Numbers and booleans never need escapes or quotes.
    plain_numbers: bool,
}

impl CopyWriter {
    /// For a COPY with these options.
    pub fn new(options: CopyOptions, style: Arc<TextStyle<'static>>) -> CopyWriter {
        let rare = |b: u8| matches!(b, b'\t' | b',' | b';' | b'|' | b'"' | b'\'');
        let quoted = options.force_quote || !options.null.is_empty() || !rare(options.quote);
        let plain_numbers =
            rare(options.delimiter) && !(options.format == CopyFormat::Csv && quoted);
        CopyWriter { options, style, scratch: Vec::new(), started: false, plain_numbers }
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
            let single = columns.len() == 1;
            let name = self.style.encoding.sent(&column.name);
            field(&name, &self.options, (single, false), out, None);
        }
        out.push(b'\n');
    }

    /// Appends a row, but for its long values.
    pub fn row<'r>(
        &mut self,
        values: &'r [Datum<'_>],
        columns: &[ColumnDesc],
        out: &mut Vec<u8>,
        long: &mut Vec<LongValue<'r>>,
    ) -> Result<()> {
        if self.options.format == CopyFormat::Binary {
            self.binary_header(out);
            return binary_row(values, columns, &self.style, out, long);
        }
        let marks = (values.len() == 1, self.options.force_quote);
        for (i, (value, column)) in values.iter().zip(columns).enumerate() {
            if i > 0 {
                out.push(self.options.delimiter);
            }
            if value.is_null() {
                out.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            if let Datum::Text(text) = value
                && text.len() >= LONG
                && self.style.encoding.is_plain(text.as_bytes())
            {
                check_enlarge(whole_length(out, long), text.len(), MAX_ALLOC)?;
                field(text.as_bytes(), &self.options, marks, out, Some(long));
                continue;
            }
            enlarge(out, 0, value.text_size(), MAX_ALLOC)?;
            self.scratch.clear();
            let encoding = self.style.encoding;
            let text: &[u8] = match value {
                Datum::Text(text) if encoding.is_plain(text.as_bytes()) => text.as_bytes(),
                Datum::Bool(_)
                | Datum::Int2(_)
                | Datum::Int4(_)
                | Datum::Int8(_)
                | Datum::Float4(_)
                | Datum::Float8(_)
                    if self.plain_numbers =>
                {
                    text_out_as(value, column.ty, &self.style, out)?;
                    continue;
                }
                other => {
                    text_out_as(other, column.ty, &self.style, &mut self.scratch)?;
                    encoding.encode_tail(&mut self.scratch, 0);
                    &self.scratch
                }
            };
            encoding.check_sent(self.style.client, text)?;
            field(text, &self.options, marks, out, None);
        }
        out.push(b'\n');
        // Escapes have made it longer.
        Ok(check_enlarge(whole_length(out, long), 0, MAX_ALLOC)?)
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

fn binary_row<'r>(
    values: &'r [Datum<'_>],
    columns: &[ColumnDesc],
    style: &TextStyle<'_>,
    out: &mut Vec<u8>,
    long: &mut Vec<LongValue<'r>>,
) -> Result<()> {
    out.extend_from_slice(&(values.len() as i16).to_be_bytes());
    for (value, column) in values.iter().zip(columns) {
        let form = FieldForm { ty: column.ty, binary: true, style };
        append_field(value, form, out, 0, long)?;
    }
    Ok(check_enlarge(whole_length(out, long), 0, MAX_ALLOC)?)
}

/// Appends a field of text or CSV; a long one to `long`, if that is given.
fn field<'r>(
    text: &'r [u8],
    options: &CopyOptions,
    marks: (bool, bool),
    out: &mut Vec<u8>,
    long: Option<&mut Vec<LongValue<'r>>>,
) {
    let quoted = options.format == CopyFormat::Csv && is_quoted(text, options, marks);
    let form = match options.format {
        CopyFormat::Csv if quoted => Form::Quoted { quote: options.quote, escape: options.escape },
        CopyFormat::Csv => Form::AsIs,
        _ => Form::Escaped { delimiter: options.delimiter },
    };
    if quoted {
        out.push(options.quote);
    }
    match long {
        Some(long) => long.push(LongValue::new(out.len(), text, form)),
        None => form.append(text, out),
    }
    if quoted {
        out.push(options.quote);
    }
}

/// Whether a CSV field must be quoted.
fn is_quoted(text: &[u8], options: &CopyOptions, (single, force): (bool, bool)) -> bool {
    let special =
        |b: &u8| *b == options.delimiter || *b == options.quote || *b == b'\n' || *b == b'\r';
    force
        || text == options.null.as_bytes()
        // A lone `\.` could be taken for the end of the data.
        || single && text == b"\\."
        || text.iter().any(special)
}
