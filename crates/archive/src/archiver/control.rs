//! [`Archiver`]: the archiver of one log, as the server controls it.

use std::path::Path;

use forebay_aio::Aio;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Arc, Condvar, Instant, Mutex};

use super::queue::Backlog;
use super::state::{ArchiverState, StopMode};
use super::stats::ArchiverStats;
use crate::error::Result;
use crate::module::ArchiveModule;
use crate::names::WalName;
use crate::source::{Expected, SourceOptions};
use crate::status::Status;

/// How an archiver works.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArchiverConfig {
    /// What the files of the log must say.
    pub expected: Expected,
    /// Read the files with direct I/O, where the file system has it.
    pub direct: bool,
    /// Files in flight at a time; None: as many as suit the module. Some modules take one at a time
    /// in any case ([`ArchiveModule::works_alone`]).
    pub transfers: Option<usize>,
}

/// Archives the files of one log.
pub struct Archiver {
    pub(super) aio: Arc<Aio>,
    pub(super) status: Status,
    pub(super) source: SourceOptions,
    /// Ends transfers early.
    interrupted: Arc<AtomicBool>,
    pub(super) state: Mutex<ArchiverState>,
    /// Something changed, so that a resting thread may have something to do.
    pub(super) changed: Condvar,
}

impl std::fmt::Debug for Archiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archiver").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Archiver {
    /// The archiver of the log in `wal_dir`. It has no module yet and knows of no file: see
    /// [`Archiver::set_module`] and [`Archiver::scan`].
    pub fn new(aio: &Arc<Aio>, wal_dir: &Path, config: ArchiverConfig) -> Arc<Archiver> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let source = SourceOptions {
            expected: config.expected,
            direct: config.direct,
            stop: Some(Arc::clone(&interrupted)),
            ..SourceOptions::default()
        };
        let state = ArchiverState { transfers: config.transfers, ..ArchiverState::default() };
        Arc::new(Archiver {
            aio: Arc::clone(aio),
            status: Status::new(aio, wal_dir),
            source,
            interrupted,
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// Lists the status files: once at start, and again when somebody may have created some without
    /// announcing them. Returns how many files are new.
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
        let mut state = self.state.lock();
        let now = Instant::now();
        let added =
            scan.ready.into_iter().filter(|name| state.queue.add(name.clone(), now)).count();
        drop(state);
        self.changed.notify_all();
        Ok(added)
    }

    /// Reports that the status file `name`.ready was created. Names of other files are ignored.
    pub fn announced(&self, name: &str) {
        let Some(name) = WalName::parse(name) else { return };
        if self.state.lock().queue.add(name, Instant::now()) {
            self.changed.notify_one();
        }
    }

    /// Marks a file as to be archived.
    pub fn announce(&self, name: &WalName) -> Result<()> {
        self.status.announce(name)?;
        self.announced(name.as_str());
        Ok(())
    }

    /// Replaces the module, once none of its transfers is in flight. Without a module, files wait.
    pub fn set_module(&self, module: Option<Arc<dyn ArchiveModule>>) {
        let mut state = self.state.lock();
        state.modules.next = Some(module);
        state.paused_until = None;
        drop(state);
        self.changed.notify_all();
    }

    /// Sets how many files are in flight at a time; None: as many as suit the module.
    pub fn set_transfers(&self, transfers: Option<usize>) {
        self.state.lock().transfers = transfers;
        self.changed.notify_all();
    }

    /// Stops the archiver. [`StopMode::Drain`] may be followed by [`StopMode::Now`].
    pub fn stop(&self, mode: StopMode) {
        let mut state = self.state.lock();
        if state.stop != Some(StopMode::Now) {
            state.stop = Some(mode);
        }
        let interrupted = match mode {
            StopMode::Drain => {
                state.queue.retry_all();
                state.paused_until = None;
                None
            }
            StopMode::Now => {
                self.interrupted.store(true, Ordering::SeqCst);
                state.modules.current.clone()
            }
        };
        drop(state);
        self.changed.notify_all();
        // Without the lock: a module may take its time, or call this archiver.
        if let Some(module) = interrupted {
            module.interrupt();
        }
    }

    /// Ends the archiver because the server must not acknowledge anything any more: nothing is
    /// begun, and nothing marked as archived. It does not wait for the module; [`Archiver::stop`]
    /// interrupts the transfers in flight.
    pub fn halt(&self) {
        let mut state = self.state.lock();
        state.dead = true;
        state.stop = Some(StopMode::Now);
        drop(state);
        self.interrupted.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Whether it has ended, by a stop or a final error.
    pub fn is_ended(&self) -> bool {
        let state = self.state.lock();
        state.ended || state.dead
    }

    /// The files that are not acknowledged yet.
    pub fn backlog(&self) -> Backlog {
        self.state.lock().queue.backlog(Instant::now())
    }

    /// The counters.
    pub fn stats(&self) -> ArchiverStats {
        self.state.lock().stats.clone()
    }

    /// Resets the counters.
    pub fn reset_stats(&self) {
        self.state.lock().stats = ArchiverStats::default();
    }
}
