//! Growing relations: with each method, on disks that are full or cannot allocate, and by many
//! backends at once.

use crate::fixture::{Fixture, REL, Spec, change, each, each_faulty, stamp, tag, version};
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, IoMemory, IoOp, MethodKind, Region, WaitRef, probe_io_uring};
use forebay_format::Fork;
use forebay_storage::{Backend, ExtendMethod, StorageError, Strategy, TempRelations, WriteScope};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

const SMALL: Spec = Spec { segment_blocks: 8, ..Spec::plain() };
const THREADS: u32 = 8;

/// The number of system calls that made files grow.
fn growths(plan: &FaultPlan) -> u64 {
    plan.calls(Ops::ALLOCATE) + plan.calls(Ops::RESERVE)
}

/// Extends by up to `n` blocks, writes `mark` on each, and returns them.
fn grow(
    fixture: &Fixture,
    backend: &mut Backend,
    n: u32,
    mark: u64,
) -> Result<Vec<u32>, StorageError> {
    let pins = fixture.pool.extend(backend, REL, Fork::Main, n, Strategy::Normal)?;
    let blocks: Vec<u32> = pins.iter().map(|pin| pin.tag().block).collect();
    for pin in &pins {
        let mut page = pin.lock_exclusive();
        assert!(page.page().is_all_zeros(), "block {} was given to two", pin.tag().block);
        stamp(&mut page, pin.tag().block, mark);
        page.mark_dirty();
    }
    assert!(blocks.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{blocks:?}");
    Ok(blocks)
}

/// Makes [`THREADS`] backends extend by `n` blocks each, and returns what each got. One starts
/// first, and its call is held until all others have queued.
fn grow_at_once(
    fixture: &Fixture,
    plan: &Arc<FaultPlan>,
    n: u32,
) -> Vec<Result<Vec<u32>, StorageError>> {
    let joined = fixture.pool.stats().extensions_joined;
    let held = plan.hold(Rule::on(Ops::ALLOCATE).times(1));
    thread::scope(|scope| {
        let extend = |mark: u32| {
            let mut backend = fixture.backend();
            scope.spawn(move || grow(fixture, &mut backend, n, u64::from(mark)))
        };
        let first = extend(1);
        held.await_count(1);
        let others: Vec<_> = (2..=THREADS).map(extend).collect();
        while fixture.pool.stats().extensions_joined < joined + u64::from(THREADS) - 1 {
            assert!(others.iter().all(|other| !other.is_finished()), "a backend did not queue");
            thread::yield_now();
        }
        held.release();
        std::iter::once(first).chain(others).map(|thread| thread.join().unwrap()).collect()
    })
}

/// Checks that each block was given to one backend, none was lost, and all marks are in the files.
fn all_are_there(fixture: &Fixture, got: &[Vec<u32>]) {
    let blocks: BTreeSet<u32> = got.iter().flatten().copied().collect();
    assert_eq!(blocks.len(), got.iter().map(Vec::len).sum::<usize>(), "a block was given to two");
    let n = fixture.pool.nblocks(REL, Fork::Main).unwrap();
    assert_eq!(blocks, (0..n).collect());
    assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), n);
    let mut backend = fixture.backend();
    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    for (mark, blocks) in (1..).zip(got) {
        blocks.iter().for_each(|&block| assert_eq!(version(&fixture.on_disk(block), block), mark));
    }
    assert_eq!(fixture.pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
}

#[test]
fn backends_that_queue_during_an_extension_are_served_together() {
    for spec in [Spec::plain(), SMALL, Spec { buffers: 16, ..SMALL }] {
        each_faulty(spec, |fixture, plan| {
            fixture.smgr.create(REL, Fork::Main, false).unwrap();
            let before = fixture.count(IoOp::Extend);
            let got: Vec<_> =
                grow_at_once(fixture, plan, 2).into_iter().map(Result::unwrap).collect();
            let blocks: usize = got.iter().map(Vec::len).sum();
            assert!(blocks >= THREADS as usize);
            // One call for the first backend; for the others, one for each segment.
            assert_eq!(fixture.count(IoOp::Extend) - before, 2);
            assert!(
                growths(plan) <= 2 + blocks as u64 / u64::from(spec.segment_blocks),
                "{plan:?}"
            );
            all_are_there(fixture, &got);
        });
    }
}

