//! `forebay bench scan`, `prewarm`, `evict` and `checkpoint`.

use super::options::{
    ROUNDS, count, counts, direct, known, list, measure, method, seconds, set, size,
};
use clap::Args;
use forebay_aio::{MethodKind, WorkerLimits};
use forebay_bench::{MAX_COMBINE, MAX_DEPTH, PoolBench, PoolTask, bench_pool};
use forebay_engine::PrewarmMode;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct PoolArgs {
    /// A data directory that nothing runs on (it is only read), or a directory for a private
    /// relation
    #[arg(short = 'D', long = "pgdata", value_name = "DIR")]
    dir: PathBuf,
    /// Of a data directory, the relation's first file, as base/5/16384 [default: the largest]
    #[arg(long, value_name = "PATH")]
    relation: Option<String>,
    /// Size of a private relation [default: 1GB, or what suits the pool]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Size of the pool [default: 128MB, or all of the relation to prewarm or checkpoint]
    #[arg(long, value_name = "SIZE")]
    shared_buffers: Option<String>,
    /// Methods: sync, worker, io_uring, posix_aio [default: all]
    #[arg(long, value_name = "LIST")]
    io_method: Option<String>,
    /// Threads of method worker from the start on [default: 2, and up to 8 once they are missed]
    #[arg(long, value_name = "N")]
    io_workers: Option<String>,
    /// "data": only past the kernel's page cache; "": only through it [default: both]
    #[arg(long, value_name = "LIST")]
    io_direct: Option<String>,
    /// Combine limits in blocks [default: 16]
    #[arg(long, value_name = "LIST")]
    io_combine_limit: Option<String>,
    /// I/Os in flight [default: 32, for a checkpoint 16]
    #[arg(long, value_name = "N")]
    depth: Option<String>,
    /// How often each run is made [default: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ScanArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// Read the blocks in random order
    #[arg(long)]
    random: bool,
    /// Read only so many blocks [default: all]
    #[arg(long, value_name = "N")]
    blocks: Option<String>,
    /// Leave the kernel's cache and the pool as the scan before left them
    #[arg(long)]
    warm: bool,
}

#[derive(Debug, Args)]
pub(super) struct PrewarmArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// prefetch, read or buffer
    #[arg(long, value_name = "MODE", default_value = "buffer")]
    mode: String,
}

#[derive(Debug, Args)]
pub(super) struct EvictArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// Length of a run [default: 3]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<String>,
    /// Threads that change pages [default: 2]
    #[arg(long, value_name = "N")]
    threads: Option<String>,
}

pub(super) fn scan(args: &ScanArgs) -> Result<String, String> {
    let blocks = args.blocks.as_ref();
    let bench = PoolBench {
        random: args.random,
        most_blocks: blocks.map(|text| count("--blocks", u32::MAX)(text)).transpose()?,
        warm: args.warm,
        ..args.pool.plan(PoolTask::Scan)?
    };
    args.pool.run(&bench)
}

pub(super) fn prewarm(args: &PrewarmArgs) -> Result<String, String> {
    let modes = [
        ("prefetch", PrewarmMode::Prefetch),
        ("read", PrewarmMode::Read),
        ("buffer", PrewarmMode::Buffer),
    ];
    let mode = known("--mode", modes)(&args.mode)?;
    args.pool.run(&args.pool.plan(PoolTask::Prewarm(mode))?)
}

pub(super) fn evict(args: &EvictArgs) -> Result<String, String> {
    let mut bench = args.pool.plan(PoolTask::Evict)?;
    set(&mut bench.run_time, &args.seconds, seconds)?;
    set(&mut bench.threads, &args.threads, count("--threads", 64))?;
    args.pool.run(&bench)
}

pub(super) fn checkpoint(args: &PoolArgs) -> Result<String, String> {
    args.run(&args.plan(PoolTask::Checkpoint)?)
}

impl PoolArgs {
    fn plan(&self, task: PoolTask) -> Result<PoolBench, String> {
        let mut bench = PoolBench::new(task, self.dir.clone());
        bench.relation.clone_from(&self.relation);
        set(&mut bench.size, &self.size, |text| size("--size")(text).map(Some))?;
        let buffers = size("--shared-buffers");
        set(&mut bench.shared_buffers, &self.shared_buffers, |text| buffers(text).map(Some))?;
        set(&mut bench.methods, &self.io_method, list(method))?;
        if let Some(text) = &self.io_workers {
            let workers = WorkerLimits::fixed(count("--io-workers", WorkerLimits::MOST)(text)?);
            for method in &mut bench.methods {
                if let MethodKind::Worker(limits) = method {
                    *limits = workers;
                }
            }
        }
        set(&mut bench.direct, &self.io_direct, direct("data"))?;
        set(&mut bench.combine, &self.io_combine_limit, counts("--io-combine-limit", MAX_COMBINE))?;
        set(&mut bench.depth, &self.depth, count("--depth", MAX_DEPTH))?;
        set(&mut bench.rounds, &self.rounds, count("--rounds", ROUNDS))?;
        Ok(bench)
    }

    fn run(&self, bench: &PoolBench) -> Result<String, String> {
        measure(self.json, |progress| bench_pool(bench, progress))
    }
}
