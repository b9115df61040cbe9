//! Long values in statements: PostgreSQL and Forebay answer the same on copies of one directory.

use super::harness::Server;
use forebay_testkit::peer::{Peer, Postgres};
use std::sync::Arc;
use tempfile::TempDir;

const TABLES: &str = "CREATE TABLE t (id int4 PRIMARY KEY, x text, e text, n int4 NOT NULL); \
     ALTER TABLE t ALTER e SET STORAGE EXTERNAL; \
     INSERT INTO t SELECT g, repeat(md5(g::text), g * 20), \
         (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, g * 5) i), g \
         FROM generate_series(1, 60) g; \
     CREATE TABLE u (id int4, x text COMPRESSION lz4); \
     INSERT INTO u SELECT id, e FROM t; \
     CREATE TABLE m (e text); ALTER TABLE m ALTER e SET STORAGE EXTERNAL; \
     INSERT INTO m VALUES (repeat('äö€😀x', 3000)); \
     CREATE TABLE f (a float4, b float8, c int8); CREATE INDEX ON f (b); CREATE INDEX ON f (c); \
     INSERT INTO f SELECT g / 10.0, (g / 10.0)::float4, g FROM generate_series(1, 3000) g; \
     ANALYZE f; \
     CREATE TABLE grows (k text, w text); CREATE INDEX ON grows (k); \
     INSERT INTO grows VALUES (repeat('k', 1500), 'w'); \
     CREATE TABLE pglz (k text, w text); CREATE INDEX ON pglz (k); \
     INSERT INTO pglz VALUES (repeat('key', 1000), 'w'); \
     CREATE TABLE lz4 (k text COMPRESSION lz4, w text); CREATE INDEX ON lz4 (k); \
     INSERT INTO lz4 SELECT repeat(md5('3'), 40) || x, 'w' FROM t WHERE id = 1; \
     CREATE TABLE away (k text, w text); ALTER TABLE away ALTER k SET STORAGE EXTERNAL; \
     INSERT INTO away SELECT substr(e, 1, 2500), 'w' FROM t WHERE id = 60; \
     CREATE INDEX ON away (k); \
     CREATE TABLE keyed (k text PRIMARY KEY, w text, a text UNIQUE); \
     ALTER TABLE keyed ALTER a SET STORAGE EXTERNAL; \
     INSERT INTO keyed SELECT repeat('key', 1000), 'w', substr(e, 1, 2500) FROM t WHERE id = 60";

/// What becomes of a version of a row in these tables: whether it is heap-only (HOT) depends on
/// whether the indexed column is the same before it is compressed or moved.
const UPDATED: [&str; 5] = ["grows", "pglz", "lz4", "away", "keyed"];
const UPDATES: &[&str] = &[
    "w = 'x'",
    "w = repeat('w', 1200)",
    "k = k || ''",
    "w = 'y'",
    "w = 'read' WHERE k > ' ' AND k LIKE '%'",
    "w = 'part of ' || right(k, 3)",
];
/// The same for rows that conflict.
const CONFLICTS: [&str; 3] = [
    "INSERT INTO keyed VALUES (repeat('key', 1000), 'n') ON CONFLICT (k) DO UPDATE SET w = 'c'",
    "INSERT INTO keyed SELECT 'k', 'n', substr(e, 1, 2500) FROM t WHERE id = 60 \
     ON CONFLICT (a) DO UPDATE SET w = excluded.k || right(keyed.a, 3)",
    "INSERT INTO keyed VALUES (repeat('key', 1000), 'n') ON CONFLICT (k) DO UPDATE \
     SET w = right(keyed.k, 9) || 'd' WHERE keyed.a > ' '",
];

