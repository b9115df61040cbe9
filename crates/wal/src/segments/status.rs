//! Which files are archived: `pg_wal/archive_status`, as PostgreSQL keeps it.
//!
//! ```text
//!   segment completed ──▶ NAME.ready ──▶ NAME.done ──▶ segment recycled or removed, mark removed
//!                                │
//!                                archiver: stored and durable
//! ```
//!
//! Marks are not synced one by one, so a crash can lose some. The next checkpoint makes the marks
//! that are missing, for that reason or because a mark could not be made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, OpenOptions};

use super::dir::{list, sync_dir};
use crate::error::WalError;

/// Directory of the marks, in `pg_wal`.
const DIR: &str = "archive_status";
/// Suffix of the mark of a file to be archived.
const READY: &str = ".ready";
/// Suffix of the mark of a file that is durably archived.
const DONE: &str = ".done";

/// The archiver's callback, which is given the name of each marked file. It is called during
/// flushes, so it must not block.
pub type ArchiveFeed = dyn Fn(&str) + Send + Sync;

/// Makes, lists and removes the marks of one log.
pub(crate) struct ArchiveStatus {
    aio: Arc<Aio>,
    dir: PathBuf,
    on: AtomicBool,
    /// Segments below this number are marked.
    marked: AtomicU64,
    feed: Mutex<Option<Arc<ArchiveFeed>>>,
}

/// The existing marks.
pub(crate) struct Marks(BTreeSet<String>);

impl Marks {
    /// Whether the file is archived.
    pub fn is_done(&self, name: &str) -> bool {
        self.0.contains(&format!("{name}{DONE}"))
    }

    /// Whether the file has a mark.
    pub fn has(&self, name: &str) -> bool {
        self.is_done(name) || self.0.contains(&format!("{name}{READY}"))
    }
}

impl ArchiveStatus {
    /// For the log in the directory `wal`, which is not archived yet. Segments below `first` count
    /// as marked.
    pub fn new(aio: Arc<Aio>, wal: &Path, first: u64) -> ArchiveStatus {
        ArchiveStatus {
            aio,
            dir: wal.join(DIR),
            on: AtomicBool::new(false),
            marked: AtomicU64::new(first),
            feed: Mutex::new(None),
        }
    }

    /// Sets the archiver's callback.
    pub fn set_feed(&self, feed: Option<Arc<ArchiveFeed>>) {
        *self.feed.lock() = feed;
    }

    /// Starts archiving. Segments below `before` are complete, and the caller marks them.
    pub fn start(&self, before: u64) -> Result<(), WalError> {
        let namespace = self.aio.namespace();
        let found = match namespace.exists(&self.dir) {
            Ok(false) => namespace.mkdir(&self.dir),
            found => found.map(drop),
        };
        found.map_err(|e| WalError::segment("create", &self.dir, e))?;
        self.marked.store(before, Ordering::SeqCst);
        self.on.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether the log is archived.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Called when the segments below `before` are complete. Returns those that the caller must
    /// mark: each segment is returned to one caller.
    pub fn completed(&self, before: u64) -> std::ops::Range<u64> {
        if !self.is_on() || self.marked.load(Ordering::Acquire) >= before {
            return before..before;
        }
        self.marked.fetch_max(before, Ordering::AcqRel).min(before)..before
    }

    /// Marks a file for the archive. A failure is only logged, because a checkpoint will try again.
    pub fn announce(&self, name: &str) {
        let path = self.dir.join(format!("{name}{READY}"));
        let made = self.aio.namespace().open(&path, &OpenOptions::READ_WRITE.create().truncate());
        if let Err(error) = made {
            tracing::warn!("could not create archive status file \"{}\": {error}", path.display());
            return;
        }
        let feed = self.feed.lock().clone();
        if let Some(feed) = feed {
            feed(name);
        }
    }

    /// Removes the marks of a file that was removed.
    pub fn forget(&self, name: &str) {
        for mark in [DONE, READY] {
            let path = self.dir.join(format!("{name}{mark}"));
            if let Err(error) = self.aio.namespace().unlink(&path)
                && !error.is_not_found()
            {
                let path = path.display();
                tracing::warn!("could not remove archive status file \"{path}\": {error}");
            }
        }
    }

    /// The existing marks.
    pub fn list(&self) -> Result<Marks, WalError> {
        Ok(Marks(list(&self.aio, &self.dir)?.into_iter().collect()))
    }

    /// Makes the marks durable.
    pub fn settle(&self) -> Result<(), WalError> {
        sync_dir(&self.aio, &self.dir)
    }
}
