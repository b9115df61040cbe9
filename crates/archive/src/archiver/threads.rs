//! Threads that loop over an archiver.

use forebay_aio::BackendType;
use forebay_aio::sync::{Arc, thread};

use super::control::Archiver;
use super::state::StopMode;
use crate::error::{ArchiveError, Result};

/// Threads that archive until they are stopped.
#[derive(Debug)]
pub struct Threads {
    archiver: Arc<Archiver>,
    handles: Vec<thread::JoinHandle<Result<()>>>,
}

impl Threads {
    /// Starts `count` threads, at least one. More threads than files in flight would be idle.
    pub fn start(archiver: &Arc<Archiver>, count: usize) -> Result<Threads> {
        let mut threads = Threads { archiver: Arc::clone(archiver), handles: Vec::new() };
        for n in 0..count.max(1) {
            let dir = archiver.status.wal_dir();
            let mut io = archiver
                .aio
                .backend(BackendType::BackgroundWorker)
                .map_err(ArchiveError::io("archive", dir))?;
            let archiver = Arc::clone(archiver);
            let run = move || archiver.run(&mut io);
            let started = thread::Builder::new().name(format!("archiver-{n}")).spawn(run);
            let handle = started
                .map_err(|e| ArchiveError::refused(format!("could not start a thread: {e}")))?;
            threads.handles.push(handle);
        }
        Ok(threads)
    }

    /// Stops the archiver and waits for its end. Returns the error that ended it, if any.
    pub fn stop(mut self, mode: StopMode) -> Result<()> {
        self.archiver.stop(mode);
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let mut ended = Ok(());
        for handle in self.handles.drain(..) {
            match handle.join() {
                Ok(one) => ended = ended.and(one),
                Err(_) => tracing::error!("an archiver thread panicked"),
            }
        }
        ended
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if !self.handles.is_empty() {
            self.archiver.stop(StopMode::Now);
            let _ = self.join();
        }
    }
}
