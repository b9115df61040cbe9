//! The engine on a disk that loses, tears and reorders unsynced changes, fails, and lies. Nothing
//! acknowledged may be lost, and nothing else may appear. The environment says how many runs each
//! test makes; docs/reliability.md has the numbers of `cargo xtask test`.

use std::collections::BTreeMap;

use crate::common::setting;
use crate::runs::run;
use forebay_sim::explore::{
    Damage, Depth, Detection, Flaw, GROUPS, Tally, control_rot, databases_cut_short,
    databases_disk, ddl_cut_short, ddl_disk, ddl_recovery_cut_short, every_crash, every_failure,
    lying_writes, old_ids_disks, old_ids_removed, random_run, recovery_again, run_with, wal_rot,
};
use forebay_sim::workload::fresh_disk;
use forebay_sim::{Failure, FaultClass, Forgotten};

#[test]
#[ignore = "run by cargo xtask test"]
fn random_lives_and_crashes() {
    let template = fresh_disk().expect("init");
    let (n, tally) =
        run("random_lives", "FOREBAY_SIM_RUNS", 60, |seed| random_run(&template, seed));
    assert!(tally.compared >= 4 * n);
    if n >= 1000 {
        for class in [
            FaultClass::Crash,
            FaultClass::Kill,
            FaultClass::LostUnsynced,
            FaultClass::TornWrite,
            FaultClass::LostLength,
            FaultClass::LostName,
            FaultClass::ReadError,
            FaultClass::WriteError,
            FaultClass::NoSpace,
            FaultClass::Short,
            FaultClass::Interrupted,
            FaultClass::FailedSync,
            FaultClass::FalseAlarm,
            FaultClass::NameError,
        ] {
            assert!(tally.of(class) > 0, "no {class} in {n} runs");
        }
    }
}

