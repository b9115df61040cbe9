//! Opens the I/O layer with the I/O method of the configuration, finds out which files can bypass
//! the kernel's page cache, and changes settings later.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{
    Aio, AioConfig, AioError, DirectIfPossible, DirectRefusal, IoDirect, IoUringRefusal,
    MethodKind, Namespace, PosixNamespace, WorkerLimits,
};
use forebay_format::ids::BLOCK_SIZE;
use forebay_storage::READ_BACK_FILES;

use crate::config::{Background, EngineConfig, ExtendMethod, IoDirectSetting, IoMethod, PoolSize};
use crate::error::EngineError;

/// Backends beside the sessions: startup or shutdown, checkpointer, WAL writer, background writer,
/// and some to spare.
pub(crate) const OTHER_BACKENDS: usize = 8;

/// Descriptors beside data files and rings: WAL segments, pg_xact, pg_control, lock files,
/// directories.
const OTHER_FILES: usize = 32;

// Direct I/O transfers whole blocks: what PostgreSQL checks of its block sizes when io_direct is
// set.
const _: () = assert!(
    BLOCK_SIZE >= forebay_aio::IO_ALIGN && BLOCK_SIZE.is_multiple_of(forebay_aio::IO_ALIGN)
);

/// Settings that may change while the engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoSettings {
    /// I/O worker threads (io_workers and its relatives).
    pub io_workers: WorkerLimits,
    /// Whether I/O times are measured (track_io_timing).
    pub track_io_timing: bool,
    /// How data files grow (file_extend_method).
    pub file_extend_method: ExtendMethod,
}

impl EngineConfig {
    /// Whether each backend must have a ring.
    pub fn needs_rings(&self) -> bool {
        self.io_method == IoMethod::IoUring
    }

    /// Descriptors beside data files and rings, whatever the method.
    fn few_files(&self) -> usize {
        OTHER_FILES + if self.verify_writes { READ_BACK_FILES } else { 0 }
    }

    /// Backends at a time, without those of autovacuum.
    fn usual_backends(&self) -> usize {
        let sessions = self.max_connections + self.statement_workers();
        sessions + OTHER_BACKENDS + self.archiver_backends()
    }

    /// Most backends at a time.
    fn backends(&self) -> usize {
        let workers = match self.background {
            Background::Threads => self.autovacuum_worker_slots,
            Background::Stepped => 0,
        };
        self.usual_backends() + workers
    }

    /// Descriptors that the engine wants beside those of data files.
    pub fn other_descriptors(&self) -> usize {
        match self.io_method {
            IoMethod::IoUring | IoMethod::Auto => self.backends() + self.few_files(),
            _ => self.few_files(),
        }
    }

    /// Descriptors that it needs at least.
    pub fn least_other_descriptors(&self) -> usize {
        if self.needs_rings() { self.other_descriptors() } else { self.few_files() }
    }
}

/// Opens the I/O layer for an engine.
pub(crate) fn open(config: &EngineConfig) -> Result<Arc<Aio>, EngineError> {
    let max_backends = config.backends();
    let chosen = (config.shared_buffers.at_start() / config.usual_backends()).clamp(1, 64);
    let sizes = AioConfig {
        max_backends,
        handles_per_backend: config.io_max_concurrency.unwrap_or(chosen),
        combine_limit: config.io_max_combine_limit.saturating_mul(BLOCK_SIZE),
        ..AioConfig::default()
    };
    let namespace: Arc<dyn Namespace> = match config.io_direct {
        IoDirectSetting::Auto => Arc::new(DirectIfPossible::new()),
        IoDirectSetting::Only(_) => Arc::new(PosixNamespace::new()),
    };
    let (aio, refusal) = open_with(namespace, config.io_method, config.io_workers, sizes)?;
    match refusal {
        Some(why) => tracing::info!("io_method is \"{}\": {why}", aio.method_name()),
        None if config.io_method == IoMethod::Auto => {
            tracing::info!("io_method is \"{}\"", aio.method_name());
        }
        None => {}
    }
    Ok(aio)
}

