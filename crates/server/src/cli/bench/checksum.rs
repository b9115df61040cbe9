//! `forebay bench checksum`.

use super::options::{ROUNDS, count, memory, set};
use clap::Args;
use forebay_bench::{ChecksumBench, bench_checksum};

#[derive(Debug, Args)]
pub(super) struct ChecksumArgs {
    /// Memory for the cold figures, much larger than the processor's caches [default: 1GB]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Memory for the hot figures [default: 128kB]
    #[arg(long, value_name = "SIZE")]
    hot_size: Option<String>,
    /// How often everything is measured [default: 7]
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// A first impression: 256 MB, 3 rounds
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn checksum(args: &ChecksumArgs) -> Result<String, String> {
    let report = bench_checksum(&args.plan()?).map_err(|error| error.to_string())?;
    Ok(if args.json { report.json() } else { report.text() }.to_owned())
}

impl ChecksumArgs {
    fn plan(&self) -> Result<ChecksumBench, String> {
        let mut bench = ChecksumBench::default();
        if self.quick {
            (bench.cold_bytes, bench.rounds, bench.hot_seconds) = (256 << 20, 3, 0.002);
        }
        set(&mut bench.cold_bytes, &self.size, memory("--size"))?;
        set(&mut bench.hot_bytes, &self.hot_size, memory("--hot-size"))?;
        set(&mut bench.rounds, &self.rounds, count("--rounds", ROUNDS))?;
        Ok(bench)
    }
}
