//! The counters of pg_stat_archiver.

use forebay_aio::sync::SystemTime;

use crate::names::WalName;

/// The files archived and the attempts failed since the last reset.
#[derive(Clone, Debug)]
pub struct ArchiverStats {
    /// Files that are durably marked as archived.
    pub archived_count: u64,
    /// The last of them.
    pub last_archived_wal: Option<String>,
    /// When it was acknowledged.
    pub last_archived_time: Option<SystemTime>,
    /// Failed attempts.
    pub failed_count: u64,
    /// The file of the last failed attempt.
    pub last_failed_wal: Option<String>,
    /// When it failed.
    pub last_failed_time: Option<SystemTime>,
    /// When the counters were reset.
    pub stats_reset: SystemTime,
}

impl Default for ArchiverStats {
    fn default() -> ArchiverStats {
        ArchiverStats {
            archived_count: 0,
            last_archived_wal: None,
            last_archived_time: None,
            failed_count: 0,
            last_failed_wal: None,
            last_failed_time: None,
            stats_reset: SystemTime::now(),
        }
    }
}

impl ArchiverStats {
    pub(super) fn archived(&mut self, names: &[WalName]) {
        let Some(last) = names.last() else { return };
        self.archived_count += names.len() as u64;
        self.last_archived_wal = Some(last.to_string());
        self.last_archived_time = Some(SystemTime::now());
    }

    pub(super) fn failed(&mut self, name: &WalName) {
        self.failed_count += 1;
        self.last_failed_wal = Some(name.to_string());
        self.last_failed_time = Some(SystemTime::now());
    }
}
