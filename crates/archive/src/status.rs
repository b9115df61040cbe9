//! `pg_wal/archive_status`: which files are to be archived, and which are, as PostgreSQL keeps it.
//!
//! ```text
//!   NAME.ready ──(archived)──▶ NAME.done      renamed one by one, then synced all at once
//! ```
//!
//! A new `.ready` is not synced. If a crash loses it, the server creates it again when it finds a
//! segment without a status file. If a crash undoes the renaming to `.done`, the file is archived
//! again, with the same contents. The log syncs the directory before it recycles or removes a
//! segment, so no segment goes because of a `.done` that is not durable.
//!
//! The directory is listed once, at start. Later, whoever creates a status file also reports its
//! name to the archiver.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::{Aio, IfFound, OpenOptions};

use crate::error::{ArchiveError, Result};
use crate::names::{Mark, WalName};

/// Its name in `pg_wal`.
pub(crate) const DIR: &str = "archive_status";

/// The contents of the directory.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Files to be archived, in the order in which they are archived.
    pub ready: Vec<WalName>,
    /// How many names are no status files. They stay.
    pub junk: usize,
}

/// The result of an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    /// How many of the names, counted from the first, are durably marked as archived.
    pub done: usize,
    /// Why the next one failed.
    pub failed: Option<ArchiveError>,
}

/// The status files of one log.
pub(crate) struct Status {
    aio: Arc<Aio>,
    wal_dir: PathBuf,
    dir: PathBuf,
    /// Status files were renamed, and the directory could not be opened to sync it.
    needs_sync: AtomicBool,
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Status").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Status {
    /// The status files of the log in `wal_dir`.
    pub fn new(aio: &Arc<Aio>, wal_dir: &Path) -> Status {
        Status {
            aio: Arc::clone(aio),
            wal_dir: wal_dir.to_path_buf(),
            dir: wal_dir.join(DIR),
            needs_sync: AtomicBool::new(false),
        }
    }

    /// The directory of the log.
    pub fn wal_dir(&self) -> &Path {
        &self.wal_dir
    }

    /// The directory of the status files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Creates the directory if it is missing.
    pub fn create(&self) -> Result<()> {
        let names = self.aio.namespace();
        let made = match names.exists(&self.dir) {
            Ok(true) => return Ok(()),
            Ok(false) => names.mkdir(&self.dir).and_then(|()| names.sync_dir(&self.wal_dir)),
            Err(e) => Err(e),
        };
        made.map_err(ArchiveError::io("create", &self.dir))
    }

    /// Lists all status files. A file that has both is archived: its `.ready` is removed, because
    /// the file may be recycled at any time.
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

    /// Creates the `.ready` of a file.
    pub fn announce(&self, name: &WalName) -> Result<()> {
        let path = self.dir.join(name.ready());
        let made = self.aio.namespace().open(&path, &OpenOptions::READ_WRITE.create().truncate());
        made.map(drop).map_err(ArchiveError::io("create", &path))
    }

    /// Whether the file still has its `.ready`: the administrator may have removed it.
    pub fn is_ready(&self, name: &WalName) -> Result<bool> {
        let path = self.dir.join(name.ready());
        self.aio.namespace().exists(&path).map_err(ArchiveError::io("examine", &path))
    }

    /// Removes the `.ready` of a file.
    pub fn remove(&self, name: &WalName) -> Result<()> {
        let path = self.dir.join(name.ready());
        let removed = self.aio.namespace().unlink(&path).if_found();
        removed.map(drop).map_err(ArchiveError::io("remove", &path))
    }

    /// Renames the status files of `names` to `.done`, in this order, up to the first failure, and
    /// then syncs the directory. After an error, nobody knows which of the renamings are durable.
    /// Unless it [is fatal](ArchiveError::is_fatal), the call can be repeated.
    pub fn acknowledge(&self, names: &[WalName]) -> Result<Acknowledged> {
        let mut acknowledged = Acknowledged::default();
        let mut renamed = self.needs_sync.swap(false, Ordering::SeqCst);
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
                self.needs_sync.store(!source.is_failed_sync(), Ordering::SeqCst);
                ArchiveError::Status { dir: self.dir.clone(), source }
            })?;
        }
        Ok(acknowledged)
    }

    /// Renames the status file of `name`. False: the file has none any more.
    fn finish(&self, name: &WalName) -> Result<bool> {
        let (ready, done) = (self.dir.join(name.ready()), self.dir.join(name.done()));
        match self.aio.namespace().rename(&ready, &done) {
            Ok(()) => Ok(true),
            // An earlier attempt renamed it and could not sync the directory.
            Err(e)
                if e.is_not_found() && matches!(self.aio.namespace().exists(&done), Ok(true)) =>
            {
                Ok(true)
            }
            Err(e) if e.is_not_found() => {
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
