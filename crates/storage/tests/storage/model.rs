//! Many threads use all operations of the pool on a disk that fails now and then. A model says what
//! the pages must contain. A seed determines each run: `FOREBAY_MODEL_SEED=n` repeats one, and
//! `FOREBAY_MODEL_RUNS=n` makes more of them.
//!
//! The model of a relation is the version of each block. A version is read and changed only under
//! the page's content lock. The number of blocks shrinks only under the relation's exclusive lock,
//! as in the engine. So a thread that has a page locked knows its exact contents. Each change has
//! an LSN in a log that sometimes cannot be flushed, and no page on disk may be newer than the log.
//!
//! While faults last, errors that they explain are expected. In the end the disk is well, and every
//! page, size, pin and handle is checked.

use crate::fixture::{Fixture, Spec, each_faulty, stamp, version};
use crate::wal::UnsteadyLog;
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, IoContext};
use forebay_format::{BlockNumber, Fork, Page, PageBytes, PageTag, RelFileLocator, checksum};
use forebay_storage::{
    Backend, BufferPool, Cleaner, CleanerOptions, Locked, Pace, Pinned, PrewarmMode, ReadStream,
    StorageError, Strategy, StreamFlags, StreamSettings, WalFlush, WriteOptions, WriteScope,
    WriteStream,
};
use forebay_testkit::env::number;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;

const RELATIONS: usize = 3;
const THREADS: u64 = 6;
const STEPS: usize = 220;
/// Blocks at the beginning.
const FIRST: u32 = 40;
/// The size at which relations stop growing.
const MOST: u32 = 160;
const STRATEGIES: [Strategy; 4] =
    [Strategy::Normal, Strategy::Normal, Strategy::BulkRead, Strategy::BulkWrite];

/// What a relation must contain. The lock stands for the one that sessions take on relations.
struct Relation {
    rel: RelFileLocator,
    log: Arc<UnsteadyLog>,
    /// By block: 0 for a page that is still all zeros.
    versions: Vec<AtomicU64>,
}

impl Relation {
    /// Returns the number of pages that must exist: those that the model has seen.
    fn blocks(&self, pool: &BufferPool) -> u32 {
        pool.nblocks(self.rel, Fork::Main).unwrap_or(0)
    }

    fn check(&self, page: &PageBytes, block: BlockNumber) {
        let want = self.versions[block as usize].load(Ordering::SeqCst);
        if want == 0 {
            assert!(page.iter().all(|&b| b == 0), "block {block} was never filled");
        } else {
            assert_eq!(version(page, block), want, "block {block} of {:?}", self.rel);
        }
    }
}

fn fresh(rel: RelFileLocator, log: &Arc<UnsteadyLog>) -> Relation {
    Relation {
        rel,
        log: Arc::clone(log),
        versions: (0..MOST + 64).map(|_| AtomicU64::new(0)).collect(),
    }
}

/// What the threads share.
struct World<'a> {
    fixture: &'a Fixture,
    pool: &'a Arc<BufferPool>,
    relations: Vec<RwLock<Relation>>,
    next_rel: AtomicU32,
    log: Arc<UnsteadyLog>,
    errors: AtomicU64,
}

/// Accepts an expected error; any other fails the test.
fn tolerate<T>(world: &World<'_>, result: Result<T, StorageError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let expected = match &error {
                StorageError::Read { errno, .. }
                | StorageError::Write { errno, .. }
                | StorageError::Extend { errno, .. }
                | StorageError::OpenSegment { errno, .. }
                | StorageError::File { errno, .. } => matches!(*errno, Errno::IO | Errno::NOSPC),
                StorageError::Wal(_) => true,
                _ => false,
            };
            assert!(expected, "{error:?}");
            world.errors.fetch_add(1, Ordering::SeqCst);
            None
        }
    }
}

/// One thread and its random numbers.
struct Actor<'a> {
    world: &'a World<'a>,
    backend: Backend,
    cleaner: Cleaner,
    rng: StdRng,
}

