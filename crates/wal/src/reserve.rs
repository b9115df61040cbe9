//! Reservation: one compare-and-swap on one word assigns a record its position and its predecessor.
//!
//! ```text
//!    63                              27 26                       0
//!   +----------------------------------+--------------------------+
//!   | start of the next record         | distance from the last   |
//!   | (mod 2^37)                       | record's start to it     |
//!   +----------------------------------+--------------------------+
//!       both in units of 8 bytes, counted without page headers
//! ```
//!
//! PostgreSQL keeps two words under a spin lock. With a single word, a thread that is preempted in
//! between holds up no other, which matters with few cores. A word of 128 bits would need a
//! compare-and-swap that neither the standard library nor shuttle has.
//!
//! - 37 bits of units are 1 TB. `anchor`, a recent position, tells which terabyte is meant.
//! - A record has at most 1020 MB, and a switch record with its padding at most a segment of 1 GB:
//!   2^27 units.
//! - A distance of 0 means that nothing was inserted since the log was started.
//!
//! The word cannot return to a value that some thread still compares with. An inserter holds an
//! insertion slot (see [`slots`](crate::slots)) while it reserves, and the log advances past an
//! occupied slot by no more than the WAL buffers and one record for each slot.

use forebay_aio::sync::atomic::{AtomicU64, Ordering::SeqCst};

const UNIT: u64 = 8;
const LAST_BITS: u32 = 27;
const LAST_MASK: u64 = (1 << LAST_BITS) - 1;
const POS_MASK: u64 = (1 << (64 - LAST_BITS)) - 1;
/// The anchor follows the position in steps of so many units.
const STEP: u64 = 1 << 30;

/// The positions of the next and the last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Byte position of the next record.
    pub pos: u64,
    /// Byte position of the last one; `None` if nothing was inserted since the log was started.
    pub prev: Option<u64>,
    word: u64,
}

/// The word and its anchor, on a cache line of their own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Reservations {
    word: AtomicU64,
    /// A position in units, less than 2^37 before the word's and not beyond it.
    anchor: AtomicU64,
}

impl Reservations {
    /// For a log whose next record starts at byte position `pos`, a multiple of 8.
    pub fn new(pos: u64) -> Reservations {
        assert!(pos.is_multiple_of(UNIT), "no record starts at byte position {pos}");
        let units = pos / UNIT;
        Reservations {
            word: AtomicU64::new((units & POS_MASK) << LAST_BITS),
            anchor: AtomicU64::new(units),
        }
    }

    /// The current positions, which only grow.
    pub fn head(&self) -> Head {
        let mut anchor = self.anchor.load(SeqCst);
        loop {
            let word = self.word.load(SeqCst);
            // If the anchor has not moved meanwhile, the word belongs to it.
            let again = self.anchor.load(SeqCst);
            if again == anchor {
                return Head::new(word, anchor);
            }
            anchor = again;
        }
    }

    /// Reserves `bytes` (a multiple of 8, not 0) at `head`. False if another thread was faster.
    pub fn take(&self, head: Head, bytes: u64) -> bool {
        let units = bytes / UNIT;
        assert!(bytes.is_multiple_of(UNIT) && units != 0 && units <= LAST_MASK);
        let end = head.pos / UNIT + units;
        let word = (end & POS_MASK) << LAST_BITS | units;
        if self.word.compare_exchange(head.word, word, SeqCst, SeqCst).is_err() {
            return false;
        }
        let anchor = self.anchor.load(SeqCst);
        if end.saturating_sub(anchor) >= STEP {
            // If this thread is preempted here, the next one to reserve moves the anchor.
            self.anchor.fetch_max(end, SeqCst);
        }
        true
    }
}

impl Head {
    fn new(word: u64, anchor: u64) -> Head {
        let ahead = (word >> LAST_BITS).wrapping_sub(anchor) & POS_MASK;
        let units = anchor + ahead;
        let last = word & LAST_MASK;
        Head { pos: units * UNIT, prev: (last != 0).then(|| (units - last) * UNIT), word }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn positions_continue_beyond_the_range_of_the_word() {
        // Starts just before a terabyte is full, with records of the greatest length.
        let begin = (POS_MASK - 5) * UNIT;
        let log = Reservations::new(begin);
        assert_eq!((log.head().pos, log.head().prev), (begin, None));
        let longest = LAST_MASK * UNIT;
        let mut pos = begin;
        for n in 0..6_000u64 {
            let bytes = if n % 3 == 0 { 8 } else { longest };
            let head = log.head();
            assert_eq!(head.pos, pos);
            assert!(log.take(head, bytes));
            assert!(!log.take(head, bytes), "these bytes are taken");
            assert_eq!(log.head().prev, Some(pos));
            pos += bytes;
        }
        assert!(pos > begin + (2 << 40), "the word has wrapped twice");
    }

    #[test]
    fn each_position_is_assigned_once_with_its_predecessor() {
        let log = Reservations::new(80);
        let taken = forebay_aio::sync::thread::scope(|scope| {
            let threads: Vec<_> = (0..4u64)
                .map(|thread| {
                    let log = &log;
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        while mine.len() < 10_000 {
                            let bytes = 8 * (1 + (mine.len() as u64 + thread) % 100);
                            let head = log.head();
                            if log.take(head, bytes) {
                                mine.push((head.pos, (head.prev, head.pos + bytes)));
                            }
                        }
                        mine
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("thread"))
                .collect::<Vec<_>>()
        });
        assert_eq!(taken.len(), 40_000);
        let taken: BTreeMap<_, _> = taken.into_iter().collect();
        let (mut next, mut last) = (80, None);
        for (pos, (prev, end)) in taken {
            assert_eq!((pos, prev), (next, last));
            (next, last) = (end, Some(pos));
        }
        assert_eq!(log.head().pos, next);
    }
}
