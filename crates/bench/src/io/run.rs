//! Opens the methods and the file, and makes the runs.

use std::sync::Arc;

use forebay_aio::{
    Aio, AioConfig, AioError, BackendType, DirectAlignment, DirectRefusal, Errno, File, IoBackend,
    MethodKind, Namespace, OpenOptions, PosixNamespace,
};
use forebay_format::BLOCK_SIZE;

use super::align;
use super::plan::{self, COMBINED, Case, IoBench, IoTable, Operation};
use super::report::{CaseRow, Direct, Figures, MethodRow};
use super::workload::{Until, Workload};
use crate::error::BenchError;
use crate::measure::Progress;
use crate::methods::{MAX_COMBINE, usable_modes};
use crate::report::Report;
use crate::scratch::{self, Target};
use crate::stats::Transfer;

/// A method that can be used here, with the file opened through it.
struct Lane {
    method: MethodKind,
    backend: IoBackend,
    buffered: File,
    direct: Option<File>,
}

impl Lane {
    fn workload(&mut self, blocks: u64, intact: bool, case: Case) -> Workload<'_> {
        let file = match &self.direct {
            Some(file) if case.direct => file,
            _ => &self.buffered,
        };
        Workload { backend: &mut self.backend, file, blocks, intact, case }
    }
}

/// Measures reads and writes. `progress` is told how many runs of how many are done.
pub fn bench_io(bench: &IoBench, progress: &mut dyn FnMut(u64, u64)) -> Result<Report, BenchError> {
    bench.check()?;
    let target = Target::find(&bench.path)?;
    let whole = u64::from(MAX_COMBINE.min(COMBINED)) * BLOCK_SIZE as u64;
    let size = bench.size / whole * whole;
    target.check_space(size)?;
    let blocks = match &target {
        Target::Directory(_) => size / BLOCK_SIZE as u64,
        Target::File(_, blocks) => *blocks,
    };
    let direct = PosixNamespace::new().probe_direct(target.directory());
    let (backends, methods) = open_methods(bench);
    let mut lanes = open_file(&target, direct.is_ok(), backends)?;
    if let Some(lane) = lanes.first_mut()
        && target.is_private()
    {
        fill(lane, blocks)?;
    }
    let modes = usable_modes(&bench.direct, target.directory(), &mut Vec::new());
    let usable: Vec<MethodKind> = lanes.iter().map(|lane| lane.method).collect();
    let mut cases = bench.cases(&usable, &modes, !target.is_private());
    cases.retain(|case| u64::from(case.combine) <= blocks);
    let samples = run(bench, target.is_private(), &mut lanes, blocks, &cases, progress)?;
    let alignment = match lanes.first() {
        Some(lane) if bench.tables.contains(&IoTable::Alignment) => {
            alignment(bench, lane, &direct, blocks)?
        }
        _ => Vec::new(),
    };
    let results = cases.into_iter().zip(samples);
    let figures = Figures {
        bench: "io",
        version: 1,
        path: bench.path.display().to_string(),
        filesystem: match &direct {
            Ok(wants) => wants.filesystem.clone(),
            Err(_) => forebay_aio::direct::filesystem_name(target.directory()),
        },
        file_bytes: blocks * BLOCK_SIZE as u64,
        block_bytes: BLOCK_SIZE,
        rounds: bench.rounds,
        run_seconds: bench.run_time.as_secs_f64(),
        direct: Direct::of(direct),
        methods,
        results: results.map(|(case, samples)| CaseRow::of(case, &samples)).collect(),
        alignment,
    };
    Ok(Report::new(figures.text(), &figures))
}

