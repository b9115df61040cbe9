//! Letting the pool's time pass with uses of pages and with misses; and looking after the ages of
//! pages as it passes.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::strategy::Strategy;
use super::time::Passed;
use super::usage::{Class, EPOCHS, OLD, Use, age};

/// Uses after which another buffer is looked at. All of a pool are within 512 epochs, so that no
/// age wraps around: that is a matter of some 4000 epochs beyond [`OLD`].
const USES_FOR_A_LOOK: u64 = 512;

const _: () = assert!(OLD + USES_FOR_A_LOOK < 8192 - 64);

/// When a miss happens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Miss {
    /// The epoch in which the page was needed.
    pub(super) needed: u64,
    /// The epoch by which the time of the miss has passed.
    pub(super) now: u64,
}

impl BufferPool {
    /// Counts a use of a page.
    pub(crate) fn begin_use(&self, backend: &mut Backend, strategy: Strategy) -> Use {
        backend.uses.waiting += 1;
        if backend.uses.waiting >= backend.uses.due {
            self.hand_over_uses(backend);
        }
        self.use_now(strategy)
    }

    /// Returns a use of a page without counting it.
    pub(crate) fn use_now(&self, strategy: Strategy) -> Use {
        Use { access: strategy.access(), now: self.time.epoch() }
    }

    #[cold]
    fn hand_over_uses(&self, backend: &mut Backend) {
        let passed = self.time.pass(std::mem::take(&mut backend.uses.waiting));
        self.passed(backend, passed);
    }

    /// Lets the time of a miss pass. The use that met it is counted already.
    pub(super) fn begin_miss(&self, backend: &mut Backend) -> Miss {
        let uses = std::mem::take(&mut backend.uses.waiting);
        let passed = self.time.pass_miss(uses);
        self.passed(backend, passed);
        Miss { needed: passed.needed, now: passed.now }
    }

    /// Whether a page will probably be used before it leaves, so that it is better written later:
    /// others than bulk accesses used it again, and not much longer ago than pages can afford that
    /// leave now.
    pub(super) fn is_in_demand(&self, state: u64) -> bool {
        let young = (self.places.mean_age() / 2).min(EPOCHS);
        Class::of(state) == Class::Valued && age(state, self.time.epoch()) < young
    }

    fn passed(&self, backend: &mut Backend, passed: Passed) {
        backend.uses.due = passed.due;
        let now = self.time.epoch();
        let descs = self.core.placed_descs();
        let looks = passed.from / USES_FOR_A_LOOK..passed.to / USES_FOR_A_LOOK;
        for look in looks.take(descs.len()) {
            descs[(look % descs.len() as u64) as usize].keep_old(now);
        }
    }
}
