//! What archiverd does and knows: files that were stored, that are being stored, that will be asked for.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Arc, Condvar, Mutex, SystemTime};
use forebay_aio::{Aio, Backend};
use forebay_format::SegmentSize;

use super::memory::{Memory, Shape};
use super::wire::Reply;
use crate::error::{ArchiveError, Result};
use crate::module::Archived;
use crate::names::{Kind, Mark, WalName};
use crate::source::{SourceOptions, check_stored};
use crate::store::Repository;
use crate::{get, push};

/// Most files looked ahead for at a time.
const MOST_WANTED: usize = 10_000;

/// Something to be done before it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Task {
    Push(PathBuf),
    Fetch(WalName),
}

/// A file that will be asked for.
#[derive(Debug, Clone)]
enum Fetched {
    /// Nobody has begun.
    Wanted,
    UnderWay,
    Here(Arc<Vec<u8>>),
}

#[derive(Default)]
struct State {
    memory: Memory,
    /// Being stored.
    busy: HashSet<PathBuf>,
    tasks: VecDeque<Task>,
    fetched: HashMap<WalName, Fetched>,
}

/// The work of one archiverd.
pub(super) struct Work {
    aio: Arc<Aio>,
    repository: Repository,
    options: SourceOptions,
    /// Most bytes kept of files fetched ahead, and most files.
    budget: u64,
    files_ahead: usize,
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
        Work {
            aio,
            repository,
            options,
            budget,
            files_ahead,
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
                Task::Fetch(name) => self.fetch(be, &name),
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
            let stat = self.aio.namespace().stat(path).map_err(ArchiveError::io("archive", path))?;
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
        match self.get(be, &name, path) {
            Ok(true) => {
                self.fetch_ahead(&name, path);
                Reply::Done
            }
            Ok(false) => Reply::Absent,
            Err(error) => Reply::Failed(error.to_string()),
        }
    }

    fn get(&self, be: &mut Backend, name: &WalName, path: &Path) -> Result<bool> {
        let Some(bytes) = self.take_fetched(name) else {
            return get::get(&self.aio, be, &self.repository, name, path);
        };
        let system = push::system_of(&self.aio, be, path)?;
        get::check(&self.repository, name, &bytes, bytes.len() as u64, system)?;
        get::put_bytes(&self.aio, be, path, &bytes)?;
        Ok(true)
    }

    /// What was fetched ahead of this file; waits where it is under way.
    fn take_fetched(&self, name: &WalName) -> Option<Arc<Vec<u8>>> {
        let mut state = self.state.lock();
        loop {
            match state.fetched.get(name)? {
                Fetched::UnderWay if !self.is_stopping() => self.ended.wait(&mut state),
                _ => break,
            }
        }
        match state.fetched.remove(name)? {
            Fetched::Here(bytes) => Some(bytes),
            Fetched::Wanted | Fetched::UnderWay => None,
        }
    }

    /// A segment was restored: the next ones will be asked for.
    fn fetch_ahead(&self, name: &WalName, path: &Path) {
        if name.kind() != Kind::Segment || self.files_ahead == 0 {
            return;
        }
        let Ok(Some(stat)) = self.aio.namespace().stat(path) else { return };
        let Some(size) = u32::try_from(stat.len).ok().and_then(SegmentSize::new) else { return };
        let Some(number) = name.number(size) else { return };
        let affordable = usize::try_from(self.budget / size.bytes()).unwrap_or(usize::MAX);
        let count = self.files_ahead.min(affordable).max(1) as u64;
        let next: Vec<WalName> = (number + 1..=number + count)
            .filter_map(|number| WalName::parse(&size.file_name(name.timeline(), number)))
            .collect();
        let mut state = self.state.lock();
        // Who recovers goes forward; what is behind will not be asked for again.
        state.fetched.retain(|name, fetched| matches!(fetched, Fetched::UnderWay) || next.contains(name));
        for name in next {
            if !state.fetched.contains_key(&name) {
                state.fetched.insert(name.clone(), Fetched::Wanted);
                state.tasks.push_back(Task::Fetch(name));
            }
        }
        self.bell.notify_all();
    }

    fn fetch(&self, be: &mut Backend, name: &WalName) {
        match self.state.lock().fetched.get_mut(name) {
            Some(wanted @ Fetched::Wanted) => *wanted = Fetched::UnderWay,
            // Not wanted any more, or somebody is at it.
            _ => return,
        }
        let mut bytes = Vec::new();
        let read = self.repository.fetch(be, name, &mut |_, piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        });
        let good =
            matches!(read, Ok(Some(_))) && check_stored(name, &bytes, bytes.len() as u64, None).is_ok();
        let mut state = self.state.lock();
        if good {
            state.fetched.insert(name.clone(), Fetched::Here(Arc::new(bytes)));
        } else {
            // Whoever asks for it will learn why, or find it.
            state.fetched.remove(name);
        }
        self.ended.notify_all();
    }
}
