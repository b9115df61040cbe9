//! `wal_sync_method = auto`: measures at the first start, and keeps the choice.
//!
//! The choice is a small text file in `pg_wal`. It is valid for the log's disk, so base backups do
//! not copy it. PostgreSQL ignores it.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::Aio;
use forebay_storage::Backend;
use forebay_wal::SyncMethod;
use forebay_wal::probe::{Choice, Conditions, probe};

use crate::config::WalSyncMethod;
use crate::error::EngineError;

/// The file in `pg_wal`.
const FILE: &str = "forebay.sync_method";
/// Its name until it is complete. After a crash it is removed like other temporary files of the
/// log.
const TEMPORARY: &str = "xlogtemp.sync_method";

/// The method by which WAL is made durable. `direct`: it bypasses the kernel's page cache.
pub(crate) fn method(
    aio: &Arc<Aio>,
    backend: &mut Backend,
    dir: &Path,
    setting: WalSyncMethod,
    direct: bool,
) -> Result<SyncMethod, EngineError> {
    match setting {
        WalSyncMethod::Fdatasync => Ok(SyncMethod::Fdatasync),
        WalSyncMethod::Fsync => Ok(SyncMethod::Fsync),
        WalSyncMethod::OpenDatasync => Ok(SyncMethod::OpenDatasync),
        WalSyncMethod::OpenSync => Ok(SyncMethod::OpenSync),
        WalSyncMethod::Auto => automatic(aio, backend, &dir.join("pg_wal"), direct),
    }
}

/// The method chosen earlier, or now. If nothing can be measured it is the default, and the next
/// start tries again.
fn automatic(
    aio: &Arc<Aio>,
    backend: &mut Backend,
    wal: &Path,
    direct: bool,
) -> Result<SyncMethod, EngineError> {
    let now = Conditions { direct, io_method: aio.method_name().to_owned() };
    if let Some(choice) = recorded(backend, wal)
        && choice.conditions == now
    {
        tracing::info!(
            "wal_sync_method is {}, as chosen at an earlier start",
            choice.method.name()
        );
        return Ok(choice.method);
    }
    let choice = match probe(aio, &mut backend.io, wal, direct) {
        Ok(choice) => choice,
        Err(error) => {
            let method = SyncMethod::Fdatasync;
            tracing::warn!(
                "wal_sync_method is {}: nothing could be measured: {error}",
                method.name()
            );
            return Ok(method);
        }
    };
    tracing::info!("wal_sync_method: {}", choice.reason());
    match record(backend, wal, &choice) {
        // The name need not be durable: the next start can measure again.
        Err(error) if error.is_fatal() => return Err(error),
        Err(error) => tracing::warn!("could not record the choice of wal_sync_method: {error}"),
        Ok(()) => {}
    }
    Ok(choice.method)
}

fn recorded(backend: &mut Backend, wal: &Path) -> Option<Choice> {
    let path = wal.join(FILE);
    match backend.io.read_file_if_there(&path) {
        Ok(bytes) => {
            let choice = Choice::from_text(std::str::from_utf8(&bytes?).ok()?);
            if choice.is_none() {
                tracing::warn!(
                    "file \"{}\" is not understood: it will be replaced",
                    path.display()
                );
            }
            choice
        }
        Err(error) => {
            tracing::warn!("{error}");
            None
        }
    }
}

/// Writes the choice. The file is complete or does not exist.
fn record(backend: &mut Backend, wal: &Path, choice: &Choice) -> Result<(), EngineError> {
    let (temporary, path) = (wal.join(TEMPORARY), wal.join(FILE));
    backend.io.write_file(&temporary, choice.to_text().as_bytes())?;
    let namespace = backend.io.aio().namespace();
    namespace.rename(&temporary, &path)?;
    Ok(namespace.sync_dir(wal)?)
}
