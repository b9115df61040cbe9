//! The disk: names, files, faults, and the power that may fail.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use forebay_aio::sync::atomic::{AtomicU64, Ordering::Relaxed};
use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, AioConfig, AioError, Deferred, Errno, PlantedBug};
use forebay_testkit::Dice;

use crate::faults::{CallKind, Failure, FaultClass, FaultRates, Faults, FileKind, Fired, Strike};
use crate::file::{InFlight, SimFile};
use crate::names::{Names, Node};
use crate::survival::Survival;

/// How a life on the disk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The power fails: what is not durable is in doubt.
    Crash,
    /// The process that uses the disk is killed. The system keeps what it was given, and carries
    /// out what was submitted.
    Kill,
}

impl Ending {
    /// One of both: a kill so many times in a thousand.
    pub(crate) fn random(dice: &mut Dice, kills: u32) -> Ending {
        if dice.chance(kills) { Ending::Kill } else { Ending::Crash }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// A crash or kill has begun, and I/O in flight is being collected.
    Dying,
    Off,
}

/// What the lock protects.
pub(crate) struct State {
    pub names: Names,
    pub files: BTreeMap<u64, SimFile>,
    next_file: u64,
    /// Files with an advisory lock.
    pub locked: BTreeSet<Node>,
    pub faults: Faults,
    /// The number of calls so far that change something.
    changes: u64,
    /// The call during which the disk ends, and how.
    end_at: Option<(u64, Ending)>,
    /// The disk ends before a sync of this directory, after so many of them, and how.
    end_before: Option<(&'static str, u64, Ending)>,
    power: Power,
    ending: Option<Ending>,
    pub in_flight: Vec<InFlight>,
    /// Grows whenever something becomes durable.
    version: u64,
    mischief: Mischief,
    /// Whether pages of 8 kB are written whole or not at all, as some devices promise.
    pub whole_pages: bool,
    /// Holds I/O that was submitted and not executed.
    method: Option<Deferred>,
}

/// A call that changes something and has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    ends: Option<Ending>,
    pub strike: Option<Strike>,
}

impl Change {
    /// Whether it does everything as far as the medium is concerned.
    pub fn is_whole(self) -> bool {
        self.ends != Some(Ending::Crash)
    }

    /// The answer, unless nobody is left to receive it.
    pub fn told<T>(self, answer: T) -> Result<T, Errno> {
        if self.ends.is_some() { Err(Errno::IO) } else { Ok(answer) }
    }
}

impl State {
    /// Whether a sync of a file does what it says.
    pub fn heeds_file(&self, path: &Path) -> bool {
        let dir = path.parent().unwrap_or(path);
        !self
            .mischief
            .forgotten
            .iter()
            .any(|f| matches!(f, Forgotten::FilesIn(name) if dir.ends_with(name)))
    }

    /// Whether a sync of a directory does what it says.
    pub fn heeds_names(&self, dir: &Path) -> bool {
        !self
            .mischief
            .forgotten
            .iter()
            .any(|f| matches!(f, Forgotten::NamesIn(name) if dir.ends_with(name)))
    }

    /// Begins a call that changes nothing, and returns the fault that strikes it.
    pub fn look(&mut self, kind: CallKind, path: &Path) -> Result<Option<Strike>, Errno> {
        if self.power != Power::On {
            return Err(Errno::IO);
        }
        match self.faults.next(kind, &path, false, FileKind::Other) {
            Some(Strike::Refuse(_, errno)) => Err(errno),
            other => Ok(other),
        }
    }

    /// Begins a call that changes something.
    pub fn change(&mut self, kind: CallKind, path: &Path, grows: bool) -> Result<Change, Errno> {
        if self.power != Power::On {
            return Err(Errno::IO);
        }
        if let Some(ending) = self.ends_before(kind, path) {
            self.end(ending);
            return Err(Errno::IO);
        }
        let ends = self.end_at.filter(|(at, _)| *at == self.changes).map(|(_, ending)| ending);
        self.changes += 1;
        if let Some(ending) = ends {
            self.end(ending);
            return Ok(Change { ends, strike: None });
        }
        match self.faults.next(kind, &path, grows, kind_of(path)) {
            Some(Strike::Refuse(_, errno)) => Err(errno),
            strike => Ok(Change { ends, strike }),
        }
    }

