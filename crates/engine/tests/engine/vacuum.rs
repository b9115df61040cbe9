//! VACUUM: what it frees and stores, crashes, and what PostgreSQL 18 says of its pages
//! (FOREBAY_PG18_RUN).

use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use forebay_engine::{
    AnalyzeOptions, Datum, Engine, EngineError, Fork, IoMethod, ItemPointer, LockMode, RowBatch,
    Session, ShutdownMode, Table, VacuumOptions,
};
use forebay_testkit::peer::{Peer, Postgres};

const FREEZE: VacuumOptions = VacuumOptions { freeze: true, ..PLAIN };
const PLAIN: VacuumOptions = VacuumOptions {
    freeze: false,
    disable_page_skipping: false,
    skip_locked: false,
    truncate: None,
    index_cleanup: None,
    buffer_usage_limit: None,
    verbose: true,
    process_main: true,
    process_toast: true,
    parallel: Some(0),
};

fn opened(session: &mut Session, mode: LockMode) -> Arc<Table> {
    session.open_table(None, "t", mode).expect("table")
}

/// Vacuums the table; what it tells.
fn vacuum(session: &mut Session, options: &VacuumOptions) -> Vec<String> {
    let table = transaction(session, |s| s.table(None, "t")).expect("table").expect("there is one");
    let mut told = Vec::new();
    session.vacuum(&table, options, &mut told).expect("vacuum");
    told
}

/// Deletes the rows whose ids are wanted, in one transaction.
fn delete(session: &mut Session, wanted: impl Fn(i64) -> bool) {
    transaction(session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        let mut scan = s.scan(&table)?;
        let mut places: Vec<ItemPointer> = Vec::new();
        while let Some(row) = scan.next(s)? {
            if matches!(row.decode()?[0], Datum::Int8(id) if wanted(id)) {
                places.push(row.place());
            }
        }
        for place in places {
            s.delete_row(&table, place)?;
        }
        Ok(())
    })
    .expect("delete");
}

/// relpages, reltuples, relallvisible, relallfrozen, relfrozenxid of the table.
fn figures(session: &mut Session) -> (i32, f32, i32, i32, u32) {
    transaction(session, |s| {
        let class = s.open_table(None, "pg_class", LockMode::AccessShare)?;
        let mut scan = s.scan(&class)?;
        while let Some(row) = scan.next(s)? {
            let row = row.decode()?;
            if row[1] != Datum::text("t") {
                continue;
            }
            let int = |n: usize| match row[n] {
                Datum::Int4(n) => n,
                ref other => panic!("{other:?}"),
            };
            let (Datum::Float4(tuples), Datum::Xid(xid)) = (&row[10], &row[29]) else {
                panic!("{row:?}")
            };
            return Ok((int(9), *tuples, int(11), int(12), *xid));
        }
        panic!("no such table");
    })
    .expect("pg_class")
}

fn blocks(engine: &Engine) -> u64 {
    let path = engine.data_dir().join("base/5/16384");
    std::fs::metadata(path).expect("file").len() / 8192
}

