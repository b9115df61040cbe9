//! A log resumes where it ended, at any position, and a reader finds exactly what was written.

use crate::common::*;
use forebay_aio::MethodKind;
use forebay_format::{Lsn, wal::xlog::OVERWRITE_CONTRECORD};
use forebay_wal::{EndReason, Resume, WalError};

#[test]
fn restarts_at_random_positions() {
    for direct in direct_choices(Rig::new(MethodKind::Sync).dir.path()) {
        let mut rig = Rig::new(MethodKind::Sync);
        rig.config.direct = direct;
        let mut numbers = Dice::new(11);
        let mut written = Vec::new();
        let mut wal = rig.fresh();
        for _ in 0..60 {
            for _ in 0..numbers.below(6) + 1 {
                let len = numbers.below(20_000) as usize + 1;
                let main = numbers.bytes(len);
                insert(&wal, &mut rig.io, &main);
                written.push(main);
            }
            wal.flush_all(&mut rig.io).expect("flush");
            let last = (wal.end_lsn(), wal.last_record_lsn());
            drop(wal);
            let (records, end) = rig.read_all(BEGIN);
            assert_eq!(mains(&records), written);
            assert_eq!((end.end, end.last_record), last);
            wal = rig.start(end.resume(BEGIN));
            assert_eq!((wal.end_lsn(), wal.last_record_lsn()), last);
        }
        assert!(wal.end_lsn().0 > BEGIN.0 + 2 * SEGMENT);
    }
}

#[test]
fn page_and_segment_boundaries() {
    for boundary in [BEGIN.add(8192), BEGIN.add(5 * 8192), BEGIN.add(SEGMENT)] {
        let header = if boundary.0 % SEGMENT == 0 { 40 } else { 24 };
        for resume_at in [boundary, boundary.add(header)] {
            let mut rig = Rig::new(MethodKind::Sync);
            let wal = rig.fresh();
            insert(&wal, &mut rig.io, &[3; 300]);
            fill_up_to(&wal, &mut rig.io, boundary, 4);
            wal.flush_all(&mut rig.io).expect("flush");
            let prev = wal.last_record_lsn();
            drop(wal);
            let before = mains(&rig.read_all(BEGIN).0);
            let wal = rig.start(Resume { insert_at: resume_at, prev, redo: BEGIN, aborted: None });
            assert_eq!(wal.insert_lsn(), boundary.add(header));
            let at = insert(&wal, &mut rig.io, &[5; 50]);
            assert_eq!(at.start, boundary.add(header));
            wal.flush_all(&mut rig.io).expect("flush");
            let (records, _) = rig.read_all(BEGIN);
            assert_eq!(mains(&records[..before.len()]), before);
            assert_eq!(mains(&records[before.len()..]), [vec![5; 50]]);
        }
    }
}

#[test]
fn impossible_positions_are_refused() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    insert(&wal, &mut rig.io, &[1; 100]);
    wal.flush_all(&mut rig.io).expect("flush");
    let good = Resume {
        insert_at: wal.end_lsn(),
        prev: wal.last_record_lsn(),
        redo: BEGIN,
        aborted: None,
    };
    drop(wal);
    for insert_at in
        [Lsn(0), BEGIN.add(8), BEGIN.add(8192 + 16), good.insert_at.add(3), Lsn(9 * SEGMENT + 4096)]
    {
        let resume = Resume { insert_at, ..good };
        let started =
            forebay_wal::Wal::start(rig.aio.clone(), &mut rig.io, rig.config.clone(), resume);
        assert!(matches!(started, Err(WalError::Resume { .. })), "{insert_at}");
    }
    // The log cannot resume within a block of zeros.
    let resume = Resume { insert_at: BEGIN.add(3 * 8192 + 64), ..good };
    let started = forebay_wal::Wal::start(rig.aio.clone(), &mut rig.io, rig.config.clone(), resume);
    assert!(matches!(started, Err(WalError::Resume { .. })));
    rig.start(good);
}

/// Record B is lost, and record C behind it reached the disk. When a record of the same length
/// replaces B, C would be a valid successor, but must not be read.
#[test]
fn records_behind_a_lost_one_stay_lost() {
    for boundary in [BEGIN.add(2 * 8192), BEGIN.add(SEGMENT)] {
        let mut rig = Rig::new(MethodKind::Sync);
        let wal = rig.fresh();
        let a = insert(&wal, &mut rig.io, &[1; 200]);
        while boundary.since(wal.end_lsn()) > 8000 {
            insert(&wal, &mut rig.io, &[1; 3000]);
        }
        let prefix = wal.end_lsn();
        let len = boundary.since(prefix) as usize;
        let b = insert(&wal, &mut rig.io, &main_for(len, 2));
        insert(&wal, &mut rig.io, &[3; 100]);
        insert(&wal, &mut rig.io, &[4; 100]);
        wal.flush_all(&mut rig.io).expect("flush");
        assert_eq!(b.end, boundary);
        assert!(a.end <= b.start);
        drop(wal);
        rig.patch(b.start.add(40), |bytes| bytes[0] ^= 1);
        let (records, wal) = rig.recover();
        let before = records.len();
        assert_eq!((wal.end_lsn(), wal.last_record_lsn()), (prefix, records[before - 1].start));
        insert(&wal, &mut rig.io, &main_for(len, 5));
        assert_eq!(wal.end_lsn(), boundary);
        wal.flush_all(&mut rig.io).expect("flush");
        let (records, end) = rig.read_all(BEGIN);
        assert_eq!(records.len(), before + 1, "{:?}", end);
        assert_eq!(end.end, boundary);
    }
}

