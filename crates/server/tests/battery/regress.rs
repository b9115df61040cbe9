//! PostgreSQL's own regression tests (src/test/regress) on directories of `forebay init`.
//!
//! PostgreSQL completes such a directory by its own scripts, as initdb does, and runs all files of
//! its schedule. Files that may differ are listed with their reasons in
//! `tests/regress/differing.txt`. Then Forebay serves what an immediate stop leaves of it, and what
//! a clean one does: it counts the rows of all relations as PostgreSQL does or refuses by name, and
//! makes tables of its own. PostgreSQL gets the directory back, finds their rows and all others,
//! dumps the same definitions, and pg_amcheck finds no damage.
//!
//! The files in `tests/regress/passing.txt` pass on Forebay itself.
//!
//! - [`files`]: the schedule, and runs of files by psql
//! - [`cluster`]: a directory of `forebay init` in PostgreSQL's first turn
//! - [`handover`]: Forebay's turn on what the tests have left
//!
//! `FOREBAY_REGRESS` runs all files on Forebay, and shows by how many lines each differs.

mod cluster;
mod files;
mod handover;

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use forebay_testkit::peer::{Peer, Postgres};

use super::forebay::Forebay;
use cluster::DATA;
use files::{Ran, Server, Suite};
use handover::Left;

const DIFFERING: &str = include_str!("../regress/differing.txt");
const PASSING: &str = include_str!("../regress/passing.txt");
/// What a file needs that runs before all others.
const FIRST: &str = "test_setup";

/// The lines of a list, without comments.
fn lines(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.starts_with('#'))
}

/// Compares the runs of files with the list of those that differ. Returns what is wrong.
fn judge(ran: &[Ran]) -> Vec<String> {
    let reason = |line| str::split_once(line, ": ").expect("NAME: REASON");
    let mut listed: BTreeMap<&str, &str> = lines(DIFFERING).map(reason).collect();
    let mut wrong = Vec::new();
    for ran in ran {
        match (listed.remove(ran.name.as_str()), &ran.difference) {
            (None, Some(difference)) => wrong.push(format!("{}:\n{difference}", ran.name)),
            (Some(_), None) => wrong.push(format!("{} passes, but is listed", ran.name)),
            _ => {}
        }
    }
    wrong.extend(listed.keys().map(|name| format!("{name} is listed, but not in the schedule")));
    wrong
}

#[test]
#[ignore = "a minute long; run by cargo xtask test"]
fn postgresqls_regression_tests_run_on_a_directory_of_forebay_init() {
    let test = "postgresqls_regression_tests_run_on_a_directory_of_forebay_init";
    let (Some(suite), Some(peer)) = (Suite::find(test), Peer::find(test)) else { return };
    let begun = Instant::now();
    let (mut server, first) = run_on_postgresql(&suite, &peer);
    if !first.is_empty() {
        // Some of PostgreSQL's files depend on timing. What our directory makes differ does so
        // each time.
        println!("battery: regress: once more, for {}", first.join("\n"));
        drop(server);
        fs::remove_dir_all(peer.outside(DATA)).expect("the directory is removed");
        let again;
        (server, again) = run_on_postgresql(&suite, &peer);
        let twice = again.iter().filter(|wrong| first.iter().any(|w| name(w) == name(wrong)));
        let twice: Vec<&str> = twice.map(String::as_str).collect();
        assert!(twice.is_empty(), "{}", twice.join("\n"));
    }
    let left = Left::find(&peer, &server);
    server.crash();
    let crashed = peer.outside("crashed");
    fs::rename(peer.outside(DATA), &crashed).expect("nobody serves it");
    for stop in ["immediate", "clean"] {
        peer.adopt(&crashed, DATA);
        if stop == "clean" {
            drop(cluster::start(&peer));
        }
        left.hand_over(&peer, stop);
        fs::remove_dir_all(peer.outside(DATA)).expect("nobody serves it");
    }
    println!("battery: regress: in all {:.0} s", begun.elapsed().as_secs_f32());
}

/// The file of which something is wrong.
fn name(wrong: &str) -> &str {
    wrong.split([':', ' ']).next().unwrap_or_default()
}

/// Makes a directory, and runs all files on PostgreSQL. Returns what is wrong, too.
fn run_on_postgresql<'p>(suite: &Suite, peer: &'p Peer) -> (Postgres<'p>, Vec<String>) {
    let begun = Instant::now();
    cluster::prepare(peer);
    let server = cluster::start(peer);
    let ran = suite.run_all(Server { sockets: &peer.inside(""), port: server.port });
    let seconds = begun.elapsed().as_secs_f32();
    println!("battery: regress: {} files on PostgreSQL; {seconds:.0} s", ran.len());
    (server, judge(&ran))
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn regression_tests_pass_on_forebay() {
    let test = "regression_tests_pass_on_forebay";
    let (Some(suite), Some(peer)) = (Suite::find(test), Peer::find(test)) else { return };
    let all = std::env::var_os("FOREBAY_REGRESS").is_some();
    cluster::prepare(&peer);
    let sockets = &peer.inside("");
    let server = cluster::start(&peer);
    let setup = suite.run(Server { sockets, port: server.port }, FIRST);
    assert_eq!(setup.difference, None, "{FIRST}");
    drop(server);
    peer.take_back();
    let forebay = Forebay::start(&peer.outside(DATA), &[]);
    let mut listed: Vec<&str> = lines(PASSING).collect();
    let mut worse = Vec::new();
    for name in suite.groups().concat().iter().filter(|name| *name != FIRST) {
        let at = listed.iter().position(|listed| listed == name);
        if at.is_none() && !all {
            continue;
        }
        let ran = suite.run(Server { sockets, port: forebay.port }, name);
        match (at.map(|at| listed.remove(at)), &ran.difference) {
            (Some(_), Some(difference)) => worse.push(format!("{name}:\n{difference}")),
            (None, None) => println!("battery: regress: {name} passes now"),
            (None, Some(_)) => println!("{name}: {} lines differ", ran.lines),
            (Some(_), None) => {}
        }
        assert_eq!(forebay.query("select 1"), "1", "after {name}");
    }
    worse.extend(listed.iter().map(|name| format!("{name} is listed, but not in the schedule")));
    assert!(worse.is_empty(), "{}", worse.join("\n"));
    forebay.stop();
}
