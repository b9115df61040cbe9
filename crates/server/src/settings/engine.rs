//! Handing settings to the engine.

use super::key::{Lookup, key};
use super::server::ServerSettings;
use forebay_aio::sync::Duration;
use forebay_engine::archive::store::codec::Compression;
use forebay_engine::archive::store::layout::LayoutKind;
use forebay_engine::{
    ArchiveMode, ArchiveSettings, ArchiveStore, AutovacuumSettings, CleanerOptions, EngineConfig,
    ExtendMethod, FatalAction, HugePages, ImageCompression, IoDirectSetting, IoMethod, IoSettings,
    ParallelSettings, PoolSize, RecoverySettings, RecoveryTarget, RestoreSettings, SessionSettings,
    TargetAction, TargetTimeline, ToastCompression, VacuumSettings, WalSyncMethod, WorkerLimits,
    WritingSettings, identifier_list, parse_timestamp,
};

/// What a word or text stands for, which was checked when the setting was set.
fn checked<T>(found: Option<T>) -> T {
    found.expect("a setting has a value that was checked")
}

/// What the engine is opened with.
pub fn engine_config(s: &ServerSettings) -> EngineConfig {
    EngineConfig {
        shared_buffers: pool_size(s),
        shared_buffers_max: Some(s.count(key!("shared_buffers_max"))).filter(|&most| most > 0),
        huge_pages: match s.text(key!("huge_pages")) {
            "off" => HugePages::Off,
            "on" => HugePages::On,
            _ => HugePages::Try,
        },
        io_method: checked(IoMethod::by_name(s.text(key!("io_method")))),
        io_direct: checked(IoDirectSetting::parse(s.text(key!("io_direct"))).ok()),
        io_workers: io_workers(s),
        io_max_concurrency: s.chosen(key!("io_max_concurrency")),
        io_max_combine_limit: s.count(key!("io_max_combine_limit")),
        session: session_settings(s),
        max_connections: s.count(key!("max_connections")),
        max_worker_processes: s.count(key!("max_worker_processes")),
        autovacuum: autovacuum_settings(s),
        autovacuum_worker_slots: s.count(key!("autovacuum_worker_slots")),
        max_locks_per_transaction: s.count(key!("max_locks_per_transaction")),
        max_files_per_process: s.count(key!("max_files_per_process")),
        file_extend_method: file_extend_method(s),
        wal_sync_method: checked(WalSyncMethod::by_name(s.text(key!("wal_sync_method")))),
        wal_buffers: s.chosen(key!("wal_buffers")),
        full_page_writes: s.bool(key!("full_page_writes")),
        verify_writes: s.bool(key!("checkpoint_verify_writes")),
        autoprewarm: s.bool(key!("pg_prewarm.autoprewarm")),
        archive_mode: checked(ArchiveMode::by_name(s.text(key!("archive_mode")))),
        archiving: archive_settings(s),
        writing: writing_settings(s),
        recovery: RecoverySettings {
            prefetch: s.text(key!("recovery_prefetch")) != "off",
            decode_buffer: s.count(key!("wal_decode_buffer_size")),
            io_concurrency: s.count(key!("maintenance_io_concurrency")),
        },
        restore: restore_settings(s),
        on_fatal: Some(FatalAction::abort()),
        index_compiler: Some(std::sync::Arc::new(forebay_sql::IndexCompiler)),
        ..EngineConfig::default()
    }
}

/// How large the buffer pool is: also after a reload.
pub fn pool_size(s: &ServerSettings) -> PoolSize {
    match s.count(key!("shared_buffers")) {
        0 => PoolSize::Automatic,
        blocks => PoolSize::Blocks(blocks),
    }
}

/// How segments are archived: also after a reload.
pub fn archive_settings(s: &ServerSettings) -> ArchiveSettings {
    ArchiveSettings {
        command: s.text(key!("archive_command")).to_owned(),
        library: s.text(key!("archive_library")).to_owned(),
        directory: s.text(key!("basic_archive.archive_directory")).to_owned(),
        store: archive_store(s),
        transfers: s.count(key!("archive_transfers")),
        timeout: Duration::from_secs(s.count(key!("archive_timeout"))),
    }
}

