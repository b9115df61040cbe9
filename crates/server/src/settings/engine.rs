//! Handing settings down to the engine.

use super::server::ServerSettings;
use super::session::SessionSettings;
use super::value::Value;
use forebay_aio::sync::Duration;
use forebay_engine::archive::store::codec::Compression;
use forebay_engine::archive::store::layout::LayoutKind;
use forebay_engine::{
    ArchiveMode, ArchiveSettings, ArchiveStore, CleanerOptions, EngineConfig, ExtendMethod,
    FatalAction, HugePages, ImageCompression, IoDirect, IoMethod, IoSettings, RecoverySettings,
    RecoveryTarget, RestoreSettings, TargetAction, TargetTimeline, WalSyncMethod, WorkerLimits,
    WritingSettings, parse_timestamp,
};

/// What the engine is opened with.
pub fn engine_config(s: &ServerSettings) -> EngineConfig {
    let count = |name: &str| usize::try_from(s.int(name)).unwrap_or(0);
    let automatic = |name: &str| usize::try_from(s.int(name)).ok();
    EngineConfig {
        shared_buffers: count("shared_buffers"),
        huge_pages: match s.text("huge_pages") {
            "off" => HugePages::Off,
            "on" => HugePages::On,
            _ => HugePages::Try,
        },
        io_method: IoMethod::by_name(s.text("io_method")).unwrap_or_default(),
        // Checked when it was set.
        io_direct: IoDirect::parse(s.text("io_direct")).unwrap_or(IoDirect::NONE),
        io_workers: io_workers(s),
        io_max_concurrency: automatic("io_max_concurrency"),
        io_max_combine_limit: count("io_max_combine_limit"),
        session: forebay_engine::SessionSettings {
            io_combine_limit: count("io_combine_limit"),
            effective_io_concurrency: count("effective_io_concurrency"),
            synchronous_commit: s.text("synchronous_commit") != "off",
            commit_delay: Duration::from_micros(u64::try_from(s.int("commit_delay")).unwrap_or(0)),
            commit_siblings: count("commit_siblings"),
            work_mem: count("work_mem"),
            temp_file_limit: s.int("temp_file_limit"),
            log_temp_files: s.int("log_temp_files"),
            temp_buffers: count("temp_buffers"),
            zero_damaged_pages: s.bool("zero_damaged_pages"),
            ignore_checksum_failure: s.bool("ignore_checksum_failure"),
        },
        max_connections: count("max_connections"),
        max_files_per_process: count("max_files_per_process"),
        file_extend_method: file_extend_method(s),
        wal_sync_method: WalSyncMethod::by_name(s.text("wal_sync_method")).unwrap_or_default(),
        wal_buffers: automatic("wal_buffers"),
        full_page_writes: s.bool("full_page_writes"),
        verify_writes: s.bool("checkpoint_verify_writes"),
        archive_mode: ArchiveMode::by_name(s.text("archive_mode")).unwrap_or_default(),
        archiving: archive_settings(s),
        writing: writing_settings(s),
        recovery: RecoverySettings {
            prefetch: s.text("recovery_prefetch") != "off",
            decode_buffer: count("wal_decode_buffer_size"),
            io_concurrency: count("maintenance_io_concurrency"),
        },
        restore: restore_settings(s),
        on_fatal: Some(FatalAction::abort()),
        ..EngineConfig::default()
    }
}

/// What archives completed segments: also after a reload.
pub fn archive_settings(s: &ServerSettings) -> ArchiveSettings {
    ArchiveSettings {
        command: s.text("archive_command").to_owned(),
        library: s.text("archive_library").to_owned(),
        directory: s.text("basic_archive.archive_directory").to_owned(),
        store: archive_store(s),
        transfers: usize::try_from(s.int("archive_transfers")).unwrap_or(0),
        timeout: Duration::from_secs(u64::try_from(s.int("archive_timeout")).unwrap_or(0)),
    }
}

/// The archive of forebay_archive. What the texts mean was checked when they were set.
fn archive_store(s: &ServerSettings) -> ArchiveStore {
    let key_file = s.text("forebay_archive.key_file");
    ArchiveStore {
        location: s.text("forebay_archive.location").to_owned(),
        compression: Compression::by_name(s.text("forebay_archive.compression"))
            .unwrap_or_default(),
        layout: LayoutKind::by_name(s.text("forebay_archive.layout")),
        key_file: (!key_file.is_empty()).then(|| key_file.into()),
        accept_unencrypted: s.bool("forebay_archive.accept_unencrypted"),
    }
}

