//! How much is measured, and the servers' settings.

use crate::measure::servers::{Running, Subject, WITHOUT_AUTOVACUUM};

/// Names of the columns.
pub const SERVERS: [&str; 2] = ["Forebay", "PostgreSQL 18"];

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Interleaved rounds.
    pub rounds: usize,
    /// Rows of the table of numbers and texts. The table of wide rows has a fifth.
    pub rows: u64,
    /// Length of a run of pgbench, and of fio.
    pub seconds: u64,
}

/// Starts a server that reads ahead as far as fio does, with checkpoints only when asked for.
///
/// # Errors
/// When it does not start.
pub fn start<'s>(subject: &'s Subject, direct: bool, more: &[&str]) -> Result<Running<'s>, String> {
    let direct = subject.direct_setting(direct);
    let mut settings = vec![
        "io_method=io_uring",
        "wal_sync_method=fdatasync",
        "effective_io_concurrency=32",
        "maintenance_io_concurrency=32",
        "maintenance_work_mem=256MB",
        "checkpoint_timeout=3600",
        "vacuum_buffer_usage_limit=16MB",
        "max_parallel_workers_per_gather=0",
        &direct,
        WITHOUT_AUTOVACUUM,
    ];
    settings.extend(more);
    subject.start(&settings)
}
