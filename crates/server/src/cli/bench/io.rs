//! `forebay bench io`.

use super::options::{
    ROUNDS, count, counts, direct, known, list, measure, method, seconds, set, size,
};
use clap::Args;
use forebay_aio::sync::Duration;
use forebay_bench::{IoBench, IoTable, MAX_COMBINE, MAX_DEPTH, bench_io};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct IoArgs {
    /// A directory for a private file, or a file of whole pages that is only read
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Size of the private file [default: 1GB]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Length of a run [default: 0.25]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<String>,
    /// How often each run is made [default: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// A first impression: 64 MB, one round of 0.05 s
    #[arg(long)]
    quick: bool,
    /// Methods: sync, worker, io_uring, posix_aio [default: all]
    #[arg(long, value_name = "LIST")]
    io_method: Option<String>,
    /// "data": only past the kernel's page cache; "": only through it [default: both]
    #[arg(long, value_name = "LIST")]
    io_direct: Option<String>,
    /// Combine limits in blocks [default: 1,2,4,8,16,32]
    #[arg(long, value_name = "LIST")]
    io_combine_limit: Option<String>,
    /// Depths of the tables by depth [default: 1,2,4,8,16,32,64]
    #[arg(long, value_name = "LIST")]
    depths: Option<String>,
    /// Depth of the other tables [default: 32]
    #[arg(long, value_name = "N")]
    depth: Option<String>,
    /// Tables: read, read-depth, checksums, write, write-depth, alignment [default: all]
    #[arg(long, value_name = "LIST")]
    tables: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn io(args: &IoArgs) -> Result<String, String> {
    let bench = args.plan()?;
    measure(args.json, |progress| bench_io(&bench, progress))
}

impl IoArgs {
    fn plan(&self) -> Result<IoBench, String> {
        let mut bench = IoBench::new(self.path.clone());
        if self.quick {
            (bench.size, bench.rounds, bench.run_time) = (64 << 20, 1, Duration::from_millis(50));
        }
        set(&mut bench.size, &self.size, size("--size"))?;
        set(&mut bench.run_time, &self.seconds, seconds)?;
        set(&mut bench.rounds, &self.rounds, count("--rounds", ROUNDS))?;
        set(&mut bench.methods, &self.io_method, list(method))?;
        set(&mut bench.direct, &self.io_direct, direct("data"))?;
        set(&mut bench.combine, &self.io_combine_limit, counts("--io-combine-limit", MAX_COMBINE))?;
        set(&mut bench.depths, &self.depths, counts("--depths", MAX_DEPTH))?;
        set(&mut bench.depth, &self.depth, count("--depth", MAX_DEPTH))?;
        let tables = IoTable::ALL.map(|table| (table.name(), table));
        set(&mut bench.tables, &self.tables, list(known("--tables", tables)))?;
        Ok(bench)
    }
}
