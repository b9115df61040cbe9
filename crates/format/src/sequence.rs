//! The page of a sequence: one heap tuple, which belongs to no transaction.
//!
//! ```text
//!   tuple:       header, 24 bytes | last_value, 8 | log_cnt, 8 | is_called, 1
//!   header:      xmin 2, frozen | xmax 0, invalid | ctid (0,1) | 3 attributes
//!   special space, 8 bytes: 0x1717, zeros
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::bytes::{Cursor, put};
use crate::ids::{BLOCK_SIZE, FROZEN_XID, ItemPointer};
use crate::page::{Page, PageMut};
use crate::tuple::{HEAP_XMAX_INVALID, HEAP_XMIN_FROZEN, HeapTuple};

/// The number in the special space of a sequence's page.
pub const MAGIC: u32 = 0x1717;
/// The line pointer of the tuple.
pub const ITEM: u16 = 1;
/// Bytes of the special space.
const SPECIAL_SIZE: usize = 8;
/// Bytes of the tuple's header, padded.
const HEADER: usize = 24;
/// Bytes of its values.
const VALUES: usize = 17;
/// Bytes of the tuple.
pub const TUPLE_SIZE: usize = HEADER + VALUES;
/// Columns of a sequence.
const COLUMNS: u16 = 3;

const _: () = assert!(TUPLE_SIZE == 41);

/// What a sequence's tuple says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceTuple {
    /// The value handed out last, or the one to be handed out first.
    pub last_value: i64,
    /// How many values behind it the log knows as handed out.
    pub log_count: i64,
    /// Whether `last_value` was handed out.
    pub is_called: bool,
}

/// Why a page is not a sequence's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SequencePageError {
    /// The special space has another number, or another size.
    #[error("bad magic number: {0:08X}")]
    Magic(u32),
    /// There is no tuple, or a shorter one.
    #[error("it has no tuple of a sequence")]
    Tuple,
}

impl SequenceTuple {
    /// The tuple's bytes.
    pub fn encode(&self) -> [u8; TUPLE_SIZE] {
        let mut tuple = [0; TUPLE_SIZE];
        put(&mut tuple, 0, FROZEN_XID.to_le_bytes());
        put(&mut tuple, 12, ItemPointer { block: 0, offset: ITEM }.encode());
        put(&mut tuple, 18, COLUMNS.to_le_bytes());
        put(&mut tuple, 20, (HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID).to_le_bytes());
        put(&mut tuple, 22, [HEADER as u8]);
        put(&mut tuple, HEADER, self.last_value.to_le_bytes());
        put(&mut tuple, HEADER + 8, self.log_count.to_le_bytes());
        put(&mut tuple, HEADER + 16, [u8::from(self.is_called)]);
        tuple
    }

    /// The tuple of a sequence's page.
    pub fn of(page: Page<'_>) -> Result<SequenceTuple, SequencePageError> {
        let special = page.special_bytes();
        let magic = special.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if magic != MAGIC || special.len() != SPECIAL_SIZE {
            return Err(SequencePageError::Magic(magic));
        }
        page.item(ITEM).and_then(values).ok_or(SequencePageError::Tuple)
    }

    /// Replaces the tuple of a sequence's page. Returns whether there is one of its size.
    pub fn store(&self, page: &mut PageMut<'_>) -> bool {
        let tuple = self.encode();
        match page.item_mut(ITEM).filter(|item| item.len() == tuple.len()) {
            Some(item) => {
                item.copy_from_slice(&tuple);
                true
            }
            None => false,
        }
    }
}

fn values(item: &[u8]) -> Option<SequenceTuple> {
    if HeapTuple::new(item).ok()?.hoff() != HEADER {
        return None;
    }
    let mut cursor = Cursor::new(item.get(HEADER..)?);
    let last_value = i64::from_le_bytes(cursor.array()?);
    let log_count = i64::from_le_bytes(cursor.array()?);
    let [is_called] = cursor.array()?;
    Some(SequenceTuple { last_value, log_count, is_called: is_called != 0 })
}

/// Makes a sequence's page with a tuple's bytes. Returns whether the tuple fits.
pub fn init_page(page: &mut PageMut<'_>, tuple: &[u8]) -> bool {
    page.init(SPECIAL_SIZE);
    put(page.0, BLOCK_SIZE - SPECIAL_SIZE, MAGIC.to_le_bytes());
    !tuple.is_empty() && page.add_item(tuple, Some(ITEM)).is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const STATE: SequenceTuple = SequenceTuple { last_value: -7, log_count: 32, is_called: true };

    #[test]
    fn a_tuple_is_postgresql_s() {
        // As PostgreSQL 18 wrote it after `CREATE SEQUENCE s; SELECT nextval('s')`.
        let expected = "0200000000000000000000000000000001000300000b1800\
                        0100000000000000200000000000000001";
        let state = SequenceTuple { last_value: 1, log_count: 32, is_called: true };
        let hex: String = state.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn a_page_is_read_and_changed() {
        let mut bytes = [0xaa; BLOCK_SIZE];
        assert!(init_page(&mut PageMut::new(&mut bytes), &STATE.encode()));
        assert_eq!(SequenceTuple::of(Page::new(&bytes)), Ok(STATE));
        let next = SequenceTuple { last_value: i64::MAX, log_count: 0, is_called: false };
        assert!(next.store(&mut PageMut::new(&mut bytes)));
        assert_eq!(SequenceTuple::of(Page::new(&bytes)), Ok(next));
        assert_eq!(Page::new(&bytes).special_bytes(), [0x17, 0x17, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn other_pages_are_refused() {
        let mut bytes = [0; BLOCK_SIZE];
        assert_eq!(SequenceTuple::of(Page::new(&bytes)), Err(SequencePageError::Magic(0)));
        PageMut::new(&mut bytes).init(0);
        assert_eq!(SequenceTuple::of(Page::new(&bytes)), Err(SequencePageError::Magic(0)));
        for tuple in [&[1; 23][..], &STATE.encode()[..40], &[255; 60]] {
            assert!(init_page(&mut PageMut::new(&mut bytes), tuple));
            assert_eq!(SequenceTuple::of(Page::new(&bytes)), Err(SequencePageError::Tuple));
            assert!(!STATE.store(&mut PageMut::new(&mut bytes)), "of another size");
        }
        for byte in 0..=255 {
            let bytes = [byte; BLOCK_SIZE];
            assert!(SequenceTuple::of(Page::new(&bytes)).is_err());
        }
    }
}
