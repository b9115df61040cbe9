//! `forebay checksums`: PostgreSQL's pg_checksums, by asynchronous I/O.

mod progress;

use crate::terminal::{self, say};
use clap::{ArgAction, Args};
use forebay_engine::checksums::{
    BadBlock, ChecksumCounts, ChecksumMode, ChecksumObserver, ChecksumOptions, SyncMethod,
    checksums,
};
use forebay_engine::{IoDirect, IoMethod};
use progress::Progress;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(version, args_override_self = true, infer_long_args = true, disable_help_flag = true)]
pub(super) struct ChecksumsArgs {
    /// Data directory of a PostgreSQL 15 to 18 or Forebay cluster that is shut down [default:
    /// $PGDATA]
    #[arg(short = 'D', long = "pgdata", value_name = "DIR", allow_hyphen_values = true)]
    data_dir: Option<OsString>,
    /// The same without -D
    #[arg(value_name = "DIR")]
    positional: Vec<OsString>,
    /// Check the checksums of all pages (default)
    #[arg(short, long, overrides_with_all = ["enable", "disable"])]
    check: bool,
    /// Enable checksums: set them in all pages
    #[arg(short, long, overrides_with_all = ["check", "disable"])]
    enable: bool,
    /// Disable checksums
    #[arg(short, long, overrides_with_all = ["check", "enable"])]
    disable: bool,
    /// Check only the relation of this file number
    #[arg(short, long, value_name = "FILENODE", allow_hyphen_values = true)]
    filenode: Option<String>,
    /// Do not wait for changes to be on disk
    #[arg(short = 'N', long)]
    no_sync: bool,
    /// Show progress
    #[arg(short = 'P', long)]
    progress: bool,
    /// How files are made durable: fsync or syncfs
    #[arg(long, value_name = "METHOD", default_value = "fsync")]
    sync_method: String,
    /// Name every file
    #[arg(short, long)]
    verbose: bool,
    /// sync, worker, io_uring, posix_aio, or auto: io_uring where it can be had, else worker
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    io_method: String,
    /// "data": bypass the kernel's page cache
    #[arg(long, value_name = "LIST", default_value = "")]
    io_direct: String,
    /// Blocks in one read
    #[arg(long, value_name = "BLOCKS", default_value = "16")]
    io_combine_limit: String,
    /// Show this help
    #[arg(short = '?', short_alias = 'h', long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// What is wrong with the command line, and whether to point at --help.
type Misuse = (String, bool);

impl ChecksumsArgs {
    fn mode(&self) -> ChecksumMode {
        match (self.enable, self.disable) {
            (true, _) => ChecksumMode::Enable,
            (_, true) => ChecksumMode::Disable,
            _ => ChecksumMode::Check,
        }
    }

    /// Checks in pg_checksums' order: values, the directory, combinations of options.
    fn options(&self) -> Result<(PathBuf, ChecksumOptions), Misuse> {
        let hinted = |message: String| (message, true);
        let mut options = self.values().map_err(|message| (message, false))?;
        let mut given = self.data_dir.iter().chain(&self.positional).cloned();
        let dir = given.next().or_else(|| std::env::var_os("PGDATA"));
        let dir = dir.ok_or_else(|| hinted("no data directory specified".to_owned()))?;
        if let Some(more) = given.next() {
            let first = more.to_string_lossy();
            return Err(hinted(format!("too many command-line arguments (first is \"{first}\")")));
        }
        if self.filenode.is_some() && options.mode != ChecksumMode::Check {
            return Err(hinted("option -f/--filenode can only be used with --check".to_owned()));
        }
        options.filenode.clone_from(&self.filenode);
        Ok((dir.into(), options))
    }

