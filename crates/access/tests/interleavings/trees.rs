//! B-trees in interleavings that shuttle chooses: insertions that split pages, beside each other
//! and beside scans in both directions.
//! Three keys fill a leaf, so nearly every insertion splits one.

use std::collections::BTreeSet;

use forebay_access::AccessError;
use forebay_access::heap::{PageFailure, RowFate};
use forebay_access::nbtree::{
    BatchOptions, Direction, Index, IndexCursor, IndexShape, Insertion, KeyColumn, KeyOrder,
    NewRow, TableRows, form_index_tuple,
};
use forebay_aio::sync::{Arc, Mutex, thread};
use forebay_aio::{Aio, AioConfig, BackendType, HugePages, MethodKind, PosixNamespace};
use forebay_format::{AttrLayout, Fork, ItemPointer, Lsn, RelFileLocator, SegmentSize, Xid};
use forebay_storage::{Backend, BufferPool, PoolConfig, Smgr, SmgrConfig};
use forebay_types::Datum;
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
    fn fate(&mut self, _: &mut Backend, _: ItemPointer) -> Result<RowFate, AccessError> {
        Ok(RowFate::Live)
    }

    fn newest_gone(&self) -> Xid {
        3
    }
}

struct Fixture {
    aio: Arc<Aio>,
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
        for name in ["base/5", "pg_wal"] {
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
        let shape = IndexShape {
            name: "t_idx".to_owned(),
            layouts: vec![AttrLayout::VARLENA],
            keys: vec![KeyColumn::ascending(KeyOrder::Bytes)],
            nulls_are_equal: false,
            fill_factor: 90,
            deduplicate: true,
            of_catalog: false,
        };
        let index = Index {
            locator: INDEX,
            shape: Arc::new(shape),
            pool,
            wal,
            logged: false,
            known: Arc::default(),
            failure: Arc::new(NoFailure),
        };
        drop(io);
        let fixture = Arc::new(Fixture { aio, index, _dir: dir });
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
        let row = NewRow { tuple: &tuple, xid: 3, unique };
        self.index.insert(backend, &mut AllLive, row).unwrap()
    }

    /// The numbers of all keys, which must be in order.
    fn scan(&self, backend: &mut Backend, direction: Direction) -> BTreeSet<u32> {
        let mut cursor = IndexCursor::new(self.index.scan(Vec::new(), BatchOptions::default()));
        let mut found = Vec::new();
        while let Some(place) = cursor.next(backend, direction).unwrap() {
            found.push(place.block);
        }
        let ordered = match direction {
            Direction::Forward => found.is_sorted_by(|a, b| a < b),
            Direction::Backward => found.is_sorted_by(|a, b| a > b),
        };
        assert!(ordered, "{direction:?}: {found:?}");
        found.into_iter().collect()
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
