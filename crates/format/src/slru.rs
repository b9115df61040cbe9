//! `pg_xact`: the status of each transaction, in two bits. Segment files of this and of similar
//! directories: `pg_multixact/offsets`, `pg_multixact/members`, `pg_subtrans`.
//!
//! ```text
//!   bit      7   6   5   4   3   2   1   0
//!          +-------+-------+-------+-------+
//!   byte n | 4n+3  | 4n+2  | 4n+1  | 4n    |   8192 bytes a page, 32 pages a segment file
//!          +-------+-------+-------+-------+
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    ids::{BLOCK_SIZE, Xid},
    page::PageBytes,
};

/// Transactions in a page.
pub const XACTS_PER_PAGE: u32 = BLOCK_SIZE as u32 * 4;
/// Pages in a segment file, in all of these directories.
pub const PAGES_PER_SEGMENT: i64 = 32;
/// Number of pages until transaction ids wrap around.
pub const XACT_PAGES: i64 = (1 << 32) / XACTS_PER_PAGE as i64;

const _: () = assert!(XACTS_PER_PAGE == 32_768 && XACT_PAGES == 131_072);

/// Status of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TransactionStatus {
    /// Running, or ended by a crash.
    InProgress = 0,
    /// Committed.
    Committed = 1,
    /// Aborted.
    Aborted = 2,
    /// A subtransaction that committed while its parent runs.
    SubCommitted = 3,
}

impl TransactionStatus {
    /// The status in the lowest two bits.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::InProgress,
            1 => Self::Committed,
            2 => Self::Aborted,
            _ => Self::SubCommitted,
        }
    }
}

/// The page that holds a transaction's status.
pub const fn xact_page(xid: Xid) -> i64 {
    (xid / XACTS_PER_PAGE) as i64
}

/// The first transaction of a page.
pub const fn first_xid(page: i64) -> Xid {
    (page as u32).wrapping_mul(XACTS_PER_PAGE)
}

/// The segment that holds a page.
pub const fn segment(page: i64) -> i64 {
    page / PAGES_PER_SEGMENT
}

/// Byte offset of a page in its segment.
pub const fn segment_offset(page: i64) -> u64 {
    (page % PAGES_PER_SEGMENT) as u64 * BLOCK_SIZE as u64
}

/// Name of a segment's file: at least four hexadecimal digits.
pub fn segment_name(segment: i64) -> String {
    format!("{segment:04X}")
}

/// The segment that a file's name stands for; `None` for names of other files.
pub fn parse_segment_name(name: &str) -> Option<i64> {
    let digits = name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    let segment = i64::from_str_radix(name, 16).ok().filter(|_| digits && name.len() <= 6)?;
    (segment_name(segment) == name).then_some(segment)
}

/// Whether page `a` is older than page `b`, and than all of it. Pages have `per_page` ids of 32
/// bits, which wrap around.
pub const fn page_precedes(a: i64, b: i64, per_page: u32) -> bool {
    let (a, b) = ((a as u32).wrapping_mul(per_page), (b as u32).wrapping_mul(per_page));
    let last = b.wrapping_add(per_page - 1);
    (a.wrapping_sub(b) as i32) < 0 && (a.wrapping_sub(last) as i32) < 0
}

/// Whether a segment consists of pages older than `cutoff`, the first page to keep.
pub const fn segment_precedes(segment: i64, cutoff: i64, per_page: u32) -> bool {
    let first = segment * PAGES_PER_SEGMENT;
    let last = first + PAGES_PER_SEGMENT - 1;
    page_precedes(first, cutoff, per_page) && page_precedes(last, cutoff, per_page)
}

/// Offset in its page of the byte that holds a transaction's status, and the shift in that byte.
const fn position(xid: Xid) -> (usize, u32) {
    let index = xid % XACTS_PER_PAGE;
    ((index / 4) as usize, index % 4 * 2)
}

/// A transaction's status in its page.
pub fn status(page: &PageBytes, xid: Xid) -> TransactionStatus {
    let (at, shift) = position(xid);
    TransactionStatus::from_bits(page.get(at).expect("an offset in the page") >> shift)
}

/// Transactions whose statuses are in a word of 32 bits.
pub const STATUS_WORD_XACTS: u32 = 16;

/// The statuses of a transaction and its neighbours in its page: those of the same 16 ids, the
/// first one in the lowest bits.
pub fn status_word(page: &PageBytes, xid: Xid) -> u32 {
    let (at, _) = position(xid - xid % STATUS_WORD_XACTS);
    let word = page.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_le_bytes(*word.expect("a word in the page"))
}

/// A transaction's status in such a word.
#[inline]
pub const fn status_in_word(word: u32, xid: Xid) -> TransactionStatus {
    TransactionStatus::from_bits((word >> (xid % STATUS_WORD_XACTS * 2)) as u8)
}

/// Sets a transaction's status in its page.
pub fn set_status(page: &mut PageBytes, xid: Xid, status: TransactionStatus) {
    let (at, shift) = position(xid);
    let byte = page.get_mut(at).expect("an offset in the page");
    *byte = *byte & !(3 << shift) | (status as u8) << shift;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!((xact_page(32_767), xact_page(32_768), xact_page(u32::MAX)), (0, 1, 131_071));
        assert_eq!((segment(31), segment(32), segment_offset(33)), (0, 1, 8192));
        assert_eq!(
            (first_xid(2), segment_name(0), segment_name(0x12345)),
            (65_536, "0000".into(), "12345".into())
        );
    }

    #[test]
    fn segment_names_are_read_back() {
        for segment in [0, 0xfff, 0x1_0000, 0x14_077] {
            assert_eq!(parse_segment_name(&segment_name(segment)), Some(segment));
        }
        for name in ["", "000", "00000", "000g", "000a", "+001", "0001 ", "1234567"] {
            assert_eq!(parse_segment_name(name), None, "{name}");
        }
    }

    #[test]
    fn pages_wrap_around() {
        let precedes = |a, b| page_precedes(a, b, XACTS_PER_PAGE);
        assert!(precedes(0, 1) && !precedes(1, 1) && !precedes(2, 1));
        assert!(precedes(XACT_PAGES - 1, 0) && !precedes(0, XACT_PAGES - 1));
        assert!(precedes(0, XACT_PAGES / 2 - 1) && !precedes(0, XACT_PAGES / 2));
        let segment = |segment, cutoff| segment_precedes(segment, cutoff, XACTS_PER_PAGE);
        assert!(segment(0, 32) && !segment(0, 31) && !segment(1, 32));
        assert!(segment(XACT_PAGES / 32 - 1, 0) && !segment(0, XACT_PAGES - 32));
    }

    #[test]
    fn each_transaction_has_its_own_bits() {
        use TransactionStatus::{Aborted, Committed, InProgress, SubCommitted};
        let mut page = [0; BLOCK_SIZE];
        let all = [Committed, Aborted, SubCommitted, InProgress, Aborted];
        for (xid, &end) in (40_000..).zip(&all) {
            set_status(&mut page, xid, SubCommitted);
            set_status(&mut page, xid, end);
        }
        let read: Vec<_> = (40_000..40_005).map(|xid| status(&page, xid)).collect();
        assert_eq!(read, all);
        assert_eq!(page.iter().filter(|&&byte| byte != 0).count(), 2);
    }
}
