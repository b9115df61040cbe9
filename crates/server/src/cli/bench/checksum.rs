//! `forebay bench checksum`.

use super::options::{ROUNDS, count, measure, memory, options};
use clap::Args;
use forebay_bench::{ChecksumBench, bench_checksum};

options! {
    struct ChecksumOptions for ChecksumBench {
        /// Memory for the cold figures, much larger than the processor's caches [default: 1GB]
        size: "SIZE" => cold_bytes by memory("--size");
        /// Memory for the hot figures [default: 128kB]
        hot_size: "SIZE" => hot_bytes by memory("--hot-size");
        /// How often everything is measured [default: 7]
        rounds: "N" => rounds by count("--rounds", ROUNDS);
    }
}

#[derive(Debug, Args)]
pub(super) struct ChecksumArgs {
    #[command(flatten)]
    options: ChecksumOptions,
    /// A first impression: 256 MB, 3 rounds
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn checksum(args: &ChecksumArgs) -> Result<String, String> {
    let mut bench = ChecksumBench::default();
    if args.quick {
        (bench.cold_bytes, bench.rounds, bench.hot_seconds) = (256 << 20, 3, 0.002);
    }
    args.options.apply(&mut bench)?;
    measure(args.json, |_| bench_checksum(&bench))
}
