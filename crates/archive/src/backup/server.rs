//! The server whose data directory is copied.

use forebay_format::Lsn;

/// What a server says at the end of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The backup is consistent when WAL up to here is replayed.
    pub lsn: Lsn,
    /// The contents of backup_label.
    pub label: String,
}

/// A running server, Forebay or PostgreSQL 15 to 18, through a session that lasts as long as this.
/// The errors are its words.
pub trait BackupSource {
    /// pg_backup_start: a checkpoint, from which recovery will begin. With `fast` it is made as
    /// fast as the disk allows.
    fn start(&mut self, label: &str, fast: bool) -> Result<Lsn, String>;
    /// pg_backup_stop. With `wait` it waits until the archive has the WAL that the backup needs, if
    /// the server has an archive.
    fn stop(&mut self, wait: bool) -> Result<Stopped, String>;
    /// Does it archive its WAL?
    fn is_archiving(&mut self) -> Result<bool, String>;
    /// The cluster's identifier, where the server tells it.
    fn system_id(&mut self) -> Result<Option<u64>, String>;
}

/// How a data directory is copied.
pub enum Origin<'a> {
    /// Nobody runs on it, and nobody will: the caller holds its lock.
    Still,
    /// A server runs on it.
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
