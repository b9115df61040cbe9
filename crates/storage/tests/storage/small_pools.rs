//! Pools of 256 kB, shared and temporary; and relations of every kind that are dropped while reads
//! of them are in flight.

use crate::fixture::{Fixture, REL, Spec, change, each, stamp, version};
use forebay_aio::PosixNamespace;
use forebay_format::{Fork, PageTag, RelFileLocator, checksum};
use forebay_storage::{
    Backend, BufferPool, ReadStream, Strategy, StreamFlags, StreamSettings, TempRelations,
    WriteScope, kernel_cached_pages, remove_temp_relations,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// 256 kB of buffers.
const TINY: Spec = Spec { buffers: 32, segment_blocks: 24, ..Spec::plain() };
const SESSIONS: u32 = 4;
const PAGES: u32 = 100;

fn relation(session: u32) -> RelFileLocator {
    RelFileLocator { rel: REL.rel + session, ..REL }
}

/// Makes a fork of `n` pages, all with this version.
fn fill(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    fork: Fork,
    n: u32,
    v: u64,
) {
    let mut made = 0;
    while made < n {
        for pin in pool.extend(backend, rel, fork, n - made, Strategy::BulkWrite).unwrap() {
            assert!(pin.lock_shared().page().is_all_zeros());
            change(&pin, |page| stamp(page, made, v));
            made += 1;
        }
    }
}

/// Changes all pages from one version to the next, through a stream.
fn update(pool: &Arc<BufferPool>, backend: &mut Backend, rel: RelFileLocator, from: u64) {
    let mut blocks = 0..PAGES;
    let next = move || blocks.next();
    let mut stream = ReadStream::new(
        pool,
        rel,
        Fork::Main,
        next,
        StreamFlags::DEFAULT,
        Strategy::BulkRead,
        StreamSettings::new(16, 16),
    );
    let mut seen = 0;
    while let Some(pin) = stream.next(backend).unwrap() {
        change(&pin, |page| {
            assert_eq!(version(page, seen), from);
            stamp(page, seen, from + 1);
        });
        seen += 1;
    }
    assert_eq!(seen, PAGES);
}

/// A session that uses a shared relation and a temporary one in turns. Each is three times as large
/// as the pool.
fn session(fixture: &Fixture, number: u32) {
    let mut backend = fixture.backend();
    let local = TempRelations::new(&fixture.pool, number as i32, 32).unwrap();
    let rel = relation(number);
    fixture.smgr.create(rel, Fork::Main, false).unwrap();
    local.create(&mut backend, rel).unwrap();
    for pool in [&fixture.pool, local.pool()] {
        fill(pool, &mut backend, rel, Fork::Main, PAGES, 1);
    }
    for v in 1..4 {
        update(&fixture.pool, &mut backend, rel, v);
        update(local.pool(), &mut backend, rel, v);
    }
    // The session ends without cleaning up, so its temporary files stay.
    let _ = backend.io.drain();
}

#[test]
fn a_small_cluster_serves_its_sessions_and_what_was_checkpointed_outlives_it() {
    each(TINY, |fixture| {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let sessions: Vec<_> =
                (1..=SESSIONS).map(|n| scope.spawn(move || session(fixture, n))).collect();
            let checkpointer = scope.spawn(|| {
                let mut backend = fixture.backend();
                while !done.load(Ordering::SeqCst) {
                    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
                    fixture.pool.sync_pending(&mut backend).unwrap();
                    thread::yield_now();
                }
            });
            let failed = sessions.into_iter().filter_map(|session| session.join().err()).count();
            done.store(true, Ordering::SeqCst);
            checkpointer.join().unwrap();
            assert_eq!(failed, 0);
        });
        let mut backend = fixture.backend();
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        fixture.pool.sync_pending(&mut backend).unwrap();
        assert_eq!(fixture.pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
        // A start after an immediate stop.
        let temporary = SESSIONS * PAGES.div_ceil(TINY.segment_blocks);
        let removed = remove_temp_relations(&PosixNamespace, fixture.dir()).unwrap();
        assert_eq!(removed, u64::from(temporary));
        let (smgr, pool) = fixture.cold();
        for rel in (1..=SESSIONS).map(relation) {
            assert_eq!(smgr.nblocks(rel, Fork::Main).unwrap(), PAGES);
            for block in 0..PAGES {
                let page = PageTag::new(rel, Fork::Main, block);
                let pin = pool.read(&mut backend, page, Strategy::Normal).unwrap();
                let page = pin.lock_shared().copy();
                checksum::verify_page(&page, block).unwrap();
                assert_eq!(version(&page, block), 4);
            }
            if fixture.spec.direct {
                let path = fixture.dir().join(rel.segment_path(Fork::Main, 0));
                assert_eq!(
                    kernel_cached_pages(&fixture.aio, &path).unwrap().0,
                    0,
                    "the kernel caches pages"
                );
            }
        }
    });
}

/// Leaves reads of a fork in flight that nobody waits for.
fn leave_reads(pool: &Arc<BufferPool>, backend: &mut Backend, rel: RelFileLocator, fork: Fork) {
    pool.write_dirty(backend, WriteScope::Relation(rel)).unwrap();
    pool.evict_all(backend).unwrap();
    let mut blocks = 0..PAGES;
    let next = move || blocks.next();
    let mut stream = ReadStream::new(
        pool,
        rel,
        fork,
        next,
        StreamFlags::FULL,
        Strategy::Normal,
        StreamSettings::new(8, 4),
    );
    let pin = stream.next(backend).unwrap().unwrap();
    assert_eq!(pin.tag(), PageTag::new(rel, fork, 0));
}

/// A transaction that creates a relation, leaves reads of it in flight, and is rolled back;
/// repeated with the same name.
fn rolled_back(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    forks: &[Fork],
    make: impl Fn(&mut Backend),
) {
    for round in 1..4 {
        make(backend);
        for &fork in forks {
            if fork != Fork::Main {
                pool.smgr().create(REL, fork, false).unwrap();
            }
            assert_eq!(pool.nblocks(REL, fork).unwrap(), 0);
            fill(pool, backend, REL, fork, PAGES, round);
            leave_reads(pool, backend, REL, fork);
        }
        pool.drop_relation(backend, REL).unwrap();
        for &fork in forks {
            assert!(!pool.smgr().exists(REL, fork).unwrap());
            assert!((0..PAGES).all(|block| pool.lookup(&PageTag::new(REL, fork, block)).is_none()));
        }
        assert_eq!(pool.evict_all(backend).unwrap(), 0);
        assert_eq!(pool.sync_pending(backend).unwrap().files, 0);
    }
}

#[test]
fn a_rollback_with_reads_in_flight_leaves_nothing_of_any_kind_of_relation() {
    each(TINY, |fixture| {
        let mut backend = fixture.backend();
        let create = |_: &mut Backend| fixture.smgr.create(REL, Fork::Main, false).unwrap();
        rolled_back(&fixture.pool, &mut backend, &[Fork::Main], create);
        // An unlogged relation has an init fork, from which it is reset after a crash.
        rolled_back(
            &fixture.pool,
            &mut backend,
            &[Fork::Main, Fork::Init, Fork::Fsm, Fork::Vm],
            create,
        );
        let local = TempRelations::new(&fixture.pool, 3, 32).unwrap();
        rolled_back(local.pool(), &mut backend, &[Fork::Main], |backend| {
            local.create(backend, REL).unwrap()
        });
        assert_eq!(std::fs::read_dir(fixture.dir().join("base/5")).unwrap().count(), 0);
    });
}
