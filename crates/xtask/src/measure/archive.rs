//! The archivers: `forebay bench archive` beside a PostgreSQL 18 with as many files that wait.
//!
//! PostgreSQL gets a module that stores nothing (`yes.c`, compiled here) or, without a compiler,
//! `archive_command = 'true'`. Its time runs from the start of the postmaster to the last archived
//! file, by its own clock. It renames the marks and syncs none of them; Forebay's marks are
//! durable. archive-push is compared with pgBackRest's ([`push`]). Forebay stores segments in a
//! directory, beside fio, which reads them and writes new synced files of their size; and in an
//! object store ([`objects`]).

mod objects;
mod push;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::report::{self, figure};
use super::servers::Subject;
use super::table::{Mark, Table, printed};
use crate::peers::Peer;
use crate::plots::series::Series;
use crate::run::{output, run as command};

/// Numbers of waiting files, and the seconds in which they should be archived.
const MARKS: [(u64, f64); 2] = [(12_000, 1.0), (120_000, 10.0)];
/// Seconds until the first of them should be archived.
const FIRST: f64 = 1.0;
/// The mark as a part of the device's rate.
const OF_DEVICE: f64 = 0.8;

/// The row of the device.
const FIO: &str = "fio: segments read, new files written, reserved and synced";

const YES: &str = include_str!("archive/yes.c");

const SECONDS: usize = 0;
const FIRST_SECONDS: usize = 1;
const PART: usize = 1;

/// The outcome of a part.
pub struct Outcome {
    /// The tables.
    pub tables: Vec<Table>,
    /// What could not be measured, and why.
    pub missing: Option<String>,
    /// Figures over time, of a part that has them.
    pub series: Option<Series>,
}

/// Measures, and prints the tables.
///
/// # Errors
/// When something can't be made or run.
pub fn run(root: &Path, peer: &Peer, rounds: usize) -> Result<Outcome, String> {
    let folder = root.join("target/measure/archive");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let program = root.join("target/release/forebay");
    let mut marks = Table::marked(
        "Files that wait, archived by a module that says yes",
        &["seconds", "to the first"],
    );
    let mut stores =
        Table::marked("Segments of 16 MB to a directory", &["MB/s", "part of fio's", "CPU s/GB"]);
    let mut pushes = push::table();
    let module = module(peer, &folder)?;
    for round in 0..rounds {
        println!("round {} of {rounds}", round + 1);
        for (count, limit) in MARKS {
            let own = format!("{count}: Forebay, durable");
            marks.mark(&own, &[Mark::at_most(SECONDS, limit), Mark::at_most(FIRST_SECONDS, FIRST)]);
            let report =
                bench(&program, &folder, &["--marks", &count.to_string(), "--segments", "0"])?;
            let row = &report["marks"][0];
            marks.add(&own, SECONDS, figure(row, "seconds")?);
            marks.add(&own, FIRST_SECONDS, figure(row, "first_seconds")?);
            let (seconds, first) = postgres(peer, count, &module)?;
            let theirs = format!("{count}: PostgreSQL 18, {}, not durable", module.name());
            marks.add(&theirs, SECONDS, seconds);
            marks.add(&theirs, FIRST_SECONDS, first);
        }
        let report = bench(&program, &folder, &["--marks", ""])?;
        if let Some(device) = report["device_bytes_per_second"]["median"].as_f64() {
            stores.add(FIO, SECONDS, device / 1e6);
        }
        for row in report["stores"].as_array().into_iter().flatten() {
            let (way, transfers) = (&row["direct"], &row["transfers"]);
            let way = if way.as_bool() == Some(true) { "direct" } else { "buffered" };
            let name = format!("Forebay, {way}, {transfers} at a time");
            stores.mark(&name, &[Mark::at_least(PART, OF_DEVICE)]);
            stores.add(&name, SECONDS, figure(row, "bytes_per_second")? / 1e6);
            stores.add(&name, PART, figure(row, "part_of_device")?);
            stores.add(&name, 2, figure(row, "cpu_seconds_per_gb")?);
        }
    }
    let segments = push::Segments::make(root, peer)?;
    for round in 0..rounds {
        println!("archive-push, round {} of {rounds}", round + 1);
        segments.push(&mut pushes)?;
    }
    let mut tables = printed(vec![marks, stores, pushes]);
    let missing = match objects::run(root, &program, &folder, rounds) {
        Ok(table) => {
            tables.extend(printed(vec![table]));
            None
        }
        Err(why) => Some(format!("NOT MEASURED: the object store: {why}")),
    };
    fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(Outcome { tables, missing, series: None })
}