/// Bytes behind the end in the last block are cleared, too.
#[test]
fn the_rest_of_the_last_block_is_cleared_on_disk() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let a = insert(&wal, &mut rig.io, &[1; 200]);
    insert(&wal, &mut rig.io, &[2; 200]);
    wal.flush_all(&mut rig.io).expect("flush");
    drop(wal);
    rig.patch(a.end.add(30), |bytes| bytes[0] ^= 1);
    let (records, wal) = rig.recover();
    assert_eq!((records.len(), wal.end_lsn()), (1, a.end));
    let bytes = std::fs::read(rig.segment_path(1)).expect("segment");
    assert!(bytes[(a.end.0 - BEGIN.0) as usize..].iter().all(|&byte| byte == 0));
}

/// A record that lost its continuation is skipped by an XLOG_OVERWRITE_CONTRECORD, and its bytes do
/// not change.
#[test]
fn an_incomplete_record_is_overwritten_from_the_missing_page_on() {
    // The boundary that the incomplete record crosses, and which of its pages is lost.
    for (boundary, lost) in
        [(BEGIN.add(8192), 1), (BEGIN.add(2 * 8192), 2), (BEGIN.add(SEGMENT), 1)]
    {
        let mut rig = Rig::new(MethodKind::Sync);
        let wal = rig.fresh();
        insert(&wal, &mut rig.io, &[1; 200]);
        while boundary.since(wal.end_lsn()) > 8000 {
            insert(&wal, &mut rig.io, &[1; 3000]);
        }
        let torn = insert(&wal, &mut rig.io, &[2; 40_000]);
        insert(&wal, &mut rig.io, &[3; 100]);
        wal.flush_all(&mut rig.io).expect("flush");
        drop(wal);
        let missing = torn.start.page_start().add(lost * 8192);
        rig.patch(missing, |bytes| bytes[..8192].fill(0));
        let first_part = std::fs::read(rig.segment_path(1)).expect("segment");

        let (records, end) = rig.read_all(BEGIN);
        let aborted = end.aborted.expect("an incomplete record");
        assert_eq!((aborted.start, aborted.missing_page), (torn.start, missing));
        assert_eq!(end.reason, EndReason::Zeros(missing));
        let wal = rig.start(end.resume(BEGIN));
        insert(&wal, &mut rig.io, &[4; 300]);
        wal.flush_all(&mut rig.io).expect("flush");
        drop(wal);

        let kept = std::fs::read(rig.segment_path(1)).expect("segment");
        let until = missing.0.min(BEGIN.0 + SEGMENT) - BEGIN.0;
        assert!(
            kept[..until as usize] == first_part[..until as usize],
            "a segment that may be archived does not change"
        );
        let (again, end) = rig.read_all(BEGIN);
        assert_eq!(again[..records.len()], records);
        let marker = &again[records.len()];
        assert_eq!(marker.overwrites, Some(torn.start));
        assert_eq!(marker.start.page_start(), missing);
        let decoded = marker.decode().expect("decodable");
        assert_eq!(decoded.kind(), OVERWRITE_CONTRECORD);
        assert_eq!(decoded.main[..8], torn.start.0.to_le_bytes());
        assert_eq!(mains(&again[records.len() + 1..]), [vec![4; 300]]);
        assert_eq!(end.aborted, None);
        // The log can resume again from there.
        let (_, wal) = rig.recover();
        insert(&wal, &mut rig.io, &[5; 30]);
        wal.flush_all(&mut rig.io).expect("flush");
        assert_eq!(rig.read_all(BEGIN).0.len(), records.len() + 3);
    }
}

/// If the overwrite record itself is lost, the record is still incomplete at the same page.
#[test]
fn a_lost_overwrite_record_is_written_again() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let torn = insert(&wal, &mut rig.io, &[2; 10_000]);
    wal.flush_all(&mut rig.io).expect("flush");
    drop(wal);
    let missing = BEGIN.add(8192);
    rig.patch(missing, |bytes| bytes[..8192].fill(0));
    drop(rig.recover());
    rig.patch(missing.add(24 + 30), |bytes| bytes[0] ^= 1);
    let (_, end) = rig.read_all(BEGIN);
    let aborted = end.aborted.expect("still incomplete");
    assert_eq!((aborted.start, aborted.missing_page), (torn.start, missing));
    let (_, wal) = rig.recover();
    drop(wal);
    let (records, end) = rig.read_all(BEGIN);
    assert_eq!((records.len(), records[0].overwrites, end.aborted), (1, Some(torn.start), None));
}