impl Actor<'_> {
    fn step(&mut self) {
        let at = self.rng.random_range(0..RELATIONS);
        match self.rng.random_range(0..100) {
            0..3 => self.shrink(at),
            3..5 => self.replace(at),
            action => {
                let guard = self.world.relations[at].read().unwrap();
                self.use_relation(&guard, action);
            }
        }
    }

    fn use_relation(&mut self, relation: &Relation, action: u32) {
        let blocks = relation.blocks(self.world.pool);
        if blocks == 0 {
            return self.grow(relation, blocks);
        }
        match action {
            5..35 => self.update(relation, blocks),
            35..50 => self.look(relation, blocks),
            50..58 => self.look_at_many(relation, blocks),
            58..72 => self.stream(relation, blocks),
            72..84 => self.grow(relation, blocks),
            84..88 => self.prewarm(relation),
            88..92 => self.write(relation, blocks),
            92..96 => {
                let max_pages = [3, 100][self.rng.random_range(0..2)];
                let options = CleanerOptions { max_pages, ..CleanerOptions::default() };
                tolerate(
                    self.world,
                    self.cleaner.step(self.world.pool, &mut self.backend, &options),
                );
            }
            96..98 => {
                tolerate(self.world, self.world.pool.sync_pending(&mut self.backend));
            }
            _ => {
                tolerate(self.world, self.world.pool.evict_all(&mut self.backend));
            }
        }
    }

    fn tag(&mut self, relation: &Relation, blocks: u32) -> PageTag {
        PageTag::new(relation.rel, Fork::Main, self.rng.random_range(0..blocks))
    }

    fn strategy(&mut self) -> Strategy {
        STRATEGIES[self.rng.random_range(0..STRATEGIES.len())]
    }

    /// Changes a page to its next version.
    fn fill(relation: &Relation, pin: &Pinned) {
        let block = pin.tag().block;
        let mut page = pin.lock_exclusive();
        relation.check(&page, block);
        let next = relation.versions[block as usize].load(Ordering::SeqCst) + 1;
        page.mark_dirty();
        stamp(&mut page, block, next);
        page.set_lsn(relation.log.insert());
        relation.versions[block as usize].store(next, Ordering::SeqCst);
    }

    fn see(relation: &Relation, pin: &Pinned) {
        let page = pin.lock_shared();
        relation.check(&page.copy(), pin.tag().block);
    }

    fn update(&mut self, relation: &Relation, blocks: u32) {
        let (tag, strategy) = (self.tag(relation, blocks), self.strategy());
        let pinned = self.world.pool.read(&mut self.backend, tag, strategy);
        if let Some(pin) = tolerate(self.world, pinned) {
            assert_eq!(pin.tag(), tag);
            Self::fill(relation, &pin);
        }
    }

    fn look(&mut self, relation: &Relation, blocks: u32) {
        let (tag, strategy) = (self.tag(relation, blocks), self.strategy());
        if let Some(pin) = self.world.pool.lookup(&tag) {
            Self::see(relation, &pin);
        }
        let pinned = self.world.pool.read(&mut self.backend, tag, strategy);
        if let Some(pin) = tolerate(self.world, pinned) {
            Self::see(relation, &pin);
        }
    }

    fn look_at_many(&mut self, relation: &Relation, blocks: u32) {
        let first = self.tag(relation, blocks).block;
        let n = self.rng.random_range(1..=2u32).min(blocks - first);
        let strategy = self.strategy();
        let pins = self.world.pool.read_many(
            &mut self.backend,
            relation.rel,
            Fork::Main,
            first,
            n,
            strategy,
        );
        for pin in tolerate(self.world, pins).into_iter().flatten() {
            Self::see(relation, &pin);
        }
    }

    /// Blocks in some order, some twice; some streams end early, with reads in flight.
    fn stream(&mut self, relation: &Relation, blocks: u32) {
        let mut wanted: Vec<u32> = Vec::new();
        for _ in 0..self.rng.random_range(1..6) {
            let first = self.rng.random_range(0..blocks);
            wanted.extend(first..blocks.min(first + self.rng.random_range(1..12)));
        }
        let leave_after = self.rng.random_range(0..2 * wanted.len());
        let flags =
            if self.rng.random_bool(0.5) { StreamFlags::FULL } else { StreamFlags::DEFAULT };
        let strategy = self.strategy();
        let mut next = wanted.iter().copied();
        let (concurrency, combine) = (self.rng.random_range(0..6), self.rng.random_range(1..16));
        let mut stream = ReadStream::new(
            self.world.pool,
            relation.rel,
            Fork::Main,
            move || next.next(),
            flags,
            strategy,
            StreamSettings::new(concurrency, combine),
        );
        let mut seen = 0;
        while seen < leave_after {
            match stream.next(&mut self.backend) {
                Ok(Some(pin)) => {
                    // After errors some are missing, but the order is the same.
                    let block = pin.tag().block;
                    assert!(wanted.contains(&block));
                    Self::see(relation, &pin);
                    seen += 1;
                }
                Ok(None) => break,
                failed => drop(tolerate(self.world, failed)),
            }
        }
    }

    fn grow(&mut self, relation: &Relation, blocks: u32) {
        if blocks >= MOST {
            return;
        }
        let (n, strategy) = (self.rng.random_range(1..6), self.strategy());
        let pins = self.world.pool.extend(&mut self.backend, relation.rel, Fork::Main, n, strategy);
        for pin in tolerate(self.world, pins).into_iter().flatten() {
            assert!(pin.tag().block < relation.blocks(self.world.pool));
            // Some pages stay empty.
            if self.rng.random_bool(0.8) {
                Self::fill(relation, &pin);
            }
        }
    }

    fn prewarm(&mut self, relation: &Relation) {
        let mode = if self.rng.random_bool(0.5) { PrewarmMode::Read } else { PrewarmMode::Buffer };
        tolerate(
            self.world,
            self.world.pool.prewarm(&mut self.backend, relation.rel, Fork::Main, mode),
        );
    }

    /// Random options of a pass or stream.
    fn write_options(&mut self) -> WriteOptions {
        WriteOptions {
            depth: self.rng.random_range(1..8),
            combine: self.rng.random_range(1..16),
            context: IoContext::Normal,
            locked: if self.rng.random_bool(0.5) { Locked::Wait } else { Locked::Skip },
            go_on: self.rng.random_bool(0.5),
            flush_after: self.rng.random_range(0..3) * 8,
        }
    }

    fn write(&mut self, relation: &Relation, blocks: u32) {
        let (pool, options) = (self.world.pool, self.write_options());
        let scope = if self.rng.random_bool(0.5) {
            WriteScope::All
        } else {
            WriteScope::Relation(relation.rel)
        };
        let result = match self.rng.random_range(0..3) {
            0 => pool.write_dirty(&mut self.backend, scope),
            1 => pool.write_paced(
                &mut self.backend,
                scope,
                options,
                &mut Hesitant(self.rng.random_range(1..9)),
            ),
            _ => return self.write_stream(relation, blocks, options),
        };
        tolerate(self.world, result);
    }

    /// Pushes some pages to a stream, in any order. Some streams end early, with writes in flight.
    fn write_stream(&mut self, relation: &Relation, blocks: u32, options: WriteOptions) {
        let mut stream = WriteStream::new(self.world.pool, options);
        for _ in 0..self.rng.random_range(1..20) {
            let tag = PageTag::new(relation.rel, Fork::Main, self.rng.random_range(0..blocks));
            if let Some(pin) = self.world.pool.lookup(&tag) {
                tolerate(self.world, stream.push(&mut self.backend, pin));
            }
        }
        if self.rng.random_bool(0.8) {
            tolerate(self.world, stream.finish(&mut self.backend));
        }
    }

    fn shrink(&mut self, at: usize) {
        let mut relation = self.world.relations[at].write().unwrap();
        let blocks = relation.blocks(self.world.pool);
        let keep = self.rng.random_range(0..=blocks);
        // The pages are forgotten even if the files could not be truncated, so this is repeated
        // until it succeeds.
        loop {
            let cut = self.world.pool.truncate(&mut self.backend, relation.rel, Fork::Main, keep);
            if tolerate(self.world, cut).is_some() {
                break;
            }
        }
        assert_eq!(relation.blocks(self.world.pool), keep);
        relation.versions[keep as usize..].iter_mut().for_each(|v| *v.get_mut() = 0);
    }

    /// Drops the relation and creates another one, half of the time with the same name.
    fn replace(&mut self, at: usize) {
        let mut relation = self.world.relations[at].write().unwrap();
        while tolerate(self.world, self.world.pool.drop_relation(&mut self.backend, relation.rel))
            .is_none()
        {}
        let rel = match self.rng.random_bool(0.5) {
            true => relation.rel,
            false => {
                RelFileLocator::in_default(5, self.world.next_rel.fetch_add(1, Ordering::SeqCst))
            }
        };
        // Opening may fail too, but sessions must see a relation that was created.
        while tolerate(self.world, self.world.pool.smgr().create(rel, Fork::Main, true)).is_none() {
        }
        *relation = fresh(rel, &self.world.log);
    }
}

