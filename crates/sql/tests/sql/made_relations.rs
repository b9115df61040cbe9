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

/// The definitions of all relations, as pg_dump writes them.
fn dumped(peer: &Peer, server: &Postgres<'_>) -> String {
    let port = server.port.to_string();
    let of = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
    let what = ["--schema-only", "--restrict-key=x", "postgres"];
    peer.run("pg_dump", &[&of[..], &what].concat())
}

/// Inserts that take values of all sequences that belong to columns.
const INSERTS: [&str; 5] = [
    "insert into serials (d) values (1)",
    "insert into identities default values",
    "insert into defaults default values",
    "insert into generated_columns (a) values (4)",
    "insert into altered (b) values ('z')",
];

#[test]
fn postgresql_finds_what_it_would_have_written() {
    let Some(peer) = Peer::find("postgresql_finds_what_it_would_have_written") else { return };
    peer.init("theirs");
    peer.init("ours");
    let server = peer.start("theirs", "-c autovacuum=off");
    statements().for_each(|statement| drop(server.query(&statement)));
    let expected = CATALOGS.map(|(_, query)| server.query(query));
    let (next, definitions) = (server.query(NEXT), dumped(&peer, &server));
    drop(server);

    let mut fixture = open_made(|dir| peer.fetch("ours", dir));
    statements().for_each(|statement| drop(fixture.rows(&statement)));
    // PostgreSQL recovers it from the log.
    let dir = fixture.dir().to_owned();
    fixture.engine.shutdown(ShutdownMode::Immediate).expect("stop");
    peer.adopt(&dir, "made");
    let server = peer.start("made", "-c autovacuum=off");
    compare(&server, &expected);
    assert_eq!(dumped(&peer, &server), definitions);
    server.query("create extension amcheck");
    let heaps = "select count(*) from pg_class c, lateral verify_heapam(c.oid) \
                 where relkind in ('r', 'S', 't')";
    let trees = "select count(bt_index_parent_check(c.oid, true, true)) > 100 from pg_class c \
                 where relkind = 'i' and relam = 403";
    INSERTS.iter().for_each(|insert| drop(server.query(insert)));
    let found = server.query(NEXT);
    assert_eq!(found.split(", ").count(), next.split(", ").count());
    assert_eq!((server.query(heaps), server.query(trees)), ("0".to_owned(), "t".to_owned()));
    let serial = "select max(a) from serials";
    let (before, generated) = (server.query(serial), "select max(b) from generated_columns");
    assert_eq!(server.query(generated), "8");
    drop(server);
    drop(fixture.conn);

    // And back: Forebay goes on behind what PostgreSQL has handed out.
    let mut fixture = open_made(|dir| peer.fetch("made", dir));
    INSERTS.iter().for_each(|insert| drop(fixture.rows(insert)));
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let after = fixture.rows(serial);
    assert!(number(&after[0]) > number(&before), "{after:?} is behind {before}");
    assert_eq!(fixture.rows(generated), ["8"]);
    fixture.close();
}
