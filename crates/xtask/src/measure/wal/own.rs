//! `forebay bench wal`: one run of one way, and its report.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::super::report::{self, figure, only};

/// Length of a run, in seconds.
const RUN: &str = "0.7";

/// The program, and the directory of its log.
pub struct Own {
    program: PathBuf,
    folder: String,
}

impl Own {
    /// The release build.
    pub fn new(program: PathBuf, folder: &Path) -> Own {
        Own { program, folder: folder.display().to_string() }
    }

    /// Runs the bench with these arguments, one round, without fio.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, words: &[&str]) -> Result<Value, String> {
        self.call(&[words, &["--seconds", RUN, "--alone"]].concat())
    }

    /// The rates of pg_test_fsync, by sync method.
    ///
    /// # Errors
    /// When there are none.
    pub fn pg_test_fsync(&self, command: &str) -> Result<Vec<(String, f64)>, String> {
        let words = [
            "--tables",
            "commit",
            "--wal-sync-method",
            "fdatasync",
            "--io-direct",
            "",
            "--gather",
            "on",
        ];
        let short = ["--committers", "1", "--seconds", "0.05", "--pg-test-fsync", command];
        let report = self.call(&[&words[..], &short].concat())?;
        let rows = report["pg_test_fsync"].as_array().filter(|rows| !rows.is_empty());
        let rows = rows.ok_or_else(|| format!("{}", report["notes"]))?;
        let read = |row: &Value| {
            Some((row["wal_sync_method"].as_str()?.to_owned(), row["writes_per_second"].as_f64()?))
        };
        rows.iter().map(|row| read(row).ok_or_else(|| format!("unknown: {row}"))).collect()
    }

    fn call(&self, words: &[&str]) -> Result<Value, String> {
        let mut bench = Command::new(&self.program);
        bench.args(["bench", "wal", "-D", &self.folder, "--rounds", "1", "--json"]).args(words);
        report::json(&mut bench)
    }
}

/// The outcome of a run of committers.
#[derive(Debug, PartialEq)]
pub struct Commit {
    /// Commits a second.
    pub per_second: f64,
    /// The columns after the part of fio's rate.
    pub others: [f64; 7],
}

impl Commit {
    /// Reads a report with one row.
    ///
    /// # Errors
    /// When it has another number of rows, or lacks something.
    pub fn of(report: &Value) -> Result<Commit, String> {
        let row = only(report, "commits")?;
        let get = |name| figure(row, name);
        let others = [
            get("writes_per_second")?,
            get("mean_write_bytes")? / 1024.0,
            get("mean_in_flight")?,
            get("latency_us_p50")?,
            get("latency_us_p99")?,
            get("latency_us_p999")?,
            get("cpu_microseconds")?,
        ];
        Ok(Commit { per_second: get("commits_per_second")?, others })
    }
}

/// The outcome of a run of bulk insertion.
#[derive(Debug, PartialEq)]
pub struct Bulk {
    /// Bytes of records a second.
    pub bytes_per_second: f64,
    /// The columns after the parts.
    pub others: [f64; 4],
}

impl Bulk {
    /// Reads a report with one row.
    ///
    /// # Errors
    /// When it has another number of rows, or lacks something.
    pub fn of(report: &Value) -> Result<Bulk, String> {
        let row = only(report, "bulk")?;
        let get = |name| figure(row, name);
        let others = [
            get("mean_write_bytes")? / 1024.0,
            get("mean_in_flight")?,
            get("cpu_seconds_per_gb")?,
            get("segment_waits")?,
        ];
        Ok(Bulk { bytes_per_second: get("bytes_per_second")?, others })
    }
}

/// The rows of insertion alone: records a second, GB/s, nanoseconds of processor time.
///
/// # Errors
/// When a row lacks something.
pub fn insertion(report: &Value) -> Result<Vec<(String, [f64; 3])>, String> {
    let rows = report["insertion"].as_array().ok_or("no insertion")?;
    let read = |row: &Value| {
        let name = format!("{} bytes, {} threads", row["record_bytes"], row["threads"]);
        let rate = figure(row, "bytes_per_second")? / 1e9;
        Ok((name, [figure(row, "records_per_second")?, rate, figure(row, "cpu_nanoseconds")?]))
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Value {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn the_only_row_is_read() {
        let row = r#"{"commits_per_second":{"median":900,"least":1},
            "writes_per_second":{"median":450},
            "mean_write_bytes":{"median":8192},"mean_in_flight":{"median":2.5},
            "latency_us_p50":100,"latency_us_p99":200,"latency_us_p999":300,
            "cpu_microseconds":{"median":9}}"#;
        let commit =
            Commit { per_second: 900.0, others: [450.0, 8.0, 2.5, 100.0, 200.0, 300.0, 9.0] };
        assert_eq!(Commit::of(&report(&format!(r#"{{"commits":[{row}]}}"#))), Ok(commit));
        assert!(
            Commit::of(&report(&format!(r#"{{"commits":[{row},{row}]}}"#))).is_err(),
            "two ways"
        );
        assert!(
            Commit::of(&report(r#"{"commits":[{}]}"#))
                .expect_err("empty")
                .contains("writes_per_second")
        );
        let row = r#"{"bytes_per_second":{"median":1e9},"mean_write_bytes":{"median":131072},
            "mean_in_flight":{"median":3},"cpu_seconds_per_gb":{"median":0.5},"segment_waits":2}"#;
        let bulk = Bulk { bytes_per_second: 1e9, others: [128.0, 3.0, 0.5, 2.0] };
        assert_eq!(Bulk::of(&report(&format!(r#"{{"bulk":[{row}]}}"#))), Ok(bulk));
    }

    #[test]
    fn rows_of_insertion_are_named() {
        let row = r#"{"record_bytes":64,"threads":2,"records_per_second":{"median":3e6},
            "bytes_per_second":{"median":2e8},"cpu_nanoseconds":{"median":400}}"#;
        let rows = insertion(&report(&format!(r#"{{"insertion":[{row}]}}"#)));
        assert_eq!(rows, Ok(vec![("64 bytes, 2 threads".to_owned(), [3e6, 0.2, 400.0])]));
        assert!(insertion(&report("{}")).is_err());
    }
}