/// Opens an I/O layer. If a method is asked for by name and is not available, the error says why.
/// With `auto` and without io_uring, the reason comes with the workers.
fn open_with(
    namespace: Arc<dyn Namespace>,
    method: IoMethod,
    workers: WorkerLimits,
    sizes: AioConfig,
) -> Result<(Arc<Aio>, Option<IoUringRefusal>), EngineError> {
    let open = |kind| Aio::new(Arc::clone(&namespace), kind, sizes);
    let kind = match method {
        IoMethod::Sync => MethodKind::Sync,
        IoMethod::Worker => MethodKind::Worker(workers),
        IoMethod::IoUring => MethodKind::IoUring,
        IoMethod::PosixAio => MethodKind::PosixAio,
        IoMethod::Auto => match open(MethodKind::IoUring) {
            Err(AioError::IoUring(refusal)) => {
                return Ok((open(MethodKind::Worker(workers))?, Some(refusal)));
            }
            done => return Ok((done?, None)),
        },
    };
    Ok((open(kind)?, None))
}

/// Opens the I/O layer for a program that opens no engine. Reads are started in their full size, so
/// nothing is merged.
pub(crate) fn standalone(method: IoMethod, max_backends: usize) -> Result<Arc<Aio>, EngineError> {
    let sizes = AioConfig { max_backends, combine_limit: 0, ..AioConfig::default() };
    let namespace = Arc::new(PosixNamespace::new());
    let (aio, refusal) = open_with(namespace, method, WorkerLimits::default(), sizes)?;
    if let Some(why) = refusal {
        tracing::info!("io_method is \"{}\": {why}", aio.method_name());
    }
    Ok(aio)
}

/// Changes settings while the engine runs.
pub(crate) fn change(aio: &Aio, to: &IoSettings) -> Result<(), EngineError> {
    aio.set_track_io_timing(to.track_io_timing);
    Ok(aio.set_worker_limits(to.io_workers)?)
}

/// The files that bypass the kernel's page cache. Refuses what io_direct names, and reading back of
/// writes, where the file system has no direct I/O. Warns where it only pretends to have it.
pub(crate) fn direct_files(
    aio: &Aio,
    dir: &Path,
    config: &EngineConfig,
) -> Result<IoDirect, EngineError> {
    let asked = match config.io_direct {
        IoDirectSetting::Auto => IoDirect::NONE,
        IoDirectSetting::Only(direct) => direct,
    };
    let wal = asked.wal || asked.wal_init;
    let asked = [
        ("io_direct", asked.data, "base"),
        ("io_direct", wal, "pg_wal"),
        // Direct data files are checked above.
        ("checkpoint_verify_writes", config.verify_writes && !asked.data, "base"),
        ("checkpoint_verify_writes", config.verify_writes, "pg_xact"),
    ];
    for (setting, wanted, sub) in asked {
        if wanted {
            require_direct(aio, setting, &dir.join(sub))?;
        }
    }
    Ok(match config.io_direct {
        IoDirectSetting::Auto => possible_direct(aio, dir, &config.shared_buffers),
        IoDirectSetting::Only(direct) => direct,
    })
}

fn require_direct(aio: &Aio, setting: &str, dir: &Path) -> Result<(), EngineError> {
    let can = aio.namespace().probe_direct(dir).map_err(|refusal| {
        EngineError::statement("0A000", refusal.to_string())
            .with_detail(format!("The setting \"{setting}\" asks for it."))
    })?;
    if let Some(note) = can.note {
        let (dir, filesystem) = (dir.display(), can.filesystem);
        tracing::warn!("{setting} for \"{dir}\" (file system {filesystem}): {note}");
    }
    Ok(())
}

