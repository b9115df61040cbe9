//! Opening a data directory: from its files to a core with sessions and threads.

use std::path::Path;
use std::sync::Arc;

use forebay_access::heap::{Heaps, Outcomes, PageFailure, SpaceMap};
use forebay_aio::sync::atomic::AtomicU8;
use forebay_aio::sync::{Mutex, RwLock};
use forebay_aio::{Aio, IoDirect};
use forebay_catalog::{Databases, KnownTrees, OidCounter, RelationMaps, Shared};
use forebay_format::control::{ControlFile, DbState};
use forebay_format::wal::xlog::CheckPoint;
use forebay_storage::{Backend, BufferPool, PoolConfig, Smgr, SmgrConfig, TempFiles};
use forebay_txn::locks::LockManager;
use forebay_txn::redo::Counters;
use forebay_txn::{Clog, DatabaseName, MultiCounters, MultiXacts, XactManager};
use forebay_wal::{Resume, SyncMethod, Wal, WalConfig};

use crate::activity::Activity;
use crate::archiver::Archiving;
use crate::autovacuum::state::Autovacuum;
use crate::background::Threads;
use crate::checkpoint;
use crate::checkpointer::Causes;
use crate::checkpointer::Checkpointer;
use crate::config::EngineConfig;
use crate::control::Control;
use crate::core::{Core, Phase};
use crate::error::EngineError;
use crate::fatal::Fatal;
use crate::id_limits;
use crate::io;
use crate::orphans;
use crate::pool_size;
use crate::pool_size::state::Sizing;
use crate::recovery::{self, Started, Startup};
use crate::registry::Registry;
use crate::relation_stats::{self, Statistics};
use crate::running_backups::RunningBackups;
use crate::sums::Marks;
use crate::walsync;
use crate::walwriter::WalWriterLatch;
use crate::warm::state::Warm;
use crate::workers::Workers;

/// Everything between the lock file and the first session.
pub(crate) fn start(
    dir: &Path,
    config: EngineConfig,
    aio: &Arc<Aio>,
    backend: &mut Backend,
) -> Result<(Arc<Core>, Threads), EngineError> {
    let core = open_core(dir, config, aio, backend)?;
    match core.archiving.start(core.config.background).and_then(|()| Threads::start(&core)) {
        Ok(threads) => Ok((core, threads)),
        Err(error) => {
            core.archiving.stop(backend, false);
            Err(error)
        }
    }
}

/// Opens all parts, recovers if necessary, and makes the checkpoint after a recovery. The relation
/// maps come first: recovery must not begin where nothing could be found.
fn open_core(
    dir: &Path,
    config: EngineConfig,
    aio: &Arc<Aio>,
    backend: &mut Backend,
) -> Result<Arc<Core>, EngineError> {
    let direct = io::direct_files(aio, dir, &config)?;
    backend.policy = config.session.read_policy();
    let fatal = Arc::new(Fatal::new(config.on_fatal.clone()).with_bugs(aio));
    let control = Arc::new(Control::open(&mut backend.io, dir, &config, Arc::clone(&fatal))?);
    RelationMaps::check_all(&mut backend.io, dir)?;
    let (smgr, temp_files) = open_files(dir, &config, direct.data, aio);
    let pool = open_pool(&config, aio, &smgr, control.get().checksum_version == 1)?;
    let clog = Arc::new(Clog::new(Arc::clone(aio), dir, config.verify_writes));
    let multis = Arc::new(MultiXacts::beside(&clog, multi_counters(&control.checkpoint())));
    let started = Startup {
        dir,
        config: &config,
        direct,
        aio,
        pool: &pool,
        clog: &clog,
        multis: &multis,
        control: &control,
    }
    .run(backend)?;
    let Started { resume, counters, checkpoint_end, timeline, came_from, .. } = started;
    let wal = start_wal(dir, &config, direct, aio, backend, &control, &fatal, timeline, resume)?;
    let archiving = Archiving::new(aio, dir, &config, &wal, &fatal)?;
    attach_wal(&started, &wal, &pool);
    let (xacts, oids) = open_ids(clog, &wal, &counters);
    let heaps = open_heaps(&pool, &wal, (&xacts, &multis), &fatal);
    let databases = find_databases(dir, backend, (&heaps, &xacts, &oids), &config)?;
    let core = Arc::new(Core {
        sessions: Registry::new(config.max_connections),
        workers: Workers::new(&config),
        locks: lock_table(&config),
        counters: RwLock::default(),
        marks: Marks::default(),
        statistics: Statistics::default(),
        autovacuum: Autovacuum::of(&config),
        writing: RwLock::new(config.writing),
        sizing: Arc::new(Sizing::of(&config.shared_buffers)),
        dir: dir.to_path_buf(),
        config,
        direct,
        aio: Arc::clone(aio),
        smgr,
        pool,
        temp_files,
        wal,
        xacts,
        multis,
        heaps,
        control,
        oids,
        databases,
        id_limits: Mutex::default(),
        checkpointer: Checkpointer::new(resume.redo, checkpoint_end),
        fatal,
        archiving,
        came_from,
        phase: AtomicU8::new(Phase::Running as u8),
        activity: Activity::default(),
        wal_writer: WalWriterLatch::default(),
        warm: Warm::default(),
        backups: RunningBackups::default(),
    });
    complete(core, backend, &started)
}

