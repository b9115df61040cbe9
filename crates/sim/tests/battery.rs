//! The engine on a disk that loses, tears and reorders what was not synced: nothing acknowledged is lost, and nothing else appears.

use forebay_sim::Forgotten;
use forebay_sim::explore::{Tally, every_crash, random_run, run_forgetting};
use forebay_sim::workload::fresh_disk;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn random_lives_and_crashes() {
    let template = fresh_disk().expect("init");
    let (first, runs) = (setting("FOREBAY_SIM_SEED", 1), setting("FOREBAY_SIM_RUNS", 50));
    let mut tally = Tally::default();
    for seed in first..first + runs {
        match random_run(&template, seed) {
            Ok(one) => tally.add(&one),
            Err(wrong) => panic!(
                "seed {seed}: {wrong}\nagain: FOREBAY_SIM_SEED={seed} FOREBAY_SIM_RUNS=1 cargo test -p forebay-sim --test battery \
                 random_lives"
            ),
        }
    }
    println!("{tally}");
    assert!(tally.compared >= 4 * runs);
}

#[test]
fn a_crash_at_every_call() {
    let template = fresh_disk().expect("init");
    let (first, runs) = (setting("FOREBAY_SIM_SEED", 1), setting("FOREBAY_SIM_WORKLOADS", 2));
    let mut tally = Tally::default();
    for seed in first..first + runs {
        match every_crash(&template, seed, 6, 2) {
            Ok(one) => tally.add(&one),
            Err(wrong) => panic!("workload {seed}: {wrong}"),
        }
    }
    println!("{tally}");
    assert!(tally.compared > 100 * runs);
}

/// The battery is worth something only if it notices. Each of these is a sync that a program might forget.
#[test]
fn forgotten_syncs_are_noticed() {
    let template = fresh_disk().expect("init");
    let forgotten = [
        Forgotten::FilesIn("pg_wal"),
        Forgotten::FilesIn("base/5"),
        Forgotten::FilesIn("pg_xact"),
        Forgotten::FilesIn("global"),
        Forgotten::NamesIn("pg_wal"),
        Forgotten::NamesIn("base/5"),
    ];
    for what in forgotten {
        let caught =
            (1..=400).find_map(|seed| run_forgetting(&template, seed, Some(what)).err().map(|e| (seed, e)));
        let (seed, wrong) =
            caught.unwrap_or_else(|| panic!("nobody noticed that syncs were forgotten: {what:?}"));
        println!("{what:?}: seed {seed}: {wrong}");
    }
}
