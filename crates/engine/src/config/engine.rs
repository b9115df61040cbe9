//! What an engine is made and opened with. Names, defaults and units follow PostgreSQL's settings.

use std::io::Write;
use std::sync::Arc;

use forebay_access::redo::ResourceManagers;
use forebay_aio::named_enum;
use forebay_aio::sync::Duration;
use forebay_catalog::{IndexCompiler, OldestIds};
use forebay_format::FullXid;
use forebay_format::ids::FIRST_NORMAL_XID;
use forebay_format::multixact::{FIRST_MULTI, MemberOffset, MultiXactId};
use forebay_storage::{PageTrace, ReadPolicy};
use forebay_txn::CommitOptions;
use forebay_types::Encoding;
use forebay_wal::SegmentPolicy;

pub use forebay_aio::{BadIoDirect, HugePages, IoDirect, WorkerLimits};
pub use forebay_format::varlena::Method as ToastCompression;
pub use forebay_format::wal::ImageCompression;
pub use forebay_storage::{CleanerOptions, ExtendMethod};

use super::archive::{ArchiveMode, ArchiveModules, ArchiveSettings};
use super::autovacuum::AutovacuumSettings;
use super::direct::IoDirectSetting;
use super::parallel::ParallelSettings;
use super::pool_size::PoolSize;
use super::recovery::{RecoveryReport, RecoverySettings, RestoreFrom, RestoreSettings};
use super::stop::RecoveryStop;
use super::vacuum::VacuumSettings;

named_enum! {
    /// How I/O is executed: PostgreSQL's io_method.
    #[derive(Default)]
    IoMethod {
        /// By the thread that wants it, at once.
        Sync = "sync",
        /// By I/O worker threads.
        Worker = "worker",
        /// By the kernel, with a ring for each backend.
        IoUring = "io_uring",
        /// By the system's POSIX AIO.
        PosixAio = "posix_aio",
        /// By the kernel if io_uring is available, else by workers. The log says which, and why.
        #[default]
        Auto = "auto",
    }
}

named_enum! {
    /// How WAL is made durable: PostgreSQL's wal_sync_method, and `auto`.
    #[derive(Default)]
    WalSyncMethod {
        /// fsync after the writes.
        Fsync = "fsync",
        /// fdatasync after the writes.
        #[default]
        Fdatasync = "fdatasync",
        /// Segments opened with O_SYNC.
        OpenSync = "open_sync",
        /// Segments opened with O_DSYNC.
        OpenDatasync = "open_datasync",
        /// The fastest of these on the log's disk, as measured at the first start.
        Auto = "auto",
    }
}

