//! Pages read ahead without a pin for anybody.

use crate::bed::*;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::{Errno, IoOp};
use forebay_storage::{Pinned, Prefetched, Strategy};

#[test]
fn pages_read_ahead_are_there_when_they_are_wanted() {
    each(Spec::plain(), |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 40);
        let before = bed.count(IoOp::Read);
        let mut reads = Vec::new();
        be.io.begin_batch();
        for block in [3, 4, 5, 20, 39] {
            match pool.prefetch(&mut be, tag(block), Strategy::Normal).unwrap() {
                Prefetched::Started(read) => reads.push(read),
                other => panic!("block {block}: {other:?}"),
            }
        }
        // Once asked for is enough.
        assert_eq!(pool.prefetch(&mut be, tag(4), Strategy::Normal).unwrap(), Prefetched::Cached);
        be.io.end_batch();
        reads.into_iter().for_each(|read| drop(be.io.wait(read)));
        assert_eq!(bed.count(IoOp::Read) - before, 5);
        for block in [3, 4, 5, 20, 39] {
            let pin = pool.read(&mut be, tag(block), Strategy::Normal).unwrap();
            check(&pin, block, 0);
        }
        assert_eq!(bed.count(IoOp::Read) - before, 5, "they were there");
        assert_eq!(pool.prefetch(&mut be, tag(20), Strategy::Normal).unwrap(), Prefetched::Cached);
    });
}

/// A read ahead that fails troubles nobody; who wants the page reads it again.
#[test]
fn a_failed_read_ahead_is_done_again() {
    each_faulty(Spec::plain(), |bed, plan| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 8);
        let fault = plan.add(Rule::on(Ops::READ).times(1), Effect::Fail(Errno::IO));
        let Prefetched::Started(read) = pool.prefetch(&mut be, tag(2), Strategy::Normal).unwrap()
        else {
            panic!("not in memory");
        };
        be.io.wait(read);
        assert_eq!(plan.fired(fault), 1);
        let pin = pool.read(&mut be, tag(2), Strategy::Normal).unwrap();
        check(&pin, 2, 0);
        drop(pin);
        plan.add(Rule::on(Ops::READ), Effect::Fail(Errno::IO));
        if let Prefetched::Started(read) = pool.prefetch(&mut be, tag(5), Strategy::Normal).unwrap()
        {
            be.io.wait(read);
        }
        assert!(pool.read(&mut be, tag(5), Strategy::Normal).is_err());
    });
}

/// Many more pages than buffers, some of them pinned: it never waits, and takes no pin along.
#[test]
fn a_full_pool_is_no_trouble() {
    each(Spec { buffers: 16, ..Spec::plain() }, |bed| {
        let mut be = bed.backend();
        let pool = bed.fill_cold(&mut be, 100);
        let held: Vec<_> =
            (0..3).map(|n| pool.read(&mut be, tag(n), Strategy::Normal).unwrap()).collect();
        let mut started = 0;
        for block in 3..100 {
            if let Prefetched::Started(_) =
                pool.prefetch(&mut be, tag(block), Strategy::Normal).unwrap()
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
            check(&pool.read(&mut be, tag(block), Strategy::Normal).unwrap(), block, 0);
        }
    });
}

fn check(pin: &Pinned, block: u32, expected: u64) {
    assert_eq!(version(&pin.lock_shared().copy(), block), expected);
}
