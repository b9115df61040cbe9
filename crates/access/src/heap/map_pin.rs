//! Pages together with their part of the visibility map.
//!
//! A page's bits in the map are cleared under the page's lock. Reading the map under that lock
//! would make others wait for it, so the map is pinned before.

use forebay_format::BlockNumber;
use forebay_format::visibility_map::{ALL_FROZEN, VALID_BITS};
use forebay_storage::{Backend, PageWriteGuard, Pinned};

use super::relation::Heap;
use crate::error::AccessError;
use crate::vm;

/// The page of the map that has the bits of a block, if it was needed.
#[derive(Debug, Default)]
pub(super) struct MapPin {
    /// Whether the map was looked at.
    looked: bool,
    page: Option<Pinned>,
}

impl MapPin {
    /// Locks a page exclusively. If it is all-visible, its page of the map is pinned then.
    pub(super) fn lock<'a>(
        &mut self,
        heap: &Heap,
        backend: &mut Backend,
        pin: &'a Pinned,
    ) -> Result<PageWriteGuard<'a>, AccessError> {
        loop {
            let guard = pin.lock_exclusive();
            if self.is_enough(&guard) {
                return Ok(guard);
            }
            drop(guard);
            self.look(heap, backend, pin.tag().block)?;
        }
    }

    /// Pins the page of the map.
    pub(super) fn look(
        &mut self,
        heap: &Heap,
        backend: &mut Backend,
        block: BlockNumber,
    ) -> Result<(), AccessError> {
        self.page = vm::pin(&heap.pool, backend, heap.locator, block)?;
        self.looked = true;
        Ok(())
    }

    /// Whether the locked page's bits can be cleared.
    pub(super) fn is_enough(&self, guard: &PageWriteGuard<'_>) -> bool {
        self.looked || guard.page().is_new() || !guard.page().is_all_visible()
    }

    /// Clears both bits of the locked page, if it is all-visible. Returns whether it is.
    pub(super) fn clear(&self, guard: &PageWriteGuard<'_>) -> bool {
        let visible = guard.page().is_all_visible();
        if visible {
            self.clear_bits(guard, VALID_BITS);
        }
        visible
    }

    /// Clears the bit that says that the locked page is all-frozen. Returns whether it was set.
    pub(super) fn clear_frozen(&self, guard: &PageWriteGuard<'_>) -> bool {
        guard.page().is_all_visible() && self.clear_bits(guard, ALL_FROZEN)
    }

    fn clear_bits(&self, guard: &PageWriteGuard<'_>, bits: u8) -> bool {
        assert!(self.looked, "the map was pinned before {} was locked", guard.tag());
        let page = self.page.as_ref();
        page.is_some_and(|page| vm::clear_pinned(page, guard.tag().block, bits))
    }
}