/// What an engine is opened with. `default()` has PostgreSQL's defaults, but for
/// [`IoMethod::Auto`] and [`IoDirectSetting::Auto`].
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The size of the buffer pool. A program may say another one while the engine runs.
    pub shared_buffers: PoolSize,
    /// The most blocks that it may ever have; None: chosen by the machine's memory. Addresses are
    /// reserved for them.
    pub shared_buffers_max: Option<usize>,
    /// Whether the buffer pool uses the system's large pages.
    pub huge_pages: HugePages,
    /// How I/O is executed.
    pub io_method: IoMethod,
    /// What bypasses the page cache.
    pub io_direct: IoDirectSetting,
    /// I/O worker threads for [`IoMethod::Worker`].
    pub io_workers: WorkerLimits,
    /// Handles per backend; None: chosen from shared_buffers, at most 64.
    pub io_max_concurrency: Option<usize>,
    /// Blocks in one I/O at most, for any session.
    pub io_max_combine_limit: usize,
    /// Defaults of the settings a session may change.
    pub session: SessionSettings,
    /// Client sessions at a time.
    pub max_connections: usize,
    /// Worker threads of statements at a time, beside the sessions' own.
    pub max_worker_processes: usize,
    /// When tables are vacuumed and analyzed by autovacuum; may change while the engine runs.
    pub autovacuum: AutovacuumSettings,
    /// Room for workers of autovacuum. 0: there is no autovacuum at all, not even for tables whose
    /// ids get too old.
    pub autovacuum_worker_slots: usize,
    /// Objects that each session can lock; one can lock more if others lock fewer.
    pub max_locks_per_transaction: usize,
    /// Data files kept open at a time.
    pub max_files_per_process: usize,
    /// How data files grow.
    pub file_extend_method: ExtendMethod,
    /// How WAL is made durable.
    pub wal_sync_method: WalSyncMethod,
    /// Blocks of WAL buffers; None: shared_buffers/32, at least 8 blocks, at most one segment.
    pub wal_buffers: Option<usize>,
    /// Whether a page's first change after a checkpoint logs all of it.
    pub full_page_writes: bool,
    /// Whether what a checkpoint relies on is read back from the disk before old WAL goes
    /// (checkpoint_verify_writes): pages of relations and pg_xact, and pg_control.
    pub verify_writes: bool,
    /// Whether the pages of shared buffers are written down and read again after the next start
    /// (pg_prewarm.autoprewarm).
    pub autoprewarm: bool,
    /// Where to record which pages of shared buffers are used (debug_buffer_trace).
    pub buffer_trace: Option<Arc<PageTrace>>,
    /// Whether completed WAL segments go to an archive, and are kept until it has them
    /// (archive_mode).
    pub archive_mode: ArchiveMode,
    /// What archives them; may change while the engine runs.
    pub archiving: ArchiveSettings,
    /// Modules that archive_library may name, beside the engine's own.
    pub archive_modules: ArchiveModules,
    /// When and how fast the background threads write; may change while the engine runs.
    pub writing: WritingSettings,
    /// How recovery reads ahead.
    pub recovery: RecoverySettings,
    /// Recovery from an archive, where a file asks for it.
    pub restore: RestoreSettings,
    /// Where that gets files of the log from, if not by restore_command.
    pub restore_from: Option<RestoreFrom>,
    /// Resource managers beside the engine's own, for redo.
    pub resource_managers: ResourceManagers,
    /// What makes expressions and predicates of indexes evaluable. Without it, tables that have
    /// such indexes are not written.
    pub index_compiler: Option<Arc<dyn IndexCompiler>>,
    /// Who does the background work.
    pub background: Background,
    /// Called when the engine must stop at once (a failed sync, damaged WAL). None: the engine is
    /// poisoned, every later call fails with
    /// [`EngineError::Poisoned`](crate::EngineError::Poisoned), and the program goes on. A server
    /// aborts. The thread that failed calls it, with locks held: it must not call the engine.
    pub on_fatal: Option<FatalAction>,
    /// Ends a recovery from outside. The next start continues it.
    pub recovery_stop: RecoveryStop,
    /// Called now and then during recovery.
    pub on_recovery: Option<RecoveryReport>,
    /// Called at the steps of each checkpoint, in the thread that makes it.
    pub on_checkpoint: Option<CheckpointWatch>,
    /// The port in postmaster.pid.
    pub port: u16,
    /// The socket directory in postmaster.pid.
    pub socket_dir: String,
    /// The listen address in postmaster.pid.
    pub listen_addr: String,
}

/// Transfers to the archive for which there is room at least, so that their number can be raised
/// while the engine runs.
const SPARE_TRANSFERS: usize = 16;

impl EngineConfig {
    /// Most backends of the archiver: its threads, and one that looks whether a module is set up.
    pub(crate) fn archiver_backends(&self) -> usize {
        match self.archive_mode {
            ArchiveMode::Off => 0,
            ArchiveMode::On | ArchiveMode::Always => {
                self.archiving.transfers.max(SPARE_TRANSFERS) + 1
            }
        }
    }
}

/// Who writes checkpoints, prepares WAL segments and keeps buffers clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// Threads of the engine's own: checkpointer, WAL writer, background writer.
    #[default]
    Threads,
    /// The embedder, by calling [`Engine::step`](crate::Engine::step) now and then; a session that
    /// asks for a checkpoint makes it itself. With one session at a time everything happens in one
    /// thread, in an order that repeats.
    Stepped,
}

