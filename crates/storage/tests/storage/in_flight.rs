//! Other threads while an I/O is in flight.

use crate::fixture::{Fixture, REL, Spec, change, full_stream, stamp, tag, version};
use forebay_aio::execute::PosixExecutor;
use forebay_aio::fault::{Effect, FaultPlan, FaultyExecutor, Ops, Rule};
use forebay_aio::{Errno, IoOp};
use forebay_format::Fork;
use forebay_storage::{Strategy, WriteScope};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

#[test]
fn a_read_in_flight_is_joined() {
    let (fixture, gate) = Fixture::gated(Spec::plain(), Arc::new(PosixExecutor));
    let pool = fixture.fill_cold(&mut fixture.backend(), 8);
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        for block in [0, 2, 2, 3] {
            let (mut backend, pool, gate) = (fixture.backend(), &pool, &gate);
            if block != 0 {
                // The first thread's read is in flight.
                gate.await_held(1);
            }
            scope.spawn(move || {
                let n = if block == 0 { 4 } else { 1 };
                let pins = pool
                    .read_many(&mut backend, REL, Fork::Main, block, n, Strategy::Normal)
                    .unwrap();
                assert_eq!(version(&pins[0].lock_shared().copy(), block), 0);
            });
        }
        gate.await_waiters(4);
        assert_eq!(gate.held(), 1);
        gate.open();
    });
    assert_eq!(fixture.count(IoOp::Read), 1);
}

#[test]
fn a_thread_that_joined_a_failed_read_reads_the_page_itself() {
    let plan = FaultPlan::new();
    plan.add(Rule::on(Ops::READ).times(1), Effect::Fail(Errno::IO));
    let executor = FaultyExecutor::new(Arc::new(PosixExecutor), plan);
    let (fixture, gate) = Fixture::gated(Spec::plain(), Arc::new(executor));
    let pool = fixture.fill_cold(&mut fixture.backend(), 8);
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let mut issuer = fixture.backend();
        let mut joiner = fixture.backend();
        let (pool, gate) = (&pool, &gate);
        let failed =
            scope.spawn(move || pool.read(&mut issuer, tag(1), Strategy::Normal).map(drop));
        gate.await_held(1);
        let joined = scope.spawn(move || {
            let pin = pool.read(&mut joiner, tag(1), Strategy::Normal).unwrap();
            version(&pin.lock_shared().copy(), 1)
        });
        gate.await_waiters(2);
        gate.open();
        assert_eq!(joined.join().unwrap(), 0);
        // The joiner may have read the page before the issuer looked.
        if let Err(error) = failed.join().unwrap() {
            assert!(error.to_string().contains("block 1"), "{error}");
        }
    });
}

#[test]
fn pages_do_not_change_while_they_are_written() {
    let (fixture, gate) = Fixture::gated(Spec::plain(), Arc::new(PosixExecutor));
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 4);
    let pin = fixture.pool.read(&mut backend, tag(1), Strategy::Normal).unwrap();
    change(&pin, |page| stamp(page, 1, 1));
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let (fixture, gate) = (&fixture, &gate);
        scope.spawn(move || {
            let mut backend = fixture.backend();
            assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 1);
        });
        gate.await_held(1);
        // Readers go on.
        assert_eq!(version(&pin.lock_shared().copy(), 1), 1);
        assert!(pin.try_lock_exclusive().is_none());
        let (done, changed) = mpsc::channel();
        let writers_pin = pin.clone();
        scope.spawn(move || {
            change(&writers_pin, |page| stamp(page, 1, 2));
            done.send(()).unwrap();
        });
        // The writer waits for the I/O that the checkpoint started, which it could complete.
        gate.await_waiters(2);
        assert!(changed.try_recv().is_err());
        gate.open();
        changed.recv().unwrap();
    });
    assert_eq!(version(&fixture.on_disk(1), 1), 1);
    assert!(pin.is_dirty());
    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    assert_eq!(version(&fixture.on_disk(1), 1), 2);
}

#[test]
fn a_drop_waits_for_reads_that_were_given_up() {
    let (fixture, gate) = Fixture::gated(Spec::plain(), Arc::new(PosixExecutor));
    fixture.aio.set_combine_limit(0); // Each read of the stream is held separately.
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, 64);
    gate.shut();
    let mut blocks = 0..64;
    let mut stream = full_stream(&pool, || blocks.next(), Strategy::Normal, 4, 8);
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let (pool_ref, gate_ref, fixture_ref) = (&pool, &gate, &fixture);
        let reader = scope.spawn(move || {
            let first = stream.next(&mut backend).unwrap().unwrap().tag();
            (first, stream, backend)
        });
        gate.await_held(4);
        gate.open();
        let (first, mut stream, mut backend) = reader.join().unwrap();
        assert_eq!(first, tag(0));
        // Leave reads of later blocks in flight.
        gate.shut();
        for _ in 1..9 {
            stream.next(&mut backend).unwrap().unwrap();
        }
        drop(stream);
        assert!(gate.held() >= 1);
        let (done, dropped) = mpsc::channel();
        scope.spawn(move || {
            let mut backend = fixture_ref.backend();
            pool_ref.drop_relation(&mut backend, REL).unwrap();
            done.send(()).unwrap();
        });
        gate_ref.await_waiters(1);
        assert!(dropped.try_recv().is_err());
        gate_ref.open();
        dropped.recv().unwrap();
    });
    assert!(!fixture.path(0).exists());
    assert!((0..64).all(|block| pool.lookup(&tag(block)).is_none()));
}

