//! Settings of vacuum.

use forebay_aio::sync::Duration;

/// A session's settings of vacuum. Ages are numbers of ids.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VacuumSettings {
    /// Transactions younger than this are left in rows (vacuum_freeze_min_age).
    pub freeze_min_age: u32,
    /// A table whose oldest transaction is older is vacuumed aggressively
    /// (vacuum_freeze_table_age).
    pub freeze_table_age: u32,
    /// The same of MultiXacts (vacuum_multixact_freeze_min_age).
    pub multixact_freeze_min_age: u32,
    /// The same of MultiXacts (vacuum_multixact_freeze_table_age).
    pub multixact_freeze_table_age: u32,
    /// Beyond this age of a transaction, vacuum neither rests nor truncates (vacuum_failsafe_age).
    pub failsafe_age: u32,
    /// The same of MultiXacts (vacuum_multixact_failsafe_age).
    pub multixact_failsafe_age: u32,
    /// The part of the pages that may fail to be frozen where pages are read for that alone;
    /// 0: none are (vacuum_max_eager_freeze_failure_rate).
    pub max_eager_freeze_failure_rate: f64,
    /// The age at which autovacuum would vacuum in any case; bounds the ages above
    /// (autovacuum_freeze_max_age).
    pub freeze_max_age: u32,
    /// The same of MultiXacts (autovacuum_multixact_freeze_max_age).
    pub multixact_freeze_max_age: u32,
    /// Whether empty pages at a table's end are cut off (vacuum_truncate).
    pub truncate: bool,
    /// How long vacuum rests; zero: not at all (vacuum_cost_delay).
    pub cost_delay: Duration,
    /// The cost after which it rests (vacuum_cost_limit).
    pub cost_limit: u32,
    /// The cost of a page that is found in memory (vacuum_cost_page_hit).
    pub cost_page_hit: u32,
    /// The cost of a page that is read (vacuum_cost_page_miss).
    pub cost_page_miss: u32,
    /// The cost of a page that becomes dirty (vacuum_cost_page_dirty).
    pub cost_page_dirty: u32,
    /// Whether its rests are timed (track_cost_delay_timing).
    pub track_delays: bool,
    /// kB of pages that vacuum lets lie before it writes them (vacuum_buffer_usage_limit). 0: it
    /// writes none early, and its pages may evict others' pages.
    pub buffer_usage_limit: u32,
    /// Reads in flight (maintenance_io_concurrency).
    pub io_concurrency: usize,
    /// Worker threads for indexes, at most (max_parallel_maintenance_workers).
    pub parallel_workers: usize,
    /// Blocks that an index has at least, if a worker is to vacuum it
    /// (min_parallel_index_scan_size).
    pub min_parallel_index_blocks: u32,
}

impl Default for VacuumSettings {
    fn default() -> VacuumSettings {
        VacuumSettings {
            freeze_min_age: 50_000_000,
            freeze_table_age: 150_000_000,
            multixact_freeze_min_age: 5_000_000,
            multixact_freeze_table_age: 150_000_000,
            failsafe_age: 1_600_000_000,
            multixact_failsafe_age: 1_600_000_000,
            max_eager_freeze_failure_rate: 0.03,
            freeze_max_age: 200_000_000,
            multixact_freeze_max_age: 400_000_000,
            truncate: true,
            cost_delay: Duration::ZERO,
            cost_limit: 200,
            cost_page_hit: 1,
            cost_page_miss: 2,
            cost_page_dirty: 20,
            track_delays: false,
            buffer_usage_limit: 2048,
            io_concurrency: 16,
            parallel_workers: 2,
            min_parallel_index_blocks: 64,
        }
    }
}