/// The databases, none of them entered. Recovery may have replaced their maps.
fn find_databases(
    dir: &Path,
    backend: &mut Backend,
    (heaps, xacts, oids): (&Arc<Heaps>, &Arc<XactManager>, &Arc<OidCounter>),
    config: &EngineConfig,
) -> Result<Databases, EngineError> {
    let (heaps, xacts, oids) = (Arc::clone(heaps), Arc::clone(xacts), Arc::clone(oids));
    let trees = Arc::new(KnownTrees::new(Arc::clone(&xacts)));
    let compiler = config.index_compiler.clone();
    Ok(Databases::new(backend, dir, Shared { heaps, xacts, oids, trees, compiler })?)
}

/// What hands out transaction ids and OIDs.
fn open_ids(
    clog: Arc<Clog>,
    wal: &Arc<Wal>,
    found: &Counters,
) -> (Arc<XactManager>, Arc<OidCounter>) {
    let xacts = XactManager::new(clog, Arc::clone(wal), found.next_xid, found.oldest_xid);
    xacts.set_limit(found.oldest_xid, DatabaseName { oid: found.oldest_xid_db, name: None });
    (Arc::new(xacts), Arc::new(OidCounter::new(found.next_oid)))
}

fn open_heaps(
    pool: &Arc<BufferPool>,
    wal: &Arc<Wal>,
    (xacts, multis): (&Arc<XactManager>, &Arc<MultiXacts>),
    fatal: &Arc<Fatal>,
) -> Arc<Heaps> {
    let outcomes = Outcomes::new(Arc::clone(xacts), Arc::clone(multis));
    Arc::new(Heaps {
        pool: Arc::clone(pool),
        wal: Arc::clone(wal),
        outcomes,
        spaces: SpaceMap::new(),
        failure: Arc::clone(fatal) as Arc<dyn PageFailure>,
    })
}

/// The lock table has room for as many locks as PostgreSQL's.
fn lock_table(config: &EngineConfig) -> LockManager {
    /// Backends beside sessions with which PostgreSQL reckons by default: autovacuum, workers, WAL
    /// senders.
    const OTHERS: usize = 36;
    let backends = config.max_connections.saturating_add(OTHERS);
    LockManager::with_room(backends, config.max_locks_per_transaction)
}

/// Announces the segments that recovery ended to the archiver, and gives the pool the log that it
/// flushes from now on.
fn attach_wal(started: &Started, wal: &Arc<Wal>, pool: &BufferPool) {
    for name in started.ended.iter().flat_map(|ended| &ended.announce) {
        wal.announce(name);
    }
    match &started.floor {
        Some(floor) => floor.hand_over(wal),
        None => pool.attach_wal(wal.clone()),
    }
}

fn multi_counters(point: &CheckPoint) -> MultiCounters {
    MultiCounters {
        next: point.next_multi,
        next_offset: point.next_multi_offset,
        oldest: point.oldest_multi,
        oldest_db: point.oldest_multi_db,
    }
}

