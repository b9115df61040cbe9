//! `forebay bench wal`.

use super::options::{
    ROUNDS, count, counts, direct, known, list, measure, method, options, seconds, size, some,
};
use clap::Args;
use forebay_aio::sync::Duration;
use forebay_bench::{MAX_DEPTH, WAL_SYNC_METHODS, WalBench, WalTable, bench_wal};
use std::path::PathBuf;

options! {
    struct WalOptions for WalBench {
        /// Tables: commit, insert, bulk [default: all]
        tables: "LIST" => tables by
            list(known("--tables", WalTable::ALL.map(|table| (table.name(), table))));
        /// Sync methods [default: fdatasync,open_datasync,fsync,open_sync]
        wal_sync_method: "LIST" => sync_methods by
            list(known("--wal-sync-method", WAL_SYNC_METHODS));
        /// "wal": only past the kernel's page cache; "": only through it [default: both]
        io_direct: "LIST" => direct by direct("wal");
        /// Whether one write takes all blocks that are ready: on, off or both [default: on,off]
        gather: "LIST" => gather by list(known("--gather", [("off", false), ("on", true)]));
        /// Methods: sync, worker, io_uring, posix_aio [default: io_uring, or worker where there is
        /// none]
        io_method: "LIST" => methods by list(method);
        /// How many commit at a time [default: 1,2,4,8,16,32,64]
        committers: "LIST" => committers by counts("--committers", WalBench::MOST_THREADS);
        /// Bytes of a committer's record in the log, 8168 fill a block [default: 128,8168]
        record_sizes: "LIST" => record_sizes by counts("--record-sizes", WalBench::MOST_BYTES);
        /// Threads that insert without committing; the most of them in bulk [default: 1,2,4]
        inserters: "LIST" => inserters by counts("--inserters", WalBench::MOST_THREADS);
        /// Bytes of their records [default: 64,256,1024,8168]
        insert_sizes: "LIST" => insert_sizes by counts("--insert-sizes", WalBench::MOST_BYTES);
        /// Most pieces on their way at once, each written by one committer [default: 2, or as many
        /// as commit where each block is durable by a write of its own]
        writes_in_flight: "N" => in_flight by some(count("--writes-in-flight", MAX_DEPTH));
        /// Size of the log's buffers [default: 16MB]
        wal_buffers: "SIZE" => wal_buffers by size("--wal-buffers");
        /// Segments that are there before a run [default: 256MB]
        size: "SIZE" => size by size("--size");
        /// Length of a run [default: 0.25]
        seconds: "SECONDS" => run_time by seconds;
        /// How often each run is made [default: 3]
        rounds: "N" => rounds by count("--rounds", ROUNDS);
    }
}

#[derive(Debug, Args)]
pub(super) struct WalArgs {
    /// A directory on the disk that is meant; a log of its own is made in there, and removed
    #[arg(short = 'D', long = "directory", value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    options: WalOptions,
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
    let mut bench = WalBench::new(args.dir.clone());
    bench.alone = args.alone;
    bench.pg_test_fsync.clone_from(&args.pg_test_fsync);
    if args.quick {
        (bench.rounds, bench.run_time, bench.size) = (1, Duration::from_millis(50), 64 << 20);
        bench.committers = vec![1, 4, 16];
    }
    args.options.apply(&mut bench)?;
    measure(args.json, |progress| bench_wal(&bench, progress))
}
