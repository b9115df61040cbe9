//! The pool's protocols in interleavings that shuttle chooses: pins and evictions, joined and
//! failed reads, write-outs and changes, waiters for locks and buffers, extension, dropping the
//! pool, reading back written pages ([`readback`]), and changing the pool's size ([`resize`]).
//!
//! The tests exist only in a shuttle build:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p forebay-storage --test interleavings \
//!     --target-dir target/shuttle
//! ```
//!
//! FOREBAY_SHUTTLE_ROUNDS sets the number of interleavings of each scenario. A failing one prints a
//! schedule, which `shuttle::replay` repeats. The files are real, and their calls never block. A
//! thread that is never woken shows as a deadlock. Each written page is examined before and after
//! the transfer: it has the right checksum, and does not change.
#![cfg(shuttle)]

#[path = "../shared/alone.rs"]
mod alone;
mod readback;
mod resize;

use std::sync::OnceLock;

use alone::alone;
use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use forebay_aio::sync::{Arc, thread};
use forebay_aio::{
    Aio, AioConfig, BackendType, Deferred, Errno, HugePages, IoMemory, OpKind, PosixNamespace,
    Region, WorkerLimits, probe_direct,
};
use forebay_format::{BLOCK_SIZE, Fork, PageBytes, PageMut, PageTag, RelFileLocator, checksum};
use forebay_storage::{
    Backend, BufferPool, Cleaner, CleanerOptions, ExtendMethod, PageWriteGuard, Pinned, PoolConfig,
    ReadStream, Smgr, SmgrConfig, StorageError, Strategy, StreamFlags, StreamSettings,
    WriteOptions, WriteScope, WriteStream,
};
use shuttle::rand::{Rng as _, thread_rng};

const REL: RelFileLocator = RelFileLocator::in_default(5, 16_384);
const BLOCKS: u32 = 20;
const BUFFERS: u32 = 16;
/// How often an I/O lets other threads run at most, before and after it is done.
const SLOWEST: u32 = 60;
/// The two offsets of the test's number on a page.
const AT: [usize; 2] = [64, 8100];

/// A watched disk. Reads and writes fail as often as requested, and pages must not change during
/// their write.
#[derive(Default)]
struct Watched {
    failing_reads: AtomicUsize,
    failing_writes: AtomicUsize,
    /// Writes to be acknowledged without being done.
    losing_writes: AtomicUsize,
}

impl Executor for Watched {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let fails = |n: usize| n.checked_sub(1);
        let failing = match request.op() {
            OpKind::Readv => Some(&self.failing_reads),
            OpKind::Writev => Some(&self.failing_writes),
            _ => None,
        };
        if failing.is_some_and(|failing| failing.fetch_update(SeqCst, SeqCst, fails).is_ok()) {
            return Err(Errno::IO);
        }
        let before = written(request);
        let loses = |n: usize| if request.op() == OpKind::Writev { n.checked_sub(1) } else { None };
        if self.losing_writes.fetch_update(SeqCst, SeqCst, loses).is_ok() {
            return Ok(before.len() * BLOCK_SIZE);
        }
        take_a_while();
        let done = PosixExecutor.execute(request);
        take_a_while();
        assert!(before == written(request), "a page was changed while it was written");
        done
    }
}

/// Lets other threads run as long as shuttle chooses.
fn take_a_while() {
    (0..thread_rng().gen_range(1..=SLOWEST)).for_each(|_| thread::yield_now());
}

/// The pages of a write, with right checksums.
fn written(request: &Request<'_>) -> Vec<PageBytes> {
    let mut pages = Vec::new();
    if request.op() != OpKind::Writev {
        return pages;
    }
    for vector in request.vectors() {
        for at in (0..vector.len()).step_by(BLOCK_SIZE) {
            // SAFETY: the request's memory is valid until the attempt returns, and pages do not
            // change during their write.
            let page: PageBytes = unsafe { vector.ptr().add(at).cast::<PageBytes>().read() };
            let block = (request.offset() as usize / BLOCK_SIZE + pages.len()) as u32;
            checksum::verify_page(&page, block).expect("what is written is a page");
            pages.push(page);
        }
    }
    pages
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Workers(usize),
    Deferred,
}

