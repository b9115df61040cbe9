//! The archiver of an engine: which module it has, its threads, its part in a stop, switches by
//! time.
//!
//! ```text
//!   a segment is complete ──▶ NAME.ready ──(told in memory)──▶ forebay_archive::Archiver ──▶ the module ──▶ NAME.done ──▶ recycled
//! ```
//!
//! | stop | the archiver |
//! |---|---|
//! | fast | goes on until the shutdown checkpoint is made, then archives what is left, unless that fails |
//! | immediate, also on top of a fast one | ends at once; what it was doing is begun again with the next start |

use std::path::Path;
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
use crate::core::Core;
use crate::error::EngineError;
use crate::fatal::Fatal;

/// Threads where nobody says how many files are to be in flight at a time.
const TRANSFERS: usize = 4;
/// The number may be changed up to this while the engine runs, or up to what it was at the start.
const SPARE_TRANSFERS: usize = 16;

/// Backends that the archiver may want: its threads, and one to look whether a module is set up.
pub(crate) fn backends(config: &EngineConfig) -> usize {
    match config.archive_mode {
        ArchiveMode::Off => 0,
        ArchiveMode::On | ArchiveMode::Always => {
            config.archiving.transfers.max(SPARE_TRANSFERS) + 1
        }
    }
}

/// The archiver's threads.
#[derive(Default)]
struct Crew {
    threads: Vec<thread::JoinHandle<()>>,
    /// It has been started, and not been stopped.
    works: bool,
}

/// An engine's archiver, if it has one.
pub(crate) struct Archiving {
    archiver: Option<Arc<Archiver>>,
    /// What the module in use was made from.
    settings: Mutex<ArchiveSettings>,
    crew: Mutex<Crew>,
    /// Since when an engine without an archiver has nothing to show.
    since: Mutex<SystemTime>,
    /// Records of the log that tell of no change: they are no reason to complete a segment.
    housekeeping: AtomicU64,
}

