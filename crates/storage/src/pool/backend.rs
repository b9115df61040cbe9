//! One thread's context: its I/O handles, its read policy and the buffer rings of its plain reads.

use super::damage::{ReadPolicy, ReadWarning, WarningList};
use super::strategy::{Ring, Strategy};
use crate::progress::Progress;
use forebay_aio as aio;
use std::sync::Arc;

/// A thread's context. It is passed down as `&mut` to everything that may do I/O.
pub struct Backend {
    /// The thread's I/O handles.
    pub io: aio::IoBackend,
    /// What reads of this backend do with damaged pages from now on.
    pub policy: ReadPolicy,
    /// Where its long commands show how far they have come.
    pub progress: Arc<Progress>,
    pub(crate) warnings: WarningList,
    rings: [Ring; 3],
}

impl Backend {
    /// Wraps the I/O context.
    pub fn new(io: aio::IoBackend) -> Self {
        Backend {
            io,
            policy: ReadPolicy::default(),
            progress: Arc::default(),
            warnings: WarningList::default(),
            rings: Default::default(),
        }
    }

    /// Takes the warnings of this backend's reads, in the order in which the reads ended. The
    /// warning of a read whose pages were never waited for may come with a later call.
    pub fn take_read_warnings(&mut self) -> Vec<ReadWarning> {
        std::mem::take(&mut *self.warnings.lock())
    }

    /// Takes the ring of a strategy out, for an access to a pool of `buffers` buffers.
    pub(crate) fn take_ring(&mut self, strategy: Strategy, buffers: usize) -> Ring {
        let mut ring = self.ring(strategy).map(std::mem::take).unwrap_or_default();
        ring.prepare(strategy, buffers);
        ring
    }

    /// Puts a ring back after the access.
    pub(crate) fn put_ring(&mut self, strategy: Strategy, ring: Ring) {
        if let Some(place) = self.ring(strategy) {
            *place = ring;
        }
    }

    fn ring(&mut self, strategy: Strategy) -> Option<&mut Ring> {
        match strategy {
            Strategy::Normal => None,
            Strategy::BulkRead => Some(&mut self.rings[0]),
            Strategy::BulkWrite => Some(&mut self.rings[1]),
            Strategy::Vacuum { .. } => Some(&mut self.rings[2]),
        }
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backend").finish_non_exhaustive()
    }
}
