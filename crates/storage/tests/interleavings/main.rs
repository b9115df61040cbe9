//! The pool's protocols in interleavings that shuttle chooses: pins and evictions, reads that are
//! joined or fail, write-outs and changes, the locks' waiters, waiting for a buffer, extension, the
//! pool's end; and what is written is read back ([`readback`]).
//!
//! Only a checked build has these tests:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p forebay-storage --test interleavings --target-dir target/shuttle
//! ```
//!
//! FOREBAY_SHUTTLE_ROUNDS sets how many interleavings each scenario is run in. A failing one prints
//! a schedule, which `shuttle::replay` repeats. The files are real ones, whose calls wait for
//! nobody; a thread that nobody wakes is found as a deadlock. Each page that is written is looked
//! at before and after the transfer: it has its checksum, and nobody changes it.
#![cfg(shuttle)]

mod readback;

use std::sync::OnceLock;

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
/// An I/O lets others run so many times at most, before and after it is done.
const SLOWEST: u32 = 60;
/// Where the tests' number is on a page, twice.
const AT: [usize; 2] = [64, 8100];

/// The disk, watched: reads and writes fail as often as they should, and pages stay as they are
/// while they are written.
#[derive(Default)]
struct Watched {
    failing_reads: AtomicUsize,
    failing_writes: AtomicUsize,
    /// Writes that are acknowledged and not done.
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

/// As long as shuttle chooses: long enough for a read by somebody else.
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
            // SAFETY: the request's memory is valid until the attempt returns, and nobody changes a
            // page that is written.
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

struct Bed {
    dir: tempfile::TempDir,
    aio: Arc<Aio>,
    pool: Arc<BufferPool>,
    disk: Arc<Watched>,
}

impl Bed {
    /// A relation of [`BLOCKS`] pages, each with its own number, none of them in memory.
    fn new(who: Who) -> Arc<Bed> {
        let memory = std::path::Path::new("/dev/shm");
        // Read back past the kernel's cache, which not every file system in memory is able to.
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
            combine_limit: 4,
            huge_pages: HugePages::Off,
            ..PoolConfig::default()
        };
        let pool = BufferPool::new(config, Arc::clone(&aio), smgr).unwrap();
        Arc::new(Bed { dir, aio, pool, disk })
    }

    fn backend(&self) -> Backend {
        Backend::new(self.aio.backend(BackendType::Client).unwrap())
    }

    fn read(&self, be: &mut Backend, block: u32) -> Pinned {
        self.pool.read(be, tag(block), Strategy::Normal).unwrap()
    }