#[test]
fn many_backends_extend_all_the_time() {
    for buffers in [16, 256] {
        each_faulty(Spec { buffers, segment_blocks: 64, ..Spec::plain() }, |fixture, plan| {
            fixture.smgr.create(REL, Fork::Main, false).unwrap();
            let got: Vec<Vec<u32>> = thread::scope(|scope| {
                let threads: Vec<_> = (1..=u64::from(THREADS))
                    .map(|mark| {
                        let mut backend = fixture.backend();
                        scope.spawn(move || {
                            let grow =
                                |n: u32| grow(fixture, &mut backend, n % 4 + 1, mark).unwrap();
                            (0..25).flat_map(grow).collect()
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let (calls, requests) = (fixture.count(IoOp::Extend), 25 * u64::from(THREADS));
            eprintln!("{requests} requests, {calls} growths, {:?}", fixture.pool.stats());
            assert!(calls <= requests);
            assert!(growths(plan) + plan.calls(Ops::SET_LEN) > 0);
            all_are_there(fixture, &got);
        });
    }
}

#[test]
fn without_space_for_all_some_requests_succeed() {
    each_faulty(Spec { segment_blocks: 32, ..Spec::plain() }, |fixture, plan| {
        fixture.smgr.create(REL, Fork::Main, false).unwrap();
        // There is space for three of eight.
        let full = |call: &forebay_aio::fault::Call| call.offset + call.len > 12 * 8192;
        plan.add(
            Rule::on(Ops::ALLOCATE | Ops::RESERVE).when(full),
            Effect::FailAfter(8192, Errno::NOSPC),
        );
        let got = grow_at_once(fixture, plan, 4);
        let errors: Vec<_> = got.iter().filter_map(|got| got.as_ref().err()).collect();
        assert_eq!(errors.len(), 5);
        for error in errors {
            assert_eq!(
                error.to_string(),
                "could not extend file \"base/5/16384\" at block 12: No space left on device"
            );
            assert_eq!(error.sqlstate(), "53100");
        }
        assert_eq!(std::fs::metadata(fixture.path(0)).unwrap().len(), 12 * 8192);
        plan.mend();
        let rest = grow(fixture, &mut fixture.backend(), 8, 9).unwrap();
        assert_eq!(rest, (12..20).collect::<Vec<_>>());
        let mut marked: Vec<_> = got.into_iter().map(Result::unwrap_or_default).collect();
        marked.push(rest);
        all_are_there(fixture, &marked);
    });
}

#[test]
fn a_backend_that_waits_to_extend_blocks_nobody_else() {
    each_faulty(Spec { buffers: 16, ..Spec::plain() }, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 4);
        let held = plan.hold(Rule::on(Ops::ALLOCATE).times(1));
        thread::scope(|scope| {
            let (one, two) = (fixture.backend(), fixture.backend());
            for mut backend in [one, two] {
                scope.spawn(move || grow(fixture, &mut backend, 1, 1).unwrap());
            }
            held.await_count(1);
            while fixture.pool.stats().extensions_joined == 0 {
                thread::yield_now();
            }
            // Readers and writers of existing pages go on; the size has not changed.
            assert_eq!(fixture.pool.nblocks(REL, Fork::Main).unwrap(), 4);
            let pin = fixture.pool.read(&mut backend, tag(2), Strategy::Normal).unwrap();
            change(&pin, |page| stamp(page, 2, 5));
            fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
            held.release();
        });
        assert_eq!(fixture.pool.nblocks(REL, Fork::Main).unwrap(), 6);
        assert_eq!(version(&fixture.on_disk(2), 2), 5);
    });
}

#[test]
fn zeros_are_written_by_setting() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.smgr.set_extend_method(ExtendMethod::WriteZeros);
        fixture.fill(&mut backend, 20);
        let local = TempRelations::new(&fixture.pool, 3, 16).unwrap();
        local.create(&mut backend, REL).unwrap();
        drop(local.pool().extend(&mut backend, REL, Fork::Main, 10, Strategy::Normal).unwrap());
        let before = plan.calls(Ops::WRITE);
        assert_eq!(fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 300).unwrap(), 20);
        assert_eq!(plan.calls(Ops::WRITE) - before, 38, "one for each segment");
        assert_eq!(growths(plan), 0);
        assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), 320);
        let pin = fixture.pool.read(&mut backend, tag(319), Strategy::Normal).unwrap();
        assert!(pin.lock_shared().page().is_all_zeros());
        drop(pin);
        // The setting is changed back.
        fixture.smgr.set_extend_method(ExtendMethod::PosixFallocate);
        fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 8).unwrap();
        assert!(growths(plan) > 0);
    });
}

