//! Base backups: a data directory copied into an archive, from which, with the archive's WAL, any
//! later moment can be restored.
//!
//! | Module | What |
//! |---|---|
//! | `take` | makes a backup: [`backup`] |
//! | `restore` | makes a data directory of a backup: [`restore`] |
//! | `list` | which backups there are, what WAL they need: [`list`], [`needed`], [`remove`] |
//! | `server` | what is asked of a running server: [`BackupSource`] |
//! | `walk` | which files of a data directory belong to a backup |
//! | `crew`, `copy` | threads that copy files; how a file is copied, its pages verified on the way |
//! | `wal` | WAL that a backup brings along |
//! | `manifest` | `backup_manifest`, as PostgreSQL's pg_verifybackup reads it |
//! | `about` | `backup.json`: what a backup is |
//! | `settings` | what a restored cluster is told of its recovery |
//! | `digest`, `clock`, `error` | checksums of files; the clock; [`BackupError`] |
//!
//! A backup gets its name when all of it is durable, by one rename; until then it is no backup. A
//! restored directory gets its pg_control last, so that one that was not finished is not started.

mod about;
mod clock;
mod copy;
mod crew;
mod digest;
mod error;
mod list;
mod manifest;
mod restore;
mod server;
mod settings;
mod take;
mod wal;
mod walk;

pub use about::About;
pub use digest::ChecksumKind;
pub use error::{BackupError, DamagedPage};
pub use list::{Backup, BackupState, DIRECTORY, Needed, list, needed, remove, remove_abandoned};
pub use manifest::{Manifest, ManifestError, ManifestFile, WalRange};
pub use restore::{RestoreOptions, Restored, restore};
pub use server::{BackupSource, Origin, Stopped};
pub use settings::{RecoveryTarget, Target, TargetAction};
pub use take::{BackupOptions, backup};
pub use walk::Tablespace;

use std::path::Path;

/// Is told how it goes. Every method may do nothing.
pub trait BackupObserver {
    /// The next step begins: "copying files".
    fn step(&mut self, _what: &str) {}
    /// So many bytes of so many were read.
    fn progress(&mut self, _done: u64, _total: u64) {}
    /// A page is damaged.
    fn damaged(&mut self, _page: &DamagedPage) {}
    /// Something in the data directory is no part of the backup, and nobody knows what it is for.
    fn passed_over(&mut self, _path: &Path) {}
    /// Asked now and then; an error ends it all.
    fn check(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Nobody is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl BackupObserver for Silent {}
