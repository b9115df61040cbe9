//! `forebay bench scan|prewarm|evict|checkpoint`: the buffer pool on relation files.

use super::{ROUNDS, bar, count, direct_modes, list, method, seconds, size};
use clap::Args;
use forebay_engine::bench::{IoBench, MethodChoice, PoolBench, PoolTask, bench_pool};
use forebay_engine::{EngineError, PrewarmMode, WorkerLimits};
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
    let most = args
        .blocks
        .as_ref()
        .map(|text| count(text, "--blocks", u64::from(u32::MAX)))
        .transpose()?;
    let most_blocks = most.map(|blocks| blocks as u32);
    let bench = PoolBench {
        random: args.random,
        most_blocks,
        warm: args.warm,
        ..args.pool.plan(PoolTask::Scan)?
    };
    args.pool.run(&bench)
}

pub(super) fn prewarm(args: &PrewarmArgs) -> Result<String, String> {
    let mode = match args.mode.as_str() {
        "prefetch" => PrewarmMode::Prefetch,
        "read" => PrewarmMode::Read,
        "buffer" => PrewarmMode::Buffer,
        other => return Err(format!("invalid value \"{other}\" for option --mode")),
    };
    args.pool.run(&args.pool.plan(PoolTask::Prewarm(mode))?)
}

pub(super) fn evict(args: &EvictArgs) -> Result<String, String> {
    let mut bench = args.pool.plan(PoolTask::Evict)?;
    if let Some(text) = &args.seconds {
        bench.run_time = seconds(text)?;
    }
    if let Some(text) = &args.threads {
        bench.threads = count(text, "--threads", 64)? as usize;
    }
    args.pool.run(&bench)
}

pub(super) fn checkpoint(args: &PoolArgs) -> Result<String, String> {
    args.run(&args.plan(PoolTask::Checkpoint)?)
}

impl PoolArgs {
    fn plan(&self, task: PoolTask) -> Result<PoolBench, String> {
        let mut bench = PoolBench::new(task, self.dir.clone());
        bench.relation.clone_from(&self.relation);
        bench.size = self.size.as_ref().map(|text| size(text, "--size")).transpose()?;
        bench.shared_buffers =
            self.shared_buffers.as_ref().map(|text| size(text, "--shared-buffers")).transpose()?;
        if let Some(text) = &self.io_method {
            bench.methods = list(text, method)?;
        }
        if let Some(text) = &self.io_workers {
            let workers =
                WorkerLimits::fixed(
                    count(text, "--io-workers", WorkerLimits::MOST as u64)? as usize
                );
            for method in &mut bench.methods {
                if let MethodChoice::Worker(limits) = method {
                    *limits = workers;
                }
            }
        }
        if let Some(text) = &self.io_direct {
            bench.direct = direct_modes(text)?;
        }
        if let Some(text) = &self.io_combine_limit {
            let most = u64::from(IoBench::MAX_COMBINE);
            bench.combine = list(text, |n| Ok(count(n, "--io-combine-limit", most)? as u32))?;
        }
        if let Some(text) = &self.depth {
            bench.depth = count(text, "--depth", u64::from(IoBench::MAX_DEPTH))? as u32;
        }
        if let Some(text) = &self.rounds {
            bench.rounds = count(text, "--rounds", ROUNDS)? as usize;
        }
        Ok(bench)
    }

    fn run(&self, bench: &PoolBench) -> Result<String, String> {
        let bar = bar();
        let report = bench_pool(bench, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let report = report.map_err(|error: EngineError| error.to_string())?;
        Ok(if self.json { report.json() } else { report.text() })
    }
}
