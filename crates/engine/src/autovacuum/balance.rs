//! The cost limit that the workers of autovacuum share.

use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicUsize, Ordering};

/// Counts the workers that share the limit now: all but those whose table has a limit or a delay of
/// its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Balance(Arc<AtomicUsize>);

/// A worker that shares it.
#[derive(Debug)]
pub(crate) struct Sharer(Balance);

impl Balance {
    /// One more worker shares it.
    pub(crate) fn share(&self) -> Sharer {
        self.0.fetch_add(1, Ordering::Relaxed);
        Sharer(self.clone())
    }

    /// Each worker's part of a limit.
    pub(crate) fn part_of(&self, limit: u32) -> u32 {
        let workers = u32::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        (limit / workers.max(1)).max(1)
    }
}

impl Drop for Sharer {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_divided_among_those_who_share_it() {
        let balance = Balance::default();
        assert_eq!(balance.part_of(200), 200);
        let first = balance.share();
        let second = balance.share();
        assert_eq!(balance.part_of(200), 100);
        assert_eq!(balance.part_of(1), 1);
        drop(first);
        assert_eq!(balance.part_of(200), 200);
        drop(second);
    }
}
