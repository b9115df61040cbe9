//! Recovery of a log behind whose end something stands that is none: the defects of crates/wal's
//! tests, through the whole engine.

use std::path::Path;

use crate::common::*;
use crate::defects::{DEFECTS, Defect};
use forebay_engine::{IoMethod, ShutdownMode};
use forebay_format::{Lsn, wal::Rmgr};
use forebay_wal::Record;
use forebay_wal::position::Positions;

/// Brings the log of a crashed directory to where the defect belongs, and puts it there. The end of
/// the last good record.
fn damage(dir: &Path, defect: &Defect) -> Lsn {
    let (wal, mut io) = log::resume(dir);
    let size = wal.config().segment_size;
    let at = wal.end_lsn().page_start().add(4 * 8192 - defect.room);
    let positions = Positions::new(size.bytes());
    let pos = |lsn| positions.byte_pos(lsn).expect("not in a page header");
    let total = usize::try_from(pos(at) - pos(wal.end_lsn())).expect("a length");
    let main = vec![9; total - 24 - 5];
    // XLOG_NOOP
    let filler = Record { rmgr: Rmgr::XLOG, info: 0x20, xid: 0, main: &main, blocks: &[] };
    assert_eq!(wal.insert(&mut io, &filler).expect("insert").end, at);
    wal.flush_all(&mut io).expect("flush");
    let last = wal.last_record_lsn();
    drop(wal);
    defect.write(&dir.join("pg_wal"), size, 1, at, last);
    at
}

#[test]
fn recovery_ends_before_each_defect_and_the_log_goes_on_there() {
    for (n, defect) in DEFECTS.iter().enumerate() {
        let (_scratch, dir) = new_dir();
        let config = config(IoMethod::Sync, n % 2 == 1);
        let (engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        insert(&mut session, "t", 0..500);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let end = damage(&dir, defect);

        let engine = open(&dir, &config);
        let redo = log::control(&dir).checkpoint_copy.redo;
        if defect.is_incomplete() {
            // The log goes on in the next page, with the record that says so.
            let page = end.page_start().add(8192);
            assert!(
                page < redo && redo.since(page) < 200,
                "{}: end {end}, went on at {redo}",
                defect.name
            );
        } else {
            assert_eq!(redo, end, "{}", defect.name);
        }
        let mut session = engine.session().expect("session");
        assert_eq!(count(&mut session, "t").expect("count"), 500, "{}", defect.name);
        insert(&mut session, "t", 500..900);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let (_engine, mut session) = open_session(&dir, &config);
        assert_eq!(count(&mut session, "t").expect("count"), 900, "{}", defect.name);
    }
}
