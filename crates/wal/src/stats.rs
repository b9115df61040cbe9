//! Counters of the log (`pg_stat_wal`).

use forebay_aio::sync::atomic::{AtomicU64, Ordering};

use crate::slots::Tally;

/// Counters since the log was started. Inserted records are counted in the insertion slots.
#[derive(Debug, Default)]
pub(crate) struct WalCounters {
    pub buffers_full: AtomicU64,
    pub flushes: AtomicU64,
    pub writes: AtomicU64,
    pub written_bytes: AtomicU64,
    pub in_flight: AtomicU64,
    pub syncs: AtomicU64,
}

/// A copy of the counters: the columns of `pg_stat_wal`, and counts of writes and syncs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct WalStats {
    /// Records inserted (`wal_records`).
    pub records: u64,
    /// Full-page images in them (`wal_fpi`).
    pub full_page_images: u64,
    /// Bytes of the records (`wal_bytes`).
    pub bytes: u64,
    /// Times an inserter found no free buffer and had to write out older blocks
    /// (`wal_buffers_full`).
    pub buffers_full: u64,
    /// Flushes: durable writes, or syncs.
    pub flushes: u64,
    /// Writes: gather writes, or without [`gather`](crate::WalConfig::gather) writes of a block.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Sum over all writes of the writes in flight when each started, itself included. Divided by
    /// `writes`, this is the mean number in flight.
    pub in_flight: u64,
    /// Syncs.
    pub syncs: u64,
}

impl WalCounters {
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub fn snapshot(&self, inserted: Tally) -> WalStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WalStats {
            records: inserted.records,
            full_page_images: inserted.images,
            bytes: inserted.bytes,
            buffers_full: get(&self.buffers_full),
            flushes: get(&self.flushes),
            writes: get(&self.writes),
            written_bytes: get(&self.written_bytes),
            in_flight: get(&self.in_flight),
            syncs: get(&self.syncs),
        }
    }
}
