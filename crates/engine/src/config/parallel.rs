//! Settings of parallel scans.

/// A session's settings of parallel scans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParallelSettings {
    /// Worker threads of a scan, at most; 0: none (max_parallel_workers_per_gather).
    pub workers_per_gather: usize,
    /// Worker threads of all scans, at most, as far as this session starts any
    /// (max_parallel_workers).
    pub max_workers: usize,
    /// Blocks that a table has at least, if workers are to scan it (min_parallel_table_scan_size).
    pub min_table_blocks: u32,
    /// What starting workers costs (parallel_setup_cost).
    pub setup_cost: f64,
    /// What handing over a row costs (parallel_tuple_cost).
    pub tuple_cost: f64,
    /// Whether the session scans beside its workers (parallel_leader_participation).
    pub leader_participates: bool,
}

impl ParallelSettings {
    /// No workers.
    pub const NONE: ParallelSettings = ParallelSettings {
        workers_per_gather: 0,
        max_workers: 0,
        min_table_blocks: 0,
        setup_cost: 0.0,
        tuple_cost: 0.0,
        leader_participates: true,
    };
}

impl Default for ParallelSettings {
    fn default() -> ParallelSettings {
        ParallelSettings {
            workers_per_gather: 2,
            max_workers: 8,
            min_table_blocks: 1024,
            setup_cost: 1000.0,
            tuple_cost: 0.1,
            leader_participates: true,
        }
    }
}
