//! `forebay bench`: one run of one way, and what it says of it.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::run::output;

/// One way of I/O.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// io_method.
    pub method: &'static str,
    /// Past the kernel's page cache.
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

/// What a run gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Read and written.
    pub bytes_per_second: f64,
    /// Length of the run.
    pub seconds: f64,
    /// User and system.
    pub cpu_seconds_per_gb: f64,
    /// What a scan counted.
    pub live_tuples: Option<u64>,
    /// Which part of the victims was waited for.
    pub waited: Option<f64>,
    /// Bytes of the relation in the kernel's cache afterwards.
    pub kernel_cached: f64,
}

impl Own {
    /// Runs `forebay bench` with these words, once, one way.
    ///
    /// # Errors
    /// When it fails, or can't go that way.
    pub fn run(&self, words: &[String], way: Way) -> Result<Outcome, String> {
        let mut bench = Command::new(&self.program);
        bench.arg("bench").args(words).args(["--io-method", way.method, "--rounds", "1", "--json"]);
        bench.args(["--io-direct", if way.direct { "data" } else { "" }]);
        if !words.iter().any(|word| word == "--io-workers") {
            // As many as PostgreSQL has, without the time that it takes to find out that they are
            // wanted.
            bench.args(["--io-workers", super::WORKERS]);
        }
        let output = output(&mut bench)?;
        let said = String::from_utf8_lossy(&output.stdout);
        parse(&said).ok_or_else(|| {
            format!(
                "{bench:?}: {}\n{said}{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }
}

/// The only row of a report.
fn parse(json: &str) -> Option<Outcome> {
    let report: Value = serde_json::from_str(json).ok()?;
    let [row] = report["results"].as_array()?.as_slice() else { return None };
    let median = |key: &str| row[key]["median"].as_f64();
    Some(Outcome {
        bytes_per_second: median("bytes_per_second")?,
        seconds: median("seconds")?,
        cpu_seconds_per_gb: median("cpu_seconds_per_gb")?,
        live_tuples: row["live_tuples"].as_u64(),
        waited: row["victims_waited_share"].as_f64(),
        kernel_cached: row["kernel_cached_bytes"].as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Outcome, parse};

    #[test]
    fn the_only_row_is_read() {
        let row = r#"{"seconds":{"median":0.5},"bytes_per_second":{"median":1.5e9,"least":1},"cpu_seconds_per_gb":{"median":0.1},
            "live_tuples":7,"victims_waited_share":null,"kernel_cached_bytes":0}"#;
        let outcome = Outcome {
            bytes_per_second: 1.5e9,
            seconds: 0.5,
            cpu_seconds_per_gb: 0.1,
            live_tuples: Some(7),
            waited: None,
            kernel_cached: 0.0,
        };
        assert_eq!(parse(&format!(r#"{{"results":[{row}]}}"#)), Some(outcome));
        assert_eq!(parse(&format!(r#"{{"results":[{row},{row}]}}"#)), None, "two ways");
        assert_eq!(parse(r#"{"results":[],"notes":["No io_uring."]}"#), None);
        assert_eq!(parse("error"), None);
    }
}
