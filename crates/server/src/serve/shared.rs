//! What every session of a server shares.

use super::registry::Registry;
use crate::hba::Hba;
use crate::settings::ServerSettings;
use forebay_aio::sync::RwLock;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_engine::Engine;
use std::sync::Arc;

/// Where a server is in its life.
#[derive(Clone, Debug)]
pub enum State {
    /// Recovery may be running: nobody is let in.
    Starting,
    /// Sessions run.
    Running(Arc<Engine>),
    /// Nobody is let in any more.
    Stopping(Arc<Engine>),
}

/// What every session of a server shares.
#[derive(Debug)]
pub struct Shared {
    /// The connections.
    pub registry: Arc<Registry>,
    /// What version() tells.
    pub version: String,
    state: RwLock<State>,
    hba: RwLock<Arc<Hba>>,
    settings: RwLock<Arc<ServerSettings>>,
    /// Counts reloads, so that a session looks only when there was one.
    version_of_settings: AtomicU64,
}

impl Shared {
    /// A server that is starting.
    pub fn new(settings: ServerSettings, hba: Hba) -> Shared {
        Shared {
            registry: Arc::default(),
            version: format!(
                "PostgreSQL {} on {}-{}, {}-bit",
                settings.text("server_version"),
                std::env::consts::ARCH,
                std::env::consts::OS,
                usize::BITS
            ),
            state: RwLock::new(State::Starting),
            hba: RwLock::new(Arc::new(hba)),
            settings: RwLock::new(Arc::new(settings)),
            version_of_settings: AtomicU64::new(0),
        }
    }

    /// Where the server is in its life.
    pub fn state(&self) -> State {
        self.state.read().clone()
    }

    /// Moves on.
    pub fn set_state(&self, state: State) {
        *self.state.write() = state;
    }

    /// Who may connect.
    pub fn hba(&self) -> Arc<Hba> {
        Arc::clone(&self.hba.read())
    }

    /// Lets others connect from now on.
    pub fn set_hba(&self, hba: Hba) {
        *self.hba.write() = Arc::new(hba);
    }

    /// The server's settings.
    pub fn settings(&self) -> Arc<ServerSettings> {
        Arc::clone(&self.settings.read())
    }

    /// Grows when they change.
    pub fn settings_version(&self) -> u64 {
        self.version_of_settings.load(Ordering::Acquire)
    }

    /// Puts others in their place.
    pub fn set_settings(&self, settings: ServerSettings) {
        *self.settings.write() = Arc::new(settings);
        self.version_of_settings.fetch_add(1, Ordering::Release);
    }
}
