//! Values that are stored out of line or compressed, and parts of texts among them. For a part the
//! bytes come piece by piece, cut anywhere, and the reading ends with the last one that is needed.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ops::{ControlFlow, Range};

use forebay_access::toast::{Show, ToastTable};
use forebay_format::expand::Expander;
use forebay_format::varlena::{DecompressError, ToastPointer, decompress};
use forebay_storage::Backend;
use forebay_types::{Datum, Encoding, Repr};

use super::stored::decoded;
use crate::error::EngineError;

/// Compressed bytes that are decompressed at once for a part.
const PART: usize = 256;

/// What is wanted of a value that is stored out of line or compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Characters of a text, by number from 0.
    Characters(Range<usize>),
    /// How many characters a text has, as an int4.
    Count,
}

/// Characters that are looked for in the pieces of a text.
struct Finder {
    wanted: Range<usize>,
    /// How many have begun.
    begun: usize,
    found: Vec<u8>,
}

/// Whether a character begins with this byte.
fn begins(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

fn count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| begins(**byte)).count()
}

impl Finder {
    /// Takes the wanted bytes of a piece. Break: there are no more.
    fn take(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let Finder { wanted, begun, found } = self;
        let before = *begun;
        *begun += count(piece);
        // Where a character begins of those that begin here.
        let place = |number: usize| {
            let mut places = piece.iter().enumerate().filter(|(_, byte)| begins(**byte));
            places.nth(number - before).map(|(place, _)| place)
        };
        let from = match wanted.start {
            start if start < before => Some(0),
            start if start < *begun => place(start),
            _ => None,
        };
        let to = if wanted.end < *begun { place(wanted.end) } else { None };
        if let Some(from) = from {
            let bytes = piece.get(from..to.unwrap_or(piece.len()));
            found.extend_from_slice(bytes.unwrap_or_default());
        }
        if to.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Where a value is whose bytes are not simply there.
pub(super) enum Source<'a> {
    /// In a TOAST table.
    Table(&'a ToastTable, &'a mut Backend, ToastPointer),
    /// Compressed in its row.
    Row { raw_size: u32, method: u8, data: &'a [u8] },
}

impl Source<'_> {
    fn whole(self) -> Result<Vec<u8>, EngineError> {
        match self {
            Source::Table(table, backend, pointer) => Ok(table.fetch(backend, pointer)?),
            Source::Row { raw_size, method, data } => {
                decompress(raw_size, method, data).map_err(damaged)
            }
        }
    }

    /// Shows it piece by piece.
    fn show(self, show: Show<'_>) -> Result<(), EngineError> {
        let (raw_size, method, data) = match self {
            Source::Table(table, backend, pointer) => {
                return Ok(table.show(backend, pointer, 0..usize::MAX, show)?);
            }
            Source::Row { raw_size, method, data } => (raw_size, method, data),
        };
        let mut expander = Expander::new(raw_size, method).map_err(damaged)?;
        let wrong = || damaged(DecompressError::Damaged { len: data.len(), raw_size });
        for part in data.chunks(PART) {
            if expander.expand(part, show).ok_or_else(wrong)?.is_break() {
                return Ok(());
            }
        }
        if expander.is_whole() { Ok(()) } else { Err(wrong()) }
    }
}

#[cold]
fn damaged(error: DecompressError) -> EngineError {
    EngineError::corrupt(error.to_string())
}

/// Reads what is wanted of a value, whose texts are in an encoding.
pub(super) fn fetched(
    source: Source<'_>,
    (repr, part): (Repr, Part),
    encoding: Encoding,
) -> Result<Datum<'static>, EngineError> {
    match part {
        Part::Whole => decoded(source.whole()?, repr, encoding),
        // Each byte is a character.
        Part::Characters(wanted) if encoding == Encoding::SqlAscii => {
            let bytes = source.whole()?.into_iter();
            let found = bytes.skip(wanted.start).take(wanted.len()).collect();
            decoded(found, repr, encoding)
        }
        Part::Count if encoding == Encoding::SqlAscii => {
            Ok(Datum::Int4(i32::try_from(source.whole()?.len()).unwrap_or(i32::MAX)))
        }
        Part::Characters(wanted) => {
            let mut finder = Finder { wanted, begun: 0, found: Vec::new() };
            if !finder.wanted.is_empty() {
                source.show(&mut |piece| finder.take(piece))?;
            }
            decoded(finder.found, repr, encoding)
        }
        Part::Count => {
            let mut characters = 0;
            source.show(&mut |piece| {
                characters += count(piece);
                ControlFlow::Continue(())
            })?;
            Ok(Datum::Int4(i32::try_from(characters).unwrap_or(i32::MAX)))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_found_however_the_text_is_cut() {
        let text = "aäz€😀b€ö";
        let all: Vec<char> = text.chars().collect();
        for size in 1..=text.len() {
            for start in 0..=all.len() + 1 {
                for end in start + 1..=all.len() + 2 {
                    let mut finder = Finder { wanted: start..end, begun: 0, found: Vec::new() };
                    let pieces = text.as_bytes().chunks(size);
                    let read = pieces.take_while(|piece| finder.take(piece).is_continue()).count();
                    let expected: String =
                        all[start.min(all.len())..end.min(all.len())].iter().collect();
                    assert_eq!(String::from_utf8(finder.found).unwrap(), expected);
                    if let Some(next) = text.char_indices().nth(end) {
                        assert_eq!(read, next.0 / size, "{start}..{end} in pieces of {size}");
                    }
                }
            }
        }
        assert_eq!(count(text.as_bytes()), all.len());
    }
}
