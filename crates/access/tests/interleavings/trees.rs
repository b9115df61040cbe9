//! B-trees in interleavings that shuttle chooses: insertions that split pages, beside each other
//! beside scans in both directions, and beside vacuums that delete pages, which are used again.
//! Three keys fill a leaf, so nearly every insertion splits one.

use std::collections::BTreeSet;

use forebay_access::AccessError;
use forebay_access::heap::{PageCost, PageFailure, RemovalCandidate, RowFate};
use forebay_access::nbtree::{
    BatchOptions, Direction, Index, IndexCursor, IndexShape, IndexVacuumJob, IndexVacuumStats,
    Insertion, KeyColumn, KeyOrder, NewRow, SharedIndexes, TableRows, UniqueCheck,
    form_index_tuple,
};
use forebay_aio::sync::{Arc, Mutex, thread};
use forebay_aio::{Aio, AioConfig, BackendType, HugePages, MethodKind, PosixNamespace};
use forebay_format::{
    AttrLayout, Fork, FullXid, ItemPointer, Lsn, RelFileLocator, SegmentSize, Xid,
};
use forebay_storage::{
    Backend, BufferPool, PoolConfig, Smgr, SmgrConfig, Strategy, StreamSettings,
};
use forebay_txn::locks::Interrupt;
use forebay_txn::{Clog, Transaction, XactManager};
use forebay_types::{Datum, Encoding};
use forebay_wal::{Resume, Wal, WalConfig};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

const INDEX: RelFileLocator = RelFileLocator::in_default(5, 16_390);
const WAL_START: Lsn = Lsn(0x0100_0028);
/// A third of a leaf.
const KEY_LENGTH: usize = 2600;

#[derive(Debug)]
struct NoFailure;

impl PageFailure for NoFailure {
    fn stop(&self, what: &str, error: Option<&AccessError>) {
        panic!("{what}: {error:?}");
    }
}

struct AllLive;

impl TableRows for AllLive {
    fn fate(&mut self, _: &mut Backend, tid: ItemPointer) -> Result<RowFate, AccessError> {
        Ok(RowFate::Live(tid))
    }

    fn removable(
        &mut self,
        _: &mut Backend,
        _: &mut [RemovalCandidate],
    ) -> Result<Xid, AccessError> {
        Ok(3)
    }
}

struct Fixture {
    aio: Arc<Aio>,
    xacts: Arc<XactManager>,
    index: Index,
    _dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Arc<Fixture> {
        let memory = std::path::Path::new("/dev/shm");
        let dir = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let dir = dir.unwrap();
        for name in ["base/5", "pg_wal", "pg_xact"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let config = AioConfig { max_backends: 6, handles_per_backend: 4, ..AioConfig::default() };
        let aio = Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, config).unwrap();
        let smgr = Smgr::new(Arc::clone(&aio), dir.path(), SmgrConfig::default());
        let config =
            PoolConfig { buffers: 64, huge_pages: HugePages::Off, ..PoolConfig::default() };
        let pool = BufferPool::new(config, Arc::clone(&aio), smgr).unwrap();
        pool.smgr().create(INDEX, Fork::Main, true).unwrap();
        let mut io = aio.backend(BackendType::Client).unwrap();
        let size = SegmentSize::new(1 << 20).unwrap();
        let config = WalConfig::new(dir.path().join("pg_wal"), size, 77);
        let resume = Resume { insert_at: WAL_START, prev: Lsn(0), redo: WAL_START, aborted: None };
        let wal = Arc::new(Wal::start(Arc::clone(&aio), &mut io, config, resume).unwrap());
        let clog = Arc::new(Clog::new(Arc::clone(&aio), dir.path(), false));
        clog.zero_page(0);
        clog.flush(&mut io).unwrap();
        let next = FullXid::new(0, 4);
        let xacts = Arc::new(XactManager::new(clog, Arc::clone(&wal), next, 3));
        let shape = IndexShape {
            name: "t_idx".to_owned(),
            layouts: vec![AttrLayout::VARLENA],
            keys: vec![KeyColumn::ascending(KeyOrder::Bytes)],
            nulls_are_equal: false,
            fill_factor: 90,
            deduplicate: true,
            compression: Vec::new(),
            of_catalog: false,
            encoding: Encoding::Utf8,
        };
        let index = Index {
            locator: INDEX,
            shape: Arc::new(shape),
            pool,
            wal,
            logged: false,
            known: Arc::default(),
            shared: Arc::new(SharedIndexes::new(Arc::clone(&xacts))),
            failure: Arc::new(NoFailure),
        };
        drop(io);
        let fixture = Arc::new(Fixture { aio, xacts, index, _dir: dir });
        fixture.index.create(&mut fixture.backend()).unwrap();
        fixture
    }

    fn backend(&self) -> Backend {
        Backend::new(self.aio.backend(BackendType::Client).unwrap())
    }

