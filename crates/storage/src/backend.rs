//! One thread's context: its I/O handles and the buffer rings of its plain reads.

use crate::pool::{Mailbox, ReadPolicy, Ring, Strategy};
use forebay_aio as aio;

/// What a thread passes down as `&mut` to everything that may do I/O.
pub struct Backend {
    /// The thread's I/O handles.
    pub io: aio::Backend,
    /// What becomes of damaged pages that this backend reads from now on.
    pub policy: ReadPolicy,
    pub(crate) warnings: Mailbox,
    rings: [Ring; 3],
}

impl Backend {
    /// Wraps the I/O context.
    pub fn new(io: aio::Backend) -> Self {
        Backend {
            io,
            policy: ReadPolicy::default(),
            warnings: Mailbox::default(),
            rings: Default::default(),
        }
    }

    /// The ring of a strategy, taken out while it is used.
    pub(crate) fn take_ring(&mut self, strategy: Strategy) -> Ring {
        match strategy {
            Strategy::Normal => Ring::default(),
            Strategy::BulkRead => std::mem::take(&mut self.rings[0]),
            Strategy::BulkWrite => std::mem::take(&mut self.rings[1]),
            Strategy::Vacuum => std::mem::take(&mut self.rings[2]),
        }
    }

    /// Puts a ring back.
    pub(crate) fn put_ring(&mut self, strategy: Strategy, ring: Ring) {
        match strategy {
            Strategy::Normal => {}
            Strategy::BulkRead => self.rings[0] = ring,
            Strategy::BulkWrite => self.rings[1] = ring,
            Strategy::Vacuum => self.rings[2] = ring,
        }
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backend").finish_non_exhaustive()
    }
}
