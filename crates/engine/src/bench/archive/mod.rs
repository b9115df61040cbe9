//! The archiver: many marks and a module that only says yes; segments stored in a directory, or in
//! an object store.
//!
//! - `files`: a private log with its marks, and an archive
//! - `objects`: an archive in an object store
//! - `report`: what the runs gave
//!
//! Each run is a restart: nothing is known but what is on the disk. What is counted as archived is
//! durably noted.

mod files;
mod objects;
mod report;

use std::path::PathBuf;

use forebay_aio::sync::{Arc, Duration, Instant};
use forebay_aio::{
    Aio, AioConfig, BackendType, MethodKind, Namespace, PosixNamespace, probe_io_uring,
};
use forebay_archive::archiver::Threads;
use forebay_archive::modules::{Basic, Null};
use forebay_archive::{ArchiveModule, Archiver, ArchiverConfig, Next, StopMode};
use files::{EXPECTED, Files};

use super::file::Place;
use super::{BenchError, MethodChoice};

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
    /// The URL of an object store in which they are stored instead, each run under a name of its
    /// own, and removed.
    pub archive: Option<String>,
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
            archive: None,
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
    /// Bytes a second that the device stores: the mean of the answers before and after the run, so
    /// that a drift falls on both.
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
    if bench.archive.is_some() {
        direct = vec![false];
    }
    let ways = direct.iter().flat_map(|&d| bench.transfers.iter().map(move |&n| (d, n)));
    let ways = if bench.segments == 0 { Vec::new() } else { ways.collect() };
    let mut stores =
        Stores { aio: &aio, bench, samples: vec![Vec::new(); ways.len()], ways, device: vec![] };
    let total = ((bench.marks.len() + stores.ways.len()) * bench.rounds) as u64;
    let mut marks = vec![Vec::new(); bench.marks.len()];
    let mut done = 0;
    let mut tick = || {
        done += 1;
        progress(done, total);
    };
    for round in 0..bench.rounds {
        for (&count, samples) in bench.marks.iter().zip(&mut marks) {
            samples.push(run_marks(&aio, bench, count)?);
            tick();
        }
        if !stores.ways.is_empty() {
            stores.round(round, ask, &mut tick)?;
        }
    }
    let marks =
        bench.marks.iter().zip(&marks).map(|(&count, samples)| MarksRow::of(count, samples));
    let Stores { ways, samples, device, .. } = stores;
    let rows =
        ways.iter().zip(&samples).map(|(&way, samples)| StoreRow::of(way, bench.segments, samples));
    Ok(ArchiveReport {
        method: bench.method.name(),
        marks: marks.collect(),
        device: (!device.is_empty()).then(|| Spread::of(device)),
        stores: rows.collect(),
        archive: bench.archive.clone(),
        notes,
    })
}

/// All ways to store with what they gave so far.
struct Stores<'a> {
    aio: &'a Arc<Aio>,
    bench: &'a ArchiveBench,
    /// Direct or not, and transfers.
    ways: Vec<(bool, usize)>,
    samples: Vec<Vec<StoreSample>>,
    device: Vec<f64>,
}

impl Stores<'_> {
    fn round(
        &mut self,
        round: usize,
        ask: &mut AskDevice<'_>,
        tick: &mut dyn FnMut(),
    ) -> Result<(), BenchError> {
        let files = Files::make(self.aio, &self.bench.dir)?;
        files.write_segments(self.aio, self.bench.segments)?;
        let mut before = self.ask(&files, ask)?;
        let ways = self.ways.len();
        for n in 0..ways {
            // Which comes first changes from round to round.
            let n = (n + round) % ways;
            files.mark_all(self.bench.segments)?;
            let (seconds, cpu) = self.run(&files, self.ways[n], (round * ways + n) as u64)?;
            let after = self.ask(&files, ask)?;
            let device = before.zip(after).map(|(before, after)| f64::midpoint(before, after));
            self.samples[n].push(StoreSample { seconds, cpu, device });
            before = after;
            tick();
        }
        files.remove()
    }

    fn ask(&mut self, files: &Files, ask: &mut AskDevice<'_>) -> Result<Option<f64>, BenchError> {
        if self.bench.archive.is_some() {
            return Ok(None);
        }
        let rate =
            ask(files.dir(), DeviceJob::Store, Duration::ZERO).map_err(BenchError::Options)?;
        self.device.extend(rate);
        Ok(rate)
    }

    fn run(
        &self,
        files: &Files,
        way: (bool, usize),
        number: u64,
    ) -> Result<(f64, f64), BenchError> {
        let (direct, transfers) = way;
        if let Some(url) = &self.bench.archive {
            return objects::run(self.aio, files, url, number, self.bench.segments, transfers);
        }
        let module = Arc::new(Basic::new(self.aio, files.archive(), direct));
        let ran = run_store(self.aio, files, module, direct, transfers)?;
        files.check_and_empty(self.bench.segments)?;
        Ok(ran)
    }
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

/// A restart with marked segments, that a module stores. Seconds, and those of the processor.
fn run_store(
    aio: &Arc<Aio>,
    files: &Files,
    module: Arc<dyn ArchiveModule>,
    direct: bool,
    transfers: usize,
) -> Result<(f64, f64), BenchError> {
    let (began, before) = (Instant::now(), process_seconds());
    let config = ArchiverConfig { expected: EXPECTED, direct, transfers: Some(transfers) };
    let archiver = Archiver::new(aio, &files.wal(), config);
    archiver.set_module(Some(module));
    archiver.scan()?;
    Threads::start(&archiver, transfers)?.stop(StopMode::Drain)?;
    Ok((began.elapsed().as_secs_f64(), process_seconds() - before))
}
