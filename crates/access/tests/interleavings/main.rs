//! Sessions that lock, update and delete one row, in interleavings that shuttle chooses: the four
//! strengths, MultiXacts, savepoints, NOWAIT, deadlocks. A session that reads it: `snapshots.rs`.
//! B-trees: `trees.rs`.
//!
//! Only a build for shuttle has these tests:
//!
//! ```text
//! RUSTC_WORKSPACE_WRAPPER=$PWD/crates/xtask/shuttle \
//!     cargo test -p forebay-access --test interleavings
//! ```
//!
//! FOREBAY_SHUTTLE_ROUNDS sets the number of interleavings of each scenario. A failing one prints a
//! schedule, which `shuttle::replay` repeats. All layers are the real ones, over files in memory. A
//! session that nobody wakes shows as a deadlock of threads. A [`Model`] notes who holds the row
//! and what was committed: no two hold it in conflicting strengths, and each update begins with
//! what the last one has committed.
#![cfg(shuttle)]

mod snapshots;
mod trees;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use forebay_access::heap::{
    Attempt, Author, Changer, Columns, Heap, Outcomes, PageFailure, Refusal, RowQueues, RowSets,
    RowWaiter, SpaceMap,
};
use forebay_access::{AccessError, RowWork};
use forebay_aio::sync::{Arc, thread};
use forebay_aio::{BackendType, HugePages, MethodKind};
use forebay_format::tuple::{AttrLayout, LockStrength, deform, form_tuple};
use forebay_format::{Fork, FullXid, HeapTuple, ItemPointer, Lsn, RelFileLocator, SegmentSize};
use forebay_storage::{Backend, BufferPool, PoolConfig, Smgr, SmgrConfig};
use forebay_txn::locks::{Interrupt, LockError, LockManager, LockOwner, OwnerId};
use forebay_txn::{
    Clog, CommitOptions, MultiCounters, MultiUse, MultiXacts, Transaction, XactManager,
};
use forebay_wal::{Resume, Wal, WalConfig};
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

const TABLE: RelFileLocator = RelFileLocator::in_default(5, 16_384);
/// The row's first version.
const ROW: ItemPointer = ItemPointer::new(0, 1);
const STRENGTHS: [LockStrength; 4] = [
    LockStrength::KeyShare,
    LockStrength::Share,
    LockStrength::NoKeyExclusive,
    LockStrength::Exclusive,
];
const SESSIONS: u32 = 3;
const TRANSACTIONS: usize = 2;
/// Most steps of a transaction.
const STEPS: u32 = 4;

#[derive(Debug)]
struct MustNotFail;

impl PageFailure for MustNotFail {
    fn stop(&self, what: &str, error: Option<&AccessError>) {
        panic!("{what}: {error:?}");
    }
}

/// What must be true of the row.
struct Model {
    /// Sessions, how deep in subtransactions they locked the row, and how.
    held: Vec<(u32, usize, LockStrength)>,
    /// The number in the row after each commit, in their order; None once it is deleted. An entry
    /// is added before the commit.
    history: Vec<Option<i64>>,
    /// The last entry whose commit has returned.
    returned: usize,
}

impl Model {
    fn committed(&self) -> Option<i64> {
        self.history[self.history.len() - 1]
    }
}

/// A table with one row.
struct Fixture {
    dir: tempfile::TempDir,
    aio: Arc<forebay_aio::Aio>,
    heap: Heap,
    xacts: Arc<XactManager>,
    outcomes: Outcomes,
    locks: LockManager,
    /// Not a lock that shuttle schedules: nobody waits while holding it.
    model: Mutex<Model>,
    /// Keeps the members of MultiXacts to the end.
    _sets: MultiUse,
}

