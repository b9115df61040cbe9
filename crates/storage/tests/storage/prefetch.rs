//! Reading pages ahead without keeping a pin.

use crate::fixture::*;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::{Errno, IoOp};
use forebay_storage::{Pinned, Prefetched, Strategy};

#[test]
fn prefetched_pages_are_in_memory_when_they_are_read() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 40);
        let before = fixture.count(IoOp::Read);
        let mut reads = Vec::new();
        backend.io.begin_batch();
        for block in [3, 4, 5, 20, 39] {
            match pool.prefetch(&mut backend, tag(block), Strategy::Normal).unwrap() {
                Prefetched::Started(read) => reads.push(read),
                other => panic!("block {block}: {other:?}"),
            }
        }
        // A second request starts no read.
        assert_eq!(
            pool.prefetch(&mut backend, tag(4), Strategy::Normal).unwrap(),
            Prefetched::Cached
        );
        backend.io.end_batch();
        reads.into_iter().for_each(|read| drop(backend.io.wait(read)));
        assert_eq!(fixture.count(IoOp::Read) - before, 5);
        for block in [3, 4, 5, 20, 39] {
            let pin = pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
            check(&pin, block, 0);
        }
        assert_eq!(fixture.count(IoOp::Read) - before, 5, "they were in memory");
        assert_eq!(
            pool.prefetch(&mut backend, tag(20), Strategy::Normal).unwrap(),
            Prefetched::Cached
        );
    });
}

/// A failed prefetch has no effect; the backend that needs the page reads it again.
#[test]
fn a_failed_prefetch_is_repeated_by_the_reader() {
    each_faulty(Spec::plain(), |fixture, plan| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 8);
        let fault = plan.add(Rule::on(Ops::READ).times(1), Effect::Fail(Errno::IO));
        let Prefetched::Started(read) =
            pool.prefetch(&mut backend, tag(2), Strategy::Normal).unwrap()
        else {
            panic!("not in memory");
        };
        backend.io.wait(read);
        assert_eq!(plan.fired(fault), 1);
        let pin = pool.read(&mut backend, tag(2), Strategy::Normal).unwrap();
        check(&pin, 2, 0);
        drop(pin);
        plan.add(Rule::on(Ops::READ), Effect::Fail(Errno::IO));
        if let Prefetched::Started(read) =
            pool.prefetch(&mut backend, tag(5), Strategy::Normal).unwrap()
        {
            backend.io.wait(read);
        }
        assert!(pool.read(&mut backend, tag(5), Strategy::Normal).is_err());
    });
}

/// Many more pages than buffers, some of them pinned: prefetching never waits and leaves no pin.
#[test]
fn prefetching_copes_with_a_full_pool() {
    each(Spec { buffers: 16, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 100);
        let held: Vec<_> =
            (0..3).map(|n| pool.read(&mut backend, tag(n), Strategy::Normal).unwrap()).collect();
        let mut started = 0;
        for block in 3..100 {
            if let Prefetched::Started(_) =
                pool.prefetch(&mut backend, tag(block), Strategy::Normal).unwrap()
            {
                started += 1;
            }
        }
        assert!(started >= 13, "{started}");
        for (n, pin) in (0..).zip(&held) {
            check(pin, n, 0);
        }
        drop(held);
        for block in 0..100 {
            check(&pool.read(&mut backend, tag(block), Strategy::Normal).unwrap(), block, 0);
        }
    });
}

fn check(pin: &Pinned, block: u32, expected: u64) {
    assert_eq!(version(&pin.lock_shared().copy(), block), expected);
}
