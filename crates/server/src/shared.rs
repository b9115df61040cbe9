//! What every session of a server shares.

use crate::hba::Hba;
use crate::registry::Registry;
use crate::settings::{Lookup, ServerSettings, key};
use forebay_aio::sync::RwLock;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_engine::Engine;
use std::sync::Arc;

/// The phases of a server's life.
#[derive(Clone, Debug)]
pub enum Phase {
    /// The engine is being opened, perhaps with a recovery. No session may begin.
    Starting,
    /// Sessions run.
    Running(Arc<Engine>),
    /// The engine is being closed. No session may begin.
    Stopping(Arc<Engine>),
}

/// What every session of a server shares.
#[derive(Debug)]
pub struct Shared {
    /// The connections.
    pub registry: Arc<Registry>,
    /// The result of version().
    pub version: String,
    phase: RwLock<Phase>,
    hba: RwLock<Arc<Hba>>,
    settings: RwLock<Arc<ServerSettings>>,
    /// Counts reloads, so that a session reads the settings only after one.
    version_of_settings: AtomicU64,
}

impl Shared {
    /// A server that is starting.
    pub fn new(settings: ServerSettings, hba: Hba) -> Shared {
        Shared {
            registry: Arc::default(),
            version: format!(
                "PostgreSQL {} on {}-{}, {}-bit",
                settings.text(key!("server_version")),
                std::env::consts::ARCH,
                std::env::consts::OS,
                usize::BITS
            ),
            phase: RwLock::new(Phase::Starting),
            hba: RwLock::new(Arc::new(hba)),
            settings: RwLock::new(Arc::new(settings)),
            version_of_settings: AtomicU64::new(0),
        }
    }

    /// The server's phase.
    pub fn phase(&self) -> Phase {
        self.phase.read().clone()
    }

    /// Enters a phase.
    pub fn set_phase(&self, phase: Phase) {
        *self.phase.write() = phase;
    }

    /// Who may connect.
    pub fn hba(&self) -> Arc<Hba> {
        Arc::clone(&self.hba.read())
    }

    /// Replaces them.
    pub fn set_hba(&self, hba: Hba) {
        *self.hba.write() = Arc::new(hba);
    }

    /// The server's settings.
    pub fn settings(&self) -> Arc<ServerSettings> {
        Arc::clone(&self.settings.read())
    }

    /// A number that grows when they change.
    pub fn settings_version(&self) -> u64 {
        self.version_of_settings.load(Ordering::Acquire)
    }

    /// Replaces them.
    pub fn set_settings(&self, settings: ServerSettings) {
        *self.settings.write() = Arc::new(settings);
        self.version_of_settings.fetch_add(1, Ordering::Release);
    }
}