impl Fixture {
    fn new() -> Arc<Fixture> {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.expect("directory");
        let parts = ["base/5", "pg_wal", "pg_xact", "pg_multixact/offsets", "pg_multixact/members"];
        for name in parts {
            std::fs::create_dir_all(dir.path().join(name)).expect("directory");
        }
        let aio = forebay_testkit::io::open(MethodKind::Sync);
        let mut io = aio.backend(BackendType::Client).expect("backend");
        let size = SegmentSize::new(1 << 20).expect("size");
        let config = WalConfig::new(dir.path().join("pg_wal"), size, 7);
        let start = Lsn((1 << 20) + 40);
        let resume = Resume { insert_at: start, prev: Lsn(0), redo: start, aborted: None };
        let wal = Arc::new(Wal::start(aio.clone(), &mut io, config, resume).expect("log"));
        let smgr = Smgr::new(aio.clone(), dir.path(), SmgrConfig::default());
        let config =
            PoolConfig { buffers: 32, huge_pages: HugePages::Off, ..PoolConfig::default() };
        let pool = BufferPool::new(config, aio.clone(), smgr).expect("pool");
        pool.attach_wal(wal.clone());
        let clog = Arc::new(Clog::new(aio.clone(), dir.path(), false));
        clog.zero_page(0);
        clog.flush(&mut io).expect("pg_xact");
        let next = FullXid::new(0, 3);
        let xacts = Arc::new(XactManager::new(clog.clone(), wal.clone(), next, 3));
        let none = MultiCounters { next: 1, next_offset: 0, oldest: 1, oldest_db: 1 };
        let multis = Arc::new(MultiXacts::beside(&clog, none));
        multis.set_recovering(true);
        multis.finish_recovery(&mut io, none).expect("MultiXacts");
        multis.set_recovering(false);
        let outcomes = Outcomes::new(xacts.clone(), multis.clone());
        pool.smgr().create(TABLE, Fork::Main, true).expect("file");
        let heap = Heap {
            logged: true,
            locator: TABLE,
            pool,
            wal,
            outcomes: outcomes.clone(),
            space: SpaceMap::new().relation(TABLE),
            fill_factor: 100,
            failure: Arc::new(MustNotFail),
        };
        let fixture = Fixture {
            dir,
            aio,
            heap,
            xacts,
            outcomes,
            locks: LockManager::new(),
            model: Mutex::new(Model { held: Vec::new(), history: vec![Some(0)], returned: 0 }),
            _sets: MultiUse::begin(multis),
        };
        fixture.insert();
        Arc::new(fixture)
    }

    fn insert(&self) {
        let (mut backend, mut tx) = (self.backend(), Transaction::new());
        let xid = self.xacts.assign(&mut backend.io, &mut tx).expect("id");
        let author = Author { xid, command: tx.use_command() };
        let place = self.heap.insert(&mut backend, author, &tuple_of(0)).expect("insert");
        assert_eq!(place, ROW);
        self.xacts.commit(&mut backend.io, &mut tx).expect("commit");
    }

    fn backend(&self) -> Backend {
        Backend::new(self.aio.backend(BackendType::Client).expect("backend"))
    }

