//! A round of the checkpointer.

use forebay_aio::sync::Duration;
use forebay_storage::Backend;

use super::run;
use crate::checkpointer::{Causes, Work};
use crate::config::Background;
use crate::core::Core;

/// How long the checkpointer waits after a failure, unless a checkpoint is requested.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// A round: sleeps until a checkpoint is requested or due, and makes it. False: the engine stops or
/// has stopped, and the thread ends.
pub(crate) fn step(core: &Core, backend: &mut Backend) -> bool {
    let checkpointer = &core.checkpointer;
    let due = || checkpointer.progress.lock().began + core.writing().checkpoint_timeout;
    let (number, causes) = match checkpointer.requests.sleep(due) {
        Work::Stop => return false,
        Work::Checkpoint(number, causes) => (number, causes),
        Work::Deadline => (0, Causes::TIME),
    };
    if core.fatal.has_stopped() {
        // The waiters notice that themselves.
        return false;
    }
    let result = run::checkpoint(core, backend, causes);
    let failure = result.err().map(|error| {
        let error = core.fatal.check(error);
        tracing::error!("checkpoint failed: {error}");
        error.to_string()
    });
    let failed = failure.is_some();
    checkpointer.requests.served(number, failure);
    // An embedding program that does the background's work decides itself when to try again.
    if failed && core.config.background == Background::Threads {
        checkpointer.requests.pause(AFTER_ERROR);
    }
    true
}
