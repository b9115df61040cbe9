//! What transactions have left that a crash cut off: recovery removes their files, directories and
//! tablespaces, and nothing else. Also where PostgreSQL 18 has crashed.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::*;
use forebay_engine::{
    CopyStrategy, Engine, EngineConfig, InitOptions, IoMethod, LockMode, NewDatabase, Session,
    ShutdownMode,
};
use forebay_testkit::files::copy_tree;
use forebay_testkit::peer::Peer;

fn small() -> EngineConfig {
    config(IoMethod::Sync, false)
}

/// The numbers that begin the names in a directory, from 16384 on.
fn numbers(dir: &Path) -> BTreeSet<u32> {
    let names = std::fs::read_dir(dir).expect("directory").map(|entry| entry.expect("entry"));
    let number = |name: &str| name.split(['_', '.']).next()?.parse::<u32>().ok();
    let numbers = names.filter_map(|entry| number(entry.file_name().to_str()?));
    numbers.filter(|number| *number >= 16_384).collect()
}

/// Begins a transaction that makes a table with a few rows.
fn begin_table(session: &mut Session, name: &str) {
    start(session);
    session.create_table(None, name, &columns()).expect("create table");
    session.start_command().expect("command");
    let table = session.open_table(None, name, LockMode::RowExclusive).expect("table");
    insert_open(session, &table, 0..100).expect("insert");
}

#[test]
fn files_of_transactions_that_a_crash_has_cut_off_are_removed() {
    let (scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &small());
    create(&mut session, "kept");
    insert(&mut session, "kept", 0..10);
    session.checkpoint().expect("checkpoint");
    let before = numbers(&dir.join("base/5"));
    // One is known by its row, since a checkpoint follows, and one by its number.
    let mut others = [engine.session().expect("session"), engine.session().expect("session")];
    begin_table(&mut others[0], "early");
    session.checkpoint().expect("checkpoint");
    begin_table(&mut others[1], "late");
    insert(&mut session, "kept", 10..20);
    let copy = scratch.path().join("copy");
    // A crash would leave this.
    copy_tree(&dir, &copy);
    let found = numbers(&copy.join("base/5"));
    assert!(found.len() >= before.len() + 4, "each has a TOAST table: {before:?}, {found:?}");
    // These are nobody's, and no transaction's either.
    for stray in ["base/5/90000", "base/5/90000.1", "base/5/90001_vm"] {
        std::fs::write(copy.join(stray), "theirs").expect("file");
    }
    std::fs::create_dir(copy.join("base/90002")).expect("directory");
    let (again, mut seen) = open_session(&copy, &small());
    assert_eq!(count_and_sum(&mut seen, "kept"), (20, (0..20).sum()));
    let expected: BTreeSet<u32> = before.iter().copied().chain([90_000, 90_001]).collect();
    assert_eq!(numbers(&copy.join("base/5")), expected);
    assert!(copy.join("base/90002").exists());
    assert!(copy.join("base/5/90000.1").exists());
    create(&mut seen, "early");
    insert(&mut seen, "early", 0..5);
    drop(seen);
    again.shutdown(ShutdownMode::Fast).expect("stop");
    drop((others, session, engine));
}

#[test]
fn directories_of_databases_and_tablespaces_that_were_cut_off_are_removed() {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let options = InitOptions {
        wal_segment_size: 1 << 20,
        sync: false,
        templates: true,
        ..InitOptions::default()
    };
    Engine::init(&dir, &options).expect("init");
    let (engine, mut session) = open_session(&dir, &small());
    transaction(&mut session, |s| s.create_tablespace("kept", None, "")).expect("tablespace");
    let mut others = [(); 3].map(|()| engine.session().expect("session"));
    for (n, strategy) in [CopyStrategy::WalLog, CopyStrategy::FileCopy].into_iter().enumerate() {
        start(&mut others[n]);
        let new = NewDatabase { name: format!("d{n}"), strategy, ..NewDatabase::default() };
        others[n].create_database(&new).expect("database");
    }
    start(&mut others[2]);
    others[2].create_tablespace("cut", None, "").expect("tablespace");
    session.checkpoint().expect("checkpoint");
    let copy = scratch.path().join("copy");
    // A crash would leave this.
    copy_tree(&dir, &copy);
    assert_eq!(numbers(&copy.join("base")).len(), 2);
    assert_eq!(numbers(&copy.join("pg_tblspc")).len(), 2);
    let again = open(&copy, &small());
    assert_eq!(numbers(&copy.join("base")).len(), 0);
    assert_eq!(numbers(&copy.join("pg_tblspc")).len(), 1);
    again.shutdown(ShutdownMode::Immediate).expect("stop");
    drop(again);
    // The records of their removal are redone.
    let again = open(&copy, &small());
    assert_eq!(numbers(&copy.join("pg_tblspc")).len(), 1);
    again.shutdown(ShutdownMode::Fast).expect("stop");
    drop((others, session, engine));
}

