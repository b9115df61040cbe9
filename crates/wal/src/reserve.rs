//! Reservation: the place of a record and the start of the one before it, by one compare-and-swap
//! on one word.
//!
//! ```text
//!    63                              27 26                       0
//!   +----------------------------------+--------------------------+
//!   | where the next record starts     | how far before that the  |
//!   | (mod 2^37)                       | last one started         |
//!   +----------------------------------+--------------------------+
//!       both in units of 8 bytes, counted without page headers
//! ```
//!
//! One word, not two under a spin lock as in PostgreSQL: who is preempted between two instructions
//! holds nobody up, and with two cores that is what would cost. Nor 128 bits: the compare-and-swap
//! for those is neither in the standard library nor in the checked build's scheduler. 37 bits of
//! units are 1 TB; `anchor`, which was the position not long ago, says which terabyte. A record has
//! at most 1020 MB, and a switch record with its padding at most a segment, which is 2^27 units. A
//! distance of 0 stands for the record before the first one of this log's life, wherever that is.
//!
//! The word can't come round to a value that somebody still compares with: who reserves occupies an
//! insertion slot (see [`slots`](crate::slots)), and the log gets no further past an occupied slot
//! than WAL buffers and as many records as there are slots.

use forebay_aio::sync::atomic::{AtomicU64, Ordering::SeqCst};

const UNIT: u64 = 8;
const LAST_BITS: u32 = 27;
const LAST_MASK: u64 = (1 << LAST_BITS) - 1;
const POS_MASK: u64 = (1 << (64 - LAST_BITS)) - 1;
/// The anchor follows in steps of so many units.
const STEP: u64 = 1 << 30;

/// Where the log's next record goes, and where the last one went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Byte position of the next record.
    pub pos: u64,
    /// Byte position of the last one; `None` if this log has had none since it was started.
    pub prev: Option<u64>,
    word: u64,
}

/// The word, and what it counts from. On a cache line of their own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Reservations {
    word: AtomicU64,
    /// A position in units, not beyond the word's and less than 2^37 before it.
    anchor: AtomicU64,
}

impl Reservations {
    /// For a log whose first record goes to byte position `pos`, a multiple of 8.
    pub fn new(pos: u64) -> Reservations {
        let units = pos / UNIT;
        debug_assert!(pos.is_multiple_of(UNIT));
        Reservations {
            word: AtomicU64::new((units & POS_MASK) << LAST_BITS),
            anchor: AtomicU64::new(units),
        }
    }

    /// Where the log stands. Positions only grow.
    pub fn head(&self) -> Head {
        let mut anchor = self.anchor.load(SeqCst);
        loop {
            let word = self.word.load(SeqCst);
            // Unless the anchor has moved meanwhile, the word is of its terabyte.
            let again = self.anchor.load(SeqCst);
            if again == anchor {
                return Head::new(word, anchor);
            }
            anchor = again;
        }
    }

    /// Takes `bytes` (a multiple of 8, not 0) from `head` on. False if somebody was faster.
    pub fn take(&self, head: Head, bytes: u64) -> bool {
        let units = bytes / UNIT;
        debug_assert!(bytes.is_multiple_of(UNIT) && units != 0 && units <= LAST_MASK);
        let end = head.pos / UNIT + units;
        let word = (end & POS_MASK) << LAST_BITS | units;
        if self.word.compare_exchange(head.word, word, SeqCst, SeqCst).is_err() {
            return false;
        }
        let anchor = self.anchor.load(SeqCst);
        if end.saturating_sub(anchor) >= STEP {
            // Whoever comes next makes up for one who is held up here.
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
    fn positions_go_on_beyond_what_the_word_holds() {
        // Just before a terabyte is full, by records as long as they get.
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
            assert!(!log.take(head, bytes), "that place is taken");
            assert_eq!(log.head().prev, Some(pos));
            pos += bytes;
        }
        assert!(pos > begin + (2 << 40), "twice round");
    }

    #[test]
    fn each_place_is_given_once_and_each_has_its_predecessor() {
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
