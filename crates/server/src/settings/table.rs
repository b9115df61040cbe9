//! Which settings exist, in the order of their names, as SHOW ALL lists them.

use super::checks::{self, Check};
use forebay_sql::SqlError;

/// Who may change a setting, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Nobody: the server reports it.
    Internal,
    /// At server start.
    Postmaster,
    /// In the file, while the server runs.
    Sighup,
    /// A superuser, for a session.
    Superuser,
    /// Anyone, for a session.
    User,
}

impl Context {
    /// PostgreSQL's word (pg_settings.context).
    pub fn word(self) -> &'static str {
        match self {
            Context::Internal => "internal",
            Context::Postmaster => "postmaster",
            Context::Sighup => "sighup",
            Context::Superuser => "superuser",
            Context::User => "user",
        }
    }
}

/// Unit of a number without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the units")]
pub enum Unit {
    None,
    Bytes,
    Kb,
    Mb,
    Blocks,
    Ms,
    Seconds,
}

impl Unit {
    /// As pg_settings.unit prints it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Bytes => "B",
            Unit::Kb => "kB",
            Unit::Mb => "MB",
            Unit::Blocks => "8kB",
            Unit::Ms => "ms",
            Unit::Seconds => "s",
        }
    }

    /// Whether it measures memory (and not time).
    pub fn is_memory(self) -> bool {
        matches!(self, Unit::Bytes | Unit::Kb | Unit::Mb | Unit::Blocks)
    }

    /// Units that a value may have, smallest first, and what they are worth in this one.
    pub fn accepted(self) -> impl DoubleEndedIterator<Item = (&'static str, f64)> {
        /// In bytes.
        const MEMORY: &[(&str, f64)] = &[
            ("B", 1.0),
            ("kB", 1024.0),
            ("MB", 1_048_576.0),
            ("GB", 1_073_741_824.0),
            ("TB", 1_099_511_627_776.0),
        ];
        /// In microseconds.
        const TIME: &[(&str, f64)] =
            &[("us", 1.0), ("ms", 1e3), ("s", 1e6), ("min", 6e7), ("h", 3.6e9), ("d", 8.64e10)];
        let (units, own): (&[(&str, f64)], f64) = match self {
            Unit::None => (&[], 1.0),
            Unit::Bytes => (MEMORY, 1.0),
            Unit::Kb => (MEMORY, 1024.0),
            Unit::Mb => (MEMORY, 1_048_576.0),
            Unit::Blocks => (MEMORY, 8192.0),
            Unit::Ms => (TIME, 1e3),
            Unit::Seconds => (TIME, 1e6),
        };
        units.iter().map(move |(name, worth)| (*name, worth / own))
    }
}

/// Type and range of a setting.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the variants are the types")]
pub enum Kind {
    Bool,
    Int { min: i64, max: i64, unit: Unit },
    Real { min: f64, max: f64, unit: Unit },
    Enum(&'static [&'static str]),
    Text,
}

impl Kind {
    /// PostgreSQL's word (pg_settings.vartype).
    pub fn word(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Int { .. } => "integer",
            Kind::Real { .. } => "real",
            Kind::Enum(_) => "enum",
            Kind::Text => "string",
        }
    }
}

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Canonical name.
    pub name: &'static str,
    /// A second name for it.
    pub alias: Option<&'static str>,
    /// Who may change it.
    pub context: Context,
    /// Type and range.
    pub kind: Kind,
    /// Default, as text.
    pub boot: &'static str,
    /// pg_settings.category.
    pub category: &'static str,
    /// pg_settings.short_desc.
    pub description: &'static str,
    /// Clients are told of changes (ParameterStatus).
    pub report: bool,
    /// A check beyond type and range.
    pub check: Option<Check>,
    /// A word that stands for a number which is not in the range.
    pub word: Option<(&'static str, i64)>,
}

const fn setting(
    name: &'static str,
    context: Context,
    kind: Kind,
    boot: &'static str,
    category: &'static str,
    description: &'static str,
) -> Setting {
    Setting {
        name,
        alias: None,
        context,
        kind,
        boot,
        category,
        description,
        report: false,
        check: None,
        word: None,
    }
}

impl Setting {
    const fn reported(mut self) -> Setting {
        self.report = true;
        self
    }

    const fn checked(mut self, check: Check) -> Setting {
        self.check = Some(check);
        self
    }

    const fn or_word(mut self, word: &'static str, number: i64) -> Setting {
        self.word = Some((word, number));
        self
    }

    const fn or_named(mut self, alias: &'static str) -> Setting {
        self.alias = Some(alias);
        self
    }
}

/// Finds a setting by a name in any case: its index in the table, and its row. 42704 if there is
/// none.
pub fn find(name: &str) -> Result<(usize, &'static Setting), SqlError> {
    let known = |s: &Setting| s.alias.is_some_and(|alias| alias.eq_ignore_ascii_case(name));
    let found = TABLE.binary_search_by(|s| compare(s.name, name)).ok();
    let found = found.or_else(|| TABLE.iter().position(known));
    found.map(|index| (index, &TABLE[index])).ok_or_else(|| {
        SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\""))
    })
}

fn compare(a: &str, b: &str) -> std::cmp::Ordering {
    a.bytes().map(|c| c.to_ascii_lowercase()).cmp(b.bytes().map(|c| c.to_ascii_lowercase()))
}

