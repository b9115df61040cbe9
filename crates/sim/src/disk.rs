//! The disk: names, files, faults, and the power that may fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Aio, AioConfig, AioError, Deferred, Errno};

use crate::faults::{FaultClass, FaultRates, Faults};
use crate::file::SimFile;
use crate::names::{Names, Node};
use crate::survival::Survival;

/// What is behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub names: Names,
    pub files: BTreeMap<u64, SimFile>,
    next_file: u64,
    /// Paths with an advisory lock.
    pub locked: BTreeSet<PathBuf>,
    pub faults: Faults,
    /// Calls that change something, so far.
    calls: u64,
    /// The call in the midst of which the power fails.
    crash_at: Option<u64>,
    off: bool,
    forgotten: Vec<Forgotten>,
}

impl State {
    /// Whether a sync of a file does what it says.
    pub fn heeds_file(&self, path: &Path) -> bool {
        let dir = path.parent().unwrap_or(path);
        !self.forgotten.iter().any(|f| matches!(f, Forgotten::FilesIn(name) if dir.ends_with(name)))
    }

    /// Whether a sync of a directory does what it says.
    pub fn heeds_names(&self, dir: &Path) -> bool {
        !self.forgotten.iter().any(|f| matches!(f, Forgotten::NamesIn(name) if dir.ends_with(name)))
    }

    /// Begins a call that changes nothing.
    pub fn look(&self) -> Result<(), Errno> {
        if self.off { Err(Errno::IO) } else { Ok(()) }
    }

    /// Begins a call that changes something. True: the power fails during it, so that it takes effect and nobody is told.
    pub fn change(&mut self) -> Result<bool, Errno> {
        self.look()?;
        let last = self.crash_at == Some(self.calls);
        self.calls += 1;
        if last {
            self.off = true;
            self.faults.count(FaultClass::Crash);
        }
        Ok(last)
    }

    /// Makes a file.
    pub fn create(&mut self, path: &Path) -> u64 {
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, SimFile::default());
        self.names.add(path, Node::File(file));
        file
    }

    /// The open file of this number; files are kept for as long as the disk is on.
    pub fn file(&mut self, number: u64) -> Result<&mut SimFile, Errno> {
        self.files.get_mut(&number).ok_or(Errno::BADF)
    }
}

/// The answer of a call during which the power failed or did not.
pub(crate) fn told<T>(crashed: bool, answer: T) -> Result<T, Errno> {
    if crashed { Err(Errno::IO) } else { Ok(answer) }
}

/// Syncs that a program forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Those of the files in directories of this name.
    FilesIn(&'static str),
    /// Those of directories of this name.
    NamesIn(&'static str),
}

/// A simulated disk: both halves of aio's door, a namespace and an executor. A clone is the same disk.
///
/// Whatever was not synced, may be lost in a crash: bytes by sectors, lengths, and changes of names directory by directory. The
/// power fails at a chosen call or when [`SimDisk::cut_power`] is called; every later call fails. [`SimDisk::restart`] makes the
/// disk that is found afterwards.
#[derive(Clone, Debug)]
pub struct SimDisk {
    pub(crate) state: Arc<Mutex<State>>,
    root: PathBuf,
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
        let (locked, faults) = (BTreeSet::new(), Faults::new(seed));
        let state = State {
            names,
            files,
            next_file,
            locked,
            faults,
            calls: 0,
            crash_at: None,
            off: false,
            forgotten: Vec::new(),
        };
        SimDisk { state: Arc::new(Mutex::new(state)), root }
    }

    /// The directory that is always there.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A door to this disk whose I/O is executed and completed in an order that `seed` chooses, with cuts and lost attempts.
    pub fn open(&self, config: AioConfig, seed: u64) -> Result<Arc<Aio>, AioError> {
        let (names, executor) = (Arc::new(self.clone()), Arc::new(self.clone()));
        Aio::with_method(names, executor, config, |table| Ok(Deferred::cutting(seed).over(table)))
    }

    /// How likely faults are from now on.
    pub fn set_faults(&self, rates: FaultRates) {
        self.state.lock().faults.rates = rates;
    }

    /// How often each class of fault has fired.
    pub fn fired(&self) -> BTreeMap<FaultClass, u64> {
        self.state.lock().faults.fired()
    }

    /// From now on these syncs succeed and do nothing, as if the program had forgotten them: a battery that does not notice is worth
    /// nothing.
    pub fn forget(&self, what: Forgotten) {
        self.state.lock().forgotten.push(what);
    }

    /// The power fails in the midst of the call after the next `calls` that change something: it is done as far as the survival of
    /// unsynced changes goes, and fails.
    pub fn crash_after(&self, calls: u64) {
        let mut state = self.state.lock();
        state.crash_at = Some(state.calls + calls);
    }

    /// The power fails now.
    pub fn cut_power(&self) {
        let mut state = self.state.lock();
        if !state.off {
            state.off = true;
            state.faults.count(FaultClass::Crash);
        }
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.state.lock().off
    }

    /// Calls so far that changed something.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Changes to files that a crash now could undo.
    pub fn unsynced(&self) -> usize {
        let state = self.state.lock();
        state.files.values().map(SimFile::unsynced).sum::<usize>() + state.names.unsynced()
    }

    /// The disk as it is found after a crash now; this one is switched off.
    pub fn restart(&self, mut survival: Survival, seed: u64) -> SimDisk {
        self.cut_power();
        let state = self.state.lock();
        let names = state.names.after_crash(&mut survival);
        let files = state
            .files
            .iter()
            .filter(|(number, _)| names.links(**number) > 0)
            .map(|(number, file)| (*number, file.after_crash(&mut survival)))
            .collect();
        SimDisk::with(self.root.clone(), names, files, state.next_file, seed)
    }

    /// Another disk with the same content, of which this one's synced and unsynced both count as synced: to begin many runs from.
    pub fn copy(&self, seed: u64) -> SimDisk {
        let state = self.state.lock();
        let names = state.names.after_crash(&mut Survival::all());
        let files =
            state.files.iter().map(|(n, file)| (*n, file.after_crash(&mut Survival::all()))).collect();
        SimDisk::with(self.root.clone(), names, files, state.next_file, seed)
    }
}
