//! Segments are prepared before they are needed, and each has one name.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::*;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::sync::Duration;
use forebay_aio::{Errno, MethodKind, WorkerLimits};
use forebay_format::Lsn;
use forebay_wal::{CheckpointKind, SegmentPolicy, SegmentStats, Wal, WalError};

#[test]
fn inserters_find_prepared_segments() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    assert_eq!(wal.segment_stats(), SegmentStats { made: 1, ..SegmentStats::default() });
    for _ in 0..40 {
        while wal.prepare_segments(&mut rig.io).expect("segments") {}
        wal.ensure_room(&mut rig.io, 200_000).expect("room");
        insert(&wal, &mut rig.io, &[1; 200_000]);
    }
    let stats = wal.segment_stats();
    assert_eq!(stats.waits, 0);
    assert!(stats.made >= 9, "{stats:?}");
    // Recycled segments only have to be opened.
    let end = wal.flush_all(&mut rig.io).expect("flush");
    wal.remove_old_segments(end, 20 << 20).expect("removal");
    let made = wal.segment_stats().made;
    for _ in 0..20 {
        wal.prepare_segments(&mut rig.io).expect("segments");
        insert(&wal, &mut rig.io, &[1; 200_000]);
    }
    assert_eq!((wal.segment_stats().made, wal.segment_stats().waits), (made, 0));
    // Without a preparing thread, inserters wait for each segment.
    insert(&wal, &mut rig.io, &vec![1; 5 << 20]);
    wal.flush_all(&mut rig.io).expect("flush");
    insert(&wal, &mut rig.io, &vec![1; 20 << 20]);
    assert!(wal.segment_stats().waits > 0);
}

#[test]
fn a_request_wakes_the_preparing_thread() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = Arc::new(rig.fresh());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (preparer, stop) = (Arc::clone(&wal), &stop);
        let mut io = rig.backend();
        scope.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                preparer.prepare_segments(&mut io).expect("segments");
                preparer.wait_for_segment_demand(Duration::from_secs(86_400));
            }
        });
        // Each round waits for the preparing thread. If it missed a request, this would not end.
        for number in 2..12 {
            insert(&wal, &mut rig.io, &[1; 1_000_000]);
            while !rig.segment_path(number).exists() {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::SeqCst);
        wal.wake_preparer();
    });
}

#[test]
fn a_segment_is_filled_by_several_writes_at_a_time() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Worker(WorkerLimits::fixed(4)));
    for direct in direct_choices(&rig.config.dir) {
        rig.config.init_direct = direct;
        rig.config.dir = rig.dir.path().join(format!("direct-{direct}"));
        std::fs::create_dir(&rig.config.dir).expect("directory");
        let wal = rig.fresh();
        let mut io = rig.backend();
        let held = plan.hold(Rule::on(Ops::WRITE).path("xlogtemp"));
        std::thread::scope(|scope| {
            let maker = scope.spawn(|| wal.prepare_segments(&mut io).expect("segments"));
            held.await_count(2);
            held.release();
            assert!(maker.join().expect("no panic"));
        });
        assert!(std::fs::read(rig.segment_path(2)).expect("segment").iter().all(|&byte| byte == 0));
    }
}

#[test]
fn segments_without_zeros_have_the_same_length() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    wal.set_segment_policy(SegmentPolicy { init_zero: false, recycle: false });
    wal.ensure_room(&mut rig.io, 2 << 20).expect("room");
    let stat = std::fs::metadata(rig.segment_path(3)).expect("segment");
    assert_eq!(stat.len(), SEGMENT);
    assert!(stat.blocks() * 512 < SEGMENT / 2, "{} blocks are allocated", stat.blocks());
    insert(&wal, &mut rig.io, &vec![7; 2 << 20]);
    let end = wal.flush_all(&mut rig.io).expect("flush");
    drop(wal);
    let (records, wal) = rig.recover();
    assert_eq!(mains(&records), [vec![7; 2 << 20]]);
    // Old ones are not recycled if that is turned off.
    wal.set_segment_policy(SegmentPolicy { init_zero: true, recycle: false });
    let done = wal.remove_old_segments(end, 20 << 20).expect("removal");
    assert_eq!((done.recycled, done.removed), (0, 2));
}

/// A server that recycles by link and unlink may have left a second name of an old segment, and an
/// archive command that links makes another.
#[test]
fn a_file_with_another_name_is_not_written() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    wal.ensure_room(&mut rig.io, 1).expect("room");
    drop(wal);
    let (two, other) = (rig.segment_path(2), rig.dir.path().join("kept"));
    std::fs::hard_link(&two, &other).expect("link");
    let wal = rig.fresh();
    for _ in 0..2 {
        insert(&wal, &mut rig.io, &[5; 900_000]);
    }
    wal.flush_all(&mut rig.io).expect("flush");
    assert!(
        std::fs::read(&other).expect("kept").iter().all(|&byte| byte == 0),
        "the file under the other name has not changed"
    );
    for path in [&two, &other] {
        assert_eq!(std::fs::metadata(path).expect("there").nlink(), 1, "{}", path.display());
    }
    drop(wal);
    assert_eq!(rig.recover().0.len(), 2);
}