/// When, how fast and how checkpoints, the background writer and the WAL writer write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WritingSettings {
    /// Bytes of WAL between checkpoints, about.
    pub max_wal_size: u64,
    /// Bytes of WAL segments kept for reuse.
    pub min_wal_size: u64,
    /// Time between checkpoints.
    pub checkpoint_timeout: Duration,
    /// Share of the time between checkpoints over which writes are spread.
    pub checkpoint_completion_target: f64,
    /// Blocks after which a checkpoint makes the kernel write back its cache. 0: never.
    pub checkpoint_flush_after: u32,
    /// The background writer: bgwriter_delay, _lru_maxpages, _lru_multiplier, _flush_after.
    pub cleaner: CleanerOptions,
    /// Whether new WAL segments are filled with zeros.
    pub wal_init_zero: bool,
    /// Whether old WAL segments are used again.
    pub wal_recycle: bool,
    /// Rest between rounds of the WAL writer.
    pub wal_writer_delay: Duration,
    /// Bytes that are not durable after which the WAL writer flushes whatever the time, and is
    /// called for it; 0: it flushes at each round.
    pub wal_writer_flush_after: u64,
    /// How page images are compressed; None: not at all.
    pub wal_compression: Option<ImageCompression>,
    /// Time after which the pages of shared buffers are written down; zero: only at a clean stop
    /// (pg_prewarm.autoprewarm_interval).
    pub autoprewarm_interval: Duration,
}

impl WritingSettings {
    /// How segments of the log are made, and what becomes of old ones.
    pub(crate) fn segment_policy(&self) -> SegmentPolicy {
        SegmentPolicy { init_zero: self.wal_init_zero, recycle: self.wal_recycle }
    }
}

impl Default for WritingSettings {
    fn default() -> Self {
        WritingSettings {
            max_wal_size: 1 << 30,
            min_wal_size: 80 << 20,
            checkpoint_timeout: Duration::from_secs(300),
            checkpoint_completion_target: 0.9,
            checkpoint_flush_after: 32,
            cleaner: CleanerOptions::default(),
            wal_init_zero: true,
            wal_recycle: true,
            wal_writer_delay: Duration::from_millis(200),
            wal_writer_flush_after: 1 << 20,
            wal_compression: None,
            autoprewarm_interval: Duration::from_secs(300),
        }
    }
}

/// What happens on a failure after which nothing durable may be acknowledged: called with the
/// reason.
#[derive(Clone)]
pub struct FatalAction(pub std::sync::Arc<dyn Fn(&str) + Send + Sync>);

impl FatalAction {
    /// Prints PANIC with the reason, and aborts the process: what a server does, whose next start
    /// recovers.
    pub fn abort() -> FatalAction {
        FatalAction(std::sync::Arc::new(|reason| {
            tracing::error!("PANIC: {reason}");
            // The log may go elsewhere, and this must not get lost.
            let _ = writeln!(std::io::stderr(), "PANIC:  {reason}");
            std::process::abort();
        }))
    }
}

impl std::fmt::Debug for FatalAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FatalAction")
    }
}

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckpointStep {
    /// Its redo pointer stands, and commits under way before that have ended.
    Begun,
    /// pg_xact and all pages are written.
    Written,
    /// Everything that was written is durable.
    Synced,
    /// Its record is durable; pg_control does not know of it yet.
    Logged,
}

impl CheckpointStep {
    /// All of them, in their order.
    pub const ALL: [CheckpointStep; 4] = [
        CheckpointStep::Begun,
        CheckpointStep::Written,
        CheckpointStep::Synced,
        CheckpointStep::Logged,
    ];
}

/// Called at the steps of a checkpoint. With [`Background::Stepped`] it may use sessions of its
/// own, except for checkpoints, so that concurrent work happens in an order that repeats.
#[derive(Clone)]
pub struct CheckpointWatch(pub std::sync::Arc<dyn Fn(CheckpointStep) + Send + Sync>);

impl std::fmt::Debug for CheckpointWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CheckpointWatch")
    }
}

