//! Damaged pages, reported as PostgreSQL does: PostgreSQL 18 and Forebay read one damaged cluster
//! of PostgreSQL's, with and without zero_damaged_pages and ignore_checksum_failure.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_server::client::{Client, ClientError, Fields};
use forebay_testkit::peer::Peer;

use super::forebay::Forebay;

const BLOCK: u64 = 8192;

/// Changes bytes of a file.
fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let disk = fs::OpenOptions::new().write(true).open(path).expect("the table's file");
    disk.write_all_at(bytes, at).expect("writes");
}

/// A message to the client: severity, code, message, detail, hint.
fn told(fields: &Fields) -> String {
    [b'S', b'C', b'M', b'D', b'H'].map(|code| fields.get(code)).join("|")
}

/// The result of each statement.
fn transcript(port: u16, statements: &[&str]) -> Vec<String> {
    let mut client = Client::tcp(port).expect("connects");
    let mut lines = Vec::new();
    for sql in statements {
        lines.push(format!("> {sql}"));
        match client.query(sql) {
            Ok(answer) => {
                lines.extend(answer.notices.iter().map(told));
                lines.extend(answer.rows.iter().map(|row| format!("{row:?}")));
            }
            Err(ClientError::Server(fields)) => lines.push(told(&fields)),
            Err(other) => panic!("{sql}: {other}"),
        }
    }
    lines
}

#[test]
#[ignore = "run by cargo xtask test"]
fn damaged_pages_are_reported_in_postgresqls_words() {
    let Some(peer) = Peer::find("damaged_pages_are_told_of_in_postgresqls_words") else { return };
    peer.init("pg");
    let server = peer.start("pg", "-c autovacuum=off");
    let mut client = Client::tcp(server.port).expect("connects");
    let mut paths = Vec::new();
    for table in ["a", "b", "c", "d"] {
        let fill = format!(
            "CREATE TABLE {table} (i int4, s text); \
             INSERT INTO {table} SELECT g, repeat('x', 500) FROM generate_series(1, 200) g"
        );
        client.query(&fill).expect("fills");
        let path =
            client.query(&format!("SELECT pg_relation_filepath('{table}')")).expect("exists");
        paths.push(path.value().expect("a path").to_owned());
    }
    drop((client, server));
    let data = peer.outside("pg");
    let [a, b, c, d] = [0, 1, 2, 3].map(|n| data.join(&paths[n]));
    // `a`: a wrong checksum, and an impossible header; `b`: neighbours with wrong checksums; `c`
    // and `d`: one of each.
    overwrite(&a, 3 * BLOCK + 6000, b"yy");
    overwrite(&a, 9 * BLOCK + 12, &[0xff; 2]);
    overwrite(&b, 5 * BLOCK + 6000, b"yy");
    overwrite(&b, 6 * BLOCK + 6000, b"yy");
    for mixed in [&c, &d] {
        overwrite(mixed, BLOCK + 6000, b"yy");
        overwrite(mixed, 2 * BLOCK + 12, &[0xff; 2]);
    }
    let copy = tempfile::tempdir().expect("a folder");
    peer.fetch("pg", &copy.path().join("data"));

    let statements = [
        "SELECT count(*) FROM a",
        "SELECT checksum_failures, checksum_last_failure IS NOT NULL FROM pg_stat_database WHERE \
         datid = 5",
        "SELECT count(*) FROM d",
        "SET ignore_checksum_failure = on",
        "SELECT count(*) FROM a",
        "SELECT count(*) FROM b",
        "SELECT count(*) FROM b",
        "SET zero_damaged_pages = on",
        "SELECT count(*) FROM a",
        "SELECT count(*) FROM c",
        "RESET ignore_checksum_failure",
        "RESET zero_damaged_pages",
        "SELECT count(*) FROM a",
        "SELECT count(*) FROM c",
        "SELECT checksum_failures FROM pg_stat_database WHERE datid = 5",
        "SELECT checksum_failures, checksum_last_failure FROM pg_stat_database WHERE datid = 0",
    ];
    let server = peer.start("pg", "-c autovacuum=off -c io_method=sync");
    let theirs = transcript(server.port, &statements);
    drop(server);
    let server =
        Forebay::start(&copy.path().join("data"), &["io_method=sync", "shared_buffers=16MB"]);
    let ours = transcript(server.port, &statements);
    server.stop();
    assert_eq!(ours, theirs, "left: Forebay; right: PostgreSQL");
    for all in ["WARNING|XX001|zeroing ", "ERROR|XX001|2 invalid pages among "] {
        assert!(theirs.iter().any(|line| line.starts_with(all)), "{theirs:#?}");
    }
}
