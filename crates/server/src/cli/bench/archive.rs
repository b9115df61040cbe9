//! `forebay bench archive`.

use super::options::{ROUNDS, count, counts, direct, measure, method, set};
use clap::Args;
use forebay_bench::{ArchiveBench, bench_archive};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct ArchiveArgs {
    /// A directory on the disk that is meant; a log and an archive are made in there, and removed
    #[arg(short = 'D', long = "directory", value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// How many files wait, with a module that stores nothing; "": not measured [default:
    /// 12000,120000]
    #[arg(long, value_name = "LIST")]
    marks: Option<String>,
    /// How many segments of 16 MB are stored; 0: none [default: 64]
    #[arg(long, value_name = "N")]
    segments: Option<String>,
    /// How many of them at a time [default: 1,2,4]
    #[arg(long, value_name = "LIST")]
    transfers: Option<String>,
    /// Store them in an object store instead: s3://BUCKET/PREFIX, gs:// or az://; what is stored is
    /// removed again
    #[arg(long, value_name = "URL")]
    archive: Option<String>,
    /// "wal": only past the kernel's page cache; "": only through it [default: both]
    #[arg(long, value_name = "LIST")]
    io_direct: Option<String>,
    /// sync, worker, io_uring, posix_aio [default: io_uring, or worker where there is none]
    #[arg(long, value_name = "METHOD")]
    io_method: Option<String>,
    /// How often each run is made [default: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
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
    let bench = args.plan()?;
    measure(args.json, |progress| bench_archive(&bench, progress))
}

impl ArchiveArgs {
    fn plan(&self) -> Result<ArchiveBench, String> {
        let mut bench = ArchiveBench::new(self.dir.clone());
        bench.alone = self.alone;
        if self.quick {
            (bench.marks, bench.segments, bench.rounds) = (vec![12_000], 8, 1);
        }
        if let Some(text) = &self.marks {
            let most = ArchiveBench::MOST_MARKS;
            bench.marks = if text.is_empty() { vec![] } else { counts("--marks", most)(text)? };
        }
        if let Some(text) = &self.segments {
            let most = ArchiveBench::MOST_SEGMENTS;
            bench.segments = if text == "0" { 0 } else { count("--segments", most)(text)? };
        }
        let transfers = counts("--transfers", ArchiveBench::MOST_TRANSFERS);
        set(&mut bench.transfers, &self.transfers, transfers)?;
        if let Some(url) = &self.archive {
            if !url.contains("://") {
                return Err(format!(
                    "invalid value \"{url}\" for option --archive: it must be a URL; \
                     directories are measured without it"
                ));
            }
            bench.archive = Some(url.clone());
        }
        set(&mut bench.direct, &self.io_direct, direct("wal"))?;
        set(&mut bench.method, &self.io_method, method)?;
        set(&mut bench.rounds, &self.rounds, count("--rounds", ROUNDS))?;
        Ok(bench)
    }
}
