//! What a crash of PostgreSQL's can leave in a directory: damaged visibility maps, prepared
//! transactions, unlogged tables. By hand, and by PostgreSQL 18 itself (FOREBAY_PG18_ROOT,
//! FOREBAY_PG18_RUN).

use std::path::{Path, PathBuf};

use crate::common::*;
use forebay_engine::{
    Datum, Engine, EngineError, IoMethod, LockMode, RowBatch, Session, ShutdownMode,
};
use forebay_format::page::{self, PageMut};
use forebay_format::wal::{Rmgr, xact, xlog};
use forebay_format::{BLOCK_SIZE, Fork, PageTag, RelFileLocator, checksum};
use forebay_testkit::peer::{Peer, Postgres};
use forebay_wal::{BlockFlags, BlockRef, Record};

fn small() -> forebay_engine::EngineConfig {
    config(IoMethod::Sync, false)
}

/// A directory, stopped, with rows 0 to 99 in table t; and where t is.
fn stopped(dir: &Path) -> RelFileLocator {
    init(dir);
    let (engine, mut session) = open_session(dir, &small());
    create(&mut session, "t");
    insert(&mut session, "t", 0..100);
    let open = |s: &mut Session| s.open_table(None, "t", LockMode::AccessShare).map(|t| t.locator);
    let rel = transaction(&mut session, open).expect("table");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    rel
}

/// Changes a page in its file, and its checksum with it.
fn change_page(path: &Path, change: impl FnOnce(&mut [u8; BLOCK_SIZE])) {
    let mut bytes = std::fs::read(path).expect("file");
    let page: &mut [u8; BLOCK_SIZE] = (&mut bytes[..BLOCK_SIZE]).try_into().expect("a page");
    change(page);
    checksum::set_checksum(page, 0);
    std::fs::write(path, bytes).expect("file");
}

/// Everyone sees all of block 0, as its page and its map say: as a vacuum leaves it.
fn vacuumed(dir: &Path, rel: RelFileLocator) -> PathBuf {
    change_page(&dir.join(rel.path(Fork::Main)), |page| PageMut::new(page).set_all_visible(true));
    let map = dir.join(rel.path(Fork::Vm));
    std::fs::write(&map, vec![0; BLOCK_SIZE]).expect("map");
    change_page(&map, |bytes| {
        PageMut::new(bytes).init(0);
        bytes[page::HEADER_SIZE] = 3;
    });
    map
}

/// Half of a page is another one's.
fn tear(path: &Path) {
    let mut bytes = std::fs::read(path).expect("file");
    bytes[4096..BLOCK_SIZE].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(path, bytes).expect("file");
}

#[test]
fn a_torn_map_is_no_end_of_insertion() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let rel = stopped(&dir);
    tear(&vacuumed(&dir, rel));
    let (engine, mut session) = open_session(&dir, &small());
    insert(&mut session, "t", 100..101);
    assert_eq!(count(&mut session, "t").expect("count"), 101);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    let heap = std::fs::read(dir.join(rel.path(Fork::Main))).expect("file");
    let first: &[u8; BLOCK_SIZE] = heap[..BLOCK_SIZE].try_into().expect("a page");
    assert!(!page::Page::new(first).is_all_visible());
}

#[test]
fn a_torn_map_is_no_end_of_recovery() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let rel = stopped(&dir);
    let map = vacuumed(&dir, rel);
    let engine = open(&dir, &small());
    insert(&mut engine.session().expect("session"), "t", 100..200);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop(engine);
    tear(&map);
    let (_engine, mut session) = open_session(&dir, &small());
    assert_eq!(count_and_sum(&mut session, "t"), (200, (0..200).sum()));
}

