//! Read streams: order, combining, look-ahead.

use crate::fixture::{Fixture, Gate, REL, Spec, each, full_stream, tag, version};
use forebay_aio::execute::PosixExecutor;
use forebay_aio::{IoOp, WaitRef};
use forebay_format::{BlockNumber, Fork};
use forebay_storage::{
    Backend, BlockSource, BufferPool, ReadStream, Strategy, StreamFlags, StreamSettings, WithData,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::sync::Arc;

/// Streams the blocks and checks each page.
fn scan(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    blocks: &[BlockNumber],
    flags: StreamFlags,
    strategy: Strategy,
) -> u32 {
    let mut next = blocks.iter().copied();
    let mut stream = ReadStream::new(
        pool,
        REL,
        Fork::Main,
        || next.next(),
        flags,
        strategy,
        StreamSettings::new(16, 16),
    );
    for &block in blocks {
        let pin = stream.next(backend).unwrap().expect("not the end yet");
        assert_eq!(pin.tag(), tag(block));
        assert_eq!(version(&pin.lock_shared().copy(), block), 0);
    }
    assert!(stream.next(backend).unwrap().is_none());
    assert!(stream.next(backend).unwrap().is_none());
    stream.distance()
}

#[test]
fn a_cold_sequential_scan_reads_in_full_runs() {
    each(Spec { buffers: 1024, segment_blocks: 100, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 250);
        let blocks: Vec<u32> = (0..250).collect();
        scan(&pool, &mut backend, &blocks, StreamFlags::FULL, Strategy::Normal);
        // 100 blocks are 6 runs of 16 and one of 4.
        assert_eq!(fixture.count(IoOp::Read), 7 + 7 + 4);
        let hits = fixture.count(IoOp::Hit);
        let distance = scan(&pool, &mut backend, &blocks, StreamFlags::DEFAULT, Strategy::Normal);
        assert_eq!(
            (distance, fixture.count(IoOp::Read), fixture.count(IoOp::Hit) - hits),
            (1, 18, 250)
        );
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
    });
}

#[test]
fn the_distance_grows_with_misses_and_falls_with_hits() {
    each(Spec { buffers: 1024, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 600);
        let blocks: Vec<u32> = (0..600).collect();
        let distance =
            scan(&pool, &mut backend, &blocks[..300], StreamFlags::DEFAULT, Strategy::Normal);
        assert!(distance >= 16, "distance {distance}");
        let reads = fixture.count(IoOp::Read);
        assert!(reads <= 5 + 300 / 16 + 1, "{reads} reads of 300 blocks");
        let mut both = blocks[300..320].to_vec();
        // More hits than the full distance, plus what its waits may add.
        (0..2).for_each(|_| both.extend(&blocks[..300]));
        assert_eq!(scan(&pool, &mut backend, &both, StreamFlags::FULL, Strategy::Normal), 1);
    });
}

#[test]
fn any_order_with_repeats() {
    each(Spec { buffers: 64, segment_blocks: 32, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 200);
        let mut rng = StdRng::seed_from_u64(7);
        for strategy in [Strategy::Normal, Strategy::BulkRead, Strategy::VACUUM] {
            let mut blocks = Vec::new();
            while blocks.len() < 600 {
                let start = rng.random_range(0..200);
                let run = rng.random_range(1..20).min(200 - start);
                let repeats = rng.random_range(1..3);
                (0..repeats).for_each(|_| blocks.extend(start..start + run));
                blocks.extend(std::iter::repeat_n(start, rng.random_range(0..3)));
            }
            for flags in [StreamFlags::DEFAULT, StreamFlags::FULL] {
                scan(&pool, &mut backend, &blocks, flags, strategy);
            }
        }
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
    });
}

#[test]
fn streams_that_end_early_release_everything() {
    each(Spec { buffers: 64, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 200);
        for start in 0..50 {
            let mut blocks = start..200;
            let mut stream = full_stream(&pool, || blocks.next(), Strategy::Normal, 16, 16);
            for _ in 0..start % 5 {
                stream.next(&mut backend).unwrap().unwrap();
            }
        }
        let _ = backend.io.drain();
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
        // One stream can still get half of the spare pins.
        let mut blocks = 0..200;
        let stream = full_stream(&pool, || blocks.next(), Strategy::Normal, 16, 16);
        assert_eq!(stream.distance(), 17);
    });
}