#[test]
fn a_disk_full_of_zeros_leaves_sizes_as_they_were() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.smgr.set_extend_method(ExtendMethod::WriteZeros);
        fixture.fill(&mut backend, 6);
        fixture.smgr.sync_pending(&mut backend.io).unwrap();
        // There is space for two blocks in the first segment, for eight in the second, and for a
        // part of one in the third.
        let third =
            plan.add(Rule::on(Ops::WRITE).path("16384.2"), Effect::FailAfter(8192, Errno::NOSPC));
        let error = fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 12).unwrap_err();
        let text = "could not extend file \"base/5/16384.2\" at block 16: No space left on device";
        assert_eq!(error.to_string(), text);
        assert_eq!(plan.fired(third), 1);
        let pages = fixture
            .pool
            .extend(&mut backend, REL, Fork::Main, 12, Strategy::Normal)
            .map(|pins| pins.len());
        assert_eq!(pages.unwrap_err().to_string(), text);
        assert_eq!(fixture.smgr.nblocks(REL, Fork::Main).unwrap(), 6);
        assert_eq!(std::fs::metadata(fixture.path(0)).unwrap().len(), 6 * 8192);
        assert!(!fixture.path(1).exists() && !fixture.path(2).exists());
        assert_eq!(fixture.smgr.sync_pending(&mut backend.io).unwrap().counts(), (1, 1));
        plan.mend();
        assert_eq!(grow(fixture, &mut backend, 12, 1).unwrap(), (6..18).collect::<Vec<_>>());
        assert_eq!(fixture.pool.evict_all(&mut backend).unwrap(), 0);
    });
}

#[test]
fn allocated_space_is_freed_if_the_disk_is_full() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 6);
        fixture.smgr.sync_pending(&mut backend.io).unwrap();
        let full = Rule::on(Ops::ALLOCATE).path("16384.2").times(1);
        plan.add(full, Effect::FailAfter(8192, Errno::NOSPC));
        let error =
            fixture.pool.extend(&mut backend, REL, Fork::Main, 12, Strategy::Normal).unwrap_err();
        assert!(
            matches!(error, StorageError::Extend { block: 16, errno: Errno::NOSPC, .. }),
            "{error}"
        );
        assert_eq!(fixture.smgr.nblocks(REL, Fork::Main).unwrap(), 6);
        assert_eq!(std::fs::metadata(fixture.path(0)).unwrap().len(), 6 * 8192);
        assert!(!fixture.path(1).exists() && !fixture.path(2).exists());
        let report = fixture.smgr.sync_pending(&mut backend.io).unwrap();
        assert_eq!(report.counts(), (1, 1));
        assert!(!report.longest.is_zero() && report.longest <= report.total, "{report:?}");
        assert_eq!(grow(fixture, &mut backend, 12, 1).unwrap(), (6..18).collect::<Vec<_>>());
    });
}

