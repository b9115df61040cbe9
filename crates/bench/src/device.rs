//! What other programs measure of the device: fio and PostgreSQL's pg_test_fsync, where they are
//! installed.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_aio::sync::Duration;

/// Jobs of fio that write new files.
const WRITERS: u64 = 4;
/// Writes in flight of each of them.
const WRITES: u32 = 2;
/// Reads in flight.
const READS: u32 = 4;

/// Durable writes that fio does over a file written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceJob {
    /// Writes of a block, so many in flight.
    Commits(u32),
    /// Large writes, 16 in flight.
    Bulk,
}

impl DeviceJob {
    /// Bytes of a write.
    pub(crate) fn write_bytes(self) -> u32 {
        match self {
            DeviceJob::Commits(_) => 8192,
            DeviceJob::Bulk => 128 << 10,
        }
    }

    /// Writes in flight.
    pub(crate) fn depth(self) -> u32 {
        match self {
            DeviceJob::Commits(depth) => depth,
            DeviceJob::Bulk => 16,
        }
    }
}

/// fio, run beside Forebay's own runs.
pub(crate) struct Fio {
    /// Whether it is to be run, and can be.
    state: FioState,
    /// The file of [`Fio::writes`] has been written once.
    prepared: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FioState {
    Wanted,
    NotWanted,
    NotInstalled,
}

impl Fio {
    pub(crate) fn new(wanted: bool) -> Fio {
        let state = if wanted { FioState::Wanted } else { FioState::NotWanted };
        Fio { state, prepared: false }
    }

    /// Writes a second (or bytes, for [`DeviceJob::Bulk`]) of direct durable writes over a file of
    /// `size` bytes in `dir`. `None` if fio is not to be run, or can't be.
    pub(crate) fn writes(
        &mut self,
        dir: &Path,
        size: u64,
        job: DeviceJob,
        time: Duration,
    ) -> Result<Option<f64>, String> {
        if self.state != FioState::Wanted {
            return Ok(None);
        }
        if !self.prepared {
            let fill = ["--bs=1m", "--iodepth=4", "--ioengine=io_uring"];
            if self.installed(run(&mut over_a_file(dir, size, &fill))?).is_none() {
                return Ok(None);
            }
            self.prepared = true;
        }
        let runtime = format!("--runtime={}ms", time.as_millis().max(1));
        let (bytes, depth) = (job.write_bytes(), job.depth());
        // With one write at a time, the plain system call is the fastest engine.
        let engine = if depth == 1 { "--ioengine=psync" } else { "--ioengine=io_uring" };
        let (bytes_of, depth_of) = (format!("--bs={bytes}"), format!("--iodepth={depth}"));
        let timed = [
            "--time_based",
            &runtime,
            "--sync=dsync",
            "--overwrite=1",
            &bytes_of,
            &depth_of,
            engine,
        ];
        let moved = run(&mut over_a_file(dir, size, &timed))?;
        Ok(moved.map(|moved| match job {
            DeviceJob::Commits(_) => moved.written / f64::from(bytes) / moved.seconds,
            DeviceJob::Bulk => moved.written / moved.seconds,
        }))
    }

    /// Bytes a second of storing the files of `dir`'s log: they are read, and as many new ones
    /// written and synced meanwhile. `None` if fio is not to be run, or can't be.
    pub(crate) fn store(&mut self, dir: &Path) -> Result<Option<f64>, String> {
        if self.state != FioState::Wanted {
            return Ok(None);
        }
        Ok(self.installed(store(dir)?))
    }

    /// Notes that there is no fio, if so.
    fn installed<T>(&mut self, answer: Option<T>) -> Option<T> {
        if answer.is_none() {
            self.state = FioState::NotInstalled;
        }
        answer
    }

