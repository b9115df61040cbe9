//! The data page: header, line pointers, items, special space.
//!
//! ```text
//!   0        8          10      12      14      16        18             20          24
//!   +--------+----------+-------+-------+-------+---------+--------------+-----------+
//!   | lsn    | checksum | flags | lower | upper | special | size+version | prune xid |
//!   +--------+----------+-------+-------+-------+---------+--------------+-----------+
//!   24                 lower      upper         special         8192
//!   +------------------+----------+-------------+---------------+
//!   | line pointers -> |   hole   | <- items    | special space |
//!   | 4 bytes each     |          |             |               |
//!   +------------------+----------+-------------+---------------+
//!
//!   line pointer (u32):  bits 0..14 offset of the item | 15..16 state | 17..31 length of the item
//! ```
//!
//! - lsn: end of the last WAL record that changed the page. The WAL must be durable up to it before
//!   the page is written. It is stored as two little-endian halves, the high one first.
//! - checksum: see [`crate::checksum`]
//! - lower, upper: the bounds of the hole between line pointers and items
//! - special: where an index's own data begins; 8192 for a heap
//! - size+version: 8192 with 4
//! - prune xid: the oldest transaction whose changes to this page pruning could remove; a hint

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ops::Range;

use crate::{
    bytes::{max_align, put, u16_field, u32_field},
    ids::{BLOCK_SIZE, OffsetNumber, Xid},
    lsn::Lsn,
};

/// The bytes of a page.
pub type PageBytes = [u8; BLOCK_SIZE];

/// Bytes of the page header; the line pointers begin here.
pub const HEADER_SIZE: usize = 24;
/// Bytes of a line pointer.
pub const ITEM_ID_SIZE: usize = 4;
/// Page size and layout version as stored.
pub const SIZE_AND_VERSION: u16 = BLOCK_SIZE as u16 | 4;
/// Most line pointers a heap page may have.
pub const MAX_HEAP_TUPLES: usize = (BLOCK_SIZE - HEADER_SIZE) / (max_align(23) + ITEM_ID_SIZE);
/// Largest tuple that fits a heap page.
pub const MAX_HEAP_TUPLE_SIZE: usize = BLOCK_SIZE - max_align(HEADER_SIZE + ITEM_ID_SIZE);

/// Flag: there may be unused line pointers before `lower` (a hint).
pub const PD_HAS_FREE_LINES: u16 = 1;
/// Flag: an update found no space (a hint).
pub const PD_PAGE_FULL: u16 = 2;
/// Flag: all tuples are visible to all transactions.
pub const PD_ALL_VISIBLE: u16 = 4;
/// All valid flags.
pub const PD_VALID_FLAGS: u16 = 7;

/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 8;
const FLAGS_AT: usize = 10;
const LOWER_AT: usize = 12;
const UPPER_AT: usize = 14;
const SPECIAL_AT: usize = 16;
const SIZE_VERSION_AT: usize = 18;
const PRUNE_XID_AT: usize = 20;
/// The bytes behind the checksum.
const REST_AT: usize = FLAGS_AT;
const REST_LEN: usize = BLOCK_SIZE - REST_AT;

const _: () = assert!(PRUNE_XID_AT + 4 == HEADER_SIZE);
const _: () = assert!(CHECKSUM_AT + 2 == REST_AT);
const _: () = assert!(MAX_HEAP_TUPLES == 291);
const _: () = assert!(MAX_HEAP_TUPLE_SIZE == 8160);

/// State of a line pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ItemState {
    /// Free for reuse.
    Unused = 0,
    /// Points to an item.
    Normal = 1,
    /// Points to another line pointer, whose number is in `offset`.
    Redirect = 2,
    /// Its item is dead, and may have storage.
    Dead = 3,
}

/// A line pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemId {
    /// Offset of the item on the page.
    pub offset: u16,
    /// State.
    pub state: ItemState,
    /// Length of the item; 0 if it has no storage.
    pub len: u16,
}

impl ItemId {
    /// The unused one: all bits zero.
    pub const UNUSED: Self = Self { offset: 0, state: ItemState::Unused, len: 0 };

