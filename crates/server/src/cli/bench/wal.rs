//! `forebay bench wal`: commits, insertion alone and bulk insertion, beside fio and pg_test_fsync.

use super::device::{self, Fio};
use super::{ROUNDS, bar, count, list, method, seconds, size};
use clap::Args;
use forebay_aio::sync::Duration;
use forebay_engine::bench::{
    BenchError, IoBench, WAL_SYNC_METHODS, WalBench, WalReport, WalTable, bench_wal,
};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct WalArgs {
    /// A directory on the disk that is meant; a log of its own is made in there, and removed
    #[arg(short = 'D', long = "directory", value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Tables: commit, insert, bulk [default: all]
    #[arg(long, value_name = "LIST")]
    tables: Option<String>,
    /// Sync methods [default: fdatasync,open_datasync,fsync,open_sync]
    #[arg(long, value_name = "LIST")]
    wal_sync_method: Option<String>,
    /// "wal": only past the kernel's page cache; "": only through it [default: both]
    #[arg(long, value_name = "LIST")]
    io_direct: Option<String>,
    /// Whether one write takes all blocks that are ready: on, off or both [default: on,off]
    #[arg(long, value_name = "LIST")]
    gather: Option<String>,
    /// Methods: sync, worker, io_uring, posix_aio [default: io_uring, or worker where there is
    /// none]
    #[arg(long, value_name = "LIST")]
    io_method: Option<String>,
    /// How many commit at a time [default: 1,2,4,8,16,32,64]
    #[arg(long, value_name = "LIST")]
    committers: Option<String>,
    /// Bytes of a committer's record in the log, 8168 fill a block [default: 128,8168]
    #[arg(long, value_name = "LIST")]
    record_sizes: Option<String>,
    /// Threads that insert without committing; the most of them in bulk [default: 1,2,4]
    #[arg(long, value_name = "LIST")]
    inserters: Option<String>,
    /// Bytes of their records [default: 64,256,1024,8168]
    #[arg(long, value_name = "LIST")]
    insert_sizes: Option<String>,
    /// Most pieces on their way at once, each written by one committer [default: 2, or as many as
    /// commit where each block is durable by a write of its own]
    #[arg(long, value_name = "N")]
    writes_in_flight: Option<String>,
    /// Size of the log's buffers [default: 16MB]
    #[arg(long, value_name = "SIZE")]
    wal_buffers: Option<String>,
    /// Segments that are there before a run [default: 256MB]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Length of a run [default: 0.25]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<String>,
    /// How often each run is made [default: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// A first impression: 1, 4 and 16 committers, one round of 0.05 s
    #[arg(long)]
    quick: bool,
    /// Don't run fio or pg_test_fsync beside it
    #[arg(long)]
    alone: bool,
    /// pg_test_fsync, with what it is to be called with [default: where PATH or Debian has it]
    #[arg(long, value_name = "COMMAND", conflicts_with = "alone")]
    pg_test_fsync: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn wal(args: &WalArgs) -> Result<String, String> {
    let bench = args.plan()?;
    let mut fio = Fio::new(bench.size, args.alone);
    let bar = bar();
    let report =
        bench_wal(&bench, &mut |dir, job, time| fio.ask(dir, job, time), &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
    bar.finish_and_clear();
    let mut report: WalReport = report.map_err(|error: BenchError| error.to_string())?;
    report.notes.extend(fio.note());
    if !args.alone && bench.tables.contains(&WalTable::Commit) {
        match device::pg_test_fsync(args.pg_test_fsync.as_deref(), &bench.dir) {
            Ok(rates) => report.pg_test_fsync = rates,
            Err(note) => report.notes.push(note),
        }
    }
    Ok(if args.json { report.json() } else { report.text() })
}

impl WalArgs {
    fn plan(&self) -> Result<WalBench, String> {
        let mut bench = WalBench::new(self.dir.clone());
        if self.quick {
            (bench.rounds, bench.run_time, bench.size) = (1, Duration::from_millis(50), 64 << 20);
            bench.committers = vec![1, 4, 16];
        }
        let threads = u64::from(WalBench::MOST_THREADS);
        let bytes = u64::from(WalBench::MOST_BYTES);
        let numbers =
            |text: &str, option: &str, most| list(text, |n| Ok(count(n, option, most)? as u32));
        if let Some(text) = &self.tables {
            bench.tables = list(text, |name| {
                known(name, "--tables", WalTable::ALL.map(|it| (it.name(), it)))
            })?;
        }
        if let Some(text) = &self.wal_sync_method {
            bench.sync_methods =
                list(text, |name| known(name, "--wal-sync-method", WAL_SYNC_METHODS))?;
        }
        if let Some(text) = &self.io_direct {
            bench.direct = vec![known(text, "--io-direct", [("", false), ("wal", true)])?];
        }
        if let Some(text) = &self.gather {
            bench.gather =
                list(text, |name| known(name, "--gather", [("off", false), ("on", true)]))?;
        }
        if let Some(text) = &self.io_method {
            bench.methods = list(text, method)?;
        }
        if let Some(text) = &self.committers {
            bench.committers = numbers(text, "--committers", threads)?;
        }
        if let Some(text) = &self.record_sizes {
            bench.record_sizes = numbers(text, "--record-sizes", bytes)?;
        }
        if let Some(text) = &self.inserters {
            bench.inserters = numbers(text, "--inserters", threads)?;
        }
        if let Some(text) = &self.insert_sizes {
            bench.insert_sizes = numbers(text, "--insert-sizes", bytes)?;
        }
        if let Some(text) = &self.writes_in_flight {
            let most = u64::from(IoBench::MAX_DEPTH);
            bench.in_flight = Some(count(text, "--writes-in-flight", most)? as u32);
        }
        if let Some(text) = &self.wal_buffers {
            bench.wal_buffers = size(text, "--wal-buffers")?;
        }
        if let Some(text) = &self.size {
            bench.size = size(text, "--size")?;
        }
        if let Some(text) = &self.seconds {
            bench.run_time = seconds(text)?;
        }
        if let Some(text) = &self.rounds {
            bench.rounds = count(text, "--rounds", ROUNDS)? as usize;
        }
        Ok(bench)
    }
}

/// What bears that name.
fn known<T>(
    name: &str,
    option: &str,
    names: impl IntoIterator<Item = (&'static str, T)>,
) -> Result<T, String> {
    let found = names.into_iter().find(|(known, _)| *known == name);
    found
        .map(|(_, value)| value)
        .ok_or_else(|| format!("invalid value \"{name}\" for option {option}"))
}
