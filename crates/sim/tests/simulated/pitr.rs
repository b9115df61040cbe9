//! Archives, base backups and recovery from them, on a disk that loses, tears and reorders unsynced
//! changes. What was acknowledged must come back, whatever is interrupted and when. The environment
//! says how many runs each test makes.

use crate::common::{setting, threads};
use forebay_sim::SimDisk;
use forebay_sim::explore::{
    Tally, archive_recovery, archived_lives, backups_cut_short, many, recovery_moved_back,
    restores_cut_short,
};
use forebay_sim::workload::fresh_disk;

fn run(
    test: &str,
    runs: &str,
    default: u64,
    run: impl Fn(&SimDisk, u64) -> Result<Tally, String> + Sync,
) -> (u64, Tally) {
    let template = fresh_disk().expect("init");
    let began = std::time::Instant::now();
    let (first, n) = (setting("FOREBAY_SIM_SEED", 1), setting(runs, default));
    match many(first..first + n, threads(), |seed| run(&template, seed)) {
        Ok(tally) => {
            println!("battery: {test}: {tally} {:.1} s", began.elapsed().as_secs_f64());
            (n, tally)
        }
        Err(failed) => panic!(
            "seed {}: {}\nagain: FOREBAY_SIM_SEED={} {runs}=1 FOREBAY_SIM_ARCHIVE_STRIDE={} \
             cargo test --profile battery -p forebay-sim --test simulated {test}",
            failed.seed,
            failed.wrong,
            failed.seed,
            stride()
        ),
    }
}

/// Only every so many-th call is interrupted.
fn stride() -> usize {
    setting("FOREBAY_SIM_ARCHIVE_STRIDE", 13) as usize
}

#[test]
fn lives_that_archive_come_back_from_their_archive() {
    let (n, tally) = run("lives_that_archive", "FOREBAY_SIM_ARCHIVED", 4, |template, seed| {
        archived_lives(template, seed, None)
    });
    assert!(tally.compared >= 4 * n);
}

#[test]
fn recovery_from_an_archive_is_cut_short_and_comes_to_the_same_rows() {
    let (n, tally) = run("recovery_from_an_archive", "FOREBAY_SIM_PITR", 2, |template, seed| {
        archive_recovery(template, seed, stride(), None)
    });
    assert!(tally.compared >= 3 * n);
}

#[test]
fn recovery_whose_target_moves_back_is_refused_or_right() {
    let (n, tally) =
        run("recovery_whose_target_moves_back", "FOREBAY_SIM_PITR", 2, |template, seed| {
            recovery_moved_back(template, seed, stride(), None)
        });
    // Some attempts end before anything too new is written; the last one never does.
    let refused = tally.compared - tally.moved_back;
    assert!(refused >= n && tally.moved_back >= n, "{} of {}", tally.moved_back, tally.compared);
}

#[test]
fn a_backup_that_is_cut_short_never_looks_complete() {
    let (n, tally) =
        run("a_backup_that_is_cut_short", "FOREBAY_SIM_BACKUPS", 2, |template, seed| {
            backups_cut_short(template, seed, stride(), None)
        });
    assert!(tally.compared >= 3 * n);
}

#[test]
fn a_restore_that_is_cut_short_never_looks_complete() {
    let (n, tally) =
        run("a_restore_that_is_cut_short", "FOREBAY_SIM_BACKUPS", 2, |template, seed| {
            restores_cut_short(template, seed, stride(), None)
        });
    assert!(tally.compared >= 3 * n);
}
