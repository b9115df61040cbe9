//! What sessions and background threads share.

use forebay_aio::sync::RwLock;
use forebay_aio::sync::atomic::{AtomicU8, Ordering};
use std::path::PathBuf;
use std::sync::Arc;

use forebay_aio::Aio;
use forebay_storage::{BufferPool, Smgr, TempFiles};
use forebay_wal::Wal;

use crate::activity::Activity;
use crate::archiver::Archiving;
use crate::background::WalWriterCall;
use crate::backup::Backups;
use crate::catalog::Catalogs;
use crate::checkpoint::Checkpointer;
use crate::config::{EngineConfig, WritingSettings};
use crate::control::Control;
use crate::counters::Counters;
use crate::error::EngineError;
use crate::fatal::Fatal;
use crate::heap::{Heap, SpaceMap};
use crate::locks::LockManager;
use crate::oids::OidCounter;
use crate::registry::Registry;
use crate::sums::Marks;
use crate::table::Table;
use crate::xact::{Clog, XactManager};

/// How far the engine's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Sessions work.
    Running = 0,
    /// Sessions are told to end; nothing new begins.
    Stopping = 1,
    /// Nothing may be read or written any more.
    Stopped = 2,
}

/// An open data directory's shared state.
pub(crate) struct Core {
    pub(crate) dir: PathBuf,
    pub(crate) config: EngineConfig,
    pub(crate) aio: Arc<Aio>,
    pub(crate) smgr: Arc<Smgr>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) temp_files: Arc<TempFiles>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) clog: Arc<Clog>,
    pub(crate) xacts: XactManager,
    pub(crate) spaces: SpaceMap,
    pub(crate) locks: LockManager,
    pub(crate) control: Arc<Control>,
    pub(crate) oids: OidCounter,
    pub(crate) catalogs: Catalogs,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) sessions: Registry,
    pub(crate) counters: Counters,
    pub(crate) marks: Marks,
    pub(crate) fatal: Arc<Fatal>,
    pub(crate) archiving: Archiving,
    /// The timeline that recovery came along; the log's own, if it began none.
    pub(crate) came_from: u32,
    /// As the last reload left it.
    writing: RwLock<WritingSettings>,
    phase: AtomicU8,
    /// Calls under way, which a stop waits for.
    pub(crate) activity: Activity,
    pub(crate) wal_writer: WalWriterCall,
    pub(crate) backups: Backups,
}

/// The parts a core is put together from, once the log stands where it goes on.
pub(crate) struct Parts {
    pub(crate) dir: PathBuf,
    pub(crate) config: EngineConfig,
    pub(crate) aio: Arc<Aio>,
    pub(crate) smgr: Arc<Smgr>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) temp_files: Arc<TempFiles>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) clog: Arc<Clog>,
    pub(crate) xacts: XactManager,
    pub(crate) control: Arc<Control>,
    pub(crate) oids: OidCounter,
    pub(crate) catalogs: Catalogs,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) fatal: Arc<Fatal>,
    pub(crate) archiving: Archiving,
    pub(crate) came_from: u32,
}

impl Core {
    /// Puts the parts together.
    pub(crate) fn new(parts: Parts) -> Core {
        Core {
            sessions: Registry::new(parts.config.max_connections),
            counters: Counters::default(),
            marks: Marks::default(),
            writing: RwLock::new(parts.config.writing),
            dir: parts.dir,
            config: parts.config,
            aio: parts.aio,
            smgr: parts.smgr,
            pool: parts.pool,
            temp_files: parts.temp_files,
            wal: parts.wal,
            clog: parts.clog,
            xacts: parts.xacts,
            spaces: SpaceMap::new(),
            locks: LockManager::new(),
            control: parts.control,
            oids: parts.oids,
            catalogs: parts.catalogs,
            checkpointer: parts.checkpointer,
            fatal: parts.fatal,
            archiving: parts.archiving,
            came_from: parts.came_from,
            phase: AtomicU8::new(Phase::Running as u8),
            activity: Activity::default(),
            wal_writer: WalWriterCall::default(),
            backups: Backups::default(),
        }
    }

    /// How far the engine's life has come.
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Running,
            1 => Phase::Stopping,
            _ => Phase::Stopped,
        }
    }

    /// Goes on to a later phase; the phase before.
    pub(crate) fn enter(&self, phase: Phase) -> Phase {
        match self.phase.fetch_max(phase as u8, Ordering::SeqCst) {
            0 => Phase::Running,
            1 => Phase::Stopping,
            _ => Phase::Stopped,
        }
    }

    /// Fails once the engine stops, or has had to.
    pub(crate) fn check_running(&self) -> Result<(), EngineError> {
        self.fatal.check_alive()?;
        if self.phase() == Phase::Running { Ok(()) } else { Err(EngineError::ShuttingDown) }
    }

    /// When and how fast to write, now.
    pub(crate) fn writing(&self) -> WritingSettings {
        *self.writing.read()
    }

    /// Changes when and how fast to write.
    pub(crate) fn change_writing(&self, to: WritingSettings) {
        *self.writing.write() = to;
        self.wal.set_compression(to.wal_compression);
        self.wal.set_segment_policy(to.segment_policy());
        self.pool.wake_cleaner();
        self.checkpointer.requests.nudge();
    }

    /// Bytes of WAL since the redo pointer that make a checkpoint due, so that the log stays below
    /// max_wal_size while that checkpoint takes its time.
    pub(crate) fn wal_trigger(&self) -> u64 {
        let segment = self.wal.config().segment_size.bytes();
        let writing = self.writing();
        let trigger = writing.max_wal_size as f64 / (1.0 + writing.checkpoint_completion_target);
        (trigger as u64).max(segment)
    }

    /// A table's file with what working on it needs, its pages in the shared pool.
    pub(crate) fn heap(&self, table: &Table) -> Heap {
        Heap {
            locator: table.locator,
            pool: Arc::clone(&self.pool),
            wal: Arc::clone(&self.wal),
            logged: !table.is_temporary(),
            clog: Arc::clone(&self.clog),
            space: self.spaces.relation(table.locator),
            fatal: Arc::clone(&self.fatal),
        }
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
