//! `forebay bench scan` and `prewarm` on a cluster of PostgreSQL 18 at rest: they count as many
//! rows as PostgreSQL, by line pointers and header bits alone.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use forebay_testkit::peer::Peer;

use super::forebay::PROGRAM;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("bench").args(arguments).output().expect("forebay runs")
}

fn results(output: &Output) -> Vec<Value> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["results"].as_array().expect("a list").clone()
}

#[test]
#[ignore = "run by cargo xtask test"]
fn a_scan_counts_what_postgresql_counts() {
    let Some(peer) = Peer::find("a_scan_counts_what_postgresql_counts") else { return };
    peer.init("pg");
    let server = peer.start("pg", "-c autovacuum=off");
    let ask = |sql: &str| server.query(sql);
    // Rows of all fates: kept, deleted, updated, locked, of a transaction that failed; line
    // pointers dead and redirected.
    ask(
        "CREATE TABLE t AS SELECT g AS id, repeat('x', g % 100) AS filler FROM generate_series(1, \
         1000000) g",
    );
    ask("DELETE FROM t WHERE id % 7 = 0");
    ask("UPDATE t SET filler = 'y' WHERE id % 11 = 0");
    ask("DO $$ BEGIN INSERT INTO t SELECT g, 'gone' FROM generate_series(1, 10000) g; RAISE \
         EXCEPTION 'no'; \
        EXCEPTION WHEN raise_exception THEN NULL; END $$");
    ask("VACUUM (FREEZE) t");
    ask("BEGIN; SELECT count(*) FROM (SELECT FROM t WHERE id % 13 = 0 FOR SHARE) s; COMMIT");
    let (rows, path) = (ask("SELECT count(*) FROM t"), ask("SELECT pg_relation_filepath('t')"));
    ask("CHECKPOINT");
    let data = peer.outside("pg");
    let place = ["-D", data.to_str().expect("UTF-8"), "--relation", &path];

    let refused = bench(&[&["scan"], &place[..]].concat());
    assert!(!refused.status.success(), "a server runs on it");
    drop(server);
    let before = fs::read(data.join(&path)).expect("read");

    let small =
        ["--rounds", "1", "--shared-buffers", "8MB", "--io-combine-limit", "16,32", "--json"];
    for (command, direct) in [("scan", ""), ("scan", "data"), ("prewarm", "data")] {
        let arguments = [&[command], &place[..], &small, &["--io-direct", direct]].concat();
        let rows_of = results(&bench(&arguments));
        assert_eq!(rows_of.len(), 8, "four methods, two combine limits");
        for row in rows_of {
            if command == "scan" {
                assert_eq!(row["live_tuples"].to_string(), rows, "{row}");
            }
            assert_eq!(row["kernel_cached_bytes"] == 0, direct == "data", "{row}");
        }
    }
    let random = [&["scan", "--random", "--io-direct", "data"], &place[..], &small].concat();
    for row in results(&bench(&random)) {
        assert_eq!(row["live_tuples"].to_string(), rows, "{row}");
    }

    assert_eq!(fs::read(data.join(&path)).expect("read"), before, "nothing was written");
    for (command, why) in [("evict", "only read"), ("checkpoint", "only read")] {
        let refused = bench(&[command, "-D", place[1]]);
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{command}");
    }
}
