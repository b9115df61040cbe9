//! Replays every trace against every policy.

use forebay_storage::AccessKind;

use super::plan::ReplacementBench;
use super::policies::{POLICIES, Setup};
use super::report::{Case, Figures, Outcome};
use super::synthetic;
use super::trace::Trace;
use crate::error::BenchError;
use crate::measure::Progress;
use crate::report::Report;

/// Least buffers of a pool for a recorded trace.
const LEAST_BUFFERS: usize = 16;

/// Compares policies. `progress` is told how many replays of how many are done.
pub fn bench_replacement(
    bench: &ReplacementBench,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, BenchError> {
    bench.check()?;
    let recorded: Result<Vec<Trace>, _> =
        bench.traces.iter().map(|path| Trace::read(path)).collect();
    let recorded = recorded?;
    let synthetic = if bench.buffers == 0 { Vec::new() } else { synthetic::traces(bench.buffers) };
    let mut replays: Vec<(&Trace, usize)> =
        synthetic.iter().map(|trace| (trace, bench.buffers)).collect();
    for trace in &recorded {
        for &percent in &bench.percents {
            let buffers = trace.pages * percent as usize / 100;
            replays.push((trace, buffers.max(LEAST_BUFFERS)));
        }
    }
    let policies: Vec<_> = POLICIES.iter().filter(|(name, _)| bench.wants(name)).collect();
    let mut progress = Progress::new(replays.len() * policies.len(), progress);
    let mut cases = Vec::new();
    for (trace, buffers) in replays {
        let setup = Setup { buffers, pages: trace.pages, trace: &trace.references };
        let mut outcomes = Vec::new();
        for (name, make) in &policies {
            outcomes.push(replay(trace, name, make(&setup).as_mut()));
            progress.step();
        }
        cases.push(Case::new(trace, buffers, outcomes));
    }
    let figures = Figures::new(cases);
    Ok(Report::new(figures.text(), &figures))
}

fn replay(trace: &Trace, name: &'static str, policy: &mut dyn super::policies::Policy) -> Outcome {
    let (warming, counted) = trace.references.split_at(trace.begin);
    for &reference in warming {
        policy.refer(reference);
    }
    let before = policy.steps();
    let (mut hits, mut normal, mut normal_hits) = (0_u64, 0_u64, 0_u64);
    for &reference in counted {
        let hit = u64::from(policy.refer(reference));
        hits += hit;
        if reference.access == AccessKind::Normal {
            normal += 1;
            normal_hits += hit;
        }
    }
    let misses = counted.len() as u64 - hits;
    Outcome {
        policy: name,
        hit_rate: hits as f64 / counted.len() as f64,
        normal_hit_rate: trace.is_mixed().then(|| normal_hits as f64 / normal as f64),
        below_optimum: 0.0,
        steps_per_miss: (policy.steps() - before) as f64 / misses.max(1) as f64,
        hit_writes: policy.hit_writes(),
    }
}
