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
//!
//! When the pool's size changes, all places are assigned anew, in the order that they have. Whoever
//! looks at them meanwhile may see a buffer twice, or not at all.

use super::cache_line::CacheLine;
use super::slab::Slab;
use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::ops::Range;

/// The part of the buffers that is the queue.
const QUEUE_PART: usize = 16;
/// Buffers that the hand looks at for one page.
pub(crate) const WINDOW: u64 = 8;
/// How many ages a mean is made of.
const AGES: u64 = 16;
/// No buffer, in a list of them.
const TAKEN: u32 = u32::MAX;

/// Which buffer has which place.
pub(crate) struct Places {
    clock: Ring,
    queue: Ring,
    /// The mean age of pages that lately gave way on the clock, times [`AGES`].
    ages: CacheLine<AtomicU64>,
    /// Held while buffers get other places.
    moving: Mutex<()>,
}

/// Places that a position goes round.
struct Ring {
    places: Slab<AtomicU32>,
    /// So many of them are in use.
    len: AtomicU64,
    /// The position: the clock's hand, or the queue's next turn. It never goes back.
    position: CacheLine<AtomicU64>,
}

impl Ring {
    fn new(buffers: Range<u32>, most: usize) -> Ring {
        let (first, len) = (buffers.start, buffers.len());
        Ring {
            places: Slab::new(most, len, |at| AtomicU32::new(first + at as u32)),
            len: AtomicU64::new(len as u64),
            position: CacheLine::default(),
        }
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn at(&self, position: u64) -> &AtomicU32 {
        // The length first: the places of a longer ring exist before it has its length.
        let at = (position % self.len()) as usize;
        &self.places[at]
    }

    fn all(&self) -> Vec<u32> {
        let len = self.len() as usize;
        self.places[..len].iter().map(|at| at.load(Ordering::SeqCst)).collect()
    }

    /// Assigns the places to these buffers.
    fn assign(&self, buffers: &[u32]) {
        self.places.grow(buffers.len(), |at| AtomicU32::new(buffers[at]));
        for (place, &buf) in self.places.iter().zip(buffers) {
            place.store(buf, Ordering::SeqCst);
        }
        self.len.store(buffers.len() as u64, Ordering::SeqCst);
    }

    /// Moves the position on until it is at a place.
    fn go_to(&self, place: u64) {
        let len = self.len();
        let next = |at: u64| Some(at + (place + len - at % len) % len);
        let _ = self.position.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

impl Places {
    /// Puts the last buffers into the queue, and the others on the clock. There may be `most`
    /// buffers later.
    pub(crate) fn new(buffers: usize, most: usize) -> Places {
        let most = most.max(buffers);
        let clock = (buffers - Places::queue_of(buffers)) as u32;
        Places {
            clock: Ring::new(0..clock, most - Places::queue_of(most)),
            queue: Ring::new(clock..buffers as u32, Places::queue_of(most)),
            ages: CacheLine::default(),
            moving: Mutex::new(()),
        }
    }

    /// Returns the number of places in the queue of a pool of this size.
    pub(crate) fn queue_of(buffers: usize) -> usize {
        (buffers / QUEUE_PART).max(1)
    }

    /// Returns the number of places on the clock.
    pub(crate) fn clock(&self) -> u64 {
        self.clock.len()
    }

    /// Returns the number of places in the queue.
    pub(crate) fn queue(&self) -> u64 {
        self.queue.len()
    }

    /// Whether a buffer has a place. A hint while the size changes.
    pub(crate) fn include(&self, buf: u32) -> bool {
        u64::from(buf) < self.clock() + self.queue()
    }

    /// Returns the place of every buffer: those on the clock, and those in the queue.
    pub(crate) fn all(&self) -> [Vec<u32>; 2] {
        [self.clock.all(), self.queue.all()]
    }

    pub(crate) fn hand(&self) -> u64 {
        self.clock.position.load(Ordering::Relaxed)
    }

    /// Moves the hand on to a position, unless another thread has moved it further.
    pub(crate) fn move_hand(&self, to: u64) {
        self.clock.position.fetch_max(to, Ordering::Relaxed);
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
        self.queue.position.load(Ordering::Relaxed)
    }

    /// Takes the next turn of the queue.
    pub(crate) fn next_turn(&self) -> u64 {
        self.queue.position.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the buffer at a position of the hand.
    pub(crate) fn on_clock(&self, hand: u64) -> u32 {
        self.clock.at(hand).load(Ordering::SeqCst)
    }

    /// Returns the buffer whose turn this is.
    pub(crate) fn in_queue(&self, turn: u64) -> u32 {
        self.queue.at(turn).load(Ordering::SeqCst)
    }

    /// Exchanges the place of a queue's buffer with that of a clock's buffer, which belongs to the
    /// caller, and calls `done`. Does neither if one of them is elsewhere by now.
    pub(crate) fn exchange(
        &self,
        (turn, queued): (u64, u32),
        (hand, owned): (u64, u32),
        done: impl FnOnce(),
    ) {
        let _moving = self.moving.lock();
        let (slot, place) = (self.queue.at(turn), self.clock.at(hand));
        if place.load(Ordering::SeqCst) == owned && slot.load(Ordering::SeqCst) == queued {
            slot.store(owned, Ordering::SeqCst);
            place.store(queued, Ordering::SeqCst);
            done();
        }
    }

    /// Adds free buffers, and moves the hand and the turns to them, so that they get pages at once,
    /// unless one or the other is to go on where it is. Buffers that get into the queue or out of
    /// it are told to `moved`, with whether they are in it.
    pub(crate) fn add(
        &self,
        new: Range<u32>,
        [hand_goes_on, turns_go_on]: [bool; 2],
        moved: impl FnMut(u32, bool),
    ) {
        let _moving = self.moving.lock();
        let [mut clock, mut queue] = self.all();
        let (old_clock, old_queue) = (clock.len() as u64, queue.len() as u64);
        let (old_hand, old_turn) = (self.hand() % old_clock, self.turn() % old_queue);
        clock.extend(new);
        self.balance(&mut clock, &mut queue, |_| true, moved);
        let hand = if hand_goes_on { old_hand } else { old_clock };
        let turn = if turns_go_on { old_turn } else { old_queue };
        self.clock.go_to(hand % clock.len() as u64);
        self.queue.go_to(turn % queue.len() as u64);
    }

    /// Takes all buffers from `to` on out. Of others that get into the queue instead, the `idle`
    /// ones are first.
    pub(crate) fn remove(&self, to: u32, idle: impl Fn(u32) -> bool, moved: impl FnMut(u32, bool)) {
        let _moving = self.moving.lock();
        let [mut clock, mut queue] = self.all();
        clock.retain(|&buf| buf < to);
        queue.retain(|&buf| buf < to);
        self.balance(&mut clock, &mut queue, idle, moved);
    }

    /// Gives the queue its part of the buffers, and assigns the places.
    fn balance(
        &self,
        clock: &mut Vec<u32>,
        queue: &mut Vec<u32>,
        idle: impl Fn(u32) -> bool,
        mut moved: impl FnMut(u32, bool),
    ) {
        let wanted = Places::queue_of(clock.len() + queue.len());
        while queue.len() > wanted
            && let Some(buf) = queue.pop()
        {
            moved(buf, false);
            clock.push(buf);
        }
        for only_idle in [true, false] {
            let mut at = clock.len();
            while queue.len() < wanted && at > 0 {
                at -= 1;
                let buf = clock[at];
                if buf != TAKEN && (!only_idle || idle(buf)) {
                    clock[at] = TAKEN;
                    moved(buf, true);
                    queue.push(buf);
                }
            }
        }
        clock.retain(|&buf| buf != TAKEN);
        self.clock.assign(clock);
        self.queue.assign(queue);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    #[test]
    fn every_buffer_has_one_place() {
        for (buffers, queue) in [(16, 1), (31, 1), (32, 2), (4096, 256)] {
            let places = Places::new(buffers, 0);
            assert_eq!((places.queue(), places.clock()), (queue, buffers as u64 - queue));
            assert_eq!(places.all().concat(), (0..buffers as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn places_are_exchanged_if_nothing_has_moved() {
        let places = Places::new(32, 32);
        let exchange = |queued, owned| {
            let mut done = false;
            places.exchange(queued, owned, || done = true);
            done
        };
        assert!(exchange((1, 31), (7, 7)));
        assert_eq!((places.in_queue(1), places.on_clock(7)), (7, 31));
        assert!(!exchange((1, 31), (8, 8)), "another buffer has the turn");
        assert!(!exchange((0, 30), (7, 7)), "another buffer is on the clock there");
        assert_eq!((places.in_queue(0), places.on_clock(8)), (30, 8));
        assert!(exchange((3, 7), (7 + 30, 31)), "positions go round");
        assert_eq!((places.in_queue(1), places.on_clock(7)), (31, 7));
    }

    #[test]
    fn the_queue_keeps_its_part_of_all_sizes() {
        let places = Places::new(64, 1024);
        let queued = RefCell::new(BTreeSet::from_iter(60..64));
        let moved = |buf, to_queue| match to_queue {
            true => assert!(queued.borrow_mut().insert(buf)),
            false => assert!(queued.borrow_mut().remove(&buf)),
        };
        places.move_hand(70);
        places.add(64..1024, [false; 2], moved);
        assert_eq!((places.clock(), places.queue()), (960, 64));
        assert_eq!(places.on_clock(places.hand()), 64, "the hand is at the first new one");
        assert!(places.hand() > 70);
        let turn = places.turn();
        places.add(1024..1024, [true; 2], moved);
        assert_eq!(
            (places.on_clock(places.hand()), places.turn()),
            (64, turn),
            "both go on where they are"
        );
        // The queue takes idle buffers first.
        places.remove(100, |buf| buf < 3, moved);
        assert_eq!((places.clock(), places.queue()), (94, 6));
        queued.borrow_mut().retain(|&buf| buf < 100);
        let [clock, in_queue] = places.all();
        assert_eq!(BTreeSet::from_iter(in_queue.iter().copied()), *queued.borrow());
        assert_eq!(*queued.borrow(), BTreeSet::from([1, 2, 60, 61, 62, 63]));
        let mut all = [clock, in_queue].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..100));
        places.remove(16, |_| false, moved);
        queued.borrow_mut().retain(|&buf| buf < 16);
        assert_eq!((places.clock(), places.queue(), queued.borrow().len()), (15, 1, 1));
    }

    #[test]
    fn the_hand_never_goes_back() {
        let places = Places::new(32, 32);
        places.move_hand(9);
        places.move_hand(5);
        assert_eq!(places.hand(), 9);
        assert_eq!([places.next_turn(), places.next_turn(), places.turn()], [0, 1, 2]);
    }
}
