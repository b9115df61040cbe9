//! How much is measured, and of whom.

/// The columns of tables.
pub const SERVERS: [&str; 2] = ["Forebay", "PostgreSQL 18"];
/// Numbers of sessions.
pub const SESSIONS: [u32; 3] = [1, 8, 32];

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Interleaved rounds.
    pub rounds: usize,
    /// Rows of the large table.
    pub rows: u64,
    /// Length of a run of pgbench, and of fio.
    pub seconds: u64,
    /// Updates of the small table before its size is measured.
    pub updates: u64,
}
