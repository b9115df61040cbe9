//! Access strategies: a scan or load that is larger than the pool reuses a small ring of buffers,
//! so that it does not evict everyone else's pages.

use forebay_aio::IoContext;

/// Which buffers an access uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Any buffer of the pool.
    #[default]
    Normal,
    /// A large sequential scan: a ring of 256 kB, plus what its look-ahead needs.
    BulkRead,
    /// A large load: a ring of 16 MB.
    BulkWrite,
    /// Vacuum.
    Vacuum {
        /// The size of its ring (vacuum_buffer_usage_limit); 0: any buffer of the pool.
        buffers: u32,
    },
}

impl Strategy {
    /// Returns the ring's number of buffers in a pool of this size; 0 without a ring. A ring takes
    /// at most an eighth of the pool.
    pub(crate) fn ring_size(self, pool: usize, look_ahead: usize) -> usize {
        let want = match self {
            Strategy::Normal => return 0,
            Strategy::BulkRead => 32 + look_ahead,
            Strategy::BulkWrite => 2048,
            Strategy::Vacuum { buffers: 0 } => return 0,
            Strategy::Vacuum { buffers } => buffers as usize,
        };
        want.min(pool / 8).max(1)
    }

    /// Vacuum with PostgreSQL's default: a ring of 2 MB.
    pub const VACUUM: Strategy = Strategy::Vacuum { buffers: 256 };

    /// Returns the context that statistics count the access under.
    pub(crate) fn context(self) -> IoContext {
        match self {
            Strategy::Normal => IoContext::Normal,
            Strategy::BulkRead => IoContext::BulkRead,
            Strategy::BulkWrite => IoContext::BulkWrite,
            Strategy::Vacuum { .. } => IoContext::Vacuum,
        }
    }
}

/// The buffers of a ring, which is filled as they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    bufs: Vec<u32>,
    next: usize,
    size: usize,
}

impl Ring {
    /// Makes a ring for a strategy; of size 0 for [`Strategy::Normal`].
    pub(crate) fn new(strategy: Strategy, pool: usize, look_ahead: usize) -> Self {
        Ring { bufs: Vec::new(), next: 0, size: strategy.ring_size(pool, look_ahead) }
    }

    /// Sets the size of a default ring at its first use, and whenever another one is wanted.
    pub(crate) fn prepare(&mut self, strategy: Strategy, pool: usize) {
        let size = strategy.ring_size(pool, 0);
        if self.size != size {
            *self = Ring { bufs: Vec::new(), next: 0, size };
        }
    }

    /// Whether accesses go through the ring.
    pub(crate) fn is_used(&self) -> bool {
        self.size > 0
    }

    /// Advances, and returns the buffer whose turn it is; None while the ring is being filled.
    pub(crate) fn advance(&mut self) -> Option<u32> {
        if self.size == 0 {
            return None;
        }
        self.next = if self.next + 1 >= self.size { 0 } else { self.next + 1 };
        self.bufs.get(self.next).copied().filter(|&b| b != u32::MAX)
    }

    /// Stores the buffer that was taken for the present turn.
    pub(crate) fn remember(&mut self, buf: u32) {
        if self.size == 0 {
            return;
        }
        if self.bufs.len() <= self.next {
            self.bufs.resize(self.next + 1, u32::MAX);
        }
        self.bufs[self.next] = buf;
    }

    /// Whether this is an `n`th turn, in which the ring looks ahead.
    pub(crate) fn is_nth_turn(&self, n: usize) -> bool {
        self.size > 0 && self.next.is_multiple_of(n)
    }

    /// Returns the buffers whose turns come next, nearest first. These are at most half of the
    /// ring: the other half was used just before.
    pub(crate) fn upcoming(&self, n: usize) -> impl Iterator<Item = u32> + '_ {
        (1..=n.min(self.size / 2))
            .filter_map(|i| self.bufs.get((self.next + i) % self.size).copied())
            .filter(|&b| b != u32::MAX)
    }
}
