//! What the threads of an archiver share, and the decision what to do next. It is made under the
//! lock and does no I/O.

use forebay_aio::sync::{Arc, Condvar, Duration, Instant};

use super::queue::Queue;
use super::stats::ArchiverStats;
use crate::module::ArchiveModule;
use crate::names::WalName;

/// Transferred files are acknowledged after this time at the latest,
const BATCH_TIME: Duration = Duration::from_millis(50);
/// or as soon as there are this many.
const BATCH_FILES: usize = 4096;
/// The pause after status files could not be renamed.
pub(super) const AFTER_BAD_STATUS: Duration = Duration::from_secs(1);
/// The pause after a command was killed or could not be run: PostgreSQL restarts its archiver after
/// this time.
pub(super) const RESTART: Duration = Duration::from_secs(10);
/// The pause with a module that is not configured.
pub(super) const UNCONFIGURED: Duration = Duration::from_secs(60);

/// How an archiver ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// After all waiting files are archived, or as soon as a file has failed three times.
    Drain,
    /// At once: transfers in flight are interrupted.
    Now,
}

/// One thing to do.
pub(super) enum Task {
    /// Start a module.
    Start(Arc<dyn ArchiveModule>),
    /// Ask a module whether it is configured.
    Check(Arc<dyn ArchiveModule>),
    /// Shut down a module that is not used any more.
    ShutDown(Arc<dyn ArchiveModule>),
    /// Transfer a file.
    Transfer(WalName, Arc<dyn ArchiveModule>),
    /// Mark transferred files as archived.
    Acknowledge(Vec<WalName>),
    /// Wait for a change, or for this time.
    Rest(Option<Duration>),
    /// The archiver has ended.
    End,
}

/// The module in use, and the one that replaces it.
#[derive(Default)]
pub(super) struct Modules {
    pub current: Option<Arc<dyn ArchiveModule>>,
    /// The current module was started.
    pub started: bool,
    /// The current module is configured, and nothing has failed since.
    pub checked: bool,
    /// A thread starts, checks or shuts down the module.
    pub busy: bool,
    /// Replaces the current module, perhaps by none, when no transfer is in flight.
    pub next: Option<Option<Arc<dyn ArchiveModule>>>,
}

impl Modules {
    /// Replaces the module. Returns the old one if it must be shut down.
    fn replace(&mut self, next: Option<Arc<dyn ArchiveModule>>) -> Option<Arc<dyn ArchiveModule>> {
        let old = std::mem::replace(&mut self.current, next);
        self.checked = false;
        old.filter(|_| std::mem::take(&mut self.started))
    }
}

/// What the threads share.
#[derive(Default)]
pub(super) struct ArchiverState {
    pub queue: Queue,
    pub modules: Modules,
    /// Files in flight at a time; None: as many as suit the module.
    pub transfers: Option<usize>,
    pub stats: ArchiverStats,
    /// A thread acknowledges files.
    pub acknowledging: bool,
    /// Nothing is acknowledged before this time.
    pub acknowledge_after: Option<Instant>,
    /// Nothing is transferred before this time.
    pub paused_until: Option<Instant>,
    pub stop: Option<StopMode>,
    /// During a stop, the last attempt to archive has failed.
    pub gave_up: bool,
    pub ended: bool,
    /// A sync has failed: nothing more is done.
    pub dead: bool,
}