    /// Pins pages 0 to `n`, as nobody in particular.
    fn pin(&self, n: u32) -> Vec<Pinned> {
        let mut be = self.backend();
        let pin = |block| {
            drop(self.read(&mut be, block));
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

/// Adds one, in two steps between which others may look.
fn add_one(mut page: PageWriteGuard<'_>) {
    let next = number(&page) + 1;
    page.mark_dirty();
    page[AT[0]..][..8].copy_from_slice(&next.to_le_bytes());
    thread::yield_now();
    page[AT[1]..][..8].copy_from_slice(&next.to_le_bytes());
}

/// The scheduler's choice, so that it is repeated with the schedule.
fn seed() -> u64 {
    thread_rng().r#gen()
}

fn rounds() -> usize {
    std::env::var("FOREBAY_SHUTTLE_ROUNDS").map_or(150, |n| n.parse().expect("a number"))
}

/// Runs a scenario over each method, in random interleavings and in ones with few, well-placed
/// preemptions.
fn each(scenario: fn(Arc<Bed>)) {
    for who in [Who::Workers(1), Who::Deferred] {
        eprintln!("over {who:?}");
        shuttle::check_random(move || scenario(Bed::new(who)), rounds());
        shuttle::check_pct(move || scenario(Bed::new(who)), rounds(), 3);
    }
}

fn spawn(bed: &Arc<Bed>, run: impl FnOnce(&Bed) + Send + 'static) -> thread::JoinHandle<()> {
    let bed = Arc::clone(bed);
    thread::spawn(move || run(&bed))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_pinned_page_is_the_one_that_was_asked_for() {
    each(|bed| {
        // Two buffers are left for four pages.
        let kept = bed.pin(BUFFERS - 2);
        let users = [[16, 17, 16], [17, 18, 16]].map(|blocks| {
            spawn(&bed, move |bed| {
                let mut be = bed.backend();
                for block in blocks {
                    let pin = bed.read(&mut be, block);
                    assert_eq!(pin.tag(), tag(block));
                    assert_eq!(number(&pin.lock_shared().copy()), u64::from(block));
                }
            })
        });
        join(users);
        drop(kept);
        assert_eq!(bed.pool.evict_all(&mut bed.backend()).unwrap(), 0, "all pins were given back");
    });
}

#[test]
fn changes_survive_eviction() {
    each(|bed| {
        let kept = bed.pin(BUFFERS - 2);
        let users = [[16, 17], [18, 16]].map(|blocks| {
            spawn(&bed, move |bed| {
                let mut be = bed.backend();
                blocks.iter().for_each(|&block| add_one(bed.read(&mut be, block).lock_exclusive()));
            })
        });
        join(users);
        drop(kept);
        bed.pool.write_dirty(&mut bed.backend(), WriteScope::All).unwrap();
        assert_eq!([16, 17, 18].map(|block| bed.on_disk(block)), [18, 18, 19]);
    });
}

#[test]
fn a_failed_read_is_done_again_for_others() {
    each(|bed| three_readers(&bed, 1));
    each(|bed| three_readers(&bed, usize::MAX));
}

/// Readers of one page, the first `failing` reads of which fail. Each failure is told to one at
/// most: to none, if another one has the page before its issuer looks.
fn three_readers(bed: &Arc<Bed>, failing: usize) {
    bed.disk.failing_reads.store(failing, SeqCst);
    let failed = Arc::new(AtomicUsize::new(0));
    let users: [_; 3] = std::array::from_fn(|_| {
        let failed = Arc::clone(&failed);
        spawn(bed, move |bed| match bed.pool.read(&mut bed.backend(), tag(3), Strategy::Normal) {
            Ok(pin) => assert_eq!(number(&pin.lock_shared().copy()), 3),
            Err(StorageError::Read { block: 3, .. }) => drop(failed.fetch_add(1, SeqCst)),
            Err(other) => panic!("{other}"),
        })
    });
    join(users);
    let failed = failed.load(SeqCst);
    assert!(failed <= failing && (failing == 1 || failed == 3), "{failed} of {failing}");
    assert_eq!(bed.pool.evict_all(&mut bed.backend()).unwrap(), 0);
}

#[test]
fn a_page_is_changed_read_and_written_by_turns() {
    each(|bed| {
        let changers: [_; 2] = std::array::from_fn(|_| {
            spawn(&bed, |bed| {
                let pin = bed.read(&mut bed.backend(), 2);
                add_one(pin.lock_exclusive());
                add_one(pin.lock_exclusive());
            })
        });
        let writer = spawn(&bed, |bed| {
            let mut be = bed.backend();
            bed.pool.write_dirty(&mut be, WriteScope::All).unwrap();
            let pin = bed.read(&mut be, 2);
            let held = pin.lock_share_exclusive();
            let now = number(&held);
            thread::yield_now();
            assert_eq!(number(&pin.lock_shared().copy()), now);
            assert_eq!(number(&held), now);
        });
        let pin = bed.read(&mut bed.backend(), 2);
        number(&pin.lock_shared().copy());
        number(&pin.lock_shared().copy());
        join(changers.into_iter().chain([writer]));
        bed.pool.write_dirty(&mut bed.backend(), WriteScope::All).unwrap();
        assert_eq!(bed.on_disk(2), 6);
    });
}

#[test]
fn a_failed_write_leaves_the_page_dirty_and_free() {
    each(|bed| {
        bed.disk.failing_writes.store(1, SeqCst);
        let pin = bed.read(&mut bed.backend(), 2);
        add_one(pin.lock_exclusive());
        let failed = Arc::new(AtomicUsize::new(0));
        let writers: [_; 2] = std::array::from_fn(|_| {
            let failed = Arc::clone(&failed);
            spawn(&bed, move |bed| {
                match bed.pool.write_dirty(&mut bed.backend(), WriteScope::All) {
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
        bed.pool.write_dirty(&mut bed.backend(), WriteScope::All).unwrap();
        assert!(!pin.is_dirty());
        assert_eq!(bed.on_disk(2), 4);
    });
}

/// A pool full of dirty pages: a pass, the cleaner and two who need buffers write them, and one
/// write fails. Nobody waits for ever, and nothing is lost.
#[test]
fn all_who_write_share_the_dirty_pages() {
    each(|bed| {
        let mut be = bed.backend();
        for block in 0..BUFFERS {
            let pin = bed.read(&mut be, block);
            add_one(pin.lock_exclusive());
        }
        drop(be);
        bed.disk.failing_writes.store(1, SeqCst);
        fn hears_of_writes_only<T>(result: Result<T, StorageError>) {
            assert!(
                matches!(result, Ok(_) | Err(StorageError::Write { .. })),
                "{:?}",
                result.err()
            );
        }
        let pass = spawn(&bed, |bed| {
            hears_of_writes_only(bed.pool.write_dirty(&mut bed.backend(), WriteScope::All));
        });
        let cleaner = spawn(&bed, |bed| {
            let (mut be, options) = (bed.backend(), CleanerOptions::default());
            let mut cleaner = Cleaner::default();
            (0..2).for_each(|_| hears_of_writes_only(cleaner.step(&bed.pool, &mut be, &options)));
        });
        let users = [[16, 2, 17], [18, 3, 16]].map(|blocks| {
            spawn(&bed, move |bed| {
                let mut be = bed.backend();
                for block in blocks {
                    match bed.pool.read(&mut be, tag(block), Strategy::Normal) {
                        Ok(pin) => assert!(number(&pin.lock_shared().copy()) >= u64::from(block)),
                        Err(error) => hears_of_writes_only(Err::<(), _>(error)),
                    }
                }
            })
        });
        join([pass, cleaner].into_iter().chain(users));
        let mut be = bed.backend();
        bed.pool.write_dirty(&mut be, WriteScope::All).unwrap();
        assert_eq!(bed.pool.evict_all(&mut be).unwrap(), 0, "all pins were given back");
        (0..BLOCKS).for_each(|block| {
            assert_eq!(bed.on_disk(block), u64::from(block + u32::from(block < BUFFERS)))
        });
    });
}

/// A stream waits for a page that someone changes who needs another page that the stream has.
#[test]
fn a_stream_and_who_changes_several_pages_do_not_wait_for_each_other() {
    each(|bed| {
        let mut be = bed.backend();
        for block in 0..6 {
            let pin = bed.read(&mut be, block);
            add_one(pin.lock_exclusive());
        }
        drop(be);
        let changers = [[4, 1], [2, 0]].map(|blocks| {
            spawn(&bed, move |bed| {
                let [first, second] = blocks.map(|block| bed.pool.lookup(&tag(block)).unwrap());
                let held = first.lock_exclusive();
                add_one(second.lock_exclusive());
                add_one(held);
            })
        });
        let mut be = bed.backend();
        let mut stream = WriteStream::new(&bed.pool, WriteOptions::checkpoint(&bed.pool));
        for block in 0..6 {
            if let Some(pin) = bed.pool.lookup(&tag(block)) {
                stream.push(&mut be, pin).unwrap();
            }
        }
        stream.finish(&mut be).unwrap();
        drop(be);
        join(changers);
        bed.pool.write_dirty(&mut bed.backend(), WriteScope::All).unwrap();
        let changed_again = |block| u64::from([4, 1, 2, 0].contains(&block));
        (0..6).for_each(|block| {
            assert_eq!(bed.on_disk(block), u64::from(block) + 1 + changed_again(block))
        });
    });
}

#[test]
fn streams_share_a_small_pool_and_their_reads() {
    each(|bed| {
        let kept = bed.pin(BUFFERS - 6);
        let users: [_; 2] = std::array::from_fn(|n| {
            spawn(&bed, move |bed| {
                let mut be = bed.backend();
                let mut blocks = 11 + n as u32..17 + n as u32;
                let mut expected = blocks.clone();
                let next = || blocks.next();
                let (strategy, flags) = (Strategy::Normal, StreamFlags::FULL);
                let mut stream = ReadStream::new(
                    &bed.pool,
                    REL,
                    Fork::Main,
                    next,
                    flags,
                    strategy,
                    StreamSettings::new(2, 4),
                );
                while let Some(pin) = stream.next(&mut be).unwrap() {
                    let block = expected.next().unwrap();
                    assert_eq!(number(&pin.lock_shared().copy()), u64::from(block));
                    if n == 0 && block == 14 {
                        return; // with reads in flight
                    }
                }
                assert_eq!(expected.next(), None);
            })
        });
        join(users);
        drop(kept);
        assert_eq!(bed.pool.evict_all(&mut bed.backend()).unwrap(), 0, "all pins were given back");
    });
}

#[test]
fn readers_in_an_unbroken_row_let_a_change_through() {
    each(|bed| {
        let before = bed.pin(5).pop().unwrap();
        let held = before.lock_shared();
        let users = spawn(&bed, |bed| {
            let pin = bed.pool.lookup(&tag(4)).unwrap();
            add_one(pin.lock_exclusive());
        });
        // A writer who waits lets no share-exclusive lock through, nor any other: once it is so,
        // this one is next.
        let waits = before.try_lock_share_exclusive().is_none();
        let reader = spawn(&bed, move |bed| {
            let pin = bed.pool.lookup(&tag(4)).unwrap();
            let seen = number(&pin.lock_shared().copy());
            assert!(seen == 5 || !waits && seen == 4, "a reader passed a waiting writer");
        });
        drop(held);
        join([users, reader]);
    });
}

#[test]
fn the_cleanup_lock_is_had_once_all_other_pins_are_gone() {
    each(|bed| {
        let mine = bed.pin(1).pop().unwrap();
        add_one(mine.lock_exclusive());
        let others = [mine.clone(), mine.clone()];
        let counted = Arc::new(AtomicUsize::new(2));
        let holders = others.map(|pin| {
            let counted = Arc::clone(&counted);
            spawn(&bed, move |_| {
                number(&pin.lock_shared().copy());
                counted.fetch_sub(1, SeqCst);
                drop(pin);
            })
        });
        let writer = spawn(&bed, |bed| {
            bed.pool.write_dirty(&mut bed.backend(), WriteScope::All).unwrap();
        });
        let page = mine.lock_cleanup().unwrap();
        assert_eq!(counted.load(SeqCst), 0, "someone else still has a pin");
        add_one(page);
        join(holders.into_iter().chain([writer]));
        assert!(mine.try_lock_cleanup().is_some());
    });
}

#[test]
fn who_waits_for_a_buffer_gets_the_first_that_is_free() {
    each(|bed| {
        let mut kept = bed.pin(BUFFERS);
        let waiters = [17, 18].map(|block| {
            spawn(&bed, move |bed| {
                let pin = bed.read(&mut bed.backend(), block);
                assert_eq!(number(&pin.lock_shared().copy()), u64::from(block));
            })
        });
        drop(kept.pop());
        join(waiters);
        drop(kept);
        assert_eq!(bed.pool.evict_all(&mut bed.backend()).unwrap(), 0);
    });
}

#[test]
fn more_backends_than_the_pool_has_room_for_all_come_to_their_end() {
    each(|bed| {
        let kept = bed.pin(BUFFERS - 4);
        let users = [16, 17, 18].map(|block| {
            spawn(&bed, move |bed| {
                let mut be = bed.backend();
                let first = bed.read(&mut be, block);
                let second = bed.read(&mut be, 12 + block % 3);
                assert_ne!(first.buffer(), second.buffer());
            })
        });
        join(users);
        drop(kept);
        assert_eq!(bed.pool.evict_all(&mut bed.backend()).unwrap(), 0);
    });
}

#[test]
fn new_pages_are_given_to_one_each_and_may_be_read_at_once() {
    each(|bed| {
        let made = Arc::new(AtomicUsize::new(0));
        let users: [_; 2] = std::array::from_fn(|_| {
            let made = Arc::clone(&made);
            spawn(&bed, move |bed| {
                let mut be = bed.backend();
                let pins = bed.pool.extend(&mut be, REL, Fork::Main, 2, Strategy::Normal).unwrap();
                for pin in &pins {
                    let mut page = pin.lock_exclusive();
                    assert!(page.page().is_all_zeros(), "given to two");
                    page.page_mut().init(0);
                    page.mark_dirty();
                    made.fetch_add(1, SeqCst);
                }
                drop(pins);
                let last = bed.pool.nblocks(REL, Fork::Main).unwrap() - 1;
                let pin = bed.read(&mut be, last);
                let page = pin.lock_shared();
                assert!(page.page().is_all_zeros() || page.page().header_is_sane());
            })
        });
        join(users);
        let n = bed.pool.nblocks(REL, Fork::Main).unwrap();
        assert_eq!(n as usize, BLOCKS as usize + made.load(SeqCst));
        bed.pool.write_dirty(&mut bed.backend(), WriteScope::All).unwrap();
        (BLOCKS..n).for_each(|block| assert_eq!(bed.on_disk(block), 0));
    });
}

#[test]
fn who_extends_beside_others_gets_pages_of_his_own_or_the_error() {
    for failing in [0, 1, 3] {
        each(match failing {
            0 => |bed| three_extend(&bed, 0),
            1 => |bed| three_extend(&bed, 1),
            _ => |bed| three_extend(&bed, 3),
        });
    }
}

/// Extensions at once, by zeros, of which the first `failing` writes fail: that of all who had
/// lined up, or of one.
fn three_extend(bed: &Arc<Bed>, failing: usize) {
    bed.pool.smgr().set_extend_method(ExtendMethod::WriteZeros);
    bed.disk.failing_writes.store(failing, SeqCst);
    let made = Arc::new(AtomicUsize::new(0));
    let failed = Arc::new(AtomicUsize::new(0));
    let users = [1, 2, 1].map(|n| {
        let (made, failed) = (Arc::clone(&made), Arc::clone(&failed));
        spawn(bed, move |bed| {
            match bed.pool.extend(&mut bed.backend(), REL, Fork::Main, n, Strategy::Normal) {
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
    let n = bed.pool.nblocks(REL, Fork::Main).unwrap();
    assert_eq!(n as usize, BLOCKS as usize + made.load(SeqCst));
    let file = bed.dir.path().join(REL.segment_path(Fork::Main, 0));
    assert_eq!(std::fs::metadata(file).unwrap().len(), u64::from(n) * BLOCK_SIZE as u64);
    bed.disk.failing_writes.store(0, SeqCst);
    bed.pool.write_dirty(&mut bed.backend(), WriteScope::All).unwrap();
    (BLOCKS..n).for_each(|block| assert_eq!(bed.on_disk(block), 0));
    assert_eq!(bed.pool.evict_all(&mut bed.backend()).unwrap(), 0, "all buffers were given back");
}

#[test]
fn a_write_past_the_pool_does_not_outlast_a_cut() {
    each(|bed| {
        let writer = spawn(&bed, |bed| {
            let region = Region::new(4 * BLOCK_SIZE).unwrap();
            // SAFETY: nobody else knows the region yet.
            unsafe { region.ptr(0).copy_from(relation()[2 * BLOCK_SIZE..].as_ptr(), region.len()) };
            let memory = IoMemory::new(region, 0, 4 * BLOCK_SIZE);
            match bed.pool.smgr().write_blocks(&mut bed.backend().io, REL, Fork::Main, 2, &memory) {
                Ok(()) | Err(StorageError::WritePastEnd { block: 4, size: 4, .. }) => {}
                Err(other) => panic!("{other}"),
            }
        });
        let reader = spawn(&bed, |bed| {
            let region = Region::new(4 * BLOCK_SIZE).unwrap();
            let memory = IoMemory::new(region, 0, 4 * BLOCK_SIZE);
            match bed.pool.smgr().read_blocks(&mut bed.backend().io, REL, Fork::Main, 2, &memory) {
                Ok(()) | Err(StorageError::ShortRead { block: 4, .. }) => {}
                Err(other) => panic!("{other}"),
            }
        });
        bed.pool.truncate(&mut bed.backend(), REL, Fork::Main, 4).unwrap();
        let len = || {
            std::fs::metadata(bed.dir.path().join(REL.segment_path(Fork::Main, 0))).unwrap().len()
        };
        assert_eq!(len(), 4 * BLOCK_SIZE as u64);
        join([writer, reader]);
        assert_eq!(len(), 4 * BLOCK_SIZE as u64, "written past the end");
    });
}

#[test]
fn pages_of_a_relation_that_is_cut_are_gone_and_not_written() {
    each(|bed| {
        drop(bed.pin(8));
        let pin = bed.read(&mut bed.backend(), 6);
        add_one(pin.lock_exclusive());
        let writer = spawn(&bed, |bed| {
            bed.pool.write_dirty(&mut bed.backend(), WriteScope::All).unwrap();
        });
        let reader = spawn(&bed, move |_| {
            number(&pin.lock_shared().copy());
            drop(pin);
        });
        bed.pool.truncate(&mut bed.backend(), REL, Fork::Main, 4).unwrap();
        assert!((4..8).all(|block| bed.pool.lookup(&tag(block)).is_none()));
        join([writer, reader]);
        assert_eq!(bed.pool.nblocks(REL, Fork::Main).unwrap(), 4);
        let file = bed.dir.path().join(REL.segment_path(Fork::Main, 0));
        assert_eq!(
            std::fs::metadata(file).unwrap().len(),
            4 * BLOCK_SIZE as u64,
            "written past the end"
        );
    });
}

#[test]
fn pins_outlive_the_pool() {
    each(|bed| {
        let pins = bed.pin(2);
        let aio = Arc::clone(&bed.aio);
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
        drop(bed);
        join(users);
        assert_eq!(Arc::weak_count(&aio), before - 1, "the pool's memory was not given back");
    });
}
