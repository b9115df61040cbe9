//! The buffer pool on relation files: scans, prewarming, random changes, a checkpoint.
//!
//! - `place`: the relation: one of a cluster at rest, which is only read, or a private one
//! - `lane`: one way of I/O: a door, files and a pool, made anew for each run
//! - `tasks`: what is run; `live`: counting tuples
//! - `report`: what the runs gave
//!
//! Each run begins with a pool whose memory was touched but holds nothing, and, unless it is to be
//! warm, with nothing of the relation in the kernel's cache. Runs take turns, round after round.

mod lane;
mod live;
mod place;
mod report;
mod tasks;

use std::path::PathBuf;

use forebay_aio::sync::Duration;
use forebay_aio::{MethodKind, Namespace, PosixNamespace, probe_io_uring};
use forebay_storage::PrewarmMode;
use lane::Lane;
use place::Place;

use super::{BenchError, IoBench, MethodChoice};
use crate::error::EngineError;

pub use report::{PoolReport, PoolRow};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolTask {
    /// Reading pages through the pool and counting live tuples, in order or by a list of random
    /// blocks.
    Scan,
    /// Bringing the relation in.
    Prewarm(PrewarmMode),
    /// Changing random pages of a relation larger than the pool.
    Evict,
    /// Writing a pool full of dirty pages.
    Checkpoint,
}

impl PoolTask {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PoolTask::Scan => "scan",
            PoolTask::Prewarm(PrewarmMode::Prefetch) => "prewarm prefetch",
            PoolTask::Prewarm(PrewarmMode::Read) => "prewarm read",
            PoolTask::Prewarm(PrewarmMode::Buffer) => "prewarm buffer",
            PoolTask::Evict => "evict",
            PoolTask::Checkpoint => "checkpoint",
        }
    }

    fn writes(self) -> bool {
        matches!(self, PoolTask::Evict | PoolTask::Checkpoint)
    }
}

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct PoolBench {
    /// What.
    pub task: PoolTask,
    /// The data directory of a cluster at rest, or a directory for a private relation.
    pub dir: PathBuf,
    /// Of a cluster, the relation's first file, as `base/5/16384`. None: the largest one.
    pub relation: Option<String>,
    /// Bytes of the private relation. None: what suits the task.
    pub size: Option<u64>,
    /// Bytes of the pool. None: what suits the task.
    pub shared_buffers: Option<u64>,
    /// Methods to try.
    pub methods: Vec<MethodChoice>,
    /// Buffered, direct or both.
    pub direct: Vec<bool>,
    /// Combine limits in blocks.
    pub combine: Vec<u32>,
    /// Reads, or a checkpoint's writes, in flight.
    pub depth: u32,
    /// Scan in random order.
    pub random: bool,
    /// Scan no more than so many blocks.
    pub most_blocks: Option<u32>,
    /// Leave the kernel's cache, and the pool, as the run before left them.
    pub warm: bool,
    /// Threads that change pages.
    pub threads: usize,
    /// Length of a run of [`PoolTask::Evict`].
    pub run_time: Duration,
    /// How often each run is made.
    pub rounds: usize,
}

impl PoolBench {
    /// With what suits most.
    pub fn new(task: PoolTask, dir: PathBuf) -> PoolBench {
        PoolBench {
            task,
            dir,
            relation: None,
            size: None,
            shared_buffers: None,
            methods: IoBench::all_methods(),
            direct: vec![false, true],
            combine: vec![16],
            depth: if task == PoolTask::Checkpoint { 16 } else { 32 },
            random: false,
            most_blocks: None,
            warm: false,
            threads: 2,
            run_time: Duration::from_secs(3),
            rounds: 3,
        }
    }

    fn check(&self) -> Result<(), BenchError> {
        let refuse = |what: String| Err(BenchError::Options(what));
        if !self.combine.iter().all(|n| (1..=IoBench::MAX_COMBINE).contains(n)) {
            return refuse(format!(
                "combine limits must be in range 1..{} blocks",
                IoBench::MAX_COMBINE
            ));
        }
        if !(1..=IoBench::MAX_DEPTH).contains(&self.depth) {
            return refuse(format!("the depth must be in range 1..{}", IoBench::MAX_DEPTH));
        }
        if self.rounds == 0 || self.threads == 0 {
            return refuse("there must be at least one round and one thread".to_owned());
        }
        if self.random && self.task != PoolTask::Scan {
            return refuse("only scans can be in random order".to_owned());
        }
        Ok(())
    }
}

/// One way of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Who executes.
    pub method: MethodKind,
    /// Past the kernel's page cache.
    pub direct: bool,
    /// Blocks in one I/O at most.
    pub combine: u32,
}

/// Measures. `progress` is told how many runs of how many are done.
pub fn bench_pool(
    bench: &PoolBench,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PoolReport, EngineError> {
    bench.check().map_err(refused)?;
    let place = Place::find(bench)?;
    let direct = PosixNamespace::new().probe_direct(place.dir());
    let mut notes = Vec::new();
    let mut ways = Vec::new();
    for &method in &bench.methods {
        if method == MethodKind::IoUring
            && let Err(why) = probe_io_uring()
        {
            notes.push(format!("No io_uring: {why}."));
            continue;
        }
        for &wanted in &bench.direct {
            match &direct {
                Err(why) if wanted => notes.push(format!("No direct I/O: {why}.")),
                _ => ways.extend(bench.combine.iter().map(|&combine| Way {
                    method,
                    direct: wanted,
                    combine,
                })),
            }
        }
    }
    notes.dedup();
    let mut samples = vec![Vec::new(); ways.len()];
    let total = (ways.len() * bench.rounds) as u64;
    for round in 0..bench.rounds {
        for (n, &way) in ways.iter().enumerate() {
            let mut lane = Lane::open(bench, &place, way)?;
            samples[n].push(lane.run(bench)?);
            progress((round * ways.len() + n + 1) as u64, total);
        }
    }
    let rows =
        ways.into_iter().zip(samples).map(|(way, samples)| PoolRow::of(way, &samples)).collect();
    Ok(PoolReport {
        bench: bench.clone(),
        relation: place.name(),
        blocks: place.blocks(),
        notes,
        rows,
    })
}

/// A wish that can't be fulfilled.
fn refused(error: BenchError) -> EngineError {
    EngineError::statement("22023", error.to_string())
}