/// How a directory is recovered from an archive. What the texts mean was checked when they were
/// set.
fn restore_settings(s: &ServerSettings) -> RestoreSettings {
    let set = |name: &str| Some(s.text(name)).filter(|text| !text.is_empty());
    let targets = [
        set("recovery_target").map(|_| RecoveryTarget::Immediate),
        set("recovery_target_lsn").and_then(|lsn| lsn.parse().ok()).map(RecoveryTarget::Lsn),
        set("recovery_target_name").map(|name| RecoveryTarget::Name(name.to_owned())),
        set("recovery_target_time").and_then(parse_timestamp).map(RecoveryTarget::Time),
        set("recovery_target_xid").and_then(|xid| xid.parse().ok()).map(RecoveryTarget::Xid),
    ];
    RestoreSettings {
        restore_command: s.text("restore_command").to_owned(),
        library: s.text("restore_library").to_owned(),
        store: archive_store(s),
        prefetch: usize::try_from(s.int("forebay_archive.prefetch")).unwrap_or(0),
        prefetch_memory: u64::try_from(s.int("forebay_archive.prefetch_memory")).unwrap_or(0) << 20,
        recovery_end_command: s.text("recovery_end_command").to_owned(),
        archive_cleanup_command: s.text("archive_cleanup_command").to_owned(),
        targets: targets.into_iter().flatten().collect(),
        inclusive: s.bool("recovery_target_inclusive"),
        timeline: match s.text("recovery_target_timeline") {
            "current" => TargetTimeline::Current,
            number => number.parse().map_or(TargetTimeline::Latest, TargetTimeline::Number),
        },
        action: match s.text("recovery_target_action") {
            "promote" => TargetAction::Promote,
            "shutdown" => TargetAction::Shutdown,
            _ => TargetAction::Pause,
        },
    }
}

/// The worker pool: as many as io_workers says where someone has set it, else as many as there is
/// work for.
fn io_workers(s: &ServerSettings) -> WorkerLimits {
    let count = |name: &str| usize::try_from(s.int(name)).unwrap_or(1);
    let millis = |name: &str| Duration::from_millis(u64::try_from(s.int(name)).unwrap_or(0));
    if s.is_set("io_workers") {
        return WorkerLimits::fixed(count("io_workers"));
    }
    WorkerLimits {
        min: count("io_min_workers"),
        max: count("io_max_workers"),
        idle_timeout: millis("io_worker_idle_timeout"),
        launch_interval: millis("io_worker_launch_interval"),
    }
}

/// What a running engine takes over after a reload.
pub fn io_settings(s: &ServerSettings) -> IoSettings {
    IoSettings {
        io_workers: io_workers(s),
        track_io_timing: s.bool("track_io_timing"),
        file_extend_method: file_extend_method(s),
    }
}

fn file_extend_method(s: &ServerSettings) -> ExtendMethod {
    ExtendMethod::by_name(s.text("file_extend_method")).unwrap_or_default()
}

/// When and how fast the background threads write: also after a reload.
pub fn writing_settings(s: &ServerSettings) -> WritingSettings {
    let whole = |name: &str| u64::try_from(s.int(name)).unwrap_or(0);
    let blocks = |name: &str| u32::try_from(s.int(name)).unwrap_or(0);
    let millis = |name: &str| Duration::from_millis(whole(name));
    let real = |name: &str| match s.value(name) {
        Value::Real(x) => *x,
        _ => 0.0,
    };
    WritingSettings {
        max_wal_size: whole("max_wal_size") << 20,
        min_wal_size: whole("min_wal_size") << 20,
        checkpoint_timeout: Duration::from_secs(whole("checkpoint_timeout")),
        checkpoint_completion_target: real("checkpoint_completion_target"),
        checkpoint_flush_after: blocks("checkpoint_flush_after"),
        cleaner: CleanerOptions {
            max_pages: usize::try_from(s.int("bgwriter_lru_maxpages")).unwrap_or(0),
            multiplier: real("bgwriter_lru_multiplier"),
            delay: millis("bgwriter_delay"),
            flush_after: blocks("bgwriter_flush_after"),
        },
        wal_init_zero: s.bool("wal_init_zero"),
        wal_recycle: s.bool("wal_recycle"),
        wal_writer_delay: millis("wal_writer_delay"),
        wal_writer_flush_after: whole("wal_writer_flush_after") * 8192,
        wal_compression: ImageCompression::by_name(s.text("wal_compression")),
    }
}

