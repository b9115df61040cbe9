//! The cost of a page that is in memory: find, pin and unpin it. Measured with one thread, and with
//! two on pages of their own.
//!
//! ```text
//! cargo bench -p forebay-storage --bench hit
//! ```
//!
//! Without `--bench`, as in `cargo test`, everything runs once and nothing is measured.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use forebay_aio::{Aio, AioConfig, BackendType, MethodKind, PosixNamespace};
use forebay_format::{Fork, PageTag, RelFileLocator};
use forebay_storage::{
    Backend, BufferPool, PoolConfig, ReadStream, Smgr, SmgrConfig, Strategy, StreamFlags,
    StreamSettings,
};

const REL: RelFileLocator = RelFileLocator::in_default(5, 16_384);
const PAGES: u32 = 2048;

struct Fixture {
    _dir: tempfile::TempDir,
    aio: Arc<Aio>,
    pool: Arc<BufferPool>,
}

impl Fixture {
    /// A pool that has all pages of a relation.
    fn new() -> Fixture {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(dir.path().join("base/5")).expect("a directory");
        let aio = Aio::new(Arc::new(PosixNamespace), MethodKind::Sync, AioConfig::default())
            .expect("an I/O layer");
        let smgr = Smgr::new(Arc::clone(&aio), dir.path(), SmgrConfig::default());
        let config = PoolConfig { buffers: 4096, ..PoolConfig::default() };
        let pool = BufferPool::new(config, Arc::clone(&aio), smgr).expect("a pool");
        let fixture = Fixture { _dir: dir, aio, pool };
        fixture.pool.smgr().create(REL, Fork::Main, false).expect("a relation");
        let mut backend = fixture.backend();
        while fixture.pool.nblocks(REL, Fork::Main).expect("a size") < PAGES {
            fixture
                .pool
                .extend(&mut backend, REL, Fork::Main, 64, Strategy::Normal)
                .expect("pages");
        }
        fixture
    }

    fn backend(&self) -> Backend {
        Backend::new(self.aio.backend(BackendType::Client).expect("a slot"))
    }
}

fn tag(block: u32) -> PageTag {
    PageTag::new(REL, Fork::Main, block)
}

/// Pages of one half, in an order that no hardware prefetcher guesses.
fn scattered(n: u64, half: u32) -> PageTag {
    let x = (n as u32).wrapping_mul(0x9E37_79B1) >> 16;
    tag(x % (PAGES / 2) + half * (PAGES / 2))
}

fn hit(fixture: &Fixture, backend: &mut Backend, tag: PageTag) {
    black_box(fixture.pool.read(backend, tag, Strategy::Normal).expect("a page"));
}

/// Processor time of the calling thread: the cost, whatever else runs.
fn cost() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid, and Linux always has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The cost of `each` hits in every one of `threads` threads, for the slowest of them.
fn side_by_side(
    fixture: &Fixture,
    threads: u32,
    each: u64,
    page: fn(u64, u32) -> PageTag,
) -> Duration {
    let start = Barrier::new(threads as usize);
    thread::scope(|scope| {
        let run = |half| {
            let (mut backend, start) = (fixture.backend(), &start);
            scope.spawn(move || {
                start.wait();
                let begun = cost();
                (0..each).for_each(|n| hit(fixture, &mut backend, page(n, half)));
                cost() - begun
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().map(|t| t.join().expect("a time")).max().expect("a thread")
    })
}

fn hits(c: &mut Criterion) {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let mut group = c.benchmark_group("hit");
    group.bench_function("one page", |b| b.iter(|| hit(&fixture, &mut backend, tag(7))));
    let mut n = 0;
    group.bench_function("scattered pages", |b| {
        b.iter(|| {
            n += 1;
            hit(&fixture, &mut backend, scattered(n, 0));
        });
    });
    group.bench_function("one page, lookup without a backend", |b| {
        b.iter(|| black_box(fixture.pool.lookup(&tag(7))));
    });
    group.bench_function("one page, locked for reading", |b| {
        b.iter(|| {
            let pin = fixture.pool.read(&mut backend, tag(7), Strategy::Normal).expect("a page");
            black_box(pin.lock_shared().page().lsn())
        });
    });
    for threads in [1, 2] {
        group.bench_function(format!("a page of its own, {threads} threads"), |b| {
            b.iter_custom(|each| side_by_side(&fixture, threads, each, |_, half| tag(7 + half)));
        });
        group.bench_function(format!("scattered pages of its own, {threads} threads"), |b| {
            b.iter_custom(|each| side_by_side(&fixture, threads, each, scattered));
        });
    }
    group.finish();
    c.bench_function("stream over pages in memory", |b| {
        b.iter_custom(|pages| {
            let mut left = pages;
            let next = || {
                left = left.checked_sub(1)?;
                Some((left % u64::from(PAGES)) as u32)
            };
            let flags = StreamFlags::DEFAULT;
            let mut stream = ReadStream::new(
                &fixture.pool,
                REL,
                Fork::Main,
                next,
                flags,
                Strategy::Normal,
                StreamSettings::new(16, 16),
            );
            let begun = Instant::now();
            while let Some(pin) = stream.next(&mut backend).expect("a page") {
                black_box(pin.buffer());
            }
            begun.elapsed()
        });
    });
}

/// Threads that change the same page, each briefly and as often as it can.
fn changes(c: &mut Criterion) {
    let fixture = Fixture::new();
    let mut group = c.benchmark_group("one page changed");
    for threads in [1, 2, 8] {
        group.bench_function(format!("by {threads} threads"), |b| {
            b.iter_custom(|all| {
                let each = all / threads + 1;
                let begun = Instant::now();
                thread::scope(|scope| {
                    for _ in 0..threads {
                        let mut backend = fixture.backend();
                        let pool = &fixture.pool;
                        scope.spawn(move || {
                            for n in 0..each {
                                let pin = pool
                                    .read(&mut backend, tag(7), Strategy::Normal)
                                    .expect("a page");
                                let mut page = pin.lock_exclusive();
                                page[100..800].fill(n as u8);
                                page.mark_dirty();
                            }
                        });
                    }
                });
                begun.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, hits, changes);
criterion_main!(benches);
