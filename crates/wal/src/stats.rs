//! Counters of the log (`pg_stat_wal`).

use forebay_aio::sync::atomic::{AtomicU64, Ordering};

/// What has been inserted since the log was started.
#[derive(Debug, Default)]
pub(crate) struct WalCounters {
    pub records: AtomicU64,
    pub full_page_images: AtomicU64,
    pub bytes: AtomicU64,
    pub buffers_full: AtomicU64,
    pub flushes: AtomicU64,
    pub writes: AtomicU64,
}

/// A copy of the counters: the columns of `pg_stat_wal`, and the writes and syncs behind them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct WalStats {
    /// Records inserted (`wal_records`).
    pub records: u64,
    /// Full-page images in them (`wal_fpi`).
    pub full_page_images: u64,
    /// Bytes of the records (`wal_bytes`).
    pub bytes: u64,
    /// Times an inserter had to write out older blocks for want of a free one (`wal_buffers_full`).
    pub buffers_full: u64,
    /// Flushes that a leader carried out.
    pub flushes: u64,
    /// Gather writes.
    pub writes: u64,
}

impl WalCounters {
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> WalStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WalStats {
            records: get(&self.records),
            full_page_images: get(&self.full_page_images),
            bytes: get(&self.bytes),
            buffers_full: get(&self.buffers_full),
            flushes: get(&self.flushes),
            writes: get(&self.writes),
        }
    }
}
