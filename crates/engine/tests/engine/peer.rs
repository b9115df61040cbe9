//! PostgreSQL 18's own programs on directories that this engine made, and the engine on directories
//! that PostgreSQL recovered or made. FOREBAY_PG18_ROOT is a PostgreSQL 18 tree, FOREBAY_PG18_RUN
//! the script that runs programs in it.

use std::collections::BTreeMap;

use crate::common::*;
use forebay_engine::{IoMethod, LockMode, ShutdownMode};
use forebay_testkit::peer::Peer;

#[test]
fn postgresql_s_tools_accept_a_stopped_directory() {
    let Some(peer) = Peer::find("postgresql_s_tools_accept_a_stopped_directory") else { return };
    let (_scratch, dir) = new_dir();
    peer.adopt(&dir, "fresh");
    peer.run("pg_checksums", &["--check", "-D", &peer.inside("fresh")]);

    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    create(&mut session, "t");
    insert(&mut session, "t", 0..20_000);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    peer.adopt(&dir, "data");

    let control = peer.run("pg_controldata", &["-D", &peer.inside("data")]);
    for line in [
        "shut down",
        "Data page checksum version:           1",
        "Database block size:                  8192",
    ] {
        assert!(control.contains(line), "{control}");
    }
    assert!(!control.contains("WARNING"), "{control}");
    let checked = peer.run("pg_checksums", &["--check", "-D", &peer.inside("data")]);
    assert!(checked.contains("Bad checksums:  0"), "{checked}");
    let end = control
        .lines()
        .find_map(|l| l.strip_prefix("Latest checkpoint location:"))
        .expect("location");
    let first = format!("{}/pg_wal/000000010000000000000001", peer.inside("data"));
    let dump = peer.run("pg_waldump", &["-e", end.trim(), &first]);
    for kind in ["MULTI_INSERT+INIT", "COMMIT", "CREATE base/5/16384", "NEXTOID"] {
        assert!(
            dump.contains(kind),
            "no {kind} in\n{}",
            dump.lines().take(30).collect::<Vec<_>>().join("\n")
        );
    }
}

#[test]
fn postgresql_recovers_a_crashed_directory_to_the_same_rows() {
    let Some(peer) = Peer::find("postgresql_recovers_a_crashed_directory_to_the_same_rows") else {
        return;
    };
    let (scratch, dir) = new_dir();
    let config = config(IoMethod::Worker, true);
    let (engine, mut session) = open_session(&dir, &config);
    create(&mut session, "t");
    create(&mut session, "gone");
    insert(&mut session, "gone", 0..1_000);
    insert(&mut session, "t", 0..10_000);
    session.checkpoint().expect("checkpoint");
    insert(&mut session, "t", 10_000..20_000);
    transaction(&mut session, |s| {
        let table = s.open_table(None, "gone", LockMode::AccessExclusive)?;
        s.drop_table(&table)
    })
    .expect("drop");
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    insert_open(&mut session, &table, 50_000..53_000).expect("insert");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));

    peer.adopt(&dir, "data");
    let server = peer.start("data", "-c autovacuum=off");
    let log = peer.log();
    assert!(log.contains("redo done at"), "{log}");
    assert!(log.contains("ready to accept connections"), "{log}");
    drop(server);
    let there = scratch.path().join("recovered");
    peer.fetch("data", &there);

    let sum: i64 = (0..20_000).sum();
    for dir in [&there, &dir] {
        let (engine, mut session) = open_session(dir, &config);
        assert_eq!(count_and_sum(&mut session, "t"), (20_000, sum), "{}", dir.display());
        assert_eq!(count(&mut session, "gone").expect_err("dropped").sqlstate(), "42P01");
        create(&mut session, "after");
        insert(&mut session, "after", 0..100);
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    }
}

#[test]
fn a_directory_made_by_postgresql_is_read() {
    let Some(peer) = Peer::find("a_directory_made_by_postgresql_is_read") else { return };
    peer.init("data");
    let server = peer.start("data", "-c autovacuum=off");
    server.query(
        "create table t as select g::int8 as id, case when g % 10 <> 0 then 'row number ' || \
              g end as note from generate_series(0, 9999) g",
    );
    server.query("delete from t where id >= 9000");
    server.query("alter table t add column extra int4");
    drop(server);
    let scratch = scratch();
    let dir = scratch.path().join("data");
    peer.fetch("data", &dir);

    let (engine, mut session) = open_session(&dir, &config(IoMethod::IoUring, false));
    assert_eq!(count_and_sum(&mut session, "t"), (9_000, (0..9_000).sum()));
    assert_eq!(count(&mut session, "pg_namespace").expect("count"), 4);
    // The first rows of our catalogs are PostgreSQL's own, where it has a fixed OID for all they
    // mention.
    let own = scratch.path().join("own");
    init(&own);
    let ours = open(&own, &config(IoMethod::Sync, false));
    let mut other = ours.session().expect("session");
    for (catalog, except) in [("pg_attribute", &[][..]), ("pg_type", &["pg_database"][..])] {
        let theirs = rows(&mut session, catalog);
        let rows = rows(&mut other, catalog);
        assert!(rows.len() > 70, "{catalog}: {} rows", rows.len());
        for (key, row) in rows.iter().filter(|(key, _)| !except.iter().any(|e| key.contains(e))) {
            assert_eq!(Some(row), theirs.get(key), "{catalog} {key}");
        }
    }
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

/// The rows of a catalog under the text of their first columns.
fn rows(session: &mut forebay_engine::Session, catalog: &str) -> BTreeMap<String, String> {
    transaction(session, |s| {
        let table = s.open_table(None, catalog, LockMode::AccessShare)?;
        let mut scan = s.scan(&table)?;
        let mut rows = BTreeMap::new();
        while let Some(row) = scan.next(s)? {
            let values = row.decode()?;
            rows.insert(format!("{:?}", &values[..2]), format!("{values:?}"));
        }
        Ok(rows)
    })
    .expect("catalog")
}