struct Fixture {
    dir: tempfile::TempDir,
    aio: Arc<Aio>,
    pool: Arc<BufferPool>,
    disk: Arc<Watched>,
}

impl Fixture {
    /// Makes a relation of [`BLOCKS`] pages with numbers of their own, none of them in memory.
    fn new(who: Who) -> Arc<Fixture> {
        let memory = std::path::Path::new("/dev/shm");
        // Reading back needs direct I/O, which some in-memory file systems do not support.
        let fits = memory.is_dir() && probe_direct(memory).is_ok();
        let dir = if fits { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        std::fs::create_dir_all(dir.path().join("base/5")).unwrap();
        std::fs::write(dir.path().join(REL.segment_path(Fork::Main, 0)), relation()).unwrap();
        let names = Arc::new(PosixNamespace::new());
        let disk = Arc::new(Watched::default());
        let config = AioConfig { max_backends: 4, handles_per_backend: 4, ..AioConfig::default() };
        let executor: Arc<dyn Executor> = Arc::<Watched>::clone(&disk);
        let aio = match who {
            Who::Workers(n) => Aio::with_workers(names, executor, config, WorkerLimits::fixed(n)),
            Who::Deferred => {
                Aio::with_method(names, executor, config, |t| Ok(Deferred::new(seed()).over(t)))
            }
        }
        .unwrap();
        let config = SmgrConfig { verify_writes: true, ..SmgrConfig::default() };
        let smgr = Smgr::new(Arc::clone(&aio), dir.path(), config);
        let config = PoolConfig {
            buffers: BUFFERS as usize,
            max_buffers: 64,
            combine_limit: 4,
            huge_pages: HugePages::Off,
            ..PoolConfig::default()
        };
        let pool = BufferPool::new(config, Arc::clone(&aio), smgr).unwrap();
        Arc::new(Fixture { dir, aio, pool, disk })
    }

    fn backend(&self) -> Backend {
        Backend::new(self.aio.backend(BackendType::Client).unwrap())
    }

    fn read(&self, backend: &mut Backend, block: u32) -> Pinned {
        self.pool.read(backend, tag(block), Strategy::Normal).unwrap()
    }

    /// Pins pages 0 to `n`, without counting for a backend.
    fn pin(&self, n: u32) -> Vec<Pinned> {
        let mut backend = self.backend();
        let pin = |block| {
            drop(self.read(&mut backend, block));
            self.pool.lookup(&tag(block)).unwrap()
        };
        (0..n).map(pin).collect()
    }

    fn on_disk(&self, block: u32) -> u64 {
        let bytes = std::fs::read(self.dir.path().join(REL.segment_path(Fork::Main, 0))).unwrap();
        let page: &PageBytes = bytes.as_chunks().0.get(block as usize).unwrap();
        checksum::verify_page(page, block).unwrap();
        number(page)
    }
}

fn relation() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut bytes = Vec::new();
        for block in 0..BLOCKS {
            let mut page = [0; BLOCK_SIZE];
            PageMut(&mut page).init(0);
            set_number(&mut page, u64::from(block));
            checksum::set_checksum(&mut page, block);
            bytes.extend_from_slice(&page);
        }
        bytes
    })
}

fn tag(block: u32) -> PageTag {
    PageTag::new(REL, Fork::Main, block)
}

fn number(page: &PageBytes) -> u64 {
    let [a, b] = AT.map(|at| u64::from_le_bytes(page[at..at + 8].try_into().unwrap()));
    assert_eq!(a, b, "a page half changed");
    a
}

fn set_number(page: &mut PageBytes, number: u64) {
    AT.iter().for_each(|&at| page[at..at + 8].copy_from_slice(&number.to_le_bytes()));
}

/// Adds one in two steps, between which other threads run.
fn add_one(mut page: PageWriteGuard<'_>) {
    let next = number(&page) + 1;
    page.mark_dirty();
    page[AT[0]..][..8].copy_from_slice(&next.to_le_bytes());
    thread::yield_now();
    page[AT[1]..][..8].copy_from_slice(&next.to_le_bytes());
}

/// A random seed from the scheduler, so that it is repeated with the schedule.
fn seed() -> u64 {
    thread_rng().r#gen()
}

fn rounds() -> usize {
    forebay_testkit::env::shuttle_rounds(150)
}

