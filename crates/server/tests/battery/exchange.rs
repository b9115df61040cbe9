//! Rows that PostgreSQL 18 wrote are loaded through psql, queried, and unloaded as the same bytes.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use forebay_testkit::peer::Peer;
use forebay_testkit::process::must;

use super::forebay::{Forebay, scratch};

const ROWS: u32 = 5_000_000;

const TABLE: &str = "CREATE TABLE t (id int8, k int4, price float8, flag bool, name text)";

/// Values of every type, with nulls, escapes, quotes and letters beyond ASCII.
const SOURCE: &str = "SELECT g::int8, (g * 7919 % 1000003)::int4, \
    CASE WHEN g % 17 = 0 THEN NULL ELSE (g / 7.0)::float8 END, g % 3 = 0, \
    CASE g % 1000 WHEN 0 THEN E'tab\\there \\\\ new\\nline' WHEN 1 THEN '' WHEN 2 THEN NULL \
    WHEN 3 THEN 'größe, \"quoted\"' ELSE 'row ' || g END FROM generate_series(1::int8, ROWS) g";

/// Queries whose results must be equal byte for byte.
const QUESTIONS: [&str; 7] = [
    "SELECT count(*) FROM t",
    "SELECT count(*), count(price), count(name) FROM t WHERE k < 500000 AND flag",
    "SELECT sum(id), sum(k), avg(id), avg(k), min(k), max(k) FROM t",
    "SELECT sum(price), avg(price), min(price), max(price) FROM t",
    "SELECT min(name), max(name) FROM t WHERE name IS NOT NULL AND id % 1000 > 3",
    "SELECT id, k, price, flag, name FROM t WHERE k = 4711 OR id = 1000 ORDER BY id DESC",
    "SELECT id * 2, price + 1, NOT flag FROM t WHERE name = 'row 4444444' ORDER BY 1 LIMIT 10",
];

#[test]
#[ignore = "minutes long; run by cargo xtask test"]
fn five_million_rows_go_in_and_come_out_unchanged() {
    let Some(peer) = Peer::find("five_million_rows_go_in_and_come_out_unchanged") else { return };
    peer.init("pg");
    let postgres = peer.start(
        "pg",
        "-c max_parallel_workers_per_gather=0 -c synchronize_seqscans=off -c fsync=off",
    );
    let answer = |sql: &str| must(peer.psql(postgres.port).args(["-c", sql]));
    answer(&TABLE.replace("TABLE", "UNLOGGED TABLE"));
    answer(&format!("INSERT INTO t {}", SOURCE.replace("ROWS", &ROWS.to_string())));
    let folder = scratch("exchange");
    let files = ["text", "binary", "csv"].map(|format| {
        let file = folder.path().join(format);
        copy_out(&mut peer.psql(postgres.port), format, &file);
        (format, file)
    });
    let expected = QUESTIONS.map(answer);

    let server = Forebay::start(
        &folder.path().join("data"),
        // Sums of floats depend on the order of the rows.
        &["shared_buffers=256MB", "io_direct=data,wal", "max_parallel_workers_per_gather=0"],
    );
    for (round, (format, file)) in files.iter().enumerate() {
        server.query("DROP TABLE IF EXISTS t");
        server.query(TABLE);
        // The host's psql and PostgreSQL 18's take turns.
        let client = || if round % 2 == 0 { server.psql() } else { peer.psql(server.port) };
        let mut load = client();
        load.args(["-c", &format!("COPY t FROM STDIN (FORMAT {format})")])
            .stdin(File::open(file).expect("made above"));
        must(&mut load);
        for (question, expected) in QUESTIONS.iter().zip(&expected) {
            assert_eq!(
                &must(client().args(["-c", question])),
                expected,
                "{question} after COPY {format}"
            );
        }
        let back = folder.path().join("back");
        copy_out(&mut client(), format, &back);
        assert!(same_bytes(file, &back), "COPY TO in format {format} differs from PostgreSQL's");
    }
    server.stop();
}

fn copy_out(psql: &mut Command, format: &str, file: &Path) {
    let output = File::create(file).expect("the scratch folder can be written");
    let copy = format!("COPY t TO STDOUT (FORMAT {format})");
    let status = psql.args(["-c", &copy]).stdout(output).status().expect("psql runs");
    assert!(status.success(), "{copy}: {status}");
}

fn same_bytes(a: &Path, b: &Path) -> bool {
    let length = |file: &Path| fs::metadata(file).expect("the file is there").len();
    length(a) == length(b)
        && Command::new("cmp").arg("-s").arg(a).arg(b).status().expect("cmp runs").success()
}
