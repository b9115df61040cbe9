//! Making, opening and stopping a data directory.

use std::path::Path;
use std::sync::Arc;

use crate::config::{EngineConfig, InitOptions};
use crate::error::EngineError;
use crate::session::Session;
use crate::views::{AioRow, IoStatRow};

/// How an engine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Sessions are cancelled and their transactions aborted; a shutdown checkpoint is written.
    Fast,
    /// Nothing more is written: the next open recovers.
    Immediate,
}

/// An open data directory.
#[derive(Debug)]
pub struct Engine {}

impl Engine {
    /// Makes a new data directory, as initdb does.
    pub fn init(_dir: &Path, _options: &InitOptions) -> Result<(), EngineError> {
        todo!()
    }

    /// Opens a data directory, recovering it if it was not shut down cleanly.
    pub fn open(_dir: &Path, _config: EngineConfig) -> Result<Arc<Engine>, EngineError> {
        todo!()
    }

    /// Starts a client session.
    pub fn session(self: &Arc<Self>) -> Result<Session, EngineError> {
        todo!()
    }

    /// Stops the engine. Later calls on its sessions fail with 57P01.
    pub fn shutdown(&self, _mode: ShutdownMode) -> Result<(), EngineError> {
        todo!()
    }

    /// The settings it runs with.
    pub fn config(&self) -> &EngineConfig {
        todo!()
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        todo!()
    }

    /// Rows of pg_stat_io.
    pub fn io_stats(&self) -> Vec<IoStatRow> {
        todo!()
    }

    /// Rows of pg_aios: the I/O handles in use.
    pub fn aios(&self) -> Vec<AioRow> {
        todo!()
    }

    /// Sets pg_stat_io's counters to zero.
    pub fn reset_io_stats(&self) {
        todo!()
    }
}
