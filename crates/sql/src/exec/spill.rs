//! Rows in temporary files. A row is the length of what follows (four bytes), then its packed
//! values one after the other.

use super::host::Host;
use super::row::OwnedRow;
use crate::error::{Result, SqlError, state};
use forebay_engine::{TempReader, TempWriter};
use forebay_types::{Datum, pack, unpack};

/// Bytes of a row's length.
const PREFIX: usize = 4;

/// About how many bytes of memory a row takes.
pub(super) fn memory(row: &OwnedRow) -> usize {
    const ALLOCATION: usize = 16;
    let values = row.capacity() * size_of::<Datum<'_>>() + ALLOCATION;
    size_of::<OwnedRow>() + values + row.iter().map(Datum::allocated).sum::<usize>()
}

/// Appends a row to a file. `scratch` is any buffer.
pub(super) fn write(
    writer: &mut TempWriter,
    row: &[Datum<'_>],
    scratch: &mut Vec<u8>,
    host: &mut Host,
) -> Result<()> {
    encode(row, scratch)?;
    host.io(|io| writer.write_all(io, scratch))
}

/// The next row, which has so many columns; None at the end.
pub(super) fn read(
    reader: &mut TempReader,
    columns: usize,
    scratch: &mut Vec<u8>,
    host: &mut Host,
) -> Result<Option<OwnedRow>> {
    if reader.left() == 0 {
        return Ok(None);
    }
    let bytes = host.io(|io| reader.fill(io))?;
    // A row that lies in the buffer as a whole need not be copied first.
    let here = bytes.split_first_chunk().and_then(|(len, rest)| rest.get(..length(*len)));
    if let Some(payload) = here {
        let (row, taken) = (decode(payload, columns), PREFIX + payload.len());
        reader.consume(taken);
        return row.ok_or_else(damaged).map(Some);
    }
    let mut prefix = [0; PREFIX];
    host.io(|io| reader.read_exact(io, &mut prefix))?;
    let len = length(prefix);
    if len as u64 > reader.left() {
        return Err(damaged());
    }
    scratch.resize(len, 0);
    host.io(|io| reader.read_exact(io, scratch))?;
    decode(scratch, columns).ok_or_else(damaged).map(Some)
}

fn damaged() -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, "a temporary file does not hold what was written into it")
}

/// Makes `out` a row's bytes, its length first.
fn encode(row: &[Datum<'_>], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    out.extend_from_slice(&[0; PREFIX]);
    row.iter().try_for_each(|value| pack(value, out))?;
    let too_long =
        |_| SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, "a row is too long for a temporary file");
    let len = u32::try_from(out.len() - PREFIX).map_err(too_long)?;
    out[..PREFIX].copy_from_slice(&len.to_ne_bytes());
    Ok(())
}

/// The length that stands before a row.
fn length(prefix: [u8; PREFIX]) -> usize {
    u32::from_ne_bytes(prefix) as usize
}

/// A row of so many columns from what follows its length. None: those are not its bytes.
fn decode(mut bytes: &[u8], columns: usize) -> Option<OwnedRow> {
    let mut row = Vec::with_capacity(columns);
    for _ in 0..columns {
        row.push(unpack(&mut bytes)?);
    }
    bytes.is_empty().then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_went() {
        let row = vec![Datum::Int4(1), Datum::Null, Datum::string("Straße".to_owned())];
        let mut bytes = vec![9];
        encode(&row, &mut bytes).expect("a short row");
        let (prefix, payload) = bytes.split_first_chunk().expect("a length");
        assert_eq!(length(*prefix), payload.len());
        let back = decode(payload, row.len()).expect("a row");
        assert_eq!(back, row);
        assert!(memory(&back) > payload.len());
        assert!(decode(&payload[..payload.len() - 1], row.len()).is_none());
        // Rows of other columns.
        assert!(decode(payload, 2).is_none() && decode(payload, 4).is_none());
        assert!(decode(payload, 0).is_none() && decode(&[], 1).is_none());
    }
}
