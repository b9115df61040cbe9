//! Log lines on stderr, in PostgreSQL's form: time, the session's or process's number, kind, message.
//!
//! Crates below use `tracing`; `install` sends their events here, in the same form.

use forebay_aio::sync::{SystemTime, UNIX_EPOCH};
use std::fmt::Write as _;
use std::io::Write as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// A LOG line of the server as a whole.
pub fn log(message: impl AsRef<str>) {
    line("LOG", None, message.as_ref());
}

/// A line of any kind, of a session (its number) or of the whole server.
pub fn line(kind: &str, session: Option<i32>, message: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let stamp = timestamp(now.as_secs(), now.subsec_millis());
    let number = session.map_or_else(|| i64::from(std::process::id()), i64::from);
    // One write for a line, so that lines of different threads do not mix. A log nobody reads is not worth dying for.
    let text = format!("{stamp} UTC [{number}] {kind}:  {}\n", message.replace('\n', "\n\t"));
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// "2026-11-21 00:37:21.123"
pub fn timestamp(seconds: u64, millis: u32) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}.{millis:03}")
}

/// Year, month and day of a count of days since 1970 in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Eras of 400 years that begin on the first of March, so that leap days come last.
    let z = days + 719_468;
    let era = z / 146_097;
    let in_era = z % 146_097;
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * in_year + 2) / 153;
    let day = in_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Sends the `tracing` events of all crates to this log. FOREBAY_LOG=debug shows more of them.
pub fn install() {
    let verbose = std::env::var("FOREBAY_LOG").is_ok_and(|v| v == "debug");
    let subscriber = tracing_subscriber::registry().with(ToLog { verbose });
    // Fails only if one is installed already.
    let _ = tracing::subscriber::set_global_default(subscriber);
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("no message");
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        line("ERROR", None, &format!("internal error{place}: {what}"));
    }));
}

struct ToLog {
    verbose: bool,
}

impl<S: Subscriber> Layer<S> for ToLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let kind = match *event.metadata().level() {
            Level::ERROR => "ERROR",
            Level::WARN => "WARNING",
            Level::INFO => "LOG",
            _ if self.verbose => "DEBUG",
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
