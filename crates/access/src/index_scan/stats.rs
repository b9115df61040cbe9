//! What a scan has read, and how far ahead.

use forebay_storage::StreamStats;

/// What a scan has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Its read stream over the table's pages.
    pub heap: StreamStats,
    /// Leaves that it has looked at.
    pub leaves: u64,
    /// Leaves whose read was started before their turn.
    pub leaves_ahead: u64,
    /// Descents from the root.
    pub searches: u64,
    /// Rows that were returned without a look at the table.
    pub all_visible: u64,
}

impl ScanStats {
    /// Adds what another scan has done to its index.
    pub fn add(&mut self, other: &ScanStats) {
        self.leaves += other.leaves;
        self.leaves_ahead += other.leaves_ahead;
        self.searches += other.searches;
    }
}
