//! A table with five indexes that one server has built and aged by updates, deletes and vacuums,
//! read by the other: range, backward, array and index-only queries have the same answers on both,
//! and each finds nothing wrong with what the other has made.
//!
//! `FOREBAY_AGED_ROWS`, `FOREBAY_AGED_QUERIES` and `FOREBAY_AGED_SEED` make larger and other runs.

use std::fs::{self, File};
use std::path::Path;

use forebay_testkit::peer::{self, Peer, Postgres};
use forebay_testkit::process::must;
use forebay_testkit::{Dice, env};

use super::forebay::{Forebay, forebay, scratch};

const ROWS: u64 = 200_000;
const QUERIES: u64 = 1000;
/// The data directory, in the folder that both servers see.
const DATA: &str = "data";
const POSTGRES: &str = "-c autovacuum=off -c shared_buffers=256MB -c max_wal_size=8GB \
    -c maintenance_work_mem=256MB -c max_parallel_workers_per_gather=0";
const FOREBAY: [&str; 4] = [
    "shared_buffers=256MB",
    "max_wal_size=8GB",
    "maintenance_work_mem=256MB",
    "max_parallel_workers_per_gather=0",
];

/// The rows at first: keys in order, keys of ten rows each, texts in random order, floats with
/// nulls, and a counter that no index has.
const SOURCE: &str = "SELECT g, (g * 7919 % (ROWS / 10))::int4, \
    'row number ' || g * 7919 % 1000003, \
    CASE WHEN g % 17 = 0 THEN NULL ELSE (g * 31 % 1000003) / 8.0::float8 END, 0 \
    FROM generate_series(1::int8, ROWS) g";

const INDEXES: [&str; 5] = ["@_pkey", "@_k", "@_kd", "@_s", "@_f"];

/// Makes the indexes of a table.
const BUILD: [&str; 5] = [
    "ALTER TABLE @ ADD PRIMARY KEY (id)",
    "CREATE INDEX @_k ON @ (k)",
    "CREATE INDEX @_kd ON @ (k DESC, id)",
    "CREATE INDEX @_s ON @ (s, k)",
    "CREATE INDEX @_f ON @ (f NULLS FIRST) INCLUDE (id)",
];

/// A round of the table's life. Ranges of rows go whole, so that pages of the indexes do.
const AGE: [&str; 4] = [
    "UPDATE @ SET k = k + 1, f = f + 1 WHERE id % 10 = ROUND",
    "UPDATE @ SET n = n + 1 WHERE id % 20 = ROUND",
    "DELETE FROM @ WHERE id % 13 = ROUND",
    "DELETE FROM @ WHERE id BETWEEN (ROUND + 1) * ROWS / 4 \
     AND (ROUND + 1) * ROWS / 4 + ROWS / 40",
];
const ROUNDS: u64 = 3;

/// Statements about a table of so many rows.
struct Script<'t> {
    table: &'t str,
    rows: u64,
}

impl Script<'_> {
    fn fill(&self, sql: &str) -> String {
        sql.replace('@', self.table).replace("ROWS", &self.rows.to_string())
    }

    /// Loads the rows, and builds and ages the indexes. Of the last round nothing is vacuumed.
    fn life(&self, port: u16, rows: &Path) {
        let run = |sql: &str| peer::query(port, &self.fill(sql));
        let table = self.table;
        run(&format!("CREATE TABLE {table} (id int8, k int4, s text, f float8, n int4)"));
        let mut load = peer::psql(port);
        load.args(["-c", &format!("COPY {table} FROM STDIN (FORMAT binary)")])
            .stdin(File::open(rows).expect("made above"));
        must(&mut load);
        for statement in BUILD {
            run(statement);
        }
        for round in 0..ROUNDS {
            for statement in AGE {
                run(&statement.replace("ROUND", &round.to_string()));
            }
            if round + 1 < ROUNDS {
                run(&format!("VACUUM {table}"));
            }
        }
        run(&format!("ANALYZE {table}"));
    }

    /// A query of one of nine kinds. Its order leaves nothing to chance.
    fn query(&self, dice: &mut Dice) -> String {
        let table = self.table;
        let (id, k) = (dice.below(self.rows), dice.below(self.rows / 10));
        let (text, float) = (dice.below(1_000_003), dice.below(125_000));
        let width = dice.below(1000);
        let (way, compares) = if dice.chance(50) { ("", ">=") } else { (" DESC", "<=") };
        let other = if way.is_empty() { " DESC" } else { "" };
        match dice.below(9) {
            0 => format!(
                "SELECT count(*), sum(n), min(s) FROM {table} WHERE id BETWEEN {id} AND {}",
                id + width
            ),
            1 => format!(
                "SELECT id, k, f FROM {table} WHERE id {compares} {id} ORDER BY id{way} LIMIT 20"
            ),
            2 => format!("SELECT count(k) FROM {table} WHERE k >= {k} AND k < {}", k + width),
            3 => format!(
                "SELECT s, k FROM {table} WHERE s {compares} 'row number {text}' \
                 ORDER BY s{way}, k{way} LIMIT 20"
            ),
            4 => format!(
                "SELECT f FROM {table} WHERE f {compares} {float}.125 ORDER BY f{way} NULLS {} \
                 LIMIT 20",
                // The index has its NULLs first.
                if way.is_empty() { "FIRST" } else { "LAST" }
            ),
            5 => format!(
                "SELECT id, s, n FROM {table} WHERE id = ANY ('{{{}}}') ORDER BY id",
                list(dice, self.rows)
            ),
            6 => format!(
                "SELECT k, id FROM {table} WHERE k IN ({}) ORDER BY k{way}, id{other}",
                list(dice, self.rows / 10)
            ),
            7 => format!(
                "SELECT k, id FROM {table} WHERE k {compares} {k} ORDER BY k{way}, id{other} \
                 LIMIT 20"
            ),
            // No index has this order.
            _ => format!(
                "SELECT f, id FROM {table} WHERE f BETWEEN {float} AND {float}.5 \
                 ORDER BY f{way}, id{other}"
            ),
        }
    }

    /// The answers to all queries, by index.
    fn answers(&self, port: u16, queries: &Path) -> String {
        let mut psql = peer::psql(port);
        psql.stdin(File::open(queries).expect("written before"));
        must(&mut psql)
    }

    fn checked_by_postgres(&self, server: &Postgres<'_>) {
        for index in INDEXES.map(|name| self.fill(name)) {
            server.query(&format!("SELECT bt_index_parent_check('{index}', true, true)"));
        }
        assert_eq!(server.query(&format!("SELECT * FROM verify_heapam('{}')", self.table)), "");
    }
}

