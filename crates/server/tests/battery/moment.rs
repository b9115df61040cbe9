//! The moment of a crash: so many commits, and a little time.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Waits until `enough` commits were reported, and then for `time`. Returns at once when all
/// clients have failed, as they will tell.
pub fn wait(commits: &Receiver<()>, enough: u64, time: Duration) {
    if commits.iter().take(enough as usize).count() == enough as usize {
        // Nothing is ever sent: this waits for the time.
        let (_never, nothing) = channel::<()>();
        assert_eq!(nothing.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    }
}
