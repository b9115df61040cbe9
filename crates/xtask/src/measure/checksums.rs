//! Reads a cluster by fio, `forebay checksums` and pg_checksums, cold each time, and runs `forebay
//! bench io` beside fio.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cold::drop_caches;
use super::fio;
use super::report;
use super::servers::Subject;
use super::table::{Table, printed};
use crate::peers::Peer;
use crate::run::{output, run as command};

const BLOCK: f64 = 8192.0;
/// The programs check all files; fio wants whole blocks and gets only files of this size or more.
const LARGE: u64 = 1 << 20;
const PG_CHECKSUMS: &str = "/usr/lib/postgresql/18/bin/pg_checksums";

/// The rows: the printed name, and the options of `forebay checksums`.
const WAYS: [(&str, &[&str]); 6] = [
    ("forebay, io_uring, direct", &["--io-method", "io_uring", "--io-direct", "data"]),
    ("forebay, worker, direct", &["--io-method", "worker", "--io-direct", "data"]),
    ("forebay, sync, direct", &["--io-method", "sync", "--io-direct", "data"]),
    ("forebay, io_uring, buffered", &["--io-method", "io_uring"]),
    ("forebay, worker, buffered", &["--io-method", "worker"]),
    ("forebay, sync, buffered", &["--io-method", "sync"]),
];

/// A cluster at rest.
struct Cluster<'a> {
    peer: &'a Peer,
    program: PathBuf,
    outside: PathBuf,
    inside: String,
    /// Its large files, for fio.
    files: String,
    /// The largest of them.
    largest: PathBuf,
}

/// Measures, prints the tables, and returns them.
///
/// # Errors
/// When the cluster can't be made, or a program fails.
pub fn run(root: &Path, peer: &Peer, rounds: usize, scale: u32) -> Result<Vec<Table>, String> {
    let postgres = Subject::postgres(peer)?;
    make(&postgres, scale)?;
    let Subject::Postgres { outside, inside, .. } = &postgres else {
        unreachable!("it was just made")
    };
    let outside = outside.join("data");
    let (files, largest) = large_files(&outside)?;
    let program = root.join("target/release/forebay");
    let cluster =
        Cluster { peer, program, outside, inside: format!("{inside}/data"), files, largest };

    let columns = ["MB/s", "CPU seconds per GB", "part of fio's rate"];
    let mut reading = Table::new("Checking a cluster, cold", &columns);
    let mut random = Table::new("8 KiB random reads, depth 32, direct", &columns);
    for round in 0..rounds {
        println!("round {} of {rounds}", round + 1);
        cluster.check_all(round, &mut reading)?;
        cluster.random(round, &mut random)?;
    }
    let tables = printed(vec![reading, random]);
    // It has its own rounds and its own table.
    command(Command::new(&cluster.program).args(["bench", "checksum"]))?;
    postgres.remove();
    Ok(tables)
}

