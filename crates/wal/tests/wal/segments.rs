//! Segment files: made ahead, recycled, removed; a full disk.

use crate::common::*;
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_format::Lsn;
use forebay_wal::{OldSegments, WalError};

/// Writes of half a megabyte that fill a segment with zeros.
const WRITES_A_SEGMENT: u64 = 2;

/// Making a segment fails with ENOSPC, except for the first `after` segments.
fn fail_fill(plan: &FaultPlan, after: u64) {
    let fill = Rule::on(Ops::WRITE).path("xlogtemp");
    plan.add(fill.skip(WRITES_A_SEGMENT * after), Effect::Fail(Errno::NOSPC));
}

#[test]
fn the_next_segment_is_ready_before_it_is_needed() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    assert_eq!(rig.names().len(), 1);
    assert!(wal.step(&mut rig.io).expect("step"), "there is a segment to make");
    assert_eq!(rig.names(), [1, 2].map(|n| segment_size().file_name(1, n)));
    assert!(std::fs::read(rig.segment_path(2)).expect("segment").iter().all(|&byte| byte == 0));
    assert!(!wal.step(&mut rig.io).expect("step"), "nothing is left to do");
    wal.ensure_room(&mut rig.io, 3 << 20).expect("room");
    assert_eq!(rig.names().len(), 5);
    insert(&wal, &mut rig.io, &vec![1; 3 << 20]);
    assert_eq!(rig.names().len(), 5);
    assert!(wal.step(&mut rig.io).expect("step"));
    assert!(wal.flushed_lsn() >= wal.end_lsn().page_start(), "whole blocks are flushed");
}

#[test]
fn old_segments_are_recycled_or_removed() {
    let mut rig = Rig::new(MethodKind::Sync);
    std::fs::write(rig.config.dir.join("xlogtemp.77"), "left over").expect("file");
    let wal = rig.fresh();
    std::fs::create_dir(rig.config.dir.join("archive_status")).expect("directory");
    let mut written = Vec::new();
    for n in 0..18u8 {
        insert(&wal, &mut rig.io, &vec![n; 400_000]);
        written.push(vec![n; 400_000]);
    }
    wal.flush_all(&mut rig.io).expect("flush");
    // Segments 1 to 7 exist.
    assert_eq!(rig.names().len(), 7 + 1);
    let first_kept =
        rig.read_all(BEGIN).0.into_iter().find(|r| r.start.0 >= 5 * SEGMENT).expect("record");
    // The log is in segment 7; 4 MB beyond segment 5 are names up to 9.
    let done = wal.remove_old_segments(first_kept.start, 4 << 20).expect("removal");
    assert_eq!(done, OldSegments { recycled: 2, removed: 2 });
    let mut expected: Vec<String> = (5..=9).map(|n| segment_size().file_name(1, n)).collect();
    expected.push("archive_status".to_owned());
    assert_eq!(rig.names(), expected);
    assert_eq!(
        wal.remove_old_segments(Lsn(u64::MAX / 2), 2 << 20).expect("removal"),
        OldSegments { recycled: 0, removed: 2 },
        "the current segment is never removed"
    );
    // Old contents of recycled segments are ignored.
    for n in 0..9u8 {
        insert(&wal, &mut rig.io, &vec![n; 400_000]);
    }
    wal.flush_all(&mut rig.io).expect("flush");
    let (records, end) = rig.read_all(Lsn(7 * SEGMENT));
    assert!(records.is_empty(), "the segment begins with the rest of a record: {:?}", end.reason);
    let last = wal.last_record_lsn();
    drop(wal);
    let begin = Lsn(8 * SEGMENT);
    let page = begin.add(40 + 8);
    assert!(page < last);
    let (_, end) = {
        let mut reader = rig.reader(last);
        assert!(reader.next(&mut rig.io).expect("readable").is_some());
        assert!(reader.next(&mut rig.io).expect("readable").is_none());
        ((), reader.end().expect("end").clone())
    };
    let wal = rig.start(end.resume(BEGIN));
    assert_eq!(wal.last_record_lsn(), last);
}

