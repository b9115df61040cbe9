//! The segment files of one log: their names, which of them are open, and what is archived.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, File, OpenOptions};
use forebay_format::{Lsn, SegmentSize};

use super::{
    demand::Demand,
    dir::{list, sync_dir},
    status::ArchiveStatus,
};
use crate::{
    config::{SyncMethod, WalConfig},
    error::WalError,
    poison::Poison,
};

/// Prefix of temporary names. PostgreSQL removes such files when it starts, and so does a [`Wal`].
///
/// [`Wal`]: crate::Wal
pub(crate) const TEMPORARY: &str = "xlogtemp.";

/// Counts of segment files since the log was started.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SegmentStats {
    /// New segments made.
    pub made: u64,
    /// Old segments recycled.
    pub recycled: u64,
    /// Old segments removed.
    pub removed: u64,
    /// Times an inserter had to wait for a segment.
    pub waits: u64,
}

/// Settings that can change while the log is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPolicy {
    /// Whether new segments are filled with zeros (`wal_init_zero`). Otherwise only their last
    /// block is written, and the file system allocates the others when they are written.
    pub init_zero: bool,
    /// Whether old segments are recycled (`wal_recycle`). Otherwise they are removed.
    pub recycle: bool,
}

impl Default for SegmentPolicy {
    fn default() -> SegmentPolicy {
        SegmentPolicy { init_zero: true, recycle: true }
    }
}

/// A callback for the start of each segment. It is given the number of segments from that of the
/// redo pointer to this one. It is called during flushes, so it must not block.
pub type GrowthWatcher = dyn Fn(u64) + Send + Sync;

/// The segment files of one log.
pub(crate) struct Segments {
    pub(super) aio: Arc<Aio>,
    pub(super) dir: PathBuf,
    pub(super) size: SegmentSize,
    pub(super) timeline: u32,
    pub(super) direct: bool,
    pub(super) init_direct: bool,
    sync_method: SyncMethod,
    /// The segment in which the log was started. It holds the end of the log.
    pub(super) first: u64,
    /// Segments below this number are ready: they exist, and are open or were.
    pub(super) ready: AtomicU64,
    /// The ready segments that are not completely written.
    pub(super) open: Mutex<BTreeMap<u64, File>>,
    /// Held while a segment is made ready, so that each is made once. Taken before `names`.
    pub(super) making_ready: Mutex<()>,
    /// Held for each change of a segment's name. True if a changed name may not be durable.
    pub(super) names: Mutex<bool>,
    /// Held while old segments are recycled or removed. Taken before `names`.
    pub(super) retiring: Mutex<()>,
    /// How many segments are needed.
    pub demand: Demand,
    /// Which segments are archived.
    pub status: ArchiveStatus,
    /// Once the log has ended, no segment is renamed, marked or removed.
    pub(super) poison: Arc<Poison>,
    pub(super) policy: Mutex<SegmentPolicy>,
    pub(super) stats: Mutex<SegmentStats>,
    pub(crate) watcher: Mutex<Option<Arc<GrowthWatcher>>>,
}

impl std::fmt::Debug for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segments")
            .field("dir", &self.dir)
            .field("ready", &self.ready)
            .finish_non_exhaustive()
    }
}

impl Segments {
    /// The segments in `config.dir`, with none ready from `first` on. Removes temporary files, and
    /// makes all names durable. With direct I/O, drops the segments from the page cache.
    pub fn new(
        aio: Arc<Aio>,
        config: &WalConfig,
        first: u64,
        poison: Arc<Poison>,
    ) -> Result<Segments, WalError> {
        let segments = Segments {
            status: ArchiveStatus::new(Arc::clone(&aio), &config.dir, first),
            aio,
            dir: config.dir.clone(),
            size: config.segment_size,
            timeline: config.timeline,
            direct: config.direct,
            init_direct: config.init_direct,
            sync_method: config.sync_method,
            first,
            ready: AtomicU64::new(first),
            open: Mutex::new(BTreeMap::new()),
            making_ready: Mutex::new(()),
            names: Mutex::new(false),
            retiring: Mutex::new(()),
            demand: Demand::new(first),
            poison,
            policy: Mutex::new(SegmentPolicy::default()),
            stats: Mutex::new(SegmentStats::default()),
            watcher: Mutex::new(None),
        };
        for name in segments.list()? {
            if name.starts_with(TEMPORARY) {
                segments.unlink(&segments.dir.join(name))?;
            } else if segments.direct && segments.size.parse_file_name(&name).is_some() {
                segments.forget_cached(&segments.dir.join(name))?;
            }
        }
        segments.sync_dir()?;
        Ok(segments)
    }

