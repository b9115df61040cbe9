//! Access strategies: what an access is for. Bulk work that uses each page once does not evict what
//! others use (`newcomer`), and writes behind itself (`trail`).

use super::places::Places;
use super::trace_format::AccessKind;
use super::usage::{EPOCHS, OLD};
use forebay_aio::IoContext;

/// What an access to a page is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Anything else.
    #[default]
    Normal,
    /// A large sequential scan. Its pages take buffers that are idle or colder than they are.
    BulkRead,
    /// The same, of a relation with so many blocks.
    Scan {
        /// The relation's blocks.
        blocks: u32,
    },
    /// A large load. Its pages pass through the pool's queue, and are written soon after they were
    /// filled.
    BulkWrite,
    /// Vacuum.
    Vacuum {
        /// How many pages it lets lie before it writes them (vacuum_buffer_usage_limit). Its pages
        /// pass through the pool's queue. 0: they are treated as those of other accesses, and not
        /// written early.
        buffers: u32,
    },
}

/// Pages that a load lets lie before it writes them: 16 MB.
const BEHIND_A_LOAD: usize = 2048;

impl Strategy {
    /// Vacuum with PostgreSQL's default of 2 MB.
    pub const VACUUM: Strategy = Strategy::Vacuum { buffers: 256 };

    /// Returns the context that statistics count the access under.
    pub(crate) fn context(self) -> IoContext {
        match self {
            Strategy::Normal => IoContext::Normal,
            Strategy::BulkRead | Strategy::Scan { .. } => IoContext::BulkRead,
            Strategy::BulkWrite => IoContext::BulkWrite,
            Strategy::Vacuum { .. } => IoContext::Vacuum,
        }
    }

    /// Returns what the replacement takes the access for.
    pub(crate) fn access(self) -> AccessKind {
        match self {
            Strategy::Normal | Strategy::Vacuum { buffers: 0 } => AccessKind::Normal,
            Strategy::BulkRead | Strategy::Scan { .. } => AccessKind::BulkRead,
            Strategy::BulkWrite => AccessKind::BulkWrite,
            Strategy::Vacuum { .. } => AccessKind::Vacuum,
        }
    }

    /// Returns the epochs of a pool of this size that pass at least until the access comes by the
    /// same page again, at most [`OLD`]. 0: unknown.
    pub(crate) fn away(self, pool: usize) -> u64 {
        match self {
            Strategy::Scan { blocks } => (u64::from(blocks) * EPOCHS / pool as u64).min(OLD),
            _ => 0,
        }
    }

    /// Returns how many pages the access lets lie before it writes them; 0: it writes none. They
    /// are at most half of the pool's queue, so that they are clean when they leave it.
    pub(super) fn written_behind(self, pool: usize) -> usize {
        let want = match self {
            Strategy::BulkWrite => BEHIND_A_LOAD,
            Strategy::Vacuum { buffers } => buffers as usize,
            Strategy::Normal | Strategy::BulkRead | Strategy::Scan { .. } => return 0,
        };
        want.min(Strategy::most_of_queue(pool))
    }

    /// Returns the most pages that one access may have pinned at a time, so that bulk work leaves
    /// a part of the queue to its pages that are not pinned.
    pub(crate) fn most_pins(self, pool: usize) -> usize {
        match self.access() {
            AccessKind::Normal => pool,
            _ => Strategy::most_of_queue(pool),
        }
    }

    fn most_of_queue(pool: usize) -> usize {
        (Places::queue_of(pool) / 2).max(1)
    }
}
