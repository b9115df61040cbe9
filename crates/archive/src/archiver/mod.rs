//! The archiver: takes what is marked, has a module store it, takes note of it durably.
//!
//! - `queue`: what is on its way, and how far it has come
//! - `transfer`: one file: looked at, handed to the module, and what came of it
//! - `decide`: what is to be done next
//! - `stats`: the counters of pg_stat_archiver
//! - `threads`: threads that loop over it
//!
//! Any number of threads call [`Archiver::step`]. Whoever finds nothing to transfer, or finds that
//! much has been transferred, takes note of it for all: renames the marks in order, and syncs their
//! directory once. So the price of a sync is shared by what arrived during the last one, and a slow
//! archive has each file noted at once.
//!
//! Failures are those of a file: it rests and is tried again, while others go on. Only what can't
//! concern a file alone stops all of them for a time: a command that was killed or can't be run, a
//! module that is not set up. A failed sync of the marks is final, as any failed sync.

mod decide;
mod queue;
mod stats;
mod threads;
mod transfer;

pub use queue::Backlog;
pub use stats::ArchiverStats;
pub use threads::Threads;

use std::path::Path;

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Arc, Condvar, Duration, Instant, Mutex};
use forebay_aio::{Aio, Backend};

use crate::error::{ArchiveError, Result};
use crate::module::ArchiveModule;
use crate::names::WalName;
use crate::source::{Expected, SourceOptions};
use crate::status::Status;

use queue::Queue;

/// How an archiver works.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArchiverConfig {
    /// What files of the log must say.
    pub expected: Expected,
    /// They are read past the kernel's cache.
    pub direct: bool,
    /// Files in flight at a time; None: as many as suit the module. Some modules work alone
    /// ([`ArchiveModule::works_alone`]).
    pub transfers: Option<usize>,
}

/// How an archiver ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// After all that waits has been archived; or as soon as a file has failed three times.
    Drain,
    /// At once: what is in flight is interrupted.
    Now,
}

/// What a step has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Something was done; there may be more.
    Worked,
    /// There is nothing to do until something is announced, or this time is over.
    Rest(Option<Duration>),
    /// It has been stopped.
    Ended,
}

/// The module in use, and the one that is to follow.
#[derive(Default)]
struct Modules {
    current: Option<Arc<dyn ArchiveModule>>,
    /// Its start-up has succeeded.
    started: bool,
    /// It was found to be set up, and nothing has failed since.
    checked: bool,
    /// Somebody starts it, or ends it.
    busy: bool,
    /// What is to take its place when nothing flies any more.
    next: Option<Option<Arc<dyn ArchiveModule>>>,
}

#[derive(Default)]
struct Inner {
    queue: Queue,
    modules: Modules,
    /// Files in flight at a time; None: as many as suit the module.
    transfers: Option<usize>,
    stats: ArchiverStats,
    /// Somebody is taking note of what has been transferred.
    acknowledging: bool,
    /// Nothing is taken note of before.
    acknowledge_after: Option<Instant>,
    /// Nothing is transferred before.
    paused_until: Option<Instant>,
    stop: Option<StopMode>,
    /// The last attempt at a full archive has failed.
    gave_up: bool,
    ended: bool,
    /// A sync has failed: nothing more is done.
    dead: bool,
}

/// Archives the files of one log.
pub struct Archiver {
    aio: Arc<Aio>,
    status: Status,
    source: SourceOptions,
    interrupted: Arc<AtomicBool>,
    inner: Mutex<Inner>,
    bell: Condvar,
}

