//! `forebay bench replacement`.

use super::options::{counts, list, measure, options};
use clap::Args;
use forebay_bench::{ReplacementBench, bench_replacement};
use std::path::PathBuf;

options! {
    struct ReplacementOptions for ReplacementBench {
        /// Buffers of the pool for synthetic traces; 0: no synthetic traces [default: 4096]
        buffers: "N" => buffers by buffers;
        /// Sizes of pools for recorded traces, in percent of their pages [default: 5,10,25,50]
        percents: "LIST" => percents by counts("--percents", 1000);
        /// Only these policies, and the optimum [default: all]
        policies: "LIST" => policies by list(|name| Ok(name.to_owned()));
    }
}

#[derive(Debug, Args)]
pub(super) struct ReplacementArgs {
    /// Traces that servers have recorded with debug_buffer_trace
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    options: ReplacementOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn buffers(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("invalid value \"{text}\" for option --buffers"))
}

pub(super) fn replacement(args: &ReplacementArgs) -> Result<String, String> {
    let mut bench = ReplacementBench { traces: args.traces.clone(), ..ReplacementBench::default() };
    args.options.apply(&mut bench)?;
    measure(args.json, |progress| bench_replacement(&bench, progress))
}