/// Pauses each time after it was asked so many times.
struct Hesitant(usize);

impl Pace for Hesitant {
    fn is_ahead(&mut self, done: usize, _total: usize) -> bool {
        done.is_multiple_of(self.0)
    }
    fn rest(&mut self, _done: usize, _total: usize) {
        thread::yield_now();
    }
}

fn faults(plan: &FaultPlan) {
    for (ops, chance, effect) in [
        (Ops::READ, 0.05, Effect::Cut),
        (Ops::WRITE, 0.05, Effect::Cut),
        (Ops::READ, 0.02, Effect::Fail(Errno::IO)),
        (Ops::WRITE, 0.02, Effect::Fail(Errno::IO)),
        (Ops::WRITE, 0.02, Effect::Fail(Errno::NOSPC)),
        (Ops::WRITE, 0.02, Effect::FailAfter(8192, Errno::IO)),
        (Ops::ALLOCATE, 0.1, Effect::Fail(Errno::NOSPC)),
        (Ops::RESERVE, 0.1, Effect::Fail(Errno::NOSPC)),
        (Ops::UNLINK, 0.2, Effect::Fail(Errno::IO)),
    ] {
        plan.add(Rule::on(ops).path("base/5").chance(chance), effect);
    }
}

fn run(fixture: &Fixture, plan: &Arc<FaultPlan>, seed: u64) {
    let mut backend = fixture.backend();
    let pool = &fixture.cold().1;
    let log = Arc::new(UnsteadyLog::default());
    pool.attach_wal(Arc::clone(&log) as Arc<dyn WalFlush>);
    log.set_well(true);
    let relations: Vec<_> = (0..RELATIONS as u32)
        .map(|n| {
            let relation = fresh(RelFileLocator::in_default(5, 20_000 + n), &log);
            pool.smgr().create(relation.rel, Fork::Main, false).unwrap();
            let mut blocks = 0;
            while blocks < FIRST {
                let pins = pool.extend(
                    &mut backend,
                    relation.rel,
                    Fork::Main,
                    FIRST - blocks,
                    Strategy::Normal,
                );
                for pin in pins.unwrap() {
                    Actor::fill(&relation, &pin);
                    blocks += 1;
                }
            }
            RwLock::new(relation)
        })
        .collect();
    let (next_rel, errors) = (AtomicU32::new(30_000), AtomicU64::new(0));
    let world = World { fixture, pool, relations, next_rel, log, errors };
    faults(plan);
    world.log.set_well(false);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut actor = Actor {
                world: &world,
                backend: world.fixture.backend(),
                cleaner: Cleaner::default(),
                rng: StdRng::seed_from_u64(seed ^ thread << 32),
            };
            scope.spawn(move || (0..STEPS).for_each(|_| actor.step()));
        }
    });
    plan.mend();
    world.log.set_well(true);
    let errors = world.errors.load(Ordering::SeqCst);
    eprintln!("{errors} errors met; fired: {:?}", plan.fired_by_class());
    assert!(errors > 0, "no fault had an effect");
    check_all(&world, backend);
}

