//! Pages of pg_xact and pg_subtrans: files removed, writes that fail, the wraparound.

use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{AioConfig, Errno, PosixNamespace};
use forebay_format::Lsn;
use forebay_format::wal::{DecodedRecord, RecordHeader, Rmgr};
use forebay_txn::redo::RedoError;

use super::*;

/// Names of a directory's files, sorted.
fn files(fixture: &Fixture, dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(fixture.dir.path().join(dir)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

const SEGMENT_XIDS: u32 = 32 * 32_768;

/// pg_xact with a page in each of some segments.
fn with_segments(fixture: &Fixture, segments: &[u32]) {
    let mut backend = fixture.backend();
    for segment in segments {
        fixture.clog.zero_page(i64::from(segment * 32));
        let xid = segment * SEGMENT_XIDS + 7;
        fixture.clog.set(&mut backend.io, xid, Outcome::Committed).unwrap();
    }
    fixture.clog.flush(&mut backend.io).unwrap();
}

#[test]
fn old_files_of_pg_xact_are_removed_and_logged() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    with_segments(&fixture, &[0, 1, 2, 3]);
    std::fs::write(fixture.dir.path().join("pg_xact/0000.old"), b"not ours").unwrap();
    let end = fixture.wal.insert_lsn();
    let mut truncate = |oldest| fixture.clog.truncate(&mut backend.io, &fixture.wal, oldest, 5);
    assert_eq!(truncate(SEGMENT_XIDS - 1).unwrap(), 0);
    assert_eq!(fixture.wal.insert_lsn(), end, "nothing to do, nothing logged");
    assert_eq!(truncate(2 * SEGMENT_XIDS + 9).unwrap(), 2);
    assert!(fixture.wal.flushed_lsn() > end, "logged, and durable before the files went");
    assert_eq!(files(&fixture, "pg_xact"), ["0000.old", "0002", "0003"]);
    assert_eq!(sqlstate(fixture.clog.status(&mut backend.io, SEGMENT_XIDS + 7)), "58P01");
    let kept = fixture.clog.status(&mut backend.io, 2 * SEGMENT_XIDS + 7).unwrap();
    assert_eq!(kept, Outcome::Committed);

    // A crash left the files: redo removes them.
    std::fs::write(fixture.dir.path().join("pg_xact/0000"), [0; 8192]).unwrap();
    replayed_clog(fixture.dir.path());
    assert_eq!(files(&fixture, "pg_xact"), ["0000.old", "0002", "0003"]);
}

#[test]
fn old_files_are_those_behind_on_the_circle() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    with_segments(&fixture, &[0xFFD, 0xFFE, 0xFFF, 0, 1]);
    let oldest = 0xFFFu32.wrapping_mul(SEGMENT_XIDS) + 5;
    let removed = fixture.clog.truncate(&mut backend.io, &fixture.wal, oldest, 5).unwrap();
    assert_eq!(removed, 2);
    assert_eq!(files(&fixture, "pg_xact"), ["0000", "0001", "0FFF"]);
    let removed = fixture.clog.truncate(&mut backend.io, &fixture.wal, SEGMENT_XIDS, 5).unwrap();
    assert_eq!((removed, files(&fixture, "pg_xact")), (2, vec!["0001".into()]));
}

#[test]
fn nothing_is_removed_past_the_newest_page() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    with_segments(&fixture, &[0, 1]);
    let end = fixture.wal.insert_lsn();
    let removed = fixture.clog.truncate(&mut backend.io, &fixture.wal, 5 * SEGMENT_XIDS, 5);
    assert_eq!(removed.unwrap(), 0);
    assert_eq!(fixture.wal.insert_lsn(), end, "a standby would remove what the log names");
    assert_eq!(files(&fixture, "pg_xact"), ["0000", "0001"]);
}

#[test]
fn a_page_that_can_not_exist_is_not_removed_by_redo() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let checkpoint = checkpoint();
    let (clog, multis) = (&fixture.clog, no_sets(&fixture.clog));
    let mut ctx = RedoContext::new(&mut backend, &fixture.pool, clog, &multis, &checkpoint);
    let main = (1_i64 << 40).to_le_bytes().into_iter().chain([0; 8]).collect::<Vec<u8>>();
    let header =
        RecordHeader { total_len: 24, xid: 0, prev: Lsn(0), info: 0x10, rmgr: Rmgr::CLOG, crc: 0 };
    let (blocks, origin) = (Vec::new(), None);
    let record = DecodedRecord { header, blocks, main: &main, origin, toplevel_xid: None };
    let record = RedoRecord { start: Lsn(8), end: Lsn(16), record: &record };
    assert!(ClogRedo.knows(0x10));
    let result = ClogRedo.redo(&record, &mut ctx);
    assert!(matches!(result, Err(RedoError::Damaged { .. })), "{result:?}");
}