#[test]
fn a_vacuumed_table_has_room_after_a_restart() {
    let (_scratch, dir) = new_dir();
    let config = config(IoMethod::Worker, false);
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    insert(&mut session, "t", 0..20_000);
    delete(&mut session, |id| id % 2 == 0 || (5_000..10_000).contains(&id));
    let told = vacuum(&mut session, &PLAIN);
    assert_eq!(told[0], "vacuuming \"postgres.public.t\"");
    assert!(told[1].contains("tuples: 12500 removed, 7500 remain"), "{}", told[1]);
    let before = blocks(&engine);
    let (pages, tuples, visible, frozen, _) = figures(&mut session);
    assert_eq!((pages as u64, tuples, visible), (before, 7500.0, pages));
    assert!((20..40).contains(&frozen), "{frozen}: pages without rows");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);

    let (engine, mut session) = open_session(&dir, &config);
    insert(&mut session, "t", 50_000..60_000);
    assert_eq!(blocks(&engine), before, "the table has not grown");
    assert_eq!(count(&mut session, "t").expect("count"), 17_500);
    let told = vacuum(&mut session, &FREEZE);
    assert!(told[0].starts_with("aggressively vacuuming"), "{told:?}");
    assert!(told[1].contains("new relfrozenxid"), "{told:?}");
    let (pages, tuples, visible, frozen, xid) = figures(&mut session);
    assert_eq!((tuples, visible, frozen), (17_500.0, pages, pages));
    // Nothing is read again but the last page.
    let told = vacuum(&mut session, &PLAIN);
    assert!(told[1].contains(" 1 scanned"), "{told:?}");
    assert!(figures(&mut session).4 >= xid);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn an_empty_end_goes_and_a_crash_brings_nothing_back() {
    let (_scratch, dir) = new_dir();
    let config = config(IoMethod::Sync, false);
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    insert(&mut session, "t", 0..20_000);
    session.checkpoint().expect("checkpoint");
    let all = blocks(&engine);
    delete(&mut session, |id| id >= 2_000);
    let told = vacuum(&mut session, &VacuumOptions { truncate: Some(false), ..PLAIN });
    assert!(!told.iter().any(|text| text.contains("truncated")), "{told:?}");
    assert_eq!(blocks(&engine), all);
    let told = vacuum(&mut session, &PLAIN);
    assert!(told.iter().any(|text| text.contains("truncated")), "{told:?}");
    let few = blocks(&engine);
    assert!(few * 5 < all, "{few} of {all}");
    assert_eq!(figures(&mut session).0 as u64, few);
    insert(&mut session, "t", 30_000..30_010);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));

    let (engine, mut session) = open_session(&dir, &config);
    assert!(blocks(&engine) <= few + 1);
    assert_eq!(count(&mut session, "t").expect("count"), 2_010);
    assert_eq!(figures(&mut session).0 as u64, few, "stored in place, and recovered");
    session.advance_oldest_ids().expect("oldest ids");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn a_table_in_use_is_left_out_or_waited_for() {
    let (_scratch, engine) = fresh();
    let (mut session, mut other) = (engine.session().expect("one"), engine.session().expect("two"));
    create(&mut session, "t");
    insert(&mut session, "t", 0..3_000);
    delete(&mut session, |id| id >= 100);
    start(&mut other);
    opened(&mut other, LockMode::AccessShare);
    // The end stays while somebody reads, and nobody waits for long.
    let table = transaction(&mut session, |s| s.table(None, "t")).expect("find").expect("table");
    let before = blocks(&engine);
    session.vacuum(&table, &PLAIN, &mut Vec::new()).expect("vacuum");
    assert_eq!(blocks(&engine), before);
    other.abort().expect("abort");
    start(&mut other);
    opened(&mut other, LockMode::ShareUpdateExclusive);
    let skip = VacuumOptions { skip_locked: true, ..PLAIN };
    session.vacuum(&table, &skip, &mut Vec::new()).expect("left out");
    let warnings: Vec<_> = session.take_warnings().into_iter().map(|w| w.message).collect();
    assert_eq!(warnings, ["skipping vacuum of \"t\" --- lock not available"]);
    other.abort().expect("abort");
    transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        s.drop_table(&table)
    })
    .expect("drop");
    session.vacuum(&table, &PLAIN, &mut Vec::new()).expect("left out");
    let warnings: Vec<_> = session.take_warnings().into_iter().map(|w| w.message).collect();
    assert_eq!(warnings, ["skipping vacuum of \"t\" --- relation no longer exists"]);
}

#[test]
fn rows_are_frozen_at_once_only_where_a_rollback_removes_them() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    let refused = transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        s.check_freezable(&table)
    });
    assert_eq!(state(refused), "55000");
    let load = |s: &mut Session| -> Result<(), EngineError> {
        let table = s.open_table(None, "u", LockMode::RowExclusive)?;
        s.check_freezable(&table)?;
        let mut batch = RowBatch::new(&table);
        batch.freeze();
        for id in 0..10_000 {
            batch.push(&[Datum::Int8(id), Datum::Null])?;
        }
        s.insert_batch(&table, &mut batch).map(drop)
    };
    transaction(&mut session, |s| {
        s.create_table(None, "u", &columns())?;
        s.start_command()?;
        load(s)?;
        s.begin_subtransaction()?;
        let table = s.open_table(None, "u", LockMode::RowExclusive)?;
        assert_eq!(state(s.check_freezable(&table)), "55000");
        s.abort_subtransaction()
    })
    .expect("load");
    assert_eq!(count(&mut session, "u").expect("count"), 10_000);
    let table = transaction(&mut session, |s| s.table(None, "u")).expect("find").expect("table");
    let mut told = Vec::new();
    session.vacuum(&table, &PLAIN, &mut told).expect("vacuum");
    assert!(told[1].contains(" 1 scanned"), "all pages are frozen and marked: {told:?}");
}

