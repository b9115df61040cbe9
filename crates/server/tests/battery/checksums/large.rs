//! A cluster of over 2 GB.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_testkit::peer::Peer;
use forebay_testkit::process::{Child, must};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{forebay, named, text};

const DIRECT: [&str; 4] = ["--io-method", "io_uring", "--io-direct", "data"];
const PAGE: u64 = 8192;

/// Makes the cluster, with minimal WAL, since it is never recovered.
fn make(peer: &Peer) {
    peer.init("pg");
    let quick = "-c fsync=off -c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=8GB \
        -c shared_buffers=512MB -c autovacuum=off -c maintenance_work_mem=512MB";
    let server = peer.start("pg", quick);
    must(&mut server.pgbench(&["-i", "-q", "-I", "dtGp", "-s", "150"]));
}

/// Bytes that were flipped: their places and old values.
struct Flip {
    path: PathBuf,
    at: u64,
    old: u8,
}

/// Flips one byte in each of 100 random pages in use.
fn flip_bytes(folder: &Path, random: &mut StdRng) -> Vec<Flip> {
    let entries = fs::read_dir(folder).expect("listed").map(|entry| entry.expect("an entry"));
    let mut files: Vec<(PathBuf, u64)> = entries
        .map(|entry| (entry.path(), entry.metadata().expect("there").len() / PAGE))
        .collect();
    files.sort();
    let pages: u64 = files.iter().map(|(_, pages)| pages).sum();
    let mut flips = Vec::new();
    while flips.len() < 100 {
        let mut nth = random.random_range(0..pages);
        let (path, _) = files
            .iter()
            .find(|(_, pages)| {
                let here = nth < *pages;
                nth -= if here { 0 } else { *pages };
                here
            })
            .expect("a page of some file");
        let file = OpenOptions::new().read(true).write(true).open(path).expect("opens");
        let mut page = [0; PAGE as usize];
        file.read_exact_at(&mut page, nth * PAGE).expect("readable");
        // pd_upper: a new page has no checksum.
        if path.ends_with("PG_VERSION") || page[14..16] == [0, 0] {
            continue;
        }
        let byte = random.random_range(0..PAGE as usize);
        let at = nth * PAGE + byte as u64;
        file.write_all_at(&[page[byte] ^ random.random_range(1..=255)], at).expect("writable");
        flips.push(Flip { path: path.clone(), at, old: page[byte] });
    }
    flips
}

/// The file and block of each line that names a damaged page.
fn places(errors: &str) -> BTreeSet<String> {
    let until = |line: String| line.split(": calculated").next().unwrap_or_default().to_owned();
    named(errors).into_iter().map(until).collect()
}

/// Restores the bytes in reverse order, so that a byte flipped twice is restored too.
fn restore(flips: &[Flip]) {
    for flip in flips.iter().rev() {
        let file = OpenOptions::new().write(true).open(&flip.path).expect("opens");
        file.write_all_at(&[flip.old], flip.at).expect("writable");
    }
}

/// Every block of every relation through PostgreSQL's buffers, which verify; and the balances.
fn read_everything(peer: &Peer, checksums: &str, sum: u64) {
    let server = peer.start("pg", "-c autovacuum=off -c ignore_checksum_failure=off");
    let ask = |sql: &str| server.query(sql);
    assert_eq!(ask("SHOW data_checksums"), checksums);
    assert_eq!(
        ask("SELECT sum(abalance), count(*) FROM pgbench_accounts"),
        format!("{sum}|15000000")
    );
    ask("CREATE EXTENSION IF NOT EXISTS pg_prewarm");
    let all = "SELECT sum(pg_prewarm(c.oid, 'buffer', f)) * 8192 > 2e9 FROM pg_class c, \
        unnest(ARRAY['main', 'fsm', 'vm']) f \
        WHERE relkind IN ('r', 'i', 't', 'm', 'S') AND pg_relation_size(c.oid, f) > 0";
    assert_eq!(ask(all), "t");
    assert_eq!(ask("SELECT coalesce(sum(checksum_failures), 0) FROM pg_stat_database"), "0");
}

