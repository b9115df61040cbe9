//! Runs the plan.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{
    Aio, AioConfig, Backend, BackendType, DirectAlignment, MethodKind, Namespace, PosixNamespace,
};
use forebay_format::BLOCK_SIZE;

use super::BenchError;
use super::align;
use super::file::{self, Opened, Place};
use super::flow::{Flow, Sample, Until};
use super::plan::{self, COMBINED, Case, IoBench, IoTable, Operation};
use super::report::{CaseResult, IoReport, MethodAvailability};

/// A method that can be used here.
struct Door {
    method: MethodKind,
    backend: Backend,
}

/// A method, its files.
struct Lane {
    door: Door,
    opened: Opened,
}

/// Measures. `progress` is told how many runs of how many are done.
pub fn bench_io(
    bench: &IoBench,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<IoReport, BenchError> {
    bench.check()?;
    let place = Place::find(&bench.path)?;
    let whole = u64::from(IoBench::MAX_COMBINE.min(COMBINED)) * BLOCK_SIZE as u64;
    let size = bench.size / whole * whole;
    place.check_space(size)?;
    let blocks = match &place {
        Place::Directory(_) => size / BLOCK_SIZE as u64,
        Place::File(_, blocks) => *blocks,
    };
    let direct = PosixNamespace::new().probe_direct(place.directory());
    let (doors, methods) = doors(bench);
    let mut lanes = open(&place, direct.is_ok(), doors)?;
    if let Some(lane) = lanes.first_mut()
        && place.is_private()
    {
        fill(lane, blocks, direct.is_ok())?;
    }
    let modes: Vec<bool> =
        bench.direct.iter().copied().filter(|wanted| !wanted || direct.is_ok()).collect();
    let usable: Vec<MethodKind> = lanes.iter().map(|lane| lane.door.method).collect();
    let mut cases = bench.cases(&usable, &modes, !place.is_private());
    cases.retain(|case| u64::from(case.combine) <= blocks);
    let samples = run(bench, &place, &mut lanes, blocks, &cases, progress)?;
    let alignment = match lanes.first() {
        Some(lane) if bench.tables.contains(&IoTable::Alignment) => {
            alignment(bench, lane, &direct, blocks)?
        }
        _ => Vec::new(),
    };
    let results = cases
        .into_iter()
        .zip(samples)
        .map(|(case, samples)| CaseResult::of(case, &samples))
        .collect();
    Ok(IoReport {
        bench: bench.clone(),
        filesystem: filesystem(&direct, place.directory()),
        file_bytes: blocks * BLOCK_SIZE as u64,
        direct: direct.map_err(|refusal| refusal.to_string()),
        methods,
        results,
        alignment,
    })
}

/// The methods that can be used here, and what is to be said of each.
fn doors(bench: &IoBench) -> (Vec<Door>, Vec<MethodAvailability>) {
    // Without merging: each run itself says how large its I/Os are.
    let config = AioConfig {
        max_backends: 1,
        handles_per_backend: plan::handles(bench),
        combine_limit: 0,
        ..AioConfig::default()
    };
    let mut doors = Vec::new();
    let mut said = Vec::new();
    for &method in &bench.methods {
        let made = Aio::new(Arc::new(PosixNamespace::new()), method, config)
            .and_then(|aio| aio.backend(BackendType::Standalone));
        let refusal = match made {
            Ok(backend) => {
                doors.push(Door { method, backend });
                None
            }
            Err(error) => Some(error.to_string()),
        };
        said.push(MethodAvailability { method, refusal });
    }
    (doors, said)
}

fn open(place: &Place, direct: bool, doors: Vec<Door>) -> Result<Vec<Lane>, BenchError> {
    let namespaces = doors.iter().map(|door| &**door.backend.aio().namespace());
    let opened = file::open(place, direct, namespaces)?;
    Ok(doors.into_iter().zip(opened).map(|(door, opened)| Lane { door, opened }).collect())
}

/// Writes every page, with its checksum, and makes them durable: so that reads find blocks, not
/// holes.
fn fill(lane: &mut Lane, blocks: u64, direct: bool) -> Result<(), BenchError> {
    let case = Case {
        operation: Operation::Write,
        combine: COMBINED,
        depth: 16,
        checksums: true,
        ..Case::new(IoTable::Write, lane.door.method, direct)
    };
    let file = lane.opened.get(direct);
    lane.door.backend.aio().namespace().allocate(file, 0, blocks * BLOCK_SIZE as u64).or_else(
        |error| {
            // A file system without allocation: the writes extend the file.
            if matches!(
                &error,
                forebay_aio::AioError::Os { errno: forebay_aio::Errno::OPNOTSUPP, .. }
            ) {
                Ok(())
            } else {
                Err(error)
            }
        },
    )?;
    Flow { backend: &mut lane.door.backend, file, blocks, intact: true, case }.run(Until::Once)?;
    Ok(())
}

fn run(
    bench: &IoBench,
    place: &Place,
    lanes: &mut [Lane],
    blocks: u64,
    cases: &[Case],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Vec<Sample>>, BenchError> {
    let mut samples = vec![Vec::new(); cases.len()];
    let mut intact = place.is_private();
    let total = (bench.rounds * cases.len()) as u64;
    let mut done = 0;
    for _ in 0..bench.rounds {
        for (case, samples) in cases.iter().zip(&mut samples) {
            progress(done, total);
            let Some(lane) = lanes.iter_mut().find(|lane| lane.door.method == case.method) else {
                continue;
            };
            if case.operation == Operation::Write && !case.checksums {
                intact = false;
            }
            let file = lane.opened.get(case.direct);
            let mut flow =
                Flow { backend: &mut lane.door.backend, file, blocks, intact, case: *case };
            samples.push(flow.run(Until::Time(bench.run_time))?);
            done += 1;
        }
    }
    progress(total, total);
    Ok(samples)
}

fn alignment(
    bench: &IoBench,
    lane: &Lane,
    direct: &Result<DirectAlignment, forebay_aio::DirectRefusal>,
    blocks: u64,
) -> Result<Vec<align::AlignmentRow>, BenchError> {
    let direct =
        direct.as_ref().map(|_| lane.opened.get(true)).map_err(|refusal| refusal.to_string());
    align::measure(&lane.opened.buffered, direct, blocks, bench.run_time, bench.rounds)
}

fn filesystem(direct: &Result<DirectAlignment, forebay_aio::DirectRefusal>, dir: &Path) -> String {
    match direct {
        Ok(alignment) => alignment.filesystem.clone(),
        Err(_) => forebay_aio::direct::filesystem_name(dir),
    }
}
