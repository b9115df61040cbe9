//! Rows in temporary files.
//!
//! - `row.rs`: rows as bytes

mod row;

use super::OwnedRow;
use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::value::Datum;
use forebay_engine::{EngineError, TempReader, TempWriter};
use row::PREFIX;

pub(super) use row::memory;

/// Appends a row to a file. `scratch` is any buffer.
pub(super) fn write(
    writer: &mut TempWriter,
    row: &[Datum<'_>],
    scratch: &mut Vec<u8>,
    host: &mut Host,
) -> Result<()> {
    scratch.clear();
    if !row::encode(row, scratch) {
        return Err(SqlError::new("54000", "a row is too long for a temporary file"));
    }
    Ok(writer.write_all(host.session()?.io(), scratch).map_err(EngineError::from)?)
}

/// The next row of about so many columns; None at the reader's end.
pub(super) fn read(
    reader: &mut TempReader,
    columns: usize,
    scratch: &mut Vec<u8>,
    host: &mut Host,
) -> Result<Option<OwnedRow>> {
    if reader.left() == 0 {
        return Ok(None);
    }
    let io = host.session()?.io();
    let bytes = reader.fill(io).map_err(EngineError::from)?;
    // Where it lies in memory in one piece, it need not be copied first.
    let here =
        bytes.split_first_chunk::<PREFIX>().and_then(|(len, rest)| rest.get(..row::length(*len)));
    if let Some(payload) = here {
        let (row, taken) = (row::decode(payload, columns), PREFIX + payload.len());
        reader.consume(taken);
        return row.ok_or_else(damaged).map(Some);
    }
    let mut prefix = [0; PREFIX];
    reader.read_exact(io, &mut prefix).map_err(EngineError::from)?;
    let len = row::length(prefix);
    if len as u64 > reader.left() {
        return Err(damaged());
    }
    scratch.resize(len, 0);
    reader.read_exact(io, scratch).map_err(EngineError::from)?;
    row::decode(scratch, columns).ok_or_else(damaged).map(Some)
}

fn damaged() -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, "a temporary file does not hold what was written into it")
}