/// What a session has changed for itself.
pub fn session_settings(s: &SessionSettings) -> forebay_engine::SessionSettings {
    forebay_engine::SessionSettings {
        io_combine_limit: usize::try_from(s.int("io_combine_limit")).unwrap_or(1),
        effective_io_concurrency: usize::try_from(s.int("effective_io_concurrency")).unwrap_or(0),
        synchronous_commit: s.text("synchronous_commit") != "off",
        commit_delay: Duration::from_micros(u64::try_from(s.int("commit_delay")).unwrap_or(0)),
        commit_siblings: usize::try_from(s.int("commit_siblings")).unwrap_or(0),
        work_mem: usize::try_from(s.int("work_mem")).unwrap_or(64),
        temp_file_limit: s.int("temp_file_limit"),
        log_temp_files: s.int("log_temp_files"),
        temp_buffers: usize::try_from(s.int("temp_buffers")).unwrap_or(100),
        zero_damaged_pages: s.int("zero_damaged_pages") != 0,
        ignore_checksum_failure: s.int("ignore_checksum_failure") != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_fixed_where_their_number_is_set() {
        let dir = tempfile::tempdir().expect("a directory");
        let workers = |settings: &[(&str, &str)]| {
            let settings: Vec<_> =
                settings.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            io_settings(&ServerSettings::load(dir.path(), &settings).expect("loads")).io_workers
        };
        assert_eq!(workers(&[]), WorkerLimits::default());
        assert_eq!(workers(&[("io_workers", "3")]), WorkerLimits::fixed(3));
        let pool = workers(&[("io_max_workers", "5"), ("io_worker_idle_timeout", "1s")]);
        assert_eq!((pool.min, pool.max, pool.idle_timeout), (2, 5, Duration::from_secs(1)));
    }

    #[test]
    fn recovery_targets_are_what_their_settings_say() {
        let dir = tempfile::tempdir().expect("a directory");
        let load = |settings: &[(&str, &str)]| {
            let settings: Vec<_> =
                settings.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            ServerSettings::load(dir.path(), &settings)
        };
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
        let dir = tempfile::tempdir().expect("a directory");
        let method = |settings: &[(String, String)]| {
            io_settings(&ServerSettings::load(dir.path(), settings).expect("loads"))
                .file_extend_method
        };
        assert_eq!(method(&[]), ExtendMethod::PosixFallocate);
        let zeros = ("file_extend_method".to_owned(), "write_zeros".to_owned());
        assert_eq!(method(&[zeros]), ExtendMethod::WriteZeros);
    }

    #[test]
    fn every_method_of_the_engine_has_a_name_in_the_table() {
        let kind = super::super::find("io_method").expect("exists").kind;
        let super::super::Kind::Enum(words) = kind else { panic!("{kind:?}") };
        assert_eq!(words.to_vec(), IoMethod::NAMES.map(|(name, _)| name));
        let kind = super::super::find("file_extend_method").expect("exists").kind;
        let super::super::Kind::Enum(words) = kind else { panic!("{kind:?}") };
        assert_eq!(words.to_vec(), ExtendMethod::NAMES.map(|(name, _)| name));
        let kind = super::super::find("wal_sync_method").expect("exists").kind;
        let super::super::Kind::Enum(words) = kind else { panic!("{kind:?}") };
        assert_eq!(words.to_vec(), WalSyncMethod::NAMES.map(|(name, _)| name));
    }

    #[test]
    fn defaults_agree_with_the_engines_but_a_server_aborts() {
        let ours = engine_config(&ServerSettings::default());
        assert!(ours.on_fatal.is_some() && EngineConfig::default().on_fatal.is_none());
        let ours = format!("{:?}", EngineConfig { on_fatal: None, ..ours });
        assert_eq!(ours, format!("{:?}", EngineConfig::default()));
    }
}
