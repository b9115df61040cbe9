//! What archiverd does and knows: files that were stored, that are being stored, that will be asked
//! for.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Arc, Condvar, Mutex, SystemTime};
use forebay_aio::{Aio, Backend};

use super::memory::{Memory, Shape};
use super::wire::Reply;
use crate::ahead::Ahead;
use crate::error::{ArchiveError, Result};
use crate::module::Archived;
use crate::names::{Mark, WalName};
use crate::push;
use crate::source::SourceOptions;
use crate::store::Repository;

/// Most files looked ahead for at a time.
const MOST_WANTED: usize = 10_000;

/// Something to be done before it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Task {
    Push(PathBuf),
    Fetch(WalName),
}

#[derive(Default)]
struct State {
    memory: Memory,
    /// Being stored.
    busy: HashSet<PathBuf>,
    tasks: VecDeque<Task>,
}

/// The work of one archiverd.
pub(super) struct Work {
    aio: Arc<Aio>,
    repository: Arc<Repository>,
    options: SourceOptions,
    ahead: Ahead,
    /// Files are stored ahead.
    pushes_ahead: bool,
    state: Mutex<State>,
    /// There is a task, or the end has come.
    bell: Condvar,
    /// Something that was under way has ended.
    ended: Condvar,
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
        let ahead = Ahead::new(Arc::clone(&repository), files_ahead, budget);
        Work {
            aio,
            repository,
            options,
            ahead,
            pushes_ahead,
            state: Mutex::default(),
            bell: Condvar::new(),
            ended: Condvar::new(),
            stop,
        }
    }

    /// Nothing new is begun, and what is under way ends soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.ahead.stop();
        let _state = self.state.lock();
        self.bell.notify_all();
        self.ended.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Does one task after another until the end.
    pub fn run_tasks(&self, be: &mut Backend) {
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
                    self.bell.wait(&mut state);
                }
            };
            match task {
                Task::Push(path) => {
                    // The server will ask for it, and be told then.
                    if let Err(error) = self.push(be, &path) {
                        tracing::debug!("could not store \"{}\" ahead: {error}", path.display());
                    }
                }
                Task::Fetch(name) => self.ahead.fetch(be, &name),
            }
        }
    }

    /// Answers archive-push. None: the end has come, and who asked is to do it.
    pub fn answer_push(&self, be: &mut Backend, path: &Path) -> Option<Reply> {
        match self.push(be, path) {
            Ok(Archived::Stored) => Some(Reply::Done),
            Ok(Archived::Identical) => Some(Reply::Identical),
            Err(error) if error.is_stop() => None,
            Err(error) => Some(Reply::Failed(error.to_string())),
        }
    }

    /// Stores a file, unless it is known to be stored; waits where another thread is at it.
    fn push(&self, be: &mut Backend, path: &Path) -> Result<Archived> {
        let (shape, begun) = loop {
            let begun = SystemTime::now();
            let stat =
                self.aio.namespace().stat(path).map_err(ArchiveError::io("archive", path))?;
            let shape = stat.as_ref().and_then(Shape::of);
            let mut state = self.state.lock();
            if self.is_stopping() {
                return Err(ArchiveError::Stopped { file: path.to_path_buf() });
            }
            if shape.is_some_and(|shape| state.memory.knows(path, shape)) {
                return Ok(Archived::Identical);
            }
            if state.busy.insert(path.to_path_buf()) {
                break (shape, begun);
            }
            self.ended.wait(&mut state);
        };
        let pushed = push::push(&self.aio, be, &self.repository, path, &self.options);
        let mut state = self.state.lock();
        state.busy.remove(path);
        if let (Ok(_), Some(shape)) = (&pushed, shape) {
            state.memory.remember(path, shape, begun);
        }
        self.ended.notify_all();
        pushed
    }

    /// Whether a file is known to be stored, as it is now.
    pub fn knows(&self, path: &Path) -> bool {
        let shape = self.aio.namespace().stat(path).ok().flatten().as_ref().and_then(Shape::of);
        shape.is_some_and(|shape| self.state.lock().memory.knows(path, shape))
    }

    /// Looks which files the server will ask for, once those found the last time are through.
    pub fn look_ahead(&self, path: &Path) {
        if !self.pushes_ahead || !self.state.lock().tasks.is_empty() {
            return;
        }
        let dir = path.parent().unwrap_or(Path::new(""));
        let entries = match self.aio.namespace().list(&dir.join("archive_status")) {
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
        state.tasks.extend(tasks.take(MOST_WANTED).map(Task::Push));
        self.bell.notify_all();
    }

    /// Answers archive-get.
    pub fn answer_get(&self, be: &mut Backend, name: &str, path: &Path) -> Reply {
        let Some(name) = WalName::parse(name) else {
            return Reply::Failed(ArchiveError::Name { name: name.to_owned() }.to_string());
        };
        match self.ahead.get(&self.aio, be, &name, path) {
            Ok(true) => {
                let wanted = self.ahead.restored(&self.aio, &name, path);
                self.state.lock().tasks.extend(wanted.into_iter().map(Task::Fetch));
                self.bell.notify_all();
                Reply::Done
            }
            Ok(false) => Reply::Absent,
            Err(error) => Reply::Failed(error.to_string()),
        }
    }
}
