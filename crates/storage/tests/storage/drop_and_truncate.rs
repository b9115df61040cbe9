//! Relations that are dropped or truncated while I/O on them is in flight. The I/O must not reach a
//! later file of the same name, or the file after it has grown again. A watched disk detects every
//! file that is emptied, truncated or removed while a transfer on it is in flight.

use crate::fixture::{
    Fixture, REL, Spec, as_the_system_does, change, config, each_spec, read_blocks, stamp, tag,
    version,
};
use forebay_aio::fault::{Effect, FaultPlan, Held, Ops, Rule};
use forebay_aio::{
    Aio, AioError, DirEntry, DirectAlignment, DirectRefusal, Errno, File, FileStat, HandleState,
    IoMemory, Namespace, OpKind, OpenOptions, PosixNamespace, Region,
};
use forebay_format::Fork;
use forebay_storage::{ReadStream, Strategy, StreamFlags, StreamSettings, WriteScope};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

const SMALL: Spec = Spec { segment_blocks: 16, buffers: 64, ..Spec::plain() };
/// The relation's pages at the beginning, in three segments.
const PAGES: u32 = 40;

/// The system's namespace, which counts dangerous calls.
#[derive(Default)]
struct Watched {
    aio: OnceLock<Arc<Aio>>,
    /// How often a file was emptied, truncated or removed while a transfer on it was in flight.
    too_early: AtomicUsize,
    /// The same without a transfer in flight.
    in_time: AtomicUsize,
}

impl Watched {
    /// Counts that a file is about to be shortened to `len` bytes.
    fn look(&self, path: &Path, len: u64) {
        let handles = self.aio.get().unwrap().snapshot();
        let in_flight = handles.iter().any(|io| {
            let transfer = matches!(io.operation, OpKind::Readv | OpKind::Writev);
            let behind = io.offset.unwrap_or(0) + io.length.unwrap_or(0) > len;
            let on_it = io.file.as_ref().is_some_and(|file| file.path() == path);
            transfer && behind && on_it && io.state == HandleState::Submitted
        });
        let count = if in_flight { &self.too_early } else { &self.in_time };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

impl Namespace for Watched {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        if options.truncate {
            self.look(path, 0);
        }
        PosixNamespace.open(path, options)
    }
    fn unlink(&self, path: &Path) -> Result<(), AioError> {
        self.look(path, 0);
        PosixNamespace.unlink(path)
    }
    fn set_len(&self, file: &File, len: u64) -> Result<(), AioError> {
        if len < PosixNamespace.file_len(file)? {
            self.look(file.path(), len);
        }
        PosixNamespace.set_len(file, len)
    }
    as_the_system_does! {
        mkdir(path: &Path) -> Result<(), AioError>;
        rename(from: &Path, to: &Path) -> Result<(), AioError>;
        rename_noreplace(from: &Path, to: &Path) -> Result<(), AioError>;
        rmdir(path: &Path) -> Result<(), AioError>;
        link_count(path: &Path) -> Result<u64, AioError>;
        list(path: &Path) -> Result<Vec<DirEntry>, AioError>;
        stat(path: &Path) -> Result<Option<FileStat>, AioError>;
        file_len(file: &File) -> Result<u64, AioError>;
        allocate(file: &File, offset: u64, len: u64) -> Result<(), AioError>;
        reserve(file: &File, offset: u64, len: u64) -> Result<(), AioError>;
        sync_file(file: &File) -> Result<(), AioError>;
        sync_dir(path: &Path) -> Result<(), AioError>;
        try_lock(file: &File) -> Result<bool, AioError>;
        probe_direct(dir: &Path) -> Result<DirectAlignment, DirectRefusal>;
    }
}

/// Runs a test over every method, buffered and direct, on a watched disk with a plan. [`REL`] has
/// [`PAGES`] pages of version 0, none of which is in memory.
fn each_watched(test: impl Fn(&Fixture, &Arc<FaultPlan>, &Watched)) {
    watched(SMALL, test);
}

/// The same with a pool in which the relation's pages are found by a walk through all buffers, and
/// with one in which each is looked up.
fn each_pool(test: impl Fn(&Fixture, &Arc<FaultPlan>, &Watched)) {
    watched(SMALL, &test);
    watched(Spec { buffers: 2048, ..SMALL }, &test);
}

fn watched(base: Spec, test: impl Fn(&Fixture, &Arc<FaultPlan>, &Watched)) {
    each_spec(base, |spec| {
        let (names, plan) = (Arc::new(Watched::default()), FaultPlan::new());
        let namespace: Arc<dyn Namespace> = Arc::<Watched>::clone(&names);
        let aio = plan.open(namespace, spec.method, config()).unwrap();
        names.aio.set(Arc::clone(&aio)).ok().unwrap();
        let mut fixture = Fixture::on(spec, aio);
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        fixture.pool.sync_pending(&mut backend).unwrap();
        (fixture.smgr, fixture.pool) = fixture.cold();
        drop(backend);
        test(&fixture, &plan, &names);
        assert_eq!(
            names.too_early.load(Ordering::SeqCst),
            0,
            "a file was changed under a transfer"
        );
        assert!(names.in_time.load(Ordering::SeqCst) > 0);
    });
}

/// Runs `removal` in another thread while `held` holds some I/O, and releases it when the thread
/// seems to wait for it. A thread that sleeps in the kernel or for a pin is given some time.
fn while_held(
    fixture: &Fixture,
    held: Held,
    removal: impl FnOnce(&mut forebay_storage::Backend) + Send,
) {
    let mut backend = fixture.backend();
    thread::scope(|scope| {
        held.await_count(1);
        let sleepers = || -> u32 {
            let in_flight = |io: &forebay_aio::HandleInfo| io.state == HandleState::Submitted;
            let waits = fixture.aio.snapshot();
            let waits = waits.iter().filter(|io| in_flight(io));
            waits
                .map(|io| {
                    fixture.aio.sleepers(forebay_aio::WaitRef {
                        index: io.io_id,
                        generation: io.generation,
                    })
                })
                .sum()
        };
        let before = sleepers();
        let remover = scope.spawn(move || removal(&mut backend));
        let mut turns = 0;
        while sleepers() <= before && turns < 2000 {
            assert!(!remover.is_finished(), "it did not wait");
            thread::yield_now();
            turns += 1;
        }
        assert!(!remover.is_finished(), "it did not wait");
        held.release();
    });
}

/// Creates [`REL`] again, with pages of version 9, and checks that they stay so.
fn check_created_again(fixture: &Fixture) {
    let mut backend = fixture.backend();
    assert!(!fixture.path(0).exists() && !fixture.path(1).exists() && !fixture.path(2).exists());
    assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().files, 0, "its syncs are void");
    fixture.smgr.create(REL, Fork::Main, false).unwrap();
    assert_eq!(fixture.pool.nblocks(REL, Fork::Main).unwrap(), 0);
    let mut made = 0;
    while made < PAGES {
        for pin in fixture
            .pool
            .extend(&mut backend, REL, Fork::Main, PAGES - made, Strategy::Normal)
            .unwrap()
        {
            change(&pin, |page| stamp(page, made, 9));
            made += 1;
        }
    }
    all_are(fixture, PAGES, 9);
}

