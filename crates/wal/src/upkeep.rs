//! Maintenance of segments: preparing them ahead of need, archiving, counters.

use forebay_aio::{
    IoBackend,
    sync::{Arc, Duration},
};

use crate::{
    error::WalError,
    segments::{ArchiveFeed, GrowthWatcher, SegmentPolicy, SegmentStats},
    wal::Wal,
};

impl Wal {
    /// Makes the segments that the log will need next. Returns whether there was anything to do. If
    /// it fails for lack of room, no harm is done yet: inserters that need a segment make it.
    pub fn prepare_segments(&self, io: &mut IoBackend) -> Result<bool, WalError> {
        self.check()?;
        self.segments.prepare(io).map_err(|e| self.note(e))
    }

    /// Waits until segments are needed, [`Wal::wake_preparer`] is called, or `time` has passed.
    pub fn wait_for_segment_demand(&self, time: Duration) {
        self.segments.demand.wait(time);
    }

    /// Waits after [`Wal::prepare_segments`] has failed: until `time` has passed, or there is a
    /// reason to retry earlier. Returns whether there is one: an inserter has made a segment, an
    /// old one was removed, or [`Wal::wake_preparer`] was called.
    pub fn wait_to_retry_segments(&self, time: Duration) -> bool {
        self.segments.demand.wait_to_retry(time)
    }

    /// Wakes the thread that prepares segments, also after a failure.
    pub fn wake_preparer(&self) {
        self.segments.demand.request();
        self.segments.demand.allow_retry();
    }

    /// Changes how segments are made and whether old ones are recycled.
    pub fn set_segment_policy(&self, policy: SegmentPolicy) {
        self.segments.set_policy(policy);
    }

    /// Sets the callback that is told how far the log has grown, each time it enters a segment.
    pub fn watch_growth(&self, watcher: Arc<GrowthWatcher>) {
        *self.segments.watcher.lock() = Some(watcher);
    }

    /// Starts archiving: marks each completed segment for the archive, and keeps old segments until
    /// they are marked as archived.
    pub fn start_archiving(&self) -> Result<(), WalError> {
        self.check()?;
        self.segments.start_archiving(self.flushed_lsn()).map_err(|e| self.note(e))
    }

    /// Sets the callback that is given the name of each file that is marked for the archive. Files
    /// that were marked before it was set can only be found in `archive_status`.
    pub fn feed_archiver(&self, feed: Option<Arc<ArchiveFeed>>) {
        self.segments.status.set_feed(feed);
    }

    /// While archiving, marks a file other than a completed segment for the archive: a history
    /// file, or the partial segment at the end of a timeline.
    pub fn announce(&self, name: &str) {
        self.segments.announce(name);
    }

    /// Counts of segment files since the log was started.
    pub fn segment_stats(&self) -> SegmentStats {
        self.segments.stats()
    }

    /// Whether the log is archived.
    pub fn is_archiving(&self) -> bool {
        self.segments.status.is_on()
    }

    /// Removes the marks in `archive_status` of a file that was removed.
    pub fn forget_archived(&self, name: &str) {
        if self.poison.get().is_none() {
            self.segments.status.forget(name);
        }
    }
}
