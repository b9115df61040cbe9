//! `forebay bench wal` with small sizes: every setup runs, the JSON is as documented, fio and
//! pg_test_fsync run beside it, and nothing is left behind.

use crate::bench::{assert_empty, assert_spread, fields, json, run};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn list<'v>(report: &'v Value, name: &str) -> &'v Vec<Value> {
    report[name].as_array().expect("a list")
}

fn number(row: &Value, name: &str) -> f64 {
    let value = if row[name].is_object() { &row[name]["median"] } else { &row[name] };
    value.as_f64().unwrap_or_else(|| panic!("{name}: {row}"))
}

const SMALL: [&str; 8] =
    ["--size", "64MB", "--seconds", "0.01", "--rounds", "2", "--alone", "--json"];

#[test]
fn commits_are_measured_with_every_setup() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = ["wal", "-D", dir.path().to_str().expect("UTF-8"), "--tables", "commit"];
    let report = json(&[&place[..], &["--committers", "1,3"], &SMALL].concat());
    assert_empty(dir.path());
    let names = [
        "bench",
        "bulk",
        "commits",
        "device",
        "directory",
        "filesystem",
        "insertion",
        "notes",
        "pg_test_fsync",
        "rounds",
        "run_seconds",
        "version",
        "wal_buffers_bytes",
    ];
    assert_eq!(fields(&report), names);
    assert_eq!((&report["bench"], &report["version"]), (&Value::from("wal"), &Value::from(1)));
    for nothing in ["device", "pg_test_fsync", "insertion", "bulk"] {
        assert!(list(&report, nothing).is_empty(), "{nothing}: {report}");
    }
    let rows = list(&report, "commits");
    let directs = if list(&report, "notes").is_empty() { 2 } else { 1 };
    // Sync methods, modes, gathering or not, committers, sizes.
    assert_eq!(rows.len(), 4 * directs * 2 * 2 * 2, "{report}");
    for row in rows {
        for positive in
            ["commits_per_second", "writes_per_second", "mean_write_bytes", "mean_in_flight"]
        {
            assert_spread(&row[positive]);
        }
        assert!(row["part_of_device"].is_null(), "{row}");
        let opens = row["wal_sync_method"].as_str().expect("text").starts_with("open_");
        assert_eq!(number(row, "syncs_per_second") == 0.0, opens, "{row}");
        assert!(number(row, "mean_write_bytes") >= 8192.0, "{row}");
        assert!(number(row, "mean_in_flight") <= 3.0 * 16.0, "{row}");
        let latencies =
            ["latency_us_p50", "latency_us_p99", "latency_us_p999"].map(|name| number(row, name));
        assert!(0.0 < latencies[0] && latencies.is_sorted(), "{row}");
    }
    // A single committer needs a write for each commit. At the ends of a run and of a segment a few
    // more are counted, which a stalled disk, with hardly a commit in a run, makes most of them.
    let alone = |row: &&Value| row["committers"] == 1 && row["record_bytes"] == 128;
    for row in rows.iter().filter(alone) {
        let commits = number(row, "commits_per_second");
        let per_commit = number(row, "writes_per_second") / commits;
        let a_few = 0.1 + 3.0 / (commits * number(&report, "run_seconds")).max(1.0);
        assert!((1.0 - a_few..=1.0 + a_few).contains(&per_commit), "{row}");
    }
}

#[test]
fn insertion_is_measured_alone_and_in_bulk() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = ["wal", "-D", dir.path().to_str().expect("UTF-8"), "--tables", "insert,bulk"];
    let few = ["--inserters", "1,2", "--insert-sizes", "64,8168", "--wal-sync-method", "fdatasync"];
    let report = json(&[&place[..], &few, &SMALL].concat());
    assert_empty(dir.path());
    assert!(
        list(&report, "commits").is_empty() && list(&report, "insertion").len() == 4,
        "{report}"
    );
    for row in list(&report, "insertion") {
        assert_spread(&row["records_per_second"]);
        let bytes = number(row, "bytes_per_second") / number(row, "records_per_second");
        let size = number(row, "record_bytes");
        // Both are rounded quotients.
        assert!((size - 8.1..=size + 0.1).contains(&bytes), "{row}");
    }
    let bulk = list(&report, "bulk");
    assert!(!bulk.is_empty() && bulk.len() <= 2, "{report}");
    for row in bulk {
        assert_spread(&row["bytes_per_second"]);
        assert_eq!((&row["threads"], &row["gather"]), (&Value::from(2), &Value::from(true)));
        assert!(number(row, "mean_write_bytes") >= 8192.0, "{row}");
    }
}

#[test]
fn the_tables_are_tables() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = ["wal", "-D", dir.path().to_str().expect("UTF-8"), "--quick", "--alone"];
    let (code, said, errors) = run(&[&place[..], &["--seconds", "0.002"]].concat());
    assert_eq!((code, errors.as_str()), (0, ""), "{said}");
    for expected in [
        "Commits a second by committers, records of 128 bytes\n",
        "records of 8168 bytes, each a block of its own",
        "open_datasync",
        "99.9 %",
        "Insertion alone",
        "Bulk insertion, durable",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}")).expect("written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("executable");
}

