//! Relations dropped or cut while I/O on them is in flight: nothing of it reaches a file that is
//! made under the same name, or what is put where the cut was. The disk is watched: whoever
//! empties, cuts or removes a file while a transfer on it is in flight is found out, however the
//! threads take turns.

use crate::bed::{
    Bed, REL, Spec, as_the_system_does, change, config, each_spec, stamp, tag, version,
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
/// Pages that the relation has in the beginning: three segments.
const PAGES: u32 = 40;

/// The system's names, for whoever may use them.
#[derive(Default)]
struct Watched {
    aio: OnceLock<Arc<Aio>>,
    /// How often a file was emptied, cut or removed while a transfer on it was in flight.
    too_early: AtomicUsize,
    /// And how often it was when there was none.
    in_time: AtomicUsize,
}

impl Watched {
    /// A file is about to lose what is behind `len`.
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
fn each_watched(test: impl Fn(&Bed, &Arc<FaultPlan>, &Watched)) {
    each_spec(SMALL, |spec| {
        let (names, plan) = (Arc::new(Watched::default()), FaultPlan::new());
        let namespace: Arc<dyn Namespace> = Arc::<Watched>::clone(&names);
        let aio = plan.open(namespace, spec.method, config()).unwrap();
        names.aio.set(Arc::clone(&aio)).ok().unwrap();
        let mut bed = Bed::on(spec, aio);
        let mut be = bed.backend();
        bed.fill(&mut be, PAGES);
        bed.pool.sync_pending(&mut be).unwrap();
        (bed.smgr, bed.pool) = bed.cold();
        drop(be);
        test(&bed, &plan, &names);
        assert_eq!(
            names.too_early.load(Ordering::SeqCst),
            0,
            "a file was changed under a transfer"
        );
        assert!(names.in_time.load(Ordering::SeqCst) > 0);
    });
}

/// Runs `removal` in another thread while `held` holds some I/O, and releases that once the thread
/// waits for it, as far as can be told: those that sleep in the kernel or for a pin are given some
/// turns.
fn while_held(bed: &Bed, held: Held, removal: impl FnOnce(&mut forebay_storage::Backend) + Send) {
    let mut be = bed.backend();
    thread::scope(|scope| {
        held.await_count(1);
        let sleepers = || -> u32 {
            let in_flight = |io: &forebay_aio::HandleInfo| io.state == HandleState::Submitted;
            let waits = bed.aio.snapshot();
            let waits = waits.iter().filter(|io| in_flight(io));
            waits
                .map(|io| {
                    bed.aio.sleepers(forebay_aio::WaitRef {
                        index: io.io_id,
                        generation: io.generation,
                    })
                })
                .sum()
        };
        let before = sleepers();
        let remover = scope.spawn(move || removal(&mut be));
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

/// Makes [`REL`] anew, with pages of version 9, and sees that they stay so.
fn is_made_anew(bed: &Bed) {
    let mut be = bed.backend();
    assert!(!bed.path(0).exists() && !bed.path(1).exists() && !bed.path(2).exists());
    assert_eq!(bed.pool.sync_pending(&mut be).unwrap().files, 0, "its syncs are void");
    bed.smgr.create(REL, Fork::Main, false).unwrap();
    assert_eq!(bed.pool.nblocks(REL, Fork::Main).unwrap(), 0);
    let mut made = 0;
    while made < PAGES {
        for pin in
            bed.pool.extend(&mut be, REL, Fork::Main, PAGES - made, Strategy::Normal).unwrap()
        {
            change(&pin, |page| stamp(page, made, 9));
            made += 1;
        }
    }
    all_are(bed, PAGES, 9);
}

/// Blocks from `PAGES - n` on are of this version, in memory and in the files.
fn all_are(bed: &Bed, n: u32, wanted: u64) {
    let mut be = bed.backend();
    bed.pool.write_dirty(&mut be, WriteScope::All).unwrap();
    for block in PAGES - n..PAGES {
        let pin = bed.pool.read(&mut be, tag(block), Strategy::Normal).unwrap();
        assert_eq!(version(&pin.lock_shared().copy(), block), wanted);
        assert_eq!(version(&bed.on_disk(block), block), wanted);
    }
    bed.pool.sync_pending(&mut be).unwrap();
    assert_eq!(bed.pool.evict_all(&mut be).unwrap(), 0, "all pins were given back");
}

/// Cuts the relation to one and a half segments, lets it grow again, and sees that what was cut is
/// gone.
fn cut_and_grow(bed: &Bed, be: &mut forebay_storage::Backend) {
    bed.pool.truncate(be, REL, Fork::Main, 24).unwrap();
    assert_eq!(bed.smgr.extend(&mut be.io, REL, Fork::Main, PAGES - 24).unwrap(), 24);
}

fn zeros_where_it_was_cut(bed: &Bed) {
    let mut be = bed.backend();
    for block in 24..PAGES {
        let pin = bed.pool.read(&mut be, tag(block), Strategy::Normal).unwrap();
        assert!(pin.lock_shared().page().is_all_zeros(), "block {block} came back");
        change(&pin, |page| stamp(page, block, 9));
    }
    all_are(bed, PAGES - 24, 9);
}

/// What is in flight, and how it is got there.
type Kind = (Ops, fn(&Bed));

const KINDS: [Kind; 4] = [
    (Ops::WRITE, checkpoint),
    (Ops::READ, look_ahead),
    (Ops::READ, |bed| past_the_pool(bed, false)),
    (Ops::WRITE, |bed| past_the_pool(bed, true)),
];

/// Writes all pages.
fn checkpoint(bed: &Bed) {
    let mut be = bed.backend();
    for block in 0..PAGES {
        let pin = bed.pool.read(&mut be, tag(block), Strategy::Normal).unwrap();
        change(&pin, |page| stamp(page, block, 1));
    }
    bed.pool.write_dirty(&mut be, WriteScope::All).unwrap();
}

/// Reads ahead, and forgets what it has not come to.
fn look_ahead(bed: &Bed) {
    let mut be = bed.backend();
    let mut blocks = (0..PAGES).rev();
    let next = move || blocks.next();
    let (flags, strategy) = (StreamFlags::FULL, Strategy::Normal);
    let mut stream = ReadStream::new(
        &bed.pool,
        REL,
        Fork::Main,
        next,
        flags,
        strategy,
        StreamSettings::new(16, 16),
    );
    drop(stream.next(&mut be).unwrap());
}

/// Reads or writes the second segment, past the pool.
fn past_the_pool(bed: &Bed, write: bool) {
    let mut be = bed.backend();
    let region = Region::new(16 * 8192).unwrap();
    // SAFETY: nobody else knows the region yet.
    unsafe { region.ptr(0).write_bytes(0xee, region.len()) };
    let memory = IoMemory::new(region, 0, 16 * 8192);
    if write {
        bed.smgr.write_blocks(&mut be.io, REL, Fork::Main, 16, &memory).unwrap();
    } else {
        bed.smgr.read_blocks(&mut be.io, REL, Fork::Main, 16, &memory).unwrap();
    }
}

/// What is in flight in the second half of the second segment is held.
fn hold(plan: &Arc<FaultPlan>, ops: Ops) -> Held {
    plan.hold(Rule::on(ops).path("16384.1").bytes(8 * 8192..16 * 8192))
}

#[test]
fn a_drop_waits_and_the_name_is_free_again() {
    for (ops, start) in KINDS {
        each_watched(|bed, plan, _| {
            let held = hold(plan, ops);
            thread::scope(|scope| {
                scope.spawn(|| start(bed));
                while_held(bed, held, |be| bed.pool.drop_relation(be, REL).unwrap());
            });
            is_made_anew(bed);
        });
    }
}

#[test]
fn a_cut_waits_and_what_was_cut_stays_so() {
    for (ops, start) in KINDS {
        each_watched(|bed, plan, _| {
            let held = hold(plan, ops);
            thread::scope(|scope| {
                scope.spawn(|| start(bed));
                while_held(bed, held, |be| cut_and_grow(bed, be));
            });
            zeros_where_it_was_cut(bed);
        });
    }
}

#[test]
fn a_write_that_fails_after_all_does_not_come_back_either() {
    each_watched(|bed, plan, _| {
        let held = hold(plan, Ops::WRITE);
        plan.add(Rule::on(Ops::WRITE).path("16384.1").times(1), Effect::Fail(Errno::IO));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut be = bed.backend();
                let pin = bed.pool.read(&mut be, tag(25), Strategy::Normal).unwrap();
                change(&pin, |page| stamp(page, 25, 1));
                drop(pin);
                // Whether the checkpoint gets to see its failure depends on who looks first.
                if let Err(error) = bed.pool.write_dirty(&mut be, WriteScope::All) {
                    assert!(error.to_string().contains("could not write block 25"), "{error}");
                }
            });
            while_held(bed, held, |be| bed.pool.drop_relation(be, REL).unwrap());
        });
        is_made_anew(bed);
    });
}

#[test]
fn a_victim_that_is_being_written_holds_up_a_drop() {
    each_watched(|bed, plan, _| {
        let mut be = bed.backend();
        let other = forebay_format::RelFileLocator::in_default(5, 20_000);
        bed.smgr.create(other, Fork::Main, false).unwrap();
        bed.smgr.extend(&mut be.io, other, Fork::Main, 200).unwrap();
        bed.pool.sync_pending(&mut be).unwrap();
        for block in 16..32 {
            let pin = bed.pool.read(&mut be, tag(block), Strategy::Normal).unwrap();
            change(&pin, |page| stamp(page, block, 1));
        }
        let held = hold(plan, Ops::WRITE);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut be = bed.backend();
                for block in 0..200 {
                    let of_other = forebay_format::PageTag::new(other, Fork::Main, block);
                    drop(bed.pool.read(&mut be, of_other, Strategy::Normal).unwrap());
                }
            });
            while_held(bed, held, |be| bed.pool.drop_relation(be, REL).unwrap());
        });
        is_made_anew(bed);
    });
}