/// Runs a scenario over each method, in random interleavings and in ones with few, well-placed
/// preemptions.
fn each(scenario: fn(Arc<Fixture>)) {
    for who in [Who::Workers(1), Who::Deferred] {
        eprintln!("over {who:?}");
        shuttle::check_random(move || scenario(Fixture::new(who)), rounds());
        shuttle::check_pct(move || scenario(Fixture::new(who)), rounds(), 3);
    }
}

fn spawn(
    fixture: &Arc<Fixture>,
    run: impl FnOnce(&Fixture) + Send + 'static,
) -> thread::JoinHandle<()> {
    let fixture = Arc::clone(fixture);
    thread::spawn(move || run(&fixture))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_pinned_page_is_the_requested_one() {
    each(|fixture| {
        // Two buffers are left for four pages.
        let kept = fixture.pin(BUFFERS - 2);
        let users = [[16, 17, 16], [17, 18, 16]].map(|blocks| {
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                for block in blocks {
                    let pin = fixture.read(&mut backend, block);
                    assert_eq!(pin.tag(), tag(block));
                    assert_eq!(number(&pin.lock_shared().copy()), u64::from(block));
                }
            })
        });
        join(users);
        drop(kept);
        assert_eq!(
            fixture.pool.evict_all(&mut fixture.backend()).unwrap(),
            0,
            "all pins were released"
        );
    });
}

/// Pages come, are used again while others look for victims, move between the queue and the clock,
/// and leave; some are dirty, and some of their reads and writes are in progress.
#[test]
fn pages_move_between_queue_and_clock_without_getting_lost() {
    each(|fixture| {
        let kept = fixture.pin(BUFFERS - 4);
        let users = [
            ([16, 17, 16, 18], Strategy::Normal),
            ([17, 19, 18, 17], Strategy::BulkRead),
            ([19, 16, 19, 12], Strategy::VACUUM),
        ]
        .map(|(blocks, strategy)| {
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                for block in blocks {
                    let pin = fixture.pool.read(&mut backend, tag(block), strategy).unwrap();
                    assert_eq!(pin.tag(), tag(block));
                    if block == 16 {
                        add_one(pin.lock_exclusive());
                    } else {
                        assert_eq!(number(&pin.lock_shared().copy()), u64::from(block));
                    }
                }
            })
        });
        join(users);
        drop(kept);
        let mut backend = fixture.backend();
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        assert_eq!(fixture.on_disk(16), 16 + 3);
        assert!(fixture.pool.has_sound_places());
        assert_eq!(fixture.pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
    });
}

#[test]
fn changes_survive_eviction() {
    each(|fixture| {
        let kept = fixture.pin(BUFFERS - 2);
        let users = [[16, 17], [18, 16]].map(|blocks| {
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                blocks
                    .iter()
                    .for_each(|&block| add_one(fixture.read(&mut backend, block).lock_exclusive()));
            })
        });
        join(users);
        drop(kept);
        fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap();
        assert_eq!([16, 17, 18].map(|block| fixture.on_disk(block)), [18, 18, 19]);
    });
}

#[test]
fn a_failed_read_is_repeated_by_its_joiners() {
    each(|fixture| three_readers(&fixture, 1));
    each(|fixture| three_readers(&fixture, usize::MAX));
}

/// Three readers of a page whose first `failing` reads fail. At most one reader gets each failure;
/// none does if another one has read the page before the issuer looks.
fn three_readers(fixture: &Arc<Fixture>, failing: usize) {
    fixture.disk.failing_reads.store(failing, SeqCst);
    let failed = Arc::new(AtomicUsize::new(0));
    let users: [_; 3] = std::array::from_fn(|_| {
        let failed = Arc::clone(&failed);
        spawn(fixture, move |fixture| {
            match fixture.pool.read(&mut fixture.backend(), tag(3), Strategy::Normal) {
                Ok(pin) => assert_eq!(number(&pin.lock_shared().copy()), 3),
                Err(StorageError::Read { block: 3, .. }) => drop(failed.fetch_add(1, SeqCst)),
                Err(other) => panic!("{other}"),
            }
        })
    });
    join(users);
    let failed = failed.load(SeqCst);
    assert!(failed <= failing && (failing == 1 || failed == 3), "{failed} of {failing}");
    assert_eq!(fixture.pool.evict_all(&mut fixture.backend()).unwrap(), 0);
}

