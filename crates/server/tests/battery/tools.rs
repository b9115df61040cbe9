//! PostgreSQL 18's own programs read the directory, and PostgreSQL recovers it after a crash.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use forebay_testkit::peer::Peer;
use forebay_testkit::process::feed;

use super::forebay::{Forebay, scratch};

const SUMS: &str = "SELECT count(*), sum(id), min(note), max(note) FROM t";

/// Loads with several transactions, a rollback, a dropped table and checkpoints in between.
fn load(server: &Forebay, from: u32, to: u32) {
    for start in (from..to).step_by(20_000) {
        let rows: String =
            (start..start + 20_000).map(|id| format!("{id}\tnote {}\n", id % 977)).collect();
        let mut psql = server.psql();
        psql.args(["-c", "COPY t FROM STDIN"]);
        let output = feed(psql, rows.as_bytes());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    server.query("CREATE TABLE gone (a int4); INSERT INTO gone VALUES (1), (2); DROP TABLE gone");
    server.query("BEGIN; INSERT INTO t VALUES (0, 'never'); ROLLBACK");
}

#[test]
#[ignore = "run by cargo xtask test"]
fn tools_accept_a_clean_stop() {
    let Some(peer) = Peer::find("tools_accept_a_clean_stop") else { return };
    let folder = scratch("tools");
    let directory = folder.path().join("data");
    let server =
        Forebay::start(&directory, &["io_direct=data,wal,wal_init", "shared_buffers=16MB"]);
    server.query("CREATE TABLE t (id int8, note text)");
    load(&server, 0, 200_000);
    server.query("CHECKPOINT");
    load(&server, 200_000, 400_000);
    server.stop();

    peer.adopt(&directory, "data");
    let data = peer.inside("data");
    let checksums = peer.run("pg_checksums", &["--check", "-D", &data]);
    assert!(checksums.contains("Bad checksums:  0"), "{checksums}");
    let control = peer.run("pg_controldata", &["-D", &data]);
    assert_eq!(control_field(&control, "Database cluster state"), "shut down");
    assert_eq!(control_field(&control, "pg_control version number"), "1800");
    assert_eq!(control_field(&control, "Data page checksum version"), "1");

    // The shutdown checkpoint is the last record: 24 bytes of header, 2 of data header, 88 of data,
    // aligned.
    let end = parse_lsn(control_field(&control, "Latest checkpoint location")) + 120;
    let mut segments: Vec<String> = fs::read_dir(directory.join("pg_wal"))
        .expect("pg_wal can be listed")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.len() == 24)
        .collect();
    segments.sort();
    let to = format!("{:X}/{:X}", end >> 32, end & 0xFFFF_FFFF);
    let dump =
        peer.run("pg_waldump", &["-p", &format!("{data}/pg_wal"), "-q", "-e", &to, &segments[0]]);
    assert_eq!(dump, "");
    // Without an end it must stop exactly there, at the zeros behind the last record.
    let path = format!("{data}/pg_wal");
    let output = peer
        .command("pg_waldump")
        .args(["-p", &path, "-z", &segments[0]])
        .output()
        .expect("pg_waldump runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(&format!("at {to}: ")), "pg_waldump must end at {to}: {errors}");
}

#[test]
#[ignore = "run by cargo xtask test"]
fn postgresql_recovers_a_crashed_copy_and_forebay_finds_the_same_rows_in_it() {
    let test = "postgresql_recovers_a_crashed_copy_and_forebay_finds_the_same_rows_in_it";
    let Some(peer) = Peer::find(test) else { return };
    let folder = scratch("recover");
    let directory = folder.path().join("data");
    let server = Forebay::start(&directory, &["io_direct=data,wal", "shared_buffers=16MB"]);
    server.query("CREATE TABLE t (id int8, note text)");
    load(&server, 0, 200_000);
    server.query("CHECKPOINT");
    load(&server, 200_000, 400_000);
    let expected = server.query(SUMS);
    // The rows of a transaction in flight at the kill must not appear.
    let mut open =
        server.psql().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql starts");
    let mut script = open.stdin.take().expect("stdin is piped");
    script
        .write_all(b"BEGIN;\nINSERT INTO t VALUES (0, 'open');\n\\echo inserted\n")
        .expect("psql listens");
    let mut answer = String::new();
    BufReader::new(open.stdout.take().expect("stdout is piped"))
        .read_line(&mut answer)
        .expect("psql answers");
    assert_eq!(answer, "inserted\n");
    server.kill();
    drop(script);
    open.wait().expect("psql ends");

    peer.adopt(&directory, "data");
    // No session can log in without PostgreSQL's other catalogs, so it only reaches this state.
    drop(peer.start("data", "-c autovacuum=off"));
    let log = peer.log();
    assert!(log.contains("redo done at"), "{log}");
    assert!(log.contains("database system is shut down"), "{log}");

    let own = Forebay::start(&directory, &[]);
    assert_eq!(own.query(SUMS), expected, "Forebay's own recovery");
    let all = own.query("SELECT id, note FROM t ORDER BY id");
    own.stop();
    peer.fetch("data", &folder.path().join("copy"));
    let copy = Forebay::start(&folder.path().join("copy"), &[]);
    assert_eq!(copy.query(SUMS), expected, "after PostgreSQL's recovery");
    assert!(copy.query("SELECT id, note FROM t ORDER BY id") == all, "the rows differ");
    copy.query("INSERT INTO t VALUES (-1, 'still writable')");
    copy.stop();
}

fn control_field<'text>(control: &'text str, name: &str) -> &'text str {
    let line = control.lines().find(|line| line.starts_with(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in\n{control}"))
        .split_once(':')
        .expect("found above")
        .1
        .trim()
}

fn parse_lsn(text: &str) -> u64 {
    let (high, low) = text.split_once('/').expect("an LSN has a slash");
    let part = |hex| u64::from_str_radix(hex, 16).expect("an LSN is hexadecimal");
    part(high) << 32 | part(low)
}