    fn ends_before(&mut self, kind: CallKind, path: &Path) -> Option<Ending> {
        let (dir, left, ending) = self.end_before.as_mut()?;
        if kind != CallKind::SyncNames || !path.ends_with(*dir) {
            return None;
        }
        let now = *left == 0;
        *left = left.saturating_sub(1);
        now.then_some(*ending)
    }

    fn end(&mut self, ending: Ending) {
        self.power = Power::Dying;
        self.ending = Some(ending);
        let class = if ending == Ending::Crash { FaultClass::Crash } else { FaultClass::Kill };
        self.faults.count(class, 1);
    }

    /// Whether the I/O that is executed now was in flight at the end.
    pub fn is_dying(&self) -> bool {
        self.power == Power::Dying
    }

    /// Creates a file.
    pub fn create(&mut self, path: &Path) -> u64 {
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, SimFile::default());
        self.names.add_file(path, file);
        file
    }

    /// The open file of this number. Files stay as long as the disk is on.
    pub fn file(&mut self, number: u64) -> Result<&mut SimFile, Errno> {
        self.files.get_mut(&number).ok_or(Errno::BADF)
    }

    /// Notes that something became durable.
    pub fn became_durable(&mut self) {
        self.version += 1;
    }

    /// Chooses a page of a relation for a misdirected write.
    pub fn victim(&mut self, but: (u64, u64), len: usize) -> Option<(u64, u64)> {
        let mut places: Vec<(u64, u64)> = Vec::new();
        for (path, node) in self.names.all() {
            if let (FileKind::Relation, Node::File(number)) = (kind_of(&path), node)
                && let Some(file) = self.files.get(&number)
            {
                let pages = file.live().len().saturating_sub(len as u64) / 8192;
                let mine =
                    (0..=pages).map(|page| (number, page * 8192)).filter(|place| *place != but);
                places.extend(mine.filter(|_| file.live().len() >= len as u64));
            }
        }
        let n = places.len() as u64;
        (n > 0).then(|| places[self.faults.dice.below(n) as usize])
    }
}

fn kind_of(path: &Path) -> FileKind {
    let numbered = path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    let parent = path.parent();
    if numbered && parent.and_then(Path::parent).is_some_and(|dir| dir.ends_with("base")) {
        FileKind::Relation
    } else if path.ends_with("pg_control") || parent.is_some_and(|dir| dir.ends_with("pg_xact")) {
        FileKind::Bookkeeping
    } else {
        FileKind::Other
    }
}

/// Syncs that a program forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Syncs of files in directories of this name.
    FilesIn(&'static str),
    /// Syncs of directories of this name.
    NamesIn(&'static str),
}

/// What is wrong with the programs that use a disk. Disks made from this one inherit it.
#[derive(Clone, Default)]
struct Mischief {
    forgotten: Vec<Forgotten>,
    bug: Option<PlantedBug>,
    /// How often a program has reached its bug.
    reached: Arc<AtomicU64>,
}

/// A simulated disk. It is both a namespace and an executor, the two interfaces of aio's file
/// layer. A clone is the same disk.
///
/// A crash may lose whatever was not synced: bytes by sectors, lengths, and changes of names
/// directory by directory. I/O in flight may have been done or not. The power fails at a chosen
/// call or when [`SimDisk::cut_power`] is called, and every later call fails. [`SimDisk::restart`]
/// makes the disk that is found afterwards.
#[derive(Clone)]
pub struct SimDisk {
    pub(crate) state: Arc<Mutex<State>>,
    root: PathBuf,
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimDisk").field("root", &self.root).finish_non_exhaustive()
    }
}