/// Runs `forebay bench archive`.
fn bench(program: &Path, folder: &Path, words: &[&str]) -> Result<Value, String> {
    let mut bench = Command::new(program);
    bench.args(["bench", "archive", "--rounds", "1", "--json", "-D"]).arg(folder).args(words);
    report::json(&mut bench)
}

/// What archives for PostgreSQL.
enum Module {
    /// The module's path inside the peer's tree.
    Library(String),
    /// A command.
    Command,
}

impl Module {
    fn name(&self) -> &'static str {
        match self {
            Module::Library(_) => "a module",
            Module::Command => "archive_command = 'true'",
        }
    }

    fn setting(&self) -> String {
        match self {
            Module::Library(path) => format!("archive_library={path}"),
            Module::Command => "archive_command=true".to_owned(),
        }
    }
}

/// Compiles the module into the folder that is shared with the peer.
fn module(peer: &Peer, folder: &Path) -> Result<Module, String> {
    let text = |e: std::io::Error| e.to_string();
    let (source, shared) =
        (folder.join("yes.c"), peer.runner.with_file_name("x").join("forebay-yes.so"));
    fs::write(&source, YES).map_err(text)?;
    let compiled = output(
        Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&shared).arg(&source),
    );
    match compiled {
        Ok(output) if output.status.success() => {
            fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).map_err(text)?;
            Ok(Module::Library("/x/forebay-yes".to_owned()))
        }
        failed => {
            println!("no module for PostgreSQL, but archive_command: cc: {failed:?}");
            Ok(Module::Command)
        }
    }
}

/// Starts PostgreSQL with so many waiting files. Returns the seconds until all are archived, and
/// until the first is.
fn postgres(peer: &Peer, count: u64, module: &Module) -> Result<(f64, f64), String> {
    let subject = Subject::postgres(peer)?;
    let Subject::Postgres { inside, .. } = &subject else { return Err("no PostgreSQL".to_owned()) };
    let wal = format!("{inside}/data/pg_wal");
    // Their names are far ahead of the log, so no checkpoint touches them.
    let script = format!(
        "cd {wal} && seq 0 {} | \
         awk '{{ printf \"00000001%08X%08X\\n\", 256 + int($1 / 256), $1 % 256 }}' > /x/names && \
         xargs touch < /x/names && cd archive_status && \
         sed 's/$/.ready/' /x/names | xargs touch && \
         chown -R postgres:postgres {wal} && rm /x/names && sync",
        count - 1
    );
    command(Command::new(&peer.runner).args(["root", "sh", "-c", &script]).stdout(Stdio::null()))?;
    let setting = module.setting();
    let running = subject.start(&["archive_mode=on", &setting])?;
    let wait = |files: u64| {
        format!(
            "DO $$ BEGIN WHILE (SELECT archived_count < {files} FROM pg_stat_archiver) LOOP \
             PERFORM pg_sleep(0.005); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$"
        )
    };
    let since = "SELECT extract(epoch FROM last_archived_time - pg_postmaster_start_time()) \
                 FROM pg_stat_archiver";
    let number = |text: String| text.parse::<f64>().map_err(|_| format!("no number: {text}"));
    // It may have archived many files before it answers. Then this is the time of the last of them.
    running.query(&wait(1))?;
    let first = number(running.query(since)?)?;
    running.query(&wait(count))?;
    let all = number(running.query(since)?)?;
    drop(running);
    subject.remove();
    Ok((all, first))
}
