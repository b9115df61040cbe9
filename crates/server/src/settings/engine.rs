//! Handing settings down to the engine.

use super::server::ServerSettings;
use super::session::SessionSettings;
use super::value::Value;
use forebay_engine::{EngineConfig, IoDirect, IoMethod, WalSyncMethod};
use std::time::Duration;

/// What the engine is opened with.
pub fn engine_config(s: &ServerSettings) -> EngineConfig {
    let count = |name: &str| usize::try_from(s.int(name)).unwrap_or(0);
    let bytes = |name: &str| u64::try_from(s.int(name)).unwrap_or(0) << 20;
    let automatic = |name: &str| usize::try_from(s.int(name)).ok();
    let millis = |name: &str| Duration::from_millis(u64::try_from(s.int(name)).unwrap_or(0));
    EngineConfig {
        shared_buffers: count("shared_buffers"),
        io_method: match s.text("io_method") {
            "sync" => IoMethod::Sync,
            "io_uring" => IoMethod::IoUring,
            _ => IoMethod::Worker,
        },
        // Checked when it was set.
        io_direct: IoDirect::parse(s.text("io_direct")).unwrap_or(IoDirect::NONE),
        io_workers: count("io_workers"),
        io_max_concurrency: automatic("io_max_concurrency"),
        io_max_combine_limit: count("io_max_combine_limit"),
        session: forebay_engine::SessionSettings {
            io_combine_limit: count("io_combine_limit"),
            effective_io_concurrency: count("effective_io_concurrency"),
            synchronous_commit: s.text("synchronous_commit") != "off",
        },
        max_connections: count("max_connections"),
        wal_sync_method: match s.text("wal_sync_method") {
            "open_datasync" => WalSyncMethod::OpenDatasync,
            _ => WalSyncMethod::Fdatasync,
        },
        wal_buffers: automatic("wal_buffers"),
        full_page_writes: s.bool("full_page_writes"),
        max_wal_size: bytes("max_wal_size"),
        min_wal_size: bytes("min_wal_size"),
        checkpoint_timeout: Duration::from_secs(u64::try_from(s.int("checkpoint_timeout")).unwrap_or(300)),
        checkpoint_completion_target: match s.value("checkpoint_completion_target") {
            Value::Real(x) => *x,
            _ => 0.9,
        },
        wal_writer_delay: millis("wal_writer_delay"),
        bgwriter_delay: millis("bgwriter_delay"),
        bgwriter_lru_maxpages: count("bgwriter_lru_maxpages"),
        ..EngineConfig::default()
    }
}

/// What a session has changed for itself.
pub fn session_settings(s: &SessionSettings) -> forebay_engine::SessionSettings {
    forebay_engine::SessionSettings {
        io_combine_limit: usize::try_from(s.int("io_combine_limit")).unwrap_or(1),
        effective_io_concurrency: usize::try_from(s.int("effective_io_concurrency")).unwrap_or(0),
        synchronous_commit: s.text("synchronous_commit") != "off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_agree_with_the_engines() {
        let ours = format!("{:?}", engine_config(&ServerSettings::default()));
        assert_eq!(ours, format!("{:?}", EngineConfig::default()));
    }
}