impl SimDisk {
    /// A disk with one empty directory. `seed` is for the faults.
    pub fn new(root: impl Into<PathBuf>, seed: u64) -> SimDisk {
        let root = root.into();
        let names = Names::new(&root);
        SimDisk::with(root, names, BTreeMap::new(), 0, seed)
    }

    fn with(
        root: PathBuf,
        names: Names,
        files: BTreeMap<u64, SimFile>,
        next_file: u64,
        seed: u64,
    ) -> SimDisk {
        let state = State {
            names,
            files,
            next_file,
            locked: BTreeSet::new(),
            faults: Faults::new(seed),
            changes: 0,
            end_at: None,
            end_before: None,
            power: Power::On,
            ending: None,
            in_flight: Vec::new(),
            version: 0,
            mischief: Mischief::default(),
            whole_pages: false,
            method: None,
        };
        SimDisk { state: Arc::new(Mutex::new(state)), root }
    }

    /// The directory that is always there.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Opens aio on this disk. I/O is executed and completed in an order that `seed` chooses, with
    /// short transfers and lost attempts. Only one can be open, and it must be closed by
    /// [`SimDisk::close`].
    pub fn open(&self, config: AioConfig, seed: u64) -> Result<Arc<Aio>, AioError> {
        let (names, executor) = (Arc::new(self.clone()), Arc::new(self.clone()));
        let whole = self.state.lock().whole_pages;
        let method = if whole { Deferred::new(seed) } else { Deferred::cutting(seed) };
        self.state.lock().method = Some(method.clone());
        let aio = Aio::with_method(names, executor, config, |table| Ok(method.over(table)))?;
        #[cfg(feature = "planted-bugs")]
        {
            let mischief = self.state.lock().mischief.clone();
            if let Some(bug) = mischief.bug {
                aio.plant(bug, mischief.reached);
            }
        }
        Ok(aio)
    }

    /// Drops the aio that was opened last: it and the disk hold each other.
    pub fn close(&self) {
        let method = self.state.lock().method.take();
        drop(method);
    }

    /// How likely faults are from now on.
    pub fn set_faults(&self, rates: FaultRates) {
        self.state.lock().faults.rates = rates;
    }

    /// Lets call number `calls` from now on fail, if it is of a kind that can fail so.
    pub fn fail_call(&self, calls: u64, failure: Failure) {
        self.state.lock().faults.choose(calls, failure);
    }

    /// The call that this failure struck, if it struck any.
    pub fn struck(&self) -> Option<String> {
        self.state.lock().faults.struck()
    }

    /// How often each class of fault has fired. The losses of a crash count for the disk that is
    /// found after it.
    pub fn fired(&self) -> Fired {
        self.state.lock().faults.fired()
    }

    /// From now on these syncs succeed and do nothing, as if the program had forgotten them. The
    /// battery must notice.
    pub fn forget(&self, what: Forgotten) {
        self.state.lock().mischief.forgotten.push(what);
    }

    /// From now on this disk, and disks made from it, writes pages of 8 kB whole or not at all.
    pub fn write_whole_pages(&self) {
        self.state.lock().whole_pages = true;
    }

    /// From now on programs that open this disk, or one made from it, have this bug. Needs the
    /// feature `planted-bugs`.
    pub fn plant(&self, bug: PlantedBug) {
        let possible = forebay_aio::CAN_HAVE_BUGS;
        assert!(possible, "this build can't have the bug {bug:?}");
        self.state.lock().mischief.bug = Some(bug);
    }

    /// How often programs have reached the planted bug.
    pub fn bug_reached(&self) -> u64 {
        self.state.lock().mischief.reached.load(Relaxed)
    }

    /// Ends the disk during the call after the next `calls` that change something. At a crash,
    /// survival decides whether that call was done. Nobody receives its answer.
    pub fn end_after(&self, calls: u64, ending: Ending) {
        let mut state = self.state.lock();
        state.end_at = Some((state.changes + calls, ending));
    }

    /// Ends the disk just before a directory of this name is synced once more, after the next
    /// `times`.
    pub fn end_before_sync_of(&self, dir: &'static str, times: u64, ending: Ending) {
        self.state.lock().end_before = Some((dir, times, ending));
    }

