//! What an engine is made and opened with. Names, defaults and units follow PostgreSQL's settings.

use std::io::Write;
use std::path::PathBuf;

use forebay_aio::sync::Duration;
use forebay_archive::store::codec::Compression;
use forebay_archive::store::layout::LayoutKind;
use forebay_storage::ReadPolicy;
use forebay_wal::SegmentPolicy;

use crate::redo::ResourceManagers;

pub use forebay_aio::{BadIoDirect, HugePages, IoDirect, WorkerLimits};
pub use forebay_format::wal::ImageCompression;
pub use forebay_storage::{CleanerOptions, ExtendMethod};

pub use crate::recovery::{
    RecoveryStop, RecoveryTarget, RestoreFrom, RestoreSettings, RestoreSource, TargetAction,
    TargetTimeline,
};

use crate::xact::CommitWay;

/// How I/O is executed: PostgreSQL's io_method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IoMethod {
    /// By the thread that wants it, at once.
    Sync,
    /// By I/O worker threads.
    #[default]
    Worker,
    /// By the kernel, with a ring for each backend.
    IoUring,
    /// By the system's POSIX AIO.
    PosixAio,
    /// By the kernel where io_uring can be had, else by workers; a warning says why.
    Auto,
}

impl IoMethod {
    /// Every method, by its name.
    pub const NAMES: [(&'static str, IoMethod); 5] = [
        ("sync", IoMethod::Sync),
        ("worker", IoMethod::Worker),
        ("io_uring", IoMethod::IoUring),
        ("posix_aio", IoMethod::PosixAio),
        ("auto", IoMethod::Auto),
    ];

    /// The method of that name.
    pub fn by_name(name: &str) -> Option<IoMethod> {
        IoMethod::NAMES.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }
}

/// How WAL is made durable: PostgreSQL's wal_sync_method, and `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WalSyncMethod {
    /// fdatasync after the writes.
    #[default]
    Fdatasync,
    /// fsync after the writes.
    Fsync,
    /// Segments opened with O_DSYNC.
    OpenDatasync,
    /// Segments opened with O_SYNC.
    OpenSync,
    /// What is the fastest of these on the log's disk: measured at the first start, and kept.
    Auto,
}

impl WalSyncMethod {
    /// Every method, by its name.
    pub const NAMES: [(&'static str, WalSyncMethod); 5] = [
        ("fsync", WalSyncMethod::Fsync),
        ("fdatasync", WalSyncMethod::Fdatasync),
        ("open_sync", WalSyncMethod::OpenSync),
        ("open_datasync", WalSyncMethod::OpenDatasync),
        ("auto", WalSyncMethod::Auto),
    ];

    /// The method of that name.
    pub fn by_name(name: &str) -> Option<WalSyncMethod> {
        WalSyncMethod::NAMES.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }
}

/// What goes to an archive: PostgreSQL's archive_mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ArchiveMode {
    /// Nothing.
    #[default]
    Off,
    /// What this server has written.
    On,
    /// Also what it has got from an archive while it recovered.
    Always,
}

impl ArchiveMode {
    /// Every mode, by its name.
    pub const NAMES: [(&'static str, ArchiveMode); 3] =
        [("always", ArchiveMode::Always), ("on", ArchiveMode::On), ("off", ArchiveMode::Off)];

    /// The mode of that name.
    pub fn by_name(name: &str) -> Option<ArchiveMode> {
        ArchiveMode::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }
}

/// An archive with manifests, and how it is used: what `forebay_archive` archives into and restores
/// from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStore {
    /// Where it is: a directory, or a URL; empty: not set.
    pub location: String,
    /// How new files are compressed.
    pub compression: Compression,
    /// The layout that it must have, and a new one gets; None: whichever it has, plain for a new
    /// one.
    pub layout: Option<LayoutKind>,
    /// A file with the key to encrypt and decrypt with. With it, what was stored without is
    /// refused.
    pub key_file: Option<PathBuf>,
    /// With a key: files and manifests of an archive that was begun without one are accepted.
    pub accept_unencrypted: bool,
}

/// What archives completed WAL segments: PostgreSQL's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// A command for each file (archive_command).
    pub command: String,
    /// A module's name (archive_library): `basic_archive`, `forebay_archive`, or one of
    /// [`EngineConfig::archive_modules`].
    pub library: String,
    /// Where `basic_archive` stores files.
    pub directory: String,
    /// What `forebay_archive` stores files in.
    pub store: ArchiveStore,
    /// Files in flight at a time; 0: as many as suit the module, but not more than four. A command
    /// is always run alone.
    pub transfers: usize,
    /// A segment is completed after this time, if it holds any changes; zero: when it is full.
    pub timeout: Duration,
}

