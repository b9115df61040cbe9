//! Opening and stopping a data directory.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_aio::{Aio, BackendType, IoDirect};
use forebay_format::RelFileLocator;
use forebay_storage::{Backend, Cleaner};
use forebay_txn::locks::{InterruptKind, OwnerId};
use forebay_types::Oid;

use crate::background::{self, Threads};
use crate::checkpoint;
use crate::checkpointer::Causes;
use crate::config::{
    ArchiveSettings, Background, EngineConfig, FirstIds, InitOptions, PoolSize, WritingSettings,
};
use crate::core::{Core, Phase};
use crate::directory;
use crate::error::EngineError;
use crate::init;
use crate::io::{self, IoSettings};
use crate::lockfile::{LockFile, ServerStatus, Told};
use crate::open;
use crate::relation_stats;
use crate::views::{self, AioBackendRow, AioRow, IoStatRow};

/// How an engine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Sessions are cancelled and their transactions aborted; a shutdown checkpoint is written.
    Fast,
    /// Nothing more is written: the next open recovers.
    Immediate,
}

/// An open data directory. Dropped without [`Engine::shutdown`] it stops as
/// [`ShutdownMode::Immediate`] does.
#[derive(Debug)]
pub struct Engine {
    core: Arc<Core>,
    running: Mutex<Option<Running>>,
}

/// What goes when the engine stops.
#[derive(Debug)]
struct Running {
    threads: Threads,
    /// For [`Engine::step`].
    cleaner: Cleaner,
    lock: LockFile,
    /// The I/O of startup, kept for the stop.
    backend: Backend,
}

impl Engine {
    /// Makes a new data directory, as initdb does.
    pub fn init(dir: &Path, options: &InitOptions) -> Result<(), EngineError> {
        init::init(dir, options)
    }

    /// Makes a new data directory over a namespace and a method of the caller's: for simulated
    /// disks.
    pub fn init_on(dir: &Path, options: &InitOptions, aio: &Arc<Aio>) -> Result<(), EngineError> {
        init::init_on(dir, options, FirstIds::default(), aio)
    }

    /// The same for a directory in which the ids before `ids` count as used: for tests of what
    /// happens when they run out.
    pub fn init_at(
        dir: &Path,
        options: &InitOptions,
        ids: FirstIds,
        aio: &Arc<Aio>,
    ) -> Result<(), EngineError> {
        init::init_on(dir, options, ids, aio)
    }

    /// Opens a data directory, recovering it if it was not shut down cleanly.
    pub fn open(dir: &Path, config: EngineConfig) -> Result<Arc<Engine>, EngineError> {
        let aio = io::open(&config)?;
        Engine::open_on(dir, config, aio)
    }

