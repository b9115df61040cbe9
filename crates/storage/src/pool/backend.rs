//! One thread's context: its I/O handles, its read policy, the uses of pages that it has counted,
//! and what it writes behind itself.

use super::damage::{ReadPolicy, ReadWarning, WarningList};
use super::time::Uses;
use super::trail::Trails;
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
    pub(super) trails: Trails,
    pub(super) uses: Uses,
}

impl Backend {
    /// Wraps the I/O context.
    pub fn new(io: aio::IoBackend) -> Self {
        Backend {
            io,
            policy: ReadPolicy::default(),
            progress: Arc::default(),
            warnings: WarningList::default(),
            trails: Trails::default(),
            uses: Uses::default(),
        }
    }

    /// Takes the warnings of this backend's reads, in the order in which the reads ended. The
    /// warning of a read whose pages were never waited for may come with a later call.
    pub fn take_read_warnings(&mut self) -> Vec<ReadWarning> {
        std::mem::take(&mut *self.warnings.lock())
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backend").finish_non_exhaustive()
    }
}
