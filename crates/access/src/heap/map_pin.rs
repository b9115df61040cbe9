//! Pages together with their part of the visibility map.
//!
//! A page's bits in the map are cleared under the page's lock. Reading the map under that lock
//! would make others wait for it, so the map is pinned before. The record of the change refers to
//! the map's page too, which stays locked until it has its LSN.

use forebay_format::visibility_map::{ALL_FROZEN, VALID_BITS};
use forebay_format::{BlockNumber, Lsn};
use forebay_storage::{Backend, PageWriteGuard, Pinned};
use forebay_wal::{BlockFlags, BlockRef};

use super::relation::Heap;
use crate::error::AccessError;
use crate::vm;

/// The page of the map that has the bits of a block, if it was needed.
#[derive(Debug, Default)]
pub(super) struct MapPin {
    page: Option<Pinned>,
}

/// Bits of a page that were cleared.
#[derive(Debug, Default)]
pub(super) struct Cleared<'a> {
    /// Whether the table's page is all-visible.
    pub(super) visible: bool,
    /// The map's page, if it was changed.
    map: Option<PageWriteGuard<'a>>,
}

impl Cleared<'_> {
    /// Whether the map was changed.
    pub(super) fn changed(&self) -> bool {
        self.map.is_some()
    }

    /// The reference to the map's page, for a record.
    pub(super) fn block(&self, id: u8) -> Option<BlockRef<'_>> {
        let map = self.map.as_ref()?;
        let (tag, flags) = (map.tag(), BlockFlags::NONE);
        Some(BlockRef { id, tag, page: Some(map), flags, data: &[] })
    }

    /// Sets the LSN of the map's page.
    pub(super) fn set_lsn(&mut self, lsn: Lsn) {
        if let Some(map) = &mut self.map {
            map.set_lsn(lsn);
        }
    }
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

    /// Pins the page of the map. An all-visible page whose part of the map is lost gets a new one:
    /// if none were made, vacuum might make it before the caller has locked the table's page.
    pub(super) fn look(
        &mut self,
        heap: &Heap,
        backend: &mut Backend,
        block: BlockNumber,
    ) -> Result<(), AccessError> {
        self.page = Some(vm::pin_or_make(&heap.pool, backend, heap.locator, block)?);
        Ok(())
    }

    /// Whether the locked page's bits can be cleared.
    pub(super) fn is_enough(&self, guard: &PageWriteGuard<'_>) -> bool {
        self.page.is_some() || guard.page().is_new() || !guard.page().is_all_visible()
    }

    /// Clears both bits of the locked page, if it is all-visible.
    pub(super) fn clear(&self, guard: &PageWriteGuard<'_>) -> Cleared<'_> {
        self.clear_bits(guard, VALID_BITS)
    }

    /// Clears the bit that says that the locked page is all-frozen.
    pub(super) fn clear_frozen(&self, guard: &PageWriteGuard<'_>) -> Cleared<'_> {
        self.clear_bits(guard, ALL_FROZEN)
    }

    fn clear_bits(&self, guard: &PageWriteGuard<'_>, bits: u8) -> Cleared<'_> {
        let visible = guard.page().is_all_visible();
        if !visible {
            return Cleared { visible, map: None };
        }
        let page = self.page.as_ref();
        let page = page.unwrap_or_else(|| panic!("{} was locked without its map", guard.tag()));
        let mut map = page.lock_exclusive();
        let changed = vm::clear_locked(&mut map, guard.tag().block, bits);
        Cleared { visible, map: changed.then_some(map) }
    }

    /// Clears both bits of two locked pages, each if it is all-visible. The map's pages are locked
    /// in their order. If they are one page, it goes with `new`, unless only `old` has changed it.
    pub(super) fn clear_both<'a>(
        (old_map, old): (&'a MapPin, &PageWriteGuard<'_>),
        (new_map, new): (&'a MapPin, &PageWriteGuard<'_>),
    ) -> (Cleared<'a>, Cleared<'a>) {
        let tag = |map: &MapPin| map.page.as_ref().map(Pinned::tag);
        if old.tag().block < new.tag().block && tag(old_map) != tag(new_map) {
            let cleared = old_map.clear(old);
            return (cleared, new_map.clear(new));
        }
        let mut cleared = new_map.clear(new);
        let shared = cleared.map.as_mut().filter(|map| Some(map.tag()) == tag(old_map));
        let Some(map) = shared else { return (old_map.clear(old), cleared) };
        let visible = old.page().is_all_visible();
        if visible {
            vm::clear_locked(map, old.tag().block, VALID_BITS);
        }
        (Cleared { visible, map: None }, cleared)
    }
}