    fn model(&self) -> std::sync::MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tuple_of(number: i64) -> Vec<u8> {
    form_tuple(&[AttrLayout::INT8], &[Some(&number.to_le_bytes())]).expect("tuple")
}

fn number_of(tuple: &[u8]) -> i64 {
    let mut values = [None];
    let tuple = HeapTuple::new(tuple).expect("tuple");
    deform(tuple, &[AttrLayout::INT8], &mut values).expect("values");
    i64::from_le_bytes(values[0].expect("a value").try_into().expect("eight bytes"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Lock(LockStrength),
    /// Adds one. `key`: as if the column were part of a key.
    Update {
        key: bool,
    },
    Delete,
}

impl Action {
    fn random(deletes: bool) -> Action {
        match thread_rng().gen_range(0..8) {
            n @ 0..4 => Action::Lock(STRENGTHS[n]),
            4 => Action::Update { key: true },
            5 | 6 if deletes => Action::Delete,
            _ => Action::Update { key: false },
        }
    }

    fn strength(self) -> LockStrength {
        match self {
            Action::Lock(strength) => strength,
            Action::Update { key: false } => LockStrength::NoKeyExclusive,
            Action::Update { key: true } | Action::Delete => LockStrength::Exclusive,
        }
    }
}

/// The row as a transaction has it.
#[derive(Clone, Copy)]
struct Own {
    /// Where the transaction begins to look for it.
    tid: ItemPointer,
    /// The number that it has written; None: it has deleted the row.
    written: Option<Option<i64>>,
}

const AS_FOUND: Own = Own { tid: ROW, written: None };

struct Session {
    fixture: Arc<Fixture>,
    id: u32,
    backend: Backend,
    owner: LockOwner,
    tx: Transaction,
    sets: RowSets,
    own: Own,
    /// What `own` was when each open savepoint was set.
    saved: Vec<Own>,
}

type Tried<T> = Result<Attempt<T>, LockError>;

impl Session {
    fn new(fixture: &Arc<Fixture>, id: u32) -> Session {
        Session {
            fixture: Arc::clone(fixture),
            id,
            backend: fixture.backend(),
            owner: fixture.locks.enter(OwnerId(id)),
            tx: Transaction::new().of_backend(id),
            sets: fixture.outcomes.sets(),
            own: AS_FOUND,
            saved: Vec::new(),
        }
    }

    /// Tries until it need not wait, as a statement does.
    fn run<T>(
        &mut self,
        tid: ItemPointer,
        waits: bool,
        mut attempt: impl FnMut(
            &Heap,
            &mut Backend,
            &mut Changer<'_>,
        ) -> Result<Attempt<T>, AccessError>,
    ) -> Tried<T> {
        let Session { fixture, id, backend, owner, tx, sets, .. } = self;
        let (xacts, locks) = (&*fixture.xacts, &fixture.locks);
        let xid = xacts.assign(&mut backend.io, tx).expect("id");
        let author = Author { xid, command: tx.use_command() };
        let queues = RowQueues { locks, backend: OwnerId(*id), database: 5, relation: 16_384 };
        let in_turn = waits.then_some(queues);
        let mut changer = Changer { xacts, tx, author, sets, queues: in_turn };
        let (interrupt, work) = (&Interrupt::new(), RowWork::Lock);
        let mut waiter = RowWaiter { xacts, queues, owner, interrupt, work, waits };
        let tried =
            waiter.run(backend, tid, |backend| attempt(&fixture.heap, backend, &mut changer));
        tried.map_err(|error| match error {
            AccessError::RowLock { error, .. } => error,
            error => panic!("{error}"),
        })
    }

    /// Locks or changes the newest version of the row, as a statement of a READ COMMITTED
    /// transaction does.
    fn act(&mut self, action: Action, waits: bool) -> Result<(), LockError> {
        let done = self.act_on_newest(action, waits);
        self.fixture.locks.give_up_row(&mut self.owner);
        self.tx.next_command().expect("a command");
        done
    }

    fn act_on_newest(&mut self, action: Action, waits: bool) -> Result<(), LockError> {
        loop {
            match self.change(action, waits)? {
                Attempt::Done(()) => return Ok(()),
                Attempt::Refused(Refusal::Updated { newer, by }) => {
                    let Some(newest) = self.lock_newest(newer, by, action, waits)? else {
                        return Ok(());
                    };
                    self.own.tid = newest;
                }
                Attempt::Refused(Refusal::BeingModified(_)) => panic!("it was to wait"),
                Attempt::Refused(_) => return Ok(()),
            }
        }
    }

    fn change(&mut self, action: Action, waits: bool) -> Tried<()> {
        let tid = self.own.tid;
        let mut number = 0;
        let done = self.run(tid, waits, |heap, backend, changer| {
            if let Some(version) = heap.any_version(backend, tid)? {
                number = number_of(&version);
            }
            let at = |attempt| match attempt {
                Attempt::Done(()) => Attempt::Done(tid),
                Attempt::Refused(refusal) => Attempt::Refused(refusal),
            };
            match action {
                Action::Lock(strength) => heap.lock(backend, changer, tid, strength).map(at),
                Action::Delete => heap.delete(backend, changer, tid).map(at),
                Action::Update { key } => {
                    let keys: &[usize] = if key { &[0] } else { &[] };
                    let columns = Columns { layouts: &[AttrLayout::INT8], keys, indexed: &[] };
                    match heap.update(backend, changer, tid, &tuple_of(number + 1), &columns)? {
                        Attempt::Done(version) => Ok(Attempt::Done(version.place)),
                        Attempt::Refused(refusal) => Ok(Attempt::Refused(refusal)),
                    }
                }
            }
        })?;
        Ok(match done {
            Attempt::Refused(refusal) => Attempt::Refused(refusal),
            Attempt::Done(place) => {
                self.changed(action, tid, place, number);
                Attempt::Done(())
            }
        })
    }

    /// Notes that the row is locked or changed.
    fn changed(&mut self, action: Action, tid: ItemPointer, place: ItemPointer, number: i64) {
        self.hold(action);
        if matches!(action, Action::Lock(_)) {
            return;
        }
        let before = self.own.written.unwrap_or(self.fixture.model().committed());
        assert_eq!(before, Some(number), "session {} has not seen an update", self.id);
        let locks = &self.fixture.locks;
        let queues = RowQueues { locks, backend: OwnerId(self.id), database: 5, relation: 16_384 };
        locks.row_moved(queues.tag(tid), queues.tag(place));
        let now = if action == Action::Delete { None } else { Some(number + 1) };
        self.own = Own { tid: place, written: Some(now) };
    }

    /// Locks the newest version of the row. None if it is gone, or others hold it.
    fn lock_newest(
        &mut self,
        mut newer: ItemPointer,
        mut by: u32,
        action: Action,
        waits: bool,
    ) -> Result<Option<ItemPointer>, LockError> {
        loop {
            let heap = &self.fixture.heap;
            if heap.newer_version(&mut self.backend, newer, by).expect("version").is_none() {
                return Ok(None);
            }
            let locked = self.run(newer, waits, |heap, backend, changer| {
                heap.lock_newest(backend, changer, newer, action.strength())
            })?;
            match locked {
                Attempt::Done(()) => {
                    self.hold(action);
                    return Ok(Some(newer));
                }
                Attempt::Refused(Refusal::Updated { newer: next, by: updater }) => {
                    (newer, by) = (next, updater);
                }
                Attempt::Refused(_) => return Ok(None),
            }
        }
    }

    /// Notes that the session holds the row.
    fn hold(&self, action: Action) {
        let strength = action.strength();
        let mut model = self.fixture.model();
        for &(other, _, held) in &model.held {
            let beside = other == self.id || !strength.conflicts_with(held);
            assert!(beside, "{action:?} by {}, and {other} holds the row: {held:?}", self.id);
        }
        model.held.push((self.id, self.saved.len(), strength));
    }

    /// Notes that it gives up what it locked since a savepoint.
    fn give_up(&self, from: usize) {
        let gone = |&(id, depth, _): &(u32, usize, _)| id == self.id && depth >= from;
        self.fixture.model().held.retain(|held| !gone(held));
    }

    fn savepoint(&mut self) {
        self.tx.begin_sub();
        self.owner.begin_sub();
        self.saved.push(self.own);
    }

    fn release(&mut self) {
        self.tx.release_sub();
        self.owner.release_sub();
        self.saved.pop();
        let depth = self.saved.len();
        let mut model = self.fixture.model();
        for (_, at, _) in model.held.iter_mut().filter(|(id, ..)| *id == self.id) {
            *at = depth.min(*at);
        }
    }

    fn roll_back(&mut self) {
        self.give_up(self.saved.len());
        let ended = self.tx.innermost_xids();
        let Session { fixture, backend, owner, tx, .. } = self;
        fixture.xacts.abort_sub(&mut backend.io, tx).expect("rolled back");
        fixture.locks.unlock_sub(owner);
        fixture.locks.transactions_ended(&ended);
        self.own = self.saved.pop().expect("a savepoint");
    }

    fn end(&mut self, commit: bool) {
        let mut ids = self.tx.subxacts();
        ids.extend(self.tx.xid());
        let mut entry = 0;
        if let (true, Some(written)) = (commit, self.own.written) {
            let mut model = self.fixture.model();
            entry = model.history.len();
            model.history.push(written);
        }
        self.give_up(0);
        let Session { fixture, backend, owner, tx, sets, .. } = self;
        let at_once = CommitOptions { wait: false, ..CommitOptions::default() };
        match commit {
            true => fixture.xacts.commit_with(&mut backend.io, tx, &at_once),
            false => fixture.xacts.abort(&mut backend.io, tx),
        }
        .expect("ended");
        {
            let mut model = fixture.model();
            model.returned = entry.max(model.returned);
        }
        sets.end();
        fixture.locks.unlock_all(owner);
        fixture.locks.transactions_ended(&ids);
        (self.own, self.sets) = (AS_FOUND, fixture.outcomes.sets());
        self.saved.clear();
    }

    /// A transaction of random steps.
    fn transaction(&mut self, deletes: bool) {
        for _ in 0..thread_rng().gen_range(1..=STEPS) {
            match (thread_rng().gen_range(0..8), self.saved.len()) {
                (0, depth) if depth < 2 => self.savepoint(),
                (1, 1..) => self.release(),
                (2, 1..) => self.roll_back(),
                _ if self.own.written == Some(None) => {}
                (step, depth) => {
                    let waited = self.act(Action::random(deletes), step != 3);
                    match waited {
                        Ok(()) => {}
                        Err(LockError::Deadlock { .. }) if depth > 0 => self.roll_back(),
                        Err(LockError::Deadlock { .. }) => return self.end(false),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
        self.end(thread_rng().gen_range(0..4) > 0);
    }
}

/// Runs sessions beside each other, and looks at what they leave.
fn scenario(deletes: bool) {
    let fixture = Fixture::new();
    let mut threads: Vec<_> = (1..=SESSIONS)
        .map(|id| {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let mut session = Session::new(&fixture, id);
                (0..TRANSACTIONS).for_each(|_| session.transaction(deletes));
                fixture.locks.leave(&session.owner);
            })
        })
        .collect();
    let read = Arc::clone(&fixture);
    threads.push(thread::spawn(move || snapshots::read(&read)));
    threads.into_iter().for_each(|thread| thread.join().expect("a session"));
    assert_eq!(fixture.locks.list(), [], "nobody waits any more");
    let mut last = Session::new(&fixture, SESSIONS + 1);
    let committed = fixture.model().committed();
    last.act(Action::Delete, true).expect("nobody holds it");
    assert_eq!(last.own.written.is_some(), committed.is_some(), "{committed:?}");
    last.end(false);
    assert!(fixture.dir.path().exists());
}

fn rounds() -> usize {
    forebay_testkit::env::shuttle_rounds(150)
}

fn check(scheduler: impl Scheduler + 'static, deletes: bool) {
    // Pages are on the stack, which need more than shuttle's 60 kB.
    let mut config = shuttle::Config::default();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(scheduler, config).run(move || scenario(deletes));
}

#[test]
fn sessions_that_lock_and_update_a_row() {
    check(RandomScheduler::new(rounds()), false);
    check(PctScheduler::new(3, rounds()), false);
}

#[test]
fn sessions_that_delete_it_as_well() {
    check(RandomScheduler::new(rounds()), true);
    check(PctScheduler::new(3, rounds()), true);
}
