//! Does what [`ArchiverState`](super::state::ArchiverState) decides, without holding its lock.

use forebay_aio::IoBackend;
use forebay_aio::sync::{Arc, Duration, Instant};

use super::control::Archiver;
use super::state::{AFTER_BAD_STATUS, RESTART, Task, UNCONFIGURED, warn_unconfigured};
use crate::error::{ArchiveError, Result};
use crate::module::ArchiveModule;
use crate::names::WalName;
use crate::status::Acknowledged;

/// What follows after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Something was done; there may be more to do.
    Worked,
    /// There is nothing to do until a file is announced, or until this time is over.
    Rest(Option<Duration>),
    /// The archiver has ended.
    Ended,
}

impl Archiver {
    /// Does one thing that is to be done at the time `now`, without waiting. An error is final.
    pub fn step(&self, io: &mut IoBackend, now: Instant) -> Result<Next> {
        let task = self.state.lock().decide(now, &self.changed);
        self.perform(io, task, now)
    }

    /// Works until the archiver is stopped. Several threads may call it. An error is final, and one
    /// of them returns it.
    pub fn run(&self, io: &mut IoBackend) -> Result<()> {
        loop {
            let now = Instant::now();
            let mut state = self.state.lock();
            let task = state.decide(now, &self.changed);
            if let Task::Rest(time) = task {
                match time {
                    Some(time) => drop(self.changed.wait_for(&mut state, time)),
                    None => self.changed.wait(&mut state),
                }
                continue;
            }
            drop(state);
            if self.perform(io, task, now)? == Next::Ended {
                return Ok(());
            }
        }
    }

    fn perform(&self, io: &mut IoBackend, task: Task, now: Instant) -> Result<Next> {
        match task {
            Task::Rest(time) => return Ok(Next::Rest(time)),
            Task::End => return Ok(Next::Ended),
            Task::Start(module) => self.start_up(&module, now),
            Task::Check(module) => self.check(&module, now),
            Task::ShutDown(module) => module.shutdown(),
            // After these two no other thread is woken: this one looks for the next task itself.
            Task::Transfer(name, module) => {
                self.transfer(io, &name, &module, now);
                return Ok(Next::Worked);
            }
            Task::Acknowledge(names) => {
                self.acknowledge(&names, now)?;
                return Ok(Next::Worked);
            }
        }
        self.changed.notify_all();
        Ok(Next::Worked)
    }

    fn start_up(&self, module: &Arc<dyn ArchiveModule>, now: Instant) {
        let started = module.startup();
        let mut state = self.state.lock();
        state.modules.busy = false;
        match started {
            Ok(()) => state.modules.started = true,
            Err(e) => {
                tracing::warn!("could not start archive module \"{}\": {e}", module.name());
                state.pause(now, RESTART);
            }
        }
    }

    fn check(&self, module: &Arc<dyn ArchiveModule>, now: Instant) {
        let checked = module.check_configured();
        let mut state = self.state.lock();
        state.modules.busy = false;
        match checked {
            Ok(()) => state.modules.checked = true,
            Err(why) => {
                warn_unconfigured(&why);
                state.pause(now, UNCONFIGURED);
            }
        }
    }

    fn acknowledge(&self, names: &[WalName], now: Instant) -> Result<()> {
        let acknowledged = match self.status.acknowledge(names) {
            Err(e) if e.is_fatal() => return Err(self.die(e)),
            // None of it is known to be durable yet.
            Err(e) => Acknowledged { done: 0, failed: Some(e) },
            Ok(acknowledged) => acknowledged,
        };
        let done = &names[..acknowledged.done];
        let mut state = self.state.lock();
        state.acknowledging = false;
        state.queue.acknowledged(done, Instant::now());
        state.stats.archived(done);
        state.acknowledge_after = acknowledged.failed.map(|e| {
            tracing::warn!("{e}");
            now + AFTER_BAD_STATUS
        });
        Ok(())
    }

    /// Ends the archiver because of a final error.
    fn die(&self, error: ArchiveError) -> ArchiveError {
        tracing::error!("archiver: {error}");
        self.state.lock().dead = true;
        self.changed.notify_all();
        error
    }
}
