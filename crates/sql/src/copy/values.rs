//! Values of COPY fields, and the CONTEXT lines of its errors.

use crate::error::Result;
use crate::value::{SqlType, float4_in, float8_in, int_in, text_in};
use forebay_engine::Datum as Stored;

/// Bytes of data an error's context shows.
const SHOWN_BYTES: usize = 100;

/// Reads a field as a value to store.
pub fn read_text(text: &str, ty: SqlType) -> Result<Stored<'_>> {
    Ok(match ty {
        SqlType::Int4 => Stored::Int4(int_in(text, ty)? as i32),
        SqlType::Int8 => Stored::Int8(int_in(text, ty)?),
        SqlType::Text | SqlType::Varchar => Stored::Text(text),
        SqlType::Float8 => Stored::Float8(float8_in(text)?),
        SqlType::Int2 => Stored::Int2(int_in(text, ty)? as i16),
        SqlType::Float4 => Stored::Float4(float4_in(text)?),
        SqlType::Bool if text == "t" => Stored::Bool(true),
        SqlType::Bool if text == "f" => Stored::Bool(false),
        _ => match text_in(text, ty)? {
            crate::value::Datum::Bool(v) => Stored::Bool(v),
            crate::value::Datum::Oid(v) => Stored::Oid(v),
            crate::value::Datum::Xid(v) => Stored::Xid(v),
            _ => {
                return Err(crate::SqlError::unsupported(format!(
                    "COPY of type {}",
                    ty.sql_name()
                )));
            }
        },
    })
}

/// The place of an error, for its context.
pub struct Place<'a> {
    table: &'a str,
    line: u64,
}

/// At most 100 bytes of a text, cut between characters.
fn shortened(text: &str) -> String {
    if text.len() <= SHOWN_BYTES {
        return text.to_owned();
    }
    let mut end = SHOWN_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", text.get(..end).unwrap_or_default())
}

impl<'a> Place<'a> {
    /// A line of a table's data, from 1.
    pub fn new(table: &'a str, line: u64) -> Place<'a> {
        Place { table, line }
    }

    /// With the line's content.
    pub fn raw(&self, line: &[u8]) -> String {
        format!(
            "COPY {}, line {}: \"{}\"",
            self.table,
            self.line,
            shortened(&String::from_utf8_lossy(line))
        )
    }

    /// With a column and its value.
    pub fn column(&self, column: &str, value: &str) -> String {
        format!(
            "COPY {}, line {}, column {column}: \"{}\"",
            self.table,
            self.line,
            shortened(value)
        )
    }

    /// With a column only.
    pub fn column_only(&self, column: &str) -> String {
        format!("COPY {}, line {}, column {column}", self.table, self.line)
    }

    /// With nothing more.
    pub fn line_only(&self) -> String {
        format!("COPY {}, line {}", self.table, self.line)
    }
}
