//! Segment files: made ahead under a temporary name, opened, recycled, removed.
//!
//! A segment gets its final name only when it is full-size, zero-filled and synced; the name itself is made
//! durable by a sync of the directory before anything is written under it. A recycled segment changes its
//! name by one rename that refuses to replace, so it has exactly one name at any time.
//!
//! Whatever fails before the final name is given leaves nothing behind and may be tried again. A sync of the
//! directory that fails is final, like any failed sync.

use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{
    Aio, AioError, Backend, Errno, File, Io, IoContext, IoMemory, IoObject, IoOp, Op, OpenOptions, Region,
    Target,
};
use forebay_format::{Lsn, SegmentSize};

use crate::{
    checkpoint::OldSegments,
    config::WalConfig,
    error::{FatalError, WalError},
};

/// Bytes of zeros written at once.
const FILL: usize = 1 << 20;
/// Temporary names begin like this; PostgreSQL removes such files when it starts, and so do we.
const TEMPORARY: &str = "xlogtemp.";

/// The segment files of one log.
pub(crate) struct Segments {
    aio: Arc<Aio>,
    dir: PathBuf,
    size: SegmentSize,
    timeline: u32,
    direct: bool,
    init_direct: bool,
    dsync: bool,
    /// Segments below this number exist and are open or were.
    ready: AtomicU64,
    /// Open segments that are still to be written.
    open: Mutex<BTreeMap<u64, File>>,
    /// Held while names in the directory change.
    names: Mutex<()>,
}

impl std::fmt::Debug for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segments").field("dir", &self.dir).field("ready", &self.ready).finish_non_exhaustive()
    }
}

impl Segments {
    /// The segments of `config.dir`; nothing is ready below or at `first` yet. Removes what an interrupted
    /// creation left, and makes all names durable.
    pub fn new(aio: Arc<Aio>, config: &WalConfig, first: u64) -> Result<Segments, WalError> {
        let segments = Segments {
            aio,
            dir: config.dir.clone(),
            size: config.segment_size,
            timeline: config.timeline,
            direct: config.direct,
            init_direct: config.init_direct,
            dsync: config.sync_method.opens_synchronous(),
            ready: AtomicU64::new(first),
            open: Mutex::new(BTreeMap::new()),
            names: Mutex::new(()),
        };
        for name in segments.list()? {
            if name.starts_with(TEMPORARY) {
                let path = segments.dir.join(name);
                segments.aio.namespace().unlink(&path).map_err(|e| WalError::segment("remove", &path, e))?;
            }
        }
        segments.sync_dir()?;
        Ok(segments)
    }

    /// See [`Aio::has_bug`].
    #[inline(always)]
    pub fn has_bug(&self, bug: &str) -> bool {
        self.aio.has_bug(bug)
    }

    /// Path of a segment file.
    pub fn path(&self, number: u64) -> PathBuf {
        self.dir.join(self.size.file_name(self.timeline, number))
    }

    /// Segments below this number exist.
    pub fn ready(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }

    /// Makes sure that all segments up to `number` exist and are open.
    pub fn ensure(&self, io: &mut Backend, number: u64) -> Result<(), WalError> {
        if number < self.ready() {
            return Ok(());
        }
        let _names = self.names.lock();
        for next in self.ready()..=number {
            let file = match self.open_existing(next)? {
                Some(file) => file,
                None => self.create(io, next)?,
            };
            self.open.lock().insert(next, file);
            self.ready.store(next + 1, Ordering::Release);
        }
        Ok(())
    }

    /// A segment that `ensure` was called for and `close_before` was not.
    pub fn file(&self, number: u64) -> Option<File> {
        self.open.lock().get(&number).cloned()
    }

    /// Closes the segments below `number`: they are complete and durable.
    pub fn close_before(&self, number: u64) {
        let mut open = self.open.lock();
        *open = open.split_off(&number);
    }

