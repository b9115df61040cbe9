//! Makes all runs, round after round.

use forebay_aio::{MethodKind, probe_io_uring};

use super::lane::Lane;
use super::plan::{IoSetup, PoolBench};
use super::relation::Relation;
use super::report::{Figures, Row};
use super::tasks;
use crate::error::BenchError;
use crate::measure::Progress;
use crate::methods::usable_modes;
use crate::report::Report;

/// Measures the buffer pool. `progress` is told how many runs of how many are done.
pub fn bench_pool(
    bench: &PoolBench,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, BenchError> {
    bench.check()?;
    let relation = Relation::find(bench)?;
    let (setups, notes) = setups(bench, &relation);
    let mut samples = vec![Vec::new(); setups.len()];
    let mut progress = Progress::new(setups.len() * bench.rounds, progress);
    for _ in 0..bench.rounds {
        for (&setup, samples) in setups.iter().zip(&mut samples) {
            let mut lane = Lane::open(bench, &relation, setup)?;
            samples.push(tasks::run(&mut lane, bench)?);
            progress.step();
        }
    }
    let rows = setups.into_iter().zip(samples);
    let rows = rows.map(|(setup, samples)| Row::of(setup, &samples)).collect();
    let figures = Figures::new(bench, &relation, notes, rows);
    Ok(Report::new(figures.text(bench.task), &figures))
}

/// The methods and modes that are wanted and possible, and why others are not.
fn setups(bench: &PoolBench, relation: &Relation) -> (Vec<IoSetup>, Vec<String>) {
    let mut notes = Vec::new();
    let modes = usable_modes(&bench.direct, &relation.dir, &mut notes);
    let mut setups = Vec::new();
    for &method in &bench.methods {
        if method == MethodKind::IoUring
            && let Err(why) = probe_io_uring()
        {
            notes.push(format!("No io_uring: {why}."));
            continue;
        }
        for &direct in &modes {
            let setup = |&combine: &u32| IoSetup { method, direct, combine };
            setups.extend(bench.combine.iter().map(setup));
        }
    }
    (setups, notes)
}
