//! A cluster at rest, for programs that read its files without opening it.

use std::path::Path;

use forebay_aio::{BackendType, File};
use forebay_format::control::{self, DbState};
use forebay_format::{BLOCK_SIZE, RELSEG_BLOCKS};

use crate::checksums::read_outline;
use crate::config::IoMethod;
use crate::error::EngineError;
use crate::io;
use crate::lockfile;

/// A cluster that was shut down, locked until this is dropped. Forebay heeds the lock, PostgreSQL
/// does not.
#[derive(Debug)]
pub struct ClusterAtRest {
    has_checksums: bool,
    _lock: File,
}

impl ClusterAtRest {
    /// Locks the data directory `dir`. Refuses a cluster that was not shut down, and one with
    /// blocks or segments of another size.
    pub fn lock(dir: &Path) -> Result<ClusterAtRest, EngineError> {
        let refuse = |reason: &str| {
            let message = format!("\"{}\" {reason}", dir.display());
            Err(EngineError::statement("22023", message))
        };
        let mut io = io::standalone(IoMethod::Sync, 1)?.backend(BackendType::Standalone)?;
        let outline = read_outline(&mut io, &dir.join(control::PATH))?;
        if outline.block_size as usize != BLOCK_SIZE || outline.segment_blocks != RELSEG_BLOCKS {
            return refuse("has blocks or segments of another size");
        }
        if !matches!(outline.state, DbState::ShutDown | DbState::ShutDownInRecovery) {
            return refuse("belongs to a cluster that was not shut down");
        }
        let lock = lockfile::hold_still(&mut io, dir)?;
        Ok(ClusterAtRest { has_checksums: outline.checksum_version == 1, _lock: lock })
    }

    /// Whether its pages have checksums.
    pub fn has_checksums(&self) -> bool {
        self.has_checksums
    }
}