/// Changes a row in every 17th page without checksums being kept.
fn change(peer: &Peer, round: u64) {
    let server = peer.start("pg", "-c autovacuum=off -c fsync=off -c max_wal_size=8GB");
    let sql = format!(
        "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid % 1000 = {round}; CHECKPOINT"
    );
    server.query(&sql);
}

/// Starts to enable, and sends the signal when the program has named so many files. True: it was
/// too late.
fn interrupt_enabling(data: &Path, signal: &str, after: usize) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("checksums").args(DIRECT).args(["--enable", "--verbose", "-D"]).arg(data);
    let mut child = Child::spawn(command.stdout(Stdio::null()));
    if child.wait_until(|lines| (lines.len() >= after).then_some(())).is_ok() {
        child.signal(signal);
    }
    child.wait().success()
}

/// How many reads each entry into the kernel submitted, and no small reads of pages beside them.
fn check_calls(data: &Path, folder: &Path) {
    let trace = folder.join("trace");
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-y", "-e", "trace=io_uring_enter,read,pread64,readv,preadv,preadv2", "-o"])
        .arg(&trace);
    strace.arg(env!("CARGO_BIN_EXE_forebay")).arg("checksums").args(DIRECT).arg(data);
    let status = strace.stdout(Stdio::null()).status().expect("strace runs");
    assert!(status.success());
    let trace = fs::read_to_string(&trace).expect("strace wrote its output");
    let submitted: Vec<u64> = trace
        .lines()
        .filter_map(|line| line.split_once("io_uring_enter(")?.1.split(", ").nth(1)?.parse().ok())
        .filter(|count| *count > 0)
        .collect();
    let total: u64 = submitted.iter().sum();
    let mean = total as f64 / submitted.len() as f64;
    assert!(total > 2_000_000_000 / (16 * PAGE), "{total} reads were submitted");
    assert!(mean >= 6.0, "an entry into the kernel submits {mean:.1} reads");
    let small = trace.lines().filter(|line| line.contains("read") && line.contains("/base/"));
    assert_eq!(small.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
#[ignore = "run by cargo xtask test"]
fn a_large_cluster() {
    let Some(peer) = Peer::find("a_large_cluster") else { return };
    make(&peer);
    let (data, inside) = (peer.outside("pg"), peer.inside("pg"));
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);

    let expected = peer.run("pg_checksums", &["--check", "-D", &inside]);
    assert_eq!(text(&forebay(&data, &DIRECT).stdout), expected);
    check_calls(&data, &peer.outside(""));

    let flips = flip_bytes(&data.join("base/5"), &mut random);
    let theirs =
        peer.command("pg_checksums").args(["--check", "-D", &inside]).output().expect("runs");
    let bad = places(&text(&theirs.stderr));
    assert!(bad.len() > 90, "most of 100 pages are different ones: {}", bad.len());
    for way in [&DIRECT[..], &["--io-method", "worker"]] {
        let ours = forebay(&data, way);
        assert_eq!(
            (ours.status.code(), places(&text(&ours.stderr))),
            (theirs.status.code(), bad.clone())
        );
        assert_eq!(text(&ours.stdout), text(&theirs.stdout));
    }
    restore(&flips);
    assert_eq!(text(&forebay(&data, &DIRECT).stdout), expected);

    assert!(forebay(&data, &["--disable"]).status.success());
    let mut sum = 0;
    for (round, signal) in ["-INT", "-KILL", "-TERM"].into_iter().enumerate() {
        change(&peer, round as u64);
        sum += 15_000;
        if interrupt_enabling(&data, signal, random.random_range(1..900)) {
            assert!(forebay(&data, &["--disable"]).status.success(), "it was enabled");
        }
        read_everything(&peer, "off", sum);
    }
    change(&peer, 3);
    let enabled = forebay(&data, &[&DIRECT[..], &["--enable"]].concat());
    assert!(enabled.status.success(), "{}", text(&enabled.stderr));
    assert!(!text(&enabled.stdout).contains("Blocks written: 0\n"), "{}", text(&enabled.stdout));
    let checked = peer.run("pg_checksums", &["--check", "-D", &inside]);
    assert!(checked.contains("Bad checksums:  0\n"), "{checked}");
    assert_eq!(text(&forebay(&data, &DIRECT).stdout), checked);
    read_everything(&peer, "on", sum + 15_000);
}