/// The disk is well again: checks that memory and files are as in the model, and that nothing is
/// held.
fn check_all(world: &World<'_>, mut backend: Backend) {
    let pool = world.pool;
    pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    pool.sync_pending(&mut backend).unwrap();
    assert_eq!(pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
    let cold = world.fixture.cold().1;
    for relation in &world.relations {
        let relation = relation.read().unwrap();
        let blocks = pool.nblocks(relation.rel, Fork::Main).unwrap();
        assert_eq!(cold.nblocks(relation.rel, Fork::Main).unwrap(), blocks);
        assert!(relation.versions[blocks as usize..].iter().all(|v| v.load(Ordering::SeqCst) == 0));
        for block in 0..blocks {
            let page = on_disk(world.fixture, relation.rel, block);
            relation.check(&page, block);
            assert!(
                Page::new(&page).lsn() <= world.log.flushed(),
                "block {block} is ahead of the log"
            );
            let pin = cold.read(
                &mut backend,
                PageTag::new(relation.rel, Fork::Main, block),
                Strategy::Normal,
            );
            Actor::see(&relation, &pin.unwrap());
        }
    }
    // It may still have writes in flight.
    drop(backend);
    assert!(world.fixture.aio.snapshot().is_empty(), "handles are still in use");
}

fn on_disk(fixture: &Fixture, rel: RelFileLocator, block: BlockNumber) -> PageBytes {
    use std::os::unix::fs::FileExt;
    let per_segment = fixture.spec.segment_blocks;
    let path = fixture.dir().join(rel.segment_path(Fork::Main, block / per_segment));
    let mut page = [0; 8192];
    let file = std::fs::File::open(path).unwrap();
    file.read_exact_at(&mut page, u64::from(block % per_segment) * 8192).unwrap();
    checksum::verify_page(&page, block).unwrap();
    page
}

fn runs(buffers: usize, first_seed: u64) {
    let base = Spec { buffers, segment_blocks: 24, combine: 8, ..Spec::plain() };
    let seeds = match number("FOREBAY_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => first_seed..first_seed + number("FOREBAY_MODEL_RUNS").unwrap_or(1),
    };
    for seed in seeds {
        eprintln!("FOREBAY_MODEL_SEED={seed}, {buffers} buffers");
        each_faulty(base, |fixture, plan| run(fixture, plan, seed));
    }
}

#[test]
fn everything_at_once_in_a_small_pool() {
    runs(64, 1);
}

#[test]
fn everything_at_once_in_a_tiny_pool() {
    runs(32, 1_000);
}