const INT_MAX: i64 = i32::MAX as i64;
const CLIENT: &str = "Client Connection Defaults";
const CONNECT: &str = "Connections and Authentication";
const FILES: &str = "File Locations";
const LOGGING: &str = "Reporting and Logging";
const MEMORY: &str = "Resource Usage / Memory";
const IO: &str = "Resource Usage / I/O";
const BGWRITER: &str = "Resource Usage / Background Writer";
const WORKERS: &str = "Resource Usage / Worker Processes";
const PLANNER_COST: &str = "Query Tuning / Planner Cost Constants";
const PLANNER_METHOD: &str = "Query Tuning / Planner Method Configuration";
const PRESET: &str = "Preset Options";
const AUTOVACUUM: &str = "Vacuuming / Automatic Vacuuming";
const VACUUM_COST: &str = "Vacuuming / Cost-Based Vacuum Delay";
const VACUUM_FREEZE: &str = "Vacuuming / Freezing";
const WAL: &str = "Write-Ahead Log / Settings";
const WAL_RECOVERY: &str = "Write-Ahead Log / Recovery";
const ARCHIVING: &str = "Write-Ahead Log / Archiving";
const ARCHIVE_RECOVERY: &str = "Write-Ahead Log / Archive Recovery";
const RECOVERY_TARGET: &str = "Write-Ahead Log / Recovery Target";
const DEVELOPER: &str = "Developer Options";
const CHECKPOINTS: &str = "Write-Ahead Log / Checkpoints";
const LEVELS: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error",
    "fatal", "panic",
];
const ISOLATION: &[&str] =
    &["serializable", "repeatable read", "read committed", "read uncommitted"];
/// Settings of PostgreSQL's own configuration files on which nothing here depends.
const UNUSED: &str =
    "Accepted, so that a file written by initdb can be used; nothing depends on it.";

const fn real(min: f64, max: f64) -> Kind {
    Kind::Real { min, max, unit: Unit::None }
}

const fn real_ms(min: f64, max: f64) -> Kind {
    Kind::Real { min, max, unit: Unit::Ms }
}

const fn int(min: i64, max: i64, unit: Unit) -> Kind {
    Kind::Int { min, max, unit }
}

use Context::{Internal, Postmaster, Sighup, Superuser, User};
use Kind::{Bool, Enum, Text};

