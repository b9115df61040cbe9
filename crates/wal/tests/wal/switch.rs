//! The switch to the next segment.

use std::sync::Arc;

use crate::common::*;
use forebay_aio::Errno;
use forebay_aio::MethodKind;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_format::Lsn;
use forebay_format::wal::xlog::SWITCH;
use forebay_wal::{SyncMethod, WalError};

fn segment_bytes(rig: &Rig, number: u64) -> Vec<u8> {
    std::fs::read(rig.segment_path(number)).expect("segment")
}

#[test]
fn the_rest_of_a_segment_is_left_unused() {
    for sync_method in [SyncMethod::Fdatasync, SyncMethod::OpenDatasync] {
        let mut rig = Rig::new(MethodKind::Sync);
        rig.config.sync_method = sync_method;
        let wal = rig.fresh();
        assert_eq!(wal.switch_segment(&mut rig.io).expect("switch"), BEGIN, "an empty segment");
        assert_eq!(wal.stats().records, 0);
        // The zeros replace old pages.
        rig.patch(Lsn(BEGIN.0 + SEGMENT / 2), |bytes| bytes.fill(0xa5));
        let a = insert(&wal, &mut rig.io, &[1; 20_000]);
        let end = wal.switch_segment(&mut rig.io).expect("switch");
        assert_eq!(end, a.end.add(24));
        let next = Lsn(2 * SEGMENT);
        assert_eq!((wal.end_lsn(), wal.flushed_lsn()), (next, next));
        assert_eq!(wal.insert_lsn(), next.add(40));
        let behind = end.page_start().add(8192);
        assert!(
            segment_bytes(&rig, 1)[segment_size().offset(behind) as usize..]
                .iter()
                .all(|&byte| byte == 0)
        );
        assert_eq!(wal.switch_segment(&mut rig.io).expect("switch"), next, "nothing since");
        let b = insert(&wal, &mut rig.io, &[2; 100]);
        assert_eq!(b.start, next.add(40));
        wal.flush(&mut rig.io, b.end).expect("flush");
        drop(wal);
        let (records, wal) = rig.recover();
        assert_eq!(mains(&records), [vec![1; 20_000], vec![], vec![2; 100]]);
        assert_eq!(records[1].decode().expect("decodable").kind(), SWITCH);
        assert_eq!((records[1].end, wal.end_lsn()), (next, b.end));
    }
}

#[test]
fn a_log_that_ends_with_a_switch_resumes_in_the_next_segment() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    insert(&wal, &mut rig.io, &[1; 100]);
    wal.switch_segment(&mut rig.io).expect("switch");
    drop(wal);
    let (records, wal) = rig.recover();
    assert_eq!((records.len(), wal.end_lsn()), (2, Lsn(2 * SEGMENT)));
    insert(&wal, &mut rig.io, &[2; 100]);
    wal.flush_all(&mut rig.io).expect("flush");
    drop(wal);
    assert_eq!(rig.recover().0.len(), 3);
}

/// The switch record may be anywhere in a page, at its end, or continue in the next segment.
#[test]
fn a_switch_at_any_position() {
    for before in [24, 32, 16, 8, 0, 8192 - 24, 8192 - 16, 8192, 8200, 16_384] {
        let mut rig = Rig::new(MethodKind::Sync);
        rig.config.buffers = 4;
        let wal = rig.fresh();
        insert(&wal, &mut rig.io, &[1; 1000]);
        // No record ends in a page header.
        let to = Lsn(2 * SEGMENT - before);
        let to = if (1..=24).contains(&to.page_offset()) { to.page_start() } else { to };
        fill_up_to(&wal, &mut rig.io, to, 2);
        let end = wal.switch_segment(&mut rig.io).expect("switch");
        let at = wal.end_lsn();
        assert_eq!(segment_size().offset(at), 0, "{before}");
        assert!(at >= end && at.since(end) < SEGMENT, "{before}: {end} to {at}");
        let expected = if before == 0 { 2 * SEGMENT } else { at.0 };
        assert_eq!(at.0, expected, "{before}");
        insert(&wal, &mut rig.io, &[3; 1000]);
        wal.flush_all(&mut rig.io).expect("flush");
        let last = wal.end_lsn();
        drop(wal);
        let (records, wal) = rig.recover();
        assert_eq!(records.len(), if before == 0 { 3 } else { 4 }, "{before}");
        assert_eq!(wal.end_lsn(), last, "{before}");
    }
}

#[test]
fn switches_during_insertion() {
    const THREADS: usize = 4;
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = Arc::new(rig.fresh());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (wal, mut io) = (Arc::clone(&wal), rig.backend());
            scope.spawn(move || {
                for n in 0..40 {
                    let at = insert(&wal, &mut io, &vec![thread as u8; 100 + 511 * n]);
                    if thread == 0 && n % 10 == 0 {
                        wal.switch_segment(&mut io).expect("switch");
                    } else if n % 5 == 0 {
                        wal.flush(&mut io, at.end).expect("flush");
                    }
                }
            });
        }
    });
    let end = wal.flush_all(&mut rig.io).expect("flush");
    drop(wal);
    let (records, found) = rig.read_all(BEGIN);
    assert_eq!((records.len(), found.end), (THREADS * 40 + 4, end));
}

#[test]
fn a_switch_needs_no_room_for_the_next_segment() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let wal = rig.fresh();
    insert(&wal, &mut rig.io, &[1; 100]);
    plan.add(Rule::on(Ops::WRITE).path("xlogtemp"), Effect::Fail(Errno::NOSPC));
    wal.switch_segment(&mut rig.io).expect("switch: it needs no other segment");
    assert!(matches!(wal.insert(&mut rig.io, &plain(&[2])), Err(WalError::NoSpace { .. })));
    assert!(wal.poisoned().is_none());
    plan.mend();
    insert(&wal, &mut rig.io, &[2; 100]);
    wal.flush_all(&mut rig.io).expect("flush");
    assert_eq!(rig.read_all(BEGIN).0.len(), 3);
}

#[test]
fn a_failed_switch_ends_the_log() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let wal = rig.fresh();
    insert(&wal, &mut rig.io, &[1; 100]);
    plan.add(Rule::on(Ops::WRITE).path("0000000100000000"), Effect::Fail(Errno::IO));
    assert!(wal.switch_segment(&mut rig.io).expect_err("failed write").is_fatal());
    plan.mend();
    assert!(wal.switch_segment(&mut rig.io).expect_err("it has ended").is_fatal());
}
