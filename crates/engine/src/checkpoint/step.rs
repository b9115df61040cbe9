//! A round of the checkpointer.

use forebay_aio::sync::Duration;
use forebay_storage::Backend;

use super::requests::{Causes, Work};
use super::run;
use crate::config::Background;
use crate::core::Core;

/// How long the checkpointer waits after a failure, unless someone asks for a checkpoint.
const AFTER_ERROR: Duration = Duration::from_secs(1);

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