    /// Cancels an end that was chosen before.
    pub fn go_on(&self) {
        let mut state = self.state.lock();
        (state.end_at, state.end_before) = (None, None);
    }

    /// Cuts the power during the call after the next `calls` that change something.
    pub fn crash_after(&self, calls: u64) {
        self.end_after(calls, Ending::Crash);
    }

    /// Cuts the power now.
    pub fn cut_power(&self) {
        self.end_now(Ending::Crash);
    }

    fn end_now(&self, ending: Ending) {
        let mut state = self.state.lock();
        if state.power == Power::On {
            state.end(ending);
        }
        drop(state);
        self.settle();
    }

    /// Collects what was in flight if the disk has just ended: everything that was submitted is
    /// executed now, and noted.
    pub(crate) fn settle(&self) {
        let mut state = self.state.lock();
        if state.power != Power::Dying {
            return;
        }
        let method = state.method.take();
        drop(state);
        if let Some(method) = method {
            method.release();
        }
        self.state.lock().power = Power::Off;
    }

    /// Whether the disk has ended.
    pub fn is_off(&self) -> bool {
        self.state.lock().power != Power::On
    }

    /// The number of calls so far that changed something.
    pub fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.state.lock().faults.calls()
    }

    /// The number of writes that a crash now could undo, or that were in flight at the end.
    pub fn doubtful(&self) -> usize {
        let state = self.state.lock();
        state.files.values().map(SimFile::unsynced_writes).sum::<usize>() + state.in_flight.len()
    }

    /// Distinguishes the outcomes of two crashes in runs that began alike: by what is durable and
    /// what is in doubt.
    pub fn doubt(&self) -> Doubt {
        let state = self.state.lock();
        let mut writes = Vec::new();
        for (number, file) in &state.files {
            for (offset, bytes) in file.writes() {
                writes.push(fingerprint(&(number, offset, bytes)));
            }
            let in_flight = state.in_flight.iter().filter(|write| write.file == *number);
            writes.extend(in_flight.map(|w| fingerprint(&(number, w.offset, &w.bytes))));
        }
        let others =
            state.files.values().map(SimFile::unsynced).sum::<usize>() + state.names.unsynced();
        Doubt { version: state.version, others, writes }
    }

    /// The disk as it is found after a crash now. This one is switched off.
    pub fn restart(&self, mut survival: Survival, seed: u64) -> SimDisk {
        self.cut_power();
        let state = self.state.lock();
        if state.whole_pages {
            survival.keep_pages_whole();
        }
        let names = state.names.after_crash(&mut survival);
        let named = names.files();
        let files = state
            .files
            .iter()
            .filter(|(number, _)| named.contains(number))
            .map(|(number, file)| {
                let in_flight = state.in_flight.iter().filter(|write| write.file == *number);
                (*number, file.after_crash(&mut survival, in_flight))
            })
            .collect();
        let disk = SimDisk::with(self.root.clone(), names, files, state.next_file, seed);
        disk.inherit(&state);
        let mut found = disk.state.lock();
        for (class, n) in survival.done() {
            found.faults.count(*class, *n);
        }
        drop(found);
        disk
    }

    fn inherit(&self, from: &State) {
        let mut state = self.state.lock();
        (state.mischief, state.whole_pages) = (from.mischief.clone(), from.whole_pages);
    }

    /// The disk as the next process finds it after a kill. Nothing is lost, nothing became durable
    /// by it, and I/O in flight was done or not.
    pub fn after_kill(&self, seed: u64) -> SimDisk {
        self.end_now(Ending::Kill);
        let state = self.state.lock();
        let mut dice = Dice::new(seed ^ 0x1111);
        // Files without a name too: a later crash may bring one back.
        let mut files = state.files.clone();
        for write in &state.in_flight {
            if let Some(file) = files.get_mut(&write.file)
                && dice.chance(500)
            {
                file.write(write.offset, &write.bytes);
            }
        }
        let disk =
            SimDisk::with(self.root.clone(), state.names.clone(), files, state.next_file, seed);
        disk.inherit(&state);
        disk
    }

    /// The disk that the next process finds, depending on how this one ended.
    pub fn reborn(&self, survival: Survival, seed: u64) -> SimDisk {
        let ending = self.state.lock().ending;
        match ending {
            Some(Ending::Kill) => self.after_kill(seed),
            Some(Ending::Crash) | None => self.restart(survival, seed),
        }
    }

    /// Another disk with the same content, all of it durable. Many runs can begin from it.
    pub fn copy(&self, seed: u64) -> SimDisk {
        let state = self.state.lock();
        let names = state.names.after_crash(&mut Survival::all());
        let whole = |file: &SimFile| file.after_crash(&mut Survival::all(), [].iter());
        let files = state.files.iter().map(|(n, file)| (*n, whole(file))).collect();
        let disk = SimDisk::with(self.root.clone(), names, files, state.next_file, seed);
        disk.inherit(&state);
        disk
    }

    /// The bytes of a file as reads see them, if there is such a file.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let Some(Node::File(number)) = state.names.get(path) else { return None };
        let file = state.files.get(&number)?;
        let mut bytes = vec![0; file.live().len() as usize];
        file.live().read(0, &mut bytes);
        Some(bytes)
    }

    /// Changes bytes on the medium and in the cache.
    pub fn rot(&self, path: &Path, offset: u64, bytes: &[u8]) {
        let mut state = self.state.lock();
        state.faults.count(FaultClass::Rot, 1);
        if let Some(Node::File(number)) = state.names.get(path)
            && let Some(file) = state.files.get_mut(&number)
        {
            file.damage(offset, bytes);
            file.forget_cached();
        }
    }

    /// Copies a file, or a directory with everything below it that `wanted` accepts, to another
    /// name. The copy is made at one moment and is durable, as no program could make it. Existing
    /// directories are filled.
    pub fn copy_tree(&self, from: &Path, to: &Path, wanted: impl Fn(&Path) -> bool) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        for (path, node) in state.names.all() {
            let Ok(below) = path.strip_prefix(from) else { continue };
            let target = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
            match node {
                Node::Directory(_) if state.names.get(&target).is_none() => {
                    state.names.add_directory(&target)
                }
                Node::File(number) if wanted(below) => {
                    let Some(file) = state.files.get(&number) else { continue };
                    let mut whole = file.clone();
                    whole.sync();
                    let copy = state.create(&target);
                    state.files.insert(copy, whole);
                }
                _ => {}
            }
        }
        state.names.sync_all();
    }

    /// Makes a directory, durably.
    pub fn put_directory(&self, path: &Path) {
        let mut state = self.state.lock();
        state.names.add_directory(path);
        state.names.sync_all();
    }

    /// Writes a whole file, durably.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state.lock();
        let number = state.create(path);
        if let Some(file) = state.files.get_mut(&number) {
            file.write(0, bytes);
            file.sync();
        }
        state.names.sync_all();
    }

    /// The files below a directory, in the order of their paths.
    pub fn files_below(&self, dir: &Path) -> Vec<PathBuf> {
        let state = self.state.lock();
        let all = state.names.all().into_iter();
        all.filter(|(path, node)| path.starts_with(dir) && !node.is_directory())
            .map(|(path, _)| path)
            .collect()
    }
}

/// See [`SimDisk::doubt`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Doubt {
    version: u64,
    others: usize,
    writes: Vec<u64>,
}

impl Doubt {
    /// The same for a crash in which only the writes of these bits survive.
    pub fn of_outcome(&self, bits: u64) -> (u64, usize, bool, Vec<u64>) {
        let kept = self.writes.iter().enumerate().filter(|(n, _)| *n < 64 && bits >> n & 1 == 1);
        (self.version, self.others, bits & 1 == 1, kept.map(|(_, write)| *write).collect())
    }
}

fn fingerprint(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
