//! An archive as the source of a recovery. It restores one file after another as they are
//! requested, while its threads fetch the next ones. It does what archive-get and archiverd do
//! together, in the process that recovers.

use std::collections::VecDeque;
use std::path::Path;

use forebay_aio::sync::{Arc, Condvar, Mutex, thread};
use forebay_aio::{Aio, BackendType, IoBackend};

use crate::error::Result;
use crate::names::WalName;
use crate::prefetch::Prefetcher;
use crate::store::Repository;

/// How much is fetched ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestorerOptions {
    /// Threads that fetch; 0: nothing is fetched ahead.
    pub threads: usize,
    /// Limit of the number of segments fetched ahead.
    pub files: usize,
    /// Limit of their bytes in memory.
    pub bytes: u64,
}

/// Restores files of the log from an archive. Dropping it ends its threads.
pub struct Restorer {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    aio: Arc<Aio>,
    prefetcher: Prefetcher,
    tasks: Mutex<Tasks>,
    /// A task was added, or a stop was requested.
    tasks_changed: Condvar,
}

#[derive(Default)]
struct Tasks {
    next: VecDeque<WalName>,
    stopped: bool,
}

impl std::fmt::Debug for Restorer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restorer").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Restorer {
    /// Starts the threads. If one can't be started, the others work without it.
    pub fn start(aio: &Arc<Aio>, repository: Repository, options: RestorerOptions) -> Restorer {
        let files = if options.threads == 0 { 0 } else { options.files };
        let shared = Shared {
            aio: Arc::clone(aio),
            prefetcher: Prefetcher::new(Arc::new(repository), files, options.bytes),
            tasks: Mutex::default(),
            tasks_changed: Condvar::new(),
        };
        let mut restorer = Restorer { shared: Arc::new(shared), threads: Vec::new() };
        for n in 0..options.threads.min(files) {
            let mut io = match aio.backend(BackendType::BackgroundWorker) {
                Ok(io) => io,
                Err(error) => {
                    tracing::warn!("{n} threads fetch ahead, not {}: {error}", options.threads);
                    break;
                }
            };
            let shared = Arc::clone(&restorer.shared);
            let name = format!("restorer-{n}");
            match thread::Builder::new().name(name).spawn(move || shared.run(&mut io)) {
                Ok(handle) => restorer.threads.push(handle),
                Err(error) => tracing::warn!("could not start a thread to fetch ahead: {error}"),
            }
        }
        restorer
    }

    /// Restores the file `name` as `path`, whole and checked. False: the archive exists and does
    /// not have the file.
    pub fn get(&self, io: &mut IoBackend, name: &WalName, path: &Path) -> Result<bool> {
        let Shared { aio, prefetcher, tasks, tasks_changed } = &*self.shared;
        let found = prefetcher.get(aio, io, name, path)?;
        if found && !self.threads.is_empty() {
            let next = prefetcher.restored(aio, name, path);
            tasks.lock().next.extend(next);
            tasks_changed.notify_all();
        }
        Ok(found)
    }

    /// Ends prefetching; requested files are still restored.
    pub fn stop(&self) {
        self.shared.prefetcher.stop();
        self.shared.tasks.lock().stopped = true;
        self.shared.tasks_changed.notify_all();
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        self.stop();
        for handle in self.threads.drain(..) {
            if handle.join().is_err() {
                tracing::error!("a thread that fetched ahead panicked");
            }
        }
    }
}

impl Shared {
    /// Fetches one file after another until a stop.
    fn run(&self, io: &mut IoBackend) {
        loop {
            let name = {
                let mut tasks = self.tasks.lock();
                loop {
                    if tasks.stopped {
                        return;
                    }
                    if let Some(name) = tasks.next.pop_front() {
                        break name;
                    }
                    self.tasks_changed.wait(&mut tasks);
                }
            };
            self.prefetcher.fetch(io, &name);
        }
    }
}
