//! Files in a data directory that ask for a recovery: from an archive, or of a base backup.
//!
//! | file | says |
//! |---|---|
//! | recovery.signal | recover from the archive, and go on with a new timeline |
//! | standby.signal | follow another server: refused |
//! | backup_label | begin where the backup began |
//! | tablespace_map | the backup had tablespaces: refused |
//! | pg_twophase/... | there are prepared transactions: refused |
//! | pg_replslot/... | there are replication slots: refused |
//! | recovery.ending | recovery from the archive has ended with this timeline; see `branch` |

use std::path::Path;

use forebay_aio::{IfFound, IoBackend};
use forebay_format::SegmentSize;
use forebay_format::control::DbState;
use forebay_format::timeline::history_file_name;

use super::branch::{self, Begun, SIGNAL};
use super::label::{self, BackupLabel};
use super::restore::remove;
use crate::error::EngineError;

/// Asks for a standby.
const STANDBY: &str = "standby.signal";
/// Where tablespaces belong.
const TABLESPACES: &str = "tablespace_map";

/// Directories whose files are not supported, the reason, and how PostgreSQL removes them.
const UNDER_WAY: [(&str, &str, &str); 2] = [
    (
        "pg_twophase",
        "prepared transactions are not supported",
        "Start PostgreSQL on this directory, commit or roll back what is prepared, and stop it.",
    ),
    (
        "pg_replslot",
        "replication slots are not supported",
        "Start PostgreSQL on this directory, drop its replication slots, and stop it.",
    ),
];

/// Refuses a directory with prepared transactions or replication slots, also after a clean stop.
/// The rows of prepared transactions would count as aborted and their locks would be lost. The log
/// that a slot needs would be removed.
pub(super) fn refuse_under_way(io: &IoBackend, dir: &Path) -> Result<(), EngineError> {
    for (name, message, hint) in UNDER_WAY {
        let path = dir.join(name);
        let Some(listed) = io.aio().namespace().list(&path).if_found()? else { continue };
        if let Some(found) = listed.into_iter().map(|entry| entry.name).min() {
            return Err(EngineError::statement("0A000", message)
                .with_detail(format!("Found file \"{}\".", path.join(found).display()))
                .with_hint(hint));
        }
    }
    Ok(())
}

/// A recovery that is more than that of a crash.
#[derive(Debug)]
pub(super) struct Request {
    /// Whether to fetch the log from the archive, and to begin a new timeline at the end.
    pub(super) from_archive: bool,
    /// Where the backup began.
    pub(super) label: Option<BackupLabel>,
    /// A new timeline that an earlier attempt began.
    pub(super) begun: Option<Begun>,
}

impl Request {
    /// Reads the directory. None: there is no such file.
    pub(super) fn find(
        io: &mut IoBackend,
        dir: &Path,
        state: DbState,
        size: SegmentSize,
    ) -> Result<Option<Request>, EngineError> {
        let there = |io: &IoBackend, name: &str| io.aio().namespace().exists(&dir.join(name));
        if there(io, STANDBY)? {
            return Err(EngineError::statement("0A000", "standby mode is not supported")
                .with_detail(format!("Found file \"{}\".", dir.join(STANDBY).display()))
                .with_hint(
                    "For recovery from an archive up to its end, or to a point in time, the \
                         file is \"recovery.signal\".",
                ));
        }
        let map = io.read_file_if_there(&dir.join(TABLESPACES))?.unwrap_or_default();
        if map.iter().any(|byte| !byte.is_ascii_whitespace()) {
            let message = "recovery of a backup with tablespaces is not supported";
            return Err(EngineError::statement("0A000", message)
                .with_detail(format!("Found file \"{}\".", dir.join(TABLESPACES).display())));
        }
        let label = match io.read_file_if_there(&dir.join(label::FILE))? {
            Some(bytes) => Some(BackupLabel::parse(&String::from_utf8_lossy(&bytes), size)?),
            None => None,
        };
        let recovering = matches!(state, DbState::ArchiveRecovery | DbState::ShutDownInRecovery);
        let signal = there(io, SIGNAL)?;
        let begun = Self::begun(io, dir, recovering && label.is_none())?;
        if !signal && begun.is_none() && label.is_none() && !recovering {
            return Ok(None);
        }
        Ok(Some(Request { from_archive: signal || begun.is_some(), label, begun }))
    }

    /// The timeline that an earlier attempt began, if its history file was written and no
    /// checkpoint was made on it. The rest of any other attempt is removed.
    fn begun(
        io: &mut IoBackend,
        dir: &Path,
        recovering: bool,
    ) -> Result<Option<Begun>, EngineError> {
        let path = dir.join(branch::ENDING);
        let Some(bytes) = io.read_file_if_there(&path)? else { return Ok(None) };
        let begun = Begun::parse(&String::from_utf8_lossy(&bytes));
        if let Some(begun) = begun.filter(|_| recovering) {
            let history = dir.join("pg_wal").join(history_file_name(begun.timeline));
            if io.aio().namespace().exists(&history)? {
                return Ok(Some(begun));
            }
        }
        remove(io, &path)?;
        Ok(None)
    }
}
