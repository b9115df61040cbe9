//! An archive as the source of a recovery: files are brought one after the other, as they are asked
//! for, while threads fetch the next ones. What restore_command and archiverd do together, in the
//! process that recovers.

use std::collections::VecDeque;
use std::path::Path;

use forebay_aio::sync::{Arc, Condvar, Mutex, thread};
use forebay_aio::{Aio, Backend, BackendType};

use crate::ahead::Ahead;
use crate::error::Result;
use crate::names::WalName;
use crate::store::Repository;

/// How much is fetched ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestorerOptions {
    /// Threads that fetch; 0: nothing is fetched ahead.
    pub threads: usize,
    /// Most segments fetched ahead.
    pub files: usize,
    /// Most bytes of them in memory.
    pub bytes: u64,
}

/// Brings files of the log out of an archive. Dropped, it ends its threads.
pub struct Restorer {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    aio: Arc<Aio>,
    ahead: Ahead,
    tasks: Mutex<Tasks>,
    bell: Condvar,
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
    /// Begins. Where a thread or its I/O can't be had, the others do without.
    pub fn start(aio: &Arc<Aio>, repository: Repository, options: RestorerOptions) -> Restorer {
        let files = if options.threads == 0 { 0 } else { options.files };
        let ahead = Ahead::new(Arc::new(repository), files, options.bytes);
        let shared =
            Shared { aio: Arc::clone(aio), ahead, tasks: Mutex::default(), bell: Condvar::new() };
        let mut restorer = Restorer { shared: Arc::new(shared), threads: Vec::new() };
        for n in 0..options.threads.min(files) {
            let mut be = match aio.backend(BackendType::BackgroundWorker) {
                Ok(be) => be,
                Err(error) => {
                    tracing::warn!("{n} threads fetch ahead, not {}: {error}", options.threads);
                    break;
                }
            };
            let shared = Arc::clone(&restorer.shared);
            let name = format!("restorer-{n}");
            match thread::Builder::new().name(name).spawn(move || shared.run(&mut be)) {
                Ok(handle) => restorer.threads.push(handle),
                Err(error) => tracing::warn!("could not start a thread to fetch ahead: {error}"),
            }
        }
        restorer
    }

    /// Puts a file under `path`, whole and checked. False: the archive is there and does not have
    /// it.
    pub fn get(&self, be: &mut Backend, name: &WalName, path: &Path) -> Result<bool> {
        let Shared { aio, ahead, tasks, bell } = &*self.shared;
        let found = ahead.get(aio, be, name, path)?;
        if found && !self.threads.is_empty() {
            let wanted = ahead.restored(aio, name, path);
            tasks.lock().next.extend(wanted);
            bell.notify_all();
        }
        Ok(found)
    }

    /// Ends what is being fetched ahead; what is asked for is still brought.
    pub fn stop(&self) {
        self.shared.ahead.stop();
        self.shared.tasks.lock().stopped = true;
        self.shared.bell.notify_all();
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
    /// Fetches one file after another until the end.
    fn run(&self, be: &mut Backend) {
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
                    self.bell.wait(&mut tasks);
                }
            };
            self.ahead.fetch(be, &name);
        }
    }
}
