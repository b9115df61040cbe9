//! A table that PostgreSQL 18 has made, indexed and aged, read by it and by Forebay in all ways:
//! the same random ranges, lists, comparisons of rows and ORs, in both directions, sequentially, by
//! index scans, by bitmaps in little memory, and as the planner likes. The answers must be the
//! same.
//!
//! - [`queries`]: the queries
//!
//! `FOREBAY_SCANS` and `FOREBAY_SCANS_SEED` make more and other queries.

mod queries;

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use forebay_testkit::peer::{self, Peer};
use forebay_testkit::process::must;
use forebay_testkit::{Dice, env};
use rand::RngExt;

use super::forebay::{Forebay, scratch};

const QUERIES: u64 = 400;
/// The data directory in the folder that both servers see.
const DATA: &str = "data";

/// The ways to read, each by what is switched off, and how often a plan must show it in a hundred
/// queries.
const WAYS: [(&str, &str, &str, u64); 4] = [
    ("by the planner's choice", "enable_sort = on", "", 0),
    ("sequentially", "enable_indexscan = off; SET enable_bitmapscan = off", "Seq Scan", 80),
    ("by indexes", "enable_seqscan = off; SET enable_bitmapscan = off", "Index ", 80),
    (
        "by bitmaps",
        "enable_seqscan = off; SET enable_indexscan = off; SET work_mem = '64kB'",
        "Bitmap Heap Scan",
        50,
    ),
];

/// Runs a file of queries; what they print.
fn answers(port: u16, file: &std::path::Path) -> Vec<String> {
    let printed = must(peer::psql(port).arg("-f").arg(file));
    printed.split("-- query ").skip(1).map(str::to_owned).collect()
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn all_ways_to_read_find_what_postgresql_finds() {
    let Some(peer) = Peer::find("all_ways_to_read_find_what_postgresql_finds") else { return };
    let seed = env::number("FOREBAY_SCANS_SEED").unwrap_or_else(|| rand::rng().random());
    let number = env::number("FOREBAY_SCANS").unwrap_or(QUERIES);
    println!("seed {seed}");
    let mut dice = Dice::new(seed);
    peer.init(DATA);
    let options = "-c autovacuum=off -c jit=off -c fsync=off";
    let server = peer.start(DATA, options);
    for statement in queries::TABLE {
        server.query(statement);
    }
    let asked: Vec<String> = (0..number).map(|_| queries::one(&mut dice)).collect();
    let own = scratch("scans");
    let script = |way: &str, before: &str| {
        let mut text = format!("SET {way};\n");
        for (number, sql) in asked.iter().enumerate() {
            writeln!(text, "\\echo -- query {number}: {sql}\n{before}{sql};").expect("a string");
        }
        let file = own.path().join("queries.sql");
        fs::write(&file, text).expect("the file is written");
        file
    };
    // PostgreSQL answers by itself, and by each way where they should not differ.
    let expected = answers(server.port, &script(WAYS[0].1, ""));
    drop(server);
    let copy = own.path().join("data");
    must(Command::new("cp").arg("-a").arg(peer.outside(DATA)).arg(&copy));
    must(Command::new("chown").arg("-R").arg("root:root").arg(&copy));
    let forebay = Forebay::start(&copy, &["shared_buffers=2MB"]);
    for (name, way, shown, share) in WAYS {
        let found = answers(forebay.port, &script(way, ""));
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{name}, seed {seed}");
        }
        let plans = answers(forebay.port, &script(way, "EXPLAIN (COSTS OFF) "));
        let uses = plans.iter().filter(|plan| plan.contains(shown)).count() as u64;
        assert!(uses * 100 >= share * number, "{uses} of {number} were read {name}");
        println!("battery: scans: {number} queries {name}: {uses} plans show {shown:?}");
    }
    forebay.stop();
}