impl std::fmt::Debug for Archiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archiver").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Archiver {
    /// For the log in `wal_dir`. It has no module yet, and knows of no file ([`Archiver::scan`]).
    pub fn new(aio: &Arc<Aio>, wal_dir: &Path, config: ArchiverConfig) -> Arc<Archiver> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let source = SourceOptions {
            expected: config.expected,
            direct: config.direct,
            stop: Some(Arc::clone(&interrupted)),
            ..SourceOptions::default()
        };
        Arc::new(Archiver {
            aio: Arc::clone(aio),
            status: Status::new(aio, wal_dir),
            source,
            interrupted,
            inner: Mutex::new(Inner { transfers: config.transfers, ..Inner::default() }),
            bell: Condvar::new(),
        })
    }

    /// The marks.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Lists the marks: once at start, and whenever somebody may have made some without telling.
    /// How many files are new.
    pub fn scan(&self) -> Result<usize> {
        self.status.create()?;
        let scan = self.status.scan()?;
        if scan.junk > 0 {
            tracing::warn!(
                "{} files in \"{}\" are no archive status files",
                scan.junk,
                self.status.dir().display()
            );
        }
        let mut inner = self.inner.lock();
        let now = Instant::now();
        let added =
            scan.ready.into_iter().filter(|name| inner.queue.add(name.clone(), now)).count();
        drop(inner);
        self.bell.notify_all();
        Ok(added)
    }

    /// A file was marked as one to be archived, by somebody else. What is no such name is ignored.
    pub fn announced(&self, name: &str) {
        let Some(name) = WalName::parse(name) else { return };
        if self.inner.lock().queue.add(name, Instant::now()) {
            self.bell.notify_one();
        }
    }

    /// Marks a file as one to be archived.
    pub fn announce(&self, name: &WalName) -> Result<()> {
        self.status.announce(name)?;
        self.announced(name.as_str());
        Ok(())
    }

    /// Files are archived by this module from now on; by none: they wait. The one before ends when
    /// nothing it stores is in flight.
    pub fn set_module(&self, module: Option<Arc<dyn ArchiveModule>>) {
        let mut inner = self.inner.lock();
        inner.modules.next = Some(module);
        inner.paused_until = None;
        drop(inner);
        self.bell.notify_all();
    }

    /// So many files are in flight at a time from now on; None: as many as suit the module.
    pub fn set_transfers(&self, transfers: Option<usize>) {
        self.inner.lock().transfers = transfers;
        self.bell.notify_all();
    }

    /// Ends it. [`StopMode::Drain`] may be followed by [`StopMode::Now`].
    pub fn stop(&self, mode: StopMode) {
        let mut inner = self.inner.lock();
        if inner.stop != Some(StopMode::Now) {
            inner.stop = Some(mode);
        }
        let interrupted = match mode {
            StopMode::Drain => {
                inner.queue.rouse();
                inner.paused_until = None;
                None
            }
            StopMode::Now => {
                self.interrupted.store(true, Ordering::SeqCst);
                inner.modules.current.clone()
            }
        };
        drop(inner);
        self.bell.notify_all();
        // Not under the lock: a module may take its time, or ask this archiver something.
        if let Some(module) = interrupted {
            module.interrupt();
        }
    }

    /// Ends it for good, because something else has failed after which nothing may be taken note
    /// of: nothing is begun, or marked as archived, any more. It does not wait for the module: what
    /// is in flight is interrupted by [`Archiver::stop`].
    pub fn halt(&self) {
        let mut inner = self.inner.lock();
        inner.dead = true;
        inner.stop = Some(StopMode::Now);
        drop(inner);
        self.interrupted.store(true, Ordering::SeqCst);
        self.bell.notify_all();
    }

    /// Whether it has ended, by a stop or by a failure that is final.
    pub fn is_ended(&self) -> bool {
        let inner = self.inner.lock();
        inner.ended || inner.dead
    }

    /// What is on its way.
    pub fn backlog(&self) -> Backlog {
        self.inner.lock().queue.backlog(Instant::now())
    }

    /// The counters.
    pub fn stats(&self) -> ArchiverStats {
        self.inner.lock().stats.clone()
    }

    /// Counters begin anew.
    pub fn reset_stats(&self) {
        self.inner.lock().stats = ArchiverStats::default();
    }

    /// Does one thing that is to be done, at this time; does not wait. An error is final.
    pub fn step(&self, io: &mut Backend, now: Instant) -> Result<Next> {
        let task = {
            let mut inner = self.inner.lock();
            self.decide(&mut inner, now)
        };
        self.perform(io, task, now)
    }

    /// Does what is to be done until it is stopped. Several threads may; an error is final, and
    /// told to one of them.
    pub fn run(&self, io: &mut Backend) -> Result<()> {
        loop {
            let now = Instant::now();
            let mut inner = self.inner.lock();
            let task = self.decide(&mut inner, now);
            if let decide::Task::Rest(time) = task {
                match time {
                    Some(time) => drop(self.bell.wait_for(&mut inner, time)),
                    None => self.bell.wait(&mut inner),
                }
                continue;
            }
            drop(inner);
            if self.perform(io, task, now)? == Next::Ended {
                return Ok(());
            }
        }
    }

    /// Files in flight at a time.
    fn limit(&self, inner: &Inner) -> usize {
        match &inner.modules.current {
            Some(module) if !module.works_alone() => {
                inner.transfers.unwrap_or_else(|| module.transfers()).max(1)
            }
            _ => 1,
        }
    }

    /// The end: nothing more is done.
    fn die(&self, error: ArchiveError) -> ArchiveError {
        tracing::error!("archiver: {error}");
        self.inner.lock().dead = true;
        self.bell.notify_all();
        error
    }
}
