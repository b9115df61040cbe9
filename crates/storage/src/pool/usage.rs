//! What a buffer's state word tells about uses: its class, and the epoch of the last use. Pages are
//! replaced by these (`newcomer`, `victim`).
//!
//! Most buffers are on the *clock*; a 16th are in the *queue*, which new pages pass through that
//! find no place on the clock. The class tells where a buffer is, also of a free one.
//!
//! ```text
//!   a new page -+-> Unused --- used in another epoch ---> Reused (by bulk accesses) --+
//!               |      |                                                              |
//!               |      +------ used in another epoch ---> Valued (by others) <--------+
//!               |                                          ^
//!               +-> Queued (by the kind of the last use) --+--> Reused
//!                      |      if it was used in another epoch and there is a place
//!                      +--> it leaves
//! ```
//!
//! An epoch is a number that grows with `time`. The word has its lowest 11 bits, and ages of up to
//! [`OLD`] epochs are told apart. Higher ones are made `OLD` again before they wrap around
//! (`uses`).

use super::trace_format::AccessKind;

/// The lowest bit of the class, of three.
const CLASS_AT: u32 = 18;
/// The bits of the class.
pub(super) const CLASS_MASK: u64 = 0b111 << CLASS_AT;
/// The buffer is in the queue. The other two bits of the class are the kind of the last use.
pub(crate) const QUEUED: u64 = 0b100 << CLASS_AT;
/// The lowest bit of the epoch.
const EPOCH_AT: u32 = 31;
/// The largest epoch that a word can have.
const EPOCH_MAX: u64 = (1 << 13) - 1;
/// The bits of the epoch.
pub(super) const EPOCH_MASK: u64 = EPOCH_MAX << EPOCH_AT;

/// Epochs in which as many pages are read as there are buffers.
pub(crate) const EPOCHS: u64 = 64;
/// The age from which on a page is idle: it was not used while 16 pools of pages were read.
pub(crate) const IDLE: u64 = 16 * EPOCHS;
/// The age that stands for all higher ones.
pub(crate) const OLD: u64 = 64 * EPOCHS - 1;
/// A last use that is so long ago is in the future: by a thread that has seen a later epoch.
const AHEAD: u64 = EPOCH_MAX + 1 - EPOCHS;

/// The largest usage count that pg_buffercache shows.
pub(crate) const USAGE_MAX: u64 = 5;

/// How the page of a buffer was used. A free buffer has a class too, which tells where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// On the clock: the page was not used since the epoch in which it came.
    Unused,
    /// On the clock: the page was used again, by bulk accesses only.
    Reused,
    /// On the clock: the page was used again by others than bulk accesses.
    Valued,
    /// In the queue: the page is new, and was last used for this.
    Queued(AccessKind),
}

impl Class {
    const UNUSED: u64 = 0;
    const REUSED: u64 = 1;
    const VALUED: u64 = 2;

    /// Returns the class in a state word.
    pub(crate) fn of(state: u64) -> Class {
        let low = state >> CLASS_AT & 0b11;
        if state & QUEUED != 0 {
            return Class::Queued(AccessKind::ALL[low as usize]);
        }
        match low {
            Class::UNUSED => Class::Unused,
            Class::REUSED => Class::Reused,
            Class::VALUED => Class::Valued,
            class => unreachable!("a buffer of class {class}"),
        }
    }

    /// Returns the state word with this class.
    pub(crate) fn put(self, state: u64) -> u64 {
        let bits = match self {
            Class::Unused => Class::UNUSED << CLASS_AT,
            Class::Reused => Class::REUSED << CLASS_AT,
            Class::Valued => Class::VALUED << CLASS_AT,
            Class::Queued(access) => QUEUED | (access as u64) << CLASS_AT,
        };
        state & !CLASS_MASK | bits
    }
}

/// A use of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    pub(crate) access: AccessKind,
    /// The epoch.
    pub(crate) now: u64,
}

impl Use {
    /// Returns the state word of the page's buffer after the use. Uses within one epoch count once:
    /// they belong together.
    pub(crate) fn mark(self, state: u64) -> u64 {
        let since = elapsed(self.now, last_use(state));
        if since == 0 && state & QUEUED == 0 {
            return state; // As most uses find it.
        }
        let class = state & CLASS_MASK;
        let class = if state & QUEUED != 0 {
            QUEUED | (self.access as u64) << CLASS_AT
        } else if self.access == AccessKind::Normal {
            Class::VALUED << CLASS_AT
        } else {
            class.max(Class::REUSED << CLASS_AT)
        };
        let epoch = if since == 0 { state & EPOCH_MASK } else { epoch_bits(self.now) };
        state & !(CLASS_MASK | EPOCH_MASK) | class | epoch
    }
}

fn epoch_bits(epoch: u64) -> u64 {
    (epoch & EPOCH_MAX) << EPOCH_AT
}

