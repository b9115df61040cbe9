//! Recovery of a log behind whose end something stands that is none: the defects of crates/wal's tests, through the whole engine.

mod common;
#[path = "../../wal/tests/common/defects.rs"]
mod defects;

use std::path::Path;
use std::sync::Arc;

use common::*;
use defects::{DEFECTS, Defect};
use forebay_aio::{Aio, AioConfig, BackendType, MethodKind, PosixNamespace};
use forebay_engine::{IoMethod, ShutdownMode};
use forebay_format::control::{ControlFile, PATH};
use forebay_format::{Lsn, wal::Rmgr};
use forebay_wal::position::Positions;
use forebay_wal::{ReaderConfig, Record, SyncMethod, Wal, WalConfig, WalReader};

fn control(dir: &Path) -> ControlFile {
    ControlFile::decode(&std::fs::read(dir.join(PATH)).expect("pg_control")).expect("good")
}

/// Brings the log of a crashed directory to where the defect belongs, and puts it there. The end of the last good record.
fn damage(dir: &Path, defect: &Defect) -> Lsn {
    let control = control(dir);
    let (size, pg_wal) = (control.segment_size, dir.join("pg_wal"));
    let aio = Aio::new(Arc::new(PosixNamespace::new()), MethodKind::Sync, AioConfig::default()).expect("aio");
    let mut io = aio.backend(BackendType::Client).expect("backend");
    let config = ReaderConfig {
        dir: pg_wal.clone(),
        segment_size: size,
        timeline: 1,
        system_id: Some(control.system_id),
        direct: false,
    };
    let mut reader = WalReader::new(Arc::clone(&aio), config, control.checkpoint_copy.redo);
    while reader.next(&mut io).expect("readable").is_some() {}
    let resume = reader.end().expect("an end").resume(control.checkpoint_copy.redo);
    let config = WalConfig {
        dir: pg_wal.clone(),
        segment_size: size,
        timeline: 1,
        system_id: control.system_id,
        sync_method: SyncMethod::Fdatasync,
        direct: false,
        init_direct: false,
        buffers: 16,
        full_page_writes: true,
    };
    let wal = Wal::start(aio, &mut io, config, resume).expect("the log goes on");
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
    defect.write(&pg_wal, size, 1, at, last);
    at
}

#[test]
fn recovery_ends_before_each_defect_and_the_log_goes_on_there() {
    for (n, defect) in DEFECTS.iter().enumerate() {
        let scratch = scratch();
        let dir = scratch.path().join("data");
        init(&dir);
        let config = config(IoMethod::Sync, n % 2 == 1);
        let engine = open(&dir, &config);
        let mut session = engine.session().expect("session");
        create(&mut session, "t");
        insert(&mut session, "t", 0..500);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let end = damage(&dir, defect);

        let engine = open(&dir, &config);
        let redo = control(&dir).checkpoint_copy.redo;
        if defect.is_incomplete() {
            // The log goes on in the next page, with the record that says so.
            let page = end.page_start().add(8192);
            assert!(page < redo && redo.since(page) < 200, "{}: end {end}, went on at {redo}", defect.name);
        } else {
            assert_eq!(redo, end, "{}", defect.name);
        }
        let mut session = engine.session().expect("session");
        assert_eq!(count(&mut session, "t").expect("count"), 500, "{}", defect.name);
        insert(&mut session, "t", 500..900);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let engine = open(&dir, &config);
        let mut session = engine.session().expect("session");
        assert_eq!(count(&mut session, "t").expect("count"), 900, "{}", defect.name);
    }
}
