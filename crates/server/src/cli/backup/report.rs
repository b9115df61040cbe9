//! Progress and warnings while files are copied.

use crate::terminal::{self, Unit, tell};
use forebay_aio::sync::{Duration, Instant};
use forebay_engine::archive::backup::{BackupObserver, DamagedPage};
use indicatif::ProgressBar;
use std::fmt::Display;
use std::io::IsTerminal;
use std::path::Path;

/// Time between two lines without a terminal.
const PAUSE: Duration = Duration::from_secs(2);

/// Shows progress.
pub(super) struct Report {
    command: &'static str,
    progress: bool,
    bar: Option<ProgressBar>,
    last: Option<Instant>,
}

impl Report {
    pub(super) fn new(command: &'static str, progress: bool) -> Report {
        Report { command, progress, bar: None, last: None }
    }

    pub(super) fn command(&self) -> &'static str {
        self.command
    }

    /// Ends the bar.
    pub(super) fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Writes a line beside the bar, so that they do not mix.
    fn line(&self, kind: &str, message: impl Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| tell(self.command, kind, message)),
            None => tell(self.command, kind, message),
        }
    }

    fn show(&mut self, done: u64, total: u64) {
        if std::io::stderr().is_terminal() {
            let new = || terminal::bar(self.command, Unit::Bytes, total);
            terminal::advance(self.bar.get_or_insert_with(new), done, total);
        } else if self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.last = Some(Instant::now());
            let percent = (done * 100).checked_div(total).unwrap_or(100);
            tell(self.command, "", format_args!("{}/{} MB ({percent}%)", done >> 20, total >> 20));
        }
    }
}

impl BackupObserver for Report {
    fn step(&mut self, what: &str) {
        self.end();
        if self.progress {
            tell(self.command, "", what);
        }
    }

    fn progress(&mut self, done: u64, total: u64) {
        if self.progress {
            self.show(done, total);
        }
    }

    fn damaged(&mut self, page: &DamagedPage) {
        self.line("error: ", page);
    }

    fn passed_over(&mut self, path: &Path) {
        self.line("warning: ", format_args!("\"{}\" is no part of the backup", path.display()));
    }
}