/// Returns the state word with this epoch as that of the last use.
pub(crate) fn used_in(state: u64, epoch: u64) -> u64 {
    state & !EPOCH_MASK | epoch_bits(epoch)
}

/// Returns the lowest bits of the epoch of the last use.
pub(crate) fn last_use(state: u64) -> u64 {
    (state & EPOCH_MASK) >> EPOCH_AT
}

/// Returns the epochs from one to another, of which the lowest bits suffice. 0 if the second one is
/// the later one.
pub(crate) fn elapsed(now: u64, since: u64) -> u64 {
    let epochs = now.wrapping_sub(since) & EPOCH_MAX;
    if epochs < AHEAD { epochs } else { 0 }
}

/// Returns the epochs since the last use, at most [`OLD`].
pub(crate) fn age(state: u64, now: u64) -> u64 {
    elapsed(now, last_use(state)).min(OLD)
}

/// Returns the usage count that pg_buffercache shows for a buffer with a page: an estimate of how
/// long it will stay.
///
/// | the page | usage count |
/// |---|---|
/// | was not used while 16 pools of pages were read | 0 |
/// | was not used since it came | 1 |
/// | was used again by bulk accesses only | 2 |
/// | was used again by others; last before a pool of pages was read | 3 |
/// | ... before a quarter of a pool was read | 4 |
/// | ... since then | 5 |
pub(crate) fn usage(state: u64, now: u64) -> u64 {
    match (Class::of(state), age(state, now)) {
        (_, IDLE..) => 0,
        (Class::Unused | Class::Queued(_), _) => 1,
        (Class::Reused, _) => 2,
        (Class::Valued, EPOCHS..) => 3,
        (Class::Valued, age) if age >= EPOCHS / 4 => 4,
        (Class::Valued, _) => USAGE_MAX,
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use AccessKind::{BulkRead, BulkWrite, Normal, Vacuum};
    use Class::{Queued, Reused, Unused, Valued};

    /// A word with all other bits set, of a page that was used last in this epoch.
    fn word(class: Class, epoch: u64) -> u64 {
        used_in(class.put(u64::MAX), epoch)
    }

    #[test]
    fn a_use_in_another_epoch_changes_the_class() {
        for (before, access, after) in [
            (Unused, Normal, Valued),
            (Unused, BulkRead, Reused),
            (Unused, BulkWrite, Reused),
            (Unused, Vacuum, Reused),
            (Reused, Normal, Valued),
            (Reused, BulkRead, Reused),
            (Valued, Normal, Valued),
            (Valued, BulkRead, Valued),
            (Valued, Vacuum, Valued),
            (Queued(Normal), BulkRead, Queued(BulkRead)),
            (Queued(BulkRead), Vacuum, Queued(Vacuum)),
            (Queued(Vacuum), Normal, Queued(Normal)),
            (Queued(Normal), BulkWrite, Queued(BulkWrite)),
        ] {
            let used = |now| Use { access, now }.mark(word(before, 100));
            assert_eq!(used(101), word(after, 101), "{before:?}, {access:?}");
            // Within the same epoch only the kind of the last use changes, in the queue.
            let same = if let Queued(_) = before { Queued(access) } else { before };
            assert_eq!(used(100), word(same, 100), "{before:?}, {access:?}");
            assert_eq!(used(99), used(100), "by a thread that is late");
        }
    }

    #[test]
    fn ages_survive_the_wrap_around_of_epochs() {
        let wrap = EPOCH_MAX + 1;
        for first in [0, 1, 1000, wrap - 1, wrap, 5 * wrap + 7, u64::MAX - wrap - 1000] {
            let state = word(Unused, first);
            for epochs in [0, 1, 63, 64, OLD - 1] {
                assert_eq!(age(state, first + epochs), epochs, "from {first}");
            }
            for epochs in [OLD, OLD + 1, AHEAD - 1] {
                assert_eq!(age(state, first + epochs), OLD, "from {first}");
            }
            let marked = used_in(state, (first + AHEAD - 1).wrapping_sub(OLD));
            assert_eq!(age(marked, first + AHEAD - 1), OLD, "marked as old, before the wrap");
        }
        assert_eq!(age(word(Unused, 7), 5), 0, "used by a thread that has seen a later epoch");
    }

    #[test]
    fn usage_counts_fall_with_age() {
        let counts = |class, ages: &[u64]| -> Vec<u64> {
            ages.iter().map(|age| usage(word(class, 9), 9 + age)).collect()
        };
        let ages = [0, 15, 16, 63, 64, IDLE - 1, IDLE];
        assert_eq!(counts(Valued, &ages), [5, 5, 4, 4, 3, 3, 0]);
        assert_eq!(counts(Reused, &ages), [2, 2, 2, 2, 2, 2, 0]);
        assert_eq!(counts(Unused, &ages), [1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(counts(Queued(Normal), &ages), [1, 1, 1, 1, 1, 1, 0]);
    }
}
