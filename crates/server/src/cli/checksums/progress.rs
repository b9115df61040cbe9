//! Progress: a bar on a terminal, pg_checksums' lines elsewhere.

use crate::terminal::{self, Unit};
use forebay_aio::sync::{Duration, Instant};
use indicatif::ProgressBar;
use std::io::{IsTerminal, Write};

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) enum Progress {
    /// Not shown.
    None,
    /// On a terminal.
    Bar(ProgressBar),
    /// Into a file or a pipe.
    Lines(Lines),
}

/// The contents of the lines, and when the last one was written.
#[derive(Default)]
pub(super) struct Lines {
    done: u64,
    total: u64,
    last: Option<Instant>,
}

impl Progress {
    pub(super) fn start() -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::Lines(Lines::default());
        }
        Progress::Bar(terminal::bar("computing checksums", Unit::Bytes, 0))
    }

    /// So many bytes of all are done.
    pub(super) fn show(&mut self, done: u64, total: u64) {
        match self {
            Progress::None => {}
            Progress::Bar(bar) => terminal::advance(bar, done, total),
            Progress::Lines(lines) => {
                (lines.done, lines.total) = (done, total);
                if lines.last.is_none_or(|last| last.elapsed() >= PAUSE) {
                    lines.last = Some(Instant::now());
                    lines.write();
                }
            }
        }
    }

    /// Ends the display.
    pub(super) fn end(&mut self) {
        match std::mem::replace(self, Progress::None) {
            Progress::Bar(bar) => bar.finish_and_clear(),
            Progress::Lines(lines) if lines.last.is_some() => lines.write(),
            Progress::Lines(_) | Progress::None => {}
        }
    }
}

impl Lines {
    fn text(&self) -> String {
        let (done, total) = (self.done >> 20, (self.total >> 20).to_string());
        let percent = (self.done * 100).checked_div(self.total).unwrap_or(0);
        format!("{done:>width$}/{total} MB ({percent}%) computed", width = total.len())
    }

    fn write(&self) {
        // A write that fails is ignored: the work goes on.
        let _ = writeln!(std::io::stderr(), "{}", self.text());
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn lines_are_pg_checksums_lines() {
        let line = |done, total| Lines { done, total, last: None }.text();
        assert_eq!(line(0, 0), "0/0 MB (0%) computed");
        assert_eq!(line(9 << 20, 2300 << 20), "   9/2300 MB (0%) computed");
        assert_eq!(line(2300 << 20, 2300 << 20), "2300/2300 MB (100%) computed");
    }
}
