//! [`Aio`]: a namespace, a method, the table of handles and the statistics, together.

use crate::backend::Backend;
use crate::error::AioError;
use crate::handle::HandleInfo;
use crate::namespace::Namespace;
use crate::stats::{BackendType, IoStats};
use crate::sync::Arc;

/// Who executes I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// The issuer, at once.
    Sync,
    /// Worker threads.
    Worker {
        /// How many (1 to 32).
        workers: usize,
    },
    /// The kernel: one ring per backend.
    IoUring,
}

impl MethodKind {
    /// The value of io_method.
    pub fn name(self) -> &'static str {
        match self {
            MethodKind::Sync => "sync",
            MethodKind::Worker { .. } => "worker",
            MethodKind::IoUring => "io_uring",
        }
    }
}

/// Sizes and switches.
#[derive(Clone, Copy, Debug)]
pub struct AioConfig {
    /// Most backends at one time.
    pub max_backends: usize,
    /// Most I/Os in flight per backend (1 to 1024).
    pub handles_per_backend: usize,
    /// Measure how long I/O takes.
    pub track_io_timing: bool,
}

impl Default for AioConfig {
    fn default() -> AioConfig {
        AioConfig { max_backends: 128, handles_per_backend: 64, track_io_timing: false }
    }
}

/// The one door to the disk.
pub struct Aio {
    namespace: Arc<dyn Namespace>,
    stats: IoStats,
}

impl Aio {
    /// Opens the door. For io_uring the refusal names the true cause.
    pub fn new(
        namespace: Arc<dyn Namespace>,
        method: MethodKind,
        config: AioConfig,
    ) -> Result<Arc<Aio>, AioError> {
        let _ = (method, config);
        Ok(Arc::new(Aio { namespace, stats: IoStats::default() }))
    }

    /// A backend: the right to start I/O. Its id is chosen.
    pub fn backend(self: &Arc<Aio>, who: BackendType) -> Result<Backend, AioError> {
        self.backend_with_id(who, 0)
    }

    /// A backend under an id of the caller's, shown by pg_aios as pid.
    pub fn backend_with_id(self: &Arc<Aio>, who: BackendType, id: i32) -> Result<Backend, AioError> {
        let _ = (who, id);
        todo!()
    }

    /// Names.
    pub fn namespace(&self) -> &Arc<dyn Namespace> {
        &self.namespace
    }

    /// The value of io_method.
    pub fn method_name(&self) -> &'static str {
        todo!()
    }

    /// pg_aios: every handle that is not idle.
    pub fn snapshot(&self) -> Vec<HandleInfo> {
        todo!()
    }

    /// pg_stat_io.
    pub fn stats(&self) -> &IoStats {
        &self.stats
    }

    /// Most I/Os in flight per backend.
    pub fn handles_per_backend(&self) -> usize {
        todo!()
    }

    /// Switches timing.
    pub fn set_track_io_timing(&self, on: bool) {
        let _ = on;
        todo!()
    }

    /// Changes the number of workers (1 to 32). Without effect under other methods.
    pub fn set_workers(&self, workers: usize) -> Result<(), AioError> {
        let _ = workers;
        todo!()
    }

    /// Has this I/O finished? Any thread may ask; never blocks.
    pub fn is_done(&self, r: crate::handle::WaitRef) -> bool {
        let _ = r;
        todo!()
    }

    /// Waits for anyone's I/O from a thread that has no [`Backend`] (or has nothing staged).
    pub fn wait_done(&self, r: crate::handle::WaitRef) {
        let _ = r;
        todo!()
    }
}