/// Ends a recovery with a checkpoint.
fn complete(
    core: Arc<Core>,
    backend: &mut Backend,
    started: &Started,
) -> Result<Arc<Core>, EngineError> {
    let (recovered, branched) = (started.recovered, started.ended.is_some());
    id_limits::set_at_start(&core, backend)?;
    if !recovered {
        let kept = relation_stats::read(&mut backend.io, &core.dir, &core.control.get());
        core.statistics.load(kept);
    }
    relation_stats::discard(&mut backend.io, &core.dir);
    let remove = |backend: &mut Backend| orphans::remove(&core, backend, &started.made, recovered);
    if !recovered {
        core.control.set_state(&mut backend.io, DbState::Production)?;
        remove(backend)?;
    } else if !branched {
        remove(backend)?;
        checkpoint::checkpoint(&core, backend, Causes::RECOVERY)?;
    } else {
        // Begun again, a recovery from an archive stops where its timeline begins: before the
        // records of what is removed.
        checkpoint::checkpoint(&core, backend, Causes::RECOVERY)?;
        recovery::finish(&core, &mut backend.io)?;
        remove(backend)?;
    }
    core.watch_log();
    Ok(core)
}

/// Opens relation files, and removes temporary files that an earlier start left.
fn open_files(
    dir: &Path,
    config: &EngineConfig,
    direct: bool,
    aio: &Arc<Aio>,
) -> (Arc<Smgr>, Arc<TempFiles>) {
    let smgr_config = SmgrConfig {
        direct,
        max_open_files: config.max_files_per_process,
        extend_method: config.file_extend_method,
        verify_writes: config.verify_writes,
        ..SmgrConfig::default()
    };
    let smgr = Smgr::new(Arc::clone(aio), dir, smgr_config);
    let temp_files = TempFiles::new(&smgr);
    temp_files.remove_leftovers();
    remove_temp_tables(aio, dir);
    (smgr, temp_files)
}

fn open_pool(
    config: &EngineConfig,
    aio: &Arc<Aio>,
    smgr: &Arc<Smgr>,
    checksums: bool,
) -> Result<Arc<BufferPool>, EngineError> {
    let pool_config = PoolConfig {
        buffers: config.shared_buffers.at_start(),
        max_buffers: pool_size::bound(config),
        combine_limit: u32::try_from(config.io_max_combine_limit).unwrap_or(128),
        checksums,
        huge_pages: config.huge_pages,
        trace: config.buffer_trace.clone(),
        ..PoolConfig::default()
    };
    Ok(BufferPool::new(pool_config, Arc::clone(aio), Arc::clone(smgr))?)
}

/// Starts the log where recovery found its end. It stops with the engine.
#[expect(clippy::too_many_arguments, reason = "one step of `open_core`, which has them all")]
fn start_wal(
    dir: &Path,
    config: &EngineConfig,
    direct: IoDirect,
    aio: &Arc<Aio>,
    backend: &mut Backend,
    control: &Control,
    fatal: &Fatal,
    timeline: u32,
    resume: Resume,
) -> Result<Arc<Wal>, EngineError> {
    let sync_method = walsync::method(aio, backend, dir, config.wal_sync_method, direct.wal)?;
    let wal_config = wal_config(dir, config, direct, &control.get(), sync_method, timeline);
    let wal = Arc::new(Wal::start(Arc::clone(aio), &mut backend.io, wal_config, resume)?);
    wal.set_compression(config.writing.wal_compression);
    wal.set_segment_policy(config.writing.segment_policy());
    let log = Arc::clone(&wal);
    fatal.at_stop(move |failure| log.stop(&failure.message));
    Ok(wal)
}

fn wal_config(
    dir: &Path,
    config: &EngineConfig,
    direct: IoDirect,
    control: &ControlFile,
    sync_method: SyncMethod,
    timeline: u32,
) -> WalConfig {
    let auto = WalConfig::auto_buffers(config.shared_buffers.expected(), control.segment_size);
    WalConfig {
        dir: dir.join("pg_wal"),
        segment_size: control.segment_size,
        timeline,
        system_id: control.system_id,
        sync_method,
        direct: direct.wal,
        init_direct: direct.wal_init,
        buffers: config.wal_buffers.unwrap_or(auto),
        full_page_writes: config.full_page_writes,
        gather: true,
        writes_in_flight: WalConfig::WRITES_IN_FLIGHT,
    }
}

/// Removes the files of temporary tables whose sessions are gone.
pub(crate) fn remove_temp_tables(aio: &Aio, dir: &Path) {
    match forebay_storage::remove_temp_relations(aio.namespace().as_ref(), dir) {
        Ok(0) => {}
        Ok(n) => tracing::info!("removed {n} files of temporary tables"),
        Err(error) => tracing::warn!("could not remove files of temporary tables: {error}"),
    }
}
