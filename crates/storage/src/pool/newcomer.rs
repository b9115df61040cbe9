//! Which page gives way to which: the decision about a page that wants a place on the clock.
//!
//! A page's *age* is the time since its last use; its *distance* is that between its last two uses.
//! A ghost (`ghosts`) tells the distance of a page that comes back, a second use in the queue that
//! of a new one.
//!
//! | the page on the clock is | it gives way to a page whose distance is | or to one without, if |
//! |---|---|---|
//! | unused | any | always |
//! | reused | lower than 16 times its age | it is a quarter of a pool old |
//! | valued | lower than its age | it is 16 pools old |
//!
//! A scan reads 16 blocks in the time that others wait for one, so its pages get less:
//!
//! | the page on the clock is | it gives way to a scan's page whose distance is | or to one without, if |
//! |---|---|---|
//! | unused | lower than its age | it is half a pool old |
//! | reused | lower than its age | it is a pool old |
//! | valued | lower than a 16th of its age | it is 64 pools old |
//!
//! If a table is so large that its pages can't have ghosts when the scan comes by again, its size
//! is their distance. Vacuum and loads of new rows get only what is 16 pools old, or a place in the
//! queue.
//!
//! So a scan of new pages takes what is idle, the pages of a loop don't replace each other, and
//! pages in use stay, whatever is scanned. It is LIRS's idea without its lists. `forebay bench
//! replacement` compares it with others, as its policy `reuse`.

use super::ghosts::FOR_EACH_BUFFER;
use super::trace_format::AccessKind;
use super::usage::{Class, EPOCHS, IDLE, OLD, age};

/// Blocks that a scan reads in the time that others wait for one.
const SCANNED: u64 = 16;
/// The age up to which a page that scans use again is kept from others.
const RECENT: u64 = EPOCHS / 4;
/// Ghosts are forgotten after so many epochs.
const GHOSTS_LAST: u64 = FOR_EACH_BUFFER as u64 * EPOCHS;

/// A page that wants a place on the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newcomer {
    /// What its last use is for.
    pub(crate) access: AccessKind,
    /// The epochs between its last two uses, if they are known.
    pub(crate) distance: Option<u64>,
    /// The epochs that pass at least until it is used again, as far as the access tells.
    pub(crate) away: u64,
    /// The epoch in which it is judged.
    pub(crate) now: u64,
}

impl Newcomer {
    /// A page that is in memory, and was used again after so many epochs.
    pub(crate) fn again(access: AccessKind, distance: u64, now: u64) -> Newcomer {
        Newcomer { access, distance: Some(distance), away: 0, now }
    }

    /// Whether the page of a clock's buffer in this state gives way to it.
    pub(crate) fn displaces(&self, state: u64) -> bool {
        let (class, age) = (Class::of(state), age(state, self.now));
        match self.access {
            AccessKind::Normal => self.normal_displaces(class, age),
            AccessKind::BulkRead => self.scan_displaces(class, age),
            AccessKind::BulkWrite | AccessKind::Vacuum => age >= IDLE,
        }
    }

    fn normal_displaces(&self, class: Class, age: u64) -> bool {
        match (self.distance, class) {
            (_, Class::Unused | Class::Queued(_)) => true,
            (Some(distance), Class::Reused) => age > (distance / SCANNED).min(RECENT),
            (None, Class::Reused) => age >= RECENT,
            (Some(distance), Class::Valued) => age > distance,
            (None, Class::Valued) => age >= IDLE,
        }
    }

    fn scan_displaces(&self, class: Class, age: u64) -> bool {
        let known = self.distance.or((self.away > GHOSTS_LAST).then_some(self.away));
        match (known, class) {
            (Some(distance), Class::Valued) => age == OLD || age / SCANNED > distance,
            (Some(distance), _) => age > distance,
            (None, Class::Valued) => age == OLD,
            (None, Class::Reused) => age >= EPOCHS,
            (None, Class::Unused | Class::Queued(_)) => age >= EPOCHS / 2,
        }
    }

    /// The class with which it comes to the clock.
    pub(crate) fn class(&self) -> Class {
        match (self.distance, self.access) {
            (None, _) => Class::Unused,
            (Some(_), AccessKind::Normal) => Class::Valued,
            (Some(_), _) => Class::Reused,
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::usage::used_in;
    use super::*;
    use AccessKind::{BulkRead, BulkWrite, Normal, Vacuum};

    /// The least age at which a page gives way; None if it never does.
    fn gives_way_at(class: Class, newcomer: Newcomer) -> Option<u64> {
        let newcomer = |now| Newcomer { now, ..newcomer };
        let state = used_in(class.put(0), 0);
        let least = (0..=OLD).find(|&age| newcomer(age).displaces(state));
        let from = least.unwrap_or(OLD + 1);
        assert!((from..=OLD).all(|age| newcomer(age).displaces(state)), "and from then on");
        least
    }

    #[test]
    fn pages_give_way_by_class_age_and_distance() {
        let (unused, reused, valued) = (Class::Unused, Class::Reused, Class::Valued);
        for (access, distance, least) in [
            (Normal, None, [0, 16, 1024]),
            (BulkRead, None, [32, 64, OLD]),
            (BulkWrite, None, [1024; 3]),
            (Vacuum, None, [1024; 3]),
            (Normal, Some(0), [0, 1, 1]),
            (Normal, Some(100), [0, 7, 101]),
            (Normal, Some(1000), [0, 17, 1001]),
            (BulkRead, Some(100), [101, 101, 1616]),
            (BulkRead, Some(300), [301, 301, OLD]),
            (BulkWrite, Some(0), [1024; 3]),
            (Vacuum, Some(0), [1024; 3]),
        ] {
            let newcomer = Newcomer { access, distance, away: 0, now: 0 };
            let found = [unused, reused, valued].map(|class| gives_way_at(class, newcomer));
            assert_eq!(found, least.map(Some), "{access:?}, {distance:?}");
        }
        assert_eq!(gives_way_at(valued, Newcomer::again(Normal, OLD, 0)), None);
    }

    #[test]
    fn the_size_of_a_scan_counts_where_ghosts_are_forgotten() {
        let scan = |distance, away| Newcomer { access: BulkRead, distance, away, now: 0 };
        let unused = |newcomer| gives_way_at(Class::Unused, newcomer);
        assert_eq!(unused(scan(None, 256)), Some(32));
        assert_eq!(unused(scan(None, 257)), Some(258));
        assert_eq!(unused(scan(Some(100), 257)), Some(101), "a ghost knows better");
        assert_eq!(gives_way_at(Class::Valued, scan(None, 300)), Some(OLD));
    }

    #[test]
    fn a_page_that_comes_back_is_known() {
        let class = |access, distance| Newcomer { access, distance, away: 0, now: 0 }.class();
        for access in [Normal, BulkRead, BulkWrite, Vacuum] {
            assert_eq!(class(access, None), Class::Unused);
        }
        assert_eq!(class(Normal, Some(5)), Class::Valued);
        assert_eq!([BulkRead, BulkWrite, Vacuum].map(|a| class(a, Some(5))), [Class::Reused; 3]);
    }
}