/// Whatever fails, the pages are written by the next flush, and nothing is lost.
#[test]
fn pages_stay_to_be_written_after_any_failure() {
    let calls = [
        (Ops::OPEN, Errno::MFILE),
        (Ops::WRITE, Errno::NOSPC),
        (Ops::FSYNC, Errno::IO),
        (Ops::SYNC_DIR, Errno::IO),
    ];
    for (ops, errno) in calls {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("pg_xact")).unwrap();
        let plan = FaultPlan::new();
        let names = Arc::new(PosixNamespace);
        let aio = plan.open(names, MethodKind::Sync, AioConfig::default()).unwrap();
        let mut io = aio.backend(BackendType::Client).unwrap();
        let clog = Clog::new(aio.clone(), dir.path(), false);
        for page in [0, 1, 40] {
            clog.zero_page(page);
            clog.set(&mut io, page as u32 * 32_768 + 5, Outcome::Committed).unwrap();
        }
        let rule = plan.add(Rule::on(ops).path("pg_xact").times(1), Effect::Fail(errno));
        clog.flush(&mut io).unwrap_err();
        assert_eq!(plan.fired(rule), 1);
        assert_eq!(clog.flush(&mut io).unwrap(), 3, "after {ops:?}");
        assert_eq!(clog.flush(&mut io).unwrap(), 0);
        let reopened = Clog::new(aio.clone(), dir.path(), false);
        for page in [0, 1, 40] {
            let status = reopened.status(&mut io, page * 32_768 + 5).unwrap();
            assert_eq!(status, Outcome::Committed);
        }
    }
}

#[test]
fn parents_are_found_and_old_ones_forgotten() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.dir.path().join("pg_subtrans")).unwrap();
    // A file of an earlier server says nothing.
    let stale = vec![0xee; 32 * 8192];
    std::fs::write(fixture.dir.path().join("pg_subtrans/0000"), &stale).unwrap();
    let mut backend = fixture.backend();
    let xacts = &fixture.xacts;
    let assign =
        |tx: &mut Transaction, io: &mut forebay_aio::IoBackend| xacts.assign(io, tx).unwrap();
    let mut old = Transaction::new();
    let top = assign(&mut old, &mut backend.io);
    old.begin_sub();
    let child = assign(&mut old, &mut backend.io);
    for _ in 0..5000 {
        let mut tx = Transaction::new();
        assign(&mut tx, &mut backend.io);
        xacts.abort(&mut backend.io, &mut tx).unwrap();
    }
    let subtrans = xacts.subtrans();
    assert_eq!(subtrans.parent(&mut backend.io, child).unwrap(), Some(top));
    assert_eq!(subtrans.parent(&mut backend.io, top).unwrap(), None);
    assert_eq!(subtrans.parent(&mut backend.io, child + 4000).unwrap(), None);
    assert!(xacts.checkpoint_subtrans(&mut backend.io).unwrap() >= 3);
    assert_eq!(subtrans.parent(&mut backend.io, child).unwrap(), Some(top), "from the file");
    xacts.commit(&mut backend.io, &mut old).unwrap();

    // Two files later nobody asks any more.
    let far = FullXid::new(0, 3 * 65_536 + 10);
    let later = manager_at(&fixture, far, 3);
    later.checkpoint_subtrans(&mut backend.io).unwrap();
    assert_eq!(files(&fixture, "pg_subtrans"), ["0003"]);
}

#[test]
fn a_cycle_of_parents_ends_the_search() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.dir.path().join("pg_subtrans")).unwrap();
    let mut backend = fixture.backend();
    let mut tx = Transaction::new();
    fixture.xacts.assign(&mut backend.io, &mut tx).unwrap();
    fixture.xacts.checkpoint_subtrans(&mut backend.io).unwrap();
    // 100 and 101 are each other's parents.
    let path = fixture.dir.path().join("pg_subtrans/0000");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[400..408].copy_from_slice(&[101, 0, 0, 0, 100, 0, 0, 0]);
    std::fs::write(&path, &bytes).unwrap();
    // It has nothing of that page in its cache.
    let xacts = manager_at(&fixture, FullXid::new(0, 90_000), 3);
    let error = xacts.subtrans().topmost(&mut backend.io, 101, 50);
    assert_eq!(
        error.as_ref().unwrap_err().to_string(),
        "pg_subtrans contains invalid entry: xid 100 points to parent xid 101"
    );
    assert_eq!(sqlstate(error), "XX001");
    assert_eq!(xacts.subtrans().topmost(&mut backend.io, 101, 101).unwrap(), 100);
}
