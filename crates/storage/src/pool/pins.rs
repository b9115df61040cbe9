//! The right to a pin: [`Visit`], for one, keeps the account of it; [`Grant`] is for many. How they
//! are shared out is in `budget`.

use super::Core;
use super::budget::UNCOUNTED;
use std::ptr::NonNull;
use std::sync::Arc;

/// The right of a backend to have one pin, which it has or is about to take.
pub(crate) struct Visit {
    core: NonNull<Core>,
    /// The backend's slot, or [`UNCOUNTED`].
    slot: u32,
    /// Is it a spare one? Else it is one of the few.
    spare: bool,
}

const fn is_shared_by_threads<T: Send + Sync>() {}
const _: () = is_shared_by_threads::<Core>();

// SAFETY: a visit is a shared reference to the core, which threads may share, and numbers.
unsafe impl Send for Visit {}
// SAFETY: as above.
unsafe impl Sync for Visit {}

impl Visit {
    /// For one of the few of a backend. May wait; `before_waiting` is called then.
    ///
    /// Here and below: the core outlives the visit, as the caller's reference to the pool does, and
    /// later the pin that the visit is for; see [`super::Pinned`].
    pub(crate) fn new(core: &Arc<Core>, slot: u32, before_waiting: impl FnOnce()) -> Visit {
        let slot = if core.budget.counts() { slot } else { UNCOUNTED };
        if slot != UNCOUNTED && !core.budget.enter(slot) {
            before_waiting();
            core.budget.await_grant(slot);
        }
        Visit { slot, ..Visit::of_nobody(core) }
    }

    /// For a pin of no backend in particular.
    pub(crate) fn of_nobody(core: &Arc<Core>) -> Visit {
        // SAFETY: no `Arc` is at null.
        let core = unsafe { NonNull::new_unchecked(Arc::as_ptr(core).cast_mut()) };
        Visit { core, slot: UNCOUNTED, spare: false }
    }

    /// For one of the spare pins that the caller has claimed.
    fn spare(core: &Arc<Core>, slot: u32) -> Visit {
        core.budget.enter_spare(slot);
        Visit { slot, spare: true, ..Visit::of_nobody(core) }
    }

    /// For one more pin of what is pinned already: one of the few, that needs no buffer.
    pub(crate) fn again(&self) -> Visit {
        if self.slot != UNCOUNTED {
            self.core().budget.had(self.slot);
        }
        Visit { core: self.core, slot: self.slot, spare: false }
    }

    /// Ends the account; the second time it does nothing.
    pub(crate) fn leave(&mut self) {
        let slot = std::mem::replace(&mut self.slot, UNCOUNTED);
        if std::mem::replace(&mut self.spare, false) {
            self.core().budget.leave_spare(slot);
        } else if slot != UNCOUNTED {
            self.core().budget.leave(slot);
        }
    }

    /// Where the core is.
    pub(crate) fn core_ptr(&self) -> NonNull<Core> {
        self.core
    }

    pub(crate) fn core(&self) -> &Core {
        // SAFETY: the core outlives the visit, see `new`.
        unsafe { self.core.as_ref() }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The pins that one request for many pages may take: one of its backend's few, and spare ones.
pub(crate) struct Grant<'a> {
    core: &'a Arc<Core>,
    slot: u32,
    few: Option<Visit>,
    spare: u32,
}

impl<'a> Grant<'a> {
    /// For up to `n` pins; at least one. May wait as [`Visit::new`] may.
    pub(crate) fn new(core: &'a Arc<Core>, visit: Visit, n: u32) -> Self {
        let spare = core.budget.claim(0, n.saturating_sub(1));
        Grant { core, slot: visit.slot, few: Some(visit), spare }
    }

    /// How many pins may still be taken.
    pub(crate) fn left(&self) -> u32 {
        self.spare + u32::from(self.few.is_some())
    }

    /// Takes one.
    pub(crate) fn take(&mut self) -> Visit {
        self.few.take().unwrap_or_else(|| {
            debug_assert!(self.spare > 0, "more pins than were granted");
            self.spare -= 1;
            Visit::spare(self.core, self.slot)
        })
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        self.core.budget.give_back(self.spare);
    }
}
