//! `pg_wal/archive_status`: what is to be archived, and what is archived, as PostgreSQL keeps it.
//!
//! ```text
//!   NAME.ready ──(archived)──▶ NAME.done      renamed one by one, made durable many at a time by one sync of the directory
//! ```
//!
//! Creating a `.ready` is not synced: after a crash whoever removes segments finds one without a
//! mark and makes it anew. A `.done` that a crash takes back is a `.ready` again, and its file is
//! archived again, identically. Nothing may become of a segment because of its `.done` before the
//! directory was synced after that rename: the log syncs it before it recycles or removes anything.
//!
//! The directory is listed once, at start. Later the names come from those who make the marks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::{Aio, AioError, OpenOptions};

use crate::error::{ArchiveError, Result};
use crate::names::{Mark, WalName};

/// The directory in `pg_wal`.
pub const DIR: &str = "archive_status";

/// What a listing has found.
#[derive(Debug, Default)]
pub struct Scan {
    /// To be archived, in the order in which they go.
    pub ready: Vec<WalName>,
    /// How many are archived, and still here.
    pub done: usize,
    /// How many names mean nothing. They stay.
    pub junk: usize,
}

/// What became of an acknowledgement.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// So many of the names, the first ones, are known to be archived, durably.
    pub done: usize,
    /// What was wrong with the next one.
    pub failed: Option<ArchiveError>,
}

/// The marks of one log.
pub struct Status {
    aio: Arc<Aio>,
    wal_dir: PathBuf,
    dir: PathBuf,
    /// Marks were renamed, and the directory could not be opened for its sync.
    unsettled: AtomicBool,
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Status").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Status {
    /// The marks of the log in `wal_dir`.
    pub fn new(aio: &Arc<Aio>, wal_dir: &Path) -> Status {
        Status {
            aio: Arc::clone(aio),
            wal_dir: wal_dir.to_path_buf(),
            dir: wal_dir.join(DIR),
            unsettled: AtomicBool::new(false),
        }
    }

    /// Where files of the log are.
    pub fn wal_dir(&self) -> &Path {
        &self.wal_dir
    }

    /// Where the marks are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the directory if it is missing.
    pub fn create(&self) -> Result<()> {
        let names = self.aio.namespace();
        let made = match names.exists(&self.dir) {
            Ok(true) => return Ok(()),
            Ok(false) => names.mkdir(&self.dir).and_then(|()| names.sync_dir(&self.wal_dir)),
            Err(e) => Err(e),
        };
        made.map_err(ArchiveError::io("create", &self.dir))
    }

    /// Lists all marks. Where a file has both, the archive has it: the `.ready` is removed, for the
    /// file may be recycled any time.
    pub fn scan(&self) -> Result<Scan> {
        let listed =
            self.aio.namespace().list(&self.dir).map_err(ArchiveError::io("list", &self.dir))?;
        let (mut ready, mut done, mut scan) =
            (Vec::with_capacity(listed.len()), BTreeSet::new(), Scan::default());
        for entry in listed {
            match entry.name.to_str().map_or(Mark::Junk, Mark::parse) {
                Mark::Ready(name) => ready.push(name),
                Mark::Done(name) => {
                    done.insert(name);
                }
                Mark::Junk => scan.junk += 1,
            }
        }
        scan.done = done.len();
        for name in ready {
            if done.contains(&name) {
                self.remove(&name)?;
            } else {
                scan.ready.push(name);
            }
        }
        scan.ready.sort_unstable();
        Ok(scan)
    }

    /// Marks a file as one to be archived.
    pub fn announce(&self, name: &WalName) -> Result<()> {
        let path = self.dir.join(name.ready());
        let made = self.aio.namespace().open(&path, &OpenOptions::READ_WRITE.create().truncate());
        made.map(drop).map_err(ArchiveError::io("create", &path))
    }

    /// Whether it is still marked as one to be archived: the administrator may have thought
    /// otherwise.
    pub fn is_ready(&self, name: &WalName) -> Result<bool> {
        let path = self.dir.join(name.ready());
        self.aio.namespace().exists(&path).map_err(ArchiveError::io("examine", &path))
    }

    /// Removes the mark that a file is to be archived.
    pub fn remove(&self, name: &WalName) -> Result<()> {
        let path = self.dir.join(name.ready());
        match self.aio.namespace().unlink(&path) {
            Err(e) if !e.is_not_found() => Err(ArchiveError::io("remove", &path)(e)),
            _ => Ok(()),
        }
    }

    /// Marks files as archived, in this order, up to the first that fails; durably, all at once. An
    /// error means that what of that is durable is unknown ([`ArchiveError::is_fatal`]), or can be
    /// found out by another call.
    pub fn acknowledge(&self, names: &[WalName]) -> Result<Acknowledged> {
        let mut acknowledged = Acknowledged::default();
        let mut renamed = self.unsettled.swap(false, Ordering::SeqCst);
        for name in names {
            match self.finish(name) {
                Ok(changed) => renamed |= changed,
                Err(e) => {
                    acknowledged.failed = Some(e);
                    break;
                }
            }
            acknowledged.done += 1;
        }
        if renamed {
            let synced = self.aio.namespace().sync_dir(&self.dir);
            synced.map_err(|source| {
                self.unsettled.store(!source.is_failed_sync(), Ordering::SeqCst);
                ArchiveError::Status { dir: self.dir.clone(), source }
            })?;
        }
        Ok(acknowledged)
    }

    /// True: renamed. False: nobody wants to know any more.
    fn finish(&self, name: &WalName) -> Result<bool> {
        let (ready, done) = (self.dir.join(name.ready()), self.dir.join(name.done()));
        match self.aio.namespace().rename(&ready, &done) {
            Ok(()) => Ok(true),
            // By an attempt before, which could not be made durable.
            Err(e)
                if e.is_not_found() && matches!(self.aio.namespace().exists(&done), Ok(true)) =>
            {
                Ok(true)
            }
            Err(e) if AioError::is_not_found(&e) => {
                tracing::warn!(
                    "archive status file \"{}\" has gone while \"{name}\" was archived",
                    ready.display()
                );
                Ok(false)
            }
            Err(e) => Err(ArchiveError::io("rename", &ready)(e)),
        }
    }
}