/// The methods that can be used here, and what the report says of each.
fn open_methods(bench: &IoBench) -> (Vec<(MethodKind, IoBackend)>, Vec<MethodRow>) {
    // Without merging: each run itself says how large its I/Os are.
    let config = AioConfig {
        max_backends: 1,
        handles_per_backend: plan::handles(bench),
        combine_limit: 0,
        ..AioConfig::default()
    };
    let mut backends = Vec::new();
    let mut rows = Vec::new();
    for &method in &bench.methods {
        let opened = Aio::new(Arc::new(PosixNamespace::new()), method, config)
            .and_then(|aio| aio.backend(BackendType::Standalone));
        let refusal = opened.as_ref().err().map(AioError::to_string);
        backends.extend(opened.ok().map(|backend| (method, backend)));
        rows.push(MethodRow { method: method.name(), refusal });
    }
    (backends, rows)
}

/// Opens the file through each backend. A private file is made first, and has no name afterwards.
fn open_file(
    target: &Target,
    direct: bool,
    backends: Vec<(MethodKind, IoBackend)>,
) -> Result<Vec<Lane>, BenchError> {
    let (path, options, made) = match target {
        Target::Directory(dir) => {
            let (path, file) = scratch::make_file(dir)?;
            (path, OpenOptions::READ_WRITE, Some(file))
        }
        Target::File(path, _) => (path.clone(), OpenOptions::READ, None),
    };
    let open = |(method, backend): (MethodKind, IoBackend)| {
        let names = Arc::clone(backend.aio().namespace());
        let direct = direct.then(|| names.open(&path, &options.direct(true))).transpose()?;
        Ok(Lane { method, backend, buffered: names.open(&path, &options)?, direct })
    };
    let lanes: Result<Vec<Lane>, AioError> = backends.into_iter().map(open).collect();
    if made.is_some() {
        PosixNamespace::new().unlink(&path)?;
    }
    Ok(lanes?)
}

/// Writes every page, with its checksum, and makes them durable, so that reads find blocks and no
/// holes.
fn fill(lane: &mut Lane, blocks: u64) -> Result<(), BenchError> {
    let direct = lane.direct.is_some();
    let case = Case {
        operation: Operation::Write,
        combine: COMBINED,
        depth: 16,
        checksums: true,
        ..Case::new(IoTable::Write, lane.method, direct)
    };
    let mut workload = lane.workload(blocks, true, case);
    let names = Arc::clone(workload.backend.aio().namespace());
    match names.allocate(workload.file, 0, blocks * BLOCK_SIZE as u64) {
        // A file system without allocation: the writes extend the file.
        Err(error) if error.errno() == Some(Errno::OPNOTSUPP) => {}
        done => done?,
    }
    workload.run(Until::Once)?;
    Ok(())
}

/// Makes all runs, round after round. The samples of each case.
fn run(
    bench: &IoBench,
    private: bool,
    lanes: &mut [Lane],
    blocks: u64,
    cases: &[Case],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Vec<Transfer>>, BenchError> {
    let mut samples = vec![Vec::new(); cases.len()];
    let mut intact = private;
    let mut progress = Progress::new(bench.rounds * cases.len(), progress);
    for _ in 0..bench.rounds {
        for (case, samples) in cases.iter().zip(&mut samples) {
            let lane = lanes.iter_mut().find(|lane| lane.method == case.method);
            let lane = lane.expect("a case's method is open");
            if case.operation == Operation::Write && !case.checksums {
                intact = false;
            }
            let mut workload = lane.workload(blocks, intact, *case);
            samples.push(workload.run(Until::Time(bench.run_time))?);
            progress.step();
        }
    }
    Ok(samples)
}

fn alignment(
    bench: &IoBench,
    lane: &Lane,
    direct: &Result<DirectAlignment, DirectRefusal>,
    blocks: u64,
) -> Result<Vec<align::AlignmentRow>, BenchError> {
    let direct = match (&lane.direct, direct) {
        (Some(file), _) => Ok(file),
        (None, Err(refusal)) => Err(refusal.to_string()),
        (None, Ok(_)) => unreachable!("the file is opened for direct I/O where that is possible"),
    };
    align::measure(&lane.buffered, direct, blocks, bench.run_time, bench.rounds)
}
