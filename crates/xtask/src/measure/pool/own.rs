//! `forebay bench`: one run of one way, and its report.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::measure::report::{self, figure, only};

/// Threads of method worker, in Forebay and PostgreSQL.
pub const WORKERS: &str = "8";

/// A way of doing I/O.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The io_method.
    pub method: &'static str,
    /// Whether it bypasses the kernel's page cache.
    pub direct: bool,
}

impl Display for Way {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.method, if self.direct { "direct" } else { "buffered" })
    }
}

/// The program.
pub struct Own {
    /// The release build.
    pub program: PathBuf,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Bytes read and written a second.
    pub bytes_per_second: f64,
    /// Length of the run.
    pub seconds: f64,
    /// Processor time, user and system.
    pub cpu_seconds_per_gb: f64,
    /// Rows that a scan counted.
    pub live_tuples: Option<u64>,
    /// The part of the victims that were waited for.
    pub waited: Option<f64>,
    /// Bytes of the relation in the kernel's cache afterwards.
    pub kernel_cached: f64,
}

impl Own {
    /// Runs `forebay bench` with these arguments, one round, one way.
    ///
    /// # Errors
    /// When it fails, or does not support the way.
    pub fn run(&self, words: &[String], way: Way) -> Result<Outcome, String> {
        let mut bench = Command::new(&self.program);
        bench.arg("bench").args(words).args(["--io-method", way.method, "--rounds", "1", "--json"]);
        bench.args(["--io-direct", if way.direct { "data" } else { "" }]);
        if !words.iter().any(|word| word == "--io-workers") {
            // As many as PostgreSQL has, from the start.
            bench.args(["--io-workers", WORKERS]);
        }
        Outcome::of(&report::json(&mut bench)?)
    }
}

impl Outcome {
    /// Reads a report with one row.
    ///
    /// # Errors
    /// When it has another number of rows, or lacks something.
    fn of(report: &Value) -> Result<Outcome, String> {
        let row = only(report, "results")?;
        Ok(Outcome {
            bytes_per_second: figure(row, "bytes_per_second")?,
            seconds: figure(row, "seconds")?,
            cpu_seconds_per_gb: figure(row, "cpu_seconds_per_gb")?,
            live_tuples: row["live_tuples"].as_u64(),
            waited: row["victims_waited_share"].as_f64(),
            kernel_cached: figure(row, "kernel_cached_bytes")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    #[test]
    fn the_only_row_is_read() {
        let row = r#"{"seconds":{"median":0.5},"bytes_per_second":{"median":1.5e9,"least":1},
            "cpu_seconds_per_gb":{"median":0.1},"live_tuples":7,
            "victims_waited_share":null,"kernel_cached_bytes":0}"#;
        let outcome = Outcome {
            bytes_per_second: 1.5e9,
            seconds: 0.5,
            cpu_seconds_per_gb: 0.1,
            live_tuples: Some(7),
            waited: None,
            kernel_cached: 0.0,
        };
        let of = |text: &str| Outcome::of(&serde_json::from_str(text).expect("JSON"));
        assert_eq!(of(&format!(r#"{{"results":[{row}]}}"#)), Ok(outcome));
        assert!(of(&format!(r#"{{"results":[{row},{row}]}}"#)).is_err(), "two ways");
        assert!(of(r#"{"results":[],"notes":["No io_uring."]}"#).is_err());
    }
}
