//! Makes all runs, round after round, and asks the device beside them.

use forebay_aio::sync::Arc;
use forebay_aio::{Aio, AioConfig, PosixNamespace};
use forebay_archive::modules::Basic;

use super::files::{Files, SEGMENT};
use super::objects;
use super::plan::ArchiveBench;
use super::report::{Figures, MarksRow, StoreRow, StoreSample};
use super::store::{Time, run_marks, run_store};
use crate::device::Fio;
use crate::error::BenchError;
use crate::measure::Progress;
use crate::methods::usable_modes;
use crate::report::Report;
use crate::scratch::Target;
use crate::stats::Spread;

/// Measures the archiver. `progress` is told how many runs of how many are done.
pub fn bench_archive(
    bench: &ArchiveBench,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, BenchError> {
    // The log, its copy, and fio's copy.
    let size = bench.segments.saturating_mul(3 * SEGMENT.bytes()).max(256 << 20);
    Target::check_directory(&bench.dir, size)?;
    let config = AioConfig { max_backends: 80, handles_per_backend: 16, ..AioConfig::default() };
    let aio = Aio::new(Arc::new(PosixNamespace::new()), bench.method, config)?;
    let mut notes = Vec::new();
    let ways = ways(bench, &mut notes);
    let mut fio = Fio::new(!bench.alone);
    let mut stores =
        Stores { aio: &aio, bench, samples: vec![Vec::new(); ways.len()], ways, device: vec![] };
    let total = (bench.marks.len() + stores.ways.len()) * bench.rounds;
    let mut progress = Progress::new(total, progress);
    let mut marks = vec![Vec::new(); bench.marks.len()];
    for round in 0..bench.rounds {
        for (&count, samples) in bench.marks.iter().zip(&mut marks) {
            samples.push(run_marks(&aio, &Files::make(&aio, &bench.dir)?, count)?);
            progress.step();
        }
        if !stores.ways.is_empty() {
            stores.round(round, &mut fio, &mut progress)?;
        }
    }
    notes.extend(fio.note());
    let marks = bench.marks.iter().zip(&marks);
    let Stores { ways, samples, device, .. } = stores;
    let rows = ways.iter().zip(&samples);
    let figures = Figures {
        io_method: bench.method.name(),
        marks: marks.map(|(&count, samples)| MarksRow::of(count, samples)).collect(),
        archive: bench.archive.clone(),
        device_bytes_per_second: Spread::of_some(device),
        stores: rows.map(|(&way, samples)| StoreRow::of(way, bench.segments, samples)).collect(),
        notes,
    };
    Ok(Report::new(figures.text(), &figures))
}

/// All ways to store: direct or not, and transfers at a time.
fn ways(bench: &ArchiveBench, notes: &mut Vec<String>) -> Vec<(bool, usize)> {
    let mut modes = usable_modes(&bench.direct, &bench.dir, notes);
    if bench.segments == 0 {
        return Vec::new();
    }
    if bench.archive.is_some() {
        modes = vec![false];
    }
    modes.iter().flat_map(|&direct| bench.transfers.iter().map(move |&n| (direct, n))).collect()
}

/// All ways to store with their samples so far.
struct Stores<'a> {
    aio: &'a Arc<Aio>,
    bench: &'a ArchiveBench,
    ways: Vec<(bool, usize)>,
    samples: Vec<Vec<StoreSample>>,
    /// The device's rates.
    device: Vec<f64>,
}

impl Stores<'_> {
    /// Stores the segments of one log in each way. The device is asked before, between and after.
    fn round(
        &mut self,
        round: usize,
        fio: &mut Fio,
        progress: &mut Progress<'_>,
    ) -> Result<(), BenchError> {
        let files = Files::make(self.aio, &self.bench.dir)?;
        files.write_segments(self.bench.segments)?;
        let mut before = self.ask(&files, fio)?;
        let ways = self.ways.len();
        for n in 0..ways {
            // Each round begins with another way.
            let n = (n + round) % ways;
            files.mark_all(self.bench.segments)?;
            let time = self.run(&files, self.ways[n], (round * ways + n) as u64)?;
            let after = self.ask(&files, fio)?;
            let device = before.zip(after).map(|(before, after)| f64::midpoint(before, after));
            self.samples[n].push(StoreSample { time, device });
            before = after;
            progress.step();
        }
        Ok(())
    }

    /// Bytes a second that the device stores; `None` for an object store.
    fn ask(&mut self, files: &Files, fio: &mut Fio) -> Result<Option<f64>, BenchError> {
        if self.bench.archive.is_some() {
            return Ok(None);
        }
        let rate = fio.store(files.dir()).map_err(BenchError::Failed)?;
        self.device.extend(rate);
        Ok(rate)
    }

    fn run(&self, files: &Files, way: (bool, usize), number: u64) -> Result<Time, BenchError> {
        let (direct, transfers) = way;
        if let Some(url) = &self.bench.archive {
            return objects::run(self.aio, files, url, number, self.bench.segments, transfers);
        }
        let module = Arc::new(Basic::new(self.aio, files.archive(), direct));
        let time = run_store(self.aio, files, module, direct, transfers)?;
        files.check_and_empty(self.bench.segments)?;
        Ok(time)
    }
}
