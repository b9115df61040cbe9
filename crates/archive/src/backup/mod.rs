//! Base backups: a data directory is copied into an archive. With the archive's WAL, any later
//! moment can be restored from it.
//!
//! | Module | What |
//! |---|---|
//! | `take` | makes a backup: [`backup`] |
//! | `restore` | makes a data directory from a backup: [`restore`] |
//! | `list` | the backups of an archive, and the WAL they need: [`list`], [`needed`], [`remove`] |
//! | `wal` | the WAL that a backup contains |
//! | `workers`, `copy` | threads that copy files; how one file is copied, and its pages verified |
//! | `walk` | which files of a data directory belong to a backup |
//! | `about` | `backup.json`: describes a backup |
//! | `manifest` | `backup_manifest`, in the format of PostgreSQL's pg_verifybackup |
//! | `json` | how values are written in both |
//! | `settings` | the recovery settings of a restored cluster |
//! | `server` | what a backup asks of a running server: [`BackupSource`] |
//! | `observer`, `clock` | progress; times |
//!
//! A backup gets its name by one rename, when all of it is durable; until then it is no backup. A
//! restored directory gets its pg_control last, so that no server starts on an unfinished one.

mod about;
mod clock;
mod copy;
mod json;
mod list;
mod manifest;
mod observer;
mod restore;
mod server;
mod settings;
mod take;
mod wal;
mod walk;
mod workers;

pub use crate::digest::ChecksumKind;
pub use crate::error::DamagedPage;
pub use about::About;
pub use list::{Backup, BackupState, DIRECTORY, list, needed, remove_abandoned};
pub use observer::{BackupObserver, Silent};
pub use restore::{RestoreOptions, Restored, restore};
pub use server::{BackupSource, Origin, Stopped};
pub use settings::{RecoveryTarget, Target, TargetAction};
pub use take::{BackupOptions, backup};
pub use walk::Tablespace;
