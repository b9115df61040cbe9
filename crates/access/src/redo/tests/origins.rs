//! Commit timestamps, and positions of replication origins.

use forebay_format::commit_ts::CommitStamp;
use forebay_format::origins::Origins;
use forebay_format::wal::commit_ts::{CommitTsTruncate, TRUNCATE, ZEROPAGE};
use forebay_format::wal::xact::{COMMIT, XactEnd};
use forebay_format::wal::{commit_ts, origin, xlog::ParameterChange};

use super::*;

fn parameters(track_commit_timestamp: bool) -> ParameterChange {
    ParameterChange {
        max_connections: 100,
        max_worker_processes: 8,
        max_wal_senders: 10,
        max_prepared_transactions: 0,
        max_locks_per_transaction: 64,
        wal_level: 1,
        wal_log_hints: false,
        track_commit_timestamp,
    }
}

#[test]
fn commits_leave_their_times_where_they_are_kept() {
    let mut feeder = Feeder::new();
    std::fs::create_dir_all(feeder._dir.path().join("pg_commit_ts")).unwrap();
    let (on, off) = (parameters(true).encode(), parameters(false).encode());
    let (mut local, mut foreign) = (Vec::new(), Vec::new());
    let info = XactEnd { subxacts: vec![901, 902], ..XactEnd::at(5) }.encode(&mut local);
    let from = Some((Lsn(77), 6));
    let foreign_info = XactEnd { origin: from, ..XactEnd::at(9) }.encode(&mut foreign);
    let page = 1_i64.to_le_bytes();
    let foreign = DecodedRecord {
        origin: Some(3),
        ..record(Rmgr::XACT, COMMIT | foreign_info, 903, &foreign)
    };
    let records = [
        record(Rmgr::XACT, COMMIT, 899, &[1, 0, 0, 0, 0, 0, 0, 0]),
        record(Rmgr::XLOG, xlog::PARAMETER_CHANGE, 0, &on),
        record(Rmgr::COMMIT_TS, ZEROPAGE, 0, &page),
        record(Rmgr::XACT, COMMIT | info, 900, &local),
        foreign,
    ];
    feeder.redo(&records).0.unwrap();
    assert_eq!(feeder.cluster.parameters, Some(parameters(true)));
    let mut expected = Origins::default();
    expected.advance(3, Lsn(77), false);
    assert_eq!(feeder.cluster.origins, expected);
    let Recovered { clog, backend, .. } = &mut feeder.recovered;
    let mut stamp = |xid| clog.times().stamp(&mut backend.io, xid).unwrap();
    assert_eq!(stamp(899), None, "not kept yet");
    let at = |time, origin| Some(CommitStamp { time, origin });
    assert_eq!([900, 901, 902, 903].map(&mut stamp), [at(5, 0), at(5, 0), at(5, 0), at(6, 3)]);
    assert_eq!((stamp(904), clog.times().range()), (None, (900, 903)));

    clog.flush(&mut backend.io).unwrap();
    let dir = feeder._dir.path().join("pg_commit_ts");
    assert_eq!(std::fs::metadata(dir.join("0000")).unwrap().len(), 2 * 8192);
    // Nothing goes before a page of the same file; everything goes where none are kept.
    let truncate = CommitTsTruncate { page: 1, oldest_xid: 902 }.encode();
    feeder.redo_from(9, &[record(Rmgr::COMMIT_TS, TRUNCATE, 0, &truncate)]).0.unwrap();
    assert_eq!(feeder.recovered.clog.times().range(), (902, 903));
    let records = [record(Rmgr::XLOG, xlog::PARAMETER_CHANGE, 0, &off)];
    feeder.redo_from(10, &records).0.unwrap();
    assert!(!feeder.recovered.clog.times().are_kept() && !dir.join("0000").exists());
}

#[test]
fn impossible_pages_of_commit_times_are_damage() {
    for page in [-1_i64, 5_244_161, i64::MAX] {
        let main = page.to_le_bytes();
        let records = [record(Rmgr::COMMIT_TS, commit_ts::ZEROPAGE, 0, &main)];
        let message = Feeder::new().redo(&records).0.unwrap_err().to_string();
        assert!(message.contains(&format!("can not have a page {page}")), "{message}");
    }
}

#[test]
fn origins_are_set_and_dropped() {
    let set = |to: u8, back: u8| [to, 0, 0, 0, 0, 0, 0, 0, 7, 0, back, 0, 0, 0, 0, 0];
    let (far, near, back) = (set(9, 0), set(5, 0), set(5, 1));
    let record = |info, main| record(Rmgr::ORIGIN, info, 0, main);
    let mut feeder = Feeder::new();
    feeder.redo(&[record(origin::SET, &far), record(origin::SET, &near)]).0.unwrap();
    let mut expected = Origins::default();
    expected.advance(7, Lsn(9), false);
    assert_eq!(feeder.cluster.origins, expected);
    feeder.redo(&[record(origin::SET, &far), record(origin::SET, &back)]).0.unwrap();
    expected.advance(7, Lsn(5), true);
    assert_eq!(feeder.cluster.origins, expected);
    feeder.redo(&[record(origin::SET, &far), record(origin::DROP, &[7, 0])]).0.unwrap();
    assert!(feeder.cluster.origins.is_empty());
}
