//! PostgreSQL's isolation specifications (src/test/isolation), and specifications of our own, by
//! PostgreSQL's isolationtester: both servers must give the same output.
//!
//! docs/compatibility.md lists the specifications. Those that it says to pass must pass; one that
//! passes and is listed otherwise is reported. The specifications come from PostgreSQL's source
//! package (`cargo xtask peers`).
//!
//! - [`list`]: the list in docs/compatibility.md
//! - [`lane`]: a pair of servers, and runs of isolationtester on them
//!
//! `FOREBAY_ISOLATION` selects specifications by a part of their names, and shows why they differ.

mod lane;
mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use forebay_testkit::peer::Peer;

use lane::{Lane, Pair};

/// Pairs of servers that share the work: most specifications mostly wait.
const LANES: usize = 4;

/// A specification.
struct Spec {
    name: String,
    text: String,
    /// The outputs that PostgreSQL's own test accepts.
    expected: Vec<String>,
}

/// The specifications that PostgreSQL's own test runs, from its source package.
fn postgresqls(test: &str) -> Option<Vec<Spec>> {
    let Some(folder) = std::env::var_os("FOREBAY_PG18_SPECS").map(PathBuf::from) else {
        println!("skipped: {test} needs PostgreSQL's isolation specifications (cargo xtask peers)");
        return None;
    };
    let schedule = read(&folder.join("isolation_schedule"));
    let names = schedule.lines().filter_map(|line| line.strip_prefix("test: "));
    let spec = |name: &str| Spec {
        name: name.to_owned(),
        text: read(&folder.join(format!("specs/{name}.spec"))),
        expected: expected(&folder.join("expected"), name),
    };
    Some(names.flat_map(str::split_whitespace).map(spec).collect())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The contents of NAME.out, NAME_1.out and so on.
fn expected(folder: &Path, name: &str) -> Vec<String> {
    let files =
        std::iter::once(format!("{name}.out")).chain((1..10).map(|n| format!("{name}_{n}.out")));
    files.filter_map(|file| fs::read_to_string(folder.join(file)).ok()).collect()
}

/// Takes specifications one by one until there are no more, on several pairs of servers.
fn in_lanes<T: Send>(
    peer: &Peer,
    specs: &[Spec],
    run: impl Fn(&mut Lane<'_>, &Spec) -> T + Sync,
) -> Vec<T> {
    let queue = Mutex::new(specs.iter().enumerate());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..LANES.min(specs.len()) {
            let (queue, done, run) = (&queue, &done, &run);
            scope.spawn(move || {
                let mut lane = Lane::new(peer, number);
                loop {
                    let Some((at, spec)) = queue.lock().expect("no panic").next() else { break };
                    let begun = Instant::now();
                    let outcome = run(&mut lane, spec);
                    println!("{}: {:.1} s", spec.name, begun.elapsed().as_secs_f32());
                    done.lock().expect("no panic").push((at, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no panic");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Why a specification does not pass, or `None`.
fn judge(lane: &mut Lane<'_>, spec: &Spec, expected: bool) -> Option<String> {
    if !expected {
        // What is known not to run is not tried on PostgreSQL.
        let ran = lane.forebay(&spec.name, &spec.text);
        if !ran.succeeded || ran.was_canceled() {
            return Some(ran.last_error().to_owned());
        }
    }
    let pair = lane.run(&spec.name, &spec.text);
    let both_expected =
        [&pair.forebay, &pair.postgres].iter().all(|ran| spec.expected.contains(&ran.output));
    if both_expected { None } else { pair.difference() }
}

#[test]
#[ignore = "minutes long; run by cargo xtask test"]
fn postgresqls_isolation_specifications_pass() {
    let test = "postgresqls_isolation_specifications_pass";
    let (Some(mut specs), Some(peer)) = (postgresqls(test), Peer::find(test)) else { return };
    let list = list::read();
    let unknown: Vec<_> = list.keys().filter(|n| specs.iter().all(|s| s.name != **n)).collect();
    assert!(unknown.is_empty(), "listed, but not among PostgreSQL's: {unknown:?}");
    let part = std::env::var("FOREBAY_ISOLATION").ok();
    specs.retain(|spec| part.as_ref().is_none_or(|part| spec.name.contains(part)));
    let begun = Instant::now();
    let found = in_lanes(&peer, &specs, |lane, spec| {
        judge(lane, spec, list.get(&spec.name).copied().unwrap_or_default())
    });

    let (mut worse, mut passing) = (Vec::new(), 0);
    for (spec, reason) in specs.iter().zip(&found) {
        passing += u32::from(reason.is_none());
        let name = &spec.name;
        match (list.get(name), reason) {
            (None, reason) => worse.push(format!("{name} is not listed; {reason:?}")),
            (Some(true), Some(reason)) => worse.push(format!("{name} is listed: {reason}")),
            (Some(false), None) => println!("battery: isolation: {name} passes now"),
            (Some(false), Some(reason)) if part.is_some() => println!("{name}: {reason}"),
            _ => {}
        }
    }
    println!(
        "battery: isolation: {passing} of {} specifications pass; {:.0} s",
        specs.len(),
        begun.elapsed().as_secs_f32()
    );
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}

#[test]
#[ignore = "half a minute long; run by cargo xtask test"]
fn anomalies_are_those_of_postgresql() {
    let Some(peer) = Peer::find("anomalies_are_those_of_postgresql") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isolation");
    let names = forebay_testkit::files::names(&folder);
    let spec = |name: String| Spec { text: read(&folder.join(&name)), name, expected: Vec::new() };
    let specs: Vec<Spec> = names.into_iter().map(spec).collect();
    assert!(!specs.is_empty());
    let pairs: Vec<Pair> = in_lanes(&peer, &specs, |lane, spec| lane.run(&spec.name, &spec.text));
    let differ = specs.iter().zip(&pairs).filter_map(|(spec, pair)| {
        pair.difference().map(|difference| format!("{}: {difference}", spec.name))
    });
    let differ: Vec<String> = differ.collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