/// Some numbers, in any order.
fn list(dice: &mut Dice, below: u64) -> String {
    let numbers: Vec<_> = (0..=dice.below(12)).map(|_| dice.below(below).to_string()).collect();
    numbers.join(",")
}

/// Queries in a file, the sequential scans that answer no question of an index ruled out.
fn write_queries(file: &Path, script: &Script<'_>, seed: u64, count: u64) {
    let mut dice = Dice::new(seed);
    let queries = (0..count).map(|_| script.query(&mut dice) + ";\n");
    let text: String =
        ["SET enable_seqscan = off;\n".to_owned()].into_iter().chain(queries).collect();
    fs::write(file, text).expect("the scratch folder can be written");
}

fn same(asked: &Path, theirs: &str, ours: &str) {
    let Some((line, (a, b))) =
        theirs.lines().zip(ours.lines()).enumerate().find(|(_, (a, b))| a != b)
    else {
        assert_eq!(theirs.lines().count(), ours.lines().count(), "rows of {}", asked.display());
        return;
    };
    panic!("{}: line {line} of the answers: PostgreSQL {a}, Forebay {b}", asked.display());
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn aged_tables_are_read_by_the_other_server() {
    let Some(peer) = Peer::find("aged_tables_are_read_by_the_other_server") else { return };
    let rows = env::number("FOREBAY_AGED_ROWS").unwrap_or(ROWS);
    let count = env::number("FOREBAY_AGED_QUERIES").unwrap_or(QUERIES);
    let seed = env::number("FOREBAY_AGED_SEED").unwrap_or(1);
    let folder = scratch("aged");
    let file = |name: &str| folder.path().join(name);
    let [theirs, ours] = ["theirs", "ours"].map(|table| Script { table, rows });
    for (script, seed) in [(&theirs, seed), (&ours, seed + 1)] {
        write_queries(&file(script.table), script, seed, count);
    }

    peer.init(DATA);
    let server = peer.start(DATA, POSTGRES);
    server.query("CREATE EXTENSION amcheck");
    let copy = format!("COPY ({}) TO STDOUT (FORMAT binary)", theirs.fill(SOURCE));
    let output = File::create(file("rows")).expect("the scratch folder can be written");
    let written = peer::psql(server.port).args(["-c", &copy]).stdout(output).status();
    assert!(written.is_ok_and(|status| status.success()), "{copy}");
    theirs.life(server.port, &file("rows"));
    let asked_theirs = theirs.answers(server.port, &file("theirs"));
    drop(server);

    peer.take_back();
    let directory = peer.outside(DATA);
    let server = Forebay::start(&directory, &FOREBAY);
    same(&file("theirs"), &asked_theirs, &theirs.answers(server.port, &file("theirs")));
    ours.life(server.port, &file("rows"));
    let by_ours = ours.answers(server.port, &file("ours"));
    server.stop();
    forebay(&["check", "-D", directory.to_str().expect("UTF-8")]);

    peer.give_to_postgres();
    let server = peer.start(DATA, POSTGRES);
    same(&file("ours"), &ours.answers(server.port, &file("ours")), &by_ours);
    for script in [&theirs, &ours] {
        script.checked_by_postgres(&server);
    }
}
