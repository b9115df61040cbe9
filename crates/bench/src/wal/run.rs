//! Makes all runs, round after round, and asks the device beside them.

use std::sync::Arc;

use forebay_aio::{Aio, AioConfig, MethodKind, PosixNamespace};

use super::log::{Log, Sample};
use super::plan::{Case, WalBench, WalTable};
use super::report::{BulkRow, CommitRow, DeviceRow, Figures, FsyncRow, InsertRow};
use super::{commit, insert};
use crate::device::{DeviceJob, Fio, pg_test_fsync};
use crate::error::BenchError;
use crate::measure::Progress;
use crate::methods::usable_modes;
use crate::report::Report;
use crate::scratch::Target;

/// Measures the log. `progress` is told how many runs of how many are done.
pub fn bench_wal(
    bench: &WalBench,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, BenchError> {
    bench.check()?;
    // The log's segments, those that a fast run adds, and fio's file.
    Target::check_directory(&bench.dir, bench.size.saturating_mul(3))?;
    let mut notes = Vec::new();
    let methods = open_methods(bench, &mut notes)?;
    let modes = usable_modes(&bench.direct, &bench.dir, &mut notes);
    let mut plan = Plan::new(bench, methods, &modes);
    let mut log = Log::make(&bench.dir, bench.size)?;
    let mut progress = Progress::new(plan.runs() * bench.rounds, progress);
    let mut fio = Fio::new(!bench.alone);
    for _ in 0..bench.rounds {
        plan.round(&mut log, &mut fio, &mut progress)?;
    }
    drop(log);
    notes.extend(fio.note());
    let mut fsync = Vec::new();
    if !bench.alone && bench.wants(WalTable::Commit) {
        match pg_test_fsync(bench.pg_test_fsync.as_deref(), &bench.dir) {
            Ok(rates) => fsync.extend(rates.into_iter().map(FsyncRow::of)),
            Err(note) => notes.push(note),
        }
    }
    let figures = plan.figures(notes, fsync);
    Ok(Report::new(figures.text(bench), &figures))
}

type Methods = Vec<(MethodKind, Arc<Aio>)>;

/// The methods that can be used here; notes tell why others can't.
fn open_methods(bench: &WalBench, notes: &mut Vec<String>) -> Result<Methods, BenchError> {
    let mut methods = Vec::new();
    let config =
        AioConfig { max_backends: bench.most_threads() as usize + 4, ..AioConfig::default() };
    for &method in &bench.methods {
        match Aio::new(Arc::new(PosixNamespace::new()), method, config) {
            Ok(aio) => methods.push((method, aio)),
            Err(why) => notes.push(format!("No {}: {why}.", method.name())),
        }
    }
    if methods.is_empty() { Err(BenchError::Options(notes.join(" "))) } else { Ok(methods) }
}

/// A run with its samples so far.
type Runs = Vec<(Case, Vec<Sample>)>;

/// Runs that are compared with what the device gives.
struct Compared {
    job: DeviceJob,
    rates: Vec<f64>,
    runs: Runs,
}

/// All runs with their samples so far.
struct Plan<'a> {
    bench: &'a WalBench,
    methods: Methods,
    /// A group for each number of committers.
    commits: Vec<Compared>,
    inserts: Runs,
    bulks: Option<Compared>,
}

fn unmeasured(cases: Vec<Case>) -> Runs {
    cases.into_iter().map(|case| (case, Vec::new())).collect()
}

impl<'a> Plan<'a> {
    fn new(bench: &'a WalBench, methods: Methods, modes: &[bool]) -> Plan<'a> {
        let kinds: Vec<MethodKind> = methods.iter().map(|(method, _)| *method).collect();
        let setups = bench.setups(&kinds, modes);
        let compared = |job, cases| Compared { job, rates: Vec::new(), runs: unmeasured(cases) };
        let commits = |&n: &u32| compared(DeviceJob::Commits(n), bench.commits(&setups, n));
        let committers = bench.wants(WalTable::Commit).then_some(&bench.committers);
        let inserts = bench.wants(WalTable::Insert).then(|| bench.inserts(&setups));
        let bulks = bench.wants(WalTable::Bulk).then(|| bench.bulks(&setups));
        Plan {
            bench,
            commits: committers.into_iter().flatten().map(commits).collect(),
            inserts: inserts.map_or_else(Vec::new, unmeasured),
            bulks: bulks.map(|cases| compared(DeviceJob::Bulk, cases)),
            methods,
        }
    }

    fn runs(&self) -> usize {
        let commits: usize = self.commits.iter().map(|group| group.runs.len()).sum();
        commits + self.inserts.len() + self.bulks.as_ref().map_or(0, |group| group.runs.len())
    }

    /// Makes each run once.
    fn round(
        &mut self,
        log: &mut Log,
        fio: &mut Fio,
        progress: &mut Progress<'_>,
    ) -> Result<(), BenchError> {
        let (bench, time) = (self.bench, self.bench.run_time);
        let aio = |case: &Case| {
            let found = self.methods.iter().find(|(method, _)| *method == case.setup.method);
            &found.expect("a run's method is open").1
        };
        for group in self.commits.iter_mut().chain(&mut self.bulks) {
            let rate = fio.writes(log.dir(), bench.size, group.job, time);
            let rate = rate.map_err(BenchError::Failed)?;
            group.rates.extend(rate);
            for (case, samples) in &mut group.runs {
                let sample =
                    log.run(aio(case), case.setup, bench.wal_buffers, |run| match group.job {
                        DeviceJob::Commits(_) => commit::run(run, case, time),
                        DeviceJob::Bulk => insert::bulk(run, case, time),
                    })?;
                samples.push(Sample { device: rate, ..sample });
                progress.step();
            }
        }
        let ring = insert::RING.min(bench.size / 2);
        for (case, samples) in &mut self.inserts {
            let sample =
                log.run(aio(case), case.setup, ring, |run| insert::alone(run, case, ring))?;
            samples.push(sample);
            progress.step();
        }
        Ok(())
    }

    fn figures(&self, notes: Vec<String>, pg_test_fsync: Vec<FsyncRow>) -> Figures {
        let bench = self.bench;
        let commits = self.commits.iter().flat_map(|group| &group.runs);
        let bulks = self.bulks.iter().flat_map(|group| &group.runs);
        let compared = self.commits.iter().chain(&self.bulks);
        Figures {
            bench: "wal",
            version: 1,
            directory: bench.dir.display().to_string(),
            filesystem: forebay_aio::direct::filesystem_name(&bench.dir),
            wal_buffers_bytes: bench.wal_buffers,
            rounds: bench.rounds,
            run_seconds: bench.run_time.as_secs_f64(),
            notes,
            device: compared.filter_map(|group| DeviceRow::of(group.job, &group.rates)).collect(),
            pg_test_fsync,
            commits: commits.map(|(case, samples)| CommitRow::of(case, samples)).collect(),
            insertion: self.inserts.iter().map(|(case, s)| InsertRow::of(case, s)).collect(),
            bulk: bulks.map(|(case, samples)| BulkRow::of(case, samples)).collect(),
        }
    }
}