    /// Opens a segment that may exist, for reading and writing.
    pub fn open_existing(&self, number: u64) -> Result<Option<File>, WalError> {
        let path = self.path(number);
        let dsync = self.dsync && !self.aio.has_bug("wal: segments are not opened O_DSYNC");
        let options = OpenOptions::READ_WRITE.direct(self.direct).dsync(dsync);
        let namespace = self.aio.namespace();
        let file = match namespace.open(&path, &options) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(WalError::segment("open", &path, e)),
        };
        let len = namespace.file_len(&file).map_err(|e| WalError::segment("examine", &path, e))?;
        if len != self.size.bytes() {
            return Err(WalError::SegmentLength { file: path, expected: self.size.bytes(), found: len });
        }
        Ok(Some(file))
    }

    /// Makes a segment of zeros.
    fn create(&self, io: &mut Backend, number: u64) -> Result<File, WalError> {
        let temporary = self.dir.join(format!("{TEMPORARY}{}", std::process::id()));
        let path = self.path(number);
        let namespace = Arc::clone(self.aio.namespace());
        if let Err(e) = self.fill(io, &temporary) {
            // What is left of it would only be in the way; the next start removes it too.
            let _ = namespace.unlink(&temporary);
            return Err(WalError::segment("create", &path, e));
        }
        match namespace.rename_noreplace(&temporary, &path) {
            Ok(()) => {}
            Err(e) => {
                let _ = namespace.unlink(&temporary);
                return Err(WalError::segment("rename to", &path, e));
            }
        }
        self.sync_dir()?;
        self.open_existing(number)?
            .ok_or_else(|| WalError::segment("open", &path, AioError::os("open file", &path, Errno::NOENT)))
    }

    /// Writes a whole segment of zeros to `path`, and syncs it.
    fn fill(&self, io: &mut Backend, path: &Path) -> Result<(), AioError> {
        let options = OpenOptions::READ_WRITE.create().truncate().direct(self.init_direct);
        let file = self.aio.namespace().open(path, &options)?;
        let zeros = Region::new(FILL)?;
        let size = self.size.bytes();
        for offset in (0..size).step_by(FILL) {
            let memory = IoMemory::new(Arc::clone(&zeros), 0, FILL);
            let target = Target::Other("new WAL segment".into());
            let write = Io::write(file.clone(), offset, memory, target);
            io.run(write.account(IoObject::Wal, IoContext::Init, IoOp::Write))?;
        }
        let sync = Io::new(file, Op::Fsync, Target::Other("new WAL segment".into()));
        io.run(sync.account(IoObject::Wal, IoContext::Init, IoOp::Fsync))?;
        Ok(())
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

    /// Recycles or removes the segments below `before`. Recycled ones get the free names up to `upto`.
    pub fn remove_before(&self, before: u64, upto: u64) -> Result<OldSegments, WalError> {
        let _names = self.names.lock();
        let mut old: Vec<(u64, String)> = Vec::new();
        let mut taken = BTreeSet::new();
        for name in self.list()? {
            let Some((timeline, number)) = self.size.parse_file_name(&name) else { continue };
            if number < before {
                old.push((number, name));
            } else if timeline == self.timeline {
                taken.insert(number);
            }
        }
        old.sort_unstable();
        let mut done = OldSegments::default();
        let result = self.remove_each(old, before, upto, taken, &mut done);
        // Also after an error: a segment that got a new name may be written under it any time from now on.
        if done != OldSegments::default() {
            self.sync_dir()?;
        }
        result.map(|()| done)
    }

    /// Recycles or removes each of `old`; counts in `done` what was done, also when it fails halfway.
    fn remove_each(
        &self,
        old: Vec<(u64, String)>,
        before: u64,
        upto: u64,
        mut taken: BTreeSet<u64>,
        done: &mut OldSegments,
    ) -> Result<(), WalError> {
        let mut future = self.ready().max(before);
        for (_, name) in old {
            while taken.contains(&future) {
                future += 1;
            }
            if future <= upto && self.recycle(&self.dir.join(&name), future)? {
                taken.insert(future);
                done.recycled += 1;
            } else {
                let path = self.dir.join(&name);
                self.aio.namespace().unlink(&path).map_err(|e| WalError::segment("remove", &path, e))?;
                done.removed += 1;
            }
        }
        Ok(())
    }

    /// Gives an old segment a future name. False if it is not fit for that.
    fn recycle(&self, old: &Path, number: u64) -> Result<bool, WalError> {
        let namespace = self.aio.namespace();
        let stat = namespace.stat(old).map_err(|e| WalError::segment("examine", old, e))?;
        if !stat.is_some_and(|stat| stat.len == self.size.bytes() && stat.links == 1) {
            return Ok(false);
        }
        let new = self.path(number);
        match namespace.rename_noreplace(old, &new) {
            Ok(()) => Ok(true),
            Err(e) if e.errno() == Some(Errno::EXIST) => Ok(false),
            Err(e) => Err(WalError::segment("recycle", old, e)),
        }
    }

    fn list(&self) -> Result<Vec<String>, WalError> {
        let entries =
            self.aio.namespace().list(&self.dir).map_err(|e| WalError::segment("list", &self.dir, e))?;
        Ok(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    /// Makes the names durable. If that fails, it is unknown which names would survive a crash.
    fn sync_dir(&self) -> Result<(), WalError> {
        if self.aio.has_bug("wal: names of segments are not synced") {
            return Ok(());
        }
        self.aio.namespace().sync_dir(&self.dir).map_err(|e| {
            WalError::Fatal(Arc::new(FatalError {
                file: self.dir.clone(),
                operation: "sync",
                offset: 0,
                len: 0,
                source: Arc::new(e),
            }))
        })
    }

    /// The segment number of a position.
    pub fn number(&self, lsn: Lsn) -> u64 {
        self.size.number(lsn)
    }
}