    /// Opens a data directory over a namespace and a method of the caller's, in place of the
    /// configuration's: for simulated disks and faults. It must have room for max_connections,
    /// max_worker_processes and eight more backends.
    pub fn open_on(
        dir: &Path,
        config: EngineConfig,
        aio: Arc<Aio>,
    ) -> Result<Arc<Engine>, EngineError> {
        let dir = std::path::absolute(dir).map_err(|e| {
            EngineError::statement(
                "58P01",
                format!("could not find directory \"{}\": {e}", dir.display()),
            )
        })?;
        let mut backend = Backend::new(aio.backend(BackendType::Startup)?);
        directory::check(&mut backend.io, &dir)?;
        let told = Told {
            port: config.port,
            socket_dir: config.socket_dir.clone(),
            listen_addr: config.listen_addr.clone(),
        };
        let lock = LockFile::take(&mut backend.io, &dir, &told)?;
        match open::start(&dir, config, &aio, &mut backend) {
            Ok((core, threads)) => {
                let ready = lock.set_status(&mut backend.io, ServerStatus::Ready);
                let running = Mutex::new(Some(Running {
                    threads,
                    cleaner: Cleaner::default(),
                    lock,
                    backend,
                }));
                // Dropped on failure, the engine stops.
                let engine = Arc::new(Engine { core, running });
                ready.map(|()| engine)
            }
            Err(error) => {
                if let Err(left) = lock.release(aio.namespace().as_ref()) {
                    tracing::warn!("{left}");
                }
                Err(error)
            }
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Asks a session, by its number, to cancel what it does or to end. False if there is none.
    pub fn interrupt_session(&self, id: i32, kind: InterruptKind) -> bool {
        u32::try_from(id).is_ok_and(|id| self.core.sessions.interrupt(id, kind))
    }

    /// Stops the engine. Later calls on its sessions fail with 57P01. One that had to stop before
    /// writes nothing any more; then a fast stop fails with [`EngineError::Poisoned`].
    pub fn shutdown(&self, mode: ShutdownMode) -> Result<(), EngineError> {
        let mut running = self.running.lock();
        let Some(Running { mut threads, lock, mut backend, .. }) = running.take() else {
            return Ok(());
        };
        let core = &self.core;
        let result = match mode {
            ShutdownMode::Fast if !core.fatal.has_stopped() => {
                stop_fast(core, &lock, &mut threads, &mut backend)
            }
            ShutdownMode::Fast => {
                stop_at_once(core, &mut threads, &mut backend);
                core.fatal.check_alive()
            }
            ShutdownMode::Immediate => {
                stop_at_once(core, &mut threads, &mut backend);
                Ok(())
            }
        };
        core.enter(Phase::Stopped);
        core.temp_files.close();
        result.and(lock.release(core.aio.namespace().as_ref()))
    }

    /// Hurries a fast stop that another thread waits for: what has not been archived by now is left
    /// to the next start. Called again, an archive_command that does not end is killed.
    pub fn hurry_stop(&self) {
        self.core.archiving.cut_short();
    }

    /// The settings it runs with.
    pub fn config(&self) -> &EngineConfig {
        &self.core.config
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.core.dir
    }

    /// The cluster's system identifier.
    pub fn system_identifier(&self) -> u64 {
        self.core.control.get().system_id
    }

    /// Whether pages have checksums.
    pub fn data_checksums(&self) -> bool {
        self.core.control.get().checksum_version != 0
    }

    /// Bytes of a WAL segment.
    pub fn wal_segment_size(&self) -> u32 {
        self.core.control.get().segment_size.get()
    }

    /// PostgreSQL's name of the way in which the log is made durable, also where that was found
    /// out.
    pub fn wal_sync_method_name(&self) -> &'static str {
        self.core.wal.config().sync_method.name()
    }

    /// The name of the I/O method in use.
    pub fn io_method_name(&self) -> &'static str {
        self.core.aio.method_name()
    }

    /// The files that bypass the kernel's page cache: those that io_direct names, or those that
    /// were found to be able to.
    pub fn io_direct(&self) -> IoDirect {
        self.core.direct
    }

    /// Rows of pg_stat_io.
    pub fn io_stats(&self) -> Vec<IoStatRow> {
        self.core.aio.stats().snapshot()
    }

    /// Rows of pg_aios: the I/O handles in use.
    pub fn aios(&self) -> Vec<AioRow> {
        self.core.aio.snapshot()
    }

    /// Whether the buffer pool uses the system's large pages.
    pub fn uses_huge_pages(&self) -> bool {
        self.core.pool.uses_huge_pages()
    }

    /// What pg_stat_database tells, of all databases together.
    pub fn database_stats(&self) -> views::DatabaseRow {
        views::database_row(&self.core, None)
    }

    /// What pg_stat_database tells of a database. Blocks, times and temporary files are those of
    /// the whole engine.
    pub fn database_stats_of(&self, database: Oid) -> views::DatabaseRow {
        views::database_row(&self.core, Some(database))
    }

    /// How many worker threads of statements there are.
    pub fn statement_workers(&self) -> usize {
        self.core.workers.running()
    }

    /// How many sessions wait for a lock.
    pub fn lock_waits(&self) -> usize {
        self.core.locks.waits()
    }

    /// Rows of pg_locks.
    pub fn locks(&self) -> Vec<views::LockRow> {
        views::lock_rows(&self.core)
    }

    /// The long commands of a kind that sessions run, for a view pg_stat_progress_*.
    pub fn progress(&self, command: views::Command) -> Vec<views::ProgressRow> {
        views::progress_rows(&self.core, command)
    }

    /// The sessions for which a session waits; empty if it does not wait.
    pub fn blocking_sessions(&self, session: i32) -> Vec<i32> {
        let owners = self.core.locks.blocked_by(OwnerId(session.cast_unsigned()));
        owners.into_iter().map(|owner| owner.0.cast_signed()).collect()
    }

    /// Wrong checksums found by reads, by database; None if pages have no checksums.
    pub fn checksum_failures(&self) -> Option<Vec<views::ChecksumFailures>> {
        self.data_checksums().then(|| self.core.pool.checksum_failures())
    }