#[test]
fn a_page_is_changed_read_and_written_in_turns() {
    each(|fixture| {
        let changers: [_; 2] = std::array::from_fn(|_| {
            spawn(&fixture, |fixture| {
                let pin = fixture.read(&mut fixture.backend(), 2);
                add_one(pin.lock_exclusive());
                add_one(pin.lock_exclusive());
            })
        });
        let writer = spawn(&fixture, |fixture| {
            let mut backend = fixture.backend();
            fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
            let pin = fixture.read(&mut backend, 2);
            let held = pin.lock_share_exclusive();
            let now = number(&held);
            thread::yield_now();
            assert_eq!(number(&pin.lock_shared().copy()), now);
            assert_eq!(number(&held), now);
        });
        let pin = fixture.read(&mut fixture.backend(), 2);
        number(&pin.lock_shared().copy());
        number(&pin.lock_shared().copy());
        join(changers.into_iter().chain([writer]));
        fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap();
        assert_eq!(fixture.on_disk(2), 6);
    });
}

#[test]
fn a_failed_write_leaves_the_page_dirty_and_free() {
    each(|fixture| {
        fixture.disk.failing_writes.store(1, SeqCst);
        let pin = fixture.read(&mut fixture.backend(), 2);
        add_one(pin.lock_exclusive());
        let failed = Arc::new(AtomicUsize::new(0));
        let writers: [_; 2] = std::array::from_fn(|_| {
            let failed = Arc::clone(&failed);
            spawn(&fixture, move |fixture| {
                match fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All) {
                    Ok(_) => {}
                    Err(StorageError::Write { block: 2, .. }) => drop(failed.fetch_add(1, SeqCst)),
                    Err(other) => panic!("{other}"),
                }
            })
        });
        number(&pin.lock_shared().copy());
        add_one(pin.lock_exclusive());
        join(writers);
        assert_eq!(failed.load(SeqCst), 1);
        fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap();
        assert!(!pin.is_dirty());
        assert_eq!(fixture.on_disk(2), 4);
    });
}

/// A pass, the cleaner and two backends that need buffers write the dirty pages of a full pool, and
/// one write fails. No thread waits forever, and no change is lost.
#[test]
fn concurrent_writers_share_the_dirty_pages() {
    each(|fixture| {
        let mut backend = fixture.backend();
        for block in 0..BUFFERS {
            let pin = fixture.read(&mut backend, block);
            add_one(pin.lock_exclusive());
        }
        drop(backend);
        fixture.disk.failing_writes.store(1, SeqCst);
        fn hears_of_writes_only<T>(result: Result<T, StorageError>) {
            assert!(
                matches!(result, Ok(_) | Err(StorageError::Write { .. })),
                "{:?}",
                result.err()
            );
        }
        let pass = spawn(&fixture, |fixture| {
            hears_of_writes_only(fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All));
        });
        let cleaner = spawn(&fixture, |fixture| {
            let (mut backend, options) = (fixture.backend(), CleanerOptions::default());
            let mut cleaner = Cleaner::default();
            (0..2).for_each(|_| {
                hears_of_writes_only(cleaner.step(&fixture.pool, &mut backend, &options))
            });
        });
        let users = [[16, 2, 17], [18, 3, 16]].map(|blocks| {
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                for block in blocks {
                    match fixture.pool.read(&mut backend, tag(block), Strategy::Normal) {
                        Ok(pin) => assert!(number(&pin.lock_shared().copy()) >= u64::from(block)),
                        Err(error) => hears_of_writes_only(Err::<(), _>(error)),
                    }
                }
            })
        });
        join([pass, cleaner].into_iter().chain(users));
        let mut backend = fixture.backend();
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        assert_eq!(fixture.pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
        (0..BLOCKS).for_each(|block| {
            assert_eq!(fixture.on_disk(block), u64::from(block + u32::from(block < BUFFERS)))
        });
    });
}