/// A file that stands for a prepared transaction, of a server that is stopped or has crashed.
#[test]
fn prepared_transactions_and_slots_are_refused_and_nothing_changes() {
    let scratch = scratch();
    for crashed in [false, true] {
        let dir = scratch.path().join(format!("data-{crashed}"));
        stopped(&dir);
        if crashed {
            let engine = open(&dir, &small());
            engine.shutdown(ShutdownMode::Immediate).expect("stop");
        }
        let file = "pg_twophase/00000000000002E4";
        std::fs::write(dir.join(file), "state").expect("file");
        let before = contents(&dir);
        let error = Engine::open(&dir, small()).expect_err("prepared");
        assert_eq!(error.sqlstate(), "0A000");
        assert_eq!(error.to_string(), "prepared transactions are not supported");
        assert!(error.detail().is_some_and(|detail| detail.contains(file)), "{:?}", error.detail());
        assert_unchanged(&before, &dir, "a prepared transaction");
        std::fs::remove_file(dir.join(file)).expect("remove");
        std::fs::create_dir(dir.join("pg_replslot/standby")).expect("a slot");
        let error = Engine::open(&dir, small()).expect_err("a slot");
        assert_eq!(error.to_string(), "replication slots are not supported");
        std::fs::remove_dir(dir.join("pg_replslot/standby")).expect("removed");
        let engine = open(&dir, &small());
        assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 100);
    }
}

#[test]
fn records_of_prepared_transactions_are_refused_by_name() {
    let scratch = scratch();
    for (info, name) in [
        (xact::PREPARE, "PREPARE"),
        (xact::COMMIT_PREPARED, "COMMIT_PREPARED"),
        (xact::ABORT_PREPARED, "ABORT_PREPARED"),
    ] {
        let dir = scratch.path().join(name);
        stopped(&dir);
        let engine = open(&dir, &small());
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop(engine);
        let (log, mut io) = log::resume(&dir);
        let record = Record { rmgr: Rmgr::XACT, info, xid: 1000, main: &[0; 64], blocks: &[] };
        log.insert(&mut io, &record).expect("insert");
        log.flush_all(&mut io).expect("flush");
        drop(log);
        let before = contents(&dir);
        let error = Engine::open(&dir, small()).expect_err("prepared").to_string();
        assert!(error.contains(&format!("not supported: Transaction {name}, info")), "{error}");
        assert_unchanged(&before, &dir, name);
    }
}

/// Files of an unlogged table as they may be after a crash, `number` being their relation's.
fn unlogged_files(dir: &Path, number: u32, init: &[u8]) {
    for (suffix, bytes) in
        [("_init", init), ("", b"rest"), (".1", b"rest"), ("_fsm", b"rest"), ("_vm", b"rest")]
    {
        std::fs::write(dir.join(format!("{number}{suffix}")), bytes).expect("file");
    }
}

/// Fails the test if they are not what a crash is to make of them.
fn assert_reset(dir: &Path, number: u32, init: &[u8]) {
    for suffix in ["_init", ""] {
        let path = dir.join(format!("{number}{suffix}"));
        assert!(std::fs::read(&path).expect("file") == init, "{}", path.display());
    }
    for suffix in [".1", "_fsm", "_vm"] {
        let path = dir.join(format!("{number}{suffix}"));
        assert!(!path.exists(), "{}", path.display());
    }
}

#[test]
fn unlogged_tables_are_emptied_by_recovery_and_by_nothing_else() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    stopped(&dir);
    let space = scratch.path().join("space");
    let inside = format!("pg_tblspc/96500/{}/5", forebay_format::ids::TABLESPACE_VERSION_DIR);
    std::fs::create_dir(&space).expect("directory");
    std::os::unix::fs::symlink(&space, dir.join("pg_tblspc/96500")).expect("link");
    std::fs::create_dir_all(dir.join(&inside)).expect("directory");
    std::fs::create_dir_all(dir.join("base/77")).expect("directory");
    let mut index = vec![7; BLOCK_SIZE];
    index[0] = 1;
    let places = [
        ("base/5", 90_000, &[][..]),
        ("base/77", 90_001, &index[..]),
        (inside.as_str(), 90_002, &index),
    ];
    for (place, number, init) in places {
        unlogged_files(&dir.join(place), number, init);
    }
    // No relation's, another one's, and one without an init fork.
    let others =
        ["base/5/90000_other", "base/5/900000", "base/5/90003", "base/5/x90000", "base/90000"];
    others.iter().for_each(|name| std::fs::write(dir.join(name), "theirs").expect("file"));
    let before = contents(&dir.join("base/77"));
    let engine = open(&dir, &small());
    assert_unchanged(&before, &dir.join("base/77"), "a start after a stop");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop(engine);
    let engine = open(&dir, &small());
    for (place, number, init) in places {
        assert_reset(&dir.join(place), number, init);
    }
    for name in others {
        assert_eq!(std::fs::read(dir.join(name)).expect(name), b"theirs", "{name}");
    }
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 100);
}

