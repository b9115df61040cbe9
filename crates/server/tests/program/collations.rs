//! Databases whose collations are libc's, ICU's and builtin: rows are in PostgreSQL's order, and
//! what each server does to indexes is sound to the other.

use super::harness::Server;
use forebay_testkit::peer::{Peer, Postgres, psql, query};
use forebay_testkit::process::must;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// Both servers run these, in turn: the rows that one adds, the other finds.
const TABLE: &[&str] = &[
    "CREATE TABLE w (n int PRIMARY KEY, t text, v varchar(40), c char(20), x text COLLATE \"C\")",
    "INSERT INTO w SELECT g, chr(97 + g * 7 % 26) || chr(65 + g * 11 % 26) || g % 97, \
     CASE WHEN g % 5 > 0 THEN 'ä' ELSE 'Z' END || '-' || g * 31 % 1000, \
     chr(65 + g * 3 % 26) || repeat(' ', g % 4), 'é' || g FROM generate_series(1, 3000) g",
    "INSERT INTO w SELECT 3000 + g, chr(191 + g), upper(chr(191 + g)), chr(96 + g % 26), \
     chr(500 + g) FROM generate_series(1, 300) g",
    "CREATE INDEX w_t ON w (t)",
    "CREATE INDEX w_v ON w (v DESC, c)",
    "CREATE INDEX w_c ON w (c, t)",
    "CREATE INDEX w_x ON w (x)",
    "CREATE INDEX w_tc ON w (t COLLATE \"C\")",
    "CREATE UNIQUE INDEX w_u ON w (t, v, n)",
    "ANALYZE w",
];

/// Changes, after which indexes have new entries on either side.
const CHANGES: &[&str] = &[
    "INSERT INTO w SELECT n + 10000, t || 'q', v, c, x FROM w WHERE n % 3 = 0",
    "UPDATE w SET t = upper(t), c = c || 'x' WHERE n % 7 = 1",
    "DELETE FROM w WHERE n % 11 = 2",
];

/// What both servers must answer alike.
const QUERIES: &[&str] = &[
    "SELECT t, n FROM w ORDER BY t, n",
    "SELECT v, n FROM w ORDER BY v DESC, n",
    "SELECT c, n FROM w ORDER BY c, n",
    "SELECT x FROM w ORDER BY x DESC, n",
    "SELECT t, n FROM w ORDER BY t COLLATE \"C\", n",
    "SELECT n FROM w WHERE t > 'b' AND t <= 'Éa' ORDER BY t, n",
    "SELECT n FROM w WHERE v BETWEEN 'a' AND 'ä-5' ORDER BY n",
    "SELECT n FROM w WHERE c < 'c' AND t >= 'M' ORDER BY n",
    "SELECT n FROM w WHERE (c, t) > ('B', 'k') ORDER BY n",
    "SELECT n FROM w WHERE x < 'é5' ORDER BY n",
    "SELECT n FROM w WHERE t IN ('aA0', 'É', 'ß') OR t LIKE 'é%' ORDER BY n",
    "SELECT min(t), max(t), min(v), max(v), min(c), max(c), min(x), max(x) FROM w",
    "SELECT c, count(*) FROM w GROUP BY c ORDER BY c",
    "SELECT upper(t), lower(v) FROM w ORDER BY n",
    "SELECT n FROM w WHERE v ILIKE 'Ä-1%' ORDER BY n",
    "SELECT greatest(t, v), least(t, v) FROM w ORDER BY n",
    "SELECT array[t, v] < array[v, t] FROM w ORDER BY n",
    "SELECT count(*) FROM w WHERE to_jsonb(t) < to_jsonb(v)",
    "SELECT array_to_string(histogram_bounds::text::text[], '|') FROM pg_stats \
     WHERE tablename = 'w' AND attname = 'n'",
    "SELECT staattnum, stacoll1, stacoll2, stacoll3 FROM pg_statistic \
     WHERE starelid = 'w'::regclass ORDER BY 1",
    "SELECT attname, attcollation FROM pg_attribute WHERE attrelid = 'w'::regclass ORDER BY 1",
];

const SCANS: [&str; 3] = [
    "",
    "SET enable_seqscan = off; SET enable_bitmapscan = off; ",
    "SET enable_seqscan = off; SET enable_indexscan = off; ",
];

fn same_answers(ours: u16, theirs: u16) {
    for sql in QUERIES {
        let expected = query(theirs, sql);
        for settings in SCANS {
            assert_eq!(query(ours, &format!("{settings}{sql}")), expected, "{settings}{sql}");
        }
    }
}