    /// Decodes the stored form.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        let state = match (bits >> 15) & 3 {
            0 => ItemState::Unused,
            1 => ItemState::Normal,
            2 => ItemState::Redirect,
            _ => ItemState::Dead,
        };
        Self { offset: (bits & 0x7fff) as u16, state, len: (bits >> 17) as u16 }
    }

    /// The stored form.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        (self.offset as u32 & 0x7fff) | (self.state as u32) << 15 | (self.len as u32) << 17
    }

    /// Whether it points to an item.
    #[inline]
    pub const fn is_normal(self) -> bool {
        matches!(self.state, ItemState::Normal)
    }

    /// Whether it is free for a new item.
    #[inline]
    pub const fn is_unused(self) -> bool {
        matches!(self.state, ItemState::Unused)
    }
}

/// The checksum stored in a page.
#[inline]
pub fn stored_checksum(bytes: &PageBytes) -> u16 {
    u16_field(bytes, CHECKSUM_AT)
}

/// Whether all bytes are zero, including the checksum.
pub fn is_all_zeros(bytes: &PageBytes) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// A page, to read, without its checksum. Another thread may store the checksum at the same time,
/// because that happens in place before a write, while others read the page. So this consists of
/// the bytes before and behind that field.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    head: &'a [u8; CHECKSUM_AT],
    rest: &'a [u8; REST_LEN],
}

impl<'a> Page<'a> {
    /// Views bytes as a page.
    #[inline]
    pub fn new(bytes: &'a PageBytes) -> Self {
        let parts = bytes.first_chunk().zip(bytes.last_chunk());
        let Some((head, rest)) = parts else { unreachable!("the parts are shorter than a page") };
        Self { head, rest }
    }

    /// Makes a page from the bytes before its checksum and those behind.
    #[inline]
    pub const fn from_parts(head: &'a [u8; CHECKSUM_AT], rest: &'a [u8; REST_LEN]) -> Self {
        Self { head, rest }
    }

    #[inline]
    fn field(&self, at: usize) -> u16 {
        u16_field(self.rest, at - REST_AT)
    }

