//! Opens the I/O layer with the I/O method of the configuration, and changes its settings later.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{Aio, AioConfig, AioError, MethodKind, Namespace, PosixNamespace, WorkerLimits};
use forebay_format::ids::BLOCK_SIZE;
use forebay_storage::READ_BACK_FILES;

use crate::config::{Background, EngineConfig, ExtendMethod, IoMethod};
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
    let chosen = (config.shared_buffers / config.usual_backends()).clamp(1, 64);
    let sizes = AioConfig {
        max_backends,
        handles_per_backend: config.io_max_concurrency.unwrap_or(chosen),
        combine_limit: config.io_max_combine_limit.saturating_mul(BLOCK_SIZE),
        ..AioConfig::default()
    };
    open_with(Arc::new(PosixNamespace::new()), config.io_method, config.io_workers, sizes)
}

/// Opens an I/O layer. If a method is asked for by name and is not available, the error says why.
pub(crate) fn open_with(
    namespace: Arc<dyn Namespace>,
    method: IoMethod,
    workers: WorkerLimits,
    sizes: AioConfig,
) -> Result<Arc<Aio>, EngineError> {
    let open = |kind| Aio::new(Arc::clone(&namespace), kind, sizes);
    let kind = match method {
        IoMethod::Sync => MethodKind::Sync,
        IoMethod::Worker => MethodKind::Worker(workers),
        IoMethod::IoUring => MethodKind::IoUring,
        IoMethod::PosixAio => MethodKind::PosixAio,
        IoMethod::Auto => match open(MethodKind::IoUring) {
            Err(AioError::IoUring(refusal)) => {
                tracing::warn!("io_method is \"worker\": {refusal}");
                MethodKind::Worker(workers)
            }
            done => return Ok(done?),
        },
    };
    Ok(open(kind)?)
}

/// Opens the I/O layer for a program that opens no engine. Reads are started in their full size, so
/// nothing is merged.
pub(crate) fn standalone(method: IoMethod, max_backends: usize) -> Result<Arc<Aio>, EngineError> {
    let sizes = AioConfig { max_backends, combine_limit: 0, ..AioConfig::default() };
    open_with(Arc::new(PosixNamespace::new()), method, WorkerLimits::default(), sizes)
}

/// Changes settings while the engine runs.
pub(crate) fn change(aio: &Aio, to: &IoSettings) -> Result<(), EngineError> {
    aio.set_track_io_timing(to.track_io_timing);
    Ok(aio.set_worker_limits(to.io_workers)?)
}

/// Refuses io_direct, and reading back of writes, where the file system has no direct I/O. Warns
/// where it only pretends to have it.
pub(crate) fn check_direct(
    aio: &Aio,
    dir: &Path,
    config: &EngineConfig,
) -> Result<(), EngineError> {
    let direct = config.io_direct;
    let wal = direct.wal || direct.wal_init;
    let asked = [
        ("io_direct", direct.data, "base"),
        ("io_direct", wal, "pg_wal"),
        // Direct data files are checked above.
        ("checkpoint_verify_writes", config.verify_writes && !direct.data, "base"),
        ("checkpoint_verify_writes", config.verify_writes, "pg_xact"),
    ];
    for (setting, wanted, sub) in asked {
        if wanted {
            let dir = dir.join(sub);
            let can = aio.namespace().probe_direct(&dir).map_err(|refusal| {
                EngineError::statement("0A000", refusal.to_string())
                    .with_detail(format!("The setting \"{setting}\" asks for it."))
            })?;
            if let Some(note) = can.note {
                tracing::warn!(
                    "{setting} for \"{}\" (file system {}): {note}",
                    dir.display(),
                    can.filesystem
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::IoDirect;

    #[test]
    fn a_refusal_names_the_setting() {
        // There is no such directory to try it in.
        let dir = tempfile::tempdir().expect("a directory").path().join("none");
        let aio = open(&EngineConfig { io_method: IoMethod::Sync, ..EngineConfig::default() })
            .expect("aio");
        let refused = |config| match check_direct(&aio, &dir, &config) {
            Err(EngineError::Refused(refusal)) => {
                let forebay_catalog::Refusal { message, detail, .. } = *refusal;
                assert!(message.starts_with("direct I/O is not possible in"), "{message}");
                detail.expect("a detail")
            }
            other => panic!("{other:?}"),
        };
        let verify = EngineConfig { verify_writes: true, ..EngineConfig::default() };
        assert_eq!(refused(verify), "The setting \"checkpoint_verify_writes\" asks for it.");
        let io_direct = IoDirect { wal: true, ..IoDirect::NONE };
        let wal = EngineConfig { io_direct, ..EngineConfig::default() };
        assert_eq!(refused(wal), "The setting \"io_direct\" asks for it.");
        check_direct(&aio, &dir, &EngineConfig::default()).expect("nothing is asked for");
    }
}
