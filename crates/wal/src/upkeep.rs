//! The log's segments from outside: prepared ahead of need, marked for the archive, counted.

use forebay_aio::{
    Backend,
    sync::{Arc, Duration},
};

use crate::{
    error::WalError,
    segments::{ArchiveFeed, SegmentPolicy, SegmentStats},
    wal::Wal,
};

impl Wal {
    /// Makes the segments that the log will need next, ahead of need. True if there was something
    /// to do. Want of room is no harm yet: those who insert will find out, and try themselves.
    pub fn prepare_segments(&self, io: &mut Backend) -> Result<bool, WalError> {
        self.check()?;
        self.segments.prepare(io).map_err(|e| self.note(e))
    }

    /// Sleeps until segments are wanted, somebody calls [`Wal::wake_preparer`], or the time is
    /// over.
    pub fn rest_until_segments_are_wanted(&self, time: Duration) {
        self.segments.demand().rest(time);
    }

    /// Sits out `time` after [`Wal::prepare_segments`] has failed; true if there is a reason to try
    /// again before: somebody could make a segment, an old one has gone, or [`Wal::wake_preparer`]
    /// was called.
    pub fn sit_out_failure(&self, time: Duration) -> bool {
        self.segments.demand().sit_out(time)
    }

    /// Wakes whoever sleeps until segments are wanted, also after a failure.
    pub fn wake_preparer(&self) {
        self.segments.demand().ring();
        self.segments.demand().relieve();
    }

    /// Changes how segments are made and what becomes of old ones.
    pub fn set_segment_policy(&self, policy: SegmentPolicy) {
        self.segments.set_policy(policy);
    }

    /// From now on each completed segment is marked for the archive, and none goes before it is
    /// marked as archived.
    pub fn start_archiving(&self) -> Result<(), WalError> {
        self.check()?;
        self.segments.start_archiving(self.flushed_lsn()).map_err(|e| self.note(e))
    }

    /// Who is told the name of each segment that is marked for the archive from now on. To be set
    /// before [`Wal::start_archiving`], or what that marks is found by a look at the marks only.
    pub fn feed_archiver(&self, feed: Option<Arc<ArchiveFeed>>) {
        self.segments.feed_archiver(feed);
    }

    /// Marks a file that is no completed segment for the archive, if there is one: a history file,
    /// the part of a segment where a timeline was left.
    pub fn announce(&self, name: &str) {
        self.segments.announce(name);
    }

    /// What became of segment files since the log was started.
    pub fn segment_stats(&self) -> SegmentStats {
        self.segments.stats()
    }

    /// Is there an archive?
    pub fn is_archiving(&self) -> bool {
        self.segments.is_archiving()
    }

    /// Removes what `archive_status` says of a file that is gone.
    pub fn forget_archived(&self, name: &str) {
        if self.poison.get().is_none() {
            self.segments.forget_archived(name);
        }
    }
}