    /// The bytes at offsets of the page, or `None` if the range ends past the page or begins before
    /// the flags.
    #[inline]
    pub fn bytes(&self, range: Range<usize>) -> Option<&'a [u8]> {
        self.rest.get(range.start.checked_sub(REST_AT)?..range.end.checked_sub(REST_AT)?)
    }

    /// Copies all bytes except the checksum.
    pub fn copy_to(&self, bytes: &mut PageBytes) {
        put(bytes, 0, *self.head);
        put(bytes, REST_AT, *self.rest);
    }

    /// End of the last WAL record that changed it.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        Lsn(u64::from_le_bytes(*self.head).rotate_left(32))
    }

    /// Flag bits.
    #[inline]
    pub fn flags(&self) -> u16 {
        self.field(FLAGS_AT)
    }

    /// End of the line pointers.
    #[inline]
    pub fn lower(&self) -> usize {
        usize::from(self.field(LOWER_AT))
    }

    /// Start of the items.
    #[inline]
    pub fn upper(&self) -> usize {
        usize::from(self.field(UPPER_AT))
    }

    /// Start of the special space.
    #[inline]
    pub fn special(&self) -> usize {
        usize::from(self.field(SPECIAL_AT))
    }

    /// Page size and layout version as stored.
    pub fn size_and_version(&self) -> u16 {
        self.field(SIZE_VERSION_AT)
    }

    /// The pruning hint.
    pub fn prune_xid(&self) -> Xid {
        u32_field(self.rest, PRUNE_XID_AT - REST_AT)
    }

    /// Whether all tuples are visible to all transactions.
    #[inline]
    pub fn is_all_visible(&self) -> bool {
        self.flags() & PD_ALL_VISIBLE != 0
    }

    /// Whether an update found no space (a hint).
    #[inline]
    pub fn is_full(&self) -> bool {
        self.flags() & PD_PAGE_FULL != 0
    }

    /// Whether it was never initialized: `upper` is zero.
    #[inline]
    pub fn is_new(&self) -> bool {
        self.upper() == 0
    }

    /// Whether all bytes are zero, not counting the checksum.
    pub fn is_all_zeros(&self) -> bool {
        self.head.iter().chain(self.rest).all(|&byte| byte == 0)
    }

    /// Whether the header is plausible, regardless of the items. A new page's header is plausible
    /// only if it is all zeros.
    #[inline]
    pub fn header_is_sane(&self) -> bool {
        let (lower, upper, special) = (self.lower(), self.upper(), self.special());
        self.flags() & !PD_VALID_FLAGS == 0
            && lower <= upper
            && upper <= special
            && special <= BLOCK_SIZE
            && special == max_align(special)
    }

    /// Number of line pointers, at most as many as fit a page.
    #[inline]
    pub fn item_count(&self) -> OffsetNumber {
        (self.lower().clamp(HEADER_SIZE, BLOCK_SIZE).saturating_sub(HEADER_SIZE) / ITEM_ID_SIZE)
            as OffsetNumber
    }

    /// The line pointer with a number; the first is 1.
    #[inline]
    pub fn item_id(&self, n: OffsetNumber) -> Option<ItemId> {
        if n == 0 || n > self.item_count() {
            return None;
        }
        Some(ItemId::from_bits(u32_field(self.rest, item_id_at(n) - REST_AT)))
    }

    /// All line pointers as stored, for [`ItemId::from_bits`].
    #[inline]
    pub fn line_pointers(&self) -> &'a [[u8; ITEM_ID_SIZE]] {
        let end = HEADER_SIZE + ITEM_ID_SIZE * usize::from(self.item_count());
        self.bytes(HEADER_SIZE..end).expect("line pointers are on the page").as_chunks().0
    }

    /// The bytes of a normal item; `None` for other line pointers, and if the item ends past the
    /// page.
    #[inline]
    pub fn item(&self, n: OffsetNumber) -> Option<&'a [u8]> {
        let id = self.item_id(n).filter(|id| id.is_normal())?;
        let start = usize::from(id.offset);
        self.bytes(start..start.checked_add(usize::from(id.len))?)
    }

    /// All normal items with their numbers, in order of their line pointers.
    pub fn items(self) -> impl Iterator<Item = (OffsetNumber, &'a [u8])> {
        (1..=self.item_count()).filter_map(move |n| self.item(n).map(|bytes| (n, bytes)))
    }

    /// The special space; empty if the header states an impossible one.
    pub fn special_bytes(&self) -> &'a [u8] {
        self.bytes(self.special()..BLOCK_SIZE).unwrap_or_default()
    }

    /// Bytes between line pointers and items.
    #[inline]
    pub fn hole_len(&self) -> usize {
        self.upper().saturating_sub(self.lower())
    }

    /// Space for one more item with a new line pointer. The item's size must be rounded up to a
    /// multiple of 8.
    #[inline]
    pub fn free_space(&self) -> usize {
        self.hole_len().saturating_sub(ITEM_ID_SIZE)
    }

    /// Space for one more heap tuple: [`free_space`](Self::free_space), but none if all line
    /// pointers that a heap page may have are in use.
    #[inline]
    pub fn heap_free_space(&self) -> usize {
        let space = self.free_space();
        let count = self.item_count();
        if space == 0 || usize::from(count) < MAX_HEAP_TUPLES {
            return space;
        }
        let free_line = self.flags() & PD_HAS_FREE_LINES != 0 && self.find_unused().is_some();
        if free_line { space } else { 0 }
    }

    /// The first line pointer that is free for reuse.
    fn find_unused(&self) -> Option<OffsetNumber> {
        (1..=self.item_count())
            .find(|&n| self.item_id(n).is_some_and(|id| id.is_unused() && id.len == 0))
    }
}

const fn item_id_at(n: OffsetNumber) -> usize {
    HEADER_SIZE + (n as usize - 1) * ITEM_ID_SIZE
}

/// A page, to change.
#[derive(Debug)]
pub struct PageMut<'a>(pub &'a mut PageBytes);

impl<'a> PageMut<'a> {
    /// Views bytes as a page to change.
    #[inline]
    pub const fn new(bytes: &'a mut PageBytes) -> Self {
        Self(bytes)
    }