fn check(postgres: &Postgres<'_>) {
    postgres.query("CREATE EXTENSION IF NOT EXISTS amcheck");
    let check = "SELECT bt_index_parent_check(indexrelid, true, true, indisunique) FROM pg_index \
                 WHERE indrelid = 'w'::regclass";
    postgres.query(check);
}

/// A client is told if the recorded version of the database's collation is not the provider's.
fn warns_of_the_version(server: &Server) {
    let versions = "SELECT coalesce(datcollversion, '') || ' ' || \
                    coalesce(pg_database_collation_actual_version(oid), '') \
                    FROM pg_database WHERE datname = 'postgres'";
    let versions = query(server.port, versions);
    let (recorded, actual) = versions.split_once(' ').expect("two versions");
    let output = psql(server.port).args(["-c", "SELECT 1"]).output().expect("psql runs");
    let told = String::from_utf8_lossy(&output.stderr);
    let mismatch = "WARNING:  database \"postgres\" has a collation version mismatch";
    assert_eq!(told.contains(mismatch), recorded != actual, "{versions}: {told}");
}

fn fetched(peer: &Peer, name: &str) -> Arc<TempDir> {
    let folder = Arc::new(TempDir::new().expect("a folder"));
    peer.fetch(name, &folder.path().join("data"));
    folder
}

/// A cluster of PostgreSQL's with these options of initdb is served, and handed back.
fn takes_turns(peer: &Peer, options: &[&str], locales: Option<&Path>) {
    let serve = |folder| match locales {
        Some(locales) => Server::with_locales(folder, locales),
        None => Server::on(folder, &[]),
    };
    let data = peer.inside("pg");
    let usual = ["-D", &data, "-U", "postgres", "-A", "trust", "--no-sync", "-EUTF8"];
    peer.run("initdb", &[&usual[..], options].concat());
    let postgres = peer.start("pg", "-c autovacuum=off");
    TABLE.iter().for_each(|sql| drop(postgres.query(sql)));
    check(&postgres);
    drop(postgres);

    // PostgreSQL's indexes, changed here.
    let server = serve(fetched(peer, "pg"));
    let postgres = peer.start("pg", "-c autovacuum=off");
    same_answers(server.port, postgres.port);
    warns_of_the_version(&server);
    for sql in CHANGES {
        query(server.port, sql);
        postgres.query(sql);
    }
    same_answers(server.port, postgres.port);
    // Indexes of its own, and statistics.
    for sql in ["REINDEX TABLE w", "CREATE INDEX w_own ON w (v, t)", "ANALYZE w", "VACUUM w"] {
        query(server.port, sql);
        postgres.query(sql);
    }
    same_answers(server.port, postgres.port);
    drop(postgres);
    let folder = server.stop();
    let checked = Command::new(super::harness::PROGRAM)
        .args(["check", "-D"])
        .arg(folder.path().join("data"))
        .envs(locales.map(|path| ("LOCPATH", path)))
        .output()
        .expect("forebay runs");
    assert!(checked.status.success(), "{checked:?}");

    peer.adopt(&folder.path().join("data"), "back");
    let postgres = peer.start("back", "-c autovacuum=off");
    check(&postgres);
    CHANGES[1..].iter().for_each(|sql| drop(postgres.query(sql)));
    check(&postgres);
}

#[test]
fn a_cluster_by_libc_is_served_and_handed_back() {
    let Some(mut peer) = Peer::find("a_cluster_by_libc_is_served") else { return };
    // Both C libraries read the same locale, so that their versions do not matter.
    let locales = peer.outside("locales");
    fs::create_dir_all(&locales).expect("a folder");
    let mut made = Command::new("localedef");
    made.args(["-i", "en_US", "-f", "UTF-8"]).arg(locales.join("en_US.UTF-8"));
    must(&mut made);
    peer.give_to_postgres();
    peer.set_variable("LOCPATH", peer.inside("locales"));
    takes_turns(&peer, &["--locale=en_US.UTF-8"], Some(&locales));
}

#[test]
fn a_cluster_by_icu_is_served_and_handed_back() {
    let Some(peer) = Peer::find("a_cluster_by_icu_is_served") else { return };
    let options = ["--locale-provider=icu", "--icu-locale=de-AT", "--locale=C"];
    takes_turns(&peer, &options, None);
}

#[test]
fn a_cluster_by_the_builtin_provider_is_served_and_handed_back() {
    let Some(peer) = Peer::find("a_cluster_by_the_builtin_provider_is_served") else { return };
    let options = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"];
    takes_turns(&peer, &options, None);
}