    /// A look at each buffer of the pool, in order.
    pub fn buffers(&self) -> impl Iterator<Item = views::BufferInfo> + '_ {
        self.core.pool.inspect()
    }

    /// The buffer pool in a few numbers.
    pub fn pool_summary(&self) -> views::PoolSummary {
        self.core.pool.summary()
    }

    /// How many buffers have which usage count, from 0 on.
    pub fn usage_counts(&self) -> Vec<views::UsageCount> {
        self.core.pool.usage_counts().to_vec()
    }

    /// Rows of pg_stat_aio_backends: what each backend's I/O came to.
    pub fn aio_backends(&self) -> Vec<AioBackendRow> {
        self.core.aio.backend_stats()
    }

    /// One round of the background's work, for [`Background::Stepped`](crate::Background): the next
    /// WAL segment is prepared and full blocks of the log are flushed, buffers are cleaned, and a
    /// checkpoint that is wanted is made. Where threads do this, it does nothing.
    ///
    /// # Errors
    /// What the disk said; that of a checkpoint is for those who asked for it. Nothing happens once
    /// the engine has stopped.
    pub fn step(&self) -> Result<(), EngineError> {
        match self.running.lock().as_mut() {
            Some(Running { backend, cleaner, .. })
                if self.core.config.background == Background::Stepped =>
            {
                background::step(&self.core, backend, cleaner).map_err(|e| self.core.fatal.check(e))
            }
            _ => Ok(()),
        }
    }

    /// Takes over when and how fast the background threads write.
    pub fn change_writing(&self, to: &WritingSettings) {
        self.core.change_writing(*to);
    }

    /// From now on, the pool has another size, or follows the machine's memory. A thread changes
    /// it; with [`Background::Stepped`](crate::Background) the next step does, and follows nothing.
    pub fn change_pool_size(&self, to: PoolSize) {
        self.core.sizing.change(to);
    }

    /// The row of pg_stat_buffer_pool.
    pub fn pool_size(&self) -> views::PoolSizeRow {
        views::pool_size_row(&self.core)
    }

    /// Takes over what archives the log. Without archive_mode nothing does.
    pub fn change_archiving(&self, to: &ArchiveSettings) {
        self.core.archiving.change(to);
    }

    /// Takes over new settings of the I/O layer.
    pub fn change_io(&self, to: &IoSettings) -> Result<(), EngineError> {
        self.core.pool.smgr().set_extend_method(to.file_extend_method);
        io::change(&self.core.aio, to)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = self.shutdown(ShutdownMode::Immediate) {
            tracing::warn!("{error}");
        }
    }
}

/// The shutdown checkpoint. The files of tables whose transactions were aborted.
fn shut_down(core: &Arc<Core>, backend: &mut Backend) -> Result<Vec<RelFileLocator>, EngineError> {
    let left =
        core.xacts.abort_all(&mut backend.io).map_err(|error| core.fatal.check(error.into()))?;
    if core.archiving.is_on() {
        // So that the archive gets all but the checkpoint itself.
        core.wal.switch_segment(&mut backend.io).map_err(|error| core.fatal.check(error.into()))?;
    }
    checkpoint::checkpoint(core, backend, Causes::SHUTDOWN)
        .map_err(|error| core.fatal.check(error))?;
    Ok(left)
}

/// Nothing more is written.
fn stop_at_once(core: &Core, threads: &mut Threads, backend: &mut Backend) {
    core.enter(Phase::Stopped);
    core.sessions.terminate_all();
    core.activity.close();
    threads.stop(core);
    core.archiving.stop(backend, false);
}

fn stop_fast(
    core: &Arc<Core>,
    lock: &LockFile,
    threads: &mut Threads,
    backend: &mut Backend,
) -> Result<(), EngineError> {
    core.enter(Phase::Stopping);
    // Only for those who look on: no reason to leave threads running and the log without its
    // checkpoint.
    if let Err(error) = lock.set_status(&mut backend.io, ServerStatus::Stopping) {
        tracing::warn!("{error}");
    }
    core.sessions.terminate_all();
    // Once the calls under way have ended nobody gets in any more, not even to abort: that is done
    // here.
    core.activity.close();
    threads.stop(core);
    let stopped = shut_down(core, backend);
    core.archiving.stop(backend, stopped.is_ok());
    let left = stopped?;
    core.enter(Phase::Stopped);
    open::remove_temp_tables(&core.aio, &core.dir);
    let kept = core.statistics.get();
    relation_stats::write(&mut backend.io, &core.dir, &kept, &core.control.get());
    core.dump_at_stop(backend);
    // Scans may hold pages of these files; nobody writes them any more.
    for rel in left {
        if let Err(error) = core.smgr.unlink(rel) {
            tracing::warn!("{error}");
        }
    }
    Ok(())
}
