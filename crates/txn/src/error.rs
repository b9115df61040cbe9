//! What can fail in this crate.

use std::path::PathBuf;

use forebay_aio::AioError;
use forebay_format::multixact::MultiXactId;
use forebay_format::{Oid, Xid};
use forebay_storage::sqlstate_of;
use forebay_wal::WalError;

use crate::shortage::{DatabaseName, IdKind, members_hint, vacuum_hint};

/// Why a transaction could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TxnError {
    /// 54000: the next id would be too far from the oldest one in use.
    #[error(
        "database is not accepting commands that assign new {} to avoid wraparound data loss in \
         {database}", .kind.plural()
    )]
    OutOfIds {
        /// Which ids.
        kind: IdKind,
        /// A database that has the oldest one.
        database: DatabaseName,
    },
    /// 54000
    #[error("cannot have more than 2^32-2 commands in a transaction")]
    OutOfCommands,
    /// 54000: the members of a new MultiXact would reach the oldest ones in use.
    #[error("multixact \"members\" limit exceeded")]
    OutOfMembers {
        /// How many members it would have.
        count: u32,
        /// For how many there is room.
        left: u32,
        /// A database that has the oldest MultiXact.
        database: Oid,
    },
    /// XX000: there can be no MultiXacts before recovery has ended.
    #[error("cannot assign MultiXactIds during recovery")]
    MultiXactsNotReady,
    /// XX000: a row has a MultiXact that was removed.
    #[error("MultiXactId {0} does no longer exist -- apparent wraparound")]
    MultiXactGone(MultiXactId),
    /// XX000: a row has a MultiXact that does not exist yet.
    #[error("MultiXactId {0} has not been created yet -- apparent wraparound")]
    MultiXactNotYet(MultiXactId),
    /// XX001: what `pg_multixact` has of a MultiXact is impossible.
    #[error("MultiXact {multi} {problem}")]
    MultiXactDamaged {
        /// The MultiXact.
        multi: MultiXactId,
        /// What is wrong.
        problem: &'static str,
    },
    /// What `pg_xact` or `pg_multixact` has of an id cannot be read. With the code of the reason.
    #[error("could not access status of transaction {id}")]
    NoStatus {
        /// The transaction or MultiXact.
        id: u32,
        /// Why not.
        reason: Box<TxnError>,
    },
    /// XX001: a row has the id of a transaction that does not exist yet.
    #[error("could not access status of transaction {xid}")]
    NotAssigned {
        /// The id.
        xid: Xid,
        /// The next id to be assigned.
        next: Xid,
    },
    /// XX001: a file of `pg_xact` or its like ends before a page that must be there.
    #[error(
        "could not read page {page} of {dir}: file \"{}\" has only {got} bytes of it",
        .file.display()
    )]
    ShortStatusPage {
        /// The directory, below the data directory.
        dir: &'static str,
        /// The page's number.
        page: i64,
        /// Bytes of it that the file has.
        got: usize,
        /// The file.
        file: PathBuf,
    },
    /// XX001: `pg_subtrans` is damaged.
    #[error("pg_subtrans contains invalid entry: xid {xid} points to parent xid {parent}")]
    ParentNotOlder {
        /// The subtransaction.
        xid: Xid,
        /// What stands as its parent.
        parent: Xid,
    },
    /// XX001: a write that was synced is not on the disk.
    #[error(
        "lost write of {len} bytes at offset {offset} in file \"{}\": on disk is something else",
        .file.display()
    )]
    LostWrite {
        /// The file.
        file: PathBuf,
        /// Offset of the first byte written.
        offset: u64,
        /// Number of bytes written.
        len: usize,
    },
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] AioError),
    /// The write-ahead log failed.
    #[error(transparent)]
    Wal(#[from] WalError),
}

impl TxnError {
    /// The same error, of a read of what is stored of an id.
    pub(crate) fn of_status(self, id: u32) -> TxnError {
        TxnError::NoStatus { id, reason: Box::new(self) }
    }

    /// PostgreSQL's error code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            TxnError::OutOfIds { .. } | TxnError::OutOfCommands | TxnError::OutOfMembers { .. } => {
                "54000"
            }
            TxnError::MultiXactGone(_)
            | TxnError::MultiXactNotYet(_)
            | TxnError::MultiXactsNotReady => "XX000",
            TxnError::NoStatus { reason, .. } => reason.sqlstate(),
            TxnError::NotAssigned { .. }
            | TxnError::ShortStatusPage { .. }
            | TxnError::MultiXactDamaged { .. }
            | TxnError::ParentNotOlder { .. }
            | TxnError::LostWrite { .. } => "XX001",
            TxnError::Disk(error) => disk_sqlstate(error),
            TxnError::Wal(error) => wal_sqlstate(error),
        }
    }

    /// PostgreSQL's DETAIL line.
    pub fn detail(&self) -> Option<String> {
        match self {
            TxnError::OutOfMembers { count, left, .. } => {
                let members = if *left == 1 { "member" } else { "members" };
                Some(format!(
                    "This command would create a multixact with {count} members, but the remaining \
                     space is only enough for {left} {members}."
                ))
            }
            TxnError::NoStatus { reason, .. } => {
                let reason = reason.to_string();
                let (first, rest) = reason.split_at_checked(1)?;
                Some(format!("{}{rest}.", first.to_uppercase()))
            }
            TxnError::NotAssigned { next, .. } => {
                Some(format!("The next transaction ID to be assigned is {next}."))
            }
            _ => None,
        }
    }

    /// Whether an id that a row has is at fault, or what is stored of it.
    pub fn is_of_stored_id(&self) -> bool {
        matches!(
            self,
            TxnError::NoStatus { .. }
                | TxnError::NotAssigned { .. }
                | TxnError::MultiXactGone(_)
                | TxnError::MultiXactNotYet(_)
                | TxnError::MultiXactDamaged { .. }
                | TxnError::ParentNotOlder { .. }
        )
    }

    /// PostgreSQL's HINT lines.
    pub fn hint(&self) -> Option<String> {
        match self {
            TxnError::OutOfIds { .. } => Some(vacuum_hint(None)),
            TxnError::OutOfMembers { database, .. } => {
                Some(members_hint(&format!("database with OID {database}")))
            }
            _ => None,
        }
    }
}

/// PostgreSQL's error code for a failed file operation.
pub fn disk_sqlstate(error: &AioError) -> &'static str {
    match error.errno() {
        Some(errno) => sqlstate_of(errno),
        None => match error {
            AioError::Short { .. } | AioError::Rejected { .. } => "XX001",
            AioError::TooManyBackends { .. } => "53300",
            _ => "58000",
        },
    }
}

/// PostgreSQL's error code for a failure of the write-ahead log.
pub fn wal_sqlstate(error: &WalError) -> &'static str {
    error.errno().map_or("58030", sqlstate_of)
}
