//! `pg_subtrans`: the parent of each subtransaction, 4 bytes a transaction, 2048 in a page.
//!
//! A transaction without a parent has 0. The files do not survive a restart.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{put, u32_field},
    ids::{BLOCK_SIZE, Xid},
    page::PageBytes,
};

/// Transactions in a page.
pub const XACTS_PER_PAGE: u32 = BLOCK_SIZE as u32 / 4;
const _: () = assert!(XACTS_PER_PAGE == 2048);

/// The page that holds a transaction's parent.
pub const fn page_of(xid: Xid) -> i64 {
    (xid / XACTS_PER_PAGE) as i64
}

const fn position(xid: Xid) -> usize {
    (xid % XACTS_PER_PAGE) as usize * 4
}

/// A transaction's parent, from its page; 0 if it has none.
pub fn parent(page: &PageBytes, xid: Xid) -> Xid {
    u32_field(page, position(xid))
}

/// Stores a transaction's parent.
pub fn set_parent(page: &mut PageBytes, xid: Xid, parent: Xid) {
    put(page, position(xid), parent.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!((page_of(2047), page_of(2048), position(2049)), (0, 1, 4));
        let mut page = [0; BLOCK_SIZE];
        set_parent(&mut page, u32::MAX, 7);
        assert_eq!((parent(&page, u32::MAX), parent(&page, 2046)), (7, 0));
    }
}
