//! The checkpointer's state.

use forebay_aio::sync::{Instant, Mutex};
use forebay_format::Lsn;

use super::report::Totals;
use super::requests::Requests;

/// The checkpointer's state.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    pub(crate) requests: Requests,
    /// One checkpoint at a time.
    pub(crate) progress: Mutex<Progress>,
    pub(crate) totals: Totals,
}

/// What a checkpoint leaves to the next.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When the last one began.
    pub(crate) began: Instant,
    /// Where the last one's record ends. Without later records the next one is skipped.
    pub(crate) end: Lsn,
    pub(crate) redo: Lsn,
    /// Smoothed number of bytes of WAL between checkpoints.
    pub(crate) estimate: f64,
    /// WAL segments made since the engine was opened.
    pub(crate) segments_made: u64,
}

impl Checkpointer {
    /// The state at a start. The last checkpoint's record ends at `end`.
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
}