    /// The I/O layer that holds the segments.
    pub fn aio(&self) -> &Aio {
        &self.aio
    }

    /// Path of a segment file.
    pub fn path(&self, number: u64) -> PathBuf {
        self.dir.join(self.size.file_name(self.timeline, number))
    }

    /// Segments below this number are ready for writing.
    pub fn ready(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    /// A segment that is ready, unless a later one has been entered.
    pub fn file(&self, number: u64) -> Option<File> {
        self.open.lock().get(&number).cloned()
    }

    /// While archiving, marks the segments that end at or before `flushed`, where the log is
    /// durable.
    pub fn note_flushed(&self, flushed: Lsn) {
        for number in self.status.completed(self.size.number(flushed)) {
            self.announce(&self.size.file_name(self.timeline, number));
        }
    }

    /// While archiving, marks a file for the archive.
    pub fn announce(&self, name: &str) {
        if self.status.is_on() && self.poison.get().is_none() {
            self.status.announce(name);
        }
    }

    /// Starts archiving. Completed segments without a mark get one.
    pub fn start_archiving(&self, flushed: Lsn) -> Result<(), WalError> {
        let before = self.size.number(flushed);
        self.status.start(before)?;
        let marks = self.status.list()?;
        for name in self.list()? {
            let old = self.size.parse_file_name(&name).is_some_and(|(_, number)| number < before);
            if old && !marks.has(&name) {
                self.status.announce(&name);
            }
        }
        Ok(())
    }

    /// Opens a segment for reading and writing, if it exists.
    pub fn open_existing(&self, number: u64) -> Result<Option<File>, WalError> {
        let path = self.path(number);
        let mut options = self.sync_method.open_options().direct(self.direct);
        forebay_aio::planted_bug!(self.aio, WalSegmentsOpenedWithoutDsync, {
            options = options.dsync(false).sync(false)
        });
        let namespace = self.aio.namespace();
        let file = match namespace.open(&path, &options) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(WalError::segment("open", &path, e)),
        };
        let len = namespace.file_len(&file).map_err(|e| WalError::segment("examine", &path, e))?;
        if len != self.size.bytes() {
            return Err(WalError::SegmentLength {
                file: path,
                expected: self.size.bytes(),
                found: len,
            });
        }
        Ok(Some(file))
    }

    /// Numbers of the existing segments of this timeline from `from` on, ascending.
    pub fn existing_from(&self, from: u64) -> Result<Vec<u64>, WalError> {
        let mut numbers: Vec<u64> = self
            .list()?
            .iter()
            .filter_map(|name| self.size.parse_file_name(name))
            .filter(|&(timeline, number)| timeline == self.timeline && number >= from)
            .map(|(_, number)| number)
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Changes how segments are made and whether old ones are recycled.
    pub fn set_policy(&self, policy: SegmentPolicy) {
        *self.policy.lock() = policy;
    }

    /// Counts of segment files.
    pub fn stats(&self) -> SegmentStats {
        *self.stats.lock()
    }

    pub(super) fn list(&self) -> Result<Vec<String>, WalError> {
        list(&self.aio, &self.dir)
    }

    pub(super) fn unlink(&self, path: &Path) -> Result<(), WalError> {
        self.aio.namespace().unlink(path).map_err(|e| WalError::segment("remove", path, e))
    }

    fn forget_cached(&self, path: &Path) -> Result<(), WalError> {
        let namespace = self.aio.namespace();
        let forgotten = namespace
            .open(path, &OpenOptions::READ)
            .and_then(|file| namespace.forget_cached(&file));
        forgotten.map_err(|e| WalError::segment("examine", path, e))
    }

    /// Makes changed names durable. If the directory cannot be opened, the next call tries again.
    pub(super) fn settle_names(&self) -> Result<(), WalError> {
        let mut unsettled = self.names.lock();
        if *unsettled {
            self.sync_dir()?;
            *unsettled = false;
        }
        Ok(())
    }

    /// Syncs the directory. If that fails, it is unknown which names would survive a crash.
    pub(super) fn sync_dir(&self) -> Result<(), WalError> {
        self.poison.check()?;
        forebay_aio::planted_bug!(self.aio, WalSegmentNamesNotSynced, return Ok(()));
        sync_dir(&self.aio, &self.dir)
    }
}
