//! Archives, base backups and recovery from them, on a disk that loses, tears and reorders unsynced
//! changes. What was acknowledged must come back, whatever is interrupted and when. The environment
//! says how many runs each test makes.

use crate::common::setting;
use crate::runs::run;
use forebay_sim::explore::{
    archive_recovery, archived_lives, backups_cut_short, recovery_moved_back, restores_cut_short,
};
use forebay_sim::workload::fresh_disk;

/// Only every so many-th call is interrupted.
fn stride() -> usize {
    setting("FOREBAY_SIM_ARCHIVE_STRIDE", 13) as usize
}

#[test]
#[ignore = "run by cargo xtask test"]
fn lives_that_archive_come_back_from_their_archive() {
    let template = fresh_disk().expect("init");
    let (n, tally) = run("lives_that_archive", "FOREBAY_SIM_ARCHIVED", 4, |seed| {
        archived_lives(&template, seed, None)
    });
    assert!(tally.compared >= 4 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn recovery_from_an_archive_is_cut_short_and_comes_to_the_same_rows() {
    let template = fresh_disk().expect("init");
    let (n, tally) = run("recovery_from_an_archive", "FOREBAY_SIM_PITR", 2, |seed| {
        archive_recovery(&template, seed, stride(), None)
    });
    assert!(tally.compared >= 3 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn recovery_whose_target_moves_back_is_refused_or_right() {
    let template = fresh_disk().expect("init");
    let (n, tally) = run("recovery_whose_target_moves_back", "FOREBAY_SIM_PITR", 2, |seed| {
        recovery_moved_back(&template, seed, stride(), None)
    });
    // Some attempts end before anything too new is written; the last one never does.
    let refused = tally.compared - tally.moved_back;
    assert!(refused >= n && tally.moved_back >= n, "{} of {}", tally.moved_back, tally.compared);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn a_backup_that_is_cut_short_never_looks_complete() {
    let template = fresh_disk().expect("init");
    let (n, tally) = run("a_backup_that_is_cut_short", "FOREBAY_SIM_BACKUPS", 2, |seed| {
        backups_cut_short(&template, seed, stride(), None)
    });
    assert!(tally.compared >= 3 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn a_restore_that_is_cut_short_never_looks_complete() {
    let template = fresh_disk().expect("init");
    let (n, tally) = run("a_restore_that_is_cut_short", "FOREBAY_SIM_BACKUPS", 2, |seed| {
        restores_cut_short(&template, seed, stride(), None)
    });
    assert!(tally.compared >= 3 * n);
}
