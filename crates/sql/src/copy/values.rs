//! Values of COPY fields, and the CONTEXT lines of its errors.

use crate::error::Result;
use forebay_types::{
    Datum, Encoding, SqlType, TextStyle, coerce, float4_in, float8_in, int_in, text_in_as,
};
use smallvec::SmallVec;

/// Bytes of data that an error's context shows at most.
const SHOWN_BYTES: usize = 100;

/// The values of a row, by their column's place in the table.
#[derive(Default)]
pub struct RowValues<'a>(SmallVec<[Datum<'a>; 16]>);

impl<'a> RowValues<'a> {
    /// Sets a value. Columns mostly come in the table's order, so nothing is filled in first.
    #[inline]
    pub fn set(&mut self, slot: usize, value: Datum<'a>) {
        match self.0.get_mut(slot) {
            Some(earlier) => *earlier = value,
            None => {
                if slot > self.0.len() {
                    self.0.resize_with(slot, || Datum::Null);
                }
                self.0.push(value);
            }
        }
    }

    /// The row, with NULL where nothing was set.
    #[inline]
    pub fn row(&mut self, width: usize) -> &[Datum<'a>] {
        if width > self.0.len() {
            self.0.resize_with(width, || Datum::Null);
        }
        &self.0
    }
}

/// Reads a field.
#[inline]
pub fn read_text<'a>(
    text: &'a str,
    (ty, typmod): (SqlType, i32),
    style: &TextStyle<'_>,
) -> Result<Datum<'a>> {
    Ok(match ty {
        // The commonest types first.
        SqlType::Int4 => Datum::Int4(int_in(text, ty)? as i32),
        SqlType::Int8 => Datum::Int8(int_in(text, ty)?),
        SqlType::Text => Datum::text(text),
        SqlType::Float8 => Datum::Float8(float8_in(text)?),
        SqlType::Int2 => Datum::Int2(int_in(text, ty)? as i16),
        SqlType::Float4 => Datum::Float4(float4_in(text)?),
        _ => {
            let value = text_in_as(text, ty, typmod, style)?;
            coerce(value, ty, typmod, false)?
        }
    })
}

/// The CONTEXT lines of errors in one line of the data.
pub struct LineContext<'a> {
    table: &'a str,
    line: u64,
}

/// At most 100 bytes of a text, cut between characters.
fn shortened(text: &str) -> String {
    if text.len() <= SHOWN_BYTES {
        return text.to_owned();
    }
    let (shown, _) = text.split_at(text.floor_char_boundary(SHOWN_BYTES));
    format!("{shown}...")
}

impl<'a> LineContext<'a> {
    /// A line of a table's data, from 1.
    pub fn new(table: &'a str, line: u64) -> LineContext<'a> {
        LineContext { table, line }
    }

    /// With the line's content, in a database with an encoding.
    pub fn raw(&self, line: &[u8], encoding: Encoding) -> String {
        let line = match encoding.decode(line) {
            Ok(line) => line,
            Err(_) => String::from_utf8_lossy(line),
        };
        format!("{}: \"{}\"", self.line_only(), shortened(&line))
    }

    /// With a column and its value.
    pub fn column(&self, column: &str, value: &str) -> String {
        format!("{}: \"{}\"", self.column_only(column), shortened(value))
    }

    /// With a column only.
    pub fn column_only(&self, column: &str) -> String {
        format!("{}, column {column}", self.line_only())
    }

    /// With nothing more.
    pub fn line_only(&self) -> String {
        format!("COPY {}, line {}", self.table, self.line)
    }
}
