//! COPY FROM in binary format.
//!
//! ```text
//! header:  "PGCOPY\n\377\r\n\0"  flags (4 bytes)  length of extension (4)  extension
//! row:     number of fields (2)  [ length (4, -1 is NULL)  bytes ]...
//! trailer: -1 (2)
//! ```

use super::parser::{CopyShape, TakeRow};
use super::values::{LineContext, RowValues};
use crate::error::{Result, SqlError, state};
use forebay_types::{Datum, Encoding, SqlType, binary_in, check_enlarge, coerce, out_of_memory};

/// The first bytes.
pub const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// The flag for rows with OIDs, which PostgreSQL no longer has.
const WITH_OIDS: u32 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Header,
    /// Bytes of the header's extension still to be skipped.
    Extension(u32),
    Rows,
    Ended,
}

/// Parser of the binary format.
pub struct BinaryParser {
    shape: CopyShape,
    buffer: Vec<u8>,
    stage: Stage,
    /// Rows begun.
    line: u64,
    /// Parsing goes on when this many bytes are there.
    need: usize,
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(state::BAD_COPY_FILE_FORMAT, message)
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn short(data: &[u8], at: usize) -> Option<i16> {
    data.get(at..)?.first_chunk().map(|bytes| i16::from_be_bytes(*bytes))
}

/// A row's extent.
enum Extent {
    Complete(usize),
    /// Its length is not known before this many bytes are there.
    Needs(usize),
}

impl BinaryParser {
    /// At the start of the data.
    pub fn new(shape: CopyShape) -> BinaryParser {
        BinaryParser { shape, buffer: Vec::new(), stage: Stage::Header, line: 0, need: 0 }
    }

    /// Takes in a chunk.
    pub fn push(&mut self, data: &[u8], take: TakeRow<'_>) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.try_reserve(data.len()).map_err(|_| out_of_memory(data.len()))?;
        buffer.extend_from_slice(data);
        if buffer.len() >= self.need {
            let used = self.advance(&buffer, take)?;
            buffer.drain(..used);
        }
        self.buffer = buffer;
        Ok(())
    }

    /// The data has ended.
    pub fn finish(&mut self, _take: TakeRow<'_>) -> Result<()> {
        let place = LineContext::new(&self.shape.table, self.line + 1);
        match self.stage {
            Stage::Header if self.buffer.len() < SIGNATURE.len() => {
                Err(bad("COPY file signature not recognized"))
            }
            Stage::Header if self.buffer.len() < SIGNATURE.len() + 4 => {
                Err(bad("invalid COPY file header (missing flags)"))
            }
            Stage::Header => Err(bad("invalid COPY file header (missing length)")),
            Stage::Extension(_) => Err(bad("invalid COPY file header (wrong length)")),
            // As in PostgreSQL, a lone byte is no field count and is ignored: PostgreSQL
            // does.
            Stage::Rows if self.buffer.len() >= 2 => {
                let column = self.incomplete_column();
                Err(bad("unexpected EOF in COPY data").context(match column {
                    Some(column) => place.column_only(&column),
                    None => place.line_only(),
                }))
            }
            Stage::Rows | Stage::Ended => Ok(()),
        }
    }

    /// The column at which the last row breaks off.
    fn incomplete_column(&self) -> Option<String> {
        let mut at = 2;
        for column in &self.shape.columns {
            let len = word(&self.buffer, at).map(|l| l as i32);
            at += 4 + len.unwrap_or(0).max(0) as usize;
            if len.is_none() || at > self.buffer.len() {
                return Some(column.name.clone());
            }
        }
        None
    }

    fn advance(&mut self, data: &[u8], take: TakeRow<'_>) -> Result<usize> {
        let mut used = 0;
        self.need = 0;
        loop {
            let rest = data.get(used..).unwrap_or_default();
            match self.stage {
                Stage::Header => match self.header(rest)? {
                    Some(length) => used += length,
                    None => return Ok(used),
                },
                Stage::Extension(left) => {
                    let skip = rest.len().min(left as usize);
                    used += skip;
                    let left = left - skip as u32;
                    if left > 0 {
                        self.stage = Stage::Extension(left);
                        return Ok(used);
                    }
                    self.stage = Stage::Rows;
                }
                Stage::Rows => match self.extent(rest)? {
                    Extent::Complete(length) if self.stage == Stage::Rows => {
                        self.line += 1;
                        self.row(rest.get(..length).unwrap_or_default(), take)?;
                        used += length;
                    }
                    Extent::Complete(length) => used += length,
                    Extent::Needs(n) => {
                        self.need = n;
                        return Ok(used);
                    }
                },
                Stage::Ended if rest.is_empty() => return Ok(used),
                Stage::Ended => {
                    let context = LineContext::new(&self.shape.table, self.line + 1).line_only();
                    return Err(bad("received copy data after EOF marker").context(context));
                }
            }
        }
    }