#[test]
fn a_fill_factor_that_postgresql_has_stored_leaves_room() {
    let Some(peer) = Peer::find("a_fill_factor_that_postgresql_has_stored_leaves_room") else {
        return;
    };
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    for (table, options) in [("t", "with (autovacuum_enabled = off, fillfactor = 50)"), ("u", "")] {
        server.query(&format!("create table {table} (id int8, note text) {options}"));
        server.query(&format!("alter table {table} alter note set storage plain"));
    }
    drop(server);
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);
    let (_engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let mut blocks = |name: &str| {
        insert(&mut session, name, 0..20_000);
        session.checkpoint().expect("checkpoint");
        let table = transaction(&mut session, |s| s.table(None, name)).expect("find");
        let path = dir.join(table.expect("a table").locator.path(Fork::Main));
        std::fs::metadata(path).expect("file").len() / 8192
    };
    let (half, full) = (blocks("t"), blocks("u"));
    assert!(half * 10 > full * 18, "{half} blocks half full, {full} full ones");
}

/// What PostgreSQL finds wrong with the table.
const CHECKS: [&str; 3] = [
    "select * from verify_heapam('t')",
    "select * from pg_check_visible('t')",
    "select * from pg_check_frozen('t')",
];

/// A directory that PostgreSQL made, with a table of 20,000 rows.
fn made_by_postgresql(peer: &Peer, dir: &Path) {
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    server.query("create extension amcheck; create extension pg_visibility");
    server.query("create extension pg_freespacemap");
    server.query(
        "create table t as select g::int8 as id, case when g % 10 <> 0 then 'row number ' || \
              g end as note from generate_series(0, 19999) g",
    );
    server.query("alter table t alter note set storage plain");
    drop(server);
    peer.fetch("data", dir);
}

fn check_by_postgresql(server: &Postgres<'_>) {
    for check in CHECKS {
        assert_eq!(server.query(check), "", "{check}");
    }
}

fn number(text: &str) -> i32 {
    text.parse().expect("a number")
}

#[test]
fn postgresql_finds_nothing_wrong_with_a_vacuumed_table() {
    let Some(peer) = Peer::find("postgresql_finds_nothing_wrong_with_a_vacuumed_table") else {
        return;
    };
    let scratch = scratch();
    let dir = scratch.path().join("data");
    made_by_postgresql(&peer, &dir);
    let config = config(IoMethod::Sync, false);
    let (engine, mut session) = open_session(&dir, &config);
    delete(&mut session, |id| id % 3 == 0 && id < 15_000 || id >= 18_000);
    vacuum(&mut session, &PLAIN);
    insert(&mut session, "t", 40_000..41_000);
    delete(&mut session, |id| (40_000..40_100).contains(&id));
    session.checkpoint().expect("checkpoint");
    delete(&mut session, |id| (3_000..4_000).contains(&id));
    vacuum(&mut session, &FREEZE);
    delete(&mut session, |id| id == 5_000);
    insert(&mut session, "t", 50_000..50_010);
    session.advance_oldest_ids().expect("oldest ids");
    let (pages, tuples, visible, frozen, xid) = figures(&mut session);
    let rows = count(&mut session, "t").expect("count");
    // Crashed, so that PostgreSQL replays what was logged.
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));

    peer.adopt(&dir, "back");
    let server = peer.start("back", "-c autovacuum=off");
    check_by_postgresql(&server);
    assert_eq!(server.query("select count(*) from t"), rows.to_string());
    let stored = server.query(
        "select relpages, reltuples, relallvisible, relallfrozen, relfrozenxid from pg_class \
         where relname = 't'",
    );
    assert_eq!(stored, format!("{pages}|{tuples}|{visible}|{frozen}|{xid}"));
    let marked = "select all_visible, all_frozen from pg_visibility_map_summary('t')";
    let marked = server.query(marked);
    let (now_visible, now_frozen) = marked.split_once('|').expect("two numbers");
    assert!(number(now_visible) <= visible && number(now_frozen) <= frozen, "{marked}");
    assert!(number(now_frozen) > pages / 2, "{marked}");
    server.query("insert into t values (1, 'goes on')");
    server.query("vacuum (freeze) t");
    server.query("update t set id = id + 1");
    server.query("vacuum t");
    assert_eq!(server.query(CHECKS[0]), "");
    drop(server);

    // The free-space map that a stopped engine leaves is PostgreSQL's.
    let (engine, mut session) = {
        let again = scratch.path().join("again");
        peer.fetch("back", &again);
        open_session(&again, &config)
    };
    delete(&mut session, |id| id % 2 == 0);
    vacuum(&mut session, &PLAIN);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop(engine);
    assert_undamaged(&scratch.path().join("again"));
    peer.adopt(&scratch.path().join("again"), "third");
    peer.run("pg_checksums", &["--check", "-D", &peer.inside("third")]);
    let server = peer.start("third", "-c autovacuum=off");
    let roomy = server.query("select count(*) from pg_freespace('t') where avail > 2000");
    assert!(number(&roomy) > pages / 2, "{roomy} of {pages}");
    check_by_postgresql(&server);
}