/// The archive of `forebay_archive`.
fn archive_store(s: &ServerSettings) -> ArchiveStore {
    let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let compression = set(s.text(key!("forebay_archive.compression")));
    let layout = set(s.text(key!("forebay_archive.layout")));
    ArchiveStore {
        location: s.text(key!("forebay_archive.location")).to_owned(),
        compression: compression
            .map_or(Compression::None, |name| checked(Compression::by_name(&name))),
        layout: layout.map(|name| checked(LayoutKind::by_name(&name))),
        key_file: set(s.text(key!("forebay_archive.key_file"))).map(Into::into),
        accept_unencrypted: s.bool(key!("forebay_archive.accept_unencrypted")),
    }
}

/// How a directory is recovered from an archive.
fn restore_settings(s: &ServerSettings) -> RestoreSettings {
    RestoreSettings {
        restore_command: s.text(key!("restore_command")).to_owned(),
        library: s.text(key!("restore_library")).to_owned(),
        store: archive_store(s),
        prefetch: s.count(key!("forebay_archive.prefetch")),
        prefetch_memory: s.count::<u64>(key!("forebay_archive.prefetch_memory")) << 20,
        recovery_end_command: s.text(key!("recovery_end_command")).to_owned(),
        archive_cleanup_command: s.text(key!("archive_cleanup_command")).to_owned(),
        targets: recovery_targets(s),
        inclusive: s.bool(key!("recovery_target_inclusive")),
        timeline: match s.text(key!("recovery_target_timeline")) {
            "current" => TargetTimeline::Current,
            "latest" | "" => TargetTimeline::Latest,
            number => TargetTimeline::Number(checked(number.parse().ok())),
        },
        action: match s.text(key!("recovery_target_action")) {
            "promote" => TargetAction::Promote,
            "shutdown" => TargetAction::Shutdown,
            _ => TargetAction::Pause,
        },
    }
}

/// The targets that are set.
fn recovery_targets(s: &ServerSettings) -> Vec<RecoveryTarget> {
    let set = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let targets = [
        set(s.text(key!("recovery_target"))).map(|_| RecoveryTarget::Immediate),
        set(s.text(key!("recovery_target_lsn")))
            .map(|lsn| RecoveryTarget::Lsn(checked(lsn.parse().ok()))),
        set(s.text(key!("recovery_target_name"))).map(|name| RecoveryTarget::Name(name.to_owned())),
        set(s.text(key!("recovery_target_time")))
            .map(|time| RecoveryTarget::Time(checked(parse_timestamp(time)))),
        set(s.text(key!("recovery_target_xid")))
            .map(|xid| RecoveryTarget::Xid(checked(xid.parse().ok()))),
    ];
    targets.into_iter().flatten().collect()
}

/// The worker pool: io_workers threads where someone has set it, else as many as have work.
fn io_workers(s: &ServerSettings) -> WorkerLimits {
    if s.is_set(key!("io_workers")) {
        return WorkerLimits::fixed(s.count(key!("io_workers")));
    }
    WorkerLimits {
        min: s.count(key!("io_min_workers")),
        max: s.count(key!("io_max_workers")),
        idle_timeout: Duration::from_millis(s.count(key!("io_worker_idle_timeout"))),
        launch_interval: Duration::from_millis(s.count(key!("io_worker_launch_interval"))),
    }
}

/// What a running engine takes over after a reload.
pub fn io_settings(s: &ServerSettings) -> IoSettings {
    IoSettings {
        io_workers: io_workers(s),
        track_io_timing: s.bool(key!("track_io_timing")),
        file_extend_method: file_extend_method(s),
    }
}

fn file_extend_method(s: &ServerSettings) -> ExtendMethod {
    checked(ExtendMethod::by_name(s.text(key!("file_extend_method"))))
}

