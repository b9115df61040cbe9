//! `forebay checksums` beside pg_checksums, on clusters of PostgreSQL 18.
//!
//! - [`refusals`]: command lines and damaged directories; both print and exit alike
//! - [`large`]: over 2 GB: counts, flipped bytes, the system calls, enabling that is interrupted
//!   and completed

mod large;
mod refusals;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use forebay_testkit::peer::Peer;
use forebay_testkit::process::must;

use super::forebay::PROGRAM;

fn forebay(data: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("checksums").arg("-D").arg(data).args(arguments).output().expect("forebay runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The damaged files that each names, from "base/" or "global/" on.
fn named(errors: &str) -> BTreeSet<String> {
    let of_pages = errors.lines().filter(|line| line.contains("checksum verification failed"));
    of_pages
        .map(|line| line.split_once("/pg/").expect("a path of the cluster").1.to_owned())
        .collect()
}

#[test]
#[ignore = "run by cargo xtask test"]
fn pg_checksums_and_forebay_agree() {
    let Some(peer) = Peer::find("pg_checksums_and_forebay_agree") else { return };
    peer.init("pg");
    let (outside, inside) = (peer.outside("pg"), peer.inside("pg"));
    let server = peer.start("pg", "");
    must(&mut server.pgbench(&["-i", "-q", "-s", "3"]));
    let refused = forebay(&outside, &["--check"]);
    assert!(text(&refused.stderr).contains("cluster must be shut down"));
    drop(server);

    let ways = [
        &["--io-method", "sync"][..],
        &["--io-method", "worker", "--io-direct", "data"],
        &["--io-method", "io_uring", "--io-direct", "data", "--io-combine-limit", "128"],
    ];
    let expected = peer.run("pg_checksums", &["--check", "-D", &inside]);
    for way in ways {
        assert_eq!(text(&forebay(&outside, way).stdout), expected, "{way:?}");
    }

    // Without checksums PostgreSQL writes pages without them. Each program enables them, and the
    // other checks.
    peer.run("pg_checksums", &["--disable", "-D", &inside]);
    let server = peer.start("pg", "");
    let sql = "UPDATE pgbench_accounts SET abalance = 7 WHERE aid % 3 = 0; CHECKPOINT";
    server.query(sql);
    drop(server);
    let enabled = forebay(&outside, &["--enable", "--io-direct", "data"]);
    assert!(enabled.status.success(), "{}", text(&enabled.stderr));
    assert!(!text(&enabled.stdout).contains("Blocks written: 0\n"), "{}", text(&enabled.stdout));
    let checked = peer.run("pg_checksums", &["--check", "-D", &inside]);
    assert!(checked.contains("Bad checksums:  0\n"), "{checked}");
    let server = peer.start("pg", "");
    assert_eq!(server.query("SELECT sum(abalance) FROM pgbench_accounts"), "700000");
    drop(server);

    let mut pages = 0;
    for entry in fs::read_dir(outside.join("base/5")).expect("listed") {
        let path = entry.expect("an entry").path();
        let mut bytes = fs::read(&path).expect("readable");
        if bytes.len() >= 3 * 8192 && bytes[2 * 8192..].iter().any(|byte| *byte != 0) && pages < 9 {
            bytes[2 * 8192 + 100 + pages] ^= 1 << (pages % 8);
            fs::write(&path, bytes).expect("writable");
            pages += 1;
        }
    }
    let theirs =
        peer.command("pg_checksums").args(["--check", "-D", &inside]).output().expect("runs");
    let bad = named(&text(&theirs.stderr));
    assert!(bad.len() > 3, "{bad:?}");
    for way in ways {
        let ours = forebay(&outside, way);
        assert_eq!(ours.status.code(), Some(1));
        assert_eq!(
            (text(&ours.stdout), named(&text(&ours.stderr))),
            (text(&theirs.stdout), bad.clone())
        );
    }
}
