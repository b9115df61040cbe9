//! What commands write for people: lines on stdout and stderr, progress bars.

use forebay_engine::EngineError;
use indicatif::{ProgressBar, ProgressStyle};
use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;

/// Writes a line of a command to stderr. A write that fails is ignored: the work goes on.
pub fn tell(command: &str, kind: &str, message: impl Display) {
    let _ = writeln!(std::io::stderr(), "forebay {command}: {kind}{message}");
}

/// Writes a line to stdout.
pub fn say(message: impl Display) {
    let _ = writeln!(std::io::stdout(), "{message}");
}

/// Writes an error with its detail and hint to stderr.
pub fn tell_error(command: &str, error: &EngineError) {
    tell(command, "error: ", error);
    for (kind, text) in [("detail: ", error.detail()), ("hint: ", error.hint())] {
        if let Some(text) = text {
            tell(command, kind, text);
        }
    }
}

/// What a progress bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Pieces of work.
    Steps,
}

/// A progress bar; nothing is drawn where there is no terminal.
pub fn bar(what: impl Into<Cow<'static, str>>, unit: Unit, total: u64) -> ProgressBar {
    let template = match unit {
        Unit::Bytes => "{msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        Unit::Steps => "{msg} [{bar:40}] {pos}/{len} {eta}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is sound");
    ProgressBar::new(total).with_style(style).with_message(what)
}

/// Shows that so much of all is done.
pub fn advance(bar: &ProgressBar, done: u64, total: u64) {
    bar.set_length(total);
    bar.set_position(done);
}