#[test]
#[ignore = "run by cargo xtask test"]
fn a_crash_at_every_call() {
    let template = fresh_disk().expect("init");
    let depth = Depth { steps: 6, ways: 2, subsets_of: setting("FOREBAY_SIM_SUBSETS", 5) as usize };
    let (n, tally) = run("a_crash_at_every_call", "FOREBAY_SIM_WORKLOADS", 2, |seed| {
        every_crash(&template, seed, depth)
    });
    assert!(tally.compared > 100 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn recovery_is_cut_short_and_comes_to_the_same_bytes() {
    let template = fresh_disk().expect("init");
    let stride = setting("FOREBAY_SIM_STRIDE", 7) as usize;
    let (n, tally) = run("recovery_is_cut_short", "FOREBAY_SIM_RECOVERIES", 2, |seed| {
        recovery_again(&template, seed, 30, stride)
    });
    assert!(tally.compared > 5 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn old_ids_are_removed_whatever_a_crash_leaves() {
    let templates = old_ids_disks().expect("init");
    let stride = setting("FOREBAY_SIM_STRIDE", 5) as usize;
    let (n, tally) = run("old_ids_are_removed", "FOREBAY_SIM_OLD_IDS", 2, |seed| {
        old_ids_removed(&templates, seed, stride, None)
    });
    assert!(tally.compared > 20 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn databases_are_made_and_dropped_whole() {
    let template = databases_disk().expect("init");
    let stride = setting("FOREBAY_SIM_DATABASE_STRIDE", 211) as usize;
    let (n, tally) = run("databases", "FOREBAY_SIM_DATABASES", 2, |seed| {
        databases_cut_short(&template, seed, stride, None)
    });
    assert!(tally.compared > 20 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn ddl_is_whole_or_nothing_whatever_a_crash_leaves() {
    let template = ddl_disk().expect("init");
    let stride = setting("FOREBAY_SIM_DDL_STRIDE", 23) as usize;
    let (n, tally) = run(
        "ddl_is_whole_or_nothing_whatever_a_crash",
        "FOREBAY_SIM_DDL",
        GROUPS.len() as u64,
        |seed| ddl_cut_short(&template, seed, stride, None),
    );
    assert!(tally.compared > 6 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn ddl_is_whole_or_nothing_whatever_crashed_recoveries_leave() {
    let template = ddl_disk().expect("init");
    let stride = setting("FOREBAY_SIM_DDL_STRIDE", 23) as usize;
    let (n, tally) =
        run("ddl_is_whole_or_nothing_whatever_crashed", "FOREBAY_SIM_DDL", 9, |seed| {
            ddl_recovery_cut_short(&template, seed, stride, None)
        });
    assert!(tally.compared > 3 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn each_call_fails_once() {
    let template = fresh_disk().expect("init");
    let stride = setting("FOREBAY_SIM_STRIDE", 23) as usize;
    for failure in Failure::ALL {
        let test = format!("each_call_fails_once ({failure:?})");
        let (_, tally) = run(&test, "FOREBAY_SIM_FAILING", 1, |seed| {
            every_failure(&template, seed, failure, 6, stride)
        });
        assert!(tally.compared > 0);
    }
}

#[test]
#[ignore = "run by cargo xtask test"]
fn rot_in_the_last_page_of_the_log() {
    let template = fresh_disk().expect("init");
    let stride = setting("FOREBAY_SIM_BYTES", 61) as usize;
    let (_, tally) = run("rot_in_the_last_page", "FOREBAY_SIM_ROT", 1, |seed| {
        wal_rot(&template, seed, 40, stride)
    });
    assert!(tally.detected.contains_key(&Detection::Earlier), "some bytes matter");
    assert!(tally.detected.contains_key(&Detection::Harmless), "some bytes don't");
}

#[test]
#[ignore = "run by cargo xtask test"]
fn rot_in_pg_control() {
    let template = fresh_disk().expect("init");
    let stride = setting("FOREBAY_SIM_BYTES", 61) as usize;
    let (_, tally) =
        run("rot_in_pg_control", "FOREBAY_SIM_ROT", 1, |seed| control_rot(&template, seed, stride));
    assert!(tally.detected[&Detection::AtOpen] >= 296);
}

/// Lost or misdirected writes that were acknowledged and synced. Nothing may appear that nobody
/// committed. A lost write leaves an old page with a valid checksum; how many are noticed is
/// printed.
#[test]
#[ignore = "run by cargo xtask test"]
fn writes_that_lie() {
    let template = fresh_disk().expect("init");
    let kinds =
        [(Damage::Lost, FaultClass::LostWrite), (Damage::Misdirected, FaultClass::Misdirected)];
    for ((damage, class), verify) in
        kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)])
    {
        let verified = if verify { ", verified" } else { "" };
        let test = format!("writes_that_lie ({damage:?}{verified})");
        let (_, tally) = run(&test, "FOREBAY_SIM_LIES", 30, |seed| {
            lying_writes(&template, seed, damage, verify)
        });
        assert!(tally.of(class) > 0, "no {class}");
    }
}

/// The same seed makes the same run, so that failures can be repeated.
#[test]
#[ignore = "run by cargo xtask test"]
fn a_seed_repeats_its_run() {
    let template = fresh_disk().expect("init");
    for seed in 1..=5 {
        let runs: Vec<Result<Tally, String>> =
            (0..3).map(|_| random_run(&template, seed)).collect();
        assert!(runs.iter().all(|run| *run == runs[0] && run.is_ok()), "seed {seed}: {runs:?}");
    }
}

/// The battery must notice each of these syncs that a program might forget.
#[test]
#[ignore = "run by cargo xtask test"]
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
    let mut noticed = BTreeMap::new();
    for what in forgotten {
        let flaw = Some(Flaw::Forgets(what));
        let caught = (1..=400).find(|&seed| run_with(&template, seed, flaw).is_err());
        let seed =
            caught.unwrap_or_else(|| panic!("nobody noticed that syncs were forgotten: {what:?}"));
        noticed.insert(format!("{what:?}"), seed);
    }
    println!("battery: forgotten syncs noticed, by seed: {noticed:?}");
}
