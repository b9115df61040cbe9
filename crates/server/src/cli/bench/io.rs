//! `forebay bench io`.

use super::options::{
    ROUNDS, count, counts, direct, known, list, measure, method, options, seconds, size,
};
use clap::Args;
use forebay_aio::sync::Duration;
use forebay_bench::{IoBench, IoTable, MAX_COMBINE, MAX_DEPTH, bench_io};
use std::path::PathBuf;

options! {
    struct IoOptions for IoBench {
        /// Size of the private file [default: 1GB]
        size: "SIZE" => size by size("--size");
        /// Length of a run [default: 0.25]
        seconds: "SECONDS" => run_time by seconds;
        /// How often each run is made [default: 3]
        rounds: "N" => rounds by count("--rounds", ROUNDS);
        /// Methods: sync, worker, io_uring, posix_aio [default: all]
        io_method: "LIST" => methods by list(method);
        /// "data": only past the kernel's page cache; "": only through it [default: both]
        io_direct: "LIST" => direct by direct("data");
        /// Combine limits in blocks [default: 1,2,4,8,16,32]
        io_combine_limit: "LIST" => combine by counts("--io-combine-limit", MAX_COMBINE);
        /// Depths of the tables by depth [default: 1,2,4,8,16,32,64]
        depths: "LIST" => depths by counts("--depths", MAX_DEPTH);
        /// Depth of the other tables [default: 32]
        depth: "N" => depth by count("--depth", MAX_DEPTH);
        /// Tables: read, read-depth, checksums, write, write-depth, alignment [default: all]
        tables: "LIST" => tables by
            list(known("--tables", IoTable::ALL.map(|table| (table.name(), table))));
    }
}

#[derive(Debug, Args)]
pub(super) struct IoArgs {
    /// A directory for a private file, or a file of whole pages that is only read
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    #[command(flatten)]
    options: IoOptions,
    /// A first impression: 64 MB, one round of 0.05 s
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn io(args: &IoArgs) -> Result<String, String> {
    let mut bench = IoBench::new(args.path.clone());
    if args.quick {
        (bench.size, bench.rounds, bench.run_time) = (64 << 20, 1, Duration::from_millis(50));
    }
    args.options.apply(&mut bench)?;
    measure(args.json, |progress| bench_io(&bench, progress))
}
