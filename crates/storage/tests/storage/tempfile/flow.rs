//! When transfers of temporary files are in flight.

use super::*;

#[test]
fn look_ahead_begins_after_a_wait_that_blocked() {
    let plan = FaultPlan::new();
    let executor = FaultyExecutor::new(Arc::new(PosixExecutor), Arc::clone(&plan));
    let (fixture, gate) = Fixture::gated(SPEC, Arc::new(executor));
    fixture.aio.set_combine_limit(0);
    let (files, space) = (files(&fixture), TempSpace::new());
    let mut backend = fixture.backend();
    let file = filled(&files, &space, &mut backend.io, 64 * 8192);
    let options = TempOptions { combine: 4, depth: 4 };
    let mut reader = file.reader(options);
    let mut block = [0; 8192];
    for _ in 0..13 {
        reader.read_exact(&mut backend.io, &mut block).unwrap();
    }
    // 1, 2, 4, 4, 4 blocks: the reads grow, and none is ahead.
    assert_eq!(plan.calls(Ops::READ), 5);
    let mut reader = file.reader(options);
    gate.shut();
    let mut backend = thread::scope(|scope| {
        let _open = gate.open_at_end();
        let reader = &mut reader;
        let blocked = scope.spawn(move || {
            reader.fill(&mut backend.io).unwrap();
            backend
        });
        gate.await_held(1);
        gate.await_waiters(1);
        gate.open();
        blocked.join().unwrap()
    });
    // The first block, and at least two further reads ahead.
    assert_eq!(plan.calls(Ops::READ), 5 + 1 + 2);
    assert_eq!(read_all(&mut reader, &mut backend.io, 3000), pattern(0, 64 * 8192));
}

#[test]
fn writes_in_flight_are_bounded_and_dropping_the_writer_waits_for_them() {
    let (fixture, gate) = Fixture::gated(SPEC, Arc::new(PosixExecutor));
    fixture.aio.set_combine_limit(0);
    let (files, space) = (files(&fixture), TempSpace::new());
    let mut writer = files.create(7, &space, SMALL).unwrap();
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let mut backend = fixture.backend();
        let blocked = scope.spawn(move || {
            writer.write_all(&mut backend.io, &pattern(0, 10 * PIECE)).unwrap();
            (writer, backend)
        });
        gate.await_held(2);
        gate.await_waiters(1);
        assert_eq!(gate.held(), 2);
        gate.open();
        let (mut writer, mut backend) = blocked.join().unwrap();
        gate.shut();
        writer.write_all(&mut backend.io, &pattern(10 * PIECE, PIECE)).unwrap();
        gate.await_held(1);
        let (done, gone) = mpsc::channel();
        scope.spawn(move || {
            drop(writer);
            done.send(()).unwrap();
        });
        gate.await_waiters(1);
        assert!(gone.try_recv().is_err());
        assert_eq!(names(&fixture).len(), 1);
        gate.open();
        gone.recv().unwrap();
    });
    assert_eq!((names(&fixture).len(), space.used()), (0, 0));
}

#[test]
fn bytes_read_ahead_survive_the_end_of_a_transaction() {
    each(SPEC, |fixture| {
        let (files, space) = (files(fixture), TempSpace::new());
        let mut backend = fixture.backend();
        let file = filled(&files, &space, &mut backend.io, 20 * PIECE);
        let mut reader = file.reader(TempOptions { combine: 1, depth: 4 });
        let (mut all, mut piece) = (Vec::new(), [0; 10_000]);
        for n in 0.. {
            let got = reader.read(&mut backend.io, &mut piece).unwrap();
            all.extend_from_slice(&piece[..got]);
            if got < piece.len() {
                break;
            }
            let _ = if n % 2 == 0 { backend.io.drain() } else { backend.io.end_of_transaction() };
        }
        assert_eq!(all, pattern(0, 20 * PIECE));
    });
}
