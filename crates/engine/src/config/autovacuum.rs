//! Settings of autovacuum.

use forebay_aio::sync::Duration;

/// When autovacuum vacuums and analyzes which tables, and how fast. `default()` has PostgreSQL's
/// defaults. Tables may have settings of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AutovacuumSettings {
    /// Whether it runs (autovacuum). If not, it still vacuums tables whose ids get too old.
    pub enabled: bool,
    /// Time between two looks at the tables (autovacuum_naptime).
    pub naptime: Duration,
    /// Workers at a time (autovacuum_max_workers); at most
    /// [`EngineConfig::autovacuum_worker_slots`](super::EngineConfig::autovacuum_worker_slots).
    pub max_workers: usize,
    /// Dead rows for which a table is vacuumed (autovacuum_vacuum_threshold), and more
    pub vacuum_threshold: u32,
    /// for this part of its rows (autovacuum_vacuum_scale_factor),
    pub vacuum_scale_factor: f64,
    /// but no more than this; None: without limit (autovacuum_vacuum_max_threshold).
    pub vacuum_max_threshold: Option<u32>,
    /// Inserted rows for which it is vacuumed; None: however many
    /// (autovacuum_vacuum_insert_threshold),
    pub insert_threshold: Option<u32>,
    /// and this part of its rows on pages that are not frozen
    /// (autovacuum_vacuum_insert_scale_factor).
    pub insert_scale_factor: f64,
    /// Changed rows for which it is analyzed (autovacuum_analyze_threshold),
    pub analyze_threshold: u32,
    /// and this part of its rows (autovacuum_analyze_scale_factor).
    pub analyze_scale_factor: f64,
    /// How long vacuum rests; None: as vacuum_cost_delay says (autovacuum_vacuum_cost_delay).
    pub cost_delay: Option<Duration>,
    /// The cost after which it rests, for all workers together; None: as vacuum_cost_limit says
    /// (autovacuum_vacuum_cost_limit).
    pub cost_limit: Option<u32>,
    /// Runs that took at least this long are logged; None: none
    /// (log_autovacuum_min_duration).
    pub log_min_duration: Option<Duration>,
    /// kB of memory of a worker; None: as maintenance_work_mem says (autovacuum_work_mem).
    pub work_mem: Option<usize>,
}

impl Default for AutovacuumSettings {
    fn default() -> AutovacuumSettings {
        AutovacuumSettings {
            enabled: true,
            naptime: Duration::from_secs(60),
            max_workers: 3,
            vacuum_threshold: 50,
            vacuum_scale_factor: 0.2,
            vacuum_max_threshold: Some(100_000_000),
            insert_threshold: Some(1000),
            insert_scale_factor: 0.2,
            analyze_threshold: 50,
            analyze_scale_factor: 0.1,
            cost_delay: Some(Duration::from_millis(2)),
            cost_limit: None,
            log_min_duration: Some(Duration::from_secs(600)),
            work_mem: None,
        }
    }
}