/// A crash of PostgreSQL's during a transaction, with a checkpoint after its first statements or
/// without one.
fn crash_in_transaction(peer: &Peer, name: &str, checkpoint: bool) -> [BTreeSet<u32>; 2] {
    peer.init_with(name, &["-k", "--wal-segsize=1"]);
    let base = peer.outside(name).join("base/5");
    let server = peer.start(name, "-c autovacuum=off -c checkpoint_timeout=1h");
    server.query("create table kept (a int primary key, b text)");
    server.query("insert into kept select g, g::text from generate_series(1, 1000) g");
    server.query("checkpoint");
    let before = numbers(&base);
    let statements = "begin; create table cut (a serial primary key, b text); \
                      insert into cut (b) select repeat('x', g) from generate_series(1, 1000) g; \
                      truncate kept; alter table kept add c int default random(); \
                      select pg_sleep(600)";
    let mut sleeper = peer.psql(server.port).args(["-c", statements]).spawn().expect("psql");
    server.wait_for("select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep'");
    if checkpoint {
        server.query("checkpoint");
    }
    // Makes what the other has logged durable.
    server.query("create table last (a int); drop table last");
    let found = numbers(&base);
    server.crash();
    sleeper.wait().expect("psql ends");
    [before, found]
}

#[test]
fn files_that_a_crash_of_postgresql_has_left_are_removed() {
    let Some(peer) = Peer::find("files_that_a_crash_of_postgresql_has_left") else { return };
    let scratch = scratch();
    for (name, checkpoint) in [("late", false), ("early", true)] {
        let [before, found] = crash_in_transaction(&peer, name, checkpoint);
        let dir = scratch.path().join(name);
        peer.fetch(name, &dir);
        let (engine, session) = open_session(&dir, &small());
        let left = numbers(&dir.join("base/5"));
        assert!(found.len() > before.len() + 6, "{before:?}, {found:?}");
        assert_eq!(left, before, "with a checkpoint: {checkpoint}");
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        drop(engine);
        let back = format!("{name}-back");
        peer.adopt(&dir, &back);
        let server = peer.start(&back, "-c autovacuum=off");
        assert_eq!(server.query("select count(*), sum(a) from kept"), "1000|500500");
    }
}

/// The creation of one tablespace fails, another one gets its location, and a crash follows:
/// recovery makes both links, and must not take the second one's directory with the first.
#[test]
fn a_tablespace_keeps_the_location_that_another_one_was_to_have() {
    let (scratch, dir) = new_dir();
    let place = scratch.path().join("place");
    std::fs::create_dir(&place).expect("directory");
    let location = place.to_str().expect("UTF-8");
    let (engine, mut session) = open_session(&dir, &small());
    start(&mut session);
    session.create_tablespace("first", None, location).expect("create");
    session.abort().expect("abort");
    let kept = transaction(&mut session, |s| s.create_tablespace("second", None, location));
    let kept = kept.expect("create");
    drop(session);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop(engine);
    for _ in 0..2 {
        let engine = open(&dir, &small());
        assert_eq!(numbers(&dir.join("pg_tblspc")), [kept].into());
        assert_eq!(std::fs::read_dir(&place).expect("directory").count(), 1);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
    }
}
