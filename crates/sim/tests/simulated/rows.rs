//! Rows that change, by several sessions: what was committed is there, nothing else is, and the
//! pages are in order.

use crate::runs::run;
use forebay_sim::explore::{LIVES, Tally, row_lives};
use forebay_sim::rows_disk;

#[test]
fn rows_that_change() {
    let template = rows_disk().expect("init");
    let (n, tally) =
        run("rows_that_change", "FOREBAY_SIM_ROWS", 100, |seed| row_lives(&template, seed, None));
    assert!(tally.compared >= (LIVES + 2) * n);
}

/// The same seed makes the same run, so that failures can be repeated.
#[test]
fn a_seed_of_rows_repeats_its_run() {
    let template = rows_disk().expect("init");
    for seed in 1..=3 {
        let runs: Vec<Result<Tally, String>> =
            (0..2).map(|_| row_lives(&template, seed, None)).collect();
        assert!(runs.iter().all(|run| *run == runs[0] && run.is_ok()), "seed {seed}: {runs:?}");
    }
}