/// When and how fast the background threads write: also after a reload.
pub fn writing_settings(s: &ServerSettings) -> WritingSettings {
    WritingSettings {
        max_wal_size: s.count::<u64>(key!("max_wal_size")) << 20,
        min_wal_size: s.count::<u64>(key!("min_wal_size")) << 20,
        checkpoint_timeout: Duration::from_secs(s.count(key!("checkpoint_timeout"))),
        checkpoint_completion_target: s.real(key!("checkpoint_completion_target")),
        checkpoint_flush_after: s.count(key!("checkpoint_flush_after")),
        cleaner: CleanerOptions {
            max_pages: s.count(key!("bgwriter_lru_maxpages")),
            multiplier: s.real(key!("bgwriter_lru_multiplier")),
            delay: Duration::from_millis(s.count(key!("bgwriter_delay"))),
            flush_after: s.count(key!("bgwriter_flush_after")),
        },
        wal_init_zero: s.bool(key!("wal_init_zero")),
        wal_recycle: s.bool(key!("wal_recycle")),
        wal_writer_delay: Duration::from_millis(s.count(key!("wal_writer_delay"))),
        wal_writer_flush_after: s.count::<u64>(key!("wal_writer_flush_after")) * 8192,
        wal_compression: ImageCompression::by_name(s.text(key!("wal_compression"))),
        autoprewarm_interval: Duration::from_secs(s.count(key!("pg_prewarm.autoprewarm_interval"))),
    }
}

/// What a session may change for itself.
pub fn session_settings(s: &impl Lookup) -> SessionSettings {
    SessionSettings {
        search_path: identifier_list(s.text(key!("search_path"))).unwrap_or_default().into(),
        role: s.text(key!("role")).into(),
        session_authorization: s.text(key!("session_authorization")).into(),
        default_tablespace: s.text(key!("default_tablespace")).into(),
        io_combine_limit: s.count(key!("io_combine_limit")),
        effective_io_concurrency: s.count(key!("effective_io_concurrency")),
        synchronize_seqscans: s.bool(key!("synchronize_seqscans")),
        synchronous_commit: s.text(key!("synchronous_commit")) != "off",
        commit_delay: Duration::from_micros(s.count(key!("commit_delay"))),
        commit_siblings: s.count(key!("commit_siblings")),
        default_toast_compression: match s.text(key!("default_toast_compression")) {
            "lz4" => ToastCompression::Lz4,
            _ => ToastCompression::Pglz,
        },
        work_mem: s.count(key!("work_mem")),
        maintenance_work_mem: s.count(key!("maintenance_work_mem")),
        temp_file_limit: s.int(key!("temp_file_limit")),
        log_temp_files: s.int(key!("log_temp_files")),
        temp_buffers: s.count(key!("temp_buffers")),
        zero_damaged_pages: s.bool(key!("zero_damaged_pages")),
        ignore_checksum_failure: s.bool(key!("ignore_checksum_failure")),
        lock_timeout: Duration::from_millis(s.count(key!("lock_timeout"))),
        deadlock_timeout: Duration::from_millis(s.count(key!("deadlock_timeout"))),
        track_counts: s.bool(key!("track_counts")),
        vacuum: vacuum_settings(s),
        statistics_target: s.count(key!("default_statistics_target")),
        parallel: ParallelSettings {
            workers_per_gather: s.count(key!("max_parallel_workers_per_gather")),
            max_workers: s.count(key!("max_parallel_workers")),
            min_table_blocks: s.count(key!("min_parallel_table_scan_size")),
            setup_cost: s.real(key!("parallel_setup_cost")),
            tuple_cost: s.real(key!("parallel_tuple_cost")),
            leader_participates: s.bool(key!("parallel_leader_participation")),
        },
    }
}

/// When and how fast autovacuum works.
pub fn autovacuum_settings(s: &impl Lookup) -> AutovacuumSettings {
    let limit = |value: i64| u32::try_from(value).ok();
    let millis = |value: i64| u64::try_from(value).ok().map(Duration::from_millis);
    let delay = s.real(key!("autovacuum_vacuum_cost_delay"));
    AutovacuumSettings {
        enabled: s.bool(key!("autovacuum")),
        naptime: Duration::from_secs(s.count(key!("autovacuum_naptime"))),
        max_workers: s.count(key!("autovacuum_max_workers")),
        vacuum_threshold: s.count(key!("autovacuum_vacuum_threshold")),
        vacuum_scale_factor: s.real(key!("autovacuum_vacuum_scale_factor")),
        vacuum_max_threshold: limit(s.int(key!("autovacuum_vacuum_max_threshold"))),
        insert_threshold: limit(s.int(key!("autovacuum_vacuum_insert_threshold"))),
        insert_scale_factor: s.real(key!("autovacuum_vacuum_insert_scale_factor")),
        analyze_threshold: s.count(key!("autovacuum_analyze_threshold")),
        analyze_scale_factor: s.real(key!("autovacuum_analyze_scale_factor")),
        cost_delay: (delay >= 0.0).then(|| Duration::from_secs_f64(delay / 1e3)),
        cost_limit: limit(s.int(key!("autovacuum_vacuum_cost_limit"))).filter(|limit| *limit > 0),
        log_min_duration: millis(s.int(key!("log_autovacuum_min_duration"))),
        work_mem: s.chosen(key!("autovacuum_work_mem")),
    }
}

