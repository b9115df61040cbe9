//! What the archive has: `pg_wal/archive_status`, as PostgreSQL keeps it.
//!
//! ```text
//!   segment completed ──▶ NAME.ready ──(archiver: stored and durable)──▶ NAME.done ──▶ segment recycled or removed, no file
//! ```
//!
//! A mark that could not be made is made by the next checkpoint that finds the segment without one;
//! so is one that a crash took, for the marks are not synced one by one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, AioError, OpenOptions};

use super::{list, sync_dir};
use crate::error::WalError;

/// The directory in `pg_wal`.
const DIR: &str = "archive_status";
/// To be archived.
const READY: &str = ".ready";
/// Archived, durably.
const DONE: &str = ".done";

/// Who archives: it is told the name of each file that was marked for it. Called in the midst of
/// flushes, so it must not wait.
pub type ArchiveFeed = dyn Fn(&str) + Send + Sync;

/// The marks of one log.
pub(super) struct ArchiveStatus {
    aio: Arc<Aio>,
    dir: PathBuf,
    on: AtomicBool,
    /// Segments below this number were announced.
    announced: AtomicU64,
    feed: Mutex<Option<Arc<ArchiveFeed>>>,
}

/// The marks there are.
pub(super) struct Known(BTreeSet<String>);

impl Known {
    /// Whether the archive has it.
    pub fn is_done(&self, name: &str) -> bool {
        self.0.contains(&format!("{name}{DONE}"))
    }

    /// Whether the archive has it or was told of it.
    pub fn knows(&self, name: &str) -> bool {
        self.is_done(name) || self.0.contains(&format!("{name}{READY}"))
    }
}

impl ArchiveStatus {
    /// The marks of the segments in `wal`, without an archive so far; those below `first` are no
    /// concern.
    pub fn new(aio: Arc<Aio>, wal: &Path, first: u64) -> ArchiveStatus {
        ArchiveStatus {
            aio,
            dir: wal.join(DIR),
            on: AtomicBool::new(false),
            announced: AtomicU64::new(first),
            feed: Mutex::new(None),
        }
    }

    /// Who is told of marks from now on.
    pub fn set_feed(&self, feed: Option<Arc<ArchiveFeed>>) {
        *self.feed.lock() = feed;
    }

    /// There is an archive from now on. Segments below `before` are complete.
    pub fn start(&self, before: u64) -> Result<(), WalError> {
        let namespace = self.aio.namespace();
        let found = match namespace.exists(&self.dir) {
            Ok(false) => namespace.mkdir(&self.dir),
            found => found.map(drop),
        };
        found.map_err(|e| WalError::segment("create", &self.dir, e))?;
        self.announced.store(before, Ordering::SeqCst);
        self.on.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether there is an archive.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// The segments below `before` are complete: those of them that are to be announced, each to
    /// one caller.
    pub fn completed(&self, before: u64) -> std::ops::Range<u64> {
        if !self.is_on() || self.announced.load(Ordering::Acquire) >= before {
            return before..before;
        }
        self.announced.fetch_max(before, Ordering::AcqRel).min(before)..before
    }

    /// Marks a segment as one to be archived. A failure is no more than a warning: a checkpoint
    /// will try again.
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

    /// Removes the marks of a segment that is gone.
    pub fn forget(&self, name: &str) {
        for mark in [DONE, READY] {
            let path = self.dir.join(format!("{name}{mark}"));
            match self.aio.namespace().unlink(&path) {
                Err(error) if !AioError::is_not_found(&error) => {
                    tracing::warn!(
                        "could not remove archive status file \"{}\": {error}",
                        path.display()
                    );
                }
                _ => {}
            }
        }
    }

    /// The marks there are.
    pub fn list(&self) -> Result<Known, WalError> {
        Ok(Known(list(&self.aio, &self.dir)?.into_iter().collect()))
    }

    /// Makes the marks durable.
    pub fn settle(&self) -> Result<(), WalError> {
        sync_dir(&self.aio, &self.dir)
    }
}
