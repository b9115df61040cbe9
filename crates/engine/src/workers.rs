//! How many worker threads of statements there may be.

use forebay_aio::sync::atomic::{AtomicUsize, Ordering};

use crate::config::{Background, EngineConfig};

/// The worker threads of an engine's statements.
#[derive(Debug)]
pub(crate) struct Workers {
    most: usize,
    running: AtomicUsize,
}

impl EngineConfig {
    /// Most worker threads of statements. An engine without threads has none.
    pub(crate) fn statement_workers(&self) -> usize {
        match self.background {
            Background::Threads => self.max_worker_processes,
            Background::Stepped => 0,
        }
    }
}

impl Workers {
    /// Room for as many as the configuration says.
    pub(crate) fn new(config: &EngineConfig) -> Workers {
        Workers { most: config.statement_workers(), running: AtomicUsize::new(0) }
    }

    /// Counts one more, unless there are `limit` already, or as many as there may be. False: it
    /// must not be started.
    pub(crate) fn enter(&self, limit: usize) -> bool {
        let most = self.most.min(limit);
        let more = |running| (running < most).then_some(running + 1);
        self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// One has ended.
    pub(crate) fn leave(&self) {
        let before = self.running.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a worker that was counted has ended");
    }

    /// How many there are.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_bounded_by_the_engine_and_by_the_session() {
        let workers =
            Workers::new(&EngineConfig { max_worker_processes: 2, ..EngineConfig::default() });
        assert!(!workers.enter(0));
        assert!(workers.enter(1) && !workers.enter(1));
        assert!(workers.enter(9) && !workers.enter(9));
        workers.leave();
        assert_eq!(workers.running(), 1);
        assert!(workers.enter(2));
        let stepped = EngineConfig { background: Background::Stepped, ..EngineConfig::default() };
        assert!(!Workers::new(&stepped).enter(9));
    }
}