/// A stream waits for a page that a backend changes, which needs another page of the stream.
#[test]
fn a_stream_and_a_backend_that_changes_several_pages_do_not_deadlock() {
    each(|fixture| {
        let mut backend = fixture.backend();
        for block in 0..6 {
            let pin = fixture.read(&mut backend, block);
            add_one(pin.lock_exclusive());
        }
        drop(backend);
        let changers = [[4, 1], [2, 0]].map(|blocks| {
            spawn(&fixture, move |fixture| {
                let [first, second] = blocks.map(|block| fixture.pool.lookup(&tag(block)).unwrap());
                let held = first.lock_exclusive();
                add_one(second.lock_exclusive());
                add_one(held);
            })
        });
        let mut backend = fixture.backend();
        let mut stream = WriteStream::new(&fixture.pool, WriteOptions::checkpoint(&fixture.pool));
        for block in 0..6 {
            if let Some(pin) = fixture.pool.lookup(&tag(block)) {
                stream.push(&mut backend, pin).unwrap();
            }
        }
        stream.finish(&mut backend).unwrap();
        drop(backend);
        join(changers);
        fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap();
        let changed_again = |block| u64::from([4, 1, 2, 0].contains(&block));
        (0..6).for_each(|block| {
            assert_eq!(fixture.on_disk(block), u64::from(block) + 1 + changed_again(block))
        });
    });
}

#[test]
fn streams_share_a_small_pool_and_their_reads() {
    each(|fixture| {
        let kept = fixture.pin(BUFFERS - 6);
        let users: [_; 2] = std::array::from_fn(|n| {
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                let mut blocks = 11 + n as u32..17 + n as u32;
                let mut expected = blocks.clone();
                let next = || blocks.next();
                let (strategy, flags) = (Strategy::Normal, StreamFlags::FULL);
                let mut stream = ReadStream::new(
                    &fixture.pool,
                    REL,
                    Fork::Main,
                    next,
                    flags,
                    strategy,
                    StreamSettings::new(2, 4),
                );
                while let Some(pin) = stream.next(&mut backend).unwrap() {
                    let block = expected.next().unwrap();
                    assert_eq!(number(&pin.lock_shared().copy()), u64::from(block));
                    if n == 0 && block == 14 {
                        return; // With reads in flight.
                    }
                }
                assert_eq!(expected.next(), None);
            })
        });
        join(users);
        drop(kept);
        assert_eq!(
            fixture.pool.evict_all(&mut fixture.backend()).unwrap(),
            0,
            "all pins were released"
        );
    });
}

#[test]
fn continuous_readers_let_a_writer_through() {
    each(|fixture| {
        let before = fixture.pin(5).pop().unwrap();
        let held = before.lock_shared();
        let users = spawn(&fixture, |fixture| {
            let pin = fixture.pool.lookup(&tag(4)).unwrap();
            add_one(pin.lock_exclusive());
        });
        // A waiting writer keeps all other locks out: once that is so, it is the next holder.
        let waits = before.try_lock_share_exclusive().is_none();
        let reader = spawn(&fixture, move |fixture| {
            let pin = fixture.pool.lookup(&tag(4)).unwrap();
            let seen = number(&pin.lock_shared().copy());
            assert!(seen == 5 || !waits && seen == 4, "a reader passed a waiting writer");
        });
        drop(held);
        join([users, reader]);
    });
}

#[test]
fn the_cleanup_lock_is_granted_once_all_other_pins_are_gone() {
    each(|fixture| {
        let mine = fixture.pin(1).pop().unwrap();
        add_one(mine.lock_exclusive());
        let others = [mine.clone(), mine.clone()];
        let counted = Arc::new(AtomicUsize::new(2));
        let holders = others.map(|pin| {
            let counted = Arc::clone(&counted);
            spawn(&fixture, move |_| {
                number(&pin.lock_shared().copy());
                counted.fetch_sub(1, SeqCst);
                drop(pin);
            })
        });
        let writer = spawn(&fixture, |fixture| {
            fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap();
        });
        let page = alone(&mine).unwrap();
        assert_eq!(counted.load(SeqCst), 0, "another thread still has a pin");
        add_one(page);
        join(holders.into_iter().chain([writer]));
        assert!(mine.try_lock_cleanup().is_some());
    });
}