/// Statements whose answers do not depend on where rows lie.
const STATEMENTS: &[&str] = &[
    "SELECT pg_table_size('t'), pg_total_relation_size('t'), pg_relation_size('t'), \
     pg_table_size('u')",
    "SELECT id, length(e), octet_length(x), substr(e, 3000, 9), substring(x, 2, 3), \
     substr(e, 5000), substr(x, 0, 2), substr(e, -5, 3), x IS NULL FROM t ORDER BY id",
    "SELECT sum(octet_length(e)), max(substr(x, 9, 9)) FROM t WHERE substr(e, 30, 1) > '5'",
    "SELECT substr(e, 3, -1) FROM t WHERE id = 60",
    "SELECT length(e), octet_length(e), substr(e, 14990), substr(e, 2990, 7), substr(e, 1, 3) \
     FROM m",
    "SELECT id, left(e, 9), left(x, 3), left(e, -4990), left(e, 0), char_length(x), length(e), \
     starts_with(x, left(x, 40)), starts_with(e, 'a'), substring(x from 700) FROM t ORDER BY id",
    "SELECT id, left(x, 9), length(x), octet_length(x), substr(x, 4700, 9), substr(x, 9, 0) FROM u \
     ORDER BY id",
    "SELECT left(e, 4), left(e, -14996), starts_with(e, 'äö€'), substr(e, -1, 4) FROM m",
    "SELECT b FROM f WHERE b = ANY ('{0.1,0.5,77.7,NULL}'::float4[]) ORDER BY b",
    "SELECT b FROM f WHERE b = ANY (ARRAY[0.1,0.5,77.7]::float4[]) ORDER BY b",
    "SELECT count(*) FROM f WHERE b <> ALL ('{0.1,0.5}'::float4[])",
    "SELECT a FROM f WHERE a = ANY ('{0.1,0.5,77.7}'::float8[]) ORDER BY a",
    "SELECT c FROM f WHERE c = ANY ('{1,5,99}'::int4[]) ORDER BY c",
    "SELECT c FROM f WHERE c = ANY ('{1,5,99}'::float4[]) ORDER BY c",
    "SELECT 0.1::float8 = ANY ('{0.1}'::float4[]), 0.1::float4 = ANY ('{0.1}'::float8[]), \
     0.5::float8 = ANY ('{0.5}'::float4[]), 1::numeric = ANY ('{1,2}'::float4[]), \
     1::int2 = ANY ('{1}'::int8[]), 0.1::numeric = ANY ('{0.1}'::float4[])",
    "EXPLAIN (COSTS OFF) SELECT b FROM f WHERE b = ANY ('{0.1,0.5}'::float4[])",
    "EXPLAIN (COSTS OFF) SELECT a FROM f WHERE c = ANY ('{1,2}'::int4[])",
    "COPY u TO STDOUT",
    "SELECT id, x, e FROM t ORDER BY x LIMIT 9",
    "SELECT id, e FROM t WHERE x LIKE '%7f%' AND e > '5' ORDER BY e DESC",
    "SELECT count(*), min(x), max(e) FROM t",
    "SELECT x, count(*) FROM u GROUP BY x ORDER BY x",
    "UPDATE t SET n = n + 1 WHERE id = 40 RETURNING *",
    "UPDATE t SET n = n + 1 WHERE e < '3'",
    "UPDATE t SET x = e, e = x WHERE id = 41 RETURNING old.x, new.x, old.e, new.e",
    "UPDATE t SET x = e WHERE id > 50",
    "UPDATE t SET n = NULL WHERE id = 42",
    "INSERT INTO t SELECT id + 100, e, x, n FROM t WHERE id > 30",
    "INSERT INTO t SELECT id, x, e, n FROM t WHERE id = 43",
    "DELETE FROM t WHERE id = 44 RETURNING e",
    "DELETE FROM t WHERE x LIKE 'a%'",
    "BEGIN; DECLARE c CURSOR FOR SELECT id, e FROM t ORDER BY id; FETCH 3 FROM c; \
     DELETE FROM t WHERE id < 3; FETCH 2 FROM c; ROLLBACK",
    "BEGIN; UPDATE t SET e = x; ROLLBACK",
    "CREATE TABLE w (a text, b text, c text)",
    "INSERT INTO w SELECT e, e, e FROM t WHERE id > 5 AND id < 15",
    "CREATE UNIQUE INDEX ON w (b)",
    "INSERT INTO w SELECT e, e, e FROM t WHERE id = 9",
    "INSERT INTO w SELECT e, e, e FROM t WHERE id = 15",
    "CREATE INDEX ON w (c)",
    "SELECT a, c FROM w WHERE b > '5' ORDER BY b",
    "BEGIN; CREATE TEMP TABLE v (x text) ON COMMIT DELETE ROWS; INSERT INTO v SELECT e FROM t; \
     COMMIT; SELECT count(*) FROM v; BEGIN; INSERT INTO v SELECT e FROM t WHERE id > 56; \
     SELECT * FROM v ORDER BY x; TRUNCATE v; INSERT INTO v SELECT e FROM t WHERE id = 60; \
     SELECT * FROM v; ROLLBACK; SELECT * FROM v; DROP TABLE v",
    "SELECT * FROM t ORDER BY id",
    "SELECT * FROM u ORDER BY id",
];

