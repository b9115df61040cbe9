//! Streams over blocks that someone else reads, and over files with holes and faults.

use crate::bed::{Bed, REL, Spec, each, each_faulty, full_stream, version};
use forebay_aio::execute::PosixExecutor;
use forebay_aio::fault::{Effect, FaultPlan, FaultyExecutor, Ops, Rule};
use forebay_aio::{Errno, IoOp};
use forebay_format::{BlockNumber, Fork};
use forebay_storage::{Backend, BufferPool, StorageError, Strategy};
use std::sync::Arc;
use std::thread;

/// Streams the blocks: for each the page's block, or the error's text.
fn stream(
    pool: &Arc<BufferPool>,
    be: &mut Backend,
    blocks: &[BlockNumber],
) -> Vec<Result<BlockNumber, String>> {
    let mut next = blocks.iter().copied();
    let mut stream = full_stream(pool, || next.next(), Strategy::Normal, 8, 16);
    let mut seen = Vec::new();
    loop {
        match stream.next(be) {
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

/// A stream over `blocks` while someone else reads blocks 2 to 5 in one I/O; how many reads there
/// were.
fn beside_a_foreign_read(bed: &Bed, gate: &Arc<crate::bed::Gate>, blocks: &[BlockNumber]) -> u64 {
    let pool = bed.fill_cold(&mut bed.backend(), 12);
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let (mut issuer, mut streamer) = (bed.backend(), bed.backend());
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
    bed.count(IoOp::Read)
}

#[test]
fn a_foreign_read_that_covers_two_wanted_blocks_is_joined() {
    let (bed, gate) = Bed::gated(Spec::plain(), Arc::new(PosixExecutor));
    // Blocks 0 and 1, 6 and 7 are the stream's own; the rest is there when it comes.
    assert_eq!(beside_a_foreign_read(&bed, &gate, &[0, 1, 2, 4, 4, 2, 6, 7]), 3);
}

#[test]
fn a_foreign_read_that_fails_is_done_again() {
    let plan = FaultPlan::new();
    plan.add(Rule::on(Ops::READ).times(1), Effect::Fail(Errno::IO));
    let executor = FaultyExecutor::new(Arc::new(PosixExecutor), plan);
    let (bed, gate) = Bed::gated(Spec::plain(), Arc::new(executor));
    // The failed one, and one for each of the two blocks.
    assert_eq!(beside_a_foreign_read(&bed, &gate, &[3, 5, 3]), 3);
}

#[test]
fn a_block_that_comes_again_and_again_is_read_once() {
    each(Spec { buffers: 16, ..Spec::plain() }, |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 4);
        let blocks = [2, 2, 2, 0, 2, 2, 0, 0, 2];
        let wanted: Vec<_> = blocks.iter().copied().map(Ok).collect();
        assert_eq!(stream(&pool, &mut be, &blocks), wanted);
        assert_eq!(bed.count(IoOp::Read), 2);
    });
}

#[test]
fn bad_headers_within_one_read_are_errors_in_their_turn() {
    each(Spec::plain(), |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 16);
        [4, 9].iter().for_each(|&block| bed.damage(block, 12, &[0xff, 0xff]));
        let seen = stream(&pool, &mut be, &(0..16).collect::<Vec<_>>());
        let wanted = (0..16).map(|block| match block {
            4 | 9 => {
                Err("2 invalid pages among blocks 0..15 of relation \"base/5/16384\"".to_owned())
            }
            _ => Ok(block),
        });
        assert_eq!(seen, wanted.collect::<Vec<_>>());
        assert_eq!(bed.count(IoOp::Read), 1);
    });
}

#[test]
fn a_missing_segment_is_named_and_the_next_request_works() {
    each(Spec { segment_blocks: 8, ..Spec::plain() }, |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 24);
        assert_eq!(pool.nblocks(REL, Fork::Main).unwrap(), 24);
        pool.smgr().close_files();
        std::fs::rename(bed.path(1), bed.dir().join("aside")).unwrap();
        let error = pool.read_many(&mut be, REL, Fork::Main, 6, 12, Strategy::Normal).unwrap_err();
        let named =
            matches!(&error, StorageError::OpenSegment { block: 8, errno: Errno::NOENT, .. });
        assert!(
            named && error.to_string().contains("base/5/16384.1\" (target block 8)"),
            "{error}"
        );
        assert_eq!(error.sqlstate(), "58P01");
        assert_eq!(stream(&pool, &mut be, &[0, 7, 16, 23]), [Ok(0), Ok(7), Ok(16), Ok(23)]);
        std::fs::rename(bed.dir().join("aside"), bed.path(1)).unwrap();
        let all: Vec<_> = (0..24).collect();
        assert_eq!(stream(&pool, &mut be, &all), all.into_iter().map(Ok).collect::<Vec<_>>());
        let _ = be.io.drain();
        assert_eq!(pool.evict_all(&mut be).unwrap(), 0, "no pin was left");
    });
}

#[test]
fn a_disk_that_always_fails_ends_every_request_and_leaves_no_pin() {
    each_faulty(Spec::plain(), |bed, plan| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 12);
        plan.add(Rule::on(Ops::READ), Effect::Fail(Errno::IO));
        let seen = stream(&pool, &mut be, &[0, 1, 5, 6]);
        let text = |b| {
            Err(format!("could not read block {b} in file \"base/5/16384\": Input/output error"))
        };
        assert_eq!(seen, [0, 1, 5, 6].map(text));
        let error = pool.read_many(&mut be, REL, Fork::Main, 0, 12, Strategy::Normal).unwrap_err();
        assert_eq!(error.sqlstate(), "58030");
        let _ = be.io.drain();
        assert_eq!(pool.evict_all(&mut be).unwrap(), 0);
        plan.mend();
        assert_eq!(stream(&pool, &mut be, &[0, 1, 5, 6]), [0, 1, 5, 6].map(Ok));
    });
}

#[test]
fn blocks_past_the_end_are_short_reads() {
    each(Spec::plain(), |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 10);
        let seen = stream(&pool, &mut be, &[8, 9, 10, 3]);
        let past = "could not read block 10 in file \"base/5/16384\": read only 0 of 8192 bytes";
        assert_eq!(seen, [Ok(8), Ok(9), Err(past.to_owned()), Ok(3)]);
    });
}
