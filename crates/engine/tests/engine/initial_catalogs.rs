//! The catalogs of a new cluster beside those that initdb makes, and in PostgreSQL's hands.

use crate::common::*;
use forebay_catalog::schema::{CATALOGS, CatalogTable};
use forebay_engine::types::oids;
use forebay_engine::{Engine, InitOptions};
use forebay_testkit::peer::{Peer, Postgres};

/// Columns whose values differ from those of initdb's clusters, and why.
const OTHER_VALUES: [(&str, &str); 9] = [
    ("relpages", "initdb counts the pages of tables that it vacuums"),
    ("reltuples", "it counts rows too"),
    ("relallvisible", "it makes visibility maps"),
    ("relallfrozen", "the same"),
    ("relfrozenxid", "its scripts use transaction ids"),
    ("datfrozenxid", "the same"),
    ("collversion", "versions of ICU are the machine's"),
    ("prosrc", "bodies of functions in SQL are not included"),
    ("prosqlbody", "the same"),
];

/// Catalogs whose rows are not included: texts for people, and statistics.
const NOT_INCLUDED: [&str; 3] = ["pg_description", "pg_shdescription", "pg_statistic"];

/// A query for the rows that all clusters have: every OID in them was assigned by PostgreSQL itself
/// and not by a script of initdb.
fn rows_of(catalog: &CatalogTable) -> String {
    let is_oid = |type_oid| [oids::OID, oids::REGPROC].contains(&type_oid);
    let columns = catalog.columns.iter().filter(|column| is_oid(column.type_oid));
    let pinned = columns.map(|column| format!(" and {}::oid < 12000", column.name));
    let pinned: String = pinned.collect();
    let others = OTHER_VALUES.map(|(column, _)| format!("'{column}'")).join(", ");
    format!(
        "select (to_jsonb(t) - array[{others}])::text from {} t where true{pinned} order by 1",
        catalog.name
    )
}

/// What amcheck finds in all tables and B-trees.
fn damage(server: &Postgres<'_>) -> String {
    server.query(
        "select count(bt_index_parent_check(indexrelid, true, true, indisunique)::text) >= 159 \
         from pg_index i join pg_class c on c.oid = indexrelid where relam = 403; \
         select relname, v from pg_class c, lateral verify_heapam(c.oid) v \
         where relkind in ('r', 't')",
    )
}

/// Runs one of PostgreSQL's own scripts in single-user mode, as initdb does.
fn run_script(peer: &Peer, database: &str, name: &str) {
    let (postgres, data) = (peer.program("postgres"), peer.inside("data"));
    let command = format!(
        "{postgres} --single -F -O -j -c search_path=pg_catalog -c exit_on_error=true \
         -D {data} {database} < /usr/share/postgresql/18/{name} > /dev/null"
    );
    let mut shell = peer.command_as("postgres", &["/bin/sh", "-c", &command]);
    let output = shell.output().expect("a shell");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !log.contains("ERROR"), "{name}: {log}");
}

#[test]
fn postgresql_runs_on_a_new_cluster() {
    let Some(peer) = Peer::find("postgresql_runs_on_a_new_cluster") else { return };
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let options = InitOptions { sync: false, templates: true, ..InitOptions::default() };
    Engine::init(&dir, &options).expect("init");
    peer.adopt(&dir, "data");

    peer.init("other");
    let other = peer.start("other", "-c autovacuum=off");
    let server = peer.start("data", "-c autovacuum=off");
    for catalog in CATALOGS {
        let included = !NOT_INCLUDED.contains(&catalog.name);
        let theirs = if included { other.query(&rows_of(catalog)) } else { String::new() };
        let ours = server.query(&rows_of(catalog));
        let differs = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
        assert_eq!(differs, None, "{}", catalog.name);
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{}", catalog.name);
        assert_eq!(server.query(&format!("select count(*) from {}", catalog.name)), {
            ours.lines().count().to_string()
        });
    }
    drop((other, server));

    // initdb's scripts, which it runs in this order. What they make gets OIDs below 16384.
    for database in ["template1", "postgres"] {
        for script in ["system_functions.sql", "system_views.sql", "information_schema.sql"] {
            run_script(&peer, database, script);
        }
    }
    let server = peer.start("data", "-c autovacuum=off");
    server.query("create extension amcheck");
    assert_eq!(damage(&server), "t");
    server.query("create table t (a int primary key, b text)");
    server.query("insert into t select n, repeat(n::text, 5000) from generate_series(1, 100) n");
    assert_eq!(damage(&server), "t");
    assert_eq!(server.query("select round(1.25, 1), count(*) from pg_tables"), "1.3|69");
    let mut dump = peer.command("pg_dump");
    dump.args(["-h", "127.0.0.1", "-p", &server.port.to_string(), "-s", "template1"]);
    let dump = dump.output().expect("pg_dump");
    let text = String::from_utf8_lossy(&dump.stdout);
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    assert!(!text.contains("CREATE"), "{text}");
    server.query("vacuum (freeze, analyze)");
    server.query("create database made");
}