    /// The header without its extension, if it is all there.
    fn header(&mut self, data: &[u8]) -> Result<Option<usize>> {
        let length = SIGNATURE.len();
        if !SIGNATURE.starts_with(data.get(..length.min(data.len())).unwrap_or_default()) {
            return Err(bad("COPY file signature not recognized"));
        }
        let (Some(flags), Some(extension)) = (word(data, length), word(data, length + 4)) else {
            return Ok(None);
        };
        if flags & WITH_OIDS != 0 {
            return Err(bad("invalid COPY file header (WITH OIDS)"));
        }
        if flags >> 16 != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        if extension > i32::MAX as u32 {
            return Err(bad("invalid COPY file header (wrong length)"));
        }
        self.stage = Stage::Extension(extension);
        Ok(Some(length + 8))
    }

    /// How long the row at the start of `data` is. The trailer ends the rows.
    fn extent(&mut self, data: &[u8]) -> Result<Extent> {
        let Some(count) = short(data, 0) else { return Ok(Extent::Needs(2)) };
        if count == -1 {
            self.stage = Stage::Ended;
            return Ok(Extent::Complete(2));
        }
        let line = self.line + 1;
        let place = LineContext::new(&self.shape.table, line);
        let expected = self.shape.columns.len();
        if usize::try_from(count) != Ok(expected) {
            let message = format!("row field count is {count}, expected {expected}");
            return Err(bad(message).context(place.line_only()));
        }
        let mut at = 2usize;
        for column in &self.shape.columns {
            let Some(length) = word(data, at) else { return Ok(Extent::Needs(at + 4)) };
            at += 4;
            match length as i32 {
                -1 => {}
                length if length < 0 => {
                    return Err(bad("invalid field size").context(place.column_only(&column.name)));
                }
                length => {
                    let length = length as usize;
                    check_enlarge(at, length, self.shape.longest)
                        .map_err(|e| SqlError::from(e).context(place.column_only(&column.name)))?;
                    at += length;
                }
            }
        }
        Ok(if data.len() < at { Extent::Needs(at) } else { Extent::Complete(at) })
    }

    fn row(&self, data: &[u8], take: TakeRow<'_>) -> Result<()> {
        let place = LineContext::new(&self.shape.table, self.line);
        let mut values = RowValues::default();
        let mut at = 2;
        for column in &self.shape.columns {
            let length = word(data, at).unwrap_or(u32::MAX);
            at += 4;
            if length == u32::MAX {
                continue;
            }
            let bytes = data.get(at..at + length as usize).unwrap_or_default();
            at += length as usize;
            let encoding = self.shape.style.encoding;
            let value = match plain(bytes, column.ty, encoding) {
                Some(value) => value,
                None => binary_in(bytes, column.ty, encoding)
                    .and_then(|value| coerce(value, column.ty, column.typmod, false))
                    .map_err(|e| SqlError::from(e).context(place.column_only(&column.name)))?,
            };
            values.set(column.slot, value);
        }
        take(values.row(self.shape.width), self.line)
            .map_err(|e| if e.context.is_some() { e } else { e.context(place.line_only()) })
    }
}

/// A value of the commonest types, decoded inline; [`binary_in`] would be a call. None for other
/// types, and for bytes that may be wrong.
#[inline]
fn plain(bytes: &[u8], ty: SqlType, encoding: Encoding) -> Option<Datum<'_>> {
    Some(match ty {
        SqlType::Bool => Datum::Bool(<[u8; 1]>::try_from(bytes).ok()? != [0]),
        SqlType::Int2 => Datum::Int2(i16::from_be_bytes(bytes.try_into().ok()?)),
        SqlType::Int4 => Datum::Int4(i32::from_be_bytes(bytes.try_into().ok()?)),
        SqlType::Int8 => Datum::Int8(i64::from_be_bytes(bytes.try_into().ok()?)),
        SqlType::Float4 => Datum::Float4(f32::from_be_bytes(bytes.try_into().ok()?)),
        SqlType::Float8 => Datum::Float8(f64::from_be_bytes(bytes.try_into().ok()?)),
        SqlType::Text if encoding == Encoding::Utf8 && !bytes.contains(&0) => {
            Datum::text(std::str::from_utf8(bytes).ok()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TYPES: [SqlType; 9] = [
        SqlType::Bool,
        SqlType::Int2,
        SqlType::Int4,
        SqlType::Int8,
        SqlType::Float4,
        SqlType::Float8,
        SqlType::Text,
        SqlType::Oid,
        SqlType::Bytea,
    ];

    proptest! {
        #[test]
        fn the_short_way_gives_what_the_long_one_gives(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..10),
                "[a-zä€\0]{0,9}".prop_map(String::into_bytes),
            ],
        ) {
            for ty in TYPES {
                let long = binary_in(&bytes, ty, Encoding::Utf8).ok();
                // As text, since a float may be no number.
                let short = plain(&bytes, ty, Encoding::Utf8).map(|value| format!("{value:?}"));
                let rare = matches!(ty, SqlType::Oid | SqlType::Bytea);
                if short.is_some() || (long.is_some() && !rare) {
                    prop_assert_eq!(short, long.map(|value| format!("{value:?}")), "{:?}", ty);
                }
            }
        }
    }
}
