//! What a policy is to the simulator.

use forebay_storage::AccessKind;

/// A reference to a page, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::replacement) struct Reference {
    pub(in crate::replacement) page: u32,
    pub(in crate::replacement) backend: u16,
    pub(in crate::replacement) access: AccessKind,
}

impl Reference {
    /// A reference of backend 0, for anything.
    #[cfg(test)]
    pub(in crate::replacement) fn plain(page: u32) -> Reference {
        Reference { page, backend: 0, access: AccessKind::Normal }
    }
}

/// A policy with a pool of a fixed size.
pub(in crate::replacement) trait Policy {
    /// Refers to a page, which is in memory afterwards. Returns whether it was before.
    fn refer(&mut self, reference: Reference) -> bool;

    /// The number of buffers, queue entries or ghosts that misses have looked at, so far.
    fn steps(&self) -> u64;

    /// What a hit writes to memory that all backends share, beside the pin.
    fn hit_writes(&self) -> &'static str;
}

/// What a policy may know at the start.
pub(in crate::replacement) struct Setup<'a> {
    /// Buffers of the pool.
    pub(in crate::replacement) buffers: usize,
    /// Pages are numbered from 0 to below this.
    pub(in crate::replacement) pages: usize,
    /// The whole trace, which only the optimum looks at.
    pub(in crate::replacement) trace: &'a [Reference],
}
