//! What others say of the device: fio and PostgreSQL's pg_test_fsync, where they are installed.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_aio::sync::Duration;
use forebay_engine::bench::DeviceJob;

/// fio, on a file beside the log.
pub(super) struct Fio {
    /// Of its file.
    size: u64,
    /// It is not to be run, or can't be.
    silent: bool,
    missing: bool,
    prepared: bool,
}

impl Fio {
    pub(super) fn new(size: u64, silent: bool) -> Fio {
        Fio { size, silent, missing: false, prepared: false }
    }

    /// Answers, with direct writes over a file that was written before.
    pub(super) fn ask(&mut self, dir: &Path, job: DeviceJob, time: Duration) -> Result<Option<f64>, String> {
        if self.silent {
            return Ok(None);
        }
        let runtime = format!("--runtime={}ms", time.as_millis().max(1));
        let timed = ["--time_based", &runtime, "--sync=dsync", "--overwrite=1"];
        if !self.prepared {
            if self.run(dir, &["--bs=1m", "--iodepth=4", "--ioengine=io_uring"])?.is_none() {
                (self.silent, self.missing) = (true, true);
                return Ok(None);
            }
            self.prepared = true;
        }
        let done = match job {
            // With one write at a time, the plain system call is the fastest way.
            DeviceJob::Commits(1) => self.run(dir, &[&timed[..], &["--bs=8k", "--ioengine=psync"]].concat()),
            DeviceJob::Commits(depth) => {
                let depth = format!("--iodepth={depth}");
                self.run(dir, &[&timed[..], &["--bs=8k", "--ioengine=io_uring", &depth]].concat())
            }
            DeviceJob::Bulk => {
                let depth = format!("--iodepth={}", DeviceJob::BULK_DEPTH);
                self.run(dir, &[&timed[..], &["--bs=128k", "--ioengine=io_uring", &depth]].concat())
            }
        };
        Ok(done?.map(|written| match job {
            DeviceJob::Commits(_) => written.bytes / 8192.0 / written.seconds,
            DeviceJob::Bulk => written.bytes / written.seconds,
        }))
    }

    /// Why there are no rates of fio's.
    pub(super) fn note(&self) -> Option<String> {
        self.missing.then(|| "No rates of the device: fio is not installed.".to_owned())
    }

    /// None: it is not installed.
    fn run(&self, dir: &Path, arguments: &[&str]) -> Result<Option<Written>, String> {
        let mut fio = Command::new("fio");
        fio.args(["--name=forebay", "--output-format=terse", "--rw=write", "--direct=1"]);
        fio.arg(format!("--size={}", self.size)).arg(format!("--filename={}", dir.join("fio").display()));
        let output = match fio.args(arguments).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| format!("fio: {error}"))?,
        };
        let said = String::from_utf8_lossy(&output.stdout);
        Written::parse(&said).map(Some).ok_or_else(|| {
            format!("fio: {}", String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or(&said))
        })
    }
}

/// What fio wrote.
#[derive(Debug, PartialEq)]
struct Written {
    bytes: f64,
    seconds: f64,
}

impl Written {
    /// Of terse format 3, fields 46 and 49: KiB written, milliseconds.
    fn parse(said: &str) -> Option<Written> {
        let fields: Vec<&str> = said.lines().find(|line| line.starts_with("3;"))?.split(';').collect();
        let number = |field: usize| fields.get(field)?.parse::<f64>().ok().filter(|n| *n > 0.0);
        Some(Written { bytes: number(46)? * 1024.0, seconds: number(49)? / 1e3 })
    }
}

/// Its rates of one 8 kB write, by sync method.
pub(super) fn pg_test_fsync(command: Option<&str>, dir: &Path) -> Result<Vec<(String, f64)>, String> {
    let words: Vec<String> = match command {
        Some(command) => command.split_whitespace().map(str::to_owned).collect(),
        None => vec![find().ok_or("No rates of pg_test_fsync: it is not installed.")?.display().to_string()],
    };
    let [program, arguments @ ..] = words.as_slice() else {
        return Err("No rates of pg_test_fsync: no command was given.".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).args(["-s", "1"]);
    let own = dir.join(format!("forebay-bench-{}.fsync", std::process::id()));
    if !arguments.iter().any(|word| word == "-f") {
        command.arg("-f").arg(&own);
    }
    let failed = |error: std::io::Error| format!("No rates of pg_test_fsync: {program}: {error}.");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
    let lines = child.stdout.take().map(|out| BufReader::new(out).lines().map_while(Result::ok));
    let rates = lines.map(rates_of).unwrap_or_default();
    // What else it measures is not asked for.
    let ended = child.kill().and_then(|()| child.wait());
    // It is there only if the program was not asked to use another.
    let _ = fs::remove_file(&own);
    ended.map_err(failed)?;
    if rates.is_empty() {
        return Err(format!("No rates of pg_test_fsync: {program} says nothing that is known."));
    }
    Ok(rates)
}

/// In PATH, or where Debian has the newest.
fn find() -> Option<PathBuf> {
    const NAME: &str = "pg_test_fsync";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(NAME)).find(|file| file.is_file());
    found.or_else(|| {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
        let programs = versions.filter_map(|dir| Some((number(&dir)?, dir.join("bin").join(NAME))));
        programs.filter(|(_, file)| file.is_file()).max().map(|(_, file)| file)
    })
}

/// Lines like "        fdatasync              8161.541 ops/sec     123 usecs/op", up to the next comparison.
fn rates_of(lines: impl Iterator<Item = String>) -> Vec<(String, f64)> {
    let section = lines.skip_while(|line| !line.contains("using one 8kB write")).skip(1);
    let section = section.take_while(|line| !line.starts_with("Compare"));
    section
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (name, rate) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
            (words.next() == Some("ops/sec")).then_some((name, rate))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fios_terse_lines_are_read() {
        let mut fields = vec!["0"; 130];
        (fields[0], fields[46], fields[49]) = ("3", "1000", "250");
        let said = format!("fio: a warning\n{}\n", fields.join(";"));
        assert_eq!(Written::parse(&said), Some(Written { bytes: 1_024_000.0, seconds: 0.25 }));
        fields[49] = "0";
        assert_eq!(Written::parse(&fields.join(";")), None, "nothing was written");
        assert_eq!(Written::parse("fio: no such engine"), None);
    }

    #[test]
    fn pg_test_fsyncs_first_comparison_is_read() {
        let said = "1 second per test\nO_DIRECT supported on this platform for open_datasync and open_sync.\n\n\
            Compare file sync methods using one 8kB write:\n(in \"wal_sync_method\" preference order, except fdatasync is Linux's default)\n\
            \x20       open_datasync                      8161.541 ops/sec     123 usecs/op\n\
            \x20       fdatasync                          9000.000 ops/sec     111 usecs/op\n\
            \x20       fsync_writethrough                              n/a\n\
            \nCompare file sync methods using two 8kB writes:\n\
            \x20       open_datasync                      1.000 ops/sec     123 usecs/op\n";
        let rates = rates_of(said.lines().map(str::to_owned));
        let expected = [("open_datasync", 8161.541), ("fdatasync", 9000.0)];
        assert_eq!(rates, expected.map(|(name, rate)| (name.to_owned(), rate)));
        assert!(rates_of(["nothing".to_owned()].into_iter()).is_empty());
    }
}
