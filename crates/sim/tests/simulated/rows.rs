//! Rows that change, by several sessions: what was committed is there, nothing else is, and the
//! pages are in order.

use crate::common::setting;
use crate::runs::run;
use forebay_sim::explore::{
    Care, LIVES, Tally, care_cut_short, concurrent_indexes_cut_short, long_values_cut_short,
    row_lives, sequences_cut_short, sequences_disk, trees_cut_short, vacuums_cut_short,
};
use forebay_sim::{indexed_long_values_disk, indexed_rows_disk, long_values_disk, rows_disk};

#[test]
#[ignore = "run by cargo xtask test"]
fn rows_that_change() {
    let template = rows_disk().expect("init");
    let (n, tally) =
        run("rows_that_change", "FOREBAY_SIM_ROWS", 100, |seed| row_lives(&template, seed, None));
    assert!(tally.compared >= (LIVES + 2) * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn rows_that_change_keep_indexes() {
    let columns: [&[i16]; 3] = [&[], &[2], &[2, 3]];
    let templates = columns.map(|columns| indexed_rows_disk(columns).expect("init"));
    let (n, tally) = run("rows_that_change_keep_indexes", "FOREBAY_SIM_INDEXED_ROWS", 50, |seed| {
        row_lives(&templates[seed as usize % 3], seed, None)
    });
    assert!(tally.compared >= (LIVES + 2) * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn a_table_is_vacuumed_whatever_a_crash_leaves() {
    let template = rows_disk().expect("init");
    let stride = setting("FOREBAY_SIM_STRIDE", 5) as usize;
    let (n, tally) = run("a_table_is_vacuumed", "FOREBAY_SIM_VACUUMS", 8, |seed| {
        vacuums_cut_short(&template, seed, stride, None)
    });
    assert!(tally.compared > 20 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn trees_are_whole_whatever_a_crash_leaves() {
    let template = indexed_rows_disk(&[3]).expect("init");
    let stride = setting("FOREBAY_SIM_TREE_STRIDE", 23) as usize;
    let (n, tally) = run("trees_are_whole", "FOREBAY_SIM_TREES", 4, |seed| {
        trees_cut_short(&template, seed, stride, None)
    });
    assert!(tally.compared > 20 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn indexes_are_made_and_dropped_whatever_a_crash_leaves() {
    let template = indexed_rows_disk(&[]).expect("init");
    let stride = setting("FOREBAY_SIM_STRIDE", 23) as usize;
    let (n, tally) = run("concurrent_indexes", "FOREBAY_SIM_CONCURRENT", 6, |seed| {
        concurrent_indexes_cut_short(&template, seed, stride)
    });
    assert!(tally.compared > 10 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn long_values_are_whole_whatever_a_crash_leaves() {
    let template = long_values_disk().expect("init");
    let stride = setting("FOREBAY_SIM_STRIDE", 23) as usize;
    let (n, tally) = run("long_values_are_whole", "FOREBAY_SIM_LONG_VALUES", 6, |seed| {
        long_values_cut_short(&template, seed, stride, None)
    });
    assert!(tally.compared > 10 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn sequences_hand_out_no_value_twice_whatever_a_crash_leaves() {
    let template = sequences_disk().expect("init");
    let stride = setting("FOREBAY_SIM_STRIDE", 7) as usize;
    let (n, tally) = run("sequences_hand_out", "FOREBAY_SIM_SEQUENCES", 6, |seed| {
        sequences_cut_short(&template, seed, stride, None)
    });
    assert!(tally.compared > 10 * n);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn autovacuum_looks_after_tables_whatever_a_crash_leaves() {
    looked_after("autovacuum_looks_after_tables", "FOREBAY_SIM_AUTOVACUUMS", Care::Autovacuum);
}

#[test]
#[ignore = "run by cargo xtask test"]
fn a_table_is_rewritten_whatever_a_crash_leaves() {
    looked_after("a_table_is_rewritten", "FOREBAY_SIM_REWRITES", Care::Rewrite);
}

fn looked_after(test: &str, runs: &str, care: Care) {
    let template = indexed_long_values_disk().expect("init");
    let stride = setting("FOREBAY_SIM_STRIDE", 11) as usize;
    let (n, tally) = run(test, runs, 4, |seed| care_cut_short(&template, care, seed, stride, None));
    assert!(tally.compared > 10 * n);
}

/// The same seed makes the same run, so that failures can be repeated.
#[test]
#[ignore = "run by cargo xtask test"]
fn a_seed_of_rows_repeats_its_run() {
    let template = rows_disk().expect("init");
    for seed in 1..=3 {
        let runs: Vec<Result<Tally, String>> =
            (0..2).map(|_| row_lives(&template, seed, None)).collect();
        assert!(runs.iter().all(|run| *run == runs[0] && run.is_ok()), "seed {seed}: {runs:?}");
    }
}