#[test]
fn a_backend_that_waits_for_a_buffer_gets_the_first_free_one() {
    each(|fixture| {
        let mut kept = fixture.pin(BUFFERS);
        let waiters = [17, 18].map(|block| {
            spawn(&fixture, move |fixture| {
                let pin = fixture.read(&mut fixture.backend(), block);
                assert_eq!(number(&pin.lock_shared().copy()), u64::from(block));
            })
        });
        drop(kept.pop());
        join(waiters);
        drop(kept);
        assert_eq!(fixture.pool.evict_all(&mut fixture.backend()).unwrap(), 0);
    });
}

#[test]
fn more_backends_than_the_pool_has_room_for_all_finish() {
    each(|fixture| {
        let kept = fixture.pin(BUFFERS - 4);
        let users = [16, 17, 18].map(|block| {
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                let first = fixture.read(&mut backend, block);
                let second = fixture.read(&mut backend, 12 + block % 3);
                assert_ne!(first.buffer(), second.buffer());
            })
        });
        join(users);
        drop(kept);
        assert_eq!(fixture.pool.evict_all(&mut fixture.backend()).unwrap(), 0);
    });
}

#[test]
fn each_new_page_is_given_to_one_backend_and_may_be_read_at_once() {
    each(|fixture| {
        let made = Arc::new(AtomicUsize::new(0));
        let users: [_; 2] = std::array::from_fn(|_| {
            let made = Arc::clone(&made);
            spawn(&fixture, move |fixture| {
                let mut backend = fixture.backend();
                let pins = fixture
                    .pool
                    .extend(&mut backend, REL, Fork::Main, 2, Strategy::Normal)
                    .unwrap();
                for pin in &pins {
                    let mut page = pin.lock_exclusive();
                    assert!(page.page().is_all_zeros(), "given to two");
                    page.page_mut().init(0);
                    page.mark_dirty();
                    made.fetch_add(1, SeqCst);
                }
                drop(pins);
                let last = fixture.pool.nblocks(REL, Fork::Main).unwrap() - 1;
                let pin = fixture.read(&mut backend, last);
                let page = pin.lock_shared();
                assert!(page.page().is_all_zeros() || page.page().header_is_sane());
            })
        });
        join(users);
        let n = fixture.pool.nblocks(REL, Fork::Main).unwrap();
        assert_eq!(n as usize, BLOCKS as usize + made.load(SeqCst));
        fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap();
        (BLOCKS..n).for_each(|block| assert_eq!(fixture.on_disk(block), 0));
    });
}

#[test]
fn concurrent_extensions_get_pages_of_their_own_or_the_error() {
    for failing in [0, 1, 3] {
        each(match failing {
            0 => |fixture| three_extend(&fixture, 0),
            1 => |fixture| three_extend(&fixture, 1),
            _ => |fixture| three_extend(&fixture, 3),
        });
    }
}

/// Three concurrent extensions that write zeros. The first `failing` writes fail: the one for all
/// queued requests, or those of single ones.
fn three_extend(fixture: &Arc<Fixture>, failing: usize) {
    fixture.pool.smgr().set_extend_method(ExtendMethod::WriteZeros);
    fixture.disk.failing_writes.store(failing, SeqCst);
    let made = Arc::new(AtomicUsize::new(0));
    let failed = Arc::new(AtomicUsize::new(0));
    let users = [1, 2, 1].map(|n| {
        let (made, failed) = (Arc::clone(&made), Arc::clone(&failed));
        spawn(fixture, move |fixture| {
            match fixture.pool.extend(&mut fixture.backend(), REL, Fork::Main, n, Strategy::Normal)
            {
                Ok(pins) => {
                    for pin in &pins {
                        let mut page = pin.lock_exclusive();
                        assert!(
                            pin.tag().block >= BLOCKS && page.page().is_all_zeros(),
                            "given to two"
                        );
                        page.page_mut().init(0);
                        page.mark_dirty();
                        made.fetch_add(1, SeqCst);
                    }
                    assert!(!pins.is_empty() && pins.len() <= n as usize);
                }
                Err(StorageError::Extend { .. }) => drop(failed.fetch_add(1, SeqCst)),
                Err(other) => panic!("{other}"),
            }
        })
    });
    join(users);
    assert!(failed.load(SeqCst) <= failing);
    let n = fixture.pool.nblocks(REL, Fork::Main).unwrap();
    assert_eq!(n as usize, BLOCKS as usize + made.load(SeqCst));
    let file = fixture.dir.path().join(REL.segment_path(Fork::Main, 0));
    assert_eq!(std::fs::metadata(file).unwrap().len(), u64::from(n) * BLOCK_SIZE as u64);
    fixture.disk.failing_writes.store(0, SeqCst);
    fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap();
    (BLOCKS..n).for_each(|block| assert_eq!(fixture.on_disk(block), 0));
    assert_eq!(
        fixture.pool.evict_all(&mut fixture.backend()).unwrap(),
        0,
        "all buffers were given back"
    );
}