#[test]
fn a_drop_writes_nothing_but_waits_for_writes() {
    let (fixture, gate) = Fixture::gated(Spec::plain(), Arc::new(PosixExecutor));
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 32);
    for block in 0..32 {
        let pin = fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
        change(&pin, |page| stamp(page, block, 1));
    }
    let before = fixture.count(IoOp::Write);
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let (fixture, gate) = (&fixture, &gate);
        scope.spawn(move || {
            fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap()
        });
        gate.await_held(2);
        let (done, dropped) = mpsc::channel();
        scope.spawn(move || {
            fixture.pool.drop_relation(&mut fixture.backend(), REL).unwrap();
            done.send(()).unwrap();
        });
        gate.await_waiters(2);
        assert!(dropped.try_recv().is_err());
        gate.open();
        dropped.recv().unwrap();
    });
    assert_eq!(fixture.count(IoOp::Write) - before, 2);
    assert!(!fixture.path(0).exists());
    assert_eq!(
        fixture.pool.sync_pending(&mut backend).unwrap().files,
        0,
        "its sync requests are void"
    );

    fixture.fill(&mut backend, 32);
    let pin = fixture.pool.read(&mut backend, tag(5), Strategy::Normal).unwrap();
    change(&pin, |page| stamp(page, 5, 1));
    drop(pin);
    let before = fixture.count(IoOp::Write);
    fixture.pool.drop_relation(&mut backend, REL).unwrap();
    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    assert_eq!(
        fixture.count(IoOp::Write),
        before,
        "dirty pages of a dropped relation are not written"
    );
}

#[test]
fn a_write_that_ends_after_a_checkpoints_syncs_is_synced_by_the_next() {
    // The write is in flight while a checkpoint syncs. A later checkpoint must sync its file.
    let (fixture, gate) = Fixture::gated(Spec::plain(), Arc::new(PosixExecutor));
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 2);
    fixture.pool.sync_pending(&mut backend).unwrap();
    let pin = fixture.pool.read(&mut backend, tag(1), Strategy::Normal).unwrap();
    change(&pin, |page| stamp(page, 1, 1));
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let (fixture, gate) = (&fixture, &gate);
        scope.spawn(move || {
            fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap()
        });
        gate.await_held(1);
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().files, 0);
        gate.open();
    });
    assert_eq!(fixture.pool.sync_pending(&mut fixture.backend()).unwrap().files, 1);
}

#[test]
fn a_failed_write_is_reported_although_another_thread_repeats_it() {
    // The first write of the checkpoint fails. Before the checkpoint looks, another thread starts a
    // write of the page, which ends after the checkpoint. That must not hide the failure.
    let plan = FaultPlan::new();
    let fixture = Fixture::faulty(Spec::plain(), &plan);
    let (mut backend, mut other) = (fixture.backend(), fixture.backend());
    fixture.smgr.create(REL, Fork::Main, false).unwrap();
    for block in 0..3 {
        let pins = fixture.pool.extend(&mut backend, REL, Fork::Main, 1, Strategy::Normal).unwrap();
        if block != 1 {
            change(&pins[0], |page| stamp(page, block, 1)); // Two runs.
        }
    }
    plan.add(Rule::on(Ops::WRITE).nth(0), Effect::Fail(Errno::IO));
    thread::scope(|scope| {
        let pool = &fixture.pool;
        let checkpoints = plan.hold(Rule::on(Ops::WRITE).nth(1));
        let others = plan.hold(Rule::on(Ops::WRITE).skip(2));
        let checkpoint = scope.spawn(move || pool.write_dirty(&mut backend, WriteScope::All));
        checkpoints.await_count(1);
        scope.spawn(move || pool.write_dirty(&mut other, WriteScope::Relation(REL)).unwrap());
        others.await_count(1);
        checkpoints.release();
        let result = checkpoint.join().unwrap();
        others.release();
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not write block 0 in file \"base/5/16384\": Input/output error"
        );
    });
    assert_eq!(version(&fixture.on_disk(0), 0), 1);
}
