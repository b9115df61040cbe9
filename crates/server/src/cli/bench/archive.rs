//! `forebay bench archive`: the archiver at a start with many files that wait, and segments stored
//! in a directory, beside fio, or in an object store.

use super::device::Fio;
use super::{ROUNDS, bar, count, list, method};
use clap::Args;
use forebay_engine::bench::{ArchiveBench, BenchError, bench_archive};
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
    let mut fio = Fio::new(0, args.alone);
    let bar = bar();
    let report =
        bench_archive(&bench, &mut |dir, job, time| fio.ask(dir, job, time), &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
    bar.finish_and_clear();
    let mut report = report.map_err(|error: BenchError| error.to_string())?;
    report.notes.extend(fio.note());
    Ok(if args.json { report.json() } else { report.text() })
}

impl ArchiveArgs {
    fn plan(&self) -> Result<ArchiveBench, String> {
        let mut bench = ArchiveBench::new(self.dir.clone());
        if self.quick {
            (bench.marks, bench.segments, bench.rounds) = (vec![12_000], 8, 1);
        }
        if let Some(text) = &self.marks {
            let number = |n: &str| count(n, "--marks", ArchiveBench::MOST_MARKS);
            bench.marks = if text.is_empty() { Vec::new() } else { list(text, number)? };
        }
        if let Some(text) = &self.segments {
            let most = ArchiveBench::MOST_SEGMENTS;
            bench.segments = if text == "0" { 0 } else { count(text, "--segments", most)? };
        }
        if let Some(text) = &self.transfers {
            let most = ArchiveBench::MOST_TRANSFERS;
            bench.transfers = list(text, |n| Ok(count(n, "--transfers", most)? as usize))?;
        }
        if let Some(url) = &self.archive {
            if !url.contains("://") {
                return Err(format!(
                    "invalid value \"{url}\" for option --archive: it must be a URL; directories are measured without it"
                ));
            }
            bench.archive = Some(url.clone());
        }
        if let Some(text) = &self.io_direct {
            bench.direct = match text.as_str() {
                "" => vec![false],
                "wal" => vec![true],
                other => return Err(format!("invalid value \"{other}\" for option --io-direct")),
            };
        }
        if let Some(text) = &self.io_method {
            bench.method = method(text)?;
        }
        if let Some(text) = &self.rounds {
            bench.rounds = count(text, "--rounds", ROUNDS)? as usize;
        }
        Ok(bench)
    }
}
