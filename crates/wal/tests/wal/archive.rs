//! Completed segments are marked for the archive, and kept until they are archived.

use std::path::PathBuf;

use crate::common::*;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{Errno, MethodKind};
use forebay_format::Lsn;
use forebay_wal::{OldSegments, Wal};

/// Marks in archive_status, sorted.
fn marks(rig: &Rig) -> Vec<String> {
    names(&rig.config.dir.join("archive_status"))
}

fn mark(number: u64, mark: &str) -> String {
    format!("{}{mark}", segment_size().file_name(1, number))
}

fn mark_path(rig: &Rig, number: u64, word: &str) -> PathBuf {
    rig.config.dir.join("archive_status").join(mark(number, word))
}

/// Marks a segment as archived, as an archiver does.
fn archived(rig: &Rig, number: u64) {
    std::fs::rename(mark_path(rig, number, ".ready"), mark_path(rig, number, ".done"))
        .expect("was ready");
}

/// A log that is in segment `number`, flushed.
fn log_up_to(rig: &mut Rig, wal: &Wal, number: u64) {
    while segment_size().number(wal.end_lsn()) < number {
        insert(wal, &mut rig.io, &[1; 100_000]);
    }
    wal.flush_all(&mut rig.io).expect("flush");
}

#[test]
fn a_completed_segment_is_marked_and_no_other() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    wal.start_archiving().expect("archive");
    insert(&wal, &mut rig.io, &[1; 500_000]);
    wal.flush_all(&mut rig.io).expect("flush");
    assert!(marks(&rig).is_empty());
    let end = fill_up_to(&wal, &mut rig.io, Lsn(2 * SEGMENT), 1).end;
    assert!(marks(&rig).is_empty(), "it is not durable yet");
    wal.flush(&mut rig.io, end).expect("flush");
    assert_eq!(marks(&rig), [mark(1, ".ready")], "full to its last byte");
    log_up_to(&mut rig, &wal, 5);
    assert_eq!(marks(&rig), (1..5).map(|n| mark(n, ".ready")).collect::<Vec<_>>());
}

#[test]
fn the_callback_gets_each_marked_file() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let told = Arc::new(Mutex::new(Vec::new()));
    let feed = Arc::clone(&told);
    wal.feed_archiver(Some(Arc::new(move |name: &str| feed.lock().push(name.to_owned()))));
    log_up_to(&mut rig, &wal, 3);
    assert!(told.lock().is_empty(), "nobody archives yet");
    wal.start_archiving().expect("archive");
    log_up_to(&mut rig, &wal, 5);
    let names: Vec<String> = (1..5).map(|n| segment_size().file_name(1, n)).collect();
    assert_eq!(*told.lock(), names);
    wal.feed_archiver(None);
    log_up_to(&mut rig, &wal, 6);
    assert_eq!(told.lock().len(), 4);
}

#[test]
fn without_an_archive_there_are_no_marks() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    log_up_to(&mut rig, &wal, 4);
    assert!(!rig.names().contains(&"archive_status".to_owned()));
    let done = wal.remove_old_segments(wal.end_lsn(), 0).expect("removal");
    assert_eq!(done, OldSegments { recycled: 0, removed: 3 });
}

#[test]
fn a_segment_is_removed_once_it_is_archived() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    wal.start_archiving().expect("archive");
    log_up_to(&mut rig, &wal, 5);
    let end = wal.end_lsn();
    let none = OldSegments::default();
    assert_eq!(wal.remove_old_segments(end, 8 << 20).expect("removal"), none);
    assert_eq!(rig.names().len(), 1 + 5);
    // Out of order: 2 and 4 first. A segment that lost its mark in a crash gets one again, and is
    // kept.
    archived(&rig, 2);
    archived(&rig, 4);
    std::fs::remove_file(mark_path(&rig, 3, ".ready")).expect("removed");
    let done = wal.remove_old_segments(end, SEGMENT).expect("removal");
    assert_eq!(done, OldSegments { recycled: 1, removed: 1 });
    assert_eq!(marks(&rig), [mark(1, ".ready"), mark(3, ".ready")]);
    let expected = [1, 3, 5, 6].map(|n| segment_size().file_name(1, n));
    assert_eq!(rig.names()[..4], expected);
    archived(&rig, 1);
    archived(&rig, 3);
    let done = wal.remove_old_segments(end, 0).expect("removal");
    assert_eq!(done, OldSegments { recycled: 0, removed: 2 });
    assert!(marks(&rig).is_empty());
    assert_eq!(wal.segment_stats().recycled, 1);
    assert_eq!(wal.segment_stats().removed, 3);
}

#[test]
fn segments_completed_before_archiving_starts_are_marked() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    log_up_to(&mut rig, &wal, 4);
    drop(wal);
    std::fs::create_dir(rig.config.dir.join("archive_status")).expect("directory");
    std::fs::write(mark_path(&rig, 2, ".done"), "").expect("mark");
    let (_, wal) = rig.recover();
    wal.start_archiving().expect("archive");
    assert_eq!(marks(&rig), [mark(1, ".ready"), mark(2, ".done"), mark(3, ".ready")]);
    log_up_to(&mut rig, &wal, 5);
    assert_eq!(marks(&rig).len(), 4);
}

#[test]
fn a_mark_that_failed_is_made_later() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let wal = rig.fresh();
    wal.start_archiving().expect("archive");
    plan.add(Rule::on(Ops::OPEN).path("archive_status"), Effect::Fail(Errno::NOSPC));
    log_up_to(&mut rig, &wal, 3);
    assert!(marks(&rig).is_empty());
    plan.mend();
    let kept = wal.remove_old_segments(wal.end_lsn(), 0).expect("removal");
    assert_eq!(kept, OldSegments::default());
    assert_eq!(marks(&rig), [1, 2].map(|n| mark(n, ".ready")));
}

/// After a power failure, no segment may be marked for the archive under a name that was recycled.
#[test]
fn marks_are_durable_before_a_segment_is_recycled() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    let wal = rig.fresh();
    wal.start_archiving().expect("archive");
    log_up_to(&mut rig, &wal, 3);
    archived(&rig, 1);
    plan.record();
    wal.remove_old_segments(wal.end_lsn(), 4 << 20).expect("removal");
    let calls = plan.take_calls();
    let at = |op: Ops, path: &str| {
        calls.iter().position(|call| call.op == op && call.path.ends_with(path)).unwrap_or_else(
            || {
                panic!("no {op:?} of {path}: {calls:?}");
            },
        )
    };
    let segment = segment_size().file_name(1, 1);
    let (settled, renamed) = (at(Ops::SYNC_DIR, "archive_status"), at(Ops::RENAME, &segment));
    let unmarked = at(Ops::UNLINK, &format!("archive_status/{segment}.done"));
    assert!(settled < renamed && renamed < unmarked, "{calls:?}");
}