/// The init fork is what the log says, not what was on the disk when the server crashed.
#[test]
fn an_unlogged_table_is_emptied_to_what_redo_has_made_of_its_init_fork() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    stopped(&dir);
    let engine = open(&dir, &small());
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop(engine);
    let (log, mut io) = log::resume(&dir);
    let mut page = [0; BLOCK_SIZE];
    PageMut::new(&mut page).init(16);
    page[BLOCK_SIZE - 1] = 42;
    let tag = PageTag::new(RelFileLocator::in_default(5, 90_000), Fork::Init, 0);
    let flags = BlockFlags::FORCE_IMAGE;
    let block = BlockRef { id: 0, tag, page: Some(&page), flags, data: &[] };
    let record = Record { rmgr: Rmgr::XLOG, info: xlog::FPI, xid: 0, main: &[], blocks: &[block] };
    log.insert(&mut io, &record).expect("insert");
    log.flush_all(&mut io).expect("flush");
    drop(log);
    std::fs::write(dir.join("base/5/90000"), "rest").expect("file");
    let engine = open(&dir, &small());
    let init = std::fs::read(dir.join("base/5/90000_init")).expect("init fork");
    assert_eq!((init.len(), init.last()), (BLOCK_SIZE, Some(&42)));
    assert!(std::fs::read(dir.join("base/5/90000")).expect("main fork") == init);
    drop(engine);
}

/// Inserts rows of one int8 column.
fn insert_ids(
    session: &mut Session,
    name: &str,
    ids: std::ops::Range<i64>,
) -> Result<u64, EngineError> {
    transaction(session, |s| {
        let table = s.open_table(None, name, LockMode::RowExclusive)?;
        let mut batch = RowBatch::new(&table);
        ids.into_iter().try_for_each(|id| batch.push(&[Datum::Int8(id)]))?;
        s.insert_batch(&table, &mut batch)
    })
}

/// A PostgreSQL with a vacuumed database.
fn peer_with<'p>(peer: &'p Peer, options: &str, statements: &[&str]) -> Postgres<'p> {
    peer.init_with("data", &["-k", "--wal-segsize=1"]);
    let server = peer.start("data", &format!("-c autovacuum=off {options}"));
    statements.iter().for_each(|statement| drop(server.query(statement)));
    server.query("vacuum (freeze)");
    server.query("checkpoint");
    server
}

#[test]
fn a_crash_of_postgresql_after_a_vacuum_is_recovered_with_torn_maps() {
    let Some(peer) = Peer::find("a_crash_of_postgresql_after_a_vacuum") else { return };
    let server = peer_with(
        &peer,
        "",
        &["create table t as select g::int8 as id from generate_series(0, 999) g"],
    );
    let path = server.query("select pg_relation_filepath('t')");
    server.query("insert into t select g from generate_series(1000, 1009) g");
    server.crash();
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let map = dir.join(format!("{}_vm", path.trim()));
    assert!(std::fs::read(&map).expect("map")[page::HEADER_SIZE..].iter().any(|&byte| byte != 0));
    tear(&map);
    let (engine, mut session) = open_session(&dir, &small());
    assert_eq!(count(&mut session, "t").expect("count"), 1010);
    insert_ids(&mut session, "t", 1010..1020).expect("insertion");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);
    peer.adopt(&dir, "back");
    let server = peer.start("back", "-c autovacuum=off");
    let sum: i64 = (0..1020).sum();
    assert_eq!(server.query("select count(*), sum(id) from t"), format!("1020|{sum}"));
}