/// What psql prints when a server on a port is asked.
pub fn answer(peer: &Peer, port: u16, sql: &str) -> String {
    let output = peer.psql(port).args(["-c", sql]).output().expect("psql runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The versions of rows of a table: whether each is heap-only.
fn versions(server: &Postgres<'_>, table: &str) -> String {
    let items = format!("heap_page_items(get_raw_page('{table}', 0))");
    server.query(&format!("SELECT lp, lp_flags, t_infomask2 FROM {items} ORDER BY lp"))
}

#[test]
fn statements_answer_as_postgresqls_do() {
    let Some(peer) = Peer::find("statements_answer_as_postgresqls_do") else { return };
    peer.init("pg");
    let postgres = peer.start("pg", "-c autovacuum=off");
    postgres.query("CREATE EXTENSION amcheck");
    TABLES.split("; ").for_each(|sql| drop(postgres.query(sql)));
    drop(postgres);
    let folder = Arc::new(TempDir::new().expect("a folder"));
    peer.fetch("pg", &folder.path().join("data"));
    let server = Server::on(folder, &[]);
    let postgres = peer.start("pg", "-c autovacuum=off");
    for sql in STATEMENTS {
        let (ours, theirs) = (answer(&peer, server.port, sql), answer(&peer, postgres.port, sql));
        let differs = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
        let cut = |line: &str| line.chars().take(300).collect::<String>();
        let differs = differs.map(|(ours, theirs)| (cut(ours), cut(theirs)));
        assert!(ours == theirs, "{sql}: {differs:?}, {} and {}", ours.len(), theirs.len());
    }
    let updates = UPDATED
        .iter()
        .flat_map(|table| UPDATES.iter().map(move |change| format!("UPDATE {table} SET {change}")));
    for sql in updates.chain(CONFLICTS.map(str::to_owned)) {
        let (ours, theirs) = (answer(&peer, server.port, &sql), answer(&peer, postgres.port, &sql));
        assert_eq!(ours, theirs, "{sql}");
    }
    postgres.query("CREATE EXTENSION pageinspect");
    let theirs = UPDATED.map(|table| versions(&postgres, table));
    drop(postgres);

    let folder = server.stop();
    peer.adopt(&folder.path().join("data"), "back");
    let postgres = peer.start("back", "-c autovacuum=off");
    postgres.query("CREATE EXTENSION pageinspect");
    assert_eq!(UPDATED.map(|table| versions(&postgres, table)), theirs);
    let last = STATEMENTS.len() - 2;
    assert!(answer(&peer, postgres.port, STATEMENTS[last]).len() > 100_000);
    postgres.query("VACUUM t");
    postgres.query(
        "SELECT bt_index_parent_check(indexrelid, true, true, true) FROM pg_index \
         WHERE indrelid = 'w'::regclass",
    );
    for table in ["t", "u", "w", "keyed"] {
        let check = format!("SELECT * FROM verify_heapam('{table}', check_toast := true)");
        assert_eq!(postgres.query(&check), "");
    }
}
