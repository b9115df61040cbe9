//! Records are read back as they were written, with each I/O method, each sync method, and with and
//! without direct I/O.

use crate::common::*;
use forebay_aio::{BackendType, IoContext, IoObject, IoOp, MethodKind};
use forebay_format::Lsn;
use forebay_wal::{EndReason, SyncMethod};

const SYNC_METHODS: [SyncMethod; 4] =
    [SyncMethod::Fdatasync, SyncMethod::OpenDatasync, SyncMethod::Fsync, SyncMethod::OpenSync];

/// Records of random sizes from a byte to some megabytes, with some flushes.
fn write_and_read(rig: &mut Rig, seed: u64, large: usize) {
    let wal = rig.fresh();
    let mut numbers = Dice::new(seed);
    let mut written = Vec::new();
    for n in 0..150 {
        let len = match n % 50 {
            17 => numbers.below(large as u64) as usize + 1,
            k if k % 5 == 0 => numbers.below(30_000) as usize + 1,
            _ => numbers.below(400) as usize + 1,
        };
        let main = numbers.bytes(len);
        let at = insert(&wal, &mut rig.io, &main);
        assert_eq!((wal.last_record_lsn(), wal.end_lsn()), (at.start, at.end));
        if numbers.below(3) == 0 {
            wal.flush(&mut rig.io, at.end).expect("flush");
            assert!(wal.flushed_lsn() >= at.end);
        }
        written.push((at, main));
    }
    assert_eq!(wal.flush_all(&mut rig.io).expect("flush"), wal.end_lsn());
    assert_eq!(wal.flushed_lsn(), wal.end_lsn());
    assert_eq!(wal.stats().records, 150);
    let (records, end) = rig.read_all(BEGIN);
    assert_eq!(records.len(), written.len(), "{:?}", end.reason);
    for (record, (at, main)) in records.iter().zip(&written) {
        assert_eq!((record.start, record.end), (at.start, at.end));
        let decoded = record.decode().expect("decodable");
        assert_eq!((decoded.main, decoded.header.xid), (&main[..], 7));
    }
    assert_eq!((end.end, end.aborted), (wal.end_lsn(), None));
    assert_eq!(end.last_record, wal.last_record_lsn());
}

#[test]
fn every_method_buffered_and_direct() {
    for method in methods() {
        for direct in direct_choices(Rig::new(MethodKind::Sync).dir.path()) {
            for sync_method in &SYNC_METHODS[..2] {
                let mut rig = Rig::new(method);
                rig.config.direct = direct;
                rig.config.init_direct = direct;
                rig.config.sync_method = *sync_method;
                write_and_read(&mut rig, 0x51ee7 + direct as u64, 3 << 20);
            }
        }
    }
}

#[test]
fn the_other_sync_methods() {
    for sync_method in &SYNC_METHODS[2..] {
        let mut rig = Rig::new(MethodKind::Sync);
        rig.config.sync_method = *sync_method;
        write_and_read(&mut rig, 99, 500_000);
    }
}

#[test]
fn the_fewest_buffers_take_the_largest_records() {
    let mut rig = Rig::new(MethodKind::Sync);
    rig.config.buffers = 4;
    write_and_read(&mut rig, 4711, 5 << 20);
    let wal = {
        let (_, wal) = rig.recover();
        wal
    };
    insert(&wal, &mut rig.io, &vec![1; 100_000]);
    assert!(wal.stats().buffers_full > 0);
    assert!(
        wal.written_lsn() > wal.flushed_lsn(),
        "blocks were written to free buffers, not flushed"
    );
}