/// Checks that blocks from `PAGES - n` on have this version, in memory and in the files.
fn all_are(fixture: &Fixture, n: u32, wanted: u64) {
    let mut backend = fixture.backend();
    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    for block in PAGES - n..PAGES {
        let pin = fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
        assert_eq!(version(&pin.lock_shared().copy(), block), wanted);
        assert_eq!(version(&fixture.on_disk(block), block), wanted);
    }
    fixture.pool.sync_pending(&mut backend).unwrap();
    assert_eq!(fixture.pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
}

/// Truncates the relation to one and a half segments, extends it again, and checks that the old
/// pages are gone.
fn truncate_and_grow(fixture: &Fixture, backend: &mut forebay_storage::Backend) {
    fixture.pool.truncate(backend, REL, Fork::Main, 24).unwrap();
    assert_eq!(fixture.smgr.extend(&mut backend.io, REL, Fork::Main, PAGES - 24).unwrap(), 24);
}

fn zeros_where_it_was_cut(fixture: &Fixture) {
    let mut backend = fixture.backend();
    for block in 24..PAGES {
        let pin = fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
        assert!(pin.lock_shared().page().is_all_zeros(), "block {block} came back");
        change(&pin, |page| stamp(page, block, 9));
    }
    all_are(fixture, PAGES - 24, 9);
}

/// Kinds of I/O in flight, with the function that starts it.
type Kind = (Ops, fn(&Fixture));

const KINDS: [Kind; 4] = [
    (Ops::WRITE, checkpoint),
    (Ops::READ, look_ahead),
    (Ops::READ, |fixture| past_the_pool(fixture, false)),
    (Ops::WRITE, |fixture| past_the_pool(fixture, true)),
];

/// Writes all pages.
fn checkpoint(fixture: &Fixture) {
    let mut backend = fixture.backend();
    for block in 0..PAGES {
        let pin = fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
        change(&pin, |page| stamp(page, block, 1));
    }
    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
}

/// Reads ahead, and gives up most of the reads. The read that [`hold`] holds is the last one: no
/// lock keeps this thread from starting others during a drop.
fn look_ahead(fixture: &Fixture) {
    let mut backend = fixture.backend();
    let mut blocks = std::iter::once(PAGES - 1).chain(24..32);
    let next = move || blocks.next();
    let (flags, strategy) = (StreamFlags::FULL, Strategy::Normal);
    let mut stream = ReadStream::new(
        &fixture.pool,
        REL,
        Fork::Main,
        next,
        flags,
        strategy,
        StreamSettings::new(16, 16),
    );
    drop(stream.next(&mut backend).unwrap());
}

/// Reads or writes the second segment, past the pool.
fn past_the_pool(fixture: &Fixture, write: bool) {
    let mut backend = fixture.backend();
    let region = Region::new(16 * 8192).unwrap();
    // SAFETY: nobody else knows the region yet.
    unsafe { region.ptr(0).write_bytes(0xee, region.len()) };
    let memory = IoMemory::new(region, 0, 16 * 8192);
    if write {
        fixture.smgr.write_blocks(&mut backend.io, REL, Fork::Main, 16, &memory).unwrap();
    } else {
        read_blocks(&fixture.smgr, &mut backend.io, 16, &memory).unwrap();
    }
}

/// Holds the I/O in the second half of the second segment.
fn hold(plan: &Arc<FaultPlan>, ops: Ops) -> Held {
    plan.hold(Rule::on(ops).path("16384.1").bytes(8 * 8192..16 * 8192))
}

#[test]
fn a_drop_waits_and_the_name_can_be_reused() {
    for (ops, start) in KINDS {
        each_pool(|fixture, plan, _| {
            let held = hold(plan, ops);
            thread::scope(|scope| {
                scope.spawn(|| start(fixture));
                while_held(fixture, held, |backend| {
                    fixture.pool.drop_relation(backend, REL).unwrap()
                });
            });
            check_created_again(fixture);
        });
    }
}

#[test]
fn a_truncation_waits_and_truncated_pages_do_not_come_back() {
    for (ops, start) in KINDS {
        each_pool(|fixture, plan, _| {
            let held = hold(plan, ops);
            thread::scope(|scope| {
                scope.spawn(|| start(fixture));
                while_held(fixture, held, |backend| truncate_and_grow(fixture, backend));
            });
            zeros_where_it_was_cut(fixture);
        });
    }
}

#[test]
fn a_write_that_fails_late_does_not_come_back_either() {
    each_watched(|fixture, plan, _| {
        let held = hold(plan, Ops::WRITE);
        plan.add(Rule::on(Ops::WRITE).path("16384.1").times(1), Effect::Fail(Errno::IO));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut backend = fixture.backend();
                let pin = fixture.pool.read(&mut backend, tag(25), Strategy::Normal).unwrap();
                change(&pin, |page| stamp(page, 25, 1));
                drop(pin);
                // Which thread sees the failure depends on which one looks first.
                if let Err(error) = fixture.pool.write_dirty(&mut backend, WriteScope::All) {
                    assert!(error.to_string().contains("could not write block 25"), "{error}");
                }
            });
            while_held(fixture, held, |backend| fixture.pool.drop_relation(backend, REL).unwrap());
        });
        check_created_again(fixture);
    });
}