#[test]
fn an_empty_stream_and_one_without_concurrency() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, 10);
    scan(&pool, &mut backend, &[], StreamFlags::FULL, Strategy::Normal);
    let mut blocks = 0..10;
    let mut stream = full_stream(&pool, || blocks.next(), Strategy::Normal, 0, 1);
    (0..10).for_each(|block| {
        assert_eq!(stream.next(&mut backend).unwrap().unwrap().tag(), tag(block))
    });
    assert!(stream.next(&mut backend).unwrap().is_none());
}

#[test]
fn a_scan_that_has_ended_holds_no_handle() {
    each(Spec { buffers: 512, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 200);
        let mut blocks = 0..200;
        let next = || blocks.next();
        let mut stream = full_stream(&pool, next, Strategy::Normal, 16, 4);
        while stream.next(&mut backend).unwrap().is_some() {
            // All reads end before their turn.
            fixture.aio.snapshot().iter().for_each(|io| {
                fixture.aio.wait_done(WaitRef { index: io.io_id, generation: io.generation });
            });
        }
        assert_eq!(backend.io.in_flight(), 0, "finished I/Os keep their files open");
    });
}

/// A source whose blocks can be changed during the scan.
struct Blocks(std::ops::Range<BlockNumber>);

impl BlockSource for Blocks {
    type Data = u64;

    fn next_block(&mut self) -> Option<(BlockNumber, u64)> {
        self.0.next().map(|block| (block, u64::from(block) * 3))
    }
}

/// Takes all pages, and returns their blocks.
fn take_all(stream: &mut ReadStream<Blocks>, backend: &mut Backend) -> Vec<BlockNumber> {
    let mut blocks = Vec::new();
    while let Some((pin, data)) = stream.next_with_data(backend).unwrap() {
        assert_eq!(data, u64::from(pin.tag().block) * 3);
        blocks.push(pin.tag().block);
    }
    blocks
}

#[test]
fn each_block_comes_with_its_data() {
    each(Spec { buffers: 256, segment_blocks: 32, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 100);
        fixture.damage(33, 4000, b"rot");
        let mut rng = StdRng::seed_from_u64(3);
        let blocks: Vec<(u32, String)> = (0..400)
            .map(|n| {
                (rng.random_range(0..33) + if n % 7 == 0 { 34 } else { 0 }, format!("row {n}"))
            })
            .chain([(33, "bad".into()), (34, "good".into())])
            .collect();
        let mut next = blocks.iter().cloned();
        let source = WithData(|| next.next());
        let settings = StreamSettings::default();
        let flags = StreamFlags::DEFAULT;
        let mut stream =
            ReadStream::new(&pool, REL, Fork::Main, source, flags, Strategy::Normal, settings);
        for (block, row) in &blocks {
            match stream.next_with_data(&mut backend) {
                Ok(Some((pin, data))) => assert_eq!((pin.tag().block, &data), (*block, row)),
                Ok(None) => panic!("not the end yet"),
                Err(error) => assert_eq!((row.as_str(), error.sqlstate()), ("bad", "XX001")),
            }
        }
        assert!(stream.next(&mut backend).unwrap().is_none());
    });
}

#[test]
fn a_read_that_cannot_be_started_loses_only_its_own_blocks() {
    each(Spec { buffers: 256, segment_blocks: 32, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 100);
        std::fs::remove_file(fixture.path(1)).expect("the second segment is removed");
        let blocks = [3, 40, 70, 5, 90];
        let mut next = blocks.into_iter().map(|block| (block, u64::from(block) * 3));
        let source = WithData(|| next.next());
        let (flags, settings) = (StreamFlags::DEFAULT, StreamSettings::default());
        let mut stream =
            ReadStream::new(&pool, REL, Fork::Main, source, flags, Strategy::Normal, settings);
        let (mut found, mut errors) = (Vec::new(), 0);
        loop {
            match stream.next_with_data(&mut backend) {
                Ok(Some((pin, data))) => found.push((pin.tag().block, data)),
                Ok(None) => break,
                Err(_) => errors += 1,
            }
        }
        assert_eq!((found, errors), (vec![(3, 9), (70, 210), (5, 15), (90, 270)], 1));
    });
}

