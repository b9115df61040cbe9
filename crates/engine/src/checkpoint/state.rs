//! The checkpointer's state, which sessions share with it.

use forebay_aio::sync::{Instant, Mutex};
use forebay_format::Lsn;

use super::report::Totals;
use super::requests::{Causes, Requests};

/// The checkpointer's state.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    pub(crate) requests: Requests,
    /// One checkpoint at a time.
    pub(super) progress: Mutex<Progress>,
    pub(crate) totals: Totals,
}

/// What one checkpoint leaves to the next.
#[derive(Debug)]
pub(super) struct Progress {
    /// When the last one began.
    pub(super) began: Instant,
    /// Where the last one's record ends: nothing behind it means there is nothing to do.
    pub(super) end: Lsn,
    pub(super) redo: Lsn,
    /// How much WAL a cycle makes, smoothed.
    pub(super) estimate: f64,
    /// WAL segments made since the start.
    pub(super) segments_made: u64,
}

impl Checkpointer {
    /// After recovery or a clean start: the last checkpoint's record ends at `end`.
    pub(crate) fn new(redo: Lsn, end: Lsn) -> Checkpointer {
        Checkpointer {
            requests: Requests::default(),
            progress: Mutex::new(Progress {
                began: Instant::now(),
                end,
                redo,
                estimate: 0.0,
                segments_made: 0,
            }),
            totals: Totals::default(),
        }
    }

    /// Asks for a checkpoint if the log has grown by `trigger` bytes or more since the last one.
    pub(crate) fn note_wal(&self, since_redo: u64, trigger: u64) {
        if since_redo >= trigger {
            self.requests.ask_once(Causes::WAL);
        }
    }
}
