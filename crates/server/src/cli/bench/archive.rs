//! `forebay bench archive`.

use super::options::{ROUNDS, count, counts, direct, measure, method, options, some};
use clap::Args;
use forebay_bench::{ArchiveBench, bench_archive};
use std::path::PathBuf;

options! {
    struct ArchiveOptions for ArchiveBench {
        /// How many files wait, with a module that stores nothing; "": not measured [default:
        /// 12000,120000]
        marks: "LIST" => marks by marks;
        /// How many segments of 16 MB are stored; 0: none [default: 64]
        segments: "N" => segments by segments;
        /// How many of them at a time [default: 1,2,4]
        transfers: "LIST" => transfers by
            counts("--transfers", ArchiveBench::MOST_TRANSFERS);
        /// Store them in an object store instead: s3://BUCKET/PREFIX, gs:// or az://; what is
        /// stored is removed again
        archive: "URL" => archive by some(url);
        /// "wal": only past the kernel's page cache; "": only through it [default: both]
        io_direct: "LIST" => direct by direct("wal");
        /// sync, worker, io_uring, posix_aio [default: io_uring, or worker where there is none]
        io_method: "METHOD" => method by method;
        /// How often each run is made [default: 3]
        rounds: "N" => rounds by count("--rounds", ROUNDS);
    }
}

#[derive(Debug, Args)]
pub(super) struct ArchiveArgs {
    /// A directory on the disk that is meant; a log and an archive are made in there, and removed
    #[arg(short = 'D', long = "directory", value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    options: ArchiveOptions,
    /// A first impression: 12000 files, 8 segments, one round
    #[arg(long)]
    quick: bool,
    /// Don't run fio beside it
    #[arg(long)]
    alone: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn archive(args: &ArchiveArgs) -> Result<String, String> {
    let mut bench = ArchiveBench::new(args.dir.clone());
    bench.alone = args.alone;
    if args.quick {
        (bench.marks, bench.segments, bench.rounds) = (vec![12_000], 8, 1);
    }
    args.options.apply(&mut bench)?;
    measure(args.json, |progress| bench_archive(&bench, progress))
}

fn marks(text: &str) -> Result<Vec<u64>, String> {
    if text.is_empty() { Ok(vec![]) } else { counts("--marks", ArchiveBench::MOST_MARKS)(text) }
}

fn segments(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { count("--segments", ArchiveBench::MOST_SEGMENTS)(text) }
}

fn url(text: &str) -> Result<String, String> {
    if text.contains("://") {
        return Ok(text.to_owned());
    }
    Err(format!(
        "invalid value \"{text}\" for option --archive: it must be a URL; directories are measured \
         without it"
    ))
}
