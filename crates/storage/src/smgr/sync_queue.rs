//! Sync requests: collected while files are written, one for each segment, and served by the
//! checkpoint.
//!
//! A request is made when a write has *ended*, and before its pages turn clean. If it were made
//! when the write starts, a checkpoint in between could take it, and the write would have none.

use crate::error::StorageError;
use forebay_aio::sync::{Mutex, MutexGuard};
use forebay_format::{Fork, Oid, PageTag, RelFileLocator};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A segment file: relation, fork, segment number.
pub(super) type SegmentKey = (RelFileLocator, Fork, u32);

/// Pending requests.
pub(crate) struct SyncQueue {
    segment_blocks: u32,
    /// False for files that need not survive a crash: they are never synced.
    enabled: bool,
    requests: Mutex<Requests>,
    /// Held by the checkpoint that serves the requests.
    round: Mutex<()>,
}

#[derive(Default)]
struct Requests {
    pending: BTreeSet<SegmentKey>,
    directories: BTreeSet<PathBuf>,
    /// Segments that the present round has taken and not yet synced. A drop removes its own.
    taken: BTreeSet<SegmentKey>,
    /// The sync that failed. No sync is started after it.
    failed: Option<StorageError>,
}

impl SyncQueue {
    pub(crate) fn new(segment_blocks: u32) -> Self {
        SyncQueue {
            segment_blocks,
            enabled: true,
            requests: Mutex::default(),
            round: Mutex::new(()),
        }
    }

    /// Makes a queue that ignores all requests.
    pub(crate) fn disabled(segment_blocks: u32) -> Self {
        SyncQueue { enabled: false, ..SyncQueue::new(segment_blocks) }
    }

    /// Requests a sync of the segment of a page that was written.
    pub(crate) fn request(&self, tag: &PageTag) {
        self.request_segment(tag.rel, tag.fork, tag.block / self.segment_blocks);
    }

    /// Requests a sync of a segment that was created, written, extended or truncated.
    pub(crate) fn request_segment(&self, rel: RelFileLocator, fork: Fork, segment: u32) {
        if self.enabled {
            self.requests.lock().pending.insert((rel, fork, segment));
        }
    }

    /// Requests a sync of the directory in which a name was made or removed.
    pub(crate) fn request_directory(&self, of: &Path) {
        if let Some(dir) = of.parent()
            && self.enabled
        {
            let mut requests = self.requests.lock();
            if !requests.directories.contains(dir) {
                requests.directories.insert(dir.to_path_buf());
            }
        }
    }

    /// Drops the requests of a removed fork, also those that a round has taken.
    pub(crate) fn forget(&self, rel: RelFileLocator, fork: Fork) {
        let mut requests = self.requests.lock();
        remove_fork(&mut requests.pending, rel, fork);
        remove_fork(&mut requests.taken, rel, fork);
    }

    /// Drops the requests of a database that is removed.
    pub(crate) fn forget_database(&self, database: Oid) {
        let mut requests = self.requests.lock();
        requests.pending.retain(|(rel, ..)| rel.db != database);
        requests.taken.retain(|(rel, ..)| rel.db != database);
    }

    /// Drops the request of a removed segment.
    pub(crate) fn forget_segment(&self, rel: RelFileLocator, fork: Fork, segment: u32) {
        let mut requests = self.requests.lock();
        requests.pending.remove(&(rel, fork, segment));
        requests.taken.remove(&(rel, fork, segment));
    }

    pub(crate) fn is_empty(&self) -> bool {
        let requests = self.requests.lock();
        requests.pending.is_empty() && requests.directories.is_empty() && requests.taken.is_empty()
    }

    /// Locks out other rounds.
    pub(super) fn begin_round(&self) -> MutexGuard<'_, ()> {
        self.round.lock()
    }

    /// Takes all pending requests for a round.
    pub(super) fn take(&self) -> (Vec<SegmentKey>, BTreeSet<PathBuf>) {
        let mut requests = self.requests.lock();
        requests.taken = std::mem::take(&mut requests.pending);
        (requests.taken.iter().copied().collect(), std::mem::take(&mut requests.directories))
    }

    /// Marks a segment as synced.
    pub(super) fn done(&self, key: &SegmentKey) {
        self.requests.lock().taken.remove(key);
    }

    /// Whether a segment that the round has taken still needs its sync.
    pub(super) fn is_wanted(&self, key: &SegmentKey) -> bool {
        self.requests.lock().taken.contains(key)
    }

    /// Returns the sync error of an earlier round, if there was one.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        self.requests.lock().failed.clone().map_or(Ok(()), Err)
    }

    /// Puts the requests back that a failed round has not served. A failed sync is remembered.
    pub(super) fn put_back(&self, directories: BTreeSet<PathBuf>, failure: &StorageError) {
        let mut requests = self.requests.lock();
        if failure.is_fatal() {
            requests.failed = Some(failure.clone());
        }
        let taken = std::mem::take(&mut requests.taken);
        requests.pending.extend(taken);
        requests.directories.extend(directories);
    }
}

/// Looks at the fork's own requests only: after a bulk of DDL there are many of others.
fn remove_fork(keys: &mut BTreeSet<SegmentKey>, rel: RelFileLocator, fork: Fork) {
    let of_fork = (rel, fork, 0)..=(rel, fork, u32::MAX);
    while let Some(&key) = keys.range(of_fork.clone()).next() {
        keys.remove(&key);
    }
}
