//! Workloads of the servers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::fio;
use super::pgbench::{Length, Run, Script};
use super::servers::{Running, Subject};
use super::table::Table;
use crate::peers::Peer;
use crate::run::{fed, run};

/// Creates the table.
pub const TABLE: &str = "CREATE TABLE t (id int8, k int4, price float8, flag bool, name text)";
/// Selects its rows.
pub const SOURCE: &str = "SELECT g::int8, (g * 7919 % 1000003)::int4, (g / 7.0)::float8, \
    g % 3 = 0, 'row number ' || g FROM generate_series(1::int8, ROWS) g";

/// Rows that take about 89 MB in COPY's binary format.
pub const LOAD_ROWS: u64 = 1_450_000;

/// The files to load, written by PostgreSQL's COPY.
pub struct Input {
    folder: PathBuf,
}

impl Input {
    /// The file in format "text" or "binary", or the "load" of one client among several.
    pub fn file(&self, format: &str) -> PathBuf {
        self.folder.join(format)
    }
}

/// Writes the input files: their names, formats and rows.
///
/// # Errors
/// When PostgreSQL can't write them.
pub fn make_input(
    postgres: &Subject,
    root: &Path,
    files: &[(&str, &str, u64)],
) -> Result<Input, String> {
    let input = Input { folder: root.join("target/measure") };
    for (name, format, rows) in files {
        let source = SOURCE.replace("ROWS", &rows.to_string());
        write_input(postgres, &source, format, &input.file(name))?;
    }
    Ok(input)
}

/// Writes the rows that a query selects into a file.
///
/// # Errors
/// When PostgreSQL can't write them.
pub fn write_input(
    postgres: &Subject,
    source: &str,
    format: &str,
    file: &Path,
) -> Result<(), String> {
    let server = postgres.start(&["fsync=off"])?;
    let out = File::create(file).map_err(|e| format!("{}: {e}", file.display()))?;
    run(server.psql(&format!("COPY ({source}) TO STDOUT (FORMAT {format})")).stdout(out))
}

/// Loads the file into a new table, until the commit is acknowledged.
///
/// # Errors
/// When the load fails.
pub fn copy_in(
    subject: &Subject,
    input: &Input,
    format: &str,
    table: &mut Table,
) -> Result<(), String> {
    for direct in [false, true] {
        let server = subject.start(&["io_method=io_uring", &subject.direct_setting(direct)])?;
        server.query("DROP TABLE IF EXISTS t")?;
        server.query(TABLE)?;
        server.query("CHECKPOINT")?;
        let file = input.file(format);
        // Read once, so that both servers load it from memory.
        let bytes = fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?.len();
        let begin = Instant::now();
        load(&server, "t", format, &file)?;
        let rate = bytes as f64 / 1e6 / begin.elapsed().as_secs_f64();
        table.add(&format!("{format}, {}", word(direct)), subject.column(), rate);
    }
    Ok(())
}

/// Loads a file into a table, until the commit is acknowledged.
///
/// # Errors
/// When the load fails.
pub fn load(server: &Running<'_>, table: &str, format: &str, file: &Path) -> Result<(), String> {
    let input = File::open(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let output =
        fed(&mut server.psql(&format!("COPY {table} FROM STDIN (FORMAT {format})")), input)?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("COPY into {table} failed: {}: {errors}", output.status))
}

/// Measures one-row inserts by pgbench, each its own transaction.
///
/// # Errors
/// When pgbench fails.
pub fn commits(
    subject: &Subject,
    peer: &Peer,
    clients: u32,
    seconds: u64,
    table: &mut Table,
) -> Result<(), String> {
    for sync in ["fdatasync", "open_datasync"] {
        let server = subject.start(&["io_method=io_uring", &format!("wal_sync_method={sync}")])?;
        make_one(&server)?;
        let rate = one_row_inserts(&server, peer, clients, seconds)?;
        table.add(&format!("{clients} clients, {sync}"), subject.column(), rate);
    }
    Ok(())
}

/// Creates the empty table that [`one_row_inserts`] fills.
///
/// # Errors
/// The server's error.
pub fn make_one(server: &Running<'_>) -> Result<(), String> {
    server.query("DROP TABLE IF EXISTS one")?;
    server.query("CREATE TABLE one (id int8, k int4, name text)")?;
    server.query("CHECKPOINT").map(drop)
}

/// Runs pgbench, and returns transactions a second.
///
/// # Errors
/// When pgbench fails.
pub fn one_row_inserts(
    server: &Running<'_>,
    peer: &Peer,
    clients: u32,
    seconds: u64,
) -> Result<f64, String> {
    let script =
        "\\set id random(1, 1000000000)\nINSERT INTO one VALUES (:id, 1, 'a row of its own');\n";
    let run = Run {
        script: Script::Own(script),
        mode: "prepared",
        clients,
        length: Length::Seconds(seconds),
    };
    Ok(run.done(server, peer)?.rate)
}

/// Measures the device by fio.
///
/// # Errors
/// When fio fails.
pub fn device(root: &Path, table: &mut Table) -> Result<(), String> {
    let file = root.join("target/measure/fio").display().to_string();
    let jobs: [(&str, &[&str]); 5] = [
        ("direct 128 KiB read, depth 32, MB/s", &["--rw=read", "--bs=128k", "--iodepth=32"]),
        ("direct 8 KiB random read, depth 32, MB/s", &["--rw=randread", "--bs=8k", "--iodepth=32"]),
        ("direct 128 KiB write, depth 16, MB/s", &["--rw=write", "--bs=128k", "--iodepth=16"]),
        (
            "8 KiB O_DSYNC write, depth 1, a second",
            &["--rw=write", "--bs=8k", "--iodepth=1", "--ioengine=psync", "--sync=dsync"],
        ),
        (
            "8 KiB O_DSYNC write, depth 8, a second",
            &["--rw=write", "--bs=8k", "--iodepth=8", "--sync=dsync"],
        ),
    ];
    for (name, arguments) in jobs {
        let timed = ["--size=1g", "--runtime=3", "--time_based"];
        let done = fio::run(&file, &[arguments, &timed].concat())?;
        let rate =
            if name.ends_with("MB/s") { done.megabytes_per_second() } else { done.operations };
        table.add(name, 0, rate);
    }
    Ok(())
}

/// "direct" or "buffered", in a row's name.
pub fn word(direct: bool) -> &'static str {
    if direct { "direct" } else { "buffered" }
}
