//! The archiver of an engine: its module, its threads, its stop, and segment switches by time.
//!
//! ```text
//!   a segment is complete ─▶ NAME.ready ─▶ forebay_archive::Archiver ─▶ the module ─▶ NAME.done
//! ```
//!
//! In a fast stop the archiver goes on until the shutdown checkpoint is made. Then it archives what
//! is left, unless that fails. In an immediate stop, also after a fast one, it ends at once; the
//! next start repeats what it was doing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::sync::{Duration, Instant, Mutex, SystemTime, thread};
use forebay_aio::{Aio, BackendType};
use forebay_archive::archiver::{Archiver, ArchiverConfig, ArchiverStats, Next, StopMode};
use forebay_archive::modules::{Archive, Basic, Command};
use forebay_archive::store::StoreOptions;
use forebay_archive::store::seal::Key;
use forebay_archive::{ArchiveError, ArchiveModule, Archived, Expected, Source};
use forebay_storage::Backend;
use forebay_wal::Wal;

use crate::config::{
    ArchiveMode, ArchiveModules, ArchiveSettings, ArchiveStore, Background, EngineConfig,
};
use crate::error::EngineError;
use crate::fatal::Fatal;

/// Threads if the settings do not say how many files are archived at a time.
const TRANSFERS: usize = 4;

/// The archiver's threads.
#[derive(Default)]
struct Workers {
    threads: Vec<thread::JoinHandle<()>>,
    /// Whether it was started and not stopped.
    works: bool,
}

/// An engine's archiver, if it has one.
pub(crate) struct Archiving {
    archiver: Option<Arc<Archiver>>,
    aio: Arc<Aio>,
    fatal: Arc<Fatal>,
    dir: PathBuf,
    /// Modules of the embedding program.
    modules: ArchiveModules,
    /// Whether segments are read past the kernel's cache.
    direct: bool,
    /// The cluster.
    system_id: u64,
    /// What the module in use was made from.
    settings: Mutex<ArchiveSettings>,
    workers: Mutex<Workers>,
    /// When the statistics of an engine without an archiver were reset.
    since: Mutex<SystemTime>,
    /// Number of records that tell of no change. They are no reason to complete a segment.
    housekeeping: AtomicU64,
}

impl Archiving {
    /// Marks completed segments from now on, if there is an archive. [`Archiving::start`] starts
    /// the archiver itself.
    pub(crate) fn new(
        aio: &Arc<Aio>,
        dir: &Path,
        config: &EngineConfig,
        wal: &Wal,
        fatal: &Arc<Fatal>,
    ) -> Result<Archiving, EngineError> {
        let mut archiving = Archiving {
            archiver: None,
            aio: Arc::clone(aio),
            fatal: Arc::clone(fatal),
            dir: dir.to_owned(),
            modules: config.archive_modules.clone(),
            direct: wal.config().direct,
            system_id: wal.config().system_id,
            settings: Mutex::new(config.archiving.clone()),
            workers: Mutex::default(),
            since: Mutex::new(SystemTime::now()),
            housekeeping: AtomicU64::new(0),
        };
        if config.archive_mode == ArchiveMode::Off {
            return Ok(archiving);
        }
        let expected = Expected {
            system_id: Some(wal.config().system_id),
            segment_size: Some(wal.config().segment_size),
            magic: None,
        };
        let transfers = transfers(&config.archiving);
        let options = ArchiverConfig { expected, direct: wal.config().direct, transfers };
        let archiver = Archiver::new(aio, &wal.config().dir, options);
        archiver.set_module(Some(archiving.module(&config.archiving)));
        let told = Arc::clone(&archiver);
        wal.feed_archiver(Some(Arc::new(move |name: &str| told.announced(name))));
        wal.start_archiving()?;
        archiver.scan()?;
        // It stops with the engine.
        let halted = Arc::clone(&archiver);
        fatal.at_stop(move |_| halted.halt());
        archiving.archiver = Some(archiver);
        Ok(archiving)
    }

    /// Starts the threads, unless the embedding program does their work.
    pub(crate) fn start(&self, background: Background) -> Result<(), EngineError> {
        if background == Background::Stepped || self.archiver.is_none() {
            return Ok(());
        }
        let mut workers = self.workers.lock();
        workers.works = true;
        let grown = self.grow(&mut workers);
        if workers.threads.is_empty() { grown } else { Ok(()) }
    }

