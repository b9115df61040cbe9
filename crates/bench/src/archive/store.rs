//! One run.

use forebay_aio::sync::{Arc, Instant};
use forebay_aio::{Aio, BackendType};
use forebay_archive::archiver::Threads;
use forebay_archive::modules::Null;
use forebay_archive::{ArchiveModule, Archiver, ArchiverConfig, Next, StopMode};

use super::files::{EXPECTED, Files};
use crate::error::BenchError;
use crate::measure::Stopwatch;

/// A run with marks alone, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarksSample {
    /// From the start to the first archived file.
    pub(super) first: f64,
    /// To the last one.
    pub(super) all: f64,
    pub(super) cpu: f64,
}

/// The time of a run that stores segments, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) seconds: f64,
    pub(super) cpu: f64,
}

/// Archives `count` marked files with a module that stores nothing.
pub(super) fn run_marks(
    aio: &Arc<Aio>,
    files: &Files,
    count: u64,
) -> Result<MarksSample, BenchError> {
    files.make_marks(count)?;
    let watch = Stopwatch::start();
    let archiver = Archiver::new(aio, &files.wal(), ArchiverConfig::default());
    archiver.set_module(Some(Arc::new(Null)));
    archiver.scan()?;
    let mut io = aio.backend(BackendType::Standalone)?;
    let mut first = None;
    // One thread is enough for a module that needs no time; others would only watch.
    while archiver.step(&mut io, Instant::now())? == Next::Worked {
        if first.is_none() && archiver.stats().archived_count > 0 {
            first = Some(watch.seconds());
        }
    }
    let (all, cpu) = (watch.seconds(), watch.cpu_seconds());
    let archived = archiver.stats().archived_count;
    if archived != count {
        return Err(BenchError::Failed(format!("{archived} of {count} files were archived")));
    }
    Ok(MarksSample { first: first.unwrap_or(all), all, cpu })
}

/// Archives all marked segments with `module`.
pub(super) fn run_store(
    aio: &Arc<Aio>,
    files: &Files,
    module: Arc<dyn ArchiveModule>,
    direct: bool,
    transfers: usize,
) -> Result<Time, BenchError> {
    let watch = Stopwatch::start();
    let config = ArchiverConfig { expected: EXPECTED, direct, transfers: Some(transfers) };
    let archiver = Archiver::new(aio, &files.wal(), config);
    archiver.set_module(Some(module));
    archiver.scan()?;
    Threads::start(&archiver, transfers)?.stop(StopMode::Drain)?;
    Ok(Time { seconds: watch.seconds(), cpu: watch.cpu_seconds() })
}