impl Archiving {
    /// Marks completed segments from now on, if there is an archive. The archiver itself begins
    /// with [`Archiving::start`].
    pub(crate) fn new(
        aio: &Arc<Aio>,
        dir: &Path,
        config: &EngineConfig,
        wal: &Wal,
    ) -> Result<Archiving, EngineError> {
        let mut archiving = Archiving {
            archiver: None,
            settings: Mutex::new(config.archiving.clone()),
            crew: Mutex::default(),
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
        let options = ArchiverConfig { expected, direct: config.io_direct.wal, transfers };
        let archiver = Archiver::new(aio, &wal.config().dir, options);
        archiver.set_module(module(aio, dir, config, &config.archiving, wal.config().system_id));
        let told = Arc::clone(&archiver);
        wal.feed_archiver(Some(Arc::new(move |name: &str| told.announced(name))));
        wal.start_archiving()?;
        archiver.scan()?;
        archiving.archiver = Some(archiver);
        Ok(archiving)
    }

    /// Starts the threads, unless the embedder does their work.
    pub(crate) fn start(&self, core: &Arc<Core>) -> Result<(), EngineError> {
        if core.config.background == Background::Stepped || self.archiver.is_none() {
            return Ok(());
        }
        let mut crew = self.crew.lock();
        crew.works = true;
        let grown = self.grow(core, &mut crew);
        if crew.threads.is_empty() { grown } else { Ok(()) }
    }

    /// Starts threads until there are as many as the settings want. With fewer it takes longer.
    fn grow(&self, core: &Arc<Core>, crew: &mut Crew) -> Result<(), EngineError> {
        let wanted = transfers(&self.settings.lock()).unwrap_or(TRANSFERS);
        while crew.works && crew.threads.len() < wanted {
            match self.start_one(core, crew.threads.len()) {
                Ok(handle) => crew.threads.push(handle),
                Err(error) => {
                    tracing::warn!(
                        "{} files are archived at a time, not {wanted}: {error}",
                        crew.threads.len()
                    );
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn start_one(&self, core: &Arc<Core>, n: usize) -> Result<thread::JoinHandle<()>, EngineError> {
        let archiver =
            self.archiver.clone().ok_or_else(|| EngineError::internal("there is no archiver"))?;
        let mut be = Backend::new(core.aio.backend(BackendType::BackgroundWorker)?);
        let (core, name) = (Arc::clone(core), format!("archiver-{n}"));
        let run = move || {
            let ended = core.fatal.watch("archiver", || archiver.run(&mut be.io));
            if let Err(error) = ended {
                // Whether what it has taken note of is durable is unknown.
                core.fatal.check(error.into());
            }
        };
        let started = thread::Builder::new().name(name.clone()).spawn(run);
        started.map_err(|error| {
            EngineError::statement("53000", format!("could not start {name}: {error}"))
        })
    }

    /// Ends with the engine, should that have to stop.
    pub(crate) fn end_with(&self, fatal: &Fatal) {
        if let Some(archiver) = self.archiver.clone() {
            fatal.at_stop(move |_| archiver.halt());
        }
    }

    /// For engines without threads: archives what can be archived now.
    pub(crate) fn step(&self, be: &mut Backend) -> Result<(), EngineError> {
        if let Some(archiver) = &self.archiver {
            // One moment for all of it: what is done does not depend on how long it takes.
            let now = Instant::now();
            while archiver.step(&mut be.io, now)? == Next::Worked {}
        }
        Ok(())
    }

    /// Whether segments go to an archive.
    pub(crate) fn is_on(&self) -> bool {
        self.archiver.is_some()
    }

    /// Ends it. With `drain` all that waits is archived first, unless that fails.
    pub(crate) fn stop(&self, core: &Core, be: &mut Backend, drain: bool) {
        let Some(archiver) = &self.archiver else { return };
        archiver.stop(if drain { StopMode::Drain } else { StopMode::Now });
        let threads = std::mem::take(&mut *self.crew.lock()).threads;
        if threads.is_empty() && drain {
            // Without threads nobody waits for what rests.
            while matches!(archiver.step(&mut be.io, Instant::now()), Ok(Next::Worked)) {}
        }
        for handle in threads {
            if handle.join().is_err() {
                core.fatal.stop("an archiver thread panicked");
            }
        }
    }

    /// An immediate stop on top of a fast one: what waits is left to the next start. Called again,
    /// it does so without asking.
    pub(crate) fn cut_short(&self) {
        if let Some(archiver) = &self.archiver {
            archiver.stop(StopMode::Now);
        }
    }

    /// Takes over new settings.
    pub(crate) fn change(&self, core: &Arc<Core>, to: &ArchiveSettings) {
        let before = std::mem::replace(&mut *self.settings.lock(), to.clone());
        let Some(archiver) = &self.archiver else { return };
        if before.module() != to.module() {
            let system = core.wal.config().system_id;
            archiver.set_module(module(&core.aio, &core.dir, &core.config, to, system));
        }
        if before.transfers != to.transfers {
            archiver.set_transfers(transfers(to));
            // What is wrong has been told.
            let _ = self.grow(core, &mut self.crew.lock());
        }
    }

    /// How long a segment may stay open; zero: any time.
    fn timeout(&self) -> Duration {
        self.settings.lock().timeout
    }

    /// Records were logged that tell of no change.
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

    /// Sets the counters to zero.
    pub(crate) fn reset_stats(&self) {
        *self.since.lock() = SystemTime::now();
        if let Some(archiver) = &self.archiver {
            archiver.reset_stats();
        }
    }
}

/// Files in flight at a time, if the settings say.
fn transfers(settings: &ArchiveSettings) -> Option<usize> {
    (settings.transfers > 0).then_some(settings.transfers)
}

/// How an archive is used, but for its key.
fn keyless(store: &ArchiveStore, direct: bool) -> StoreOptions {
    StoreOptions {
        layout: store.layout,
        compression: store.compression,
        key: None,
        accept_unencrypted: store.accept_unencrypted,
        direct,
    }
}

/// How an archive is used; its key is read.
pub(crate) fn store_options(
    be: &mut Backend,
    store: &ArchiveStore,
    direct: bool,
) -> Result<StoreOptions, EngineError> {
    let key = store.key_file.as_ref().map(|file| Key::read(&mut be.io, file)).transpose()?;
    Ok(StoreOptions { key, ..keyless(store, direct) })
}

/// The module that settings ask for.
fn module(
    aio: &Arc<Aio>,
    dir: &Path,
    config: &EngineConfig,
    settings: &ArchiveSettings,
    system: u64,
) -> Option<Arc<dyn ArchiveModule>> {
    let ArchiveModules(others) = &config.archive_modules;
    let library = settings.library.as_str();
    Some(match library {
        "" => Arc::new(Command::new(settings.command.as_str(), dir)),
        _ if !settings.command.is_empty() => Arc::new(Unusable(
            "Both \"archive_command\" and \"archive_library\" are set; only one of them may be."
                .to_owned(),
        )),
        "basic_archive" => Arc::new(Basic::new(aio, &settings.directory, config.io_direct.wal)),
        "forebay_archive" => {
            let store = &settings.store;
            let options = keyless(store, config.io_direct.wal);
            let archive = Archive::new(aio, &store.location, options, Some(system));
            Arc::new(archive.with_key_file(store.key_file.clone()))
        }
        _ => match others.iter().find(|module| module.name() == library) {
            Some(module) => Arc::clone(module),
            None => Arc::new(Unusable(format!("There is no archive module \"{library}\"."))),
        },
    })
}

/// Settings that give no module: the reason is told, and files wait.
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
        _io: &mut forebay_aio::Backend,
        _file: &mut Source,
    ) -> Result<Archived, ArchiveError> {
        Err(ArchiveError::Refused(self.0.clone()))
    }
}

/// archive_timeout: when a segment was begun, and what had been logged by then.
pub(crate) struct SegmentAge {
    segment: u64,
    since: Instant,
    /// Records that tell of changes, before those that may be in the segment.
    before: u64,
    /// The same, at the last look.
    seen: u64,
}

impl SegmentAge {
    pub(crate) fn new(core: &Core) -> SegmentAge {
        // What recovery or an earlier life left in the segment is taken for something.
        let seen = records(core);
        SegmentAge {
            segment: segment(core),
            since: Instant::now(),
            before: seen.wrapping_sub(1),
            seen,
        }
    }

    /// Completes the segment if it is older than archive_timeout, and something in it may be worth
    /// archiving.
    pub(crate) fn check(&mut self, core: &Core, be: &mut Backend) -> Result<(), EngineError> {
        if !core.archiving.is_on() {
            return Ok(());
        }
        let (timeout, now) = (core.archiving.timeout(), records(core));
        let segment = segment(core);
        if segment != self.segment {
            // What came since the last look may be in either of them.
            *self = SegmentAge { segment, since: Instant::now(), before: self.seen, seen: now };
        } else if !timeout.is_zero() && self.since.elapsed() >= timeout {
            self.since = Instant::now();
            if now != self.before {
                core.wal.switch_segment(&mut be.io)?;
                core.archiving.note_housekeeping(1);
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

/// The segment that the log is in.
fn segment(core: &Core) -> u64 {
    core.wal.config().segment_size.number(core.wal.insert_lsn())
}

/// Records that tell of changes, so far.
fn records(core: &Core) -> u64 {
    core.wal.stats().records.wrapping_sub(core.archiving.housekeeping.load(Ordering::Relaxed))
}