/// Settings that a session may change for itself.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Blocks in one I/O (io_combine_limit).
    pub io_combine_limit: usize,
    /// I/Os in flight for one scan; 0: synchronous.
    pub effective_io_concurrency: usize,
    /// Whether a scan of a large table begins where others of it are, so that they read each block
    /// once (synchronize_seqscans). Its rows come in another order then.
    pub synchronize_seqscans: bool,
    /// Whether commit waits for its WAL to be durable.
    pub synchronous_commit: bool,
    /// How long a commit waits for others to flush with, if there are any; zero: not at all.
    pub commit_delay: Duration,
    /// How many other transactions have to run for that.
    pub commit_siblings: usize,
    /// How long values are compressed whose column does not say it (default_toast_compression).
    pub default_toast_compression: ToastCompression,
    /// kB of memory that a sort may use before it uses temporary files.
    pub work_mem: usize,
    /// kB of memory that building an index may use before it uses temporary files.
    pub maintenance_work_mem: usize,
    /// kB that the session's temporary files may have together; below 0: no limit.
    pub temp_file_limit: i64,
    /// Temporary files of at least this many kB are logged when removed. Below 0: none.
    pub log_temp_files: i64,
    /// Blocks of the buffers for the session's temporary tables.
    pub temp_buffers: usize,
    /// A page that is damaged is taken to be empty, with a warning.
    pub zero_damaged_pages: bool,
    /// A page with a wrong checksum is taken as it is, with a warning.
    pub ignore_checksum_failure: bool,
    /// The role as which statements run (role); `none`: the session's.
    pub role: Arc<str>,
    /// The role that the session acts for (session_authorization). Empty: the one that has logged
    /// in.
    pub session_authorization: Arc<str>,
    /// The tablespace of new tables and indexes (default_tablespace). Empty: the
    /// database's.
    pub default_tablespace: Arc<str>,
    /// The schemas in which names without one are looked for (search_path): as written, `$user`
    /// for the one with the role's name.
    pub search_path: Arc<[String]>,
    /// How long a statement waits for a lock of a table, a row or a transaction; zero: without end.
    pub lock_timeout: Duration,
    /// How long a statement waits for a lock before it searches for a deadlock; zero: it searches
    /// before it waits.
    pub deadlock_timeout: Duration,
    /// Whether it counts for the statistics of relations (track_counts).
    pub track_counts: bool,
    /// Vacuum.
    pub vacuum: VacuumSettings,
    /// How many common values and parts of a histogram ANALYZE keeps of a column
    /// (default_statistics_target).
    pub statistics_target: usize,
    /// Parallel scans.
    pub parallel: ParallelSettings,
}

impl SessionSettings {
    /// How commits become durable.
    pub(crate) fn commit_options(&self) -> CommitOptions {
        CommitOptions {
            wait: self.synchronous_commit,
            delay: self.commit_delay,
            siblings: self.commit_siblings,
        }
    }

    /// How long a statement waits for a lock. None: without end.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        (!self.lock_timeout.is_zero()).then_some(self.lock_timeout)
    }

    /// How reads treat damaged pages.
    pub(crate) fn read_policy(&self) -> ReadPolicy {
        ReadPolicy {
            zero_damaged_pages: self.zero_damaged_pages,
            ignore_checksum_failure: self.ignore_checksum_failure,
            ..ReadPolicy::default()
        }
    }
}

