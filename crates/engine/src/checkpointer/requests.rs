//! Requests for checkpoints.
//!
//! Requests are numbered. A checkpoint serves every request made before it begins. A request made
//! while one runs needs the next.

use forebay_aio::sync::{Condvar, Duration, Instant, Mutex};

/// Why a checkpoint is made. Several causes can come together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Causes {
    /// A session asked for it, and wants it fast.
    pub demand: bool,
    /// max_wal_size would be passed.
    pub wal: bool,
    /// checkpoint_timeout is over.
    pub time: bool,
    /// The engine stops.
    pub shutdown: bool,
    /// Recovery has ended.
    pub recovery: bool,
}

impl Causes {
    /// A session asked.
    pub(crate) const DEMAND: Causes =
        Causes { demand: true, wal: false, time: false, shutdown: false, recovery: false };
    /// Too much WAL.
    pub(crate) const WAL: Causes = Causes { demand: false, wal: true, ..Causes::DEMAND };
    /// Too much time.
    pub(crate) const TIME: Causes = Causes { demand: false, time: true, ..Causes::DEMAND };
    /// At stop.
    pub(crate) const SHUTDOWN: Causes = Causes { demand: false, shutdown: true, ..Causes::DEMAND };
    /// At the end of recovery.
    pub(crate) const RECOVERY: Causes = Causes { demand: false, recovery: true, ..Causes::DEMAND };

    fn and(self, other: Causes) -> Causes {
        Causes {
            demand: self.demand | other.demand,
            wal: self.wal | other.wal,
            time: self.time | other.time,
            shutdown: self.shutdown | other.shutdown,
            recovery: self.recovery | other.recovery,
        }
    }

    /// Whether it is made as fast as the disk allows.
    pub(crate) fn immediate(self) -> bool {
        self.demand || self.shutdown || self.recovery
    }

    /// PostgreSQL's words for the log.
    pub(crate) fn words(self) -> String {
        let mut words = String::new();
        for (on, word) in [
            (self.shutdown, " shutdown"),
            (self.recovery, " end-of-recovery"),
            (self.immediate(), " fast"),
            (self.demand, " force wait"),
            (self.wal, " wal"),
            (self.time, " time"),
        ] {
            if on {
                words.push_str(word);
            }
        }
        words
    }
}

#[derive(Debug, Default)]
struct State {
    /// Number of the last request.
    requested: u64,
    /// The last request that the running or last checkpoint serves.
    begun: u64,
    /// The last request that is served.
    done: u64,
    /// The error of the last checkpoint, for its waiters, and the last request that it served.
    failure: Option<(u64, String)>,
    causes: Causes,
    stop: bool,
}

impl State {
    fn is_urgent(&self) -> bool {
        self.stop || self.requested > self.begun && self.causes.immediate()
    }
}

/// Requests for checkpoints.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    state: Mutex<State>,
    /// The checkpointer waits for it.
    work: Condvar,
    /// Sessions that requested a checkpoint wait for it.
    served: Condvar,
}

/// What the checkpointer has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Requests up to this number, for these causes.
    Checkpoint(u64, Causes),
    /// There was no request before the deadline.
    Deadline,
    /// The engine stops.
    Stop,
}

impl Requests {
    /// Requests a checkpoint. The number is for [`Requests::wait_for`].
    pub(crate) fn ask(&self, causes: Causes) -> u64 {
        let mut state = self.state.lock();
        state.requested += 1;
        state.causes = state.causes.and(causes);
        self.work.notify_one();
        state.requested
    }

    /// Requests a checkpoint, unless a request waits already.
    pub(crate) fn ask_once(&self, causes: Causes) {
        let mut state = self.state.lock();
        if state.requested == state.begun {
            state.requested += 1;
            state.causes = state.causes.and(causes);
            self.work.notify_one();
        }
    }

    /// Waits until a request is served. Calls `interrupted` now and then. The inner error is the
    /// checkpoint's.
    pub(crate) fn wait_for<E>(
        &self,
        number: u64,
        mut interrupted: impl FnMut() -> Result<(), E>,
    ) -> Result<Result<(), String>, E> {
        const LOOK: Duration = Duration::from_millis(100);
        let mut state = self.state.lock();
        loop {
            if state.done >= number {
                let failed = state.failure.as_ref().filter(|(upto, _)| *upto >= number);
                return Ok(failed.map_or(Ok(()), |(_, message)| Err(message.clone())));
            }
            if state.stop {
                return Ok(Err("the system is shutting down".to_owned()));
            }
            interrupted()?;
            self.served.wait_for(&mut state, LOOK);
        }
    }

