//! What a traced pool records.
//!
//! A pool that is not traced pays nothing for it on a hit: whether a pool is special, by being
//! temporary or traced, is one test that an access makes anyway.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::read::{Slot, SlotState};
use super::strategy::Strategy;
use super::table;
use super::trace_format::{Manner, PageReference};
use forebay_format::PageTag;

impl BufferPool {
    /// Returns the strategy to follow for one page, and records the reference if the pool is
    /// traced.
    pub(super) fn admit(&self, backend: &Backend, tag: &PageTag, strategy: Strategy) -> Strategy {
        if self.special { self.admit_special(backend, tag, strategy) } else { strategy }
    }

    #[cold]
    fn admit_special(&self, backend: &Backend, tag: &PageTag, strategy: Strategy) -> Strategy {
        let strategy = self.effective(strategy);
        if self.config.trace.is_some() {
            let hit = self.table.hint(&self.core.descs, table::hash_tag(tag), tag).is_some();
            self.trace(backend, *tag, strategy, Manner::Single, hit);
        }
        strategy
    }

    /// Records that a backend has pinned a page, if the pool is traced.
    pub(crate) fn trace(
        &self,
        backend: &Backend,
        page: PageTag,
        strategy: Strategy,
        manner: Manner,
        hit: bool,
    ) {
        let Some(trace) = &self.config.trace else { return };
        let access = strategy.access();
        trace.record(&PageReference { page, backend: backend.io.slot(), access, manner, hit });
    }

    /// Records neighbouring pages from `first` on, which these slots have pinned.
    pub(crate) fn trace_slots<'s>(
        &self,
        backend: &Backend,
        first: PageTag,
        slots: impl IntoIterator<Item = &'s Slot>,
        strategy: Strategy,
        manner: Manner,
    ) {
        if self.config.trace.is_none() {
            return;
        }
        for (block, slot) in (first.block..).zip(slots) {
            let hit = !matches!(slot.state, SlotState::Own(_));
            self.trace(backend, PageTag { block, ..first }, strategy, manner, hit);
        }
    }
}
