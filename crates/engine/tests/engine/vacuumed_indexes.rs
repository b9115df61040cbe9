//! Tables of PostgreSQL with indexes and TOAST tables, vacuumed here, and what PostgreSQL finds
//! then.

use std::path::Path;

use crate::common::*;
use forebay_engine::{IndexCleanup, IoMethod, Session, ShutdownMode, VacuumOptions};
use forebay_testkit::peer::{Peer, Postgres};

/// The figures of the table and its indexes.
const FIGURES: &str = "select relname, relpages, reltuples, relallvisible from pg_class where \
                       relname in ('t', 't_pkey', 't_note') order by 1";
/// The same of its TOAST table, whose name differs.
const TOAST_FIGURES: &str = "select c.relpages, c.reltuples, c.relallvisible, i.relpages, \
                             i.reltuples from pg_class t join pg_class c on c.oid = \
                             t.reltoastrelid join pg_index x on x.indrelid = c.oid join pg_class \
                             i on i.oid = x.indexrelid where t.relname = 't'";
/// What PostgreSQL finds wrong.
const CHECKS: [&str; 5] = [
    "select bt_index_parent_check('t_pkey', true, true), bt_index_parent_check('t_note', true, \
     true)",
    "select bt_index_check(indexrelid, true) from pg_index where indrelid = (select reltoastrelid \
     from pg_class where relname = 't')",
    "select * from verify_heapam('t')",
    "select * from pg_check_visible('t')",
    "select * from pg_check_frozen('t')",
];

/// A directory with a table of 20,000 rows: some of them deleted, updated, or with values in a
/// TOAST table.
fn made_by_postgresql(peer: &Peer, dir: &Path) {
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    server.query("create extension amcheck; create extension pg_visibility");
    server.query("create table u (id int8, note text); alter table u alter note set storage plain");
    server.query("create table t (id int8 primary key, note text, more text)");
    server.query("alter table t alter more set storage external");
    server.query(
        "insert into t select g, 'row number ' || g, case when g % 100 = 0 then repeat('x', 5000) \
         end from generate_series(1, 20000) g",
    );
    server.query("create index t_note on t (note)");
    server.query("delete from t where id % 3 = 0 or id between 8000 and 12000");
    server.query("update t set more = 'short' where id % 7 = 0");
    drop(server);
    peer.fetch("data", dir);
}

fn check_by_postgresql(server: &Postgres<'_>) {
    for check in CHECKS {
        let found = server.query(check);
        assert_eq!(found.trim_matches(['|', '\n']), "", "{check}");
    }
}

fn vacuum(session: &mut Session, index_cleanup: Option<IndexCleanup>) -> String {
    let table = transaction(session, |s| s.table(None, "t")).expect("table").expect("there is one");
    let options = VacuumOptions { verbose: true, index_cleanup, ..VacuumOptions::default() };
    let mut told = Vec::new();
    session.vacuum(&table, &options, &mut told).expect("vacuum");
    told.join("\n")
}

fn assert_has(report: &str, parts: &[&str]) {
    for part in parts {
        assert!(report.contains(part), "{part} in\n{report}");
    }
}

#[test]
fn postgresql_finds_the_indexes_of_a_vacuumed_table_as_its_own_vacuum_leaves_them() {
    let name = "postgresql_finds_the_indexes_of_a_vacuumed_table_as_its_own_vacuum_leaves_them";
    let Some(peer) = Peer::find(name) else { return };
    let scratch = scratch();
    let dir = scratch.path().join("data");
    made_by_postgresql(&peer, &dir);
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let report = vacuum(&mut session, None);
    let toast = report.find("vacuuming \"postgres.pg_toast.pg_toast_").expect("the TOAST table");
    assert_has(
        &report[..toast],
        &["index scans: 1\n", "index scan needed: ", "index \"t_pkey\": "],
    );
    assert_has(&report[..toast], &["index \"t_note\": pages: "]);
    assert_has(&report[toast..], &["index scans: 1\n", "index \"pg_toast_"]);
    // Its commit makes the log of the vacuum durable, too.
    insert(&mut session, "u", 0..1);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));

    peer.adopt(&dir, "here");
    let server = peer.start("data", "-c autovacuum=off");
    server.query("vacuum t");
    let figures = [FIGURES, TOAST_FIGURES].map(|query| server.query(query));
    drop(server);
    let server = peer.start("here", "-c autovacuum=off");
    assert_eq!([FIGURES, TOAST_FIGURES].map(|query| server.query(query)), figures);
    check_by_postgresql(&server);
    server.query("delete from t where id in (1, 2, 4, 5, 8, 10, 11)");
    drop(server);

    // A few dead rows stay until they must go.
    peer.fetch("here", &scratch.path().join("again"));
    let dir = scratch.path().join("again");
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let report = vacuum(&mut session, None);
    assert_has(&report, &["index scans: 0\n", "index scan bypassed: 1 pages from table ("]);
    assert_has(&report, &[" have 7 dead item identifiers\n"]);
    let report = vacuum(&mut session, Some(IndexCleanup::Off));
    assert_has(&report, &["index scans: 0\n", "index scan bypassed: 1 pages from table ("]);
    let report = vacuum(&mut session, Some(IndexCleanup::On));
    assert_has(&report, &["index scans: 1\n", "index scan needed: 1 pages from table ("]);
    assert_has(&report, &[" had 7 dead item identifiers removed\n"]);
    engine.shutdown(ShutdownMode::Fast).expect("stop");
    drop((session, engine));
    peer.adopt(&dir, "back");
    let server = peer.start("back", "-c autovacuum=off");
    check_by_postgresql(&server);
    server.query("insert into t select g, 'again' from generate_series(30000, 40000) g");
    server.query("vacuum t");
    check_by_postgresql(&server);
}