    /// The page, to read.
    #[inline]
    pub fn page(&self) -> Page<'_> {
        Page::new(self.0)
    }

    #[inline]
    fn set_field(&mut self, at: usize, value: u16) {
        put(self.0, at, value.to_le_bytes());
    }

    /// Initializes an empty page with special space, whose size is rounded up to a multiple of 8.
    ///
    /// # Panics
    /// If the special space leaves no space for the header.
    pub fn init(&mut self, special_size: usize) {
        let special_size = max_align(special_size);
        assert!(special_size <= BLOCK_SIZE - HEADER_SIZE, "special space of {special_size} bytes");
        self.0.fill(0);
        let special = (BLOCK_SIZE - special_size) as u16;
        self.set_field(LOWER_AT, HEADER_SIZE as u16);
        self.set_field(UPPER_AT, special);
        self.set_field(SPECIAL_AT, special);
        self.set_field(SIZE_VERSION_AT, SIZE_AND_VERSION);
    }

    /// Sets the end of the last WAL record that changed it.
    #[inline]
    pub fn set_lsn(&mut self, lsn: Lsn) {
        put(self.0, 0, lsn.0.rotate_left(32).to_le_bytes());
    }

    /// Stores a checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        self.set_field(CHECKSUM_AT, checksum);
    }

    /// Sets all flag bits.
    pub fn set_flags(&mut self, flags: u16) {
        self.set_field(FLAGS_AT, flags);
    }

    /// Sets or clears one flag.
    pub fn set_flag(&mut self, flag: u16, on: bool) {
        let flags = self.page().flags();
        self.set_flags(if on { flags | flag } else { flags & !flag });
    }

    /// Sets or clears the flag [`PD_ALL_VISIBLE`].
    pub fn set_all_visible(&mut self, on: bool) {
        self.set_flag(PD_ALL_VISIBLE, on);
    }

    /// Sets the end of the line pointers.
    #[inline]
    pub fn set_lower(&mut self, lower: u16) {
        self.set_field(LOWER_AT, lower);
    }

    /// Sets the start of the items.
    #[inline]
    pub fn set_upper(&mut self, upper: u16) {
        self.set_field(UPPER_AT, upper);
    }

    /// Sets the pruning hint.
    pub fn set_prune_xid(&mut self, xid: Xid) {
        put(self.0, PRUNE_XID_AT, xid.to_le_bytes());
    }

    /// Sets the pruning hint to `xid`, if that is older than the current one.
    #[inline]
    pub fn note_prunable(&mut self, xid: Xid) {
        let present = self.page().prune_xid();
        if present == 0 || crate::ids::xid_precedes(xid, present) {
            self.set_prune_xid(xid);
        }
    }

    /// Replaces a line pointer. Returns whether it exists.
    #[inline]
    pub fn set_item_id(&mut self, n: OffsetNumber, id: ItemId) -> bool {
        let exists = n != 0 && n <= self.page().item_count();
        if exists {
            put(self.0, item_id_at(n), id.to_bits().to_le_bytes());
        }
        exists
    }

    /// The bytes of a normal item, to change.
    #[inline]
    pub fn item_mut(&mut self, n: OffsetNumber) -> Option<&mut [u8]> {
        let id = self.page().item_id(n).filter(|id| id.is_normal())?;
        let start = usize::from(id.offset);
        self.0.get_mut(start..start.checked_add(usize::from(id.len))?)
    }

    /// Adds a heap tuple and returns its number, or `None` if it does not fit or `at` is in use.
    ///
    /// Without `at`, reuses a line pointer if the page has the flag [`PD_HAS_FREE_LINES`], and else
    /// appends one. With `at`, uses that line pointer, which must be unused or the next after the
    /// last.
    pub fn add_item(&mut self, item: &[u8], at: Option<OffsetNumber>) -> Option<OffsetNumber> {
        let page = self.page();
        let (lower, upper) = (page.lower(), page.upper());
        if lower < HEADER_SIZE || !page.header_is_sane() {
            return None;
        }
        let limit = page.item_count() + 1;
        let n = match at {
            Some(n) if n == 0 || n > limit => return None,
            Some(n)
                if n < limit
                    && !page.item_id(n).is_some_and(|id| id.is_unused() && id.len == 0) =>
            {
                return None;
            }
            Some(n) => n,
            None if page.flags() & PD_HAS_FREE_LINES != 0 => match page.find_unused() {
                Some(n) => n,
                None => {
                    self.set_flag(PD_HAS_FREE_LINES, false);
                    limit
                }
            },
            None => limit,
        };
        if usize::from(n) > MAX_HEAP_TUPLES {
            return None;
        }
        let new_lower = if n == limit { lower + ITEM_ID_SIZE } else { lower };
        let new_upper = upper.checked_sub(max_align(item.len()))?;
        if new_lower > new_upper {
            return None;
        }
        self.0.get_mut(new_upper..new_upper + item.len())?.copy_from_slice(item);
        self.set_lower(new_lower as u16);
        self.set_upper(new_upper as u16);
        let id =
            ItemId { offset: new_upper as u16, state: ItemState::Normal, len: item.len() as u16 };
        self.set_item_id(n, id);
        Some(n)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn empty() -> PageBytes {
        let mut bytes = [0xaa; BLOCK_SIZE];
        PageMut(&mut bytes).init(0);
        bytes
    }

    #[test]
    fn init_makes_a_sane_empty_page() {
        let bytes = empty();
        let page = Page::new(&bytes);
        assert!(page.header_is_sane() && !page.is_new() && !page.is_all_zeros());
        assert_eq!((page.lower(), page.upper(), page.special()), (24, 8192, 8192));
        assert_eq!(
            (page.item_count(), page.free_space(), page.size_and_version()),
            (0, 8164, 0x2004)
        );
        let zeros = [0; BLOCK_SIZE];
        assert!(
            Page::new(&zeros).is_new()
                && Page::new(&zeros).is_all_zeros()
                && Page::new(&zeros).header_is_sane()
        );
    }

    #[test]
    fn lsn_is_stored_high_half_first() {
        let mut bytes = empty();
        PageMut(&mut bytes).set_lsn(Lsn(0x0102_0304_0506_0708));
        assert_eq!(bytes[..8], [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(Page::new(&bytes).lsn(), Lsn(0x0102_0304_0506_0708));
    }

    #[test]
    fn items_fill_from_the_end() {
        let mut bytes = empty();
        let mut page = PageMut(&mut bytes);
        assert_eq!(page.add_item(b"hello", None), Some(1));
        assert_eq!(page.add_item(&[7; 16], None), Some(2));
        assert_eq!((page.page().lower(), page.page().upper()), (32, 8192 - 8 - 16));
        assert_eq!(page.page().item(1), Some(&b"hello"[..]));
        assert_eq!(page.page().item(3), None);
        assert_eq!(page.page().item(0), None);
        assert_eq!(page.add_item(&[1; 8200], None), None);
        assert_eq!(page.add_item(b"x", Some(2)), None, "taken");
        assert_eq!(page.add_item(b"x", Some(4)), None, "would leave a gap");
        assert_eq!(page.add_item(b"x", Some(3)), Some(3));
        assert_eq!(page.page().items().count(), 3);
    }

    #[test]
    fn unused_line_pointers_are_taken_again_only_with_the_hint() {
        let mut bytes = empty();
        let mut page = PageMut(&mut bytes);
        for _ in 0..3 {
            page.add_item(b"a", None);
        }
        assert!(page.set_item_id(2, ItemId::UNUSED));
        assert_eq!(page.add_item(b"b", None), Some(4));
        page.set_flags(PD_HAS_FREE_LINES);
        assert_eq!(page.add_item(b"c", None), Some(2));
        assert_eq!(page.add_item(b"d", None), Some(5));
        assert_eq!(page.page().flags(), 0, "the hint was wrong and is gone");
    }

    #[test]
    fn a_heap_page_holds_at_most_291_tuples() {
        let mut bytes = empty();
        let mut page = PageMut(&mut bytes);
        let mut n = 0;
        while page.page().heap_free_space() >= 8 && page.add_item(&[0; 8], None).is_some() {
            n += 1;
        }
        assert_eq!(n, MAX_HEAP_TUPLES);
        assert!(page.page().free_space() > 0);
        assert_eq!(page.page().heap_free_space(), 0);
    }

    #[test]
    fn item_ids_round_trip() {
        for bits in [0, 1, 0x7fff, 0x8000, 0x1_8000, 0xffff_ffff, 0x1234_5678] {
            assert_eq!(ItemId::from_bits(bits).to_bits(), bits);
        }
    }

    #[test]
    fn wild_line_pointers_do_not_leave_the_page() {
        let mut bytes = empty();
        let mut page = PageMut(&mut bytes);
        page.add_item(b"abc", None);
        page.set_item_id(1, ItemId { offset: 8190, state: ItemState::Normal, len: 100 });
        assert_eq!(page.page().item(1), None);
        page.set_lower(u16::MAX);
        assert_eq!(page.page().item_count(), 2042);
        assert_eq!(page.add_item(b"abc", None), None);
    }
}