    /// Starts threads until there are as many as the settings want. Fewer are enough to go on.
    fn grow(&self, workers: &mut Workers) -> Result<(), EngineError> {
        let wanted = transfers(&self.settings.lock()).unwrap_or(TRANSFERS);
        while workers.works && workers.threads.len() < wanted {
            match self.start_one(workers.threads.len()) {
                Ok(handle) => workers.threads.push(handle),
                Err(error) => {
                    tracing::warn!(
                        "{} files are archived at a time, not {wanted}: {error}",
                        workers.threads.len()
                    );
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn start_one(&self, n: usize) -> Result<thread::JoinHandle<()>, EngineError> {
        let archiver =
            self.archiver.clone().ok_or_else(|| EngineError::internal("there is no archiver"))?;
        let mut backend = Backend::new(self.aio.backend(BackendType::BackgroundWorker)?);
        let (fatal, name) = (Arc::clone(&self.fatal), format!("archiver-{n}"));
        let run = move || {
            let ended = fatal.watch("archiver", || archiver.run(&mut backend.io));
            if let Err(error) = ended {
                // It is unknown whether its marks are durable.
                fatal.check(error.into());
            }
        };
        let started = thread::Builder::new().name(name.clone()).spawn(run);
        started.map_err(|error| {
            EngineError::statement("53000", format!("could not start {name}: {error}"))
        })
    }

    /// For engines without threads: archives what can be archived now.
    pub(crate) fn step(&self, backend: &mut Backend) -> Result<(), EngineError> {
        if let Some(archiver) = &self.archiver {
            // One time for the whole step, so that its work does not depend on how long it takes.
            let now = Instant::now();
            while archiver.step(&mut backend.io, now)? == Next::Worked {}
        }
        Ok(())
    }

    /// Whether segments go to an archive.
    pub(crate) fn is_on(&self) -> bool {
        self.archiver.is_some()
    }

    /// Ends it. With `drain` it first archives all that waits, unless that fails.
    pub(crate) fn stop(&self, backend: &mut Backend, drain: bool) {
        let Some(archiver) = &self.archiver else { return };
        archiver.stop(if drain { StopMode::Drain } else { StopMode::Now });
        let threads = std::mem::take(&mut *self.workers.lock()).threads;
        if threads.is_empty() && drain {
            // Without threads, files whose retry is not due yet are left to the next start.
            while matches!(archiver.step(&mut backend.io, Instant::now()), Ok(Next::Worked)) {}
        }
        for handle in threads {
            if handle.join().is_err() {
                self.fatal.stop("an archiver thread panicked");
            }
        }
    }

    /// An immediate stop after a fast one: leaves what waits to the next start. Called again, it
    /// kills a command that does not end.
    pub(crate) fn cut_short(&self) {
        if let Some(archiver) = &self.archiver {
            archiver.stop(StopMode::Now);
        }
    }

    /// Takes over new settings.
    pub(crate) fn change(&self, to: &ArchiveSettings) {
        let before = std::mem::replace(&mut *self.settings.lock(), to.clone());
        let Some(archiver) = &self.archiver else { return };
        if before.module() != to.module() {
            archiver.set_module(Some(self.module(to)));
        }
        if before.transfers != to.transfers {
            archiver.set_transfers(transfers(to));
            // The failure was logged.
            let _ = self.grow(&mut self.workers.lock());
        }
    }

    /// The module that the settings name.
    fn module(&self, settings: &ArchiveSettings) -> Arc<dyn ArchiveModule> {
        let ArchiveModules(others) = &self.modules;
        let library = settings.library.as_str();
        match library {
            "" => Arc::new(Command::new(settings.command.as_str(), &self.dir)),
            _ if !settings.command.is_empty() => Arc::new(Unusable(
                "Both \"archive_command\" and \"archive_library\" are set; only one of them may be."
                    .to_owned(),
            )),
            "basic_archive" => Arc::new(Basic::new(&self.aio, &settings.directory, self.direct)),
            "forebay_archive" => {
                let store = &settings.store;
                let options = keyless(store, self.direct);
                let system = Some(self.system_id);
                let archive = Archive::new(&self.aio, &store.location, options, system);
                Arc::new(archive.with_key_file(store.key_file.clone()))
            }
            _ => match others.iter().find(|module| module.name() == library) {
                Some(module) => Arc::clone(module),
                None => Arc::new(Unusable(format!("There is no archive module \"{library}\"."))),
            },
        }
    }

    /// Number of records logged so far that tell of changes.
    fn records(&self, wal: &Wal) -> u64 {
        wal.stats().records.wrapping_sub(self.housekeeping.load(Ordering::Relaxed))
    }

    /// How long a segment may stay open. Zero: any time.
    fn timeout(&self) -> Duration {
        self.settings.lock().timeout
    }

    /// Counts records that tell of no change.
    pub(crate) fn note_housekeeping(&self, records: u64) {
        self.housekeeping.fetch_add(records, Ordering::Relaxed);
    }

    /// The row of pg_stat_archiver.
    pub(crate) fn stats(&self) -> ArchiverStats {
        match &self.archiver {
            Some(archiver) => archiver.stats(),
            None => ArchiverStats { stats_reset: *self.since.lock(), ..ArchiverStats::default() },
        }
    }

    /// Resets the counters.
    pub(crate) fn reset_stats(&self) {
        *self.since.lock() = SystemTime::now();
        if let Some(archiver) = &self.archiver {
            archiver.reset_stats();
        }
    }
}

/// Number of files archived at a time, if the settings say.
fn transfers(settings: &ArchiveSettings) -> Option<usize> {
    (settings.transfers > 0).then_some(settings.transfers)
}

/// How an archive is used, without its key.
fn keyless(store: &ArchiveStore, direct: bool) -> StoreOptions {
    StoreOptions {
        layout: store.layout,
        compression: store.compression,
        key: None,
        accept_unencrypted: store.accept_unencrypted,
        direct,
    }
}

/// How an archive is used. Reads its key.
pub(crate) fn store_options(
    backend: &mut Backend,
    store: &ArchiveStore,
    direct: bool,
) -> Result<StoreOptions, EngineError> {
    let key = store.key_file.as_ref().map(|file| Key::read(&mut backend.io, file)).transpose()?;
    Ok(StoreOptions { key, ..keyless(store, direct) })
}

/// Settings that name no module. The reason is reported, and files wait.
struct Unusable(String);

impl ArchiveModule for Unusable {
    fn name(&self) -> &'static str {
        "none"
    }

    fn check_configured(&self) -> Result<(), String> {
        Err(self.0.clone())
    }

    fn archive(
        &self,
        _io: &mut forebay_aio::IoBackend,
        _file: &mut Source,
    ) -> Result<Archived, ArchiveError> {
        Err(ArchiveError::Refused(self.0.clone()))
    }
}

/// For archive_timeout: when a segment was begun, and what had been logged by then.
pub(crate) struct SegmentAge {
    segment: u64,
    since: Instant,
    /// Number of records that tell of changes, before those that may be in the segment.
    before: u64,
    /// The same, at the last check.
    seen: u64,
}

impl SegmentAge {
    pub(crate) fn new(archiving: &Archiving, wal: &Wal) -> SegmentAge {
        // Records that recovery or an earlier start left in the segment count as changes.
        let seen = archiving.records(wal);
        let before = seen.wrapping_sub(1);
        SegmentAge { segment: segment(wal), since: Instant::now(), before, seen }
    }

    /// Completes the segment if it is older than archive_timeout and may hold changes.
    pub(crate) fn check(
        &mut self,
        archiving: &Archiving,
        wal: &Wal,
        backend: &mut Backend,
    ) -> Result<(), EngineError> {
        if !archiving.is_on() {
            return Ok(());
        }
        let (timeout, now) = (archiving.timeout(), archiving.records(wal));
        let segment = segment(wal);
        if segment != self.segment {
            // Records since the last check may be in either segment.
            *self = SegmentAge { segment, since: Instant::now(), before: self.seen, seen: now };
        } else if !timeout.is_zero() && self.since.elapsed() >= timeout {
            self.since = Instant::now();
            if now != self.before {
                wal.switch_segment(&mut backend.io)?;
                archiving.note_housekeeping(1);
                self.before = now;
                tracing::debug!(
                    "write-ahead log switch forced (\"archive_timeout\"={})",
                    timeout.as_secs()
                );
            }
        }
        self.seen = now;
        Ok(())
    }
}

/// The segment in which the log is.
fn segment(wal: &Wal) -> u64 {
    wal.config().segment_size.number(wal.insert_lsn())
}
