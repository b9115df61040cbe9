//! The options of `forebay bench scan`, `prewarm`, `evict` and `checkpoint`.

use std::path::PathBuf;

use forebay_aio::MethodKind;
use forebay_aio::sync::Duration;
use forebay_storage::PrewarmMode;
use serde::Serialize;

use crate::error::BenchError;
use crate::methods::{MAX_COMBINE, MAX_DEPTH, all_methods, method_name};

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolTask {
    /// Reads pages through the pool and counts live tuples.
    Scan,
    /// Reads the relation into memory.
    Prewarm(PrewarmMode),
    /// Changes random pages of a relation larger than the pool.
    Evict,
    /// Writes a pool full of dirty pages.
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

    pub(super) fn writes(self) -> bool {
        matches!(self, PoolTask::Evict | PoolTask::Checkpoint)
    }
}

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct PoolBench {
    /// What a run does.
    pub task: PoolTask,
    /// The data directory of a cluster at rest, or a directory for a private relation.
    pub dir: PathBuf,
    /// Of a cluster, the relation's first file, as `base/5/16384`. None: the largest one.
    pub relation: Option<String>,
    /// Bytes of the private relation. None: as suits the task.
    pub size: Option<u64>,
    /// Bytes of the pool. None: as suits the task.
    pub shared_buffers: Option<u64>,
    /// Methods to try.
    pub methods: Vec<MethodKind>,
    /// Buffered, direct or both.
    pub direct: Vec<bool>,
    /// Combine limits in blocks.
    pub combine: Vec<u32>,
    /// Reads, or a checkpoint's writes, in flight.
    pub depth: u32,
    /// A scan takes its blocks in random order.
    pub random: bool,
    /// Most blocks of a scan. None: all.
    pub most_blocks: Option<u32>,
    /// The relation is read once before the run, and the pool and the kernel's cache keep it.
    pub warm: bool,
    /// Threads that change pages.
    pub threads: usize,
    /// Length of a run of [`PoolTask::Evict`].
    pub run_time: Duration,
    /// How often each run is made.
    pub rounds: usize,
}

impl PoolBench {
    /// All methods, both modes, three rounds.
    pub fn new(task: PoolTask, dir: PathBuf) -> PoolBench {
        PoolBench {
            task,
            dir,
            relation: None,
            size: None,
            shared_buffers: None,
            methods: all_methods(),
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

    /// Refuses options that make no sense.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let refuse = |what: String| Err(BenchError::Options(what));
        if !self.combine.iter().all(|n| (1..=MAX_COMBINE).contains(n)) {
            return refuse(format!("combine limits must be in range 1..{MAX_COMBINE} blocks"));
        }
        if !(1..=MAX_DEPTH).contains(&self.depth) {
            return refuse(format!("the depth must be in range 1..{MAX_DEPTH}"));
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

/// How a run does its I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct IoSetup {
    #[serde(serialize_with = "method_name")]
    pub(super) method: MethodKind,
    /// Without the kernel's page cache.
    pub(super) direct: bool,
    /// Most blocks in one I/O.
    #[serde(rename = "blocks")]
    pub(super) combine: u32,
}
