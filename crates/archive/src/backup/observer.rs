//! [`BackupObserver`]: follows a backup or a restore, and can end it.

use std::path::Path;

use crate::error::{ArchiveError, DamagedPage, Result};

/// Follows a backup or a restore. Every method may do nothing.
pub trait BackupObserver {
    /// The next step begins: "copying files".
    fn step(&mut self, _what: &str) {}
    /// Called now and then with the bytes read and their total.
    fn progress(&mut self, _done: u64, _total: u64) {}
    /// A page is damaged.
    fn damaged(&mut self, _page: &DamagedPage) {}
    /// The backup leaves out a file of the data directory whose purpose is unknown.
    fn passed_over(&mut self, _path: &Path) {}
    /// Called now and then. An error ends the backup or restore.
    fn check(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl BackupObserver for Silent {}

/// Reports the progress of a copy, and asks whether to end it.
pub(super) fn report(observer: &mut dyn BackupObserver, done: u64, total: u64) -> Result<()> {
    observer.progress(done.min(total), total);
    observer.check().map_err(ArchiveError::Refused)
}