    /// Why there are no rates of fio's.
    pub(crate) fn note(&self) -> Option<String> {
        (self.state == FioState::NotInstalled)
            .then(|| "No rates of the device: fio is not installed.".to_owned())
    }
}

fn over_a_file(dir: &Path, size: u64, arguments: &[&str]) -> Command {
    let mut fio = Command::new("fio");
    fio.args(["--name=forebay", "--output-format=terse", "--rw=write", "--direct=1"])
        .arg(format!("--size={size}"))
        .arg(format!("--filename={}", dir.join("fio").display()))
        .args(arguments);
    fio
}

/// Bytes a second of storing. None: fio is not installed.
///
/// fio gets a directory of its own, so that it writes new files, and it is given sizes and no time:
/// with a time it would begin again, over the files it has just written. fio 3.33's system calls
/// and ext4's trace show what its options do:
///
/// - `fallocate`: fio makes and reserves all new files before the clock starts, some 25
///   microseconds a file. With `create_on_open` it would make them in turn, without a reservation.
/// - `fsync_on_close`: a file is synced after its last write, while the next file's first writes
///   are in flight. At the end each writer syncs all its files again, mostly within a tenth of a
///   millisecond; `end_fsync` adds nothing to that.
/// - Each writer waits for its syncs, so there are several, which share out the files. Four with
///   two writes in flight each were as fast as any other number, and faster than one with eight.
///
/// The clock is that of reading or of writing, whichever takes longer.
fn store(dir: &Path) -> Result<Option<f64>, String> {
    let own = dir.join("fio");
    let failed = |error: std::io::Error| format!("{}: {error}", own.display());
    fs::create_dir(&own).map_err(failed)?;
    let rate = link(&dir.join("pg_wal"), &own).map_err(failed).and_then(|(files, bytes)| {
        let mut fio = Command::new("fio");
        fio.current_dir(&own);
        let Some(moved) = run(fio.args(storing(files, bytes)))? else { return Ok(None) };
        let whole = (files * bytes) as f64;
        if (moved.read, moved.written) != (whole, whole) {
            return Err(format!("fio: it moved other than {files} files: {moved:?}"));
        }
        Ok(Some(whole / moved.seconds))
    });
    let removed = fs::remove_dir_all(&own).map_err(failed);
    rate.and_then(|rate| removed.map(|()| rate))
}

/// Links the files of a log under the names by which fio reads them: how many, and the bytes of
/// one.
fn link(log: &Path, own: &Path) -> std::io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(log)? {
        let entry = entry?;
        let of_file = entry.metadata()?;
        if of_file.is_file() {
            std::os::unix::fs::symlink(
                fs::canonicalize(entry.path())?,
                own.join(format!("old.{files}")),
            )?;
            (files, bytes) = (files + 1, of_file.len());
        }
    }
    Ok((files, bytes))
}

/// fio's arguments for so many files to read and to write.
fn storing(files: u64, bytes: u64) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
    add(&[
        "--output-format=terse",
        "--group_reporting",
        "--direct=1",
        "--bs=512k",
        "--ioengine=io_uring",
    ]);
    add(&["--file_service_type=sequential", &format!("--filesize={bytes}")]);
    let part = |files: u64| [format!("--nrfiles={files}"), format!("--size={}", files * bytes)];
    let [number, size] = part(files);
    add(&["--name=read", "--rw=read", "--filename_format=old.$filenum", "--allow_file_create=0"]);
    add(&[&number, &size, &format!("--iodepth={READS}")]);
    let writers = WRITERS.min(files);
    for writer in 0..writers {
        let [number, size] = part(files / writers + u64::from(writer < files % writers));
        add(&[
            &format!("--name=write{writer}"),
            "--rw=write",
            "--fallocate=native",
            "--fsync_on_close=1",
        ]);
        add(&[&number, &size, &format!("--iodepth={WRITES}")]);
    }
    arguments
}

/// Runs fio. None: it is not installed.
fn run(fio: &mut Command) -> Result<Option<Moved>, String> {
    let output = match fio.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| format!("fio: {error}"))?,
    };
    let said = String::from_utf8_lossy(&output.stdout);
    Moved::parse(&said).filter(|_| output.status.success()).map(Some).ok_or_else(|| {
        format!("fio: {}", String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or(&said))
    })
}

/// Bytes that fio read and wrote.
#[derive(Debug, PartialEq)]
struct Moved {
    read: f64,
    written: f64,
    seconds: f64,
}

