//! Relations of PostgreSQL's directories that Forebay does not make itself: what it changes of
//! them is changed as PostgreSQL would have done it.

use crate::fixture::open_made;
use forebay_engine::ShutdownMode;
use forebay_testkit::peer::{Peer, Postgres};

/// What PostgreSQL makes.
const MADE: &str = "create role reader; create role owner; \
    create materialized view mv as select g as n from generate_series(1, 3) g; \
    create index mv_n on mv (n); \
    create type mood as enum ('good', 'bad'); \
    create domain positive as int check (value > 0); \
    create table moods (m mood, p positive, n int); \
    insert into moods values ('bad', 5, 1); \
    create table virtual (n int, v text generated always as ('n') virtual); \
    create table granted (a int, b int, c int); \
    grant select (a) on granted to reader; grant update (b) on granted to reader;";

/// What both servers change.
const CHANGES: [&str; 8] = [
    "alter table mv owner to owner",
    "alter table granted owner to owner",
    "alter table moods add t text default 'x'",
    "alter table moods add k int default 7",
    "alter table moods alter n type bigint",
    "alter table virtual add m int",
    "alter table granted drop column a",
    "insert into moods (n) values (2)",
];

const QUERIES: [&str; 4] = [
    "select relname, relowner::regrole, reltoastrelid <> 0 from pg_class \
     where relname ~ '^(mv|moods|granted|virtual)' order by 1",
    "select objid::regclass, objsubid, refobjid::regrole, deptype from pg_shdepend \
     where classid = 'pg_class'::regclass order by 1, 2, 3, 4",
    "select * from moods order by n",
    "select attname, attacl from pg_attribute where attrelid = 'granted'::regclass and attnum > 0 \
     order by attnum",
];

fn answers(server: &Postgres<'_>) -> Vec<String> {
    QUERIES.iter().map(|query| server.query(query)).collect()
}

#[test]
fn what_is_changed_of_them_is_what_postgresql_changes() {
    let test = "what_is_changed_of_them_is_what_postgresql_changes";
    let Some(peer) = Peer::find(test) else { return };
    peer.init("theirs");
    let server = peer.start("theirs", "-c autovacuum=off");
    server.query(MADE);
    drop(server);
    let mut fixture = open_made(|dir| peer.fetch("theirs", dir));
    for change in CHANGES {
        fixture.rows(change);
    }
    let mut refused = |statement: &str| {
        let lines = crate::support::run(&mut fixture.conn, statement);
        lines.first().cloned().unwrap_or_default()
    };
    for (statement, error) in [
        ("create index on moods (m)", "0A000"),
        ("create table copied (like moods)", "0A000"),
        ("alter table moods add foreign key (m) references moods (p)", "42830"),
        ("select * from mv for update", "42809"),
        ("lock table mv", "25P01"),
    ] {
        let line = refused(statement);
        assert!(line.starts_with(&format!("! ERROR {error} ")), "{statement}: {line}");
    }
    assert_eq!(refused("begin"), "= BEGIN");
    let line = refused("lock table mv");
    assert_eq!(line, "! ERROR 42809 cannot lock relation \"mv\"");
    refused("rollback");
    let dir = fixture.dir().to_owned();
    fixture.engine.shutdown(ShutdownMode::Fast).expect("stop");
    peer.adopt(&dir, "ours");
    let server = peer.start("ours", "-c autovacuum=off");
    let ours = answers(&server);
    // The role that had privileges on the dropped column depends on the other one alone.
    server.query("revoke all (b) on granted from reader; drop role reader");
    drop(server);
    let server = peer.start("theirs", "-c autovacuum=off");
    CHANGES.iter().for_each(|change| drop(server.query(change)));
    assert_eq!(ours, answers(&server));
}