#[test]
fn a_sync_of_a_file_that_went_may_fail() {
    each_watched(|bed, plan, _| {
        let mut be = bed.backend();
        checkpoint(bed);
        let held = plan.hold(Rule::on(Ops::SYNCS).times(3));
        plan.add(Rule::on(Ops::SYNCS).times(3), Effect::Fail(Errno::IO));
        thread::scope(|scope| {
            let syncer = scope.spawn(|| bed.smgr.sync_pending(&mut bed.backend().io));
            held.await_count(1);
            // A sync changes nothing: nobody waits for it.
            bed.pool.drop_relation(&mut be, REL).unwrap();
            bed.smgr.create(REL, Fork::Main, false).unwrap();
            bed.smgr.extend(&mut be.io, REL, Fork::Main, 20).unwrap();
            held.release();
            assert_eq!(syncer.join().unwrap().unwrap().counts(), (0, 0));
        });
        plan.mend();
        // The new files' requests are their own.
        assert_eq!(bed.smgr.sync_pending(&mut be.io).unwrap().counts(), (2, 1));
    });
}

#[test]
fn a_sync_of_a_segment_that_was_cut_away_may_fail() {
    each_watched(|bed, plan, _| {
        let mut be = bed.backend();
        checkpoint(bed);
        let held = plan.hold(Rule::on(Ops::SYNCS).path("16384.2").times(1));
        plan.add(Rule::on(Ops::SYNCS).path("16384.2").times(1), Effect::Fail(Errno::IO));
        thread::scope(|scope| {
            let syncer = scope.spawn(|| bed.smgr.sync_pending(&mut bed.backend().io));
            held.await_count(1);
            bed.pool.truncate(&mut be, REL, Fork::Main, 32).unwrap();
            held.release();
            assert_eq!(syncer.join().unwrap().unwrap().counts(), (2, 0));
        });
        assert_eq!(bed.smgr.sync_pending(&mut be.io).unwrap().counts(), (0, 1));
    });
}
