//! Checkpoints: everything up to a point in the log is made durable in the files, so that recovery
//! may begin there and older WAL can go.
//!
//! - `requests`: who wants one, and who waits for it
//! - `run`: making one
//! - `pace`: how fast its pages are written
//! - `report`: counters and log lines
//!
//! [`step`] is one round of the checkpointer's thread.

mod pace;
pub(crate) mod report;
pub(crate) mod requests;
pub(crate) mod run;

use forebay_aio::sync::{Duration, Instant, Mutex};

use forebay_format::Lsn;
use forebay_storage::Backend;

use crate::config::Background;
use crate::core::Core;
use report::Totals;
use requests::{Causes, Requests, Work};

/// How long the checkpointer waits after a failure, unless someone asks for a checkpoint.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// The checkpointer's state.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    pub(crate) requests: Requests,
    /// One checkpoint at a time.
    progress: Mutex<Progress>,
    pub(crate) totals: Totals,
}

/// What one checkpoint leaves to the next.
#[derive(Debug)]
struct Progress {
    /// When the last one began.
    began: Instant,
    /// Where the last one's record ends: nothing behind it means there is nothing to do.
    end: Lsn,
    redo: Lsn,
    /// How much WAL a cycle makes, smoothed.
    estimate: f64,
    /// WAL segments made since the start.
    segments_made: u64,
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

    /// Asks for a checkpoint if the log has grown too much since the last one.
    pub(crate) fn note_wal(&self, since_redo: u64, core: &Core) {
        if since_redo >= core.wal_trigger() {
            self.requests.ask_once(Causes::WAL);
        }
    }
}

/// One round: sleeps until someone wants a checkpoint or one is due, and makes it. False: the
/// thread is to end, as the engine stops or has had to.
pub(crate) fn step(core: &Core, be: &mut Backend) -> bool {
    let checkpointer = &core.checkpointer;
    let due = || checkpointer.progress.lock().began + core.writing().checkpoint_timeout;
    let (number, causes) = match checkpointer.requests.sleep(due) {
        Work::Stop => return false,
        Work::Checkpoint(number, causes) => (number, causes),
        Work::Deadline => (0, Causes::TIME),
    };
    if core.fatal.has_stopped() {
        // The waiters check for that themselves.
        return false;
    }
    let result = run::checkpoint(core, be, causes);
    let failure = result.err().map(|error| {
        let error = core.fatal.check(error);
        tracing::error!("checkpoint failed: {error}");
        error.to_string()
    });
    let failed = failure.is_some();
    checkpointer.requests.served(number, failure);
    // Who does the background's work itself decides when to try again.
    if failed && core.config.background == Background::Threads {
        checkpointer.requests.pause(AFTER_ERROR);
    }
    true
}
