//! Bugs that a test plants, to show that the batteries would notice them.
//!
//! A place in the program asks [`Aio::has_bug`](crate::Aio::has_bug) for its bug by name and
//! misbehaves if it is planted: `if aio.has_bug("wal: sync skipped") { return Ok(());
//! }`. Only builds with the feature `planted-bugs` can plant any, and nothing of the product has
//! it: there the answer is a constant, and what it guards is not in the program. A bug belongs to
//! one door, so that two engines in a process can have different ones.

#[cfg(feature = "planted-bugs")]
use crate::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Whether this build can have planted bugs at all: for places where asking costs something.
pub const CAN_HAVE_BUGS: bool = cfg!(feature = "planted-bugs");

/// The bug of one door, if any.
#[derive(Debug, Default)]
pub(crate) struct Planted {
    /// Its name, and how often the program came by.
    #[cfg(feature = "planted-bugs")]
    bug: OnceLock<(String, Arc<AtomicU64>)>,
}

#[cfg(not(feature = "planted-bugs"))]
impl Planted {
    #[inline(always)]
    pub fn has(&self, _bug: &str) -> bool {
        false
    }
}

#[cfg(feature = "planted-bugs")]
impl Planted {
    pub fn has(&self, bug: &str) -> bool {
        let planted = self.bug.get().filter(|(name, _)| name == bug);
        planted.map(|(_, reached)| reached.fetch_add(1, Relaxed)).is_some()
    }

    pub fn plant(&self, bug: &str, reached: Arc<AtomicU64>) {
        assert!(self.bug.set((bug.to_owned(), reached)).is_ok(), "a door has one bug at most");
    }
}