impl Moved {
    /// Of terse format 3, fields 5, 8, 46 and 49: KiB read and its milliseconds, KiB written and
    /// its milliseconds. A group of jobs has one line: the sums of what they moved, and the
    /// milliseconds of the slowest.
    fn parse(said: &str) -> Option<Moved> {
        let fields: Vec<&str> =
            said.lines().find(|line| line.starts_with("3;"))?.split(';').collect();
        let number = |field: usize| fields.get(field)?.parse::<f64>().ok();
        let some = |field: usize| number(field).filter(|n| *n > 0.0);
        let seconds = number(8)?.max(some(49)?) / 1e3;
        Some(Moved { read: number(5)? * 1024.0, written: some(46)? * 1024.0, seconds })
    }
}

/// Writes of 8 kB a second by sync method, as pg_test_fsync measures them; else why there are none.
pub(crate) fn pg_test_fsync(
    command: Option<&str>,
    dir: &Path,
) -> Result<Vec<(String, f64)>, String> {
    let words: Vec<String> = match command {
        Some(command) => command.split_whitespace().map(str::to_owned).collect(),
        None => vec![
            find().ok_or("No rates of pg_test_fsync: it is not installed.")?.display().to_string(),
        ],
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
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let out = child.stdout.take().expect("its output is piped");
    let rates = rates_of(BufReader::new(out).lines().map_while(Result::ok));
    // The rest of its comparisons is not needed.
    let ended = child.kill().and_then(|()| child.wait());
    // There is none if the command names another file.
    let _ = fs::remove_file(&own);
    ended.map_err(failed)?;
    if rates.is_empty() {
        return Err(format!("No rates of pg_test_fsync: {program} says nothing that is known."));
    }
    Ok(rates)
}

/// Looks for it in PATH, and then for the newest where Debian keeps them.
fn find() -> Option<PathBuf> {
    const NAME: &str = "pg_test_fsync";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(NAME)).find(|file| file.is_file());
    found.or_else(|| {
        let versions =
            fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
        let programs = versions.filter_map(|dir| Some((number(&dir)?, dir.join("bin").join(NAME))));
        programs.filter(|(_, file)| file.is_file()).max().map(|(_, file)| file)
    })
}

/// Reads the first comparison's lines, like
/// `        fdatasync              8161.541 ops/sec     123 usecs/op`.
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
        (fields[0], fields[5], fields[8], fields[46], fields[49]) =
            ("3", "500", "200", "1000", "250");
        let said = format!("fio: a warning\n{}\n", fields.join(";"));
        let moved = Moved { read: 512_000.0, written: 1_024_000.0, seconds: 0.25 };
        assert_eq!(Moved::parse(&said), Some(moved));
        fields[8] = "500";
        assert_eq!(
            Moved::parse(&fields.join(";")).map(|moved| moved.seconds),
            Some(0.5),
            "reading took longer"
        );
        fields[49] = "0";
        assert_eq!(Moved::parse(&fields.join(";")), None, "nothing was written");
        assert_eq!(Moved::parse("fio: no such engine"), None);
    }

    #[test]
    fn the_writers_share_out_all_files() {
        for files in [1, 3, 4, 9, 64] {
            let arguments = storing(files, 16 << 20);
            let each = |option: &str| {
                let parts = arguments
                    .iter()
                    .filter_map(|word| word.strip_prefix(option)?.parse::<u64>().ok());
                parts.collect::<Vec<u64>>()
            };
            let (numbers, sizes) = (each("--nrfiles="), each("--size="));
            assert_eq!((numbers[0], numbers[1..].iter().sum()), (files, files), "{arguments:?}");
            assert!(numbers[1..].iter().all(|part| *part > 0), "{arguments:?}");
            assert!(
                sizes.iter().zip(&numbers).all(|(size, part)| *size == part << 24),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn pg_test_fsyncs_first_comparison_is_read() {
        let said = "1 second per test\n\
            O_DIRECT supported on this platform for open_datasync and open_sync.\n\n\
            Compare file sync methods using one 8kB write:\n\
            (in \"wal_sync_method\" preference order, except fdatasync is Linux's default)\n\
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