#[test]
fn a_drop_waits_for_the_write_of_a_victim() {
    each_watched(|fixture, plan, _| {
        let mut backend = fixture.backend();
        let other = forebay_format::RelFileLocator::in_default(5, 20_000);
        fixture.smgr.create(other, Fork::Main, false).unwrap();
        fixture.smgr.extend(&mut backend.io, other, Fork::Main, 200).unwrap();
        fixture.pool.sync_pending(&mut backend).unwrap();
        for block in 16..32 {
            let pin = fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
            change(&pin, |page| stamp(page, block, 1));
        }
        let held = hold(plan, Ops::WRITE);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut backend = fixture.backend();
                for block in 0..200 {
                    let of_other = forebay_format::PageTag::new(other, Fork::Main, block);
                    drop(fixture.pool.read(&mut backend, of_other, Strategy::Normal).unwrap());
                }
            });
            while_held(fixture, held, |backend| fixture.pool.drop_relation(backend, REL).unwrap());
        });
        check_created_again(fixture);
    });
}

#[test]
fn a_sync_of_a_removed_file_may_fail() {
    each_watched(|fixture, plan, _| {
        let mut backend = fixture.backend();
        checkpoint(fixture);
        let held = plan.hold(Rule::on(Ops::SYNCS).times(3));
        plan.add(Rule::on(Ops::SYNCS).times(3), Effect::Fail(Errno::IO));
        thread::scope(|scope| {
            let syncer = scope.spawn(|| fixture.smgr.sync_pending(&mut fixture.backend().io));
            held.await_count(1);
            // A sync changes nothing, so nobody waits for it.
            fixture.pool.drop_relation(&mut backend, REL).unwrap();
            fixture.smgr.create(REL, Fork::Main, false).unwrap();
            fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 20).unwrap();
            held.release();
            assert_eq!(syncer.join().unwrap().unwrap().counts(), (0, 0));
        });
        plan.mend();
        // The new file has requests of its own.
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().counts(), (2, 1));
    });
}

#[test]
fn a_sync_of_a_truncated_segment_may_fail() {
    each_watched(|fixture, plan, _| {
        let mut backend = fixture.backend();
        checkpoint(fixture);
        let held = plan.hold(Rule::on(Ops::SYNCS).path("16384.2").times(1));
        plan.add(Rule::on(Ops::SYNCS).path("16384.2").times(1), Effect::Fail(Errno::IO));
        thread::scope(|scope| {
            let syncer = scope.spawn(|| fixture.smgr.sync_pending(&mut fixture.backend().io));
            held.await_count(1);
            fixture.pool.truncate(&mut backend, REL, Fork::Main, 32).unwrap();
            held.release();
            assert_eq!(syncer.join().unwrap().unwrap().counts(), (2, 0));
        });
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().counts(), (0, 1));
    });
}
