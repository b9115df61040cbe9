//! What is to be done next: by what is known, under the lock; the doing comes after it.

use forebay_aio::Backend;
use forebay_aio::sync::{Arc, Duration, Instant};

use super::{Archiver, Inner, Next, StopMode};
use crate::error::Result;
use crate::module::ArchiveModule;
use crate::names::WalName;
use crate::status::Acknowledged;

/// What has been transferred is taken note of after this time at the latest.
const BATCH_TIME: Duration = Duration::from_millis(50);
/// And at the latest when there are so many.
const BATCH_FILES: usize = 4096;
/// How long marks are left alone that could not be changed.
const AFTER_BAD_MARK: Duration = Duration::from_secs(1);
/// How long nothing is tried after a command was killed or could not be run: PostgreSQL starts its
/// archiver anew after that time.
pub(super) const RESTART: Duration = Duration::from_secs(10);
/// How long nothing is tried with a module that is not set up.
const UNCONFIGURED: Duration = Duration::from_secs(60);

/// One thing to do.
pub(super) enum Task {
    /// Start a module up.
    Start(Arc<dyn ArchiveModule>),
    /// Ask a module whether it is set up.
    Check(Arc<dyn ArchiveModule>),
    /// End a module that is not used any more.
    Retire(Arc<dyn ArchiveModule>),
    /// Transfer a file.
    Transfer(WalName, Arc<dyn ArchiveModule>),
    /// Take note of what has been transferred.
    Acknowledge(Vec<WalName>),
    /// Wait.
    Rest(Option<Duration>),
    /// It is over.
    End,
}

impl Archiver {
    /// The next thing to do.
    pub(super) fn decide(&self, inner: &mut Inner, now: Instant) -> Task {
        if inner.ended || inner.dead {
            return Task::End;
        }
        let idle = inner.queue.flying() == 0 && !inner.modules.busy;
        if idle
            && let Some(next) = inner.modules.next.take()
            && let Some(old) = exchange(inner, next)
        {
            return Task::Retire(old);
        }
        let since = inner.queue.acknowledgeable().filter(|_| !inner.acknowledging);
        let to_note = since.filter(|_| inner.acknowledge_after.is_none_or(|after| after <= now));
        let much = |since| now >= since + BATCH_TIME || inner.queue.unacknowledged() >= BATCH_FILES;
        if to_note.is_some_and(much) {
            return self.note(inner);
        }
        match self.next_transfer(inner, now) {
            Ok(task) => task,
            Err(_) if to_note.is_some() => self.note(inner),
            Err(_) if is_over(inner, now) => self.end(inner),
            Err(rest) => {
                Task::Rest(earliest(rest, inner.acknowledge_after.filter(|_| since.is_some()), now))
            }
        }
    }

    fn note(&self, inner: &mut Inner) -> Task {
        inner.acknowledging = true;
        Task::Acknowledge(inner.queue.prefix(BATCH_FILES))
    }

    /// Something to transfer, or to prepare for it. Err: when there may be something, if ever by
    /// itself.
    fn next_transfer(&self, inner: &mut Inner, now: Instant) -> Result<Task, Option<Duration>> {
        let until = |at: Instant| Some(at.saturating_duration_since(now));
        if inner.stop == Some(StopMode::Now) || inner.gave_up || inner.modules.next.is_some() {
            return Err(None);
        }
        if !inner.queue.has_work(now) {
            return Err(inner.queue.next_due().and_then(until));
        }
        if let Some(paused) = inner.paused_until {
            if paused > now {
                return Err(until(paused));
            }
            inner.paused_until = None;
        }
        let Some(module) = inner.modules.current.clone() else {
            if inner.stop.is_some() {
                inner.gave_up = true;
                return Err(None);
            }
            unconfigured("No archive module is set.");
            inner.paused_until = Some(now + UNCONFIGURED);
            return Err(Some(UNCONFIGURED));
        };
        if inner.modules.busy || inner.queue.flying() >= self.limit(inner) {
            return Err(None);
        }
        if !inner.modules.started || !inner.modules.checked {
            inner.modules.busy = true;
            let start = !inner.modules.started;
            return Ok(if start { Task::Start(module) } else { Task::Check(module) });
        }
        let name = inner.queue.take(now).ok_or(None)?;
        if inner.queue.flying() < self.limit(inner) && inner.queue.has_work(now) {
            // Each that finds work calls the next.
            self.bell.notify_one();
        }
        Ok(Task::Transfer(name, module))
    }

