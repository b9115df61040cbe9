//! `pg_commit_ts`: when each transaction committed, and where it came from. Segment files are as
//! those of `pg_xact`.
//!
//! ```text
//!   0          8        10
//!   +----------+--------+
//!   | time i64 | origin |   819 a page, one behind the other
//!   +----------+--------+
//! ```
//!
//! - time: microseconds since 2000-01-01; 0 if the transaction did not commit
//! - origin: the replication origin, 0 for transactions of this server

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{field, put, u16_field},
    ids::{BLOCK_SIZE, Xid},
    page::PageBytes,
};

/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 10;
/// Transactions in a page.
pub const XACTS_PER_PAGE: u32 = (BLOCK_SIZE / ENTRY_SIZE) as u32;

const _: () = assert!(XACTS_PER_PAGE == 819);

/// The page that holds a transaction's timestamp.
pub const fn page_of(xid: Xid) -> i64 {
    (xid / XACTS_PER_PAGE) as i64
}

const fn position(xid: Xid) -> usize {
    (xid % XACTS_PER_PAGE) as usize * ENTRY_SIZE
}

/// When a transaction committed, and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitStamp {
    /// Microseconds since 2000-01-01.
    pub time: i64,
    /// The replication origin.
    pub origin: u16,
}

/// A transaction's timestamp in its page.
pub fn stamp(page: &PageBytes, xid: Xid) -> CommitStamp {
    let at = position(xid);
    CommitStamp { time: i64::from_le_bytes(field(page, at)), origin: u16_field(page, at + 8) }
}

/// Sets a transaction's timestamp in its page.
pub fn set_stamp(page: &mut PageBytes, xid: Xid, stamp: CommitStamp) {
    let at = position(xid);
    put(page, at, stamp.time.to_le_bytes());
    put(page, at + 8, stamp.origin.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_lie_one_behind_the_other() {
        let mut page = [0; BLOCK_SIZE];
        let last = CommitStamp { time: -1, origin: 0x0102 };
        set_stamp(&mut page, 818, last);
        set_stamp(&mut page, 819 * 7 + 1, CommitStamp { time: 5, origin: 0 });
        assert_eq!((page_of(818), page_of(819 * 7 + 1), page_of(u32::MAX)), (0, 7, 5_244_160));
        assert_eq!(page[8180..8190], [255, 255, 255, 255, 255, 255, 255, 255, 2, 1]);
        assert_eq!((stamp(&page, 818), page[10]), (last, 5));
    }
}
