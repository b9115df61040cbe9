//! Sorts that spill: settings, log, views.

use super::harness::{Server, failure, value};
use std::sync::Arc;

const SORT: &str =
    "SELECT count(*) FROM (SELECT g FROM generate_series(1, 50000) g ORDER BY -g OFFSET 0) s";
const SPILLED: &str =
    "SELECT temp_files || ' ' || temp_bytes FROM pg_stat_database WHERE datname = 'postgres'";

#[test]
fn settings_bound_count_and_log_what_sorts_spill() {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    let server = Server::on(Arc::clone(&folder), &["work_mem=64kB"]);
    let temp = folder.path().join("data/base/pgsql_tmp");
    let mut client = server.client();
    let defaults = "SELECT current_setting('work_mem') || current_setting('temp_file_limit') || \
                    current_setting('log_temp_files')";
    assert_eq!(value(&mut client, defaults), "64kB-1-1");
    assert_eq!(value(&mut client, SPILLED), "0 0");
    client.query("SET work_mem = '1GB'").expect("set");
    assert_eq!(value(&mut client, SORT), "50000");
    assert_eq!(value(&mut client, SPILLED), "0 0", "there was memory for it");
    client.query("RESET work_mem; SET log_temp_files = '1MB'").expect("set");
    assert_eq!(value(&mut client, SORT), "50000");
    let spilled = value(&mut client, SPILLED);
    let (files, bytes) = spilled.split_once(' ').expect("two numbers");
    assert!(
        files.parse::<u64>().expect("files") > 0 && bytes.parse::<u64>().expect("bytes") > 500_000
    );
    client.query("SET temp_file_limit = '100kB'").expect("set");
    let error = failure(&mut client, SORT);
    assert_eq!(error.0, "53400");
    assert_eq!(error.1, "temporary file size exceeds \"temp_file_limit\" (100kB)");
    client.query("SET temp_file_limit = -1; SET log_temp_files = 0").expect("set");
    assert_eq!(value(&mut client, SORT), "50000");
    let line = server.wait_for_log("temporary file: path \"base/pgsql_tmp/pgsql_tmp");
    assert!(line.contains("LOG:") && line.contains(", size "), "{line}");
    assert_eq!(failure(&mut client, "SET work_mem = '63kB'").0, "22023");
    assert_eq!(failure(&mut client, "SET temp_file_limit = -2").0, "22023");
    assert_eq!(std::fs::read_dir(&temp).expect("made by the first").count(), 0);

    // What a crash leaves, the next start removes.
    drop(client);
    server.kill();
    std::fs::write(temp.join("pgsql_tmp10.0"), "left").expect("written");
    std::fs::write(temp.join("mine"), "left").expect("written");
    let server = Server::on(folder, &[]);
    let names: Vec<_> =
        std::fs::read_dir(&temp).expect("kept").map(|e| e.expect("entry").file_name()).collect();
    assert_eq!(names, ["mine"]);
    server.stop();
}

#[test]
fn a_statement_cancelled_while_it_spills_leaves_nothing() {
    let server = Server::with(&["work_mem=64kB", "io_method=worker"]);
    let temp = server.data_dir().join("base/pgsql_tmp");
    let mut client = server.client();
    assert_eq!(value(&mut client, SORT), "50000");
    client.query("SET statement_timeout = '200ms'").expect("set");
    for sql in [
        "SELECT g FROM generate_series(1, 100000000) g ORDER BY -g",
        "SELECT g FROM generate_series(1, 100000000) g GROUP BY g",
    ] {
        assert_eq!(failure(&mut client, sql).0, "57014", "{sql}");
        assert_eq!(std::fs::read_dir(&temp).expect("made by the first").count(), 0, "{sql}");
    }
    client.query("SET statement_timeout = 0").expect("set");
    assert_eq!(value(&mut client, SORT), "50000");
    server.stop();
}
