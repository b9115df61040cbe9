//! Which page gives way to which: the decision about a page that wants a place on the clock.
//!
//! A page's *age* is the time since its last use; its *distance* is that between its last two uses.
//! A ghost (`ghosts`) tells the distance of a page that comes back, a second use in the queue that
//! of a new one.
//!
//! | the page on the clock is | it gives way to a page whose distance is | or to one without, if |
//! |---|---|---|
//! | unused | lower than its age | from a scan: it is half a pool old; else always |
//! | reused | lower than its age | it is a pool old |
//! | valued | lower than its age, and no scan asks | it is 16 pools old |
//!
//! Vacuum and loads of new rows get only what is 16 pools old, or a place in the queue.
//!
//! So a scan of new pages takes what is idle, the pages of a loop don't replace each other, and
//! pages in use stay, whatever is scanned. It is LIRS's idea without its lists. `forebay bench
//! replacement` compares it with others, as its policy `reuse`.

use super::trace_format::AccessKind;
use super::usage::{Class, EPOCHS, OLD, age};

/// A page that wants a place on the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newcomer {
    /// What its last use is for.
    pub(crate) access: AccessKind,
    /// The epochs between its last two uses, if they are known.
    pub(crate) distance: Option<u64>,
    /// The epoch in which it is judged.
    pub(crate) now: u64,
}

impl Newcomer {
    /// Whether the page of a clock's buffer in this state gives way to it.
    pub(crate) fn displaces(&self, state: u64) -> bool {
        let (class, age) = (Class::of(state), age(state, self.now));
        let scan = match self.access {
            AccessKind::Normal => false,
            AccessKind::BulkRead => true,
            AccessKind::BulkWrite | AccessKind::Vacuum => return age == OLD,
        };
        match (self.distance, class) {
            (Some(_), Class::Valued) if scan => age == OLD,
            (Some(distance), _) => age > distance,
            (None, Class::Valued) => age == OLD,
            (None, Class::Reused) => age >= EPOCHS,
            (None, Class::Unused | Class::Queued(_)) => !scan || age >= EPOCHS / 2,
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
    fn gives_way_at(class: Class, access: AccessKind, distance: Option<u64>) -> Option<u64> {
        let newcomer = |now| Newcomer { access, distance, now };
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
            (Normal, None, [0, 64, OLD]),
            (BulkRead, None, [32, 64, OLD]),
            (BulkWrite, None, [OLD; 3]),
            (Vacuum, None, [OLD; 3]),
            (Normal, Some(0), [1; 3]),
            (Normal, Some(100), [101; 3]),
            (BulkRead, Some(100), [101, 101, OLD]),
            (BulkWrite, Some(0), [OLD; 3]),
            (Vacuum, Some(0), [OLD; 3]),
        ] {
            let found = [unused, reused, valued].map(|c| gives_way_at(c, access, distance));
            assert_eq!(found, least.map(Some), "{access:?}, {distance:?}");
        }
        assert_eq!(gives_way_at(unused, Normal, Some(OLD)), None);
    }

    #[test]
    fn a_page_that_comes_back_is_known() {
        let class = |access, distance| Newcomer { access, distance, now: 0 }.class();
        for access in [Normal, BulkRead, BulkWrite, Vacuum] {
            assert_eq!(class(access, None), Class::Unused);
        }
        assert_eq!(class(Normal, Some(5)), Class::Valued);
        assert_eq!([BulkRead, BulkWrite, Vacuum].map(|a| class(a, Some(5))), [Class::Reused; 3]);
    }
}
