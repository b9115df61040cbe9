//! Statements that make and change relations, run here and by PostgreSQL 18: the rows of the
//! catalogs are the same, and PostgreSQL works with what was made.

use crate::fixture::open_made;
use forebay_engine::ShutdownMode;
use forebay_testkit::made::CATALOGS;
use forebay_testkit::peer::{Peer, Postgres};

const STATEMENTS: &str = include_str!("../golden/made.sql");

/// What the sequences hand out next.
const NEXT: &str = "select string_agg(c.oid::regclass || ' ' || nextval(c.oid::regclass), ', ' \
                    order by relname) from pg_class c where relkind = 'S'";

fn statements() -> impl Iterator<Item = String> {
    let lines = STATEMENTS.lines().filter(|line| !line.starts_with("--"));
    let text: Vec<&str> = lines.collect();
    let statements: Vec<String> = text
        .join("\n")
        .split_inclusive(";\n")
        .map(|statement| statement.trim().to_owned())
        .collect();
    statements.into_iter()
}

fn compare(server: &Postgres<'_>, expected: &[String]) {
    let mut wrong = Vec::new();
    for ((catalog, query), expected) in CATALOGS.into_iter().zip(expected) {
        let found = server.query(query);
        for line in found.lines().filter(|line| !expected.lines().any(|other| other == *line)) {
            wrong.push(format!("{catalog} has     {line}"));
        }
        for line in expected.lines().filter(|line| !found.lines().any(|other| other == *line)) {
            wrong.push(format!("{catalog} lacks   {line}"));
        }
        assert!(!wrong.is_empty() || found == *expected, "{catalog} is in another order");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn postgresql_finds_what_it_would_have_written() {
    let Some(peer) = Peer::find("postgresql_finds_what_it_would_have_written") else { return };
    peer.init("theirs");
    peer.init("ours");
    let server = peer.start("theirs", "-c autovacuum=off");
    statements().for_each(|statement| drop(server.query(&statement)));
    let expected = CATALOGS.map(|(_, query)| server.query(query));
    let next = server.query(NEXT);
    drop(server);

    let mut fixture = open_made(|dir| peer.fetch("ours", dir));
    statements().for_each(|statement| drop(fixture.rows(&statement)));
    // PostgreSQL recovers it from the log.
    let dir = fixture.dir().to_owned();
    fixture.engine.shutdown(ShutdownMode::Immediate).expect("stop");
    peer.adopt(&dir, "made");
    let server = peer.start("made", "-c autovacuum=off");
    compare(&server, &expected);
    server.query("create extension amcheck");
    let heaps = "select count(*) from pg_class c, lateral verify_heapam(c.oid) \
                 where relkind in ('r', 'S', 't')";
    assert_eq!(server.query(heaps), "0");
    // Values that the log has ahead are skipped by the crash.
    let found = server.query(NEXT);
    assert_eq!(found.split(", ").count(), next.split(", ").count());
    drop(fixture.conn);
}
