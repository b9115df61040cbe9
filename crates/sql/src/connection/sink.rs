//! Where results go: rows, COPY data, notices.

use crate::column::ColumnDesc;
use crate::error::{Result, SqlError};
use crate::pieces::{FieldForm, LongValue, append_field, whole_length};
use forebay_types::{Datum, MAX_ALLOC, TextStyle, check_enlarge};

/// A completed command: its tag is its text, such as `INSERT 0 3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTag(pub String);

/// Text or binary, as the protocol numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// Format 0.
    #[default]
    Text,
    /// Format 1.
    Binary,
}

impl Format {
    /// The format of a protocol code.
    pub fn from_code(code: i16) -> Result<Format> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            other => Err(SqlError::new(
                crate::error::state::INVALID_PARAMETER_VALUE,
                format!("unsupported format code: {other}"),
            )),
        }
    }

    /// The protocol's code.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}

/// One row on its way out.
pub struct RowRef<'r> {
    pub(crate) values: &'r [Datum<'r>],
    pub(crate) columns: &'r [ColumnDesc],
    pub(crate) formats: &'r [Format],
    pub(crate) style: &'r TextStyle<'r>,
}

impl<'r> RowRef<'r> {
    /// The values, in column order.
    pub fn values(&self) -> &'r [Datum<'r>] {
        self.values
    }

    /// Appends the body of a DataRow message (a 16-bit field count, then length and bytes of each
    /// field) in the formats the portal was bound with, but for its long values. No allocation but
    /// the buffer's own growth.
    pub fn encode_data_row(&self, out: &mut Vec<u8>, long: &mut Vec<LongValue<'r>>) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(&(self.values.len() as i16).to_be_bytes());
        for (i, (value, column)) in self.values.iter().zip(self.columns).enumerate() {
            let binary = self.formats.get(i).copied().unwrap_or_default() == Format::Binary;
            let form = FieldForm { ty: column.ty, binary, style: self.style };
            append_field(value, form, out, start, long)?;
        }
        Ok(check_enlarge(whole_length(out, long) - start, 0, MAX_ALLOC)?)
    }
}

/// Takes what a statement gives back. Errors from a sink (a broken client connection) end the
/// statement.
pub trait RowSink {
    /// Columns of the rows to come: called once, before the first row, by the simple protocol's
    /// statements that return rows (also when there are none). An extended `execute` never calls
    /// it: Describe tells.
    fn columns(&mut self, columns: &[ColumnDesc], formats: &[Format]) -> Result<()>;
    /// A row.
    fn row(&mut self, row: &RowRef<'_>) -> Result<()>;
    /// COPY TO STDOUT begins (CopyOutResponse): overall format and column count, all columns in
    /// that format.
    fn copy_out_start(&mut self, format: Format, columns: usize) -> Result<()>;
    /// A chunk of COPY data: one or more whole rows of text or CSV, or any part of a binary stream.
    fn copy_data(&mut self, data: &[u8]) -> Result<()>;
    /// A row of COPY data of which long values are left out.
    fn copy_pieces(&mut self, data: &[u8], long: &[LongValue<'_>]) -> Result<()>;
    /// COPY TO STDOUT has ended (CopyDone).
    fn copy_out_end(&mut self) -> Result<()>;
    /// A notice or warning, at the point where it arose.
    fn notice(&mut self, notice: &SqlError) -> Result<()>;
}
