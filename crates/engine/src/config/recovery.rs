//! Settings of recovery, and what recovery reports.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::IoBackend;
pub use forebay_archive::backup::TargetAction;
use forebay_format::{Lsn, Xid};

use super::archive::ArchiveStore;
use crate::clock::show;
use crate::error::EngineError;

/// How recovery reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverySettings {
    /// Whether pages are read that records ahead of redo name (recovery_prefetch).
    pub prefetch: bool,
    /// Bytes of records between the log and redo (wal_decode_buffer_size).
    pub decode_buffer: usize,
    /// Reads of pages under way (maintenance_io_concurrency).
    pub io_concurrency: usize,
}

impl Default for RecoverySettings {
    fn default() -> Self {
        RecoverySettings { prefetch: true, decode_buffer: 512 << 10, io_concurrency: 16 }
    }
}

/// An archive, as recovery sees it.
pub trait RestoreSource: Send + Sync {
    /// Puts a file of the log under `to`, where nothing is; it need not be durable. False: it is
    /// certain that the archive does not have it. Whatever else is in the way is an error, for it
    /// does not mean that the log ends: recovery stops, and can be repeated.
    fn bring(&self, io: &mut IoBackend, name: &str, to: &Path) -> Result<bool, String>;
}

/// A source, to be handed in with the configuration.
#[derive(Clone)]
pub struct RestoreFrom(pub Arc<dyn RestoreSource>);

impl std::fmt::Debug for RestoreFrom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RestoreFrom")
    }
}

/// Where recovery from an archive is to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryTarget {
    /// As soon as the files are consistent.
    Immediate,
    /// A moment, in microseconds since 2000-01-01.
    Time(i64),
    /// A position of the log.
    Lsn(Lsn),
    /// A transaction.
    Xid(Xid),
    /// A restore point.
    Name(String),
}

impl RecoveryTarget {
    /// The setting that gives it.
    fn setting(&self) -> &'static str {
        match self {
            RecoveryTarget::Immediate => "recovery_target",
            RecoveryTarget::Time(_) => "recovery_target_time",
            RecoveryTarget::Lsn(_) => "recovery_target_lsn",
            RecoveryTarget::Xid(_) => "recovery_target_xid",
            RecoveryTarget::Name(_) => "recovery_target_name",
        }
    }

    /// The beginning of such a recovery, in PostgreSQL's words.
    pub(crate) fn beginning(&self) -> String {
        match self {
            RecoveryTarget::Immediate => {
                "starting point-in-time recovery to earliest consistent point".to_owned()
            }
            RecoveryTarget::Time(time) => {
                format!("starting point-in-time recovery to {}", show(*time))
            }
            RecoveryTarget::Lsn(lsn) => {
                format!("starting point-in-time recovery to WAL location (LSN) \"{lsn}\"")
            }
            RecoveryTarget::Xid(xid) => format!("starting point-in-time recovery to XID {xid}"),
            RecoveryTarget::Name(name) => format!("starting point-in-time recovery to \"{name}\""),
        }
    }
}

/// The timeline to recover along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetTimeline {
    /// The newest one that the archive knows.
    #[default]
    Latest,
    /// The backup's.
    Current,
    /// This one.
    Number(u32),
}

/// How a directory is recovered from an archive: PostgreSQL's settings. They count where there is a
/// file recovery.signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSettings {
    /// Brings a file of the log: `%f` is its name, `%p` where it is to be put, `%r` the oldest file
    /// that is still needed.
    pub restore_command: String,
    /// The module that fetches files in place of a command: `forebay_archive`.
    pub library: String,
    /// The archive from which `forebay_archive` fetches them.
    pub store: ArchiveStore,
    /// Number of segments that it fetches ahead. 0: none.
    pub prefetch: usize,
    /// Most bytes of them, in memory.
    pub prefetch_memory: u64,
    /// Is run once at the end.
    pub recovery_end_command: String,
    /// Is run when older files are no longer needed.
    pub archive_cleanup_command: String,
    /// Where to stop; more than one is refused.
    pub targets: Vec<RecoveryTarget>,
    /// Whether recovery includes the target itself.
    pub inclusive: bool,
    /// The timeline.
    pub timeline: TargetTimeline,
    /// What happens when the target is reached.
    pub action: TargetAction,
}

impl Default for RestoreSettings {
    fn default() -> Self {
        RestoreSettings {
            restore_command: String::new(),
            library: String::new(),
            store: ArchiveStore::default(),
            prefetch: 8,
            prefetch_memory: 128 << 20,
            recovery_end_command: String::new(),
            archive_cleanup_command: String::new(),
            targets: Vec::new(),
            inclusive: true,
            timeline: TargetTimeline::Latest,
            action: TargetAction::Pause,
        }
    }
}

impl RestoreSettings {
    /// The target, if there is one.
    pub(crate) fn target(&self) -> Result<Option<&RecoveryTarget>, EngineError> {
        if self.targets.len() > 1 {
            let set: Vec<String> =
                self.targets.iter().map(|t| format!("\"{}\"", t.setting())).collect();
            return Err(EngineError::statement("22023", "multiple recovery targets specified")
                .with_detail(format!(
                    "At most one of \"recovery_target\", \"recovery_target_lsn\", \
                     \"recovery_target_name\", \"recovery_target_time\", \"recovery_target_xid\" \
                     may be set; {} are.",
                    set.join(" and ")
                )));
        }
        Ok(self.targets.first())
    }
}

/// How far recovery has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Where redo began.
    pub redo: Lsn,
    /// End of the record replayed last.
    pub at: Lsn,
    /// Where the log ends; where it is read once only, from an archive, the same as `at`.
    pub end: Lsn,
    /// Records replayed.
    pub records: u64,
    /// Pages read ahead of redo, and not.
    pub prefetch: PrefetchStats,
    /// Whether that was all.
    pub done: bool,
}

/// Pages of records ahead of redo (pg_stat_recovery_prefetch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchStats {
    /// Read ahead.
    pub prefetch: u64,
    /// In memory already.
    pub hit: u64,
    /// Initialized by their record.
    pub skip_init: u64,
    /// Not there (yet).
    pub skip_new: u64,
    /// Restored from an image in their record.
    pub skip_fpw: u64,
    /// Changed by another record in the queue.
    pub skip_rep: u64,
}

/// Called with the progress of recovery.
#[derive(Clone)]
pub struct RecoveryReport(pub Arc<dyn Fn(&RecoveryProgress) + Send + Sync>);

impl std::fmt::Debug for RecoveryReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecoveryReport")
    }
}
