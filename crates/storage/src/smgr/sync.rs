//! Sync requests: collected while files are written, one for each segment, and worked off by the
//! checkpoint.
//!
//! A request is made when a write has *ended* (and before its pages turn clean), never when it
//! starts: a checkpoint that ran in between would take the request, and the write would be without
//! one.
//!
//! A failed sync is final. The kernel may have dropped the pages and will not report it twice, so
//! the error is fatal: every later round returns it, and syncs nothing. A file or directory that
//! could not even be opened keeps its request. The sync of a file that is removed while it runs may
//! end as it likes.

use super::Smgr;
use crate::error::StorageError;
use forebay_aio::sync::{Duration, Instant, Mutex};
use forebay_aio::{
    self as aio, AioError, Errno, File, Io, IoContext, IoObject, IoOp, Op, Target, WaitRef,
};
use forebay_format::{Fork, PageTag, RelFileLocator};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Syncs in flight at once.
const DEPTH: usize = 16;

/// A segment file: relation, fork, segment number.
type SegmentKey = (RelFileLocator, Fork, u32);

/// What [`Smgr::sync_pending`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Files synced.
    pub files: u64,
    /// Directories synced.
    pub directories: u64,
    /// The longest time that a file's sync took until it was found to have ended.
    pub longest: Duration,
    /// The sum of those times; several syncs run at once.
    pub total: Duration,
    /// Pages that were read back, by [`BufferPool::sync_pending`](crate::BufferPool::sync_pending).
    pub read_back: u64,
    /// How long that took.
    pub read_back_time: Duration,
}

impl SyncReport {
    /// Files and directories.
    pub fn counts(&self) -> (u64, u64) {
        (self.files, self.directories)
    }
}

/// Pending requests.
pub(crate) struct SyncQueue {
    segment_blocks: u32,
    /// False for files that need not outlive a crash: nothing is ever synced.
    wanted: bool,
    state: Mutex<State>,
    /// One checkpoint at a time works them off.
    turn: Mutex<()>,
}

#[derive(Default)]
struct State {
    pending: BTreeSet<SegmentKey>,
    directories: BTreeSet<PathBuf>,
    /// Taken by the present round and not yet done; a dropped relation's are removed.
    taken: BTreeSet<SegmentKey>,
    /// The sync that failed: the last one.
    failed: Option<StorageError>,
}

impl SyncQueue {
    pub(crate) fn new(segment_blocks: u32) -> Self {
        SyncQueue { segment_blocks, wanted: true, state: Mutex::default(), turn: Mutex::new(()) }
    }

    /// Takes no requests.
    pub(crate) fn deaf(segment_blocks: u32) -> Self {
        SyncQueue { wanted: false, ..SyncQueue::new(segment_blocks) }
    }

    /// A page was written.
    pub(crate) fn request(&self, tag: &PageTag) {
        self.request_segment(tag.rel, tag.fork, tag.block / self.segment_blocks);
    }

    /// A segment was created, written, extended or cut.
    pub(crate) fn request_segment(&self, rel: RelFileLocator, fork: Fork, segment: u32) {
        if self.wanted {
            self.state.lock().pending.insert((rel, fork, segment));
        }
    }

    /// A name was made: its directory must be synced.
    pub(crate) fn request_directory(&self, of: &Path) {
        if let Some(dir) = of.parent()
            && self.wanted
        {
            let mut state = self.state.lock();
            if !state.directories.contains(dir) {
                state.directories.insert(dir.to_path_buf());
            }
        }
    }

    /// A fork is dropped: its requests are void, also those a round has taken.
    pub(crate) fn forget(&self, rel: RelFileLocator, fork: Fork) {
        let mut state = self.state.lock();
        state.pending.retain(|&(r, f, _)| (r, f) != (rel, fork));
        state.taken.retain(|&(r, f, _)| (r, f) != (rel, fork));
    }

    /// A segment is removed that a failed growth has made.
    pub(crate) fn forget_segment(&self, rel: RelFileLocator, fork: Fork, segment: u32) {
        let mut state = self.state.lock();
        state.pending.remove(&(rel, fork, segment));
        state.taken.remove(&(rel, fork, segment));
    }

    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.pending.is_empty() && state.directories.is_empty() && state.taken.is_empty()
    }

    fn take(&self) -> (Vec<SegmentKey>, BTreeSet<PathBuf>) {
        let mut state = self.state.lock();
        state.taken = std::mem::take(&mut state.pending);
        (state.taken.iter().copied().collect(), std::mem::take(&mut state.directories))
    }

    fn done(&self, key: &SegmentKey) {
        self.state.lock().taken.remove(key);
    }

    fn still_wanted(&self, key: &SegmentKey) -> bool {
        self.state.lock().taken.contains(key)
    }

    /// The sync that failed, if any has.
    fn check(&self) -> Result<(), StorageError> {
        self.state.lock().failed.clone().map_or(Ok(()), Err)
    }

    /// Puts back what a round did not come to, which a sync that failed leaves for good.
    fn put_back(&self, directories: BTreeSet<PathBuf>, failure: &StorageError) {
        let mut state = self.state.lock();
        if failure.is_fatal() {
            state.failed = Some(failure.clone());
        }
        let taken = std::mem::take(&mut state.taken);
        state.pending.extend(taken);
        state.directories.extend(directories);
    }
}