    /// The checkpointer's sleep: until a request, the deadline, or the stop. A nudge reads the
    /// deadline again.
    pub(crate) fn sleep(&self, deadline: impl Fn() -> Instant) -> Work {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return Work::Stop;
            }
            if state.requested > state.begun {
                state.begun = state.requested;
                let causes = std::mem::take(&mut state.causes);
                return Work::Checkpoint(state.begun, causes);
            }
            if self.work.wait_until(&mut state, deadline()).timed_out() {
                return if state.stop || state.requested > state.begun {
                    continue;
                } else {
                    Work::Deadline
                };
            }
        }
    }

    /// Whether a request waits for a checkpoint to begin.
    pub(crate) fn is_waiting(&self) -> bool {
        let state = self.state.lock();
        state.requested > state.begun && !state.stop
    }

    /// Makes the checkpointer read its settings again.
    pub(crate) fn nudge(&self) {
        let _state = self.state.lock();
        self.work.notify_all();
    }

    /// Whether the running checkpoint must hurry: the engine stops, or the next one is wanted fast.
    pub(crate) fn is_urgent(&self) -> bool {
        self.state.lock().is_urgent()
    }

    /// A sleep within a checkpoint: until the time is over, or there may be a reason to hurry.
    pub(crate) fn rest(&self, time: Duration) {
        let mut state = self.state.lock();
        if !state.stop {
            self.work.wait_for(&mut state, time);
        }
    }

    /// A pause between checkpoints: until the time is over, the engine stops, or a checkpoint is
    /// wanted fast.
    pub(crate) fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.is_urgent() && !self.work.wait_until(&mut state, until).timed_out() {}
    }

    /// Reports the end of the checkpoint that served requests up to `upto` to its waiters.
    pub(crate) fn served(&self, upto: u64, failure: Option<String>) {
        let mut state = self.state.lock();
        state.done = state.done.max(upto);
        state.failure = failure.map(|message| (upto, message));
        self.served.notify_all();
    }

    /// Makes the checkpointer end.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stop = true;
        self.work.notify_all();
        self.served.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_made_during_a_checkpoint_needs_another() {
        let requests = Requests::default();
        assert_eq!(requests.sleep(Instant::now), Work::Deadline);
        let first = requests.ask(Causes::DEMAND);
        assert_eq!(requests.sleep(Instant::now), Work::Checkpoint(first, Causes::DEMAND));
        let second = requests.ask(Causes::WAL);
        requests.served(first, None);
        assert_eq!(requests.wait_for(first, || Ok::<(), ()>(())), Ok(Ok(())));
        assert_eq!(requests.wait_for(second, || Err("interrupted")), Err("interrupted"));
        assert_eq!(requests.sleep(Instant::now), Work::Checkpoint(second, Causes::WAL));
        requests.served(second, Some("disk".to_owned()));
        assert_eq!(requests.wait_for(second, || Ok::<(), ()>(())), Ok(Err("disk".to_owned())));
    }

    #[test]
    fn requests_for_the_same_cause_are_merged() {
        let requests = Requests::default();
        requests.ask_once(Causes::WAL);
        requests.ask_once(Causes::WAL);
        assert_eq!(requests.sleep(Instant::now), Work::Checkpoint(1, Causes::WAL));
        assert_eq!(requests.sleep(Instant::now), Work::Deadline);
        requests.stop();
        assert_eq!(requests.sleep(Instant::now), Work::Stop);
    }

    #[test]
    fn a_pause_ends_early_only_for_a_fast_request() {
        const LONG: Duration = Duration::from_secs(86_400);
        let requests = Requests::default();
        requests.ask(Causes::WAL);
        assert!(!requests.is_urgent());
        requests.pause(Duration::from_millis(1));
        requests.ask(Causes::DEMAND);
        requests.pause(LONG);
        assert_eq!(
            requests.sleep(Instant::now),
            Work::Checkpoint(2, Causes::WAL.and(Causes::DEMAND))
        );
        assert!(!requests.is_urgent());
        requests.stop();
        requests.pause(LONG);
    }

    #[test]
    fn causes_are_told_in_postgresql_s_words() {
        assert_eq!(Causes::SHUTDOWN.words(), " shutdown fast");
        assert_eq!(Causes::DEMAND.words(), " fast force wait");
        assert_eq!(Causes::TIME.words(), " time");
    }
}