    fn insert(&self, backend: &mut Backend, n: u32, place: u16, unique: bool) -> Insertion {
        let key = format!("{n:04}{}", "x".repeat(KEY_LENGTH));
        let place = ItemPointer::new(n, place);
        let tuple = form_index_tuple(&self.index.shape, &[Datum::text(&key)], place).unwrap();
        let unique = UniqueCheck::of(unique);
        let row = NewRow { tuple: &tuple, xid: 3, unique, unchanged: false };
        self.index.insert(backend, &mut AllLive, row).unwrap()
    }

    /// The numbers of all keys. Those that were there before must be in order. Others need not be:
    /// when a leaf is deleted that the scan has read, its keys belong to the next one. A scan by a
    /// snapshot does not see their rows.
    fn scan_beside_others(
        &self,
        backend: &mut Backend,
        direction: Direction,
        before: impl Fn(u32) -> bool,
    ) -> BTreeSet<u32> {
        let mut cursor = IndexCursor::new(self.index.scan(Vec::new(), BatchOptions::default()));
        let mut found = Vec::new();
        while let Some(place) = cursor.next(backend, direction).unwrap() {
            found.push(place.block);
        }
        let known = found.iter().filter(|&&n| before(n));
        let ordered = match direction {
            Direction::Forward => known.is_sorted_by(|a, b| a < b),
            Direction::Backward => known.is_sorted_by(|a, b| a > b),
        };
        assert!(ordered, "{direction:?}: {found:?}");
        found.into_iter().collect()
    }

    /// The numbers of all keys, which must be in order.
    fn scan(&self, backend: &mut Backend, direction: Direction) -> BTreeSet<u32> {
        self.scan_beside_others(backend, direction, |_| true)
    }

    /// Removes keys. Returns the number of pages deleted.
    fn vacuum(&self, backend: &mut Backend, dead: &BTreeSet<u32>) -> u32 {
        let interrupt = Interrupt::new();
        let stream = StreamSettings::new(1, 1);
        let job = IndexVacuumJob { stream, strategy: Strategy::Normal, interrupt: &interrupt };
        let mut stats = IndexVacuumStats::default();
        let pace = &mut |_: &mut Backend, _: PageCost| Ok(());
        let is_dead = |place: ItemPointer| dead.contains(&place.block);
        self.index.bulk_delete(backend, &job, &is_dead, pace, &mut stats).unwrap();
        self.index.vacuum_cleanup(backend, &job, pace, &mut stats).unwrap();
        stats.newly_deleted
    }

    /// Lets transactions begin and end, so that pages deleted before may be used again.
    fn end_transactions(&self, backend: &mut Backend) {
        for _ in 0..2 {
            let mut tx = Transaction::new();
            self.xacts.assign(&mut backend.io, &mut tx).unwrap();
            self.xacts.commit(&mut backend.io, &mut tx).unwrap();
        }
    }
}

fn spawn(
    fixture: &Arc<Fixture>,
    run: impl FnOnce(&Fixture, &mut Backend) + Send + 'static,
) -> thread::JoinHandle<()> {
    let fixture = Arc::clone(fixture);
    thread::spawn(move || run(&fixture, &mut fixture.backend()))
}

fn each(scenario: fn(Arc<Fixture>)) {
    let rounds = forebay_testkit::env::shuttle_rounds(60);
    // Changes of a page are prepared in copies on the stack.
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    let random = RandomScheduler::new(rounds);
    Runner::new(random, config.clone()).run(move || scenario(Fixture::new()));
    let preempting = PctScheduler::new(3, rounds);
    Runner::new(preempting, config).run(move || scenario(Fixture::new()));
}

#[test]
fn scans_see_what_was_there_while_pages_split() {
    each(|fixture| {
        let before: BTreeSet<u32> = (0..6).map(|n| n * 100).collect();
        let mut backend = fixture.backend();
        for &n in &before {
            assert_eq!(fixture.insert(&mut backend, n, 1, false), Insertion::Done);
        }
        let writers = [210, 255].map(|from| {
            spawn(&fixture, move |fixture, backend| {
                for n in [from, from + 20, from + 10, from - 90] {
                    assert_eq!(fixture.insert(backend, n, 1, false), Insertion::Done);
                }
            })
        });
        let scans = [Direction::Forward, Direction::Backward].map(|direction| {
            let before = before.clone();
            spawn(&fixture, move |fixture, backend| {
                let found = fixture.scan(backend, direction);
                assert!(before.is_subset(&found), "{direction:?}: {found:?}");
            })
        });
        writers.into_iter().chain(scans).for_each(|thread| thread.join().unwrap());
        for direction in [Direction::Forward, Direction::Backward] {
            assert_eq!(fixture.scan(&mut backend, direction).len(), 6 + 8);
        }
    });
}