/// The files that direct I/O serves best: where the directory has it, and for data where the pool
/// can replace the kernel's cache. One line of the log tells them, and what prevents the others.
fn possible_direct(aio: &Aio, dir: &Path, pool: &PoolSize) -> IoDirect {
    let probe = |sub| {
        let dir = dir.join(sub);
        match aio.namespace().probe_direct(&dir) {
            Ok(told) => match told.note {
                None => Ok(()),
                Some(reason) => Err(DirectRefusal { dir, filesystem: told.filesystem, reason }),
            },
            Err(refusal) => Err(refusal),
        }
    };
    let (data, wal) = (probe("base").map_err(|e| e.to_string()), probe("pg_wal"));
    let data = data.and_then(|()| pool.as_only_cache());
    let wal = wal.map_err(|e| e.to_string());
    let direct = IoDirect { data: data.is_ok(), wal: wal.is_ok(), wal_init: wal.is_ok() };
    let reasons: Vec<String> = [data, wal].into_iter().filter_map(Result::err).collect();
    let colon = if reasons.is_empty() { "" } else { ": " };
    tracing::info!("io_direct is \"{direct}\"{colon}{}", reasons.join("; "));
    direct
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{IoDirect, SizeChooser};

    #[test]
    fn a_refusal_names_the_setting() {
        // There is no such directory to try it in.
        let dir = tempfile::tempdir().expect("a directory").path().join("none");
        let aio = open(&EngineConfig { io_method: IoMethod::Sync, ..EngineConfig::default() })
            .expect("aio");
        let refused = |config| match direct_files(&aio, &dir, &config) {
            Err(EngineError::Refused(refusal)) => {
                let forebay_catalog::Refusal { message, detail, .. } = *refusal;
                assert!(message.starts_with("direct I/O is not possible in"), "{message}");
                detail.expect("a detail")
            }
            other => panic!("{other:?}"),
        };
        let verify = EngineConfig { verify_writes: true, ..EngineConfig::default() };
        assert_eq!(refused(verify), "The setting \"checkpoint_verify_writes\" asks for it.");
        let io_direct = IoDirect { wal: true, ..IoDirect::NONE }.into();
        let wal = EngineConfig { io_direct, ..EngineConfig::default() };
        assert_eq!(refused(wal), "The setting \"io_direct\" asks for it.");
        for io_direct in [IoDirectSetting::Auto, IoDirect::NONE.into()] {
            let config = EngineConfig { io_direct, ..EngineConfig::default() };
            let found = direct_files(&aio, &dir, &config).expect("nothing is asked for");
            assert_eq!(found, IoDirect::NONE);
        }
    }

    #[test]
    fn auto_is_direct_where_the_directory_can() {
        let dir = tempfile::tempdir().expect("a directory");
        let aio = open(&EngineConfig { io_method: IoMethod::Sync, ..EngineConfig::default() })
            .expect("aio");
        std::fs::create_dir(dir.path().join("base")).expect("made");
        let can = forebay_testkit::io::has_direct(dir.path());
        let found = |shared_buffers| {
            let io_direct = IoDirectSetting::Auto;
            let config = EngineConfig { io_direct, shared_buffers, ..EngineConfig::default() };
            direct_files(&aio, dir.path(), &config).expect("found out")
        };
        // There is no directory for the log.
        assert_eq!(found(PoolSize::Automatic), IoDirect { data: can, ..IoDirect::NONE });
        std::fs::create_dir(dir.path().join("pg_wal")).expect("made");
        let all = IoDirect { data: can, wal: can, wal_init: can };
        assert_eq!(found(PoolSize::Automatic), all);
        assert_eq!(found(PoolSize::Blocks(1 << 30)), all);
        assert_eq!(found(PoolSize::Chosen(SizeChooser::new(|_| 1))), all);
        // The pool would be too small a cache.
        assert_eq!(found(PoolSize::Blocks(16)), IoDirect { data: false, ..all });
    }
}
