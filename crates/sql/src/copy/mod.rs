//! COPY's formats: bytes to rows and rows to bytes, without tables or connections.
//!
//! - `options.rs`: options, checked
//! - `parser.rs`: text and CSV to rows, from chunks cut anywhere
//! - `scan.rs`: finding delimiters, quotes and newlines
//! - `simple.rs`: lines and their fields in one pass, for nearly all data
//! - `lines.rs`: ends of lines, with every rule of the formats
//! - `fields.rs`: lines to fields, with every rule of the formats
//! - `values.rs`: fields to values, contexts of errors
//! - `binary.rs`: the binary format to rows
//! - `writer.rs`: rows to all formats

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod binary;
mod fields;
mod lines;
mod options;
mod parser;
mod scan;
mod simple;
#[cfg(test)]
mod tests;
mod values;
mod writer;

pub use options::{CopyFormat, CopyOptions};
pub use parser::{CopyColumn, CopyShape, TakeRow};
pub use writer::CopyWriter;

use crate::error::Result;

/// A parser of any of the formats.
pub enum CopyParser {
    /// Text or CSV.
    Lines(Box<parser::LineParser>),
    /// Binary.
    Binary(Box<binary::BinaryParser>),
}

impl CopyParser {
    /// At the start of the data.
    pub fn new(options: CopyOptions, shape: CopyShape) -> CopyParser {
        match options.format {
            CopyFormat::Binary => CopyParser::Binary(Box::new(binary::BinaryParser::new(shape))),
            _ => CopyParser::Lines(Box::new(parser::LineParser::new(options, shape))),
        }
    }

    /// Takes in a chunk, cut anywhere.
    pub fn push(&mut self, data: &[u8], take: TakeRow<'_>) -> Result<()> {
        match self {
            CopyParser::Lines(p) => p.push(data, take),
            CopyParser::Binary(p) => p.push(data, take),
        }
    }

    /// The data has ended.
    pub fn finish(&mut self, take: TakeRow<'_>) -> Result<()> {
        match self {
            CopyParser::Lines(p) => p.finish(take),
            CopyParser::Binary(p) => p.finish(take),
        }
    }
}