#[test]
fn a_full_disk_is_an_error_that_can_be_repeated() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let wal = rig.fresh();
    let a = insert(&wal, &mut rig.io, &vec![1; 700_000]);
    wal.flush(&mut rig.io, a.end).expect("flush");
    let before = (wal.end_lsn(), wal.stats());
    for after in 0..2 {
        fail_fill(&plan, after);
        // Needs three more segments.
        let refused = wal.insert(&mut rig.io, &plain(&vec![2; 2_500_000]));
        assert!(matches!(refused, Err(WalError::NoSpace { .. })), "{refused:?}");
        assert!(matches!(wal.ensure_room(&mut rig.io, 2_500_000), Err(WalError::NoSpace { .. })));
        plan.mend();
        assert_eq!((wal.end_lsn(), wal.stats()), before, "nothing was inserted");
        let whole: Vec<String> = (1..=1 + after).map(|n| segment_size().file_name(1, n)).collect();
        assert_eq!(rig.names(), whole, "no unfinished file is left");
        assert!(wal.poisoned().is_none());
    }
    // Records that fit can be inserted meanwhile, and all others once there is room.
    fail_fill(&plan, 0);
    assert!(wal.insert(&mut rig.io, &plain(&vec![2; 2_500_000])).is_err());
    let b = insert(&wal, &mut rig.io, &[3; 100]);
    wal.flush(&mut rig.io, b.end).expect("flush");
    plan.mend();
    insert(&wal, &mut rig.io, &vec![4; 700_000]);
    wal.flush_all(&mut rig.io).expect("flush");
    let (records, _) = rig.read_all(BEGIN);
    assert_eq!(mains(&records), [vec![1; 700_000], vec![3; 100], vec![4; 700_000]]);
}

#[test]
fn a_failed_sync_of_a_new_segment_does_not_end_the_log() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let wal = rig.fresh();
    plan.add(Rule::on(Ops::SYNCS), Effect::Fail(Errno::IO));
    let refused = wal.ensure_room(&mut rig.io, 1);
    assert!(matches!(refused, Err(WalError::Segment { .. })), "{refused:?}");
    plan.mend();
    assert_eq!(rig.names().len(), 1);
    wal.ensure_room(&mut rig.io, 1).expect("room");
}

#[test]
fn a_full_disk_leaves_room_to_free_space() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let wal = rig.fresh();
    wal.ensure_room(&mut rig.io, 1000).expect("room");
    fail_fill(&plan, 0);
    let mut inserted = 0;
    while wal.ensure_room(&mut rig.io, 1000).is_ok() {
        insert(&wal, &mut rig.io, &[1; 1000]);
        inserted += 1;
    }
    assert!(inserted > 0);
    let (mut spared, before) = (0, rig.names());
    while wal.ensure_room_to_free_space(&mut rig.io, 1000).is_ok() {
        insert(&wal, &mut rig.io, &[2; 1000]);
        spared += 1;
    }
    assert!((600..800).contains(&spared), "three quarters of a segment of 1 MB: {spared} records");
    // The rest is for records that end transactions.
    let last = insert(&wal, &mut rig.io, &[3; 1000]);
    wal.flush(&mut rig.io, last.end).expect("flush");
    assert_eq!(rig.names(), before);
}

/// With a real file system that is full.
#[test]
fn a_full_file_system() {
    let dir = tempfile::tempdir().expect("directory");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2560k", "tmpfs"])
        .arg(dir.path())
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: a_full_file_system needs the right to mount");
        return;
    }
    let path = dir.path().to_owned();
    let mut rig = Rig::new(MethodKind::Sync);
    rig.config.dir = path.clone();
    let wal = rig.fresh();
    let a = insert(&wal, &mut rig.io, &vec![1; 1_500_000]);
    let refused = wal.insert(&mut rig.io, &plain(&vec![2; 1_500_000]));
    let flushed = wal.flush(&mut rig.io, a.end);
    let names = names(&path);
    drop(wal);
    let records = rig.read_all(BEGIN).0.len();
    let unmounted = std::process::Command::new("umount").arg("-l").arg(&path).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert!(matches!(refused, Err(WalError::NoSpace { .. })), "{refused:?}");
    assert!(flushed.is_ok() && records == 1);
    assert_eq!(names.len(), 2, "{names:?}");
}
