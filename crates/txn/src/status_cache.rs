//! The status of transactions, to be read without a lock: a cache beside the pages of `pg_xact`.
//!
//! Rows have no hint bits from Forebay, so a scan asks for the status of each row's transactions.
//!
//! ```text
//!             63   62      60 59         32 31                0
//!           +------+---------+-------------+-------------------+
//!   a slot  | used |    0    | xid / 16    | 16 statuses       |   as in the page: 2 bits each
//!           +------+---------+-------------+-------------------+
//! ```
//!
//! A group of 16 transactions has one slot, and shares it with others. A slot is written under the
//! mutex of the page's bank, when the page is read or changed. So what a slot says of a group is
//! what the page says.

use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_format::slru::{self, TransactionStatus, XACTS_PER_PAGE};
use forebay_format::{PageBytes, Xid};

/// Transactions in a slot.
const GROUP: u32 = 16;
/// Number of slots: they are enough for half a million transactions in a row.
const SLOTS: usize = if cfg!(shuttle) { 2048 } else { 1 << 15 };
/// Slots of a page. They lie side by side.
const OF_PAGE: usize = (XACTS_PER_PAGE / GROUP) as usize;
const USED: u64 = 1 << 63;

const _: () = assert!(SLOTS.is_multiple_of(OF_PAGE) && slru::STATUS_WORD_XACTS == GROUP);

/// The status of transactions that were asked for, or set.
pub(crate) struct StatusCache {
    slots: Box<[AtomicU64; SLOTS]>,
}

/// The group of a transaction, as a slot names it.
const fn named(xid: Xid) -> u64 {
    USED | ((xid / GROUP) as u64) << 32
}

const fn slot(xid: Xid) -> usize {
    (xid / GROUP) as usize % SLOTS
}

impl StatusCache {
    pub(crate) fn new() -> StatusCache {
        let slots: Box<[AtomicU64]> = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        StatusCache { slots: slots.try_into().expect("it has that many") }
    }

    /// The status of a transaction, if its group has the slot.
    #[inline]
    pub(crate) fn get(&self, xid: Xid) -> Option<TransactionStatus> {
        // Whoever finds that a transaction is over finds the status that it has set before.
        let word = self.slots[slot(xid)].load(Ordering::Acquire);
        let statuses = word as u32;
        (word >> 32 == named(xid) >> 32).then(|| slru::status_in_word(statuses, xid))
    }

    /// Keeps what a page has of a transaction's group. To be called under the mutex of its bank.
    pub(crate) fn keep(&self, page: &PageBytes, xid: Xid) {
        let word = named(xid) | u64::from(slru::status_word(page, xid));
        self.slots[slot(xid)].store(word, Ordering::Release);
    }

    /// Forgets the transactions of a page.
    pub(crate) fn forget_page(&self, page: i64) {
        let first = slot(slru::first_xid(page));
        for slot in &self.slots[first..first + OF_PAGE] {
            slot.store(0, Ordering::Release);
        }
    }

    /// Forgets all transactions.
    pub(crate) fn forget_all(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Ordering::Release));
    }
}

impl std::fmt::Debug for StatusCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_format::BLOCK_SIZE;
    use forebay_format::slru::{set_status, status};

    #[test]
    fn a_slot_says_what_its_page_says() {
        let cache = StatusCache::new();
        let mut page = [0; BLOCK_SIZE];
        let xids = 3 * XACTS_PER_PAGE..3 * XACTS_PER_PAGE + 40;
        let outcomes = [TransactionStatus::Committed, TransactionStatus::Aborted];
        for (xid, outcome) in xids.clone().zip(outcomes.into_iter().cycle()).skip(5) {
            set_status(&mut page, xid, outcome);
        }
        for xid in xids {
            assert!(xid % GROUP != 0 || cache.get(xid).is_none(), "{xid}");
            cache.keep(&page, xid);
            assert_eq!(cache.get(xid), Some(status(&page, xid)), "{xid}");
            // The same slot.
            let other = xid.wrapping_add(SLOTS as u32 * GROUP);
            assert_eq!(cache.get(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_forgotten_is_not_known() {
        let cache = StatusCache::new();
        let page = [0; BLOCK_SIZE];
        let next = 5 * XACTS_PER_PAGE;
        for xid in [next - 1, next, next + XACTS_PER_PAGE - 1, next + XACTS_PER_PAGE, u32::MAX] {
            cache.keep(&page, xid);
        }
        cache.forget_page(5);
        assert!(cache.get(next).is_none() && cache.get(next + XACTS_PER_PAGE - 1).is_none());
        assert!(cache.get(next - 1).is_some() && cache.get(next + XACTS_PER_PAGE).is_some());
        cache.forget_all();
        assert!(cache.get(next - 1).is_none() && cache.get(u32::MAX).is_none());
    }
}