#[test]
fn one_of_those_who_insert_a_key_succeeds() {
    each(|fixture| {
        let won = Arc::new(Mutex::new(Vec::new()));
        let threads = [1, 2, 3].map(|place| {
            let won = Arc::clone(&won);
            spawn(&fixture, move |fixture, backend| {
                for n in [3, 1, 2, 5, 4] {
                    if fixture.insert(backend, n, place, true) == Insertion::Done {
                        won.lock().push(n);
                    }
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut won = won.lock().clone();
        won.sort_unstable();
        assert_eq!(won, [1, 2, 3, 4, 5]);
        let found = fixture.scan(&mut fixture.backend(), Direction::Forward);
        assert_eq!(found.len(), 5);
    });
}

#[test]
fn scans_and_insertions_go_on_while_pages_are_deleted() {
    each(|fixture| {
        let mut backend = fixture.backend();
        let all: BTreeSet<u32> = (0..9).map(|n| n * 100).collect();
        for &n in &all {
            fixture.insert(&mut backend, n, 1, false);
        }
        let dead: BTreeSet<u32> = (1..7).map(|n| n * 100).collect();
        let kept: BTreeSet<u32> = all.difference(&dead).copied().collect();
        let vacuum = {
            let dead = dead.clone();
            spawn(&fixture, move |fixture, backend| {
                fixture.vacuum(backend, &dead);
            })
        };
        let writer = spawn(&fixture, |fixture, backend| {
            for n in [350, 360, 110, 370] {
                assert_eq!(fixture.insert(backend, n, 1, false), Insertion::Done);
            }
        });
        let scans = [Direction::Forward, Direction::Backward].map(|direction| {
            let kept = kept.clone();
            spawn(&fixture, move |fixture, backend| {
                let before = |n| n % 100 == 0;
                let found = fixture.scan_beside_others(backend, direction, before);
                assert!(kept.is_subset(&found), "{direction:?}: {found:?}");
            })
        });
        [vacuum, writer].into_iter().chain(scans).for_each(|thread| thread.join().unwrap());
        let wanted: BTreeSet<u32> = kept.into_iter().chain([350, 360, 110, 370]).collect();
        for direction in [Direction::Forward, Direction::Backward] {
            assert_eq!(fixture.scan(&mut backend, direction), wanted);
        }
    });
}

/// A scan that holds a link to a deleted page finds it as it was: its snapshot keeps the page from
/// being used again.
#[test]
fn deleted_pages_are_used_again_while_scans_go_on() {
    each(|fixture| {
        let mut backend = fixture.backend();
        let all: BTreeSet<u32> = (0..9).map(|n| n * 100).collect();
        for &n in &all {
            fixture.insert(&mut backend, n, 1, false);
        }
        let dead: BTreeSet<u32> = (1..7).map(|n| n * 100).collect();
        let kept: BTreeSet<u32> = all.difference(&dead).copied().collect();
        let new = [710, 720, 730, 10, 20, 740];
        let others = spawn(&fixture, move |fixture, backend| {
            fixture.vacuum(backend, &dead);
            fixture.end_transactions(backend);
            // Enters the pages in the map.
            fixture.vacuum(backend, &BTreeSet::new());
            for n in new {
                assert_eq!(fixture.insert(backend, n, 1, false), Insertion::Done);
            }
        });
        let scans = [Direction::Forward, Direction::Backward].map(|direction| {
            let kept = kept.clone();
            spawn(&fixture, move |fixture, backend| {
                let _snapshot = fixture.xacts.snapshot(&Transaction::new());
                let before = |n| n % 100 == 0;
                let found = fixture.scan_beside_others(backend, direction, before);
                assert!(kept.is_subset(&found), "{direction:?}: {found:?}");
            })
        });
        std::iter::once(others).chain(scans).for_each(|thread| thread.join().unwrap());
        let wanted: BTreeSet<u32> = kept.into_iter().chain(new).collect();
        for direction in [Direction::Forward, Direction::Backward] {
            assert_eq!(fixture.scan(&mut backend, direction), wanted);
        }
    });
}

#[test]
fn a_vacuum_finds_items_that_move_to_pages_behind_it() {
    each(|fixture| {
        let mut backend = fixture.backend();
        for n in 0..12 {
            fixture.insert(&mut backend, n * 100, 1, false);
        }
        let first: BTreeSet<u32> = (0..8).map(|n| n * 100).collect();
        assert!(fixture.vacuum(&mut backend, &first) > 1);
        fixture.end_transactions(&mut backend);
        // Enters the pages in the map.
        fixture.vacuum(&mut backend, &BTreeSet::new());
        let dead: BTreeSet<u32> = [900, 1000, 1100].into();
        let vacuum = {
            let dead = dead.clone();
            spawn(&fixture, move |fixture, backend| {
                fixture.vacuum(backend, &dead);
            })
        };
        let writer = spawn(&fixture, |fixture, backend| {
            for n in [950, 1050, 960] {
                fixture.insert(backend, n, 1, false);
            }
        });
        [vacuum, writer].into_iter().for_each(|thread| thread.join().unwrap());
        let found = fixture.scan(&mut backend, Direction::Forward);
        assert_eq!(found, [800, 950, 960, 1050].into());
    });
}