    fn values(&self) -> Result<ChecksumOptions, String> {
        if let Some(text) = &self.filenode {
            number(text, "-f/--filenode", 0, i32::MAX as u32)?;
        }
        let sync = match self.sync_method.as_str() {
            "fsync" => SyncMethod::Fsync,
            "syncfs" => SyncMethod::SyncFs,
            other => return Err(format!("unrecognized sync method: {other}")),
        };
        let io_method = IoMethod::by_name(&self.io_method).ok_or_else(|| {
            format!("invalid value \"{}\" for option --io-method", self.io_method)
        })?;
        let direct = IoDirect::parse(&self.io_direct)
            .map_err(|e| e.to_string())
            .and_then(|d| {
                if d.wal || d.wal_init { Err("Only \"data\" is read.".to_owned()) } else { Ok(d) }
            })
            .map_err(|e| {
                format!("invalid value \"{}\" for option --io-direct: {e}", self.io_direct)
            })?;
        let most = ChecksumOptions::MAX_COMBINE;
        let io_combine_limit = number(&self.io_combine_limit, "--io-combine-limit", 1, most)?;
        let (sync, direct) = ((!self.no_sync).then_some(sync), direct.data);
        let defaults = ChecksumOptions::new(self.mode());
        Ok(ChecksumOptions { io_method, direct, io_combine_limit, sync, ..defaults })
    }
}

/// Reads a number as pg_checksums does: with blanks around it, and "" for 0.
fn number(text: &str, option: &str, least: u32, most: u32) -> Result<u32, String> {
    let digits = text.trim_ascii();
    let (sign, digits) = match digits.strip_prefix(['-', '+']) {
        Some(rest) if !rest.is_empty() => (&digits[..1], rest),
        _ => ("", digits),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("invalid value \"{text}\" for option {option}"));
    }
    // A number with too many digits is out of range.
    let value = if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok() };
    let value = value
        .filter(|value| sign != "-" || *value == 0)
        .and_then(|value| u32::try_from(value).ok());
    let value = value.filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("{option} must be in range {least}..{most}"))
}

/// Reports a command line that clap refuses: one line, a hint, and pg_checksums' exit code.
pub(super) fn refuse(error: &clap::Error) -> u8 {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    tell("error: ", first.strip_prefix("error: ").unwrap_or(first));
    tell("hint: ", HELP);
    1
}

const HELP: &str = "Try \"forebay checksums --help\" for more information.";

/// Runs the command; the process's exit code.
pub(super) fn run(args: &ChecksumsArgs) -> u8 {
    let (dir, options) = match args.options() {
        Ok(options) => options,
        Err((message, hint)) => {
            tell("error: ", message);
            if hint {
                tell("hint: ", HELP);
            }
            return 1;
        }
    };
    let progress = if args.progress { Progress::start() } else { Progress::None };
    let mut report = Report { mode: options.mode, verbose: args.verbose, progress };
    match checksums(&dir, &options, &mut report) {
        Ok(counts) => {
            report.progress.end();
            report.result(&counts);
            u8::from(counts.bad_blocks > 0)
        }
        Err(error) => {
            report.progress.end();
            terminal::tell_error("checksums", &error);
            1
        }
    }
}

fn tell(kind: &str, message: impl Display) {
    terminal::tell("checksums", kind, message);
}

/// Prints progress.
struct Report {
    mode: ChecksumMode,
    verbose: bool,
    progress: Progress,
}

impl Report {
    /// Writes a line beside the bar, so that they do not mix.
    fn line(&self, kind: &str, message: impl Display) {
        match &self.progress {
            Progress::Bar(bar) => bar.suspend(|| tell(kind, message)),
            _ => tell(kind, message),
        }
    }

    fn result(&self, counts: &ChecksumCounts) {
        if self.mode == ChecksumMode::Check {
            return;
        }
        if self.verbose {
            say(format_args!("Data checksum version: {}", counts.checksum_version));
        }
        let done = if self.mode == ChecksumMode::Enable { "enabled" } else { "disabled" };
        say(format_args!("Checksums {done} in cluster"));
    }
}

impl ChecksumObserver for Report {
    fn bad_block(&mut self, bad: &BadBlock) {
        let BadBlock { path, block, calculated, found } = bad;
        self.line(
            "error: ",
            format_args!(
                "checksum verification failed in file \"{}\", block {block}: calculated checksum \
                 {calculated:X} but block contains {found:X}",
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
        self.progress.show(done, total);
    }

    fn step(&mut self, what: &str) {
        self.progress.end();
        tell("", what);
    }

    fn scanned(&mut self, counts: &ChecksumCounts) {
        self.progress.end();
        say("Checksum operation completed");
        say(format_args!("Files scanned:   {}", counts.files_scanned));
        say(format_args!("Blocks scanned:  {}", counts.blocks_scanned));
        if self.mode == ChecksumMode::Check {
            say(format_args!("Bad checksums:  {}", counts.bad_blocks));
            say(format_args!("Data checksum version: {}", counts.checksum_version));
        } else {
            say(format_args!("Files written:  {}", counts.files_written));
            say(format_args!("Blocks written: {}", counts.blocks_written));
        }
    }
}
