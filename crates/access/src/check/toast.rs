//! A value out of line, and what the chunks of it must be.

use forebay_format::tuple::Deform;
use forebay_format::varlena::{self, ToastPointer, Varlena, split_compressed};
use forebay_format::{AttrLayout, BlockNumber, Fork, HeapTuple, OffsetNumber, Oid, Page};

use super::chains::Root;
use super::finding::Finding;
use crate::toast::{CHUNK_SIZE, LAYOUTS, pointers};

/// A value out of line that a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The pointer to it.
    pub pointer: ToastPointer,
    /// The block of its row.
    pub block: BlockNumber,
    /// The line pointer of its row.
    pub offset: OffsetNumber,
    /// Its attribute, from 0.
    pub attribute: u16,
}

impl StoredValue {
    /// A complaint about it, at its row.
    pub(crate) fn finding(&self, message: String) -> Finding {
        let StoredValue { block, offset, attribute, .. } = *self;
        let (offset, attribute) = (Some(offset), Some(attribute));
        Finding { fork: Fork::Main, block, offset, attribute, message }
    }
}

/// The values of a tuple that are in the TOAST table `toast`, if their pointers can be honoured:
/// the others are told where the tuple is checked.
pub(crate) fn values_of_tuple(
    tuple: HeapTuple<'_>,
    columns: &[AttrLayout],
    toast: Oid,
    (block, offset): (BlockNumber, OffsetNumber),
    found: &mut Vec<StoredValue>,
) {
    let Ok(own) = pointers(tuple, columns) else { return };
    let sound = own
        .into_iter()
        .filter(|(_, pointer)| pointer.toast_rel == toast && pointer.value_size().is_some());
    found.extend(sound.filter_map(|(attribute, pointer)| {
        let attribute = u16::try_from(attribute).ok()?;
        Some(StoredValue { pointer, block, offset, attribute })
    }));
}

/// The values out of line that the live rows of a page have.
pub fn stored_values(
    columns: &[AttrLayout],
    toast: Oid,
    block: BlockNumber,
    roots: &[Root<'_>],
) -> Vec<StoredValue> {
    let mut found = Vec::new();
    for (number, root) in (1..).zip(roots) {
        if let Root::Live(tuple) = root {
            values_of_tuple(*tuple, columns, toast, (block, number), &mut found);
        }
    }
    found
}

/// What a chunk is: its number and size, and of the first one how its value is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub number: i32,
    pub size: u32,
    /// Raw size and method, if its value is compressed.
    pub info: Option<u32>,
}

/// A row of a TOAST table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRow {
    pub(crate) value: Oid,
    /// Whether the row exists for a transaction that begins now.
    pub(crate) live: bool,
    pub(crate) number: Option<i32>,
    /// What it holds, or what is wrong with it.
    pub(crate) chunk: Result<Chunk, String>,
}

impl ChunkRow {
    /// Reads a row; `None` if it does not tell its value, which is told where it is checked.
    pub(crate) fn read(tuple: HeapTuple<'_>, live: bool) -> Option<ChunkRow> {
        let mut walk = Deform::new(tuple).ok()?;
        let [value, number, data] = LAYOUTS.map(|layout| walk.next(layout).ok());
        let word = |value: Option<Option<Varlena<'_>>>| match value {
            Some(Some(Varlena::Plain(bytes))) => bytes.first_chunk().copied(),
            _ => None,
        };
        let value = Oid::from_le_bytes(word(value)?);
        let number = word(number).map(i32::from_le_bytes);
        Some(ChunkRow { value, live, number, chunk: chunk_of(value, number, data?) })
    }
}

fn chunk_of(value: Oid, number: Option<i32>, data: Option<Varlena<'_>>) -> Result<Chunk, String> {
    let Some(number) = number else {
        return Err(format!("toast value {value} has toast chunk with null sequence number"));
    };
    let header = match data {
        None => return Err(format!("toast value {value} chunk {number} has null data")),
        Some(Varlena::Plain(data)) => {
            let info = match split_compressed(data) {
                Some(Varlena::Compressed { raw_size, method, .. }) if number == 0 => {
                    Some(varlena::compression_info(raw_size, method))
                }
                _ => None,
            };
            return Ok(Chunk { number, size: data.len() as u32, info });
        }
        Some(Varlena::Compressed { data, .. }) => {
            (data.len() + varlena::COMPRESSED_HEADER_SIZE) << 2 | 2
        }
        Some(Varlena::External(_)) => 1,
    };
    Err(format!("toast value {value} chunk {number} has invalid varlena header {header:x}"))
}

/// The rows on a page of a TOAST table.
pub fn chunk_rows(page: Page<'_>, roots: &[Root<'_>]) -> Vec<ChunkRow> {
    let row = |(number, root): (OffsetNumber, &Root<'_>)| match root {
        Root::Live(tuple) => ChunkRow::read(*tuple, true),
        Root::Gone => ChunkRow::read(HeapTuple::new(page.item(number)?).ok()?, false),
        Root::Nothing => None,
    };
    (1..).zip(roots).filter_map(row).collect()
}

/// How many chunks a value has.
pub(crate) fn chunk_count(pointer: ToastPointer) -> u32 {
    pointer.stored_size().div_ceil(CHUNK_SIZE as u32)
}

/// Checks a chunk of a value without looking at the others. Returns what is wrong with it. `Err`:
/// the value has no such chunk.
pub(crate) fn check_chunk(pointer: ToastPointer, chunk: Chunk) -> Result<Option<String>, String> {
    let (value, Chunk { number, size, .. }) = (pointer.value_id, chunk);
    let count = chunk_count(pointer);
    let last = i64::from(count) - 1;
    let Ok(at) = u32::try_from(number) else {
        return Err(format!("toast value {value} has a chunk with number {number}"));
    };
    if i64::from(at) > last {
        return Err(format!(
            "toast value {value} chunk {number} follows last expected chunk {last}"
        ));
    }
    let whole = CHUNK_SIZE as u32;
    let expected = if i64::from(at) < last { whole } else { pointer.stored_size() - at * whole };
    if size != expected {
        return Ok(Some(format!(
            "toast value {value} chunk {number} has size {size}, but expected size {expected}"
        )));
    }
    if at == 0 && pointer.is_compressed() {
        return Ok(compression_problem(pointer, chunk.info));
    }
    Ok(None)
}

/// A compressed value begins with its raw size and its method, which its pointer has too.
fn compression_problem(pointer: ToastPointer, info: Option<u32>) -> Option<String> {
    let size = pointer.value_size()?;
    let expected = varlena::compression_info(size, pointer.method());
    let value = pointer.value_id;
    match info {
        Some(info) if info == expected => None,
        Some(info) => Some(format!(
            "toast value {value} begins with raw size and method {info:#010x}, but its pointer \
             says {expected:#010x}"
        )),
        None => Some(format!("toast value {value} is too short for a compressed value")),
    }
}
