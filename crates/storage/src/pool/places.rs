//! The places of buffers: on the clock, around which the hand goes, or in the queue, where the
//! turns go round.
//!
//! ```text
//!   places:  | buffer | buffer | ......... clock ......... | buffer | ... queue ... |
//!                         ^ hand                                        ^ turn
//! ```
//!
//! Every buffer has one place. A page that leaves the queue for the clock exchanges its place with
//! the buffer of the page that gives way, which then takes a new page of the queue. Places are read
//! without a lock, and are hints: whoever takes a buffer pins it first. The class in the state word
//! says whether a buffer belongs to the queue. While two buffers exchange their places, the class
//! of one or both may differ from the place, and others pass them over.

use super::cache_line::CacheLine;
use forebay_aio::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The part of the buffers that is the queue.
const QUEUE_PART: usize = 16;
/// Buffers that the hand looks at for one page.
pub(crate) const WINDOW: u64 = 8;
/// How many ages a mean is made of.
const AGES: u64 = 16;

/// Which buffer has which place.
pub(crate) struct Places {
    places: Box<[AtomicU32]>,
    /// The number of places on the clock.
    clock: u64,
    /// The position of the clock's hand. It is never reset.
    hand: CacheLine<AtomicU64>,
    /// The next turn of the queue. It is never reset.
    turn: CacheLine<AtomicU64>,
    /// The mean age of pages that lately gave way on the clock, times [`AGES`].
    ages: CacheLine<AtomicU64>,
}

impl Places {
    /// Puts the last buffers into the queue, and the others on the clock.
    pub(crate) fn new(buffers: usize) -> Places {
        Places {
            places: (0..buffers as u32).map(AtomicU32::new).collect(),
            clock: (buffers - Places::queue_of(buffers)) as u64,
            hand: CacheLine::default(),
            turn: CacheLine::default(),
            ages: CacheLine::default(),
        }
    }

    /// Returns the number of places in the queue of a pool of this size.
    pub(crate) fn queue_of(buffers: usize) -> usize {
        (buffers / QUEUE_PART).max(1)
    }

    /// Returns the number of places on the clock.
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// Returns the number of places in the queue.
    pub(crate) fn queue(&self) -> u64 {
        self.places.len() as u64 - self.clock
    }

    /// Returns the place of every buffer: those on the clock, and those in the queue.
    pub(crate) fn all(&self) -> [Vec<u32>; 2] {
        let on_clock = (0..self.clock).map(|hand| self.on_clock(hand));
        let in_queue = (0..self.queue()).map(|turn| self.in_queue(turn));
        [on_clock.collect(), in_queue.collect()]
    }

    pub(crate) fn hand(&self) -> u64 {
        self.hand.load(Ordering::Relaxed)
    }

    /// Moves the hand on to a position, unless another thread has moved it further.
    pub(crate) fn move_hand(&self, to: u64) {
        self.hand.fetch_max(to, Ordering::Relaxed);
    }

    /// Notes the age of a page that gives way.
    pub(crate) fn note_age(&self, age: u64) {
        // Threads that do this at the same time may lose one.
        let ages = self.ages.load(Ordering::Relaxed);
        self.ages.store(ages - ages / AGES + age, Ordering::Relaxed);
    }

    /// Returns the mean age at which pages gave way lately.
    pub(crate) fn mean_age(&self) -> u64 {
        self.ages.load(Ordering::Relaxed) / AGES
    }

    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// Takes the next turn of the queue.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// The place at a position of the hand.
    fn on_clock_at(&self, hand: u64) -> &AtomicU32 {
        &self.places[(hand % self.clock) as usize]
    }

    /// The place of a turn.
    fn in_queue_at(&self, turn: u64) -> &AtomicU32 {
        &self.places[(self.clock + turn % self.queue()) as usize]
    }

    /// Returns the buffer at a position of the hand.
    pub(crate) fn on_clock(&self, hand: u64) -> u32 {
        self.on_clock_at(hand).load(Ordering::SeqCst)
    }

    /// Returns the buffer whose turn this is.
    pub(crate) fn in_queue(&self, turn: u64) -> u32 {
        self.in_queue_at(turn).load(Ordering::SeqCst)
    }

    /// Exchanges the place of a queue's buffer with that of a clock's buffer, which belongs to the
    /// caller. Returns false if one of them is elsewhere by now.
    pub(crate) fn exchange(&self, (turn, queued): (u64, u32), (hand, owned): (u64, u32)) -> bool {
        let (slot, place) = (self.in_queue_at(turn), self.on_clock_at(hand));
        // Only the owner of a clock's buffer changes its place, so this stays true.
        if place.load(Ordering::SeqCst) != owned
            || slot.compare_exchange(queued, owned, Ordering::SeqCst, Ordering::SeqCst).is_err()
        {
            return false;
        }
        place.store(queued, Ordering::SeqCst);
        true
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_has_one_place() {
        for (buffers, queue) in [(16, 1), (31, 1), (32, 2), (4096, 256)] {
            let places = Places::new(buffers);
            assert_eq!((places.queue(), places.clock()), (queue, buffers as u64 - queue));
            assert_eq!(places.all().concat(), (0..buffers as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn places_are_exchanged_if_nothing_has_moved() {
        let places = Places::new(32);
        assert!(places.exchange((1, 31), (7, 7)));
        assert_eq!((places.in_queue(1), places.on_clock(7)), (7, 31));
        assert!(!places.exchange((1, 31), (8, 8)), "another buffer has the turn");
        assert!(!places.exchange((0, 30), (7, 7)), "another buffer is on the clock there");
        assert_eq!((places.in_queue(0), places.on_clock(8)), (30, 8));
        assert!(places.exchange((3, 7), (7 + 30, 31)), "positions go round");
        assert_eq!((places.in_queue(1), places.on_clock(7)), (31, 7));
    }

    #[test]
    fn the_hand_never_goes_back() {
        let places = Places::new(32);
        places.move_hand(9);
        places.move_hand(5);
        assert_eq!(places.hand(), 9);
        assert_eq!([places.next_turn(), places.next_turn(), places.turn()], [0, 1, 2]);
    }
}