/// The names of a list such as search_path: separated by commas, in double quotes or folded to
/// lower case. None: it is no list.
pub fn identifier_list(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text.trim_ascii();
    if rest.is_empty() {
        return Some(found);
    }
    loop {
        let mut name = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let (part, behind) = quoted.split_once('"')?;
                name.push_str(part);
                match behind.strip_prefix('"') {
                    Some(more) => {
                        name.push('"');
                        quoted = more;
                    }
                    None => {
                        rest = behind;
                        break;
                    }
                }
            }
        } else {
            let end =
                rest.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(rest.len());
            let (word, behind) = rest.split_at_checked(end)?;
            if word.is_empty() {
                return None;
            }
            name = word.to_ascii_lowercase();
            rest = behind;
        }
        found.push(name);
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(found);
        }
        rest = rest.strip_prefix(',')?.trim_ascii_start();
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        SessionSettings {
            role: Arc::from("none"),
            session_authorization: Arc::from(""),
            default_tablespace: Arc::from(""),
            search_path: Arc::from(["$user".to_owned(), "public".to_owned()]),
            io_combine_limit: 16,
            effective_io_concurrency: 16,
            synchronize_seqscans: true,
            synchronous_commit: true,
            commit_delay: Duration::ZERO,
            commit_siblings: 5,
            default_toast_compression: ToastCompression::Pglz,
            work_mem: 4096,
            maintenance_work_mem: 65_536,
            temp_file_limit: -1,
            log_temp_files: -1,
            temp_buffers: 1024,
            zero_damaged_pages: false,
            ignore_checksum_failure: false,
            lock_timeout: Duration::ZERO,
            deadlock_timeout: Duration::from_secs(1),
            track_counts: true,
            vacuum: VacuumSettings::default(),
            statistics_target: 100,
            parallel: ParallelSettings::default(),
        }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            shared_buffers: PoolSize::DEFAULT,
            shared_buffers_max: None,
            huge_pages: HugePages::Try,
            io_method: IoMethod::default(),
            io_direct: IoDirectSetting::Auto,
            io_workers: WorkerLimits::default(),
            io_max_concurrency: None,
            io_max_combine_limit: 16,
            session: SessionSettings::default(),
            max_connections: 100,
            max_worker_processes: 8,
            autovacuum: AutovacuumSettings::default(),
            autovacuum_worker_slots: 16,
            max_locks_per_transaction: 64,
            max_files_per_process: 1000,
            file_extend_method: ExtendMethod::default(),
            wal_sync_method: WalSyncMethod::default(),
            wal_buffers: None,
            full_page_writes: true,
            verify_writes: false,
            autoprewarm: false,
            buffer_trace: None,
            archive_mode: ArchiveMode::Off,
            archiving: ArchiveSettings::default(),
            archive_modules: ArchiveModules::default(),
            writing: WritingSettings::default(),
            recovery: RecoverySettings::default(),
            restore: RestoreSettings::default(),
            restore_from: None,
            resource_managers: ResourceManagers::default(),
            index_compiler: None,
            background: Background::Threads,
            on_fatal: None,
            recovery_stop: RecoveryStop::default(),
            on_recovery: None,
            on_checkpoint: None,
            port: 5432,
            socket_dir: String::new(),
            listen_addr: String::new(),
        }
    }
}

/// How a data directory is made.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// Bytes of a WAL segment: a power of two from 1 MB to 1 GB.
    pub wal_segment_size: u32,
    /// Whether everything is synced (a test may do without).
    pub sync: bool,
    /// Whether the databases template1 and template0 are made beside `postgres`. New databases are
    /// copies of them. Without them a directory is smaller, and sooner made.
    pub templates: bool,
    /// The locale of the databases; C, if nothing is said.
    pub locale: LocaleOptions,
    /// Whether the databases get the collations of the C library's locales (`locale -a`).
    pub system_collations: bool,
}

/// The locale of a new cluster's databases, as initdb takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocaleOptions {
    /// pg_database.encoding
    pub encoding: Encoding,
    /// pg_database.datlocprovider
    pub provider: Option<u8>,
    /// Of the provider, and of LC_COLLATE and LC_CTYPE.
    pub locale: Option<String>,
    /// LC_COLLATE
    pub collate: Option<String>,
    /// LC_CTYPE
    pub ctype: Option<String>,
    /// The locale of the builtin provider.
    pub builtin_locale: Option<String>,
    /// The locale of ICU.
    pub icu_locale: Option<String>,
}

impl Default for InitOptions {
    fn default() -> Self {
        let locale = LocaleOptions::default();
        let system_collations = false;
        InitOptions {
            wal_segment_size: 16 << 20,
            sync: true,
            templates: true,
            locale,
            system_collations,
        }
    }
}

/// Where the ids of a new data directory begin.
#[derive(Clone, Copy, Debug)]
pub struct FirstIds {
    /// The next transaction id, with its epoch.
    pub xid: FullXid,
    /// The next MultiXact.
    pub multi: MultiXactId,
    /// Where its members will begin.
    pub member: MemberOffset,
    /// The oldest ids that rows may have.
    pub oldest: OldestIds,
}

impl Default for FirstIds {
    fn default() -> FirstIds {
        FirstIds {
            xid: FullXid::new(0, FIRST_NORMAL_XID),
            multi: FIRST_MULTI,
            member: 0,
            oldest: OldestIds { xid: FIRST_NORMAL_XID, multi: FIRST_MULTI },
        }
    }
}