/// Every setting. Some that PostgreSQL changes at a reload need a restart here, since the engine
/// takes them only when it is opened.
#[rustfmt::skip]
pub static TABLE: &[Setting] = &[
    setting("allow_in_place_tablespaces", Superuser, Bool, "off", DEVELOPER,
        "Allows tablespaces directly inside pg_tblspc, for testing."),
    setting("application_name", User, Text, "", LOGGING,
        "Sets the application name to be reported in statistics and logs.")
        .reported().checked(checks::name),
    setting("archive_cleanup_command", Sighup, Text, "", ARCHIVE_RECOVERY,
        "Sets the shell command that will be executed at every restart point."),
    setting("archive_command", Sighup, Text, "", ARCHIVING,
        "Sets the shell command that will be called to archive a WAL file."),
    setting("archive_library", Sighup, Text, "", ARCHIVING,
        "Sets the module that will be called to archive a WAL file."),
    setting("archive_mode", Postmaster, Enum(&["always", "on", "off"]), "off", ARCHIVING,
        "Allows archiving of WAL files using \"archive_command\" or \"archive_library\"."),
    setting("archive_timeout", Sighup, int(0, INT_MAX / 2, Unit::Seconds), "0", ARCHIVING,
        "Sets the amount of time to wait before forcing a switch to the next WAL file."),
    setting("archive_transfers", Sighup, int(0, 64, Unit::None), "0", ARCHIVING,
        "Sets the number of WAL files that \"archive_library\" archives at a time. 0: as many \
         as suit the module."),
    setting("authentication_timeout", Sighup, int(1, 600, Unit::Seconds), "1min", CONNECT,
        "Sets the maximum allowed time to complete client authentication."),
    setting("autovacuum", Sighup, Bool, "on", AUTOVACUUM, "Starts the autovacuum subprocess."),
    setting("autovacuum_analyze_scale_factor", Sighup, real(0.0, 100.0), "0.1", AUTOVACUUM,
        "Number of tuple inserts, updates, or deletes prior to analyze as a fraction of \
         reltuples."),
    setting("autovacuum_analyze_threshold", Sighup, int(0, INT_MAX, Unit::None), "50", AUTOVACUUM,
        "Minimum number of tuple inserts, updates, or deletes prior to analyze."),
    setting("autovacuum_freeze_max_age", Postmaster, int(100_000, 2_000_000_000, Unit::None),
        "200000000", VACUUM_FREEZE,
        "Age at which to autovacuum a table to prevent transaction ID wraparound."),
    setting("autovacuum_max_workers", Sighup, int(1, 262_143, Unit::None), "3", AUTOVACUUM,
        "Sets the maximum number of simultaneously running autovacuum worker processes."),
    setting("autovacuum_multixact_freeze_max_age", Postmaster,
        int(10_000, 2_000_000_000, Unit::None), "400000000", VACUUM_FREEZE,
        "Multixact age at which to autovacuum a table to prevent multixact wraparound."),
    setting("autovacuum_naptime", Sighup, int(1, INT_MAX / 1000, Unit::Seconds), "1min",
        AUTOVACUUM, "Time to sleep between autovacuum runs."),
    setting("autovacuum_vacuum_cost_delay", Sighup, real_ms(-1.0, 100.0), "2ms", AUTOVACUUM,
        "Vacuum cost delay in milliseconds, for autovacuum."),
    setting("autovacuum_vacuum_cost_limit", Sighup, int(-1, 10_000, Unit::None), "-1", AUTOVACUUM,
        "Vacuum cost amount available before napping, for autovacuum."),
    setting("autovacuum_vacuum_insert_scale_factor", Sighup, real(0.0, 100.0), "0.2", AUTOVACUUM,
        "Number of tuple inserts prior to vacuum as a fraction of reltuples."),
    setting("autovacuum_vacuum_insert_threshold", Sighup, int(-1, INT_MAX, Unit::None), "1000",
        AUTOVACUUM, "Minimum number of tuple inserts prior to vacuum."),
    setting("autovacuum_vacuum_max_threshold", Sighup, int(-1, INT_MAX, Unit::None), "100000000",
        AUTOVACUUM, "Maximum number of tuple updates or deletes prior to vacuum."),
    setting("autovacuum_vacuum_scale_factor", Sighup, real(0.0, 100.0), "0.2", AUTOVACUUM,
        "Number of tuple updates or deletes prior to vacuum as a fraction of reltuples."),
    setting("autovacuum_vacuum_threshold", Sighup, int(0, INT_MAX, Unit::None), "50", AUTOVACUUM,
        "Minimum number of tuple updates or deletes prior to vacuum."),
    setting("autovacuum_work_mem", Sighup, int(-1, INT_MAX, Unit::Kb), "-1", MEMORY,
        "Sets the maximum memory to be used by each autovacuum worker process."),
    setting("autovacuum_worker_slots", Postmaster, int(1, 262_143, Unit::None), "16", AUTOVACUUM,
        "Sets the number of backend slots to allocate for autovacuum workers."),
    setting("basic_archive.archive_directory", Sighup, Text, "", ARCHIVING,
        "Archive file destination directory.").checked(checks::absolute_path),
    setting("bgwriter_delay", Sighup, int(10, 10_000, Unit::Ms), "200ms", BGWRITER,
        "Background writer sleep time between rounds."),
    setting("bgwriter_flush_after", Sighup, int(0, 256, Unit::Blocks), "512kB", BGWRITER,
        "Number of pages after which previously performed writes are flushed to disk."),
    setting("bgwriter_lru_maxpages", Sighup, int(0, INT_MAX / 2, Unit::None), "100", BGWRITER,
        "Background writer maximum number of LRU pages to flush per round."),
    setting("bgwriter_lru_multiplier", Sighup, real(0.0, 10.0), "2", BGWRITER,
        "Multiple of the average buffer usage to free per round."),
    setting("block_size", Internal, int(8192, 8192, Unit::None), "8192", PRESET,
        "Shows the size of a disk block."),
    setting("bytea_output", User, Enum(&["hex", "escape"]), "hex", CLIENT,
        "Sets the output format for bytea."),
    setting("check_function_bodies", User, Bool, "on", CLIENT,
        "Check routine bodies during CREATE FUNCTION. There are no routines."),
    setting("checkpoint_completion_target", Sighup, real(0.0, 1.0), "0.9", CHECKPOINTS,
        "Time spent flushing dirty buffers during checkpoint, as fraction of checkpoint interval."),
    setting("checkpoint_flush_after", Sighup, int(0, 256, Unit::Blocks), "256kB", CHECKPOINTS,
        "Number of pages after which previously performed writes are flushed to disk."),
    setting("checkpoint_timeout", Sighup, int(30, 86_400, Unit::Seconds), "5min", CHECKPOINTS,
        "Sets the maximum time between automatic WAL checkpoints."),
    setting("checkpoint_verify_writes", Postmaster, Bool, "off", CHECKPOINTS,
        "Reads back from disk what was written before a checkpoint is complete, and stops the \
         server if it is not there."),
    setting("client_encoding", User, Text, "UTF8", CLIENT,
        "Sets the client's character set encoding.").reported().checked(checks::client_encoding),
    setting("client_min_messages", User,
        Enum(&["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning",
            "error"]), "notice", CLIENT,
        "Sets the message levels that are sent to the client."),
    setting("cluster_name", Postmaster, Text, "", LOGGING, "Sets the name of the cluster."),
    setting("commit_delay", Superuser, int(0, 100_000, Unit::None), "0", WAL,
        "Sets the delay in microseconds between transaction commit and flushing WAL to disk."),
    setting("commit_siblings", User, int(0, 1000, Unit::None), "5", WAL,
        "Sets the minimum number of concurrent open transactions required before performing \
         \"commit_delay\"."),
    setting("config_file", Internal, Text, "", FILES,
        "Shows the server's main configuration file."),
    setting("cpu_index_tuple_cost", User, real(0.0, f64::MAX), "0.005", PLANNER_COST,
        "Sets the planner's estimate of the cost of processing each index entry."),
    setting("cpu_operator_cost", User, real(0.0, f64::MAX), "0.0025", PLANNER_COST,
        "Sets the planner's estimate of the cost of each operator or function call."),
    setting("cpu_tuple_cost", User, real(0.0, f64::MAX), "0.01", PLANNER_COST,
        "Sets the planner's estimate of the cost of processing each tuple (row)."),
    setting("data_checksums", Internal, Bool, "on", PRESET,
        "Shows whether data checksums are turned on for this cluster."),
    setting("data_directory", Internal, Text, "", FILES, "Shows the server's data directory."),
    setting("DateStyle", User, Text, "ISO, MDY", CLIENT,
        "Sets the display format for date and time values.").reported().checked(checks::date_style),
    setting("deadlock_timeout", Superuser, int(1, INT_MAX, Unit::Ms), "1s", "Lock Management",
        "Sets the time to wait on a lock before checking for deadlock."),
    setting("debug_buffer_trace", Postmaster, Text, "", DEVELOPER,
        "Records which pages of shared buffers are used in this new file, for \"forebay bench \
         replacement\".").checked(checks::absolute_path),
    setting("default_statistics_target", User, int(1, 10_000, Unit::None), "100",
        "Query Tuning / Other Planner Options", "Sets the default statistics target."),
    setting("default_table_access_method", User, Enum(&["heap"]), "heap", CLIENT,
        "Sets the default table access method for new tables."),
    setting("default_tablespace", User, Text, "", CLIENT,
        "Sets the default tablespace to create tables and indexes in."),
    setting("default_text_search_config", User, Text, "pg_catalog.simple", CLIENT, UNUSED),
    setting("default_toast_compression", User, Enum(&["pglz", "lz4"]), "pglz", CLIENT,
        "Sets the default compression method for compressible values."),
    setting("default_transaction_deferrable", User, Bool, "off", CLIENT,
        "Sets the default deferrable status of new transactions."),
    setting("default_transaction_isolation", User, Enum(ISOLATION), "read committed", CLIENT,
        "Sets the transaction isolation level of each new transaction.").checked(checks::isolation),
    setting("default_transaction_read_only", User, Bool, "off", CLIENT,
        "Sets the default read-only status of new transactions.")
        .reported(),
    setting("dynamic_shared_memory_type", Postmaster, Text, "posix", MEMORY, UNUSED),
    setting("effective_cache_size", User, int(1, INT_MAX, Unit::Blocks), "4GB", PLANNER_COST,
        "Sets the planner's assumption about the total size of the data caches."),
    setting("effective_io_concurrency", User, int(0, 1000, Unit::None), "16", IO,
        "Number of simultaneous requests that can be handled efficiently by the disk subsystem."),
    setting("enable_bitmapscan", User, Bool, "on", PLANNER_METHOD,
        "Enables the planner's use of bitmap-scan plans, of which there are none yet."),
    setting("enable_indexonlyscan", User, Bool, "on", PLANNER_METHOD,
        "Enables the planner's use of index-only-scan plans."),
    setting("enable_indexscan", User, Bool, "on", PLANNER_METHOD,
        "Enables the planner's use of index-scan plans."),
    setting("enable_seqscan", User, Bool, "on", PLANNER_METHOD,
        "Enables the planner's use of sequential-scan plans."),
    setting("enable_sort", User, Bool, "on", PLANNER_METHOD,
        "Enables the planner's use of explicit sort steps."),
    setting("extra_float_digits", User, int(-15, 3, Unit::None), "1", CLIENT,
        "Sets the number of digits displayed for floating-point values."),
    setting("file_extend_method", Sighup,
        Enum(&["posix_fallocate", "write_zeros"]), "posix_fallocate", "Resource Usage / Disk",
        "Selects the method used for extending data files."),
    setting("forebay_archive.accept_unencrypted", Sighup, Bool, "off", ARCHIVING,
        "Accepts files and manifests of an archive that was begun without a key."),
    setting("forebay_archive.compression", Sighup, Text, "none", ARCHIVING,
        "How the archive's new files are compressed: none, lz4, zstd or zstd:LEVEL.")
        .checked(checks::compression),
    setting("forebay_archive.key_file", Sighup, Text, "", ARCHIVING,
        "File with the key that the archive's files are encrypted with.")
        .checked(checks::absolute_path),
    setting("forebay_archive.layout", Sighup, Text, "", ARCHIVING,
        "Where the archive's files lie: plain or hashed. A new archive gets it, another one \
         must have it.").checked(checks::layout),
    setting("forebay_archive.location", Sighup, Text, "", ARCHIVING,
        "The archive: a directory, or a URL.").checked(checks::archive_location),
    setting("forebay_archive.prefetch", Sighup, int(0, 1024, Unit::None), "8", ARCHIVE_RECOVERY,
        "Number of WAL segments that recovery fetches out of the archive before it needs them."),
    setting("forebay_archive.prefetch_memory", Sighup, int(0, INT_MAX, Unit::Mb), "128MB",
        ARCHIVE_RECOVERY,
        "Maximum memory for WAL segments that recovery has fetched and not used yet."),
    setting("fsync", Sighup, Bool, "on", WAL,
        "Forces synchronization of updates to disk. Always on.").checked(checks::fsync),
    setting("full_page_writes", Postmaster, Bool, "on", WAL,
        "Writes full pages to WAL when first modified after a checkpoint."),
    setting("hba_file", Postmaster, Text, "", FILES,
        "Sets the server's \"hba\" configuration file."),
    setting("huge_pages", Postmaster, Enum(&["off", "on", "try"]), "try", MEMORY,
        "Use of huge pages on Linux."),
    setting("huge_pages_status", Internal, Enum(&["off", "on", "unknown"]), "unknown", PRESET,
        "Indicates the status of huge pages."),
    setting("idle_in_transaction_session_timeout", User, int(0, INT_MAX, Unit::Ms), "0", CLIENT,
        "Sets the maximum allowed idle time between queries, when in a transaction."),
    setting("idle_session_timeout", User, int(0, INT_MAX, Unit::Ms), "0", CLIENT,
        "Sets the maximum allowed idle time between queries, when not in a transaction."),
    setting("ignore_checksum_failure", Superuser, Bool, "off", DEVELOPER,
        "Continues processing after a checksum failure."),
    setting("in_hot_standby", Internal, Bool, "off", PRESET,
        "Shows whether hot standby is currently active.").reported(),
    setting("integer_datetimes", Internal, Bool, "on", PRESET,
        "Shows whether datetimes are integer based.").reported(),
    setting("IntervalStyle", User,
        Enum(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]), "postgres", CLIENT,
        "Sets the display format for interval values.").reported(),
    setting("io_combine_limit", User, int(1, 128, Unit::Blocks), "128kB", IO,
        "Limit on the size of data reads and writes."),
    setting("io_direct", Postmaster, Text, "auto", IO,
        "Uses direct I/O for: data, wal, wal_init. auto: for those whose file system has it, data \
         only if shared_buffers is auto or a quarter of the memory.")
        .or_named("debug_io_direct").checked(checks::io_direct),
    setting("io_direct_status", Internal, Text, "", PRESET,
        "Shows the files that direct I/O is used for."),
    setting("io_max_combine_limit", Postmaster, int(1, 128, Unit::Blocks), "128kB", IO,
        "Server-wide limit that clamps io_combine_limit."),
    setting("io_max_concurrency", Postmaster, int(-1, 1024, Unit::None), "-1", IO,
        "Maximum number of I/Os that one process can execute simultaneously.")
        .checked(checks::not_zero),
    setting("io_max_workers", Sighup, int(1, 32, Unit::None), "8", IO,
        "Maximum number of I/O worker threads, for io_method=worker, where io_workers is not set."),
    setting("io_method", Postmaster,
        Enum(&["sync", "worker", "io_uring", "posix_aio", "auto"]), "auto", IO,
        "Selects the method for executing asynchronous I/O. auto: io_uring, or worker where it \
         can't be had."),
    setting("io_method_status", Internal, Text, "", PRESET,
        "Shows the method that executes asynchronous I/O."),
    setting("io_min_workers", Sighup, int(1, 32, Unit::None), "2", IO,
        "Minimum number of I/O worker threads, for io_method=worker, where io_workers is not set."),
    setting("io_worker_idle_timeout", Sighup, int(0, INT_MAX, Unit::Ms), "1min", IO,
        "Maximum time before idle I/O worker threads exit, down to io_min_workers."),
    setting("io_worker_launch_interval", Sighup, int(0, INT_MAX, Unit::Ms), "100ms", IO,
        "Minimum time between launching new I/O worker threads."),
    setting("io_workers", Sighup, int(1, 32, Unit::None), "3", IO,
        "Number of I/O worker threads, for io_method=worker. Where it is not set, \
         io_min_workers and io_max_workers count."),
    setting("is_superuser", Internal, Bool, "on", PRESET,
        "Shows whether the current user is a superuser.").reported(),
    setting("jit", User, Bool, "off", CLIENT,
        "Allow JIT compilation. There is none.").checked(checks::always_off),
    setting("lc_messages", Superuser, Text, "C", CLIENT, UNUSED),
    setting("lc_monetary", User, Text, "C", CLIENT, UNUSED),
    setting("lc_numeric", User, Text, "C", CLIENT, UNUSED),
    setting("lc_time", User, Text, "C", CLIENT, UNUSED),
    setting("listen_addresses", Postmaster, Text, "localhost", CONNECT,
        "Sets the host name or IP address(es) to listen to. Only loopback addresses."),
    setting("lock_timeout", User, int(0, INT_MAX, Unit::Ms), "0", CLIENT,
        "Sets the maximum allowed duration of any wait for a lock."),
    setting("log_autovacuum_min_duration", Sighup, int(-1, INT_MAX, Unit::Ms), "10min", LOGGING,
        "Sets the minimum execution time above which autovacuum actions will be logged."),
    setting("log_checkpoints", Sighup, Bool, "on", LOGGING,
        "Logs each checkpoint. Always on.").checked(checks::always_on),
    setting("log_connections", Superuser, Bool, "off", LOGGING, "Logs each successful connection."),
    setting("log_disconnections", Superuser, Bool, "off", LOGGING, "Logs end of a session."),
    setting("log_min_error_statement", Superuser, Enum(LEVELS), "error", LOGGING,
        "Causes all statements generating error at or above this level to be logged."),
    setting("log_min_messages", Superuser, Enum(LEVELS), "warning", LOGGING,
        "Sets the message levels that are logged."),
    setting("log_statement", Superuser, Enum(&["none", "all"]), "none", LOGGING,
        "Sets the type of statements logged."),
    setting("log_temp_files", Superuser, int(-1, INT_MAX, Unit::Kb), "-1", LOGGING,
        "Log the use of temporary files larger than this number of kilobytes."),
    setting("log_timezone", Sighup, Text, "UTC", LOGGING,
        "Sets the time zone to use in log messages. They are in UTC.").checked(checks::time_zone),
    setting("maintenance_io_concurrency", User, int(0, 1000, Unit::None), "16", IO,
        "A variant of effective_io_concurrency that is used for maintenance work."),
    setting("maintenance_work_mem", User, int(64, INT_MAX, Unit::Kb), "64MB", MEMORY,
        "Sets the maximum memory to be used for maintenance operations."),
    setting("max_connections", Postmaster, int(1, 262_143, Unit::None), "100", CONNECT,
        "Sets the maximum number of concurrent connections."),
    setting("max_files_per_process", Postmaster, int(64, INT_MAX, Unit::None), "1000",
        "Resource Usage / Kernel Resources",
        "Sets the maximum number of data files the server keeps open."),
    setting("max_identifier_length", Internal, int(63, 63, Unit::None), "63", PRESET,
        "Shows the maximum identifier length."),
    setting("max_locks_per_transaction", Postmaster, int(10, INT_MAX, Unit::None), "64",
        "Lock Management", "Sets the maximum number of locks per transaction."),
    setting("max_parallel_maintenance_workers", User, int(0, 1024, Unit::None), "2", WORKERS,
        "Sets the maximum number of parallel processes per maintenance operation."),
    setting("max_parallel_workers", User, int(0, 1024, Unit::None), "8", WORKERS,
        "Sets the maximum number of parallel workers that can be active at one time."),
    setting("max_parallel_workers_per_gather", User, int(0, 1024, Unit::None), "2", WORKERS,
        "Sets the maximum number of parallel processes per executor node."),
    setting("max_wal_size", Sighup, int(2, INT_MAX, Unit::Mb), "1GB", CHECKPOINTS,
        "Sets the WAL size that triggers a checkpoint."),
    setting("max_worker_processes", Postmaster, int(0, 262_143, Unit::None), "8", WORKERS,
        "Maximum number of concurrent worker processes. They are threads."),
    setting("md5_password_warnings", User, Bool, "on", CONNECT,
        "Enables deprecation warnings for MD5 password hashes."),
    setting("min_parallel_index_scan_size", User, int(0, INT_MAX / 3, Unit::Blocks), "512kB",
        PLANNER_COST, "Sets the minimum amount of index data for a parallel scan."),
    setting("min_parallel_table_scan_size", User, int(0, INT_MAX / 3, Unit::Blocks), "8MB",
        PLANNER_COST, "Sets the minimum amount of table data for a parallel scan."),
    setting("min_wal_size", Sighup, int(2, INT_MAX, Unit::Mb), "80MB", CHECKPOINTS,
        "Sets the minimum size to shrink the WAL to."),
    setting("parallel_leader_participation", User, Bool, "on", WORKERS,
        "Controls whether Gather and Gather Merge also run subplans."),
    setting("parallel_setup_cost", User, real(0.0, f64::MAX), "1000", PLANNER_COST,
        "Sets the planner's estimate of the cost of starting up worker processes for parallel \
         query."),
    setting("parallel_tuple_cost", User, real(0.0, f64::MAX), "0.1", PLANNER_COST,
        "Sets the planner's estimate of the cost of passing each tuple (row) from worker to \
         leader backend."),
    setting("password_encryption", User, Enum(&["md5", "scram-sha-256"]), "scram-sha-256", CONNECT,
        "Chooses the algorithm for encrypting passwords."),
    setting("pg_prewarm.autoprewarm", Postmaster, Bool, "on", MEMORY,
        "Starts the autoprewarm worker."),
    setting("pg_prewarm.autoprewarm_interval", Sighup, int(0, INT_MAX / 1000, Unit::Seconds),
        "5min", MEMORY, "Sets the interval between dumps of shared buffers"),
    setting("port", Postmaster, int(1, 65_535, Unit::None), "5432", CONNECT,
        "Sets the TCP port the server listens on."),
    setting("random_page_cost", User, real(0.0, f64::MAX), "4", PLANNER_COST,
        "Sets the planner's estimate of the cost of a nonsequentially fetched disk page."),
    setting("recovery_end_command", Sighup, Text, "", ARCHIVE_RECOVERY,
        "Sets the shell command that will be executed once at the end of recovery."),
    setting("recovery_prefetch", Sighup, Enum(&["off", "on", "try"]), "try", WAL_RECOVERY,
        "Prefetch referenced blocks during recovery."),
    setting("recovery_target", Postmaster, Text, "", RECOVERY_TARGET,
        "Set to \"immediate\" to end recovery as soon as a consistent state is reached.")
        .checked(checks::recovery_target),
    setting("recovery_target_action", Postmaster,
        Enum(&["pause", "promote", "shutdown"]), "pause", RECOVERY_TARGET,
        "Sets the action to perform upon reaching the recovery target. Without hot standby, \
         pause is shutdown."),
    setting("recovery_target_inclusive", Postmaster, Bool, "on", RECOVERY_TARGET,
        "Sets whether to include or exclude transaction with recovery target."),
    setting("recovery_target_lsn", Postmaster, Text, "", RECOVERY_TARGET,
        "Sets the LSN of the write-ahead log location up to which recovery will proceed.")
        .checked(checks::recovery_target_lsn),
    setting("recovery_target_name", Postmaster, Text, "", RECOVERY_TARGET,
        "Sets the named restore point up to which recovery will proceed.")
        .checked(checks::recovery_target_name),
    setting("recovery_target_time", Postmaster, Text, "", RECOVERY_TARGET,
        "Sets the time stamp up to which recovery will proceed. Without a time zone it is in UTC.")
        .checked(checks::recovery_target_time),
    setting("recovery_target_timeline", Postmaster, Text, "latest", RECOVERY_TARGET,
        "Specifies the timeline to recover into.").checked(checks::recovery_target_timeline),
    setting("recovery_target_xid", Postmaster, Text, "", RECOVERY_TARGET,
        "Sets the transaction ID up to which recovery will proceed.")
        .checked(checks::recovery_target_xid),
    setting("restore_command", Sighup, Text, "", ARCHIVE_RECOVERY,
        "Sets the shell command that will be called to retrieve an archived WAL file."),
    setting("restore_library", Sighup, Text, "", ARCHIVE_RECOVERY,
        "Sets the module that will be called to retrieve an archived WAL file."),
    setting("role", User, Text, "none", CLIENT, "Sets the current role."),
    setting("row_security", User, Bool, "on", CLIENT,
        "Enables row security. There are no policies."),
    setting("scram_iterations", User, int(1, INT_MAX, Unit::None), "4096", CONNECT,
        "Sets the iteration count for SCRAM secret generation.").reported(),
    setting("search_path", User, Text, "\"$user\", public", CLIENT,
        "Sets the schema search order for names that are not schema-qualified.")
        .reported().checked(checks::search_path),
    setting("segment_size", Internal, int(131_072, 131_072, Unit::Blocks), "1GB", PRESET,
        "Shows the number of pages per disk file."),
    setting("seq_page_cost", User, real(0.0, f64::MAX), "1", PLANNER_COST,
        "Sets the planner's estimate of the cost of a sequentially fetched disk page."),
    setting("server_encoding", Internal, Text, "UTF8", PRESET,
        "Shows the server (database) character set encoding.").reported(),
    setting("server_version", Internal, Text, concat!("18.0 (Forebay ",
        env!("CARGO_PKG_VERSION"), ")"), PRESET,
        "Shows the server version.").reported(),
    setting("server_version_num", Internal, int(180_000, 180_000, Unit::None), "180000", PRESET,
        "Shows the server version as an integer."),
    setting("session_authorization", User, Text, "", CLIENT, "Sets the session user name.")
        .reported(),
    setting("shared_buffers", Sighup, int(16, INT_MAX / 2, Unit::Blocks), "auto", MEMORY,
        "Sets the number of shared memory buffers used by the server.").or_word("auto", 0),
    setting("shared_buffers_max", Postmaster, int(0, INT_MAX / 2, Unit::Blocks), "0", MEMORY,
        "Sets the maximum number of shared memory buffers after a reload or by auto; 0 means seven \
         eighths of the memory."),
    setting("standard_conforming_strings", User, Bool, "on", CLIENT,
        "Causes '...' strings to treat backslashes literally.")
        .reported().checked(checks::always_on),
    setting("statement_timeout", User, int(0, INT_MAX, Unit::Ms), "0", CLIENT,
        "Sets the maximum allowed duration of any statement."),
    setting("synchronize_seqscans", User, Bool, "on", CLIENT,
        "Enables synchronized sequential scans."),
    setting("synchronous_commit", User,
        Enum(&["local", "remote_write", "remote_apply", "on", "off"]), "on", WAL,
        "Sets the current transaction's synchronization level. Every level but off waits for \
         the local disk."),
    setting("temp_buffers", User, int(100, INT_MAX / 2, Unit::Blocks), "8MB", MEMORY,
        "Sets the maximum number of temporary buffers used by each session."),
    setting("temp_file_limit", Superuser, int(-1, INT_MAX, Unit::Kb), "-1", "Resource Usage / Disk",
        "Limits the total size of all temporary files used by each session."),
    setting("TimeZone", User, Text, "UTC", CLIENT,
        "Sets the time zone for displaying and interpreting time stamps.")
        .reported().checked(checks::time_zone),
    setting("track_cost_delay_timing", Superuser, Bool, "off",
        "Statistics / Cumulative Query and Index Statistics",
        "Collects timing statistics for cost-based vacuum delay."),
    setting("track_counts", Superuser, Bool, "on",
        "Statistics / Cumulative Query and Index Statistics",
        "Collects statistics on database activity."),
    setting("track_io_timing", Sighup, Bool, "off",
        "Statistics / Cumulative Query and Index Statistics",
        "Collects timing statistics for database I/O activity, for the whole server."),
    setting("transaction_deferrable", User, Bool, "off", CLIENT,
        "Whether to defer a read-only serializable transaction.").checked(checks::always_off),
    setting("transaction_isolation", User, Enum(ISOLATION), "read committed", CLIENT,
        "Sets the current transaction's isolation level.").checked(checks::isolation),
    setting("transaction_read_only", User, Bool, "off", CLIENT,
        "Sets the current transaction's read-only status.").checked(checks::always_off),
    setting("transaction_timeout", User, int(0, INT_MAX, Unit::Ms), "0", CLIENT,
        "Sets the maximum allowed duration of any transaction within a session.")
        .checked(checks::disabled),
    setting("unix_socket_directories", Postmaster, Text, "/tmp", CONNECT,
        "Sets the directories where Unix-domain sockets will be created."),
    setting("vacuum_buffer_usage_limit", User, int(0, 16_777_216, Unit::Kb), "2MB", MEMORY,
        "Sets the buffer pool size for VACUUM, ANALYZE, and autovacuum.")
        .checked(checks::buffer_usage_limit),
    setting("vacuum_cost_delay", User, real_ms(0.0, 100.0), "0", VACUUM_COST,
        "Vacuum cost delay in milliseconds."),
    setting("vacuum_cost_limit", User, int(1, 10_000, Unit::None), "200", VACUUM_COST,
        "Vacuum cost amount available before napping."),
    setting("vacuum_cost_page_dirty", User, int(0, 10_000, Unit::None), "20", VACUUM_COST,
        "Vacuum cost for a page dirtied by vacuum."),
    setting("vacuum_cost_page_hit", User, int(0, 10_000, Unit::None), "1", VACUUM_COST,
        "Vacuum cost for a page found in the buffer cache."),
    setting("vacuum_cost_page_miss", User, int(0, 10_000, Unit::None), "2", VACUUM_COST,
        "Vacuum cost for a page not found in the buffer cache."),
    setting("vacuum_failsafe_age", User, int(0, 2_100_000_000, Unit::None), "1600000000",
        VACUUM_FREEZE,
        "Age at which VACUUM should trigger failsafe to avoid a wraparound outage."),
    setting("vacuum_freeze_min_age", User, int(0, 1_000_000_000, Unit::None), "50000000",
        VACUUM_FREEZE,
        "Minimum age at which VACUUM should freeze a table row."),
    setting("vacuum_freeze_table_age", User, int(0, 2_000_000_000, Unit::None), "150000000",
        VACUUM_FREEZE,
        "Age at which VACUUM should scan whole table to freeze tuples."),
    setting("vacuum_max_eager_freeze_failure_rate", User, real(0.0, 1.0), "0.03", VACUUM_FREEZE,
        "Fraction of pages in a relation vacuum can scan and fail to freeze before disabling eager \
         scanning."),
    setting("vacuum_multixact_failsafe_age", User, int(0, 2_100_000_000, Unit::None),
        "1600000000", VACUUM_FREEZE,
        "Multixact age at which VACUUM should trigger failsafe to avoid a wraparound outage."),
    setting("vacuum_multixact_freeze_min_age", User, int(0, 1_000_000_000, Unit::None),
        "5000000", VACUUM_FREEZE,
        "Minimum age at which VACUUM should freeze a MultiXactId in a table row."),
    setting("vacuum_multixact_freeze_table_age", User, int(0, 2_000_000_000, Unit::None),
        "150000000", VACUUM_FREEZE,
        "Multixact age at which VACUUM should scan whole table to freeze tuples."),
    setting("vacuum_truncate", User, Bool, "on", "Vacuuming / Default Behavior",
        "Enables vacuum to truncate empty pages at the end of the table."),
    setting("wal_buffers", Postmaster, int(-1, 262_143, Unit::Blocks), "-1", WAL,
        "Sets the number of disk-page buffers for WAL."),
    setting("wal_compression", Sighup, Enum(&["pglz", "lz4", "zstd", "on", "off"]), "off", WAL,
        "Compresses full-page writes written in WAL file with specified method.")
        .checked(checks::wal_compression),
    setting("wal_decode_buffer_size", Postmaster, int(65_536, 1_073_741_823, Unit::Bytes),
        "512kB", WAL_RECOVERY,
        "Buffer size for reading ahead in the WAL during recovery."),
    setting("wal_init_zero", Sighup, Bool, "on", WAL,
        "Writes zeroes to new WAL files before first use."),
    setting("wal_level", Postmaster, Enum(&["replica"]), "replica", WAL,
        "Sets the level of information written to the WAL."),
    setting("wal_recycle", Sighup, Bool, "on", WAL, "Recycles WAL files by renaming them."),
    setting("wal_segment_size", Internal, int(1_048_576, 1_073_741_824, Unit::Bytes), "16MB",
        PRESET,
        "Shows the size of write ahead log segments."),
    setting("wal_sync_method", Postmaster,
        Enum(&["fsync", "fdatasync", "open_sync", "open_datasync", "auto"]), "fdatasync", WAL,
        "Selects the method used for forcing WAL updates to disk. auto measures, at the first \
         start."),
    setting("wal_writer_delay", Sighup, int(1, 10_000, Unit::Ms), "200ms", WAL,
        "Time between WAL flushes performed in the WAL writer."),
    setting("wal_writer_flush_after", Sighup, int(0, INT_MAX, Unit::Blocks), "1MB", WAL,
        "Amount of WAL written out by WAL writer that triggers a flush."),
    setting("work_mem", User, int(64, INT_MAX, Unit::Kb), "4MB", MEMORY,
        "Sets the maximum memory to be used for query workspaces."),
    setting("xmloption", User, Enum(&["content", "document"]), "content", CLIENT,
        "Accepted, so that dumps can be read; there is no XML type."),
    setting("zero_damaged_pages", Superuser, Bool, "off", DEVELOPER,
        "Continues processing past damaged page headers."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_so_that_the_search_finds_them() {
        for pair in TABLE.windows(2) {
            assert_eq!(
                compare(pair[0].name, pair[1].name),
                std::cmp::Ordering::Less,
                "{}",
                pair[1].name
            );
        }
        let found = |name| find(name).map(|(_, setting)| setting.name).ok();
        assert_eq!(found("DEBUG_IO_DIRECT"), Some("io_direct"));
        assert_eq!(found("timezone"), Some("TimeZone"));
        assert_eq!(found("no_such"), None);
    }
}
