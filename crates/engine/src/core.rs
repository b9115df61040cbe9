//! What sessions and background threads share.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_access::heap::Heaps;
use forebay_aio::sync::atomic::{AtomicU8, Ordering};
use forebay_aio::sync::{Mutex, RwLock};
use forebay_aio::{Aio, IoBackend, IoDirect};
use forebay_catalog::{Database, Databases, OidCounter};
use forebay_format::ids::INVALID_XID;
use forebay_format::wal::Rmgr;
use forebay_storage::{BufferPool, Smgr, TempFiles};
use forebay_txn::locks::LockManager;
use forebay_txn::{MultiXacts, XactManager};
use forebay_types::Oid;
use forebay_wal::{Inserted, Record, Wal};

use crate::activity::Activity;
use crate::archiver::Archiving;
use crate::autovacuum::state::Autovacuum;
use crate::checkpointer::{Causes, Checkpointer};
use crate::config::{EngineConfig, WritingSettings};
use crate::control::Control;
use crate::counters::Counters;
use crate::error::EngineError;
use crate::fatal::Fatal;
use crate::pool_size::state::Sizing;
use crate::registry::Registry;
use crate::relation_stats::Statistics;
use crate::running_backups::RunningBackups;
use crate::sums::Marks;
use crate::walwriter::WalWriterLatch;
use crate::warm::state::Warm;
use crate::workers::Workers;

/// The state of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Sessions can work.
    Running = 0,
    /// Sessions are told to end, and nothing new begins.
    Stopping = 1,
    /// Nothing is read or written any more.
    Stopped = 2,
}

/// An open data directory's shared state.
pub(crate) struct Core {
    pub(crate) dir: PathBuf,
    pub(crate) config: EngineConfig,
    /// The files that bypass the kernel's page cache.
    pub(crate) direct: IoDirect,
    pub(crate) aio: Arc<Aio>,
    pub(crate) smgr: Arc<Smgr>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) temp_files: Arc<TempFiles>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) xacts: Arc<XactManager>,
    pub(crate) multis: Arc<MultiXacts>,
    pub(crate) heaps: Arc<Heaps>,
    pub(crate) locks: LockManager,
    pub(crate) control: Arc<Control>,
    pub(crate) oids: Arc<OidCounter>,
    pub(crate) databases: Databases,
    /// Held while the limits of new ids are moved.
    pub(crate) id_limits: Mutex<()>,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) sessions: Registry,
    pub(crate) workers: Workers,
    /// By database.
    pub(crate) counters: RwLock<HashMap<Oid, Arc<Counters>>>,
    pub(crate) marks: Marks,
    pub(crate) statistics: Statistics,
    pub(crate) autovacuum: Autovacuum,
    pub(crate) fatal: Arc<Fatal>,
    pub(crate) archiving: Archiving,
    /// The timeline before the log's own, or the same if recovery began none.
    pub(crate) came_from: u32,
    /// As last changed.
    pub(crate) writing: RwLock<WritingSettings>,
    pub(crate) phase: AtomicU8,
    /// Calls in progress, for which a stop waits.
    pub(crate) activity: Activity,
    pub(crate) wal_writer: WalWriterLatch,
    pub(crate) warm: Warm,
    pub(crate) sizing: Arc<Sizing>,
    pub(crate) backups: RunningBackups,
}

impl Core {
    /// The state of an engine.
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Running,
            1 => Phase::Stopping,
            _ => Phase::Stopped,
        }
    }

    /// Moves to a later phase. Returns the one before.
    pub(crate) fn enter(&self, phase: Phase) -> Phase {
        match self.phase.fetch_max(phase as u8, Ordering::SeqCst) {
            0 => Phase::Running,
            1 => Phase::Stopping,
            _ => Phase::Stopped,
        }
    }

    /// Fails once the engine is stopping or has stopped.
    pub(crate) fn check_running(&self) -> Result<(), EngineError> {
        self.fatal.check_alive()?;
        if self.phase() == Phase::Running { Ok(()) } else { Err(EngineError::ShuttingDown) }
    }

    /// Logs a record of the log's own, which belongs to no transaction and changes no page.
    pub(crate) fn log(
        &self,
        io: &mut IoBackend,
        info: u8,
        main: &[u8],
    ) -> Result<Inserted, EngineError> {
        self.log_as(io, Rmgr::XLOG, info, main)
    }

    /// The same, of another resource manager.
    pub(crate) fn log_as(
        &self,
        io: &mut IoBackend,
        rmgr: Rmgr,
        info: u8,
        main: &[u8],
    ) -> Result<Inserted, EngineError> {
        Ok(self.wal.insert(io, &Record { rmgr, info, xid: INVALID_XID, main, blocks: &[] })?)
    }

    /// What the sessions of a database count.
    pub(crate) fn counters_of(&self, database: Oid) -> Arc<Counters> {
        if let Some(known) = self.counters.read().get(&database) {
            return Arc::clone(known);
        }
        Arc::clone(self.counters.write().entry(database).or_default())
    }

    /// The current settings for background writes.
    pub(crate) fn writing(&self) -> WritingSettings {
        *self.writing.read()
    }

    /// Changes the settings for background writes.
    pub(crate) fn change_writing(&self, to: WritingSettings) {
        *self.writing.write() = to;
        self.wal.set_compression(to.wal_compression);
        self.wal.set_segment_policy(to.segment_policy());
        self.pool.wake_cleaner();
        self.checkpointer.requests.nudge();
        self.warm.change();
    }

    /// From now on, the log asks for a checkpoint whenever it enters a segment and has grown enough
    /// since the last one, whatever command makes it grow.
    pub(crate) fn watch_log(self: &Arc<Core>) {
        let core = Arc::downgrade(self);
        self.wal.watch_growth(Arc::new(move |segments| {
            // Whoever writes to the log holds the core, so this is never its last owner.
            let Some(core) = core.upgrade() else { return };
            let segment = core.wal.config().segment_size.bytes();
            if segments >= core.wal_trigger() / segment {
                core.checkpointer.requests.ask_once(Causes::WAL);
            }
        }));
    }

    /// Bytes of WAL after which a checkpoint is due, so that the log stays below max_wal_size until
    /// that checkpoint is complete.
    pub(crate) fn wal_trigger(&self) -> u64 {
        let segment = self.wal.config().segment_size.bytes();
        let writing = self.writing();
        let trigger = writing.max_wal_size as f64 / (1.0 + writing.checkpoint_completion_target);
        (trigger as u64).max(segment)
    }
}

/// What a session works with: the core, and where in it the session is.
#[derive(Debug)]
pub(crate) struct InDatabase {
    pub(crate) core: Arc<Core>,
    /// The database that it has entered.
    pub(crate) database: Arc<Database>,
    pub(crate) database_name: String,
    /// The role that it has logged in as.
    pub(crate) role: Oid,
    pub(crate) role_name: String,
    /// What the sessions of the database count.
    pub(crate) counters: Arc<Counters>,
}

impl Deref for InDatabase {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("dir", &self.dir)
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}
