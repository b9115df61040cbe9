//! Compressed lists of rows on a leaf of a posting tree.
//!
//! ```text
//!   0          6       8                                  8 + length, even
//!   +----------+-------+----------------------------------+-----+
//!   | first    | length| distance to the next row, 1 to 7 | pad |
//!   | row      | u16   | bytes with 7 bits each           |     |
//!   +----------+-------+----------------------------------+-----+
//! ```
//!
//! A row counts as its block with 11 more bits for its number there. Of a distance the lowest bits
//! come first; the highest bit of a byte tells whether another one follows.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::{COMPRESSED, DATA_AT, DATA_ROOM, OPAQUE_AT, Opaque, set_data};
use crate::{
    bytes::Cursor,
    ids::ItemPointer,
    index_page::IndexPageError,
    page::{Page, PageMut},
};

/// Bits for the number of a row in its block.
const OFFSET_BITS: u32 = 11;
/// Bits of a row.
const ROW_BITS: u32 = 32 + OFFSET_BITS;
/// Most bytes of a distance.
const MAX_DISTANCE_BYTES: u32 = 7;
const LIST_HEADER: usize = 8;

const DAMAGED: IndexPageError = IndexPageError::Damaged("a posting list is damaged");
const BAD_ACTION: IndexPageError = IndexPageError::Damaged("a change of posting lists is damaged");

/// A list is removed.
const DELETE: u8 = 1;
/// A list is added.
const INSERT: u8 = 2;
/// A list is replaced.
const REPLACE: u8 = 3;
/// Rows are added to a list.
const ADD_ITEMS: u8 = 4;

/// Changes the lists of a leaf as a record says: a count u16, then for each change the number of
/// the list u8, what happens to it u8, and a list, or a count u16 and rows. Lists are numbered as
/// they were before. On an error the page is as before.
pub fn recompress(page: &mut PageMut<'_>, changes: &[u8]) -> Result<(), IndexPageError> {
    let opaque = Opaque::of_data(page.page(), true)?;
    let old = present_lists(page.page(), &opaque)?;
    let (mut old, mut number) = (Cursor::new(&old), 0);
    let mut changes = Cursor::new(changes);
    let mut new = Vec::with_capacity(DATA_ROOM);
    for _ in 0..changes.u16().ok_or(BAD_ACTION)? {
        let (place, action) = (changes.u8().ok_or(BAD_ACTION)?, changes.u8().ok_or(BAD_ACTION)?);
        while number < place {
            new.extend_from_slice(next_list(&mut old).ok_or(BAD_ACTION)?);
            number += 1;
        }
        if place < number {
            return Err(BAD_ACTION);
        }
        match action {
            INSERT => {
                new.extend_from_slice(next_list(&mut changes).ok_or(BAD_ACTION)?);
                continue;
            }
            DELETE => drop(next_list(&mut old).ok_or(BAD_ACTION)?),
            REPLACE => {
                next_list(&mut old).ok_or(BAD_ACTION)?;
                new.extend_from_slice(next_list(&mut changes).ok_or(BAD_ACTION)?);
            }
            ADD_ITEMS => {
                let list = next_list(&mut old).ok_or(BAD_ACTION)?;
                new.extend_from_slice(&with_items(list, &mut changes)?);
            }
            _ => return Err(BAD_ACTION),
        }
        // At most 255 lists have a number.
        number = number.saturating_add(1);
    }
    new.extend_from_slice(old.rest());
    set_data(page, &new)?;
    if !opaque.has(COMPRESSED) {
        Opaque { flags: opaque.flags | COMPRESSED, count: 0, ..opaque }.store(page);
    }
    Ok(())
}

/// The lists that a leaf has. Rows that are not compressed, as before PostgreSQL 9.4, become one.
fn present_lists(page: Page<'_>, opaque: &Opaque) -> Result<Vec<u8>, IndexPageError> {
    if opaque.has(COMPRESSED) {
        let lists = page.bytes(DATA_AT..page.lower()).ok_or(DAMAGED)?;
        return Ok(lists.to_vec());
    }
    let (stored, _) = page.bytes(DATA_AT..OPAQUE_AT).ok_or(DAMAGED)?.as_chunks();
    let stored = stored.get(..usize::from(opaque.count)).ok_or(DAMAGED)?;
    let rows: Result<Vec<u64>, _> = stored.iter().map(|&row| number_of(row)).collect();
    encode(&rows?)
}

/// The next list of several. None if it is not whole.
fn next_list<'a>(lists: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let mut ahead = lists.clone();
    ahead.take(LIST_HEADER - 2)?;
    let len = usize::from(ahead.u16()?).next_multiple_of(2);
    lists.take(LIST_HEADER + len)
}

fn number_of(row: [u8; ItemPointer::SIZE]) -> Result<u64, IndexPageError> {
    let ItemPointer { block, offset } = ItemPointer::decode(row);
    match offset >> OFFSET_BITS {
        0 => Ok(u64::from(block) << OFFSET_BITS | u64::from(offset)),
        _ => Err(DAMAGED),
    }
}

fn row_of(number: u64) -> ItemPointer {
    let offset = number & ((1 << OFFSET_BITS) - 1);
    ItemPointer::new((number >> OFFSET_BITS) as u32, offset as u16)
}

/// The rows of a list.
pub(super) fn decode(list: &[u8]) -> Result<Vec<u64>, IndexPageError> {
    let mut list = Cursor::new(list);
    let first = number_of(list.array().ok_or(DAMAGED)?)?;
    let len = usize::from(list.u16().ok_or(DAMAGED)?);
    let mut distances = Cursor::new(list.take(len).ok_or(DAMAGED)?);
    let mut rows = vec![first];
    let mut row = first;
    while distances.remaining() > 0 {
        row += distance(&mut distances).ok_or(DAMAGED)?;
        if row >> ROW_BITS != 0 {
            return Err(DAMAGED);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn distance(bytes: &mut Cursor<'_>) -> Option<u64> {
    let mut distance = 0;
    for place in 0..MAX_DISTANCE_BYTES {
        let byte = u64::from(bytes.u8()?);
        distance |= (byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(distance);
        }
    }
    None
}

/// The list of some rows, which must ascend; nothing if there are none.
pub(super) fn encode(rows: &[u64]) -> Result<Vec<u8>, IndexPageError> {
    let Some(&first) = rows.first() else { return Ok(Vec::new()) };
    let mut list = row_of(first).encode().to_vec();
    list.extend_from_slice(&[0; 2]);
    for &[before, row] in rows.array_windows() {
        let mut distance = row.checked_sub(before).filter(|&d| d > 0).ok_or(DAMAGED)?;
        while distance > 0x7f {
            list.push(0x80 | distance as u8);
            distance >>= 7;
        }
        list.push(distance as u8);
    }
    let len = u16::try_from(list.len() - LIST_HEADER).map_err(|_| DAMAGED)?;
    crate::bytes::put(&mut list, LIST_HEADER - 2, len.to_le_bytes());
    list.resize(list.len().next_multiple_of(2), 0);
    Ok(list)
}

/// A list with more rows: a count u16, then the rows.
fn with_items(list: &[u8], items: &mut Cursor<'_>) -> Result<Vec<u8>, IndexPageError> {
    let count = usize::from(items.u16().ok_or(BAD_ACTION)?);
    let (items, _) = items.take(count * ItemPointer::SIZE).ok_or(BAD_ACTION)?.as_chunks();
    let mut rows = decode(list)?;
    for &item in items {
        rows.push(number_of(item)?);
    }
    rows.sort_unstable();
    rows.dedup();
    encode(&rows)
}
