//! Reading a page ahead, of any relation. Recovery does it with the pages that the next records
//! name.
//!
//! A read stream keeps its pages pinned until it returns them. Here nobody waits for the page: the
//! read holds a pin of its own, and afterwards the page is in memory like any other. If the read
//! fails, the backend that needs the page reads it again and gets the error.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::guard::Pinned;
use super::read::SlotState;
use super::strategy::Strategy;
use super::trace_format::Manner;
use crate::error::StorageError;
use forebay_aio::WaitRef;
use forebay_format::PageTag;
use std::collections::VecDeque;
use std::sync::Arc;

/// What became of a page that was to be read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetched {
    /// It is in memory, or another backend reads it.
    Cached,
    /// Its read was started, or staged in this backend's batch.
    Started(WaitRef),
    /// No buffer is free for it now.
    NoBuffer,
}

impl BufferPool {
    /// Starts to read a page that exists and will be needed soon. Does not wait, not even for a
    /// buffer.
    pub fn prefetch(
        self: &Arc<Self>,
        backend: &mut Backend,
        tag: PageTag,
        strategy: Strategy,
    ) -> Result<Prefetched, StorageError> {
        let strategy = self.effective(strategy);
        let permit = self.pin_permit(backend);
        let mut slots = VecDeque::new();
        self.start_read(backend, tag, 1, strategy, &mut slots, false)?;
        self.trace_slots(backend, tag, &slots, strategy, Manner::Prefetch);
        let Some(slot) = slots.pop_front() else { return Ok(Prefetched::NoBuffer) };
        drop(Pinned::new(permit, slot.buf));
        Ok(match slot.state {
            SlotState::Own(wait) => Prefetched::Started(wait),
            SlotState::Ready | SlotState::Foreign => Prefetched::Cached,
        })
    }
}
