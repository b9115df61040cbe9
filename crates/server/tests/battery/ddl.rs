//! Statements that define and change tables: the messages and the rows of the catalogs are
//! PostgreSQL's for the same statements, and so is what pg_dump prints.

use forebay_testkit::made::CATALOGS;
use forebay_testkit::peer::{Peer, Postgres};

use super::clusters::told;
use super::forebay::{Forebay, scratch};

/// A statement a line.
const STATEMENTS: &str = include_str!("ddl.sql");

/// The definitions of all relations and their rows.
fn dumped(peer: &Peer, server: &Postgres<'_>) -> String {
    let port = server.port.to_string();
    let of = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
    peer.run("pg_dump", &[&of[..], &["--inserts", "--restrict-key=x", "postgres"]].concat())
}

fn differences(what: &str, ours: &str, theirs: &str) -> Vec<String> {
    let lines = |text: &str, other: &str, mark: &str| {
        let only = text.lines().filter(|line| !other.lines().any(|known| known == *line));
        only.map(|line| format!("{what} {mark} {line}")).collect::<Vec<_>>()
    };
    [lines(ours, theirs, "has  "), lines(theirs, ours, "lacks")].concat()
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn tables_are_defined_as_postgresql_defines_them() {
    let Some(peer) = Peer::find("tables_are_defined_as_postgresql_defines_them") else { return };
    let folder = scratch("ddl");
    let data = folder.path().join("data");
    peer.init("made");
    peer.fetch("made", &data);
    let ours = Forebay::start(&data, &["autovacuum=off"]);
    peer.init("theirs");
    let theirs = peer.start("theirs", "-c autovacuum=off -c fsync=off");
    let mut differing = Vec::new();
    for sql in STATEMENTS.lines() {
        let [ours, theirs] =
            [ours.port, theirs.port].map(|port| told(peer.psql(port), "postgres", sql));
        if ours != theirs {
            differing.push(format!("{sql}\n--- Forebay:\n{ours}--- PostgreSQL:\n{theirs}"));
        }
    }
    // A clean stop: after a crash sequences would go on behind the values that are logged ahead.
    ours.stop();
    peer.adopt(&data, "ours");
    let ours = peer.start("ours", "-c autovacuum=off");
    for (catalog, query) in CATALOGS {
        // PostgreSQL counts no rows where autovacuum is off, and a table that it writes anew gets
        // another TOAST table.
        let query = query.replace("relpages, reltuples, ", "").replace("relfilenode = oid, ", "");
        let [ours, theirs] = [&ours, &theirs].map(|server| server.query(&query));
        differing.extend(differences(catalog, &ours, &theirs));
    }
    let [dump, expected] = [&ours, &theirs].map(|server| dumped(&peer, server));
    differing.extend(differences("pg_dump", &dump, &expected));
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    // Rows may lie in another order.
    let in_order = |dump: &str| -> Vec<String> {
        dump.lines().filter(|line| !line.starts_with("INSERT ")).map(str::to_owned).collect()
    };
    assert_eq!(in_order(&dump), in_order(&expected));
    let port = ours.port.to_string();
    let of = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-d", "postgres"];
    peer.run("pg_amcheck", &[&of[..], &["--install-missing", "--heapallindexed"]].concat());
}