/// Creates pgbench's tables as fast as possible.
fn make(postgres: &Subject, scale: u32) -> Result<(), String> {
    let quick = ["fsync=off", "wal_level=minimal", "max_wal_senders=0", "autovacuum=off"];
    let server = postgres.start(&quick)?;
    let (port, scale) = (server.port.to_string(), scale.to_string());
    let options =
        ["-i", "-q", "-I", "dtGp", "-s", &scale, "-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
    command(&mut postgres.program(&[&["pgbench"], &options[..], &["postgres"]].concat()))
}

fn large_files(data: &Path) -> Result<(String, PathBuf), String> {
    let base = data.join("base/5");
    let text = |e: std::io::Error| format!("{}: {e}", base.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(&base).map_err(text)? {
        let entry = entry.map_err(text)?;
        let len = entry.metadata().map_err(text)?.len();
        if len >= LARGE {
            files.push((len, entry.path()));
        }
    }
    files.sort();
    let (_, largest) = files.last().cloned().ok_or("the cluster has no large file")?;
    let names: Vec<String> = files.iter().map(|(_, path)| path.display().to_string()).collect();
    Ok((names.join(":"), largest))
}

/// A program's duration, its processor time (user and system), and its output.
struct Timed {
    seconds: f64,
    cpu_seconds: f64,
    said: String,
}

/// Runs a program by bash, which reports the processor time of its children.
fn timed(mut shell: Command, words: &[&str]) -> Result<Timed, String> {
    shell
        .env("LC_ALL", "C")
        .args(["-c", "TIMEFORMAT='%3R %3U %3S'; time \"$@\" 2>&1", "bash"])
        .args(words);
    let output = output(&mut shell)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let clocks = String::from_utf8_lossy(&output.stderr).into_owned();
    let times: Option<Vec<f64>> = clocks.split_whitespace().map(|word| word.parse().ok()).collect();
    match times.as_deref() {
        Some([seconds, user, system]) if output.status.success() => {
            Ok(Timed { seconds: *seconds, cpu_seconds: user + system, said })
        }
        _ => Err(format!("{words:?}: {}\n{said}{clocks}", output.status)),
    }
}

impl Cluster<'_> {
    /// Runs all ways once. fio comes first or last by turns, so that drift falls on all.
    fn check_all(&self, round: usize, table: &mut Table) -> Result<(), String> {
        let late = round % 2 == 1;
        let early = if late { None } else { Some(self.fio_sequential()?) };
        let mut rows = Vec::new();
        for (name, options) in WAYS {
            let program = self.program.display().to_string();
            let data = self.outside.display().to_string();
            let words =
                [&[program.as_str(), "checksums", "--check", "-D", &data], options].concat();
            rows.push((name, self.checked(Command::new("bash"), &words)?));
        }
        let mut inside = Command::new(&self.peer.runner);
        inside.args(["postgres", "bash"]);
        rows.push((
            "pg_checksums",
            self.checked(inside, &[PG_CHECKSUMS, "--check", "-D", &self.inside])?,
        ));
        let fio = early.map_or_else(|| self.fio_sequential(), Ok)?;
        add(table, "fio, 128 KiB, depth 32, direct", &fio, &fio);
        for (name, done) in &rows {
            add(table, name, done, &fio);
        }
        Ok(())
    }

    fn fio_sequential(&self) -> Result<fio::Done, String> {
        drop_caches()?;
        let job = [
            "--rw=read",
            "--bs=128k",
            "--iodepth=32",
            "--readonly",
            "--file_service_type=sequential",
        ];
        fio::run(&self.files, &job)
    }

    fn checked(&self, shell: Command, words: &[&str]) -> Result<fio::Done, String> {
        drop_caches()?;
        let Timed { seconds, cpu_seconds, said } = timed(shell, words)?;
        let blocks = said
            .lines()
            .find_map(|line| line.strip_prefix("Blocks scanned:")?.trim().parse::<f64>().ok());
        let blocks = blocks.ok_or_else(|| format!("{words:?} said\n{said}"))?;
        Ok(fio::Done { bytes: blocks * BLOCK, seconds, operations: blocks / seconds, cpu_seconds })
    }

    /// Reads one relation file by fio and by `forebay bench io`.
    fn random(&self, round: usize, table: &mut Table) -> Result<(), String> {
        let largest = self.largest.display().to_string();
        let by_fio = || {
            let job = [
                "--rw=randread",
                "--bs=8k",
                "--iodepth=32",
                "--readonly",
                "--runtime=3",
                "--time_based",
            ];
            fio::run(&largest, &job)
        };
        let late = round % 2 == 1;
        let early = if late { None } else { Some(by_fio()?) };
        let mut bench = Command::new(&self.program);
        bench.args(["bench", "io", &largest, "--tables", "read-depth", "--depths", "32"]);
        bench.args([
            "--io-method",
            "io_uring",
            "--io-direct",
            "data",
            "--rounds",
            "1",
            "--seconds",
            "3",
            "--json",
        ]);
        let report = report::json(&mut bench)?;
        let figure = |name| report::figure(&report["results"][0], name);
        let (rate, cpu) = (figure("bytes_per_second")?, figure("cpu_seconds_per_gb")?);
        let own = fio::Done {
            bytes: rate,
            seconds: 1.0,
            operations: rate / BLOCK,
            cpu_seconds: cpu * rate / 1e9,
        };
        let fio = early.map_or_else(by_fio, Ok)?;
        add(table, "fio", &fio, &fio);
        add(table, "forebay bench io, io_uring", &own, &fio);
        Ok(())
    }
}

fn add(table: &mut Table, name: &str, done: &fio::Done, fio: &fio::Done) {
    let rate = done.megabytes_per_second();
    table.add(name, 0, rate);
    table.add(name, 1, done.cpu_per_gigabyte());
    table.add(name, 2, rate / fio.megabytes_per_second());
}

#[cfg(test)]
mod tests {
    use super::{Command, timed};

    #[test]
    fn bash_tells_the_time() {
        let done =
            timed(Command::new("bash"), &["sh", "-c", "echo said; echo so >&2"]).expect("runs");
        assert_eq!(done.said, "said\nso\n");
        assert!(done.seconds >= 0.0 && done.cpu_seconds >= 0.0);
        assert!(timed(Command::new("bash"), &["false"]).is_err());
    }
}
