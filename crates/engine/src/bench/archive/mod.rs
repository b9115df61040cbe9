//! The archiver: many marks and a module that only says yes; segments stored in a directory.
//!
//! - `files`: a private log with its marks, and an archive
//! - `report`: what the runs gave
//!
//! Each run is a restart: nothing is known but what is on the disk. What is counted as archived is durably noted.

mod files;
mod report;

use std::path::PathBuf;

use forebay_aio::sync::{Arc, Duration, Instant};
use forebay_aio::{Aio, AioConfig, BackendType, MethodKind, Namespace, PosixNamespace, probe_io_uring};
use forebay_archive::archiver::Threads;
use forebay_archive::modules::{Basic, Null};
use forebay_archive::{ArchiveModule, Archiver, ArchiverConfig, Next, StopMode};

use super::file::Place;
use super::{BenchError, MethodChoice};
use files::{EXPECTED, Files};
pub use report::{ArchiveReport, MarksRow, StoreRow};

use super::measure::{Spread, process_seconds};
use super::wal::{AskDevice, DeviceJob};

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct ArchiveBench {
    /// A directory; the log and the archive get one of their own in there, for the time of the run.
    pub dir: PathBuf,
    /// How many files are marked, with a module that stores nothing. Empty: not measured.
    pub marks: Vec<u64>,
    /// How many segments of 16 MB are stored in a directory. 0: not measured.
    pub segments: u64,
    /// So many of them at a time.
    pub transfers: Vec<usize>,
    /// Buffered, direct or both.
    pub direct: Vec<bool>,
    /// io_method.
    pub method: MethodChoice,
    /// How often each run is made.
    pub rounds: usize,
}

impl ArchiveBench {
    /// Most marks of a run.
    pub const MOST_MARKS: u64 = 10_000_000;
    /// Most segments.
    pub const MOST_SEGMENTS: u64 = 100_000;
    /// Most transfers at a time.
    pub const MOST_TRANSFERS: u64 = 64;

    /// What the archiver's marks are about.
    pub fn new(dir: PathBuf) -> ArchiveBench {
        let method = match probe_io_uring() {
            Ok(()) => MethodKind::IoUring,
            Err(_) => MethodKind::Worker(forebay_aio::WorkerLimits::default()),
        };
        ArchiveBench {
            dir,
            marks: vec![12_000, 120_000],
            segments: 64,
            transfers: vec![1, 2, 4],
            direct: vec![false, true],
            method,
            rounds: 3,
        }
    }
}

/// A run with marks alone.
#[derive(Clone, Copy, Debug)]
struct MarksSample {
    /// From the start to the first file that is archived.
    first: f64,
    /// To the last.
    all: f64,
    cpu: f64,
}

/// A run that stores segments.
#[derive(Clone, Copy, Debug)]
struct StoreSample {
    seconds: f64,
    cpu: f64,
    /// Bytes a second that the device gave in the same round.
    device: Option<f64>,
}

