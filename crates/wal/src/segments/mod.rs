//! Segment files: made ahead, taken into use, recycled, removed.
//!
//! - `make`: a new segment, zero-filled by several large writes in flight
//! - `demand`: which segments will be needed, and the call for who makes them
//! - `retire`: what becomes of old ones
//! - `status`: what the archive has of them (`archive_status`)
//!
//! A segment gets its final name only when it is full-size and synced; the name itself is made
//! durable by a sync of the directory before anything is written under it. A recycled segment
//! changes its name by one rename, so it has exactly one name at any time: link and unlink would
//! leave a crash two names for one file, of which one is archived while the other is written.
//! Nothing is ever replaced by that: all names change under one lock, and a new one is looked up
//! first.
//!
//! Whatever fails before the final name is given leaves nothing behind and may be tried again. A
//! sync of the directory that fails is final, like any failed sync.

mod demand;
mod make;
mod retire;
mod status;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, AioError, Backend, Errno, File, OpenOptions};
use forebay_format::{Lsn, SegmentSize};

use crate::{
    config::{SyncMethod, WalConfig},
    error::{FatalError, WalError},
    poison::Poison,
};

use demand::Demand;
pub use status::ArchiveFeed;
use status::ArchiveStatus;

/// Temporary names begin like this; PostgreSQL removes such files when it starts, and so do we.
pub(crate) const TEMPORARY: &str = "xlogtemp.";

/// What became of segment files since the log was started.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SegmentStats {
    /// New ones made.
    pub made: u64,
    /// Old ones given a future name.
    pub recycled: u64,
    /// Old ones removed.
    pub removed: u64,
    /// Times somebody who had WAL to insert had to wait for a segment that was not there yet.
    pub waits: u64,
}

#[derive(Debug, Default)]
struct Counters {
    made: AtomicU64,
    recycled: AtomicU64,
    removed: AtomicU64,
    waits: AtomicU64,
}

/// What may change while the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPolicy {
    /// New segments are filled with zeros (`wal_init_zero`); else they are as long, and their
    /// blocks are allocated as they are written.
    pub init_zero: bool,
    /// Old segments are given future names (`wal_recycle`); else they are removed, and new ones are
    /// made.
    pub recycle: bool,
}

impl Default for SegmentPolicy {
    fn default() -> SegmentPolicy {
        SegmentPolicy { init_zero: true, recycle: true }
    }
}

