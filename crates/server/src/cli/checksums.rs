//! `forebay checksums`: PostgreSQL's pg_checksums, by asynchronous I/O.

use clap::Args;
use forebay_engine::checksums::{
    BadBlock, ChecksumCounts, ChecksumMode, ChecksumObserver, ChecksumOptions, checksums,
};
use forebay_engine::{EngineError, IoDirect, IoMethod};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct ChecksumsArgs {
    /// Data directory of a PostgreSQL 15 to 18 or Forebay cluster that is shut down
    #[arg(short = 'D', long = "pgdata", value_name = "DIR", default_value = super::DEFAULT_DIR)]
    data_dir: PathBuf,
    /// Check the checksums of all pages (default)
    #[arg(short, long)]
    check: bool,
    /// Enable checksums: set them in all pages
    #[arg(short, long, conflicts_with = "check")]
    enable: bool,
    /// Disable checksums
    #[arg(short, long, conflicts_with_all = ["check", "enable"])]
    disable: bool,
    /// Check only the relation of this file number
    #[arg(short, long, value_name = "FILENODE")]
    filenode: Option<String>,
    /// Do not wait for changes to be on disk
    #[arg(short = 'N', long)]
    no_sync: bool,
    /// Show progress
    #[arg(short = 'P', long)]
    progress: bool,
    /// Name every file
    #[arg(short, long)]
    verbose: bool,
    /// sync, worker, io_uring, posix_aio, or auto: io_uring where it can be had, else worker
    #[arg(long, value_name = "METHOD", default_value = "worker")]
    io_method: String,
    /// "data": bypass the kernel's page cache
    #[arg(long, value_name = "LIST", default_value = "")]
    io_direct: String,
    /// Blocks in one read
    #[arg(long, value_name = "BLOCKS", default_value = "16")]
    io_combine_limit: String,
}

impl ChecksumsArgs {
    fn options(&self) -> Result<ChecksumOptions, String> {
        let mode = match (self.enable, self.disable) {
            (true, _) => ChecksumMode::Enable,
            (_, true) => ChecksumMode::Disable,
            _ => ChecksumMode::Check,
        };
        if self.filenode.is_some() && mode != ChecksumMode::Check {
            return Err("option -f/--filenode can only be used with --check".to_owned());
        }
        if let Some(text) = &self.filenode {
            number(text, "-f/--filenode", 0, u32::MAX)?;
        }
        let io_method = IoMethod::by_name(&self.io_method)
            .ok_or_else(|| format!("invalid value \"{}\" for option --io-method", self.io_method))?;
        let direct = IoDirect::parse(&self.io_direct)
            .map_err(|e| e.to_string())
            .and_then(|d| if d.wal || d.wal_init { Err("Only \"data\" is read.".to_owned()) } else { Ok(d) })
            .map_err(|e| format!("invalid value \"{}\" for option --io-direct: {e}", self.io_direct))?;
        let most = ChecksumOptions::MAX_COMBINE;
        let io_combine_limit = number(&self.io_combine_limit, "--io-combine-limit", 1, most)?;
        let sync = !self.no_sync;
        Ok(ChecksumOptions {
            mode,
            filenode: self.filenode.clone(),
            io_method,
            direct: direct.data,
            io_combine_limit,
            sync,
        })
    }
}

/// Words as pg_checksums'.
fn number(text: &str, option: &str, least: u32, most: u32) -> Result<u32, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(value) if digits && (least..=most).contains(&value) => Ok(value),
        _ if digits => Err(format!("{option} must be in range {least}..{most}")),
        _ => Err(format!("invalid value \"{text}\" for option {option}")),
    }
}

/// Runs the command; the process's exit code.
pub(super) fn run(args: &ChecksumsArgs) -> u8 {
    let options = match args.options() {
        Ok(options) => options,
        Err(message) => {
            tell("error: ", message);
            return 1;
        }
    };
    let mut report = Report { mode: options.mode, verbose: args.verbose, bar: None };
    if args.progress {
        report.bar = Some(bar());
    }
    match checksums(&args.data_dir, &options, &mut report) {
        Ok(counts) => {
            report.clear_bar();
            report.result(&counts);
            u8::from(counts.bad_blocks > 0)
        }
        Err(error) => {
            report.clear_bar();
            tell_error(&error);
            1
        }
    }
}

fn tell(kind: &str, message: impl Display) {
    eprintln!("forebay checksums: {kind}{message}");
}

fn tell_error(error: &EngineError) {
    tell("error: ", error);
    for (kind, text) in [("detail: ", error.detail()), ("hint: ", error.hint())] {
        if let Some(text) = text {
            tell(kind, text);
        }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    ProgressBar::new(0)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message("computing checksums")
}

/// Prints what happens as it happens.
struct Report {
    mode: ChecksumMode,
    verbose: bool,
    /// Nothing is drawn where there is no terminal.
    bar: Option<ProgressBar>,
}

impl Report {
    fn clear_bar(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Lines on stderr and a bar there must not mix.
    fn line(&self, kind: &str, message: impl Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tell(kind, message)),
            None => tell(kind, message),
        }
    }

    fn result(&self, counts: &ChecksumCounts) {
        if self.mode == ChecksumMode::Check {
            return;
        }
        if self.verbose {
            println!("Data checksum version: {}", counts.checksum_version);
        }
        let done = if self.mode == ChecksumMode::Enable { "enabled" } else { "disabled" };
        println!("Checksums {done} in cluster");
    }
}

impl ChecksumObserver for Report {
    fn bad_block(&mut self, bad: &BadBlock) {
        let BadBlock { path, block, calculated, found } = bad;
        self.line(
            "error: ",
            format_args!(
                "checksum verification failed in file \"{}\", block {block}: calculated checksum {calculated:X} but block contains {found:X}",
                path.display()
            ),
        );
    }

    fn file_done(&mut self, path: &Path) {
        if self.verbose {
            let done = if self.mode == ChecksumMode::Enable { "enabled" } else { "verified" };
            self.line("", format_args!("checksums {done} in file \"{}\"", path.display()));
        }
    }

    fn progress(&mut self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
        }
    }

    fn step(&mut self, what: &str) {
        self.clear_bar();
        tell("", what);
    }

    fn scanned(&mut self, counts: &ChecksumCounts) {
        self.clear_bar();
        println!("Checksum operation completed");
        println!("Files scanned:   {}", counts.files_scanned);
        println!("Blocks scanned:  {}", counts.blocks_scanned);
        if self.mode == ChecksumMode::Check {
            println!("Bad checksums:  {}", counts.bad_blocks);
            println!("Data checksum version: {}", counts.checksum_version);
        } else {
            println!("Files written:  {}", counts.files_written);
            println!("Blocks written: {}", counts.blocks_written);
        }
    }
}
