//! Reading a page ahead that will be wanted soon, of any relation: what recovery does with the
//! pages that its next records name.
//!
//! A read stream hands its pages out in order and keeps them pinned until then; here nobody waits
//! for anything. The read has a pin of its own while it is on its way, and then the page is in
//! memory like any other. What went wrong with it is found out by whoever wants the page, who then
//! reads it again.

use super::read::SlotState;
use super::{BufferPool, Pinned, Strategy};
use crate::Backend;
use crate::error::StorageError;
use forebay_aio::WaitRef;
use forebay_format::PageTag;
use std::collections::VecDeque;
use std::sync::Arc;

/// What became of a page to be read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetched {
    /// It is in memory, or someone reads it.
    Cached,
    /// It is being read, or about to be once this backend's batch is submitted.
    Started(WaitRef),
    /// No buffer is to be had for it now.
    NoBuffer,
}

impl BufferPool {
    /// Begins to read a page that exists and will be wanted soon. Doesn't wait, not even for a
    /// buffer.
    pub fn prefetch(
        self: &Arc<Self>,
        be: &mut Backend,
        tag: PageTag,
        strategy: Strategy,
    ) -> Result<Prefetched, StorageError> {
        let strategy = self.effective(strategy);
        let visit = self.visit(be);
        let mut ring = be.take_ring(strategy);
        ring.prepare(strategy, self.config.buffers);
        let mut slots = VecDeque::new();
        let started = self.start_read(be, tag, 1, strategy, &mut ring, &mut slots, false);
        be.put_ring(strategy, ring);
        started?;
        let Some(slot) = slots.pop_front() else { return Ok(Prefetched::NoBuffer) };
        drop(Pinned::new(visit, slot.buf));
        Ok(match slot.state {
            SlotState::Own(wait) => Prefetched::Started(wait),
            SlotState::Ready | SlotState::Foreign => Prefetched::Cached,
        })
    }
}
