//! Streams over blocks that another backend reads, and over files with holes and faults.

use crate::fixture::{Fixture, REL, Spec, each, each_faulty, full_stream, version};
use forebay_aio::execute::PosixExecutor;
use forebay_aio::fault::{Effect, FaultPlan, FaultyExecutor, Ops, Rule};
use forebay_aio::{Errno, IoOp};
use forebay_format::{BlockNumber, Fork};
use forebay_storage::{Backend, BufferPool, StorageError, Strategy};
use std::sync::Arc;
use std::thread;

/// Streams the blocks, and returns each page's block or the error's text.
fn stream(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    blocks: &[BlockNumber],
) -> Vec<Result<BlockNumber, String>> {
    let mut next = blocks.iter().copied();
    let mut stream = full_stream(pool, || next.next(), Strategy::Normal, 8, 16);
    let mut seen = Vec::new();
    loop {
        match stream.next(backend) {
            Ok(None) => return seen,
            Ok(Some(pin)) => {
                let block = pin.tag().block;
                assert_eq!(version(&pin.lock_shared().copy(), block), 0);
                seen.push(Ok(block));
            }
            Err(error) => seen.push(Err(error.to_string())),
        }
        assert!(seen.len() <= blocks.len(), "a stream without an end");
    }
}

/// Streams `blocks` while another backend reads blocks 2 to 5 in one I/O. Returns the number of
/// reads.
fn beside_a_foreign_read(
    fixture: &Fixture,
    gate: &Arc<crate::fixture::Gate>,
    blocks: &[BlockNumber],
) -> u64 {
    let pool = fixture.fill_cold(&mut fixture.backend(), 12);
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let (mut issuer, mut streamer) = (fixture.backend(), fixture.backend());
        let pool = &pool;
        let issued = scope.spawn(move || {
            pool.read_many(&mut issuer, REL, Fork::Main, 2, 4, Strategy::Normal).map(drop)
        });
        gate.await_held(1);
        let streamed = scope.spawn(move || stream(pool, &mut streamer, blocks));
        // The issuer and the stream.
        gate.await_waiters(2);
        gate.open();
        let _ = issued.join().unwrap();
        let wanted: Vec<_> = blocks.iter().copied().map(Ok).collect();
        assert_eq!(streamed.join().unwrap(), wanted);
    });
    fixture.count(IoOp::Read)
}

#[test]
fn a_foreign_read_that_covers_two_wanted_blocks_is_joined() {
    let (fixture, gate) = Fixture::gated(Spec::plain(), Arc::new(PosixExecutor));
    // The stream reads blocks 0 and 1, 6 and 7; the others are in memory when it needs them.
    assert_eq!(beside_a_foreign_read(&fixture, &gate, &[0, 1, 2, 4, 4, 2, 6, 7]), 3);
}

#[test]
fn a_foreign_read_that_fails_is_repeated() {
    let plan = FaultPlan::new();
    plan.add(Rule::on(Ops::READ).times(1), Effect::Fail(Errno::IO));
    let executor = FaultyExecutor::new(Arc::new(PosixExecutor), plan);
    let (fixture, gate) = Fixture::gated(Spec::plain(), Arc::new(executor));
    // The failed read, and one for each of the two blocks.
    assert_eq!(beside_a_foreign_read(&fixture, &gate, &[3, 5, 3]), 3);
}

#[test]
fn a_block_that_comes_again_and_again_is_read_once() {
    each(Spec { buffers: 16, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 4);
        let blocks = [2, 2, 2, 0, 2, 2, 0, 0, 2];
        let wanted: Vec<_> = blocks.iter().copied().map(Ok).collect();
        assert_eq!(stream(&pool, &mut backend, &blocks), wanted);
        assert_eq!(fixture.count(IoOp::Read), 2);
    });
}

#[test]
fn bad_headers_in_one_read_are_errors_of_their_pages() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 16);
        [4, 9].iter().for_each(|&block| fixture.damage(block, 12, &[0xff, 0xff]));
        let seen = stream(&pool, &mut backend, &(0..16).collect::<Vec<_>>());
        let wanted = (0..16).map(|block| match block {
            4 | 9 => {
                Err("2 invalid pages among blocks 0..15 of relation \"base/5/16384\"".to_owned())
            }
            _ => Ok(block),
        });
        assert_eq!(seen, wanted.collect::<Vec<_>>());
        assert_eq!(fixture.count(IoOp::Read), 1);
    });
}

#[test]
fn an_error_names_the_missing_segment_and_the_next_request_succeeds() {
    each(Spec { segment_blocks: 8, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 24);
        assert_eq!(pool.nblocks(REL, Fork::Main).unwrap(), 24);
        pool.smgr().close_files();
        std::fs::rename(fixture.path(1), fixture.dir().join("aside")).unwrap();
        let error =
            pool.read_many(&mut backend, REL, Fork::Main, 6, 12, Strategy::Normal).unwrap_err();
        let named =
            matches!(&error, StorageError::OpenSegment { block: 8, errno: Errno::NOENT, .. });
        assert!(
            named && error.to_string().contains("base/5/16384.1\" (target block 8)"),
            "{error}"
        );
        assert_eq!(error.sqlstate(), "58P01");
        assert_eq!(stream(&pool, &mut backend, &[0, 7, 16, 23]), [Ok(0), Ok(7), Ok(16), Ok(23)]);
        std::fs::rename(fixture.dir().join("aside"), fixture.path(1)).unwrap();
        let all: Vec<_> = (0..24).collect();
        assert_eq!(stream(&pool, &mut backend, &all), all.into_iter().map(Ok).collect::<Vec<_>>());
        let _ = backend.io.drain();
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0, "no pin was left");
    });
}

#[test]
fn a_disk_that_always_fails_ends_every_request_and_leaves_no_pin() {
    each_faulty(Spec::plain(), |fixture, plan| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 12);
        plan.add(Rule::on(Ops::READ), Effect::Fail(Errno::IO));
        let seen = stream(&pool, &mut backend, &[0, 1, 5, 6]);
        let text = |b| {
            Err(format!("could not read block {b} in file \"base/5/16384\": Input/output error"))
        };
        assert_eq!(seen, [0, 1, 5, 6].map(text));
        let error =
            pool.read_many(&mut backend, REL, Fork::Main, 0, 12, Strategy::Normal).unwrap_err();
        assert_eq!(error.sqlstate(), "58030");
        let _ = backend.io.drain();
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
        plan.mend();
        assert_eq!(stream(&pool, &mut backend, &[0, 1, 5, 6]), [0, 1, 5, 6].map(Ok));
    });
}

#[test]
fn blocks_past_the_end_are_short_reads() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 10);
        let seen = stream(&pool, &mut backend, &[8, 9, 10, 3]);
        let past = "could not read block 10 in file \"base/5/16384\": read only 0 of 8192 bytes";
        assert_eq!(seen, [Ok(8), Ok(9), Err(past.to_owned()), Ok(3)]);
    });
}
