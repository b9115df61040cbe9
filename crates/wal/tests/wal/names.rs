//! If removing old segments fails halfway, the names that changed are made durable.

use crate::common::*;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::{Errno, MethodKind};

#[test]
fn a_removal_that_fails_halfway_makes_new_names_durable() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let wal = rig.fresh();
    for _ in 0..5 {
        insert(&wal, &mut rig.io, &vec![1; 1_000_000]);
    }
    let end = wal.flush_all(&mut rig.io).expect("flush");
    plan.add(Rule::on(Ops::UNLINK), Effect::Fail(Errno::IO));
    plan.record();
    // One old segment is recycled, and removing the next one fails.
    let error = wal.remove_old_segments(end, SEGMENT).expect_err("not removed");
    assert!(!error.is_fatal(), "{error}");
    let calls = plan.take_calls();
    let seen: Vec<_> =
        calls.iter().filter(|call| (Ops::RENAME | Ops::SYNC_DIR).contains(call.op)).collect();
    assert_eq!(seen.iter().filter(|call| call.op == Ops::RENAME).count(), 1, "{seen:?}");
    let last = seen.last().expect("a call");
    assert_eq!((last.op, &last.path), (Ops::SYNC_DIR, &rig.config.dir), "{seen:?}");
}