#[test]
fn a_truncation_waits_for_writes_past_the_pool() {
    each(|fixture| {
        let writer = spawn(&fixture, |fixture| {
            let region = Region::new(4 * BLOCK_SIZE).unwrap();
            // SAFETY: nobody else knows the region yet.
            unsafe { region.ptr(0).copy_from(relation()[2 * BLOCK_SIZE..].as_ptr(), region.len()) };
            let memory = IoMemory::new(region, 0, 4 * BLOCK_SIZE);
            match fixture.pool.smgr().write_blocks(
                &mut fixture.backend().io,
                REL,
                Fork::Main,
                2,
                &memory,
            ) {
                Ok(()) | Err(StorageError::WritePastEnd { block: 4, size: 4, .. }) => {}
                Err(other) => panic!("{other}"),
            }
        });
        let reader = spawn(&fixture, |fixture| {
            let region = Region::new(4 * BLOCK_SIZE).unwrap();
            let memory = IoMemory::new(region, 0, 4 * BLOCK_SIZE);
            let (smgr, io) = (fixture.pool.smgr(), &mut fixture.backend().io);
            let read = smgr.start_read(io, REL, Fork::Main, 2, &memory);
            match read.and_then(|read| smgr.finish(io, read)) {
                Ok(()) | Err(StorageError::ShortRead { block: 4, .. }) => {}
                Err(other) => panic!("{other}"),
            }
        });
        fixture.pool.truncate(&mut fixture.backend(), REL, Fork::Main, 4).unwrap();
        let len = || {
            std::fs::metadata(fixture.dir.path().join(REL.segment_path(Fork::Main, 0)))
                .unwrap()
                .len()
        };
        assert_eq!(len(), 4 * BLOCK_SIZE as u64);
        join([writer, reader]);
        assert_eq!(len(), 4 * BLOCK_SIZE as u64, "written past the end");
    });
}

#[test]
fn truncated_pages_are_gone_and_not_written() {
    each(|fixture| {
        drop(fixture.pin(8));
        let pin = fixture.read(&mut fixture.backend(), 6);
        add_one(pin.lock_exclusive());
        let writer = spawn(&fixture, |fixture| {
            fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap();
        });
        let reader = spawn(&fixture, move |_| {
            number(&pin.lock_shared().copy());
            drop(pin);
        });
        fixture.pool.truncate(&mut fixture.backend(), REL, Fork::Main, 4).unwrap();
        assert!((4..8).all(|block| fixture.pool.lookup(&tag(block)).is_none()));
        join([writer, reader]);
        assert_eq!(fixture.pool.nblocks(REL, Fork::Main).unwrap(), 4);
        let file = fixture.dir.path().join(REL.segment_path(Fork::Main, 0));
        assert_eq!(
            std::fs::metadata(file).unwrap().len(),
            4 * BLOCK_SIZE as u64,
            "written past the end"
        );
    });
}

#[test]
fn pins_outlive_the_pool() {
    each(|fixture| {
        let pins = fixture.pin(2);
        let aio = Arc::clone(&fixture.aio);
        let users: Vec<_> = pins
            .into_iter()
            .map(|pin| {
                thread::spawn(move || {
                    let again = pin.clone();
                    assert!(number(&pin.lock_shared().copy()) < 2);
                    drop(pin);
                    assert!(number(&again.lock_exclusive()) < 2);
                })
            })
            .collect();
        // The pool's core has a weak reference.
        let before = Arc::weak_count(&aio);
        drop(fixture);
        join(users);
        assert_eq!(Arc::weak_count(&aio), before - 1, "the pool's memory was not given back");
    });
}