impl ArchiveSettings {
    /// What the module depends on.
    pub(crate) fn module(&self) -> (&str, &str, &str, &ArchiveStore) {
        (&self.command, &self.library, &self.directory, &self.store)
    }
}

/// Archive modules of an embedder's: what archive_library names beside the engine's own.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use forebay_engine::archive::{ArchiveError, ArchiveModule, Archived, Source};
/// use forebay_engine::{ArchiveMode, ArchiveModules, ArchiveSettings, Engine, EngineConfig, InitOptions, ShutdownMode};
///
/// /// Keeps what it is given in memory: not durable, so no archive.
/// #[derive(Default)]
/// struct Memory(Mutex<Vec<(String, Vec<u8>)>>);
///
/// impl ArchiveModule for Memory {
///     fn name(&self) -> &'static str {
///         "memory"
///     }
///
///     fn archive(&self, io: &mut forebay_aio::Backend, file: &mut Source) -> Result<Archived, ArchiveError> {
///         let mut bytes = Vec::new();
///         while let Some(piece) = file.next(io)? {
///             bytes.extend_from_slice(piece.bytes());
///             file.give_back(piece.buf);
///         }
///         self.0.lock().unwrap().push((file.name().to_string(), bytes));
///         Ok(Archived::Stored)
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let dir = folder.path().join("data");
/// # let dir = dir.as_path();
/// Engine::init(dir, &InitOptions::default())?;
/// let memory = Arc::new(Memory::default());
/// let engine = Engine::open(dir, EngineConfig {
///     archive_mode: ArchiveMode::On,
///     archiving: ArchiveSettings { library: "memory".to_owned(), ..ArchiveSettings::default() },
///     archive_modules: ArchiveModules(vec![memory.clone()]),
///     ..EngineConfig::default()
/// })?;
/// engine.session()?.switch_wal()?;
/// engine.shutdown(ShutdownMode::Fast)?;
/// let (name, segment) = &memory.0.lock().unwrap()[0];
/// assert_eq!((name.as_str(), segment.len()), ("000000010000000000000001", 16 << 20));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ArchiveModules(pub Vec<std::sync::Arc<dyn forebay_archive::ArchiveModule>>);

impl std::fmt::Debug for ArchiveModules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|module| module.name())).finish()
    }
}

/// What an engine is opened with. `default()` has PostgreSQL's defaults.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Blocks of the buffer pool.
    pub shared_buffers: usize,
    /// Whether the buffer pool uses the system's large pages.
    pub huge_pages: HugePages,
    /// How I/O is executed.
    pub io_method: IoMethod,
    /// What bypasses the page cache.
    pub io_direct: IoDirect,
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
    /// Whether completed WAL segments go to an archive, and are kept until it has them
    /// (archive_mode).
    pub archive_mode: ArchiveMode,
    /// What archives them; may change while the engine runs.
    pub archiving: ArchiveSettings,
    /// Modules that archive_library may name, beside the engine's own.
    pub archive_modules: ArchiveModules,
    /// When and how fast the background threads write; may change while the engine runs.
    pub writing: WritingSettings,
    /// How recovery goes.
    pub recovery: RecoverySettings,
    /// Recovery from an archive, where a file asks for it.
    pub restore: RestoreSettings,
    /// Where that gets files of the log from, if not by restore_command.
    pub restore_from: Option<RestoreFrom>,
    /// Resource managers beside the engine's own, for redo.
    pub resource_managers: ResourceManagers,
    /// Who does the work of the background.
    pub background: Background,
    /// Called when the engine must stop at once (a failed sync, damaged WAL). None: the engine is
    /// poisoned, every later call fails with
    /// [`EngineError::Poisoned`](crate::EngineError::Poisoned), and the program goes on. A server
    /// aborts. The thread that failed calls it, with locks held: it must not call the engine.
    pub on_fatal: Option<FatalAction>,
    /// Ends a recovery from outside: it goes on with the next start.
    pub recovery_stop: RecoveryStop,
    /// Called now and then during recovery.
    pub on_recovery: Option<RecoveryReport>,
    /// Called at the steps of each checkpoint, in the thread that makes it.
    pub on_checkpoint: Option<CheckpointWatch>,
    /// The port told in postmaster.pid.
    pub port: u16,
    /// The socket directory told in postmaster.pid.
    pub socket_dir: String,
    /// The listen address told in postmaster.pid.
    pub listen_addr: String,
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
    /// Blocks after which a checkpoint has the kernel write back what it has buffered; 0: never.
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
}