/// Measures. `progress` is told how many runs of how many are done.
pub fn bench_archive(
    bench: &ArchiveBench,
    ask: &mut AskDevice<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ArchiveReport, BenchError> {
    let place = match Place::find(&bench.dir)? {
        place @ Place::Directory(_) => place,
        Place::File(path, _) => {
            return Err(BenchError::Path { path, reason: "is not a directory".to_owned() });
        }
    };
    // The log, its copy, and the file of the device's figures.
    place.check_space(bench.segments.saturating_mul(3 * files::SEGMENT.bytes()).max(256 << 20))?;
    let config = AioConfig { max_backends: 80, handles_per_backend: 16, ..AioConfig::default() };
    let aio = Aio::new(Arc::new(PosixNamespace::new()), bench.method, config)?;
    let mut direct = bench.direct.clone();
    let mut notes = Vec::new();
    if direct.contains(&true)
        && let Err(refusal) = PosixNamespace::new().probe_direct(&bench.dir)
    {
        notes.push(format!("Direct I/O is left out: {refusal}."));
        direct.retain(|direct| !direct);
    }
    let ways: Vec<(bool, usize)> =
        direct.iter().flat_map(|&d| bench.transfers.iter().map(move |&n| (d, n))).collect();
    let stores = if bench.segments == 0 { 0 } else { ways.len() };
    let total = ((bench.marks.len() + stores) * bench.rounds) as u64;
    let mut marks = vec![Vec::new(); bench.marks.len()];
    let mut stored = vec![Vec::new(); stores];
    let (mut device, mut done) = (Vec::new(), 0);
    for round in 0..bench.rounds {
        for (&count, samples) in bench.marks.iter().zip(&mut marks) {
            samples.push(run_marks(&aio, bench, count)?);
            done += 1;
            progress(done, total);
        }
        if stores == 0 {
            continue;
        }
        let files = Files::make(&aio, &bench.dir)?;
        files.write_segments(&aio, bench.segments)?;
        let rate = ask(files.dir(), DeviceJob::Bulk, Duration::from_secs(1)).map_err(BenchError::Options)?;
        device.extend(rate);
        for n in 0..stores {
            // Which comes first changes from round to round.
            let n = (n + round) % stores;
            let (way, samples) = (ways[n], &mut stored[n]);
            files.mark_all(bench.segments)?;
            let (seconds, cpu) = run_store(&aio, &files, way)?;
            files.check_and_empty(bench.segments)?;
            samples.push(StoreSample { seconds, cpu, device: rate });
            done += 1;
            progress(done, total);
        }
        files.remove()?;
    }
    let marks = bench.marks.iter().zip(&marks).map(|(&count, samples)| MarksRow::of(count, samples));
    let rows = ways.iter().zip(&stored).map(|(&way, samples)| StoreRow::of(way, bench.segments, samples));
    Ok(ArchiveReport {
        method: bench.method.name(),
        marks: marks.collect(),
        device: (!device.is_empty()).then(|| Spread::of(device)),
        stores: rows.collect(),
        notes,
    })
}

/// A restart with so many marks, and a module that only says yes.
fn run_marks(aio: &Arc<Aio>, bench: &ArchiveBench, count: u64) -> Result<MarksSample, BenchError> {
    let files = Files::make(aio, &bench.dir)?;
    files.make_marks(count)?;
    let (began, before) = (Instant::now(), process_seconds());
    let archiver = Archiver::new(aio, &files.wal(), ArchiverConfig::default());
    archiver.set_module(Some(Arc::new(Null)));
    archiver.scan()?;
    let mut io = aio.backend(BackendType::Standalone)?;
    let mut first = None;
    // One thread is enough for a module that needs no time; others would only watch.
    while archiver.step(&mut io, Instant::now())? == Next::Worked {
        if first.is_none() && archiver.stats().archived_count > 0 {
            first = Some(began.elapsed().as_secs_f64());
        }
    }
    let sample = MarksSample {
        first: first.unwrap_or(f64::NAN),
        all: began.elapsed().as_secs_f64(),
        cpu: process_seconds() - before,
    };
    let archived = archiver.stats().archived_count;
    if archived != count {
        return Err(BenchError::Options(format!("{archived} of {count} files were archived")));
    }
    drop(io);
    files.remove()?;
    Ok(sample)
}

/// A restart with marked segments, that are stored in a directory. Seconds, and those of the processor.
fn run_store(
    aio: &Arc<Aio>,
    files: &Files,
    (direct, transfers): (bool, usize),
) -> Result<(f64, f64), BenchError> {
    let (began, before) = (Instant::now(), process_seconds());
    let config = ArchiverConfig { expected: EXPECTED, direct, transfers: Some(transfers) };
    let archiver = Archiver::new(aio, &files.wal(), config);
    let module: Arc<dyn ArchiveModule> = Arc::new(Basic::new(aio, files.archive(), direct));
    archiver.set_module(Some(module));
    archiver.scan()?;
    Threads::start(&archiver, transfers)?.stop(StopMode::Drain)?;
    Ok((began.elapsed().as_secs_f64(), process_seconds() - before))
}
