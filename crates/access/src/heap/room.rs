//! Room that the free-space map knows.

use forebay_format::page::MAX_HEAP_TUPLE_SIZE;
use forebay_storage::{Backend, Pinned, Strategy};

use super::relation::Heap;
use super::space::EMPTY;
use crate::error::AccessError;
use crate::fsm::FreeSpaceMap;

impl Heap {
    /// The free-space map.
    pub(super) fn free_space_map(&self) -> FreeSpaceMap<'_> {
        FreeSpaceMap { pool: &self.pool, rel: self.locator }
    }

    /// A page with at least `need` bytes of room to which the free-space map leads.
    pub(super) fn page_by_map(
        &self,
        backend: &mut Backend,
        need: usize,
        strategy: Strategy,
    ) -> Result<Option<Pinned>, AccessError> {
        if !self.space.may_have_map() {
            return Ok(None);
        }
        let map = self.free_space_map();
        if !map.exists()? {
            self.space.note_map(false);
            return Ok(None);
        }
        let need = need.min(MAX_HEAP_TUPLE_SIZE);
        let mut found = map.find(backend, need)?;
        while let Some(block) = found {
            let pin = self.pool.read(backend, self.tag(block), strategy)?;
            let free = {
                let guard = pin.lock_shared();
                if guard.page().is_new() { EMPTY } else { guard.page().heap_free_space() }
            };
            if free >= need {
                return Ok(Some(pin));
            }
            drop(pin);
            found = map.record_and_find(backend, (block, free), need)?;
        }
        Ok(None)
    }
}
