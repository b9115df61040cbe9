//! Read streams: order, combining, look-ahead.

use crate::bed::{Bed, REL, Spec, each, tag, version};
use forebay_aio::{IoOp, WaitRef};
use forebay_format::{BlockNumber, Fork};
use forebay_storage::{Backend, BufferPool, ReadStream, Strategy, StreamFlags};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::sync::Arc;

/// Streams the blocks and checks each page.
fn scan(
    pool: &Arc<BufferPool>,
    be: &mut Backend,
    blocks: &[BlockNumber],
    flags: StreamFlags,
    strategy: Strategy,
) -> u32 {
    let mut next = blocks.iter().copied();
    let mut stream = ReadStream::new(pool, REL, Fork::Main, || next.next(), flags, strategy, 16, 16);
    for &block in blocks {
        let pin = stream.next(be).unwrap().expect("not the end yet");
        assert_eq!(pin.tag(), tag(block));
        assert_eq!(version(&pin.lock_shared().copy(), block), 0);
    }
    assert!(stream.next(be).unwrap().is_none());
    assert!(stream.next(be).unwrap().is_none());
    stream.distance()
}

#[test]
fn a_cold_sequential_scan_reads_in_full_runs() {
    each(Spec { buffers: 1024, segment_blocks: 100, ..Spec::plain() }, |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 250);
        let blocks: Vec<u32> = (0..250).collect();
        scan(&pool, &mut be, &blocks, StreamFlags::FULL, Strategy::Normal);
        // 100 blocks are 6 runs of 16 and one of 4.
        assert_eq!(bed.count(IoOp::Read), 7 + 7 + 4);
        let hits = bed.count(IoOp::Hit);
        let distance = scan(&pool, &mut be, &blocks, StreamFlags::DEFAULT, Strategy::Normal);
        assert_eq!((distance, bed.count(IoOp::Read), bed.count(IoOp::Hit) - hits), (1, 18, 250));
        assert_eq!(pool.evict_all(&mut be).unwrap(), 0, "all pins were given back");
    });
}

#[test]
fn the_distance_grows_with_misses_and_falls_with_hits() {
    each(Spec { buffers: 1024, ..Spec::plain() }, |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 600);
        let blocks: Vec<u32> = (0..600).collect();
        let distance = scan(&pool, &mut be, &blocks[..300], StreamFlags::DEFAULT, Strategy::Normal);
        assert!(distance >= 16, "distance {distance}");
        let reads = bed.count(IoOp::Read);
        assert!(reads <= 5 + 300 / 16 + 1, "{reads} reads of 300 blocks");
        let mut both = blocks[300..320].to_vec();
        // More hits than the full distance and what its waits may add.
        (0..2).for_each(|_| both.extend(&blocks[..300]));
        assert_eq!(scan(&pool, &mut be, &both, StreamFlags::FULL, Strategy::Normal), 1);
    });
}

#[test]
fn any_order_with_repeats() {
    each(Spec { buffers: 64, segment_blocks: 32, ..Spec::plain() }, |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 200);
        let mut rng = StdRng::seed_from_u64(7);
        for strategy in [Strategy::Normal, Strategy::BulkRead, Strategy::Vacuum] {
            let mut blocks = Vec::new();
            while blocks.len() < 600 {
                let start = rng.random_range(0..200);
                let run = rng.random_range(1..20).min(200 - start);
                let repeats = rng.random_range(1..3);
                (0..repeats).for_each(|_| blocks.extend(start..start + run));
                blocks.extend(std::iter::repeat_n(start, rng.random_range(0..3)));
            }
            for flags in [StreamFlags::DEFAULT, StreamFlags::FULL] {
                scan(&pool, &mut be, &blocks, flags, strategy);
            }
        }
        assert_eq!(pool.evict_all(&mut be).unwrap(), 0, "all pins were given back");
    });
}

#[test]
fn streams_left_early_give_everything_back() {
    each(Spec { buffers: 64, ..Spec::plain() }, |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 200);
        for start in 0..50 {
            let mut blocks = start..200;
            let mut stream = ReadStream::new(
                &pool,
                REL,
                Fork::Main,
                || blocks.next(),
                StreamFlags::FULL,
                Strategy::Normal,
                16,
                16,
            );
            for _ in 0..start % 5 {
                stream.next(&mut be).unwrap().unwrap();
            }
        }
        let _ = be.io.drain();
        assert_eq!(pool.evict_all(&mut be).unwrap(), 0);
        // The half of all look-ahead that one may have can still be had.
        let mut blocks = 0..200;
        let stream = ReadStream::new(
            &pool,
            REL,
            Fork::Main,
            || blocks.next(),
            StreamFlags::FULL,
            Strategy::Normal,
            16,
            16,
        );
        assert_eq!(stream.distance(), 17);
    });
}

#[test]
fn an_empty_stream_and_one_without_concurrency() {
    let bed = Bed::new(Spec::plain());
    let mut be = bed.backend();
    let pool = bed.fill_cold(&mut be, 10);
    scan(&pool, &mut be, &[], StreamFlags::FULL, Strategy::Normal);
    let mut blocks = 0..10;
    let mut stream =
        ReadStream::new(&pool, REL, Fork::Main, || blocks.next(), StreamFlags::FULL, Strategy::Normal, 0, 1);
    (0..10).for_each(|block| assert_eq!(stream.next(&mut be).unwrap().unwrap().tag(), tag(block)));
    assert!(stream.next(&mut be).unwrap().is_none());
}

#[test]
fn a_scan_that_has_ended_holds_no_handle() {
    each(Spec { buffers: 512, ..Spec::plain() }, |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 200);
        let mut blocks = 0..200;
        let next = || blocks.next();
        let mut stream =
            ReadStream::new(&pool, REL, Fork::Main, next, StreamFlags::FULL, Strategy::Normal, 16, 4);
        while stream.next(&mut be).unwrap().is_some() {
            // All reads end before their turn.
            bed.aio.snapshot().iter().for_each(|io| {
                bed.aio.wait_done(WaitRef { index: io.io_id, generation: io.generation });
            });
        }
        assert_eq!(be.io.in_flight(), 0, "finished I/Os keep their files open");
    });
}