    fn end(&self, inner: &mut Inner) -> Task {
        inner.ended = true;
        self.bell.notify_all();
        match inner.modules.current.take().filter(|_| inner.modules.started) {
            Some(module) => Task::Retire(module),
            None => Task::End,
        }
    }

    /// Does it.
    pub(super) fn perform(&self, io: &mut Backend, task: Task, now: Instant) -> Result<Next> {
        match task {
            Task::Rest(time) => return Ok(Next::Rest(time)),
            Task::End => return Ok(Next::Ended),
            Task::Start(module) => self.start_up(&module, now),
            Task::Check(module) => self.check(&module, now),
            Task::Retire(module) => module.shutdown(),
            // Nobody is called after these two: who does them looks himself for what there is to do
            // now.
            Task::Transfer(name, module) => {
                self.transfer(io, &name, &module, now);
                return Ok(Next::Worked);
            }
            Task::Acknowledge(names) => {
                self.acknowledge(&names, now)?;
                return Ok(Next::Worked);
            }
        }
        self.bell.notify_all();
        Ok(Next::Worked)
    }

    fn start_up(&self, module: &Arc<dyn ArchiveModule>, now: Instant) {
        let started = module.startup();
        let mut inner = self.inner.lock();
        inner.modules.busy = false;
        match started {
            Ok(()) => inner.modules.started = true,
            Err(e) => {
                tracing::warn!("could not start archive module \"{}\": {e}", module.name());
                give_up_for(&mut inner, now, RESTART);
            }
        }
    }

    fn check(&self, module: &Arc<dyn ArchiveModule>, now: Instant) {
        let checked = module.check_configured();
        let mut inner = self.inner.lock();
        inner.modules.busy = false;
        match checked {
            Ok(()) => inner.modules.checked = true,
            Err(why) => {
                unconfigured(&why);
                give_up_for(&mut inner, now, UNCONFIGURED);
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
        let noted = names.get(..acknowledged.done).unwrap_or(names);
        let mut inner = self.inner.lock();
        inner.acknowledging = false;
        inner.queue.acknowledged(noted, Instant::now());
        inner.stats.archived(noted);
        inner.acknowledge_after = acknowledged.failed.map(|e| {
            tracing::warn!("{e}");
            now + AFTER_BAD_MARK
        });
        Ok(())
    }
}

/// Whether all has been done that a stop leaves to be done.
fn is_over(inner: &Inner, now: Instant) -> bool {
    let idle = inner.queue.flying() == 0 && !inner.acknowledging && !inner.modules.busy;
    // What could not be noted stays marked, and is archived again after the next start.
    let noted = inner.queue.acknowledgeable().is_none() || inner.acknowledge_after.is_some();
    let done = match inner.stop {
        None => false,
        Some(StopMode::Now) => true,
        Some(StopMode::Drain) => inner.gave_up || inner.queue.backlog(now).files == 0,
    };
    idle && noted && done
}

/// Nothing is tried for some time; in a stop, nothing any more.
pub(super) fn give_up_for(inner: &mut Inner, now: Instant, time: Duration) {
    inner.paused_until = Some(now + time);
    inner.gave_up |= inner.stop.is_some();
}

/// Puts a module in the place of another. The other one, if it has to be ended.
fn exchange(
    inner: &mut Inner,
    next: Option<Arc<dyn ArchiveModule>>,
) -> Option<Arc<dyn ArchiveModule>> {
    let modules = &mut inner.modules;
    let old = std::mem::replace(&mut modules.current, next);
    modules.checked = false;
    old.filter(|_| std::mem::take(&mut modules.started))
}

fn unconfigured(why: &str) {
    tracing::warn!("\"archive_mode\" enabled, yet archiving is not configured: {why}");
}

fn earliest(rest: Option<Duration>, at: Option<Instant>, now: Instant) -> Option<Duration> {
    let other = at.map(|at| at.saturating_duration_since(now));
    match (rest, other) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
