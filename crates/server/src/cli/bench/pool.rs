//! `forebay bench scan`, `prewarm`, `evict` and `checkpoint`.

use super::options::{
    ROUNDS, count, counts, direct, known, list, measure, method, options, seconds, size, some,
};
use clap::Args;
use forebay_aio::{MethodKind, WorkerLimits};
use forebay_bench::{MAX_COMBINE, MAX_DEPTH, PoolBench, PoolTask, bench_pool};
use forebay_engine::PrewarmMode;
use std::path::PathBuf;

options! {
    struct PoolOptions for PoolBench {
        /// Size of a private relation [default: 1GB, or what suits the pool]
        size: "SIZE" => size by some(size("--size"));
        /// Size of the pool [default: 128MB, or all of the relation to prewarm or checkpoint]
        shared_buffers: "SIZE" => shared_buffers by some(size("--shared-buffers"));
        /// Methods: sync, worker, io_uring, posix_aio [default: all]
        io_method: "LIST" => methods by list(method);
        /// "data": only past the kernel's page cache; "": only through it [default: both]
        io_direct: "LIST" => direct by direct("data");
        /// Combine limits in blocks [default: 16]
        io_combine_limit: "LIST" => combine by counts("--io-combine-limit", MAX_COMBINE);
        /// I/Os in flight [default: 32, for a checkpoint 16]
        depth: "N" => depth by count("--depth", MAX_DEPTH);
        /// How often each run is made [default: 3]
        rounds: "N" => rounds by count("--rounds", ROUNDS);
    }
}

options! {
    struct EvictOptions for PoolBench {
        /// Length of a run [default: 3]
        seconds: "SECONDS" => run_time by seconds;
        /// Threads that change pages [default: 2]
        threads: "N" => threads by count("--threads", 64);
    }
}

options! {
    struct ScanOptions for PoolBench {
        /// Read only so many blocks [default: all]
        blocks: "N" => most_blocks by some(count("--blocks", u32::MAX));
    }
}

#[derive(Debug, Args)]
pub(super) struct PoolArgs {
    /// A data directory that nothing runs on (it is only read), or a directory for a private
    /// relation
    #[arg(short = 'D', long = "pgdata", value_name = "DIR")]
    dir: PathBuf,
    /// Of a data directory, the relation's first file, as base/5/16384 [default: the largest]
    #[arg(long, value_name = "PATH")]
    relation: Option<String>,
    /// Threads of method worker from the start on [default: 2, and up to 8 once they are missed]
    #[arg(long, value_name = "N")]
    io_workers: Option<String>,
    #[command(flatten)]
    options: PoolOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ScanArgs {
    #[command(flatten)]
    pool: PoolArgs,
    #[command(flatten)]
    options: ScanOptions,
    /// Read the blocks in random order
    #[arg(long)]
    random: bool,
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
    #[command(flatten)]
    options: EvictOptions,
}

pub(super) fn scan(args: &ScanArgs) -> Result<String, String> {
    let mut bench = args.pool.plan(PoolTask::Scan)?;
    (bench.random, bench.warm) = (args.random, args.warm);
    args.options.apply(&mut bench)?;
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
    args.options.apply(&mut bench)?;
    args.pool.run(&bench)
}

pub(super) fn checkpoint(args: &PoolArgs) -> Result<String, String> {
    args.run(&args.plan(PoolTask::Checkpoint)?)
}

impl PoolArgs {
    fn plan(&self, task: PoolTask) -> Result<PoolBench, String> {
        let mut bench = PoolBench::new(task, self.dir.clone());
        bench.relation.clone_from(&self.relation);
        self.options.apply(&mut bench)?;
        if let Some(text) = &self.io_workers {
            let workers = WorkerLimits::fixed(count("--io-workers", WorkerLimits::MOST)(text)?);
            for method in &mut bench.methods {
                if let MethodKind::Worker(limits) = method {
                    *limits = workers;
                }
            }
        }
        Ok(bench)
    }

    fn run(&self, bench: &PoolBench) -> Result<String, String> {
        measure(self.json, |progress| bench_pool(bench, progress))
    }
}