/// A false fio and pg_test_fsync, which print what real ones print, and record their arguments.
fn false_programs(bin: &Path, calls: &Path) {
    let zeros = |n: usize| "0;".repeat(n);
    // 8000 KiB in half a second.
    let line = format!("3;{}8000;0;0;500;{}0", zeros(45), zeros(80));
    script(&bin.join("fio"), &format!("echo \"$@\" >> {}\necho '{line}'\n", calls.display()));
    let fsync = "echo 'Compare file sync methods using one 8kB write:'\necho ' fdatasync 4000.5 \
        ops/sec 250 usecs/op'\n\
        echo ' open_sync n/a'\necho 'Compare file sync methods using two 8kB writes:'\necho ' \
        fdatasync 1.0 ops/sec 1 usecs/op'\n\
        exec sleep 600\n";
    script(&bin.join("pg_test_fsync"), fsync);
}

#[test]
fn fio_and_pg_test_fsync_run_beside_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (bin, place) = (dir.path().join("bin"), dir.path().join("place"));
    [&bin, &place].into_iter().for_each(|dir| std::fs::create_dir(dir).expect("made"));
    let calls = dir.path().join("calls");
    false_programs(&bin, &calls);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let few = [
        "--wal-sync-method",
        "fdatasync",
        "--gather",
        "on",
        "--io-direct",
        "",
        "--committers",
        "1,2",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .env("PATH", path)
        .args(["bench", "wal", "-D"])
        .arg(&place)
        .args(few)
        .args(["--tables", "commit,bulk"]);
    let small =
        ["--size", "64MB", "--seconds", "0.01", "--rounds", "1", "--record-sizes", "128", "--json"];
    let output = command.args(small).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_empty(&place);

    let device = list(&report, "device");
    assert_eq!(device.len(), 3, "{report}");
    for row in &device[..2] {
        assert_eq!(row["writes_per_second"]["median"], 2000.0, "{row}");
    }
    assert_eq!(
        (&device[1]["depth"], &device[2]["write_bytes"]),
        (&Value::from(2), &Value::from(131_072))
    );
    assert_eq!(device[2]["bytes_per_second"]["median"], 16_384_000.0);
    for row in list(&report, "commits") {
        let part = number(row, "commits_per_second") / 2000.0;
        assert!((number(row, "part_of_device") - part).abs() < 1e-9, "{row}");
    }
    let fsync = list(&report, "pg_test_fsync");
    assert_eq!(
        (fsync.len(), &fsync[0]["wal_sync_method"]),
        (1, &Value::from("fdatasync")),
        "{report}"
    );
    assert_eq!(fsync[0]["writes_per_second"], 4000.5);

    let calls = std::fs::read_to_string(calls).expect("fio was called");
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 4, "once to write the file, then for each question: {calls:?}");
    assert!(calls[1].contains("--ioengine=psync") && calls[2].contains("--iodepth=2"), "{calls:?}");
    assert!(
        calls[1..].iter().all(|call| call.contains("--sync=dsync") && call.contains("--direct=1"))
    );
}

#[test]
fn notes_tell_what_is_not_installed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .env("PATH", dir.path())
        .args(["bench", "wal", "--tables", "commit", "-D"])
        .arg(dir.path());
    command.args([
        "--wal-sync-method",
        "fdatasync",
        "--committers",
        "1",
        "--seconds",
        "0.01",
        "--rounds",
        "1",
    ]);
    let output =
        command.args(["--size", "64MB", "--pg-test-fsync", "/nowhere/x"]).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        said.contains("fio is not installed.")
            && said.contains("No rates of pg_test_fsync: /nowhere/x: "),
        "{said}"
    );
}

#[test]
fn bad_options_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, [0; 10_000]).expect("written");
    let (place, file) = (dir.path().to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    for (arguments, why) in [
        (&["wal", "-D", "/nowhere"][..], "does not exist"),
        (&["wal", "-D", file], "is not a directory"),
        (&["wal", "-D", place, "--tables", "x"], "invalid value \"x\" for option --tables"),
        (&["wal", "-D", place, "--gather", "maybe"], "invalid value \"maybe\" for option --gather"),
        (&["wal", "-D", place, "--wal-sync-method", "auto"], "invalid value \"auto\""),
        (&["wal", "-D", place, "--io-direct", "data"], "invalid value \"data\""),
        (&["wal", "-D", place, "--committers", "0"], "--committers must be in range 1..512"),
        (&["wal", "-D", place, "--record-sizes", "100"], "a multiple of 8"),
        (&["wal", "-D", place, "--insert-sizes", "24"], "records have 32 to"),
        (&["wal", "-D", place, "--size", "1MB"], "room for at least 64 MB"),
        (&["wal", "-D", place, "--size", "4000TB"], "not enough space"),
    ] {
        let (code, said, errors) = run(arguments);
        assert!(code == 1 && said.is_empty() && errors.contains(why), "{arguments:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    assert_eq!(dir.path().read_dir().expect("listed").count(), 1);
}
