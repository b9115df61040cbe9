//! The right to take pins: [`PinPermit`] for one, [`PinGrant`] for several. `budget` decides how
//! many there are.

use super::budget::UNCOUNTED;
use super::core::Core;
use std::ptr::NonNull;
use std::sync::Arc;

/// A backend's right to one pin, which it has taken or is about to take.
pub(crate) struct PinPermit {
    core: NonNull<Core>,
    /// The backend's slot, or [`UNCOUNTED`].
    slot: u32,
    /// Whether the pin is a spare one; otherwise it is guaranteed.
    spare: bool,
}

const fn is_shared_by_threads<T: Send + Sync>() {}
const _: () = is_shared_by_threads::<Core>();

// SAFETY: a permit is a shared reference to the core, which threads may share, and numbers.
unsafe impl Send for PinPermit {}
// SAFETY: as above.
unsafe impl Sync for PinPermit {}

impl PinPermit {
    /// Obtains a guaranteed pin of a backend. May wait; calls `before_waiting` first.
    ///
    /// Here and below, the core must outlive the permit. The caller's reference to the pool ensures
    /// that, and later the pin that the permit is for; see `Pinned`.
    pub(crate) fn new(core: &Arc<Core>, slot: u32, before_waiting: impl FnOnce()) -> PinPermit {
        let slot = if core.budget.counts() { slot } else { UNCOUNTED };
        if slot != UNCOUNTED && !core.budget.try_grant(slot) {
            before_waiting();
            core.budget.await_grant(slot);
        }
        PinPermit { slot, ..PinPermit::uncounted(core) }
    }

    /// A permit that counts for no backend.
    pub(crate) fn uncounted(core: &Arc<Core>) -> PinPermit {
        // SAFETY: an `Arc` never points to null.
        let core = unsafe { NonNull::new_unchecked(Arc::as_ptr(core).cast_mut()) };
        PinPermit { core, slot: UNCOUNTED, spare: false }
    }

    /// A permit for one of the spare pins that the caller has claimed.
    fn spare(core: &Arc<Core>, slot: u32) -> PinPermit {
        core.budget.count_spare(slot);
        PinPermit { slot, spare: true, ..PinPermit::uncounted(core) }
    }

    /// A permit for a second pin on the same page. It is a guaranteed one that needs no buffer.
    pub(crate) fn for_second_pin(&self) -> PinPermit {
        if self.slot != UNCOUNTED {
            self.core().budget.count_second_pin(self.slot);
        }
        PinPermit { core: self.core, slot: self.slot, spare: false }
    }

    /// Gives the permit back. Later calls have no effect.
    pub(crate) fn release(&mut self) {
        let slot = std::mem::replace(&mut self.slot, UNCOUNTED);
        if std::mem::replace(&mut self.spare, false) {
            self.core().budget.release_spare(slot);
        } else if slot != UNCOUNTED {
            self.core().budget.release(slot);
        }
    }

    /// The address of the core.
    pub(crate) fn core_ptr(&self) -> NonNull<Core> {
        self.core
    }

    pub(crate) fn core(&self) -> &Core {
        // SAFETY: the core outlives the permit, see `new`.
        unsafe { self.core.as_ref() }
    }
}

impl Drop for PinPermit {
    fn drop(&mut self) {
        self.release();
    }
}

/// The pins that a request for many pages may take: a guaranteed one of its backend, and spare
/// ones.
pub(crate) struct PinGrant<'a> {
    core: &'a Arc<Core>,
    slot: u32,
    guaranteed: Option<PinPermit>,
    spare: u32,
}

impl<'a> PinGrant<'a> {
    /// Adds spare pins to a permit, up to `n` pins in all.
    pub(crate) fn new(core: &'a Arc<Core>, permit: PinPermit, n: u32) -> Self {
        let spare = core.budget.claim(0, n.saturating_sub(1));
        PinGrant { core, slot: permit.slot, guaranteed: Some(permit), spare }
    }

    /// Returns the number of pins that may still be taken.
    pub(crate) fn left(&self) -> u32 {
        self.spare + u32::from(self.guaranteed.is_some())
    }

    /// Takes one. Panics if none is left.
    pub(crate) fn take(&mut self) -> PinPermit {
        self.guaranteed.take().unwrap_or_else(|| {
            assert!(self.spare > 0, "more pins than were granted");
            self.spare -= 1;
            PinPermit::spare(self.core, self.slot)
        })
    }
}

impl Drop for PinGrant<'_> {
    fn drop(&mut self) {
        self.core.budget.return_spare(self.spare);
    }
}
