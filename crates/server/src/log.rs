//! Log lines on stderr, in PostgreSQL's form: time, the session's or process's number, kind,
//! message.
//!
//! Crates below use `tracing`; `install` sends their events here, in the same form.

use forebay_aio::sync::{SystemTime, UNIX_EPOCH};
use forebay_engine::time::date_and_time;
use forebay_sql::SqlError;
use std::fmt::Write as _;
use std::io::Write as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// A LOG line of the server as a whole.
pub fn log(message: impl AsRef<str>) {
    line("LOG", None, message.as_ref());
}

/// A LOG line of a session.
pub fn session(pid: i32, message: impl AsRef<str>) {
    line("LOG", Some(pid), message.as_ref());
}

/// A report as lines of the log: its message, `place` behind it, then detail and hint.
pub fn described(e: &SqlError, place: &str) -> String {
    let mut text = format!("{}{place}", e.message);
    for (word, line) in [("DETAIL", &e.detail), ("HINT", &e.hint)] {
        if let Some(line) = line {
            text.push_str(&format!("\n{word}:  {line}"));
        }
    }
    text
}

/// A WARNING line of the server as a whole.
pub fn warning(message: impl AsRef<str>) {
    line("WARNING", None, message.as_ref());
}

/// A line of any kind, of a session (its number) or of the whole server.
pub fn line(kind: &str, session: Option<i32>, message: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let stamp = timestamp(now.as_secs(), now.subsec_millis());
    let number = session.map_or_else(|| i64::from(std::process::id()), i64::from);
    // One write for a line, so that lines of different threads do not mix. A failure to log is
    // ignored.
    let text = format!("{stamp} UTC [{number}] {kind}:  {}\n", message.replace('\n', "\n\t"));
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// "2026-11-21 00:37:21.123"
pub fn timestamp(seconds: u64, millis: u32) -> String {
    format!("{}.{millis:03}", date_and_time(i64::try_from(seconds).unwrap_or(i64::MAX)))
}

/// Which `tracing` events are logged, unless FOREBAY_LOG=debug asks for all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors and warnings: what commands print that do one piece of work and end.
    Warnings,
    /// LOG lines too: a server's.
    Log,
    /// What helps to find a bug too.
    Debug,
}

/// Sends the `tracing` events of all crates to this log. FOREBAY_LOG=debug shows all of them.
pub fn install(verbosity: Verbosity) {
    let debug = std::env::var("FOREBAY_LOG").is_ok_and(|v| v == "debug");
    let verbosity = if debug { Verbosity::Debug } else { verbosity };
    let subscriber = tracing_subscriber::registry().with(ToLog { verbosity });
    // Fails only if one is installed already.
    let _ = tracing::subscriber::set_global_default(subscriber);
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("no message");
        let place =
            info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        line("ERROR", None, &format!("internal error{place}: {what}"));
    }));
}

struct ToLog {
    verbosity: Verbosity,
}

impl<S: Subscriber> Layer<S> for ToLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // Of other libraries only errors and warnings are logged.
        let own =
            ["forebay", "object_store"].iter().any(|name| metadata.target().starts_with(name));
        let kind = match *metadata.level() {
            Level::ERROR => "ERROR",
            Level::WARN => "WARNING",
            Level::INFO if own && self.verbosity != Verbosity::Warnings => "LOG",
            _ if own && self.verbosity == Verbosity::Debug => "DEBUG",
            _ => return,
        };
        let mut text = Text::default();
        event.record(&mut text);
        line(kind, None, &format!("{}{}", text.message, text.fields));
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string can't fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// The text of an error without Rust's "(os error n)".
pub fn reason(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn dates() {
        assert_eq!(timestamp(0, 0), "1970-01-01 00:00:00.000");
        assert_eq!(timestamp(951_782_400, 7), "2000-02-29 00:00:00.007");
        assert_eq!(timestamp(1_795_221_441, 999), "2026-11-21 00:37:21.999");
        assert_eq!(timestamp(4_107_542_399, 0), "2100-02-28 23:59:59.000");
        assert_eq!(timestamp(4_107_542_400, 0), "2100-03-01 00:00:00.000");
    }
}
