//! Unlogged tables, and tables in tablespaces, against answers recorded from PostgreSQL 18; and
//! what crashes make of them.

use crate::fixture::{Fixture, open, open_made, rows};
use crate::support;
use forebay_engine::ShutdownMode;
use forebay_sql::Connection;
use forebay_testkit::peer::Peer;

#[test]
fn answers_as_postgresql_does() {
    let mut fixture = open("");
    let golden = include_str!("../golden/files.txt");
    assert!(support::cases(golden).len() > 150, "too few cases were read");
    let wrong = support::differences(&mut fixture.conn, golden);
    fixture.close();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Rows with values beyond a page.
const ROWS: &str = "insert into u (b) select 'row ' || g from generate_series(1, 300) g; \
                    insert into u (b) values (repeat('long', 3000))";
const COUNTS: &str = "select count(*), sum(a), sum(length(b)) from u";
const KEPT: &str = "301\t45451\t13992";

fn check_index(fixture: &mut Fixture) {
    fixture.rows("select bt_index_parent_check('u_pkey', true, true)");
    fixture.rows("select bt_index_parent_check('by_b', true, true)");
}

#[test]
fn a_crash_empties_what_is_unlogged_and_a_stop_does_not() {
    let mut fixture = open("");
    fixture.rows(
        "create unlogged table u (a serial primary key, b text); \
                  create index by_b on u (left(b, 10)) where a > 2",
    );
    fixture.rows(ROWS);
    assert_eq!(fixture.rows(COUNTS), [KEPT]);
    let mut fixture = fixture.restart(ShutdownMode::Fast);
    assert_eq!(fixture.rows(COUNTS), [KEPT]);
    assert_eq!(fixture.rows("select b from u where a = 7"), ["row 7"]);
    check_index(&mut fixture);
    fixture.rows("checkpoint");
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    assert_eq!(fixture.rows(COUNTS), ["0\t\\N\t\\N"]);
    check_index(&mut fixture);
    // The sequence begins again.
    fixture.rows(ROWS);
    assert_eq!(fixture.rows(COUNTS), [KEPT]);
    assert_eq!(fixture.rows("select b from u where a = 7"), ["row 7"]);
    // Rewritten files begin empty, too.
    fixture.rows("vacuum full u");
    fixture.rows("reindex index by_b");
    assert_eq!(fixture.rows(COUNTS), [KEPT]);
    check_index(&mut fixture);
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    assert_eq!(fixture.rows(COUNTS), ["0\t\\N\t\\N"]);
    check_index(&mut fixture);
    fixture.close();
}

#[test]
fn what_becomes_logged_survives_a_crash() {
    let mut fixture = open("");
    fixture.rows(
        "create unlogged table u (a serial primary key, b text); \
                  create index by_b on u (b)",
    );
    fixture.rows(ROWS.replace("3000", "300").as_str());
    fixture.rows("alter table u set logged");
    let before = fixture.rows(COUNTS);
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    assert_eq!(fixture.rows(COUNTS), before);
    check_index(&mut fixture);
    assert_eq!(fixture.rows("insert into u (b) values ('x') returning a > 301"), ["t"]);
    // A change that was rolled back by the crash.
    fixture.rows("begin; alter table u set unlogged; insert into u (b) values ('gone')");
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    assert_eq!(fixture.rows("select count(*) from u"), ["302"]);
    fixture.rows("alter table u set unlogged");
    assert_eq!(fixture.rows("select count(*) from u"), ["302"]);
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    assert_eq!(fixture.rows("select count(*) from u"), ["0"]);
    check_index(&mut fixture);
    fixture.close();
}

#[test]
fn tables_in_tablespaces_survive_a_crash() {
    let mut fixture = open("");
    fixture.rows("create tablespace one location ''");
    fixture.rows("create tablespace two location ''");
    fixture.rows(
        "create table u (a serial primary key using index tablespace two, b text) \
                  tablespace one; create index by_b on u (b) tablespace one",
    );
    fixture.rows(ROWS.replace("3000", "300").as_str());
    let before = fixture.rows(COUNTS);
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    assert_eq!(fixture.rows(COUNTS), before);
    check_index(&mut fixture);
    fixture.rows("alter table u set tablespace two; alter index by_b set tablespace pg_default");
    let mut fixture = fixture.restart(ShutdownMode::Immediate);
    assert_eq!(fixture.rows(COUNTS), before);
    check_index(&mut fixture);
    fixture.rows("drop tablespace one");
    fixture.rows("drop table u");
    fixture.rows("drop tablespace two");
    fixture.close();
}

/// What one server has made, the other one uses; after a crash of either both empty the same.
#[test]
fn postgresql_goes_on_with_unlogged_tables_and_tablespaces() {
    let Some(peer) = Peer::find("unlogged_turns") else { return };
    peer.init("theirs");
    let options = "-c autovacuum=off -c allow_in_place_tablespaces=on";
    let server = peer.start("theirs", options);
    server.query("create tablespace one location ''");
    server.query("create unlogged table theirs (a int primary key, b text) tablespace one");
    server.query("insert into theirs select g, repeat('x', g) from generate_series(1, 4000) g");
    server.query("create extension amcheck");
    drop(server);

    let mut fixture = open_made(|dir| peer.fetch("theirs", dir));
    assert_eq!(fixture.rows("select count(*), sum(length(b)) from theirs"), ["4000\t8002000"]);
    fixture.rows(
        "insert into theirs values (5000, 'ours'); delete from theirs where a < 10; \
                  update theirs set b = 'changed' where a = 10",
    );
    fixture.rows("vacuum theirs");
    fixture.rows(
        "create unlogged table u (a serial primary key, b text); \
                  create index by_b on u (left(b, 10)) tablespace one",
    );
    fixture.rows(ROWS);
    fixture.rows(
        "create table moved (a int primary key, b text); \
                  insert into moved values (1, 'x'); alter table moved set tablespace one; \
                  alter table moved set unlogged; alter table moved set logged",
    );
    let dir = fixture.dir().to_owned();
    fixture.engine.shutdown(ShutdownMode::Fast).expect("stop");
    peer.adopt(&dir, "kept");
    let server = peer.start("kept", options);
    let counts = "select count(*) || ' ' || sum(length(b)) from ";
    assert_eq!(
        server.query(&format!("{counts} theirs")),
        "3992 8002000".replace("8002000", &{
            let removed: u32 = (1..=10).sum();
            (8_002_000 - removed + 7 + 4).to_string()
        })
    );
    assert_eq!(server.query(&format!("{counts} u")), "301 13992");
    assert_eq!(server.query("set enable_seqscan = off; select b from u where a = 7"), "row 7");
    let trees = "select count(bt_index_parent_check(c.oid, true, true)) > 3 from pg_class c \
                 where relkind = 'i' and relnamespace in (2200, 99)";
    let heaps = "select count(*) from pg_class c, lateral verify_heapam(c.oid) \
                 where relkind in ('r', 't') and relnamespace in (2200, 99)";
    assert_eq!((server.query(trees), server.query(heaps)), ("t".to_owned(), "0".to_owned()));
    server.query("insert into u (b) values ('theirs'); insert into moved values (2, 'y')");
    server.crash();
    drop(fixture.conn);

    let server = peer.start("kept", options);
    assert_eq!(server.query("select count(*) from u"), "0");
    assert_eq!(server.query("select count(*) from moved"), "2");
    assert_eq!(server.query(trees), "t");
    server.query("insert into u (b) values ('after')");
    assert_eq!(server.query("select a from u"), "1");
    server.crash();

    let mut fixture = open_made(|dir| peer.fetch("kept", dir));
    assert_eq!(fixture.rows("select count(*) from u"), ["0"]);
    assert_eq!(fixture.rows("select count(*) from theirs"), ["0"]);
    assert_eq!(fixture.rows("select count(*) from moved"), ["2"]);
    fixture.rows("insert into theirs values (1, 'x'); insert into u (b) values ('x')");
    check_index(&mut fixture);
    fixture.close();
}

/// PostgreSQL logs that main forks of a copied database's unlogged tables are created, too.
/// Recovery makes them, and then empties the tables.
#[test]
fn unlogged_tables_of_a_database_that_postgresql_has_copied_are_emptied() {
    let Some(peer) = Peer::find("unlogged_tables_of_a_copied_database") else { return };
    peer.init("theirs");
    let server = peer.start("theirs", "-c autovacuum=off");
    server.query("create unlogged table u (a serial primary key, b text)");
    server.query("create index by_b on u (b)");
    server.query("insert into u (b) select 'row ' || g from generate_series(1, 1000) g");
    server.query("create extension amcheck");
    server.query("checkpoint");
    server.query("create database copy template postgres strategy wal_log");
    server.crash();
    let fixture = open_made(|dir| peer.fetch("theirs", dir));
    let session = fixture.engine.session_as("copy", "postgres").expect("enter");
    let settings = Box::new(support::FewSettings::new());
    let mut copy = Connection::new(session, settings, support::identity());
    assert_eq!(rows(&mut copy, "select count(*) from u"), ["0"]);
    rows(&mut copy, "insert into u (b) select 'ours ' || g from generate_series(1, 2000) g");
    assert_eq!(rows(&mut copy, "select b from u where a = 7"), ["ours 7"]);
    rows(&mut copy, "select bt_index_parent_check('u_pkey', true, true)");
    copy.close();
    let dir = fixture.dir().to_owned();
    fixture.engine.shutdown(ShutdownMode::Fast).expect("stop");
    peer.adopt(&dir, "kept");
    let server = peer.start("kept", "-c autovacuum=off");
    let checked = "select count(*), max(b), (select bt_index_parent_check('u_pkey', true, true)) \
                   from u where a > 0";
    let mut psql = peer.psql(server.port);
    let output = psql.args(["-d", "copy", "-c", checked]).output().expect("psql");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((told.trim(), &*log), ("2000|ours 999|", ""));
    drop(fixture.conn);
}