fn vacuum_settings(s: &impl Lookup) -> VacuumSettings {
    VacuumSettings {
        freeze_min_age: s.count(key!("vacuum_freeze_min_age")),
        freeze_table_age: s.count(key!("vacuum_freeze_table_age")),
        multixact_freeze_min_age: s.count(key!("vacuum_multixact_freeze_min_age")),
        multixact_freeze_table_age: s.count(key!("vacuum_multixact_freeze_table_age")),
        failsafe_age: s.count(key!("vacuum_failsafe_age")),
        multixact_failsafe_age: s.count(key!("vacuum_multixact_failsafe_age")),
        max_eager_freeze_failure_rate: s.real(key!("vacuum_max_eager_freeze_failure_rate")),
        parallel_workers: s.count(key!("max_parallel_maintenance_workers")),
        min_parallel_index_blocks: s.count(key!("min_parallel_index_scan_size")),
        freeze_max_age: s.count(key!("autovacuum_freeze_max_age")),
        multixact_freeze_max_age: s.count(key!("autovacuum_multixact_freeze_max_age")),
        truncate: s.bool(key!("vacuum_truncate")),
        cost_delay: Duration::from_secs_f64(s.real(key!("vacuum_cost_delay")) / 1e3),
        cost_limit: s.count(key!("vacuum_cost_limit")),
        cost_page_hit: s.count(key!("vacuum_cost_page_hit")),
        cost_page_miss: s.count(key!("vacuum_cost_page_miss")),
        cost_page_dirty: s.count(key!("vacuum_cost_page_dirty")),
        track_delays: s.bool(key!("track_cost_delay_timing")),
        buffer_usage_limit: s.count(key!("vacuum_buffer_usage_limit")),
        io_concurrency: s.count(key!("maintenance_io_concurrency")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::{Key, Text};
    use super::super::server::ConfigError;
    use super::super::table::Kind;
    use super::*;
    use forebay_engine::IoDirect;

    /// The settings of a command line.
    fn load(settings: &[(&str, &str)]) -> Result<ServerSettings, ConfigError> {
        let dir = tempfile::tempdir().expect("a directory");
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        ServerSettings::load(dir.path(), &settings.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn workers_are_fixed_where_their_number_is_set() {
        let workers =
            |settings: &[(&str, &str)]| io_settings(&load(settings).expect("loads")).io_workers;
        assert_eq!(workers(&[]), WorkerLimits::default());
        assert_eq!(workers(&[("io_workers", "3")]), WorkerLimits::fixed(3));
        let pool = workers(&[("io_max_workers", "5"), ("io_worker_idle_timeout", "1s")]);
        assert_eq!((pool.min, pool.max, pool.idle_timeout), (2, 5, Duration::from_secs(1)));
    }

    #[test]
    fn recovery_targets_are_what_their_settings_say() {
        let target = |name: &str, text: &str| {
            let restore = engine_config(&load(&[(name, text)]).expect("loads")).restore;
            assert!(restore.targets.len() <= 1);
            restore.targets.into_iter().next()
        };
        let lsn = forebay_engine::Lsn(0x1_0000_0028);
        assert_eq!(target("recovery_target", "immediate"), Some(RecoveryTarget::Immediate));
        assert_eq!(target("recovery_target_lsn", "1/28"), Some(RecoveryTarget::Lsn(lsn)));
        assert_eq!(target("recovery_target_xid", "731"), Some(RecoveryTarget::Xid(731)));
        assert_eq!(
            target("recovery_target_name", "x y"),
            Some(RecoveryTarget::Name("x y".to_owned()))
        );
        assert_eq!(
            target("recovery_target_time", "2000-01-01 01:00:01+01"),
            Some(RecoveryTarget::Time(1_000_000))
        );
        assert_eq!(target("recovery_target_time", ""), None);
        for (name, text) in [
            ("recovery_target", "soon"),
            ("recovery_target_lsn", "28"),
            ("recovery_target_time", "yesterday"),
            ("recovery_target_timeline", "0"),
            ("recovery_target_xid", "x"),
            ("basic_archive.archive_directory", "relative"),
            ("forebay_archive.location", "relative"),
            ("forebay_archive.key_file", "relative"),
            ("forebay_archive.compression", "zstd:99"),
            ("forebay_archive.layout", "square"),
        ] {
            assert!(load(&[(name, text)]).is_err(), "{name} = {text}");
        }
        let timeline = |text| {
            engine_config(&load(&[("recovery_target_timeline", text)]).expect("loads"))
                .restore
                .timeline
        };
        assert_eq!(timeline("latest"), TargetTimeline::Latest);
        assert_eq!(timeline("current"), TargetTimeline::Current);
        assert_eq!(timeline("7"), TargetTimeline::Number(7));
    }

    #[test]
    fn files_grow_by_the_method_that_is_set() {
        let method = |settings: &[(&str, &str)]| {
            io_settings(&load(settings).expect("loads")).file_extend_method
        };
        assert_eq!(method(&[]), ExtendMethod::PosixFallocate);
        assert_eq!(method(&[("file_extend_method", "write_zeros")]), ExtendMethod::WriteZeros);
    }

    #[test]
    fn io_of_a_configuration_of_postgresql_is_respected() {
        let io = |conf: &str| {
            let dir = tempfile::tempdir().expect("a directory");
            std::fs::write(dir.path().join("postgresql.conf"), conf).expect("written");
            let config = engine_config(&ServerSettings::load(dir.path(), &[]).expect("loads"));
            (config.io_method, config.io_direct)
        };
        assert_eq!(io("max_connections = 5\n"), (IoMethod::Auto, IoDirectSetting::Auto));
        let wal = IoDirect { wal: true, ..IoDirect::NONE };
        let conf = "io_method = worker\ndebug_io_direct = 'wal'\n";
        assert_eq!(io(conf), (IoMethod::Worker, wal.into()));
        assert_eq!(io("io_direct = ''\n"), (IoMethod::Auto, IoDirect::NONE.into()));
        assert_eq!(io("debug_io_direct = 'Auto'\n"), (IoMethod::Auto, IoDirectSetting::Auto));
    }

    #[test]
    fn every_method_of_the_engine_has_a_name_in_the_table() {
        fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
            all.iter().map(|value| name(*value)).collect()
        }
        let words = |key: Key<Text>| match key.setting().kind {
            Kind::Enum(words) => words.to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(words(key!("io_method")), names(IoMethod::ALL, IoMethod::name));
        assert_eq!(words(key!("file_extend_method")), names(ExtendMethod::ALL, ExtendMethod::name));
        assert_eq!(words(key!("wal_sync_method")), names(WalSyncMethod::ALL, WalSyncMethod::name));
        assert_eq!(words(key!("archive_mode")), names(ArchiveMode::ALL, ArchiveMode::name));
    }

    #[test]
    fn defaults_agree_with_the_engines_but_for_what_serves_a_server() {
        let ours = engine_config(&ServerSettings::default());
        assert!(ours.on_fatal.is_some() && EngineConfig::default().on_fatal.is_none());
        assert!(ours.autoprewarm && !EngineConfig::default().autoprewarm);
        assert_eq!(ours.shared_buffers, PoolSize::Automatic);
        let shared_buffers = EngineConfig::default().shared_buffers;
        let ours = EngineConfig {
            on_fatal: None,
            index_compiler: None,
            autoprewarm: false,
            shared_buffers,
            ..ours
        };
        let ours = format!("{ours:?}");
        assert_eq!(ours, format!("{:?}", EngineConfig::default()));
    }
}