/// Records that start 0 to 64 bytes before the end of a page: headers are split at every position.
#[test]
fn headers_cross_pages_and_segments_everywhere() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let mut written = Vec::new();
    for boundary in [8192, SEGMENT] {
        for room in (0..=64).step_by(8) {
            let next = wal.end_lsn().add(400).0.next_multiple_of(boundary);
            written.push(fill_up_to(&wal, &mut rig.io, Lsn(next - room), 7));
            written.push(insert(&wal, &mut rig.io, &[room as u8; 50]));
        }
    }
    wal.flush_all(&mut rig.io).expect("flush");
    let (records, end) = rig.read_all(BEGIN);
    let places: Vec<_> = records.iter().map(|r| (r.start, r.end)).collect();
    assert_eq!(
        places,
        written.iter().map(|at| (at.start, at.end)).collect::<Vec<_>>(),
        "{:?}",
        end.reason
    );
    for record in &written {
        let header = if record.start.0 % SEGMENT < 8192 { 40 } else { 24 };
        assert!(record.start.0 % 8192 >= header, "{} is in a page header", record.start);
    }
}

#[test]
fn one_flush_is_one_write() {
    let mut rig = Rig::new(MethodKind::Sync);
    rig.config.buffers = 64;
    let wal = rig.fresh();
    let count = |rig: &Rig, op| {
        let rows = rig.aio.stats().snapshot();
        let row = rows.iter().find(|row| {
            row.backend_type == BackendType::Client
                && row.object == IoObject::Wal
                && row.context == IoContext::Normal
        });
        row.expect("row").get(op)
    };
    let mut numbers = Dice::new(3);
    for n in 1..=10 {
        // 40 blocks of 64 buffers: some of these writes wrap around the end of the ring.
        while wal.end_lsn().since(wal.flushed_lsn()) < 40 * 8192 - 3000 {
            let len = numbers.below(3000) as usize + 1;
            insert(&wal, &mut rig.io, &vec![n; len]);
        }
        let crossed = wal.end_lsn().0 / SEGMENT != wal.flushed_lsn().0 / SEGMENT;
        let (before, syncs) = (count(&rig, IoOp::Write), count(&rig, IoOp::Fsync));
        let writes = wal.stats().writes;
        wal.flush_all(&mut rig.io).expect("flush");
        let expected = 1 + crossed as u64;
        assert_eq!(wal.stats().writes - writes, expected);
        assert_eq!(count(&rig, IoOp::Write).count - before.count, expected);
        assert!(count(&rig, IoOp::Write).bytes - before.bytes >= 38 * 8192);
        assert_eq!(count(&rig, IoOp::Fsync).count - syncs.count, expected);
        wal.flush_all(&mut rig.io).expect("flush");
        assert_eq!(wal.stats().writes - writes, expected, "there was nothing to write");
    }
    assert_eq!(wal.stats().buffers_full, 0);
}

#[test]
fn a_reader_follows_a_growing_log() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let mut reader = rig.reader(BEGIN);
    for n in 0..40u8 {
        assert_eq!(reader.next(&mut rig.io).expect("readable"), None);
        let end = reader.end().expect("end");
        assert!(matches!(end.reason, EndReason::Zeros(_)), "{:?}", end.reason);
        let at = insert(&wal, &mut rig.io, &vec![n; 50_000]);
        assert_eq!(
            reader.next(&mut rig.io).expect("readable").map(|r| r.end),
            None,
            "not written yet"
        );
        wal.flush(&mut rig.io, at.end).expect("flush");
        let record = reader.next(&mut rig.io).expect("readable").expect("a record");
        assert_eq!((record.start, record.end), (at.start, at.end));
    }
    drop(wal);
    std::fs::remove_file(rig.segment_path(2)).expect("remove");
    let (_, end) = rig.read_all(BEGIN);
    assert_eq!(end.reason, EndReason::MissingSegment(rig.segment_path(2)));
}

#[test]
fn a_flush_beyond_the_end_is_refused() {
    let mut rig = Rig::new(MethodKind::Sync);
    let wal = rig.fresh();
    let at = insert(&wal, &mut rig.io, &[1; 10]);
    assert!(wal.flush(&mut rig.io, at.end.add(8)).is_err());
    wal.flush(&mut rig.io, wal.insert_lsn()).expect("flush");
    assert_eq!(wal.flushed_lsn(), at.end);
}
