//! What a backup asks of the server whose data directory it copies.

use forebay_format::Lsn;

/// The result of pg_backup_stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The backup is consistent once WAL up to here is replayed.
    pub lsn: Lsn,
    /// The contents of backup_label.
    pub label: String,
}

/// A session of a running server, Forebay or PostgreSQL 15 to 18. It lasts until this is dropped.
/// The errors are the server's messages.
pub trait BackupSource {
    /// pg_backup_start: makes a checkpoint, and returns where recovery will begin. With `fast`, the
    /// checkpoint is as fast as the disk allows.
    fn start(&mut self, label: &str, fast: bool) -> Result<Lsn, String>;
    /// pg_backup_stop. With `wait`, waits until the server's archive has the WAL that the backup
    /// needs.
    fn stop(&mut self, wait: bool) -> Result<Stopped, String>;
    /// Whether the server archives its WAL.
    fn is_archiving(&mut self) -> Result<bool, String>;
    /// System identifier of the cluster, if the server tells it.
    fn system_id(&mut self) -> Result<Option<u64>, String>;
}

/// The state of a data directory.
pub enum Origin<'a> {
    /// No server runs on it, and none will: the caller holds its lock.
    Still,
    /// This server runs on it.
    Live(&'a mut dyn BackupSource),
}

impl std::fmt::Debug for Origin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Origin::Still => "Still",
            Origin::Live(_) => "Live",
        })
    }
}