#[test]
fn reserved_space_is_freed_after_a_failure() {
    use std::os::unix::fs::MetadataExt;
    each_faulty(Spec::plain(), |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.smgr.create(REL, Fork::Main, false).unwrap();
        fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 200).unwrap();
        // 25 blocks are to be reserved for a request of one; there is space for 10.
        plan.add(Rule::on(Ops::RESERVE), Effect::FailAfter(10 * 8192, Errno::NOSPC));
        fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 1).unwrap();
        assert_eq!(plan.calls(Ops::RESERVE), 1);
        let file = std::fs::metadata(fixture.path(0)).unwrap();
        assert_eq!(file.len(), 201 * 8192);
        // Some file systems allocate in clusters.
        assert!(file.blocks() * 512 < 205 * 8192, "{} bytes are taken", file.blocks() * 512);
    });
}

/// An allocation may sleep in the kernel while others wait for the backend's I/O. So that I/O ends
/// before.
#[test]
fn a_backends_own_io_ends_before_space_is_allocated() {
    if let Err(why) = probe_io_uring() {
        return eprintln!(
            "skipped: a_backends_own_io_ends_before_space_is_allocated needs io_uring: {why}"
        );
    }
    let plan = FaultPlan::new();
    let fixture = Fixture::faulty(Spec { method: MethodKind::IoUring, ..SMALL }, &plan);
    let mut backend = fixture.backend();
    fixture.smgr.create(REL, Fork::Main, false).unwrap();
    fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 1).unwrap();
    let memory = IoMemory::new(Region::new(8192).unwrap(), 0, 8192);
    let held = plan.hold(Rule::on(Ops::READ).times(1));
    let transfer = fixture.smgr.start_read(&mut backend.io, REL, Fork::Main, 0, &memory).unwrap();
    held.await_count(1);
    let [read] = &fixture.aio.snapshot()[..] else { panic!("one I/O is in flight") };
    let read = WaitRef { index: read.io_id, generation: read.generation };
    let before = growths(&plan);
    thread::scope(|scope| {
        let extended =
            scope.spawn(|| fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 1).unwrap());
        while fixture.aio.sleepers(read) == 0 && !extended.is_finished() {
            thread::yield_now();
        }
        assert_eq!(growths(&plan), before, "a read is in flight");
        held.release();
    });
    assert_eq!(growths(&plan), before + 1);
    fixture.smgr.finish(&mut backend.io, transfer).unwrap();
}

#[test]
fn files_that_cannot_be_allocated_get_zeros() {
    for (errno, again) in [(Errno::OPNOTSUPP, 0), (Errno::INVAL, 1)] {
        each_faulty(SMALL, |fixture, plan| {
            let mut backend = fixture.backend();
            plan.add(Rule::on(Ops::ALLOCATE | Ops::RESERVE), Effect::Fail(errno));
            fixture.fill(&mut backend, 20);
            let before = growths(plan);
            fixture.smgr.extend(&mut backend.io, REL, Fork::Main, 4).unwrap();
            assert_eq!(
                growths(plan) - before,
                again,
                "what can't allocate at all is not asked again"
            );
            assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), 24);
            let pin = fixture.pool.read(&mut backend, tag(23), Strategy::Normal).unwrap();
            assert!(pin.lock_shared().page().is_all_zeros());
        });
    }
}

#[test]
fn methods_have_the_names_of_the_setting() {
    assert_eq!(ExtendMethod::by_name("posix_fallocate"), Some(ExtendMethod::PosixFallocate));
    assert_eq!(ExtendMethod::by_name("write_zeros"), Some(ExtendMethod::WriteZeros));
    assert_eq!(ExtendMethod::by_name("zeros"), None);
    each(SMALL, |fixture| {
        let config = forebay_storage::SmgrConfig {
            extend_method: ExtendMethod::WriteZeros,
            segment_blocks: 8,
            direct: fixture.spec.direct,
            ..Default::default()
        };
        let smgr = forebay_storage::Smgr::new(Arc::clone(&fixture.aio), fixture.dir(), config);
        smgr.create(REL, Fork::Main, false).unwrap();
        assert_eq!(smgr.extend(&mut fixture.backend().io, REL, Fork::Main, 9).unwrap(), 0);
        assert_eq!(std::fs::read(fixture.path(0)).unwrap(), [0; 8 * 8192]);
    });
}