/// One sync in flight.
struct InFlight {
    wait: WaitRef,
    key: SegmentKey,
    file: File,
    since: Instant,
}

/// Works off all requests made so far.
pub(super) fn sync_pending(smgr: &Smgr, io: &mut aio::Backend) -> Result<SyncReport, StorageError> {
    io.submit();
    let queue = smgr.sync_queue();
    let _turn = queue.turn.lock();
    let mut checked = queue.check();
    forebay_aio::planted_bug!(smgr.aio(), StopIgnored, checked = Ok(()));
    checked?;
    let (mut keys, mut directories) = queue.take();
    forebay_aio::planted_bug!(smgr.aio(), SyncRequestForgotten, keys.pop());
    forebay_aio::planted_bug!(smgr.aio(), SyncSkipsDirectories, directories.clear());
    let mut report = SyncReport::default();
    let mut in_flight: VecDeque<InFlight> = VecDeque::with_capacity(DEPTH);
    let mut failure = None;
    for key in keys {
        if in_flight.len() == DEPTH {
            finish_oldest(queue, io, &mut in_flight, &mut report, &mut failure);
        }
        match start(smgr, io, key) {
            Ok(Some(started)) => in_flight.push_back(started),
            Ok(None) => queue.done(&key),
            Err(error) => failure = failure.or(Some(error)),
        }
        if failure.is_some() {
            break;
        }
    }
    while !in_flight.is_empty() {
        finish_oldest(queue, io, &mut in_flight, &mut report, &mut failure);
    }
    if failure.is_none() {
        for dir in &directories {
            match sync_directory(smgr, dir) {
                Ok(()) => report.directories += 1,
                // Its files are gone with it.
                Err(e) if e.is_not_found() => {}
                Err(e) => {
                    let (file, errno) = (dir.clone(), e.errno().unwrap_or(Errno::IO));
                    failure = Some(if e.is_failed_sync() {
                        StorageError::Sync { file, errno }
                    } else {
                        StorageError::File { operation: "open", file, errno }
                    });
                    break;
                }
            }
        }
    }
    match failure {
        None => Ok(report),
        Some(error) => {
            queue.put_back(directories, &error);
            Err(error)
        }
    }
}

/// Makes a directory's names durable. Where there is no descriptor left for that, the files that
/// are kept open make room.
fn sync_directory(smgr: &Smgr, dir: &Path) -> Result<(), AioError> {
    let namespace = smgr.aio().namespace();
    match namespace.sync_dir(dir) {
        Err(e) if matches!(e.errno(), Some(Errno::MFILE | Errno::NFILE)) && !e.is_failed_sync() => {
            smgr.close_files();
            namespace.sync_dir(dir)
        }
        synced => synced,
    }
}

/// Starts the sync of one segment; none if it was dropped meanwhile.
fn start(
    smgr: &Smgr,
    io: &mut aio::Backend,
    key: SegmentKey,
) -> Result<Option<InFlight>, StorageError> {
    let (rel, fork, segment) = key;
    if !smgr.sync_queue().still_wanted(&key) {
        return Ok(None);
    }
    let entry = smgr.fork(rel, fork);
    let file = match smgr.open_segment(&entry, rel, fork, segment, false) {
        Ok((file, _)) => file,
        Err(_) if !smgr.sync_queue().still_wanted(&key) => return Ok(None),
        Err(error) => return Err(error),
    };
    let sync = Io::new(file.clone(), Op::Fsync, Target::File).account(
        IoObject::Relation,
        IoContext::Normal,
        IoOp::Fsync,
    );
    let since = Instant::now();
    Ok(Some(InFlight { wait: io.start(sync), key, file, since }))
}

fn finish_oldest(
    queue: &SyncQueue,
    io: &mut aio::Backend,
    in_flight: &mut VecDeque<InFlight>,
    report: &mut SyncReport,
    failure: &mut Option<StorageError>,
) {
    let Some(oldest) = in_flight.pop_front() else { return };
    match io.wait(oldest.wait).check() {
        Ok(_) => {
            let took = oldest.since.elapsed();
            report.files += 1;
            report.longest = report.longest.max(took);
            report.total += took;
        }
        Err(error) if !queue.still_wanted(&oldest.key) => {
            tracing::info!(%error, "of a file that is gone");
        }
        Err(error) => {
            forebay_aio::planted_bug!(io.aio(), SyncFailureIgnored, {
                report.files += 1;
                return queue.done(&oldest.key);
            });
            let errno = error.errno().unwrap_or(Errno::IO);
            // A sync that failed outweighs a file that could not be opened.
            *failure = Some(StorageError::Sync { file: oldest.file.path().to_path_buf(), errno });
        }
    }
    queue.done(&oldest.key);
}