#[test]
fn a_crash_of_postgresql_after_changes_of_a_hash_index_is_recovered_for_postgresql() {
    let Some(peer) = Peer::find("a_crash_after_changes_of_a_hash_index") else { return };
    let create = ["create table t (id int8 primary key)", "create index on t using hash (id)"];
    let server = peer_with(&peer, "", &create);
    server.query("insert into t values (1)");
    server.crash();
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let (engine, mut session) = open_session(&dir, &small());
    assert_eq!(count(&mut session, "t").expect("count"), 1);
    let error = insert_ids(&mut session, "t", 2..3).expect_err("a hash index").to_string();
    assert!(error.contains("its access method (OID 405) is not supported"), "{error}");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);
    peer.adopt(&dir, "back");
    let server = peer.start("back", "-c autovacuum=off -c enable_seqscan=off");
    assert_eq!(server.query("select id from t where id = 1"), "1");
}

#[test]
fn a_crash_of_postgresql_after_changes_and_a_vacuum_is_recovered() {
    let Some(peer) = Peer::find("a_crash_after_changes_and_a_vacuum") else { return };
    let server = peer_with(
        &peer,
        "",
        &["create table t as select g::int8 as id from generate_series(0, 999) g"],
    );
    server.query("delete from t where id % 2 = 0");
    server.query("vacuum (freeze) t");
    server.query("update t set id = id + 1");
    server.query("insert into t values (1)");
    server.crash();
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let (engine, mut session) = open_session(&dir, &small());
    assert_eq!(count(&mut session, "t").expect("count"), 501);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);
    peer.adopt(&dir, "back");
    let server = peer.start("back", "-c autovacuum=off");
    assert_eq!(server.query("select count(*), sum(id) from t where id % 2 = 0"), "500|250500");
}

#[test]
fn prepared_transactions_of_postgresql_are_refused() {
    let Some(peer) = Peer::find("prepared_transactions_of_postgresql") else { return };
    let options = "-c max_prepared_transactions=2";
    let server = peer_with(
        &peer,
        options,
        &["create table t as select g::int8 as id from generate_series(0, 99) g"],
    );
    server.query("begin; insert into t values (100); prepare transaction 'later'");
    server.crash();
    let scratch = scratch();
    let check = |peer: &Peer, name: &str, told: &str| {
        let dir = scratch.path().join(name);
        peer.fetch("data", &dir);
        let before = contents(&dir);
        let error = Engine::open(&dir, small()).expect_err(name).to_string();
        assert!(error.contains(told), "{name}: {error}");
        assert_unchanged(&before, &dir, name);
    };
    check(&peer, "crashed", "not supported: Transaction PREPARE");
    let server = peer.start("data", &format!("-c autovacuum=off {options}"));
    drop(server);
    check(&peer, "stopped", "prepared transactions are not supported");
    let server = peer.start("data", &format!("-c autovacuum=off {options}"));
    server.query("commit prepared 'later'");
    drop(server);
    let dir = scratch.path().join("committed");
    peer.fetch("data", &dir);
    let engine = open(&dir, &small());
    assert_eq!(count(&mut engine.session().expect("session"), "t").expect("count"), 101);
}

#[test]
fn unlogged_tables_of_postgresql_are_emptied_after_its_crash() {
    let Some(peer) = Peer::find("unlogged_tables_of_postgresql") else { return };
    let statements = [
        "create table t as select g::int8 as id from generate_series(0, 99) g",
        "create unlogged table u as select g::int8 as id from generate_series(0, 9999) g",
        "create unlogged table keyed (id int8 primary key, note text)",
        "insert into keyed select g, 'note ' || g from generate_series(0, 999) g",
    ];
    let server = peer_with(&peer, "", &statements);
    // With this stop their rows reach their files.
    drop(server);
    let server = peer.start("data", "-c autovacuum=off");
    server.query("insert into t values (100)");
    server.crash();
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let (engine, mut session) = open_session(&dir, &small());
    for (table, rows) in [("t", 101), ("u", 0), ("keyed", 0)] {
        assert_eq!(count(&mut session, table).expect(table), rows, "{table}");
    }
    insert_ids(&mut session, "u", 0..3).expect("insert");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);
    peer.adopt(&dir, "back");
    let server = peer.start("back", "-c autovacuum=off");
    server.query("insert into u values (1); insert into keyed values (1, 'one'), (2, 'two')");
    assert_eq!(server.query("select count(*) from u"), "4", "Forebay's rows were kept");
    assert_eq!(
        server.query("set enable_seqscan = off; select note from keyed where id = 2"),
        "two"
    );
}
