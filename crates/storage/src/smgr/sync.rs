//! Serving the sync requests: all files asynchronously, then the directories.
//!
//! A failed sync is final. The kernel may have dropped the pages and does not report the error
//! again. So the error is fatal: every later round returns it and syncs nothing. A file or
//! directory that could not be opened keeps its request. If a file is removed during its sync, the
//! result does not matter.

use super::manager::Smgr;
use super::sync_queue::{SegmentKey, SyncQueue};
use crate::error::{StorageError, errno_of, file_error};
use forebay_aio::sync::{Duration, Instant};
use forebay_aio::{
    self as aio, AioError, Errno, File, Io, IoContext, IoObject, IoOp, Op, Target, WaitRef,
};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Syncs in flight at once.
const DEPTH: usize = 16;

/// What [`Smgr::sync_pending`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Files synced.
    pub files: u64,
    /// Directories synced.
    pub directories: u64,
    /// The longest time from a file's sync being started to its end being noticed.
    pub longest: Duration,
    /// The sum of those times. Several syncs run at once, so it can exceed the time that passed.
    pub total: Duration,
    /// Pages that `BufferPool::sync_pending` read back.
    pub read_back: u64,
    /// The time that reading back took.
    pub read_back_time: Duration,
}

impl SyncReport {
    /// Returns the numbers of files and directories.
    pub fn counts(&self) -> (u64, u64) {
        (self.files, self.directories)
    }
}

/// A sync in flight.
struct InFlight {
    wait: WaitRef,
    key: SegmentKey,
    file: File,
    since: Instant,
}

impl Smgr {
    /// Syncs every file and directory with a pending request. Several files are synced at once.
    pub fn sync_pending(&self, io: &mut aio::IoBackend) -> Result<SyncReport, StorageError> {
        io.submit();
        let queue = self.sync_queue();
        let _round = queue.begin_round();
        let mut checked = queue.check();
        forebay_aio::planted_bug!(self.aio(), StopIgnored, checked = Ok(()));
        checked?;
        let (mut keys, mut directories) = queue.take();
        forebay_aio::planted_bug!(self.aio(), SyncRequestForgotten, keys.pop());
        forebay_aio::planted_bug!(self.aio(), SyncSkipsDirectories, directories.clear());
        let mut report = SyncReport::default();
        let mut in_flight: VecDeque<InFlight> = VecDeque::with_capacity(DEPTH);
        let mut failure = None;
        for key in keys {
            if in_flight.len() == DEPTH {
                finish_oldest(queue, io, &mut in_flight, &mut report, &mut failure);
            }
            match start(self, io, key) {
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
            failure = sync_directories(self, &directories, &mut report).err();
        }
        match failure {
            None => Ok(report),
            Some(error) => {
                queue.put_back(directories, &error);
                Err(error)
            }
        }
    }
}

/// Syncs directories up to the first error.
fn sync_directories(
    smgr: &Smgr,
    directories: &BTreeSet<PathBuf>,
    report: &mut SyncReport,
) -> Result<(), StorageError> {
    for dir in directories {
        match sync_directory(smgr, dir) {
            Ok(()) => report.directories += 1,
            // A directory that was removed needs no sync.
            Err(e) if e.is_not_found() => {}
            Err(e) if e.is_failed_sync() => {
                return Err(StorageError::Sync { file: dir.clone(), errno: errno_of(&e) });
            }
            Err(e) => return Err(file_error("open", dir, &e)),
        }
    }
    Ok(())
}

/// Makes a directory's names durable. If no descriptor is left for that, closes the cached files
/// and tries again.
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

/// Starts the sync of a segment; None if the segment was dropped meanwhile.
fn start(
    smgr: &Smgr,
    io: &mut aio::IoBackend,
    key: SegmentKey,
) -> Result<Option<InFlight>, StorageError> {
    let (rel, fork, segment) = key;
    if !smgr.sync_queue().is_wanted(&key) {
        return Ok(None);
    }
    let entry = smgr.fork(rel, fork);
    let file = match smgr.open_segment(&entry, segment, false) {
        Ok((file, _)) => file,
        Err(_) if !smgr.sync_queue().is_wanted(&key) => return Ok(None),
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
    io: &mut aio::IoBackend,
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
        Err(error) if !queue.is_wanted(&oldest.key) => {
            tracing::info!(%error, "sync of a file that was removed meanwhile");
        }
        Err(error) => {
            forebay_aio::planted_bug!(io.aio(), SyncFailureIgnored, {
                report.files += 1;
                return queue.done(&oldest.key);
            });
            // A failed sync outweighs a file that could not be opened.
            let file = oldest.file.path().to_path_buf();
            *failure = Some(StorageError::Sync { file, errno: errno_of(&error) });
        }
    }
    queue.done(&oldest.key);
}
