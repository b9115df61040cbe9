//! 256 kB of buffers, shared and temporary, and relations of every kind that go while reads of them
//! are outstanding.

use crate::bed::{Bed, REL, Spec, change, each, stamp, version};
use forebay_aio::PosixNamespace;
use forebay_format::{Fork, PageTag, RelFileLocator, checksum};
use forebay_storage::{
    Backend, BufferPool, LocalPool, ReadStream, Strategy, StreamFlags, StreamSettings, WriteScope,
    kernel_cached_pages, remove_private_files,
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
fn fill(pool: &Arc<BufferPool>, be: &mut Backend, rel: RelFileLocator, fork: Fork, n: u32, v: u64) {
    let mut made = 0;
    while made < n {
        for pin in pool.extend(be, rel, fork, n - made, Strategy::BulkWrite).unwrap() {
            assert!(pin.lock_shared().page().is_all_zeros());
            change(&pin, |page| stamp(page, made, v));
            made += 1;
        }
    }
}

/// Moves all pages on from one version to the next, through a stream.
fn update(pool: &Arc<BufferPool>, be: &mut Backend, rel: RelFileLocator, from: u64) {
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
    while let Some(pin) = stream.next(be).unwrap() {
        change(&pin, |page| {
            assert_eq!(version(page, seen), from);
            stamp(page, seen, from + 1);
        });
        seen += 1;
    }
    assert_eq!(seen, PAGES);
}

/// What a session does: a shared relation and a temporary one, each three times as large as all
/// buffers, by turns.
fn session(bed: &Bed, number: u32) {
    let mut be = bed.backend();
    let local = LocalPool::new(&bed.pool, number as i32, 32).unwrap();
    let rel = relation(number);
    bed.smgr.create(rel, Fork::Main, false).unwrap();
    local.create(&mut be, rel).unwrap();
    for pool in [&bed.pool, &*local] {
        fill(pool, &mut be, rel, Fork::Main, PAGES, 1);
    }
    for v in 1..4 {
        update(&bed.pool, &mut be, rel, v);
        update(&local, &mut be, rel, v);
    }
    // The session is gone without a word: its temporary files stay.
    let _ = be.io.drain();
}

#[test]
fn a_small_cluster_serves_its_sessions_and_what_was_checkpointed_outlives_it() {
    each(TINY, |bed| {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let sessions: Vec<_> =
                (1..=SESSIONS).map(|n| scope.spawn(move || session(bed, n))).collect();
            let checkpointer = scope.spawn(|| {
                let mut be = bed.backend();
                while !done.load(Ordering::SeqCst) {
                    bed.pool.write_dirty(&mut be, WriteScope::All).unwrap();
                    bed.pool.sync_pending(&mut be).unwrap();
                    thread::yield_now();
                }
            });
            let failed = sessions.into_iter().filter_map(|session| session.join().err()).count();
            done.store(true, Ordering::SeqCst);
            checkpointer.join().unwrap();
            assert_eq!(failed, 0);
        });
        let mut be = bed.backend();
        bed.pool.write_dirty(&mut be, WriteScope::All).unwrap();
        bed.pool.sync_pending(&mut be).unwrap();
        assert_eq!(bed.pool.evict_all(&mut be).unwrap(), 0, "all pins were given back");
        // What comes up after an immediate stop.
        let temporary = SESSIONS * PAGES.div_ceil(TINY.segment_blocks);
        let removed = remove_private_files(&PosixNamespace, bed.dir()).unwrap();
        assert_eq!(removed, u64::from(temporary));
        let (smgr, pool) = bed.cold();
        for rel in (1..=SESSIONS).map(relation) {
            assert_eq!(smgr.nblocks(rel, Fork::Main).unwrap(), PAGES);
            for block in 0..PAGES {
                let page = PageTag::new(rel, Fork::Main, block);
                let pin = pool.read(&mut be, page, Strategy::Normal).unwrap();
                let page = pin.lock_shared().copy();
                checksum::verify_page(&page, block).unwrap();
                assert_eq!(version(&page, block), 4);
            }
            if bed.spec.direct {
                let path = bed.dir().join(rel.segment_path(Fork::Main, 0));
                assert_eq!(
                    kernel_cached_pages(&bed.aio, &path).unwrap().0,
                    0,
                    "the kernel caches pages"
                );
            }
        }
    });
}

/// Has reads of a fork outstanding that nobody waits for any more.
fn leave_reads(pool: &Arc<BufferPool>, be: &mut Backend, rel: RelFileLocator, fork: Fork) {
    pool.write_dirty(be, WriteScope::Relation(rel)).unwrap();
    pool.evict_all(be).unwrap();
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
    let pin = stream.next(be).unwrap().unwrap();
    assert_eq!(pin.tag(), PageTag::new(rel, fork, 0));
}

/// A transaction that makes a relation, reads of it what it does not wait for, and is rolled back;
/// and again, under the same name.
fn rolled_back(
    pool: &Arc<BufferPool>,
    be: &mut Backend,
    forks: &[Fork],
    make: impl Fn(&mut Backend),
) {
    for round in 1..4 {
        make(be);
        for &fork in forks {
            if fork != Fork::Main {
                pool.smgr().create(REL, fork, false).unwrap();
            }
            assert_eq!(pool.nblocks(REL, fork).unwrap(), 0);
            fill(pool, be, REL, fork, PAGES, round);
            leave_reads(pool, be, REL, fork);
        }
        pool.drop_relation(be, REL).unwrap();
        for &fork in forks {
            assert!(!pool.smgr().exists(REL, fork).unwrap());
            assert!((0..PAGES).all(|block| pool.lookup(&PageTag::new(REL, fork, block)).is_none()));
        }
        assert_eq!(pool.evict_all(be).unwrap(), 0);
        assert_eq!(pool.sync_pending(be).unwrap().files, 0);
    }
}

#[test]
fn a_rollback_with_reads_outstanding_leaves_nothing_of_relations_of_any_kind() {
    each(TINY, |bed| {
        let mut be = bed.backend();
        let create = |_: &mut Backend| bed.smgr.create(REL, Fork::Main, false).unwrap();
        rolled_back(&bed.pool, &mut be, &[Fork::Main], create);
        // What is not logged has a fork that it starts from after a crash.
        rolled_back(&bed.pool, &mut be, &[Fork::Main, Fork::Init, Fork::Fsm, Fork::Vm], create);
        let local = LocalPool::new(&bed.pool, 3, 32).unwrap();
        rolled_back(&local, &mut be, &[Fork::Main], |be| local.create(be, REL).unwrap());
        assert_eq!(std::fs::read_dir(bed.dir().join("base/5")).unwrap().count(), 0);
    });
}