/// How recovery reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverySettings {
    /// Whether pages are read that records ahead of redo name (recovery_prefetch).
    pub prefetch: bool,
    /// Bytes of records between the log and redo (wal_decode_buffer_size).
    pub decode_buffer: usize,
    /// Reads of pages under way (maintenance_io_concurrency).
    pub io_concurrency: usize,
}

impl Default for RecoverySettings {
    fn default() -> Self {
        RecoverySettings { prefetch: true, decode_buffer: 512 << 10, io_concurrency: 16 }
    }
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

/// Is told how far recovery has come.
#[derive(Clone)]
pub struct RecoveryReport(
    pub std::sync::Arc<dyn Fn(&crate::recovery::RecoveryProgress) + Send + Sync>,
);

impl std::fmt::Debug for RecoveryReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecoveryReport")
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

/// Is told how far a checkpoint has come. With [`Background::Stepped`] it may use sessions of its
/// own, but for checkpoints: so what happens beside a checkpoint happens in an order that repeats.
#[derive(Clone)]
pub struct CheckpointWatch(pub std::sync::Arc<dyn Fn(CheckpointStep) + Send + Sync>);

impl std::fmt::Debug for CheckpointWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CheckpointWatch")
    }
}

/// What a session may change for itself.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Blocks in one I/O (io_combine_limit).
    pub io_combine_limit: usize,
    /// I/Os in flight for one scan; 0: synchronous.
    pub effective_io_concurrency: usize,
    /// Whether commit waits for its WAL to be durable.
    pub synchronous_commit: bool,
    /// How long a commit waits for others to flush with, if there are any; zero: not at all.
    pub commit_delay: Duration,
    /// How many other transactions have to run for that.
    pub commit_siblings: usize,
    /// kB that a sort may take in memory before it goes on in temporary files.
    pub work_mem: usize,
    /// kB that the session's temporary files may have together; below 0: no limit.
    pub temp_file_limit: i64,
    /// Temporary files from so many kB on are logged when they go; below 0: none are.
    pub log_temp_files: i64,
    /// Blocks of the buffers for the session's temporary tables.
    pub temp_buffers: usize,
    /// A page that is damaged is taken to be empty, with a warning.
    pub zero_damaged_pages: bool,
    /// A page with a wrong checksum is taken as it is, with a warning.
    pub ignore_checksum_failure: bool,
}

impl SessionSettings {
    /// How commits become durable.
    pub(crate) fn commit_way(&self) -> CommitWay {
        CommitWay {
            wait: self.synchronous_commit,
            delay: self.commit_delay,
            siblings: self.commit_siblings,
        }
    }

    /// What becomes of damaged pages.
    pub(crate) fn read_policy(&self) -> ReadPolicy {
        ReadPolicy {
            zero_damaged_pages: self.zero_damaged_pages,
            ignore_checksum_failure: self.ignore_checksum_failure,
            ..ReadPolicy::default()
        }
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        SessionSettings {
            io_combine_limit: 16,
            effective_io_concurrency: 16,
            synchronous_commit: true,
            commit_delay: Duration::ZERO,
            commit_siblings: 5,
            work_mem: 4096,
            temp_file_limit: -1,
            log_temp_files: -1,
            temp_buffers: 1024,
            zero_damaged_pages: false,
            ignore_checksum_failure: false,
        }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            shared_buffers: 16384,
            huge_pages: HugePages::Try,
            io_method: IoMethod::default(),
            io_direct: IoDirect::default(),
            io_workers: WorkerLimits::default(),
            io_max_concurrency: None,
            io_max_combine_limit: 16,
            session: SessionSettings::default(),
            max_connections: 100,
            max_files_per_process: 1000,
            file_extend_method: ExtendMethod::default(),
            wal_sync_method: WalSyncMethod::default(),
            wal_buffers: None,
            full_page_writes: true,
            verify_writes: false,
            archive_mode: ArchiveMode::Off,
            archiving: ArchiveSettings::default(),
            archive_modules: ArchiveModules::default(),
            writing: WritingSettings::default(),
            recovery: RecoverySettings::default(),
            restore: RestoreSettings::default(),
            restore_from: None,
            resource_managers: ResourceManagers::default(),
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

/// What a data directory is made with.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// Bytes of a WAL segment: a power of two from 1 MB to 1 GB.
    pub wal_segment_size: u32,
    /// Whether everything is synced (a test may do without).
    pub sync: bool,
}

impl Default for InitOptions {
    fn default() -> Self {
        InitOptions { wal_segment_size: 16 << 20, sync: true }
    }
}
