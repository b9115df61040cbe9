//! `forebay bench wal`.

use super::options::{
    ROUNDS, count, counts, direct, known, list, measure, method, seconds, set, size,
};
use clap::Args;
use forebay_aio::sync::Duration;
use forebay_bench::{MAX_DEPTH, WAL_SYNC_METHODS, WalBench, WalTable, bench_wal};
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
    measure(args.json, |progress| bench_wal(&bench, progress))
}

impl WalArgs {
    fn plan(&self) -> Result<WalBench, String> {
        let mut bench = WalBench::new(self.dir.clone());
        bench.alone = self.alone;
        bench.pg_test_fsync.clone_from(&self.pg_test_fsync);
        if self.quick {
            (bench.rounds, bench.run_time, bench.size) = (1, Duration::from_millis(50), 64 << 20);
            bench.committers = vec![1, 4, 16];
        }
        let on_off = [("off", false), ("on", true)];
        let (threads, bytes) = (WalBench::MOST_THREADS, WalBench::MOST_BYTES);
        let tables = WalTable::ALL.map(|table| (table.name(), table));
        set(&mut bench.tables, &self.tables, list(known("--tables", tables)))?;
        let sync_method = known("--wal-sync-method", WAL_SYNC_METHODS);
        set(&mut bench.sync_methods, &self.wal_sync_method, list(sync_method))?;
        set(&mut bench.direct, &self.io_direct, direct("wal"))?;
        set(&mut bench.gather, &self.gather, list(known("--gather", on_off)))?;
        set(&mut bench.methods, &self.io_method, list(method))?;
        set(&mut bench.committers, &self.committers, counts("--committers", threads))?;
        set(&mut bench.record_sizes, &self.record_sizes, counts("--record-sizes", bytes))?;
        set(&mut bench.inserters, &self.inserters, counts("--inserters", threads))?;
        set(&mut bench.insert_sizes, &self.insert_sizes, counts("--insert-sizes", bytes))?;
        let in_flight = count("--writes-in-flight", MAX_DEPTH);
        let in_flight = |text: &str| in_flight(text).map(Some);
        set(&mut bench.in_flight, &self.writes_in_flight, in_flight)?;
        set(&mut bench.wal_buffers, &self.wal_buffers, size("--wal-buffers"))?;
        set(&mut bench.size, &self.size, size("--size"))?;
        set(&mut bench.run_time, &self.seconds, seconds)?;
        set(&mut bench.rounds, &self.rounds, count("--rounds", ROUNDS))?;
        Ok(bench)
    }
}