#[test]
fn other_tables_stay_known_when_one_is_vacuumed_or_analyzed() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    for name in ["t", "u"] {
        create(&mut session, name);
        insert(&mut session, name, 0..100);
    }
    let mut other = engine.session().expect("session");
    let mut known = || {
        ["t", "u"].map(|name| {
            let found = transaction(&mut other, |s| s.table(None, name)).expect("look");
            found.expect("there is one")
        })
    };
    for analyze in [false, true] {
        let [before, neighbour] = known();
        match analyze {
            true => {
                let options = AnalyzeOptions::default();
                session.analyze_alone(&before, None, &options, &mut Vec::new()).expect("analyze");
            }
            false => drop(vacuum(&mut session, &PLAIN)),
        }
        let [now, same] = known();
        assert!(!Arc::ptr_eq(&before, &now), "its figures are new");
        assert!(Arc::ptr_eq(&neighbour, &same));
    }
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}

#[test]
fn other_tables_stay_known_when_one_is_analyzed_in_a_block() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    for name in ["t", "u"] {
        create(&mut session, name);
        insert(&mut session, name, 0..100);
    }
    let mut other = engine.session().expect("session");
    let mut known = || {
        ["t", "u"].map(|name| {
            let found = transaction(&mut other, |s| s.table(None, name)).expect("look");
            found.expect("there is one")
        })
    };
    let found =
        |session: &mut Session| session.table(None, "t").expect("look").expect("there is one");
    for end in ["commit", "rollback", "rollback to savepoint", "create table"] {
        let [before, neighbour] = known();
        session.begin().expect("begin");
        session.begin_subtransaction().expect("savepoint");
        session.start_command().expect("start");
        let options = AnalyzeOptions::default();
        session.analyze(&before, None, &options, &mut Vec::new()).expect("analyze");
        session.start_command().expect("start");
        let own = found(&mut session);
        assert!(!Arc::ptr_eq(&before, &own), "it sees its own statistics, {end}");
        let [refreshed, _] = known();
        assert!(!Arc::ptr_eq(&before, &refreshed), "figures change in place, {end}");
        if end == "create table" {
            session.create_table(None, "v", &columns()).expect("create");
        }
        match end {
            "rollback" => session.abort().expect("abort"),
            "rollback to savepoint" => {
                session.abort_subtransaction().expect("abort the savepoint");
                session.start_command().expect("start");
                let shared = found(&mut session);
                assert!(Arc::ptr_eq(&refreshed, &shared), "its statistics are gone");
                session.commit().expect("commit");
            }
            _ => {
                session.commit_subtransaction().expect("release");
                session.commit().expect("commit");
            }
        }
        let [now, same] = known();
        let new_statistics = !end.starts_with("rollback");
        assert_eq!(Arc::ptr_eq(&refreshed, &now), !new_statistics, "after {end}");
        assert!(Arc::ptr_eq(&neighbour, &same), "after {end}");
    }
    engine.shutdown(ShutdownMode::Fast).expect("stop");
}