/// The segment files of one log.
pub(crate) struct Segments {
    aio: Arc<Aio>,
    dir: PathBuf,
    size: SegmentSize,
    timeline: u32,
    direct: bool,
    init_direct: bool,
    sync_method: SyncMethod,
    /// The segment that the log was started in: it holds part of the log, whatever else is wrong
    /// with it.
    first: u64,
    /// Segments below this number exist and are open or were.
    ready: AtomicU64,
    /// Open segments that are still to be written.
    open: Mutex<BTreeMap<u64, File>>,
    /// Held while a segment is taken into use, so that each is made once. Taken before `names`.
    taking: Mutex<()>,
    /// Held for each change of a segment's name. True while a name has changed that may not be
    /// durable.
    names: Mutex<bool>,
    /// Held while old segments go, so that each goes once. Taken before `names`.
    retiring: Mutex<()>,
    demand: Demand,
    status: ArchiveStatus,
    /// Once the log is lost no segment gets a name, a mark or an end any more.
    poison: Arc<Poison>,
    init_zero: AtomicBool,
    recycle: AtomicBool,
    counters: Counters,
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
    /// The segments of `config.dir`; nothing is ready below or at `first` yet. Removes what an
    /// interrupted creation left, and makes all names durable. With direct I/O, the kernel forgets
    /// what it has cached of the log.
    pub fn new(
        aio: Arc<Aio>,
        config: &WalConfig,
        first: u64,
        poison: Arc<Poison>,
    ) -> Result<Segments, WalError> {
        let policy = SegmentPolicy::default();
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
            taking: Mutex::new(()),
            names: Mutex::new(false),
            retiring: Mutex::new(()),
            demand: Demand::new(first),
            poison,
            init_zero: AtomicBool::new(policy.init_zero),
            recycle: AtomicBool::new(policy.recycle),
            counters: Counters::default(),
        };
        for name in segments.list()? {
            if name.starts_with(TEMPORARY) {
                let path = segments.dir.join(name);
                segments
                    .aio
                    .namespace()
                    .unlink(&path)
                    .map_err(|e| WalError::segment("remove", &path, e))?;
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

    /// Segments below this number exist.
    pub fn ready(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    /// Takes the first segment into use, that of the log's end; makes it if it does not exist.
    pub fn take_first(&self, io: &mut Backend) -> Result<(), WalError> {
        self.take_upto(io, self.first).map(drop)
    }

    /// Makes sure that all segments up to `number` exist and are open, for one who has WAL to
    /// insert: he may have to wait, which is counted, and makes himself what nobody has made in
    /// time.
    pub fn ensure(&self, io: &mut Backend, number: u64) -> Result<(), WalError> {
        self.demand.want(number, self.ready());
        if number < self.ready() {
            return Ok(());
        }
        if self.take_upto(io, number)? {
            self.counters.waits.fetch_add(1, Ordering::Relaxed);
            self.demand.came_late();
            self.demand.relieve();
        }
        Ok(())
    }

    /// Makes the segments that will be needed next. True if there was something to do.
    pub fn prepare(&self, io: &mut Backend) -> Result<bool, WalError> {
        let upto = self.demand.answer();
        if upto < self.ready() {
            return Ok(false);
        }
        self.take_upto(io, upto)?;
        Ok(true)
    }

    /// The bell for who prepares segments.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Takes all segments up to `number` into use, one at a time. True if that took the making of
    /// one, by this caller or by another whom it waited for.
    fn take_upto(&self, io: &mut Backend, number: u64) -> Result<bool, WalError> {
        let mut waited = false;
        while self.ready() <= number {
            let taking = match self.taking.try_lock() {
                Some(held) => held,
                None => {
                    waited = true;
                    self.taking.lock()
                }
            };
            let next = self.ready();
            if next <= number {
                self.poison.check()?;
                let (file, made) = self.take(io, next)?;
                waited |= made;
                self.open.lock().insert(next, file);
                self.ready.store(next + 1, Ordering::Release);
            }
            drop(taking);
        }
        Ok(waited)
    }

    /// Opens a segment for the log to be written to; makes it if it does not exist, and says so.
    fn take(&self, io: &mut Backend, number: u64) -> Result<(File, bool), WalError> {
        if let Some(file) = self.open_existing(number)? {
            if self.is_alone(number)? {
                // It may have got its name a moment ago.
                self.settle_names()?;
                return Ok((file, false));
            }
            drop(file);
            // What is written under this name would show under the other one: an archived segment,
            // or, after a crash of a server that recycles by link and unlink, an older one that
            // waits to be archived.
            let path = self.path(number);
            tracing::warn!(
                "WAL segment \"{}\" has other names: a new one takes its place",
                path.display()
            );
            self.aio
                .namespace()
                .unlink(&path)
                .map_err(|e| WalError::segment("remove", &path, e))?;
        }
        Ok((self.create(io, number)?, true))
    }

    /// Whether a segment may be written under its name: it has no other, or it holds the end of the
    /// log.
    fn is_alone(&self, number: u64) -> Result<bool, WalError> {
        let path = self.path(number);
        let links = self
            .aio
            .namespace()
            .link_count(&path)
            .map_err(|e| WalError::segment("examine", &path, e))?;
        if links > 1 && number == self.first {
            tracing::warn!(
                "WAL segment \"{}\" has {links} names: what is written to it shows under all of them",
                path.display()
            );
        }
        Ok(links == 1 || number == self.first)
    }

    /// A segment that was taken into use, if none behind it was entered.
    pub fn file(&self, number: u64) -> Option<File> {
        self.open.lock().get(&number).cloned()
    }

    /// The first bytes of a segment are about to be written: those before are complete and durable,
    /// and can be closed; the next one will be needed.
    pub fn enter(&self, number: u64) {
        let mut open = self.open.lock();
        *open = open.split_off(&number);
        drop(open);
        self.demand.want(number + 1, self.ready());
    }

    /// The log is durable up to `flushed`: segments that end there or before are for the archive,
    /// if there is one.
    pub fn note_flushed(&self, flushed: Lsn) {
        for number in self.status.completed(self.size.number(flushed)) {
            self.announce(&self.size.file_name(self.timeline, number));
        }
    }

    /// Marks a file for the archive, if there is one.
    pub fn announce(&self, name: &str) {
        if self.status.is_on() && self.poison.get().is_none() {
            self.status.announce(name);
        }
    }

    /// From now on each completed segment is marked for the archive, and none goes that the archive
    /// does not have. Those that were completed without a mark get one.
    pub fn start_archiving(&self, flushed: Lsn) -> Result<(), WalError> {
        let before = self.size.number(flushed);
        self.status.start(before)?;
        let known = self.status.list()?;
        for name in self.list()? {
            let old = self.size.parse_file_name(&name).is_some_and(|(_, number)| number < before);
            if old && !known.knows(&name) {
                self.status.announce(&name);
            }
        }
        Ok(())
    }

    /// Who is told of each segment that is marked for the archive.
    pub fn feed_archiver(&self, feed: Option<Arc<ArchiveFeed>>) {
        self.status.set_feed(feed);
    }

    /// Opens a segment that may exist, for reading and writing.
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

    /// Numbers of all segments of this timeline that exist from `from` on, ascending.
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

    /// Is there an archive?
    pub fn is_archiving(&self) -> bool {
        self.status.is_on()
    }

    /// Removes the marks of a file that is gone.
    pub fn forget_archived(&self, name: &str) {
        self.status.forget(name);
    }

    /// Changes how segments are made and what becomes of old ones.
    pub fn set_policy(&self, policy: SegmentPolicy) {
        self.init_zero.store(policy.init_zero, Ordering::Relaxed);
        self.recycle.store(policy.recycle, Ordering::Relaxed);
    }

    /// What became of segments.
    pub fn stats(&self) -> SegmentStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SegmentStats {
            made: get(&self.counters.made),
            recycled: get(&self.counters.recycled),
            removed: get(&self.counters.removed),
            waits: get(&self.counters.waits),
        }
    }

    /// The segment number of a position.
    pub fn number(&self, lsn: Lsn) -> u64 {
        self.size.number(lsn)
    }

    fn list(&self) -> Result<Vec<String>, WalError> {
        list(&self.aio, &self.dir)
    }

    fn forget_cached(&self, path: &Path) -> Result<(), WalError> {
        let namespace = self.aio.namespace();
        let forgotten = namespace
            .open(path, &OpenOptions::READ)
            .and_then(|file| namespace.forget_cached(&file));
        forgotten.map_err(|e| WalError::segment("examine", path, e))
    }

    /// Makes new names durable, if there are any. Where the directory could not be opened for that,
    /// they stay to be settled.
    fn settle_names(&self) -> Result<(), WalError> {
        let mut unsettled = self.names.lock();
        if *unsettled {
            self.sync_dir()?;
            *unsettled = false;
        }
        Ok(())
    }

    /// Makes the names durable. If the sync fails, it is unknown which names would survive a crash.
    fn sync_dir(&self) -> Result<(), WalError> {
        self.poison.check()?;
        forebay_aio::planted_bug!(self.aio, WalSegmentNamesNotSynced, return Ok(()));
        sync_dir(&self.aio, &self.dir)
    }
}

/// The names in a directory.
fn list(aio: &Aio, dir: &Path) -> Result<Vec<String>, WalError> {
    let entries = aio.namespace().list(dir).map_err(|e| WalError::segment("list", dir, e))?;
    Ok(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect())
}

fn sync_dir(aio: &Aio, dir: &Path) -> Result<(), WalError> {
    aio.namespace().sync_dir(dir).map_err(|e| {
        if !e.is_failed_sync() {
            return WalError::segment("open directory", dir, e);
        }
        let (file, source) = (dir.to_path_buf(), Arc::new(e));
        WalError::Fatal(Arc::new(FatalError { file, operation: "sync", offset: 0, len: 0, source }))
    })
}

/// That a segment is gone which was just made.
fn vanished(path: &Path) -> WalError {
    WalError::segment("open", path, AioError::os("open file", path, Errno::NOENT))
}