/// Threads insert and flush, one prepares segments, one removes old ones. The log has no gap, no
/// segment has two names, and only segments are left.
#[test]
fn recycling_and_preparing_during_insertion() {
    const THREADS: u64 = 3;
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = Arc::new(rig.fresh());
    let (stop, kept) = (AtomicBool::new(false), AtomicU64::new(BEGIN.add(40).0));
    std::thread::scope(|scope| {
        let background: Vec<_> = (0..2)
            .map(|n| {
                let (wal, mut io, stop, kept) = (Arc::clone(&wal), rig.backend(), &stop, &kept);
                scope.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        if n == 0 {
                            wal.prepare_segments(&mut io).expect("segments");
                            wal.wait_for_segment_demand(Duration::from_secs(86_400));
                        } else {
                            let record = wal.last_record_lsn();
                            let before = record.min(wal.flushed_lsn());
                            wal.remove_old_segments(before, 6 << 20).expect("removal");
                            kept.fetch_max(record.0, Ordering::SeqCst);
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let inserters: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (wal, mut io) = (Arc::clone(&wal), rig.backend());
                scope.spawn(move || {
                    for n in 0..120u64 {
                        let at = insert(
                            &wal,
                            &mut io,
                            &vec![thread as u8; 50_000 + (n as usize * 977) % 60_000],
                        );
                        if n % 4 == thread {
                            wal.flush(&mut io, at.end).expect("flush");
                        }
                    }
                })
            })
            .collect();
        inserters.into_iter().for_each(|thread| thread.join().expect("no panic"));
        stop.store(true, Ordering::SeqCst);
        wal.wake_preparer();
        background.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    let end = wal.flush_all(&mut rig.io).expect("flush");
    let stats = wal.segment_stats();
    assert!(stats.recycled > 5, "{stats:?}");
    for name in rig.names() {
        let (_, number) =
            segment_size().parse_file_name(&name).unwrap_or_else(|| panic!("{name} was left"));
        let stat = std::fs::metadata(rig.segment_path(number)).expect("segment");
        assert_eq!((stat.nlink(), stat.len()), (1, SEGMENT), "{name}");
    }
    let (records, found) = rig.read_all(Lsn(kept.load(Ordering::SeqCst)));
    assert_eq!((found.end, found.last_record), (end, wal.last_record_lsn()));
    assert!(!records.is_empty());
}

/// On a disk that is nearly full, each attempt to make a segment would otherwise use up the room
/// that is left.
#[test]
fn a_full_disk_shows_before_anything_is_written() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let wal = rig.fresh();
    let full = Effect::Fail(Errno::NOSPC);
    plan.add(Rule::on(Ops::RESERVE | Ops::ALLOCATE | Ops::FALLOCATE), full);
    plan.add(Rule::on(Ops::WRITE).path("xlogtemp").bytes(SEGMENT / 2..SEGMENT), full);
    plan.record();
    for _ in 0..5 {
        let error = wal.prepare_segments(&mut rig.io).expect_err("no room");
        assert!(matches!(error, WalError::NoSpace { .. }), "{error}");
    }
    let attempted: u64 =
        plan.take_calls().iter().filter(|c| c.op == Ops::WRITE).map(|c| c.len).sum();
    assert_eq!(attempted, 0, "bytes written to a full disk");
    assert!(rig.names().iter().all(|name| !name.starts_with("xlogtemp")));
    plan.mend();
    // If the file system cannot allocate blocks in advance, writing the zeros does.
    plan.add(Rule::on(Ops::RESERVE), Effect::Fail(Errno::OPNOTSUPP));
    assert!(wal.prepare_segments(&mut rig.io).expect("room again"));
    assert!(rig.segment_path(2).exists());
}

/// Runs `work`, which closes the slots for a moment, while the writes of the segment that it needs
/// are blocked. Others must be able to insert meanwhile.
fn others_go_on(leave: u64, work: impl Fn(&Wal, &mut forebay_aio::IoBackend) + Sync) {
    let (mut rig, plan) = Rig::faulty(MethodKind::Worker(WorkerLimits::fixed(2)));
    let wal = rig.fresh();
    fill_up_to(&wal, &mut rig.io, Lsn(2 * SEGMENT - leave), 1);
    wal.flush_all(&mut rig.io).expect("flush");
    let (mut io, mut other_io) = (rig.backend(), rig.backend());
    let held = plan.hold(Rule::on(Ops::WRITE).path("xlogtemp"));
    let (wal, work) = (&wal, &work);
    std::thread::scope(|scope| {
        scope.spawn(move || work(wal, &mut io));
        held.await_count(1);
        let (done, seen) = std::sync::mpsc::channel();
        scope.spawn(move || {
            // This closes the slots too. A record without data fits the existing segments.
            wal.set_full_page_writes(true);
            if leave == 24 {
                wal.insert(&mut other_io, &plain(&[])).expect("a small record");
            }
            done.send(()).expect("the test waits");
        });
        let result = seen.recv_timeout(std::time::Duration::from_secs(20));
        held.release();
        result.expect("the slots were closed while a file was written");
    });
}

#[test]
fn others_insert_while_a_checkpoint_waits_for_its_segment() {
    // The redo record takes 32 bytes, a record without data 24.
    others_go_on(24, |wal, io| {
        let redo =
            wal.begin_checkpoint(io, CheckpointKind::Online { wal_level: 1 }).expect("begin");
        assert_eq!(wal.redo_lsn(), redo);
        assert!(redo >= Lsn(2 * SEGMENT), "the other record came first");
    });
}

#[test]
fn others_insert_while_a_switch_waits_for_its_segment() {
    // The switch record itself ends in the next segment.
    others_go_on(16, |wal, io| {
        let end = wal.switch_segment(io).expect("switch");
        assert!(end > Lsn(2 * SEGMENT) && wal.flushed_lsn() == Lsn(3 * SEGMENT), "{end}");
    });
}
