//! Something that is done at even intervals while something else runs.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work`, and `tick` at every multiple of the interval since the start until `work` has
/// ended. A tick that takes longer leaves out those that it has missed. The argument of `tick` is
/// the time since the start.
///
/// # Errors
/// The error of `work` or of `tick`. After one of `tick` there is no other tick.
pub fn beside<T>(
    interval: Duration,
    mut tick: impl FnMut(Duration) -> Result<(), String> + Send,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let begun = Instant::now();
    let (ended, told) = channel::<()>();
    thread::scope(|scope| {
        let ticking = scope.spawn(move || {
            let mut number = 1;
            loop {
                let next = interval * number;
                // The sender is dropped when the work has ended.
                match told.recv_timeout(next.saturating_sub(begun.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => tick(begun.elapsed())?,
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
                let passed = begun.elapsed().as_nanos() / interval.as_nanos().max(1);
                number = (number + 1).max(u32::try_from(passed).map_err(|e| e.to_string())? + 1);
            }
        });
        let result = work();
        drop(ended);
        let ticked: Result<(), String> =
            ticking.join().map_err(|_| "the thread of ticks panicked".to_owned())?;
        ticked.and(result)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::beside;

    #[test]
    fn ticks_end_with_the_work() {
        let (ticked, ticks) = channel();
        let interval = Duration::from_millis(5);
        let tick = |at: Duration| {
            assert!(at >= interval, "{at:?}");
            ticked.send(at).map_err(|e| e.to_string())
        };
        let third = beside(interval, tick, || {
            ticks
                .recv()
                .and_then(|_| ticks.recv())
                .and_then(|_| ticks.recv())
                .map_err(|e| e.to_string())
        });
        assert!(third.is_ok_and(|third| third >= 3 * interval));
    }

    #[test]
    fn errors_are_told() {
        let hour = Duration::from_secs(3600);
        assert_eq!(
            beside(hour, |_| Ok(()), || Err::<(), _>("work".to_owned())),
            Err("work".to_owned())
        );
        let (failed, failure) = channel();
        let tick = |_| {
            failed.send(()).map_err(|e| e.to_string())?;
            Err("tick".to_owned())
        };
        let wait = || failure.recv().map_err(|e| e.to_string());
        assert_eq!(beside(Duration::from_millis(1), tick, wait), Err("tick".to_owned()));
    }
}
