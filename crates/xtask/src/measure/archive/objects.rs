//! The archiver and an object store: the rate by number of transfers.
//!
//! The store is moto, an S3 server for tests. It is slow and shares the processors, so the figures
//! show what more transfers gain, not what a real store can take.

use std::path::Path;
use std::process::Command;

use forebay_testkit::moto::{Moto, make_bucket};

use super::super::report::{self, figure};
use super::super::table::Table;
use crate::moto;

const RATE: usize = 0;
const CPU: usize = 1;

const TRANSFERS: &str = "1,2,4,8,16";
const SEGMENTS: &str = "32";

/// Measures and returns the table.
///
/// # Errors
/// When the bench fails, or there is no moto.
pub fn run(root: &Path, program: &Path, folder: &Path, rounds: usize) -> Result<Table, String> {
    let columns = ["MB/s", "CPU s/GB, without moto's"];
    let mut table = Table::marked(
        "Segments of 16 MB to an object store: moto, on the same processors",
        &columns,
    );
    let python = moto::prepare(root)?;
    for _ in 0..rounds {
        let server = Moto::start(&python)?;
        let endpoint = format!("http://127.0.0.1:{}", server.port);
        let mut bench = Command::new(program);
        bench
            .args(["bench", "archive", "--json", "--rounds", "1", "--marks", "", "-D"])
            .arg(folder);
        bench.args([
            "--archive",
            &format!("s3://{}", make_bucket(server.port)),
            "--transfers",
            TRANSFERS,
            "--segments",
            SEGMENTS,
        ]);
        bench.env("AWS_ENDPOINT_URL", endpoint).env("AWS_ALLOW_HTTP", "true");
        bench.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        let report = report::json(&mut bench)?;
        let rows = report["stores"]
            .as_array()
            .filter(|rows| !rows.is_empty())
            .ok_or("the bench stored nothing")?;
        for row in rows {
            let name = format!("Forebay, {} at a time", row["transfers"]);
            table.add(&name, RATE, figure(row, "bytes_per_second")? / 1e6);
            table.add(&name, CPU, figure(row, "cpu_seconds_per_gb")?);
        }
    }
    Ok(table)
}