#[test]
fn a_stream_is_reset_to_other_blocks_and_resumed_after_a_pause() {
    each(Spec { buffers: 256, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 200);
        let settings = StreamSettings { io_concurrency: 4, combine_limit: 8, ..Default::default() };
        let mut stream = ReadStream::new(
            &pool,
            REL,
            Fork::Main,
            Blocks(0..100),
            StreamFlags::FULL,
            Strategy::Normal,
            settings,
        );
        assert_eq!(stream.next(&mut backend).unwrap().unwrap().tag(), tag(0));
        *stream.source_mut() = Blocks(150..160);
        stream.reset();
        assert_eq!(stream.distance(), 32, "as for a new stream");
        assert_eq!(take_all(&mut stream, &mut backend), (150..160).collect::<Vec<_>>());
        *stream.source_mut() = Blocks(20..40);
        assert_eq!(take_all(&mut stream, &mut backend), [], "not asked again before it is resumed");
        stream.resume();
        assert_eq!(take_all(&mut stream, &mut backend), (20..40).collect::<Vec<_>>());
        drop(stream);
        let _ = backend.io.drain();
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
    });
}

/// Scans 96 cold blocks with these flags. Returns the number of reads and the largest distance.
fn cost(
    fixture: &Fixture,
    backend: &mut Backend,
    pool: &Arc<BufferPool>,
    flags: StreamFlags,
) -> (u64, u32) {
    let settings =
        StreamSettings { io_concurrency: 8, maintenance_io_concurrency: 2, combine_limit: 16 };
    let before = fixture.count(IoOp::Read);
    let mut stream =
        ReadStream::new(pool, REL, Fork::Main, Blocks(0..96), flags, Strategy::Normal, settings);
    let mut most = stream.distance();
    while stream.next(backend).unwrap().is_some() {
        most = most.max(stream.distance());
    }
    (fixture.count(IoOp::Read) - before, most)
}

#[test]
fn flags() {
    // Reads end at once here, so there are no waits.
    let fixture = Fixture::new(Spec { buffers: 1024, ..Spec::plain() });
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, 96);
    let cost = |backend: &mut Backend, flags| {
        pool.evict_all(backend).unwrap();
        cost(&fixture, backend, &pool, flags)
    };
    // 1, 2, 4, 8, and then 16.
    assert_eq!(cost(&mut backend, StreamFlags::DEFAULT), (10, 16), "full reads, and no look-ahead");
    assert_eq!(cost(&mut backend, StreamFlags::WAITING_CALLBACK), (10, 16));
    assert_eq!(cost(&mut backend, StreamFlags::SEQUENTIAL), (6, 16));
    assert_eq!(cost(&mut backend, StreamFlags::FULL), (6, 128));
    let all = StreamFlags { full: true, maintenance: true, ..StreamFlags::DEFAULT };
    assert_eq!(cost(&mut backend, all), (6, 32));
}

#[test]
fn a_callback_that_waits_finds_no_staged_read() {
    let (fixture, gate) = gated();
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, 20);
    gate.shut();
    let _open = gate.open_at_end();
    // Reads of one block each: with each one the callback is called again.
    let mut blocks = (0..20).step_by(2).enumerate();
    let seen = Arc::clone(&gate);
    let next = move || {
        let (n, block) = blocks.next()?;
        // All reads are submitted except the pending one and this one.
        assert!(seen.held() + 1 >= n, "{} of {n} are submitted", seen.held());
        if n == 9 {
            seen.open();
        }
        Some(block)
    };
    let flags = StreamFlags { full: true, ..StreamFlags::WAITING_CALLBACK };
    let mut stream = ReadStream::new(
        &pool,
        REL,
        Fork::Main,
        next,
        flags,
        Strategy::Normal,
        StreamSettings::new(16, 4),
    );
    (0..10).for_each(|n| assert_eq!(stream.next(&mut backend).unwrap().unwrap().tag(), tag(2 * n)));
}

fn gated() -> (Fixture, Arc<Gate>) {
    Fixture::gated(Spec::plain(), Arc::new(PosixExecutor))
}
