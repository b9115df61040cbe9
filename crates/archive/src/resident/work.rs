//! The work of archiverd: it stores and fetches files, on request or ahead of the requests.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Arc, Condvar, Mutex, SystemTime};
use forebay_aio::{Aio, IoBackend};

use super::stored::{FileVersion, StoredFiles};
use super::wire::Reply;
use crate::error::{ArchiveError, Result};
use crate::module::Archived;
use crate::names::{Mark, WalName};
use crate::prefetch::Prefetcher;
use crate::push;
use crate::source::SourceOptions;
use crate::status;
use crate::store::Repository;

/// How many files are queued at a time to be stored ahead.
const MOST_QUEUED: usize = 10_000;

/// Something to do before it is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Task {
    Push(PathBuf),
    Fetch(WalName),
}

#[derive(Default)]
struct WorkState {
    stored: StoredFiles,
    /// Files that a thread is storing.
    busy: HashSet<PathBuf>,
    tasks: VecDeque<Task>,
}

/// The work of one archiverd.
pub(super) struct Work {
    aio: Arc<Aio>,
    repository: Arc<Repository>,
    options: SourceOptions,
    prefetcher: Prefetcher,
    /// Store files before they are requested.
    pushes_ahead: bool,
    state: Mutex<WorkState>,
    /// A task was added, or a stop was requested.
    tasks_changed: Condvar,
    /// A thread has stored a file or failed to, or a stop was requested.
    push_ended: Condvar,
    stop: Arc<AtomicBool>,
}

impl Work {
    pub fn new(
        aio: Arc<Aio>,
        repository: Repository,
        options: SourceOptions,
        (budget, files_ahead, pushes_ahead): (u64, usize, bool),
    ) -> Work {
        let stop = Arc::new(AtomicBool::new(false));
        let options = SourceOptions { stop: Some(Arc::clone(&stop)), ..options };
        let repository = Arc::new(repository);
        let prefetcher = Prefetcher::new(Arc::clone(&repository), files_ahead, budget);
        Work {
            aio,
            repository,
            options,
            prefetcher,
            pushes_ahead,
            state: Mutex::default(),
            tasks_changed: Condvar::new(),
            push_ended: Condvar::new(),
            stop,
        }
    }

    /// Begins nothing new, and interrupts the transfers in flight.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.prefetcher.stop();
        let _state = self.state.lock();
        self.tasks_changed.notify_all();
        self.push_ended.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Does one task after another until a stop.
    pub fn run_tasks(&self, io: &mut IoBackend) {
        loop {
            let task = {
                let mut state = self.state.lock();
                loop {
                    if self.is_stopping() {
                        return;
                    }
                    if let Some(task) = state.tasks.pop_front() {
                        break task;
                    }
                    self.tasks_changed.wait(&mut state);
                }
            };
            match task {
                Task::Push(path) => {
                    // If it fails again when the server requests it, the server gets the error.
                    if let Err(error) = self.push(io, &path) {
                        tracing::debug!("could not store \"{}\" ahead: {error}", path.display());
                    }
                }
                Task::Fetch(name) => self.prefetcher.fetch(io, &name),
            }
        }
    }

    /// Answers archive-push. None: archiverd is stopping, so archive-push must do the work itself.
    pub fn answer_push(&self, io: &mut IoBackend, path: &Path) -> Option<Reply> {
        match self.push(io, path) {
            Ok(Archived::Stored) => Some(Reply::Done),
            Ok(Archived::Identical) => Some(Reply::Identical),
            Err(error) if error.is_stop() => None,
            Err(error) => Some(Reply::Failed(error.to_string())),
        }
    }

    /// Stores a file, unless it is known to be stored. Waits if another thread is storing it.
    fn push(&self, io: &mut IoBackend, path: &Path) -> Result<Archived> {
        let (version, begun) = loop {
            let begun = SystemTime::now();
            let stat =
                self.aio.namespace().stat(path).map_err(ArchiveError::io("archive", path))?;
            let version = stat.as_ref().and_then(FileVersion::of);
            let mut state = self.state.lock();
            if self.is_stopping() {
                return Err(ArchiveError::stopped(path));
            }
            if version.is_some_and(|version| state.stored.contains(path, version)) {
                return Ok(Archived::Identical);
            }
            if state.busy.insert(path.to_path_buf()) {
                break (version, begun);
            }
            self.push_ended.wait(&mut state);
        };
        let pushed = push::push(&self.aio, io, &self.repository, path, &self.options);
        let mut state = self.state.lock();
        state.busy.remove(path);
        if let (Ok(_), Some(version)) = (&pushed, version) {
            state.stored.insert(path, version, begun);
        }
        self.push_ended.notify_all();
        pushed
    }

    /// Whether a file, as it is now, is known to be stored.
    pub fn is_stored(&self, path: &Path) -> bool {
        // If it can't be examined, a push reports the reason.
        let stat = self.aio.namespace().stat(path).ok().flatten();
        let version = stat.as_ref().and_then(FileVersion::of);
        version.is_some_and(|version| self.state.lock().stored.contains(path, version))
    }

    /// Queues the files that the server will request, once the queue is empty.
    pub fn look_ahead(&self, path: &Path) {
        if !self.pushes_ahead || !self.state.lock().tasks.is_empty() {
            return;
        }
        let dir = path.parent().unwrap_or(Path::new(""));
        let entries = match self.aio.namespace().list(&dir.join(status::DIR)) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::debug!("could not look ahead: {error}");
                return;
            }
        };
        let ready = |name: &str| match Mark::parse(name) {
            Mark::Ready(name) => Some(name),
            _ => None,
        };
        let mut names: Vec<WalName> =
            entries.iter().filter_map(|entry| entry.name.to_str().and_then(ready)).collect();
        names.sort();
        let mut state = self.state.lock();
        let tasks = names.iter().map(|name| dir.join(name.as_str())).filter(|found| found != path);
        state.tasks.extend(tasks.take(MOST_QUEUED).map(Task::Push));
        self.tasks_changed.notify_all();
    }

    /// Answers archive-get.
    pub fn answer_get(&self, io: &mut IoBackend, name: &str, path: &Path) -> Reply {
        let Some(name) = WalName::parse(name) else {
            return Reply::Failed(ArchiveError::Name { name: name.to_owned() }.to_string());
        };
        match self.prefetcher.get(&self.aio, io, &name, path) {
            Ok(true) => {
                let next = self.prefetcher.restored(&self.aio, &name, path);
                self.state.lock().tasks.extend(next.into_iter().map(Task::Fetch));
                self.tasks_changed.notify_all();
                Reply::Done
            }
            Ok(false) => Reply::Absent,
            Err(error) => Reply::Failed(error.to_string()),
        }
    }
}