impl ArchiverState {
    /// The next thing to do. `changed` wakes the other threads.
    pub fn decide(&mut self, now: Instant, changed: &Condvar) -> Task {
        if self.ended || self.dead {
            return Task::End;
        }
        let idle = self.queue.in_flight() == 0 && !self.modules.busy;
        if idle
            && let Some(next) = self.modules.next.take()
            && let Some(old) = self.modules.replace(next)
        {
            return Task::ShutDown(old);
        }
        let since = self.queue.acknowledgeable().filter(|_| !self.acknowledging);
        let due = since.filter(|_| self.acknowledge_after.is_none_or(|after| after <= now));
        let many = self.queue.unacknowledged() >= BATCH_FILES;
        if due.is_some_and(|since| many || now >= since + BATCH_TIME) {
            return self.acknowledge();
        }
        match self.next_transfer(now, changed) {
            Ok(task) => task,
            Err(_) if due.is_some() => self.acknowledge(),
            Err(_) if self.is_over(now) => self.end(changed),
            Err(rest) => {
                let retry = self.acknowledge_after.filter(|_| since.is_some());
                let retry = retry.map(|at| at.saturating_duration_since(now));
                Task::Rest(rest.into_iter().chain(retry).min())
            }
        }
    }

    fn acknowledge(&mut self) -> Task {
        self.acknowledging = true;
        Task::Acknowledge(self.queue.prefix(BATCH_FILES))
    }

    /// The next transfer, or what must precede it. The error is the time until there may be one;
    /// None: not before something changes.
    fn next_transfer(&mut self, now: Instant, changed: &Condvar) -> Result<Task, Option<Duration>> {
        let until = |at: Instant| Some(at.saturating_duration_since(now));
        if self.stop == Some(StopMode::Now) || self.gave_up || self.modules.next.is_some() {
            return Err(None);
        }
        if !self.queue.has_work(now) {
            return Err(self.queue.next_due().and_then(until));
        }
        if let Some(paused) = self.paused_until {
            if paused > now {
                return Err(until(paused));
            }
            self.paused_until = None;
        }
        let Some(module) = self.modules.current.clone() else {
            if self.stop.is_some() {
                self.gave_up = true;
                return Err(None);
            }
            warn_unconfigured("No archive module is set.");
            self.paused_until = Some(now + UNCONFIGURED);
            return Err(Some(UNCONFIGURED));
        };
        if self.modules.busy || self.queue.in_flight() >= self.limit() {
            return Err(None);
        }
        if !self.modules.started || !self.modules.checked {
            self.modules.busy = true;
            let start = !self.modules.started;
            return Ok(if start { Task::Start(module) } else { Task::Check(module) });
        }
        let name = self.queue.take(now).ok_or(None)?;
        if self.queue.in_flight() < self.limit() && self.queue.has_work(now) {
            // Each thread that finds work wakes the next one.
            changed.notify_one();
        }
        Ok(Task::Transfer(name, module))
    }

    /// How many files may be in flight.
    fn limit(&self) -> usize {
        match &self.modules.current {
            Some(module) if !module.works_alone() => {
                self.transfers.unwrap_or_else(|| module.transfers()).max(1)
            }
            _ => 1,
        }
    }

    fn end(&mut self, changed: &Condvar) -> Task {
        self.ended = true;
        changed.notify_all();
        match self.modules.current.take().filter(|_| self.modules.started) {
            Some(module) => Task::ShutDown(module),
            None => Task::End,
        }
    }

    /// Whether a stop has nothing left to do.
    fn is_over(&self, now: Instant) -> bool {
        let idle = self.queue.in_flight() == 0 && !self.acknowledging && !self.modules.busy;
        // A file whose status file can't be renamed is archived again after the next start.
        let acknowledged =
            self.queue.acknowledgeable().is_none() || self.acknowledge_after.is_some();
        let done = match self.stop {
            None => false,
            Some(StopMode::Now) => true,
            Some(StopMode::Drain) => self.gave_up || self.queue.backlog(now).files == 0,
        };
        idle && acknowledged && done
    }

    /// Pauses all transfers; during a stop, ends them.
    pub fn pause(&mut self, now: Instant, time: Duration) {
        self.paused_until = Some(now + time);
        self.gave_up |= self.stop.is_some();
    }
}

/// `why` is the detail that PostgreSQL's message has.
pub(super) fn warn_unconfigured(why: &str) {
    tracing::warn!("\"archive_mode\" enabled, yet archiving is not configured: {why}");
}
