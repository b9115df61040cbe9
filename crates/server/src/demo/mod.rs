//! `forebay demo`: shows on this machine what the server does, in a minute or two.
//!
//! - `directory`: a directory with room, on a disk; dropping its files from the page cache
//! - `child`: the server, as a process of its own
//! - `load`: COPY over the wire
//!
//! The demonstration loads a fresh server by COPY, scans it cold by each I/O method, buffered and
//! direct, kills it with SIGKILL during another load, starts it again, and compares what it
//! acknowledged with what is there.

mod child;
mod directory;
mod load;

use crate::terminal::{Unit, bar};
use child::{Child, Failure, Guard};
use clap::Args;
use directory::DemoDir;
use forebay_aio::sync::{Duration, Instant};
use load::Loader;
use std::path::PathBuf;

/// Options of a demonstration.
#[derive(Clone, Debug, Args)]
pub struct DemoOptions {
    /// Leave the data directory for a look around
    #[arg(long)]
    pub keep: bool,
    /// Where to make the data directory: a real file system, for direct I/O
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Megabytes to load
    #[arg(long, value_name = "MB", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(8..))]
    pub size: u32,
}

const METHODS: [&str; 3] = ["sync", "worker", "io_uring"];

/// Runs the demonstration; the process's exit code.
pub fn run(options: &DemoOptions) -> u8 {
    let directory = match DemoDir::find(options.dir.as_deref(), u64::from(options.size)) {
        Ok(directory) => directory,
        Err(message) => {
            eprintln!("forebay demo: {message}");
            return 1;
        }
    };
    // Removes server and directory, also when the demonstration is interrupted.
    let guard = Guard::new(directory.path.clone(), options.keep);
    let result = show(options, &directory, &guard);
    guard.stop_server();
    match result {
        Ok(()) => {
            farewell(options, &directory);
            0
        }
        Err(e) => {
            eprintln!("\nforebay demo: {e}");
            guard.show_log();
            1
        }
    }
}

fn show(options: &DemoOptions, directory: &DemoDir, guard: &Guard) -> Result<(), Failure> {
    let started = Instant::now();
    println!("A fresh server in {}", directory.path.display());
    if let Some(why) = &directory.no_direct {
        println!("Direct I/O is left out: {why}.");
    }
    let server = Child::start(guard, &[])?;
    println!("{}", chosen_io(&server)?);
    let mut loader = Loader::new(server.client()?, u64::from(options.size))?;
    let loading = loader.load(&bar("loading by COPY", Unit::Bytes, loader.total_bytes()))?;
    println!(
        "Loaded {} rows, {} MB of COPY data, in {:.1} s ({:.0} MB/s).",
        grouped(loading.rows),
        loading.bytes >> 20,
        loading.took.as_secs_f64(),
        rate(loading.bytes, loading.took)
    );
    let counted = server.count()?;
    expect_rows("after the load", counted, loading.rows)?;
    server.stop()?;
    let table_bytes = directory.table_bytes();

    println!(
        "\nCold scans, SELECT count(*) of {} MB, the server restarted for each:",
        table_bytes >> 20
    );
    let scans = scan_all(directory, guard, loading.rows)?;
    print_scans(&scans, table_bytes);

    println!("\nAnother load, and kill -9 in the middle of it:");
    let crash = crash(guard, &mut loader)?;
    println!(
        "  killed with {} COPYs acknowledged ({} rows) and one half sent",
        crash.acknowledged,
        grouped(crash.rows)
    );
    println!("  started and recovered in {:.2} s", crash.recovery.as_secs_f64());
    println!(
        "  every acknowledged COPY is whole, nothing of the unacknowledged one is there: {} rows",
        grouped(crash.counted)
    );
    println!("\nAll of it took {:.0} s.", started.elapsed().as_secs_f64());
    Ok(())
}

/// How the server does its I/O by default on this machine.
fn chosen_io(server: &Child) -> Result<String, Failure> {
    let mut client = server.client()?;
    let mut shown = |setting: &str| -> Result<String, Failure> {
        let answer = client.query(&format!("SHOW {setting}"))?;
        Ok(answer.value().unwrap_or_default().to_owned())
    };
    let (method, direct) = (shown("io_method_status")?, shown("io_direct_status")?);
    let direct = if direct.is_empty() { "nothing" } else { &direct };
    Ok(format!("Its I/O by default: {method}; past the kernel's cache: {direct}."))
}

/// The result of a scan.
struct Scan {
    method: &'static str,
    direct: bool,
    /// Time, or why the server does not run with it here.
    took: Result<Duration, String>,
}

fn scan_all(directory: &DemoDir, guard: &Guard, rows: u64) -> Result<Vec<Scan>, Failure> {
    let kinds: &[bool] = if directory.no_direct.is_none() { &[false, true] } else { &[false] };
    let progress = bar("scanning", Unit::Steps, (METHODS.len() * kinds.len()) as u64);
    let mut scans = Vec::new();
    for method in METHODS {
        for &direct in kinds {
            directory.evict()?;
            let io_direct = if direct { "io_direct=data,wal,wal_init" } else { "io_direct=" };
            let took = match Child::start(guard, &[&format!("io_method={method}"), io_direct]) {
                Ok(server) => {
                    let mut client = server.client()?;
                    let started = Instant::now();
                    let counted = client.query("SELECT count(*) FROM demo")?;
                    let took = started.elapsed();
                    let counted = counted.value().and_then(|v| v.parse().ok()).unwrap_or(0);
                    expect_rows(&format!("by {method}"), counted, rows)?;
                    drop(client);
                    server.stop()?;
                    Ok(took)
                }
                // A kernel or container may refuse a method: the server says why.
                Err(e) => Err(e.to_string()),
            };
            scans.push(Scan { method, direct, took });
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    if scans.iter().all(|s| s.took.is_err()) {
        return Err("no I/O method works here".into());
    }
    Ok(scans)
}

fn print_scans(scans: &[Scan], bytes: u64) {
    println!("  {:<10} {:>22} {:>22}", "io_method", "buffered", "direct");
    let mut notes = Vec::new();
    for method in METHODS {
        let mut cell =
            |direct: bool| match scans.iter().find(|s| s.method == method && s.direct == direct) {
                Some(Scan { took: Ok(took), .. }) => {
                    format!("{:.2} s {:>7.0} MB/s", took.as_secs_f64(), rate(bytes, *took))
                }
                Some(Scan { took: Err(why), .. }) => {
                    notes.push(format!("  {method}: {why}"));
                    "refused".to_owned()
                }
                None => "-".to_owned(),
            };
        println!("  {method:<10} {:>22} {:>22}", cell(false), cell(true));
    }
    notes.dedup();
    notes.iter().for_each(|note| println!("{note}"));
}

/// The result of a crash.
struct Crash {
    acknowledged: u64,
    rows: u64,
    recovery: Duration,
    counted: u64,
}

fn crash(guard: &Guard, loader: &mut Loader) -> Result<Crash, Failure> {
    let server = Child::start(guard, &[])?;
    loader.reconnect(server.client()?);
    let before = loader.acknowledged_rows();
    let acknowledged =
        loader.load_some_and_half(&bar("loading", Unit::Steps, load::CRASH_COPIES as u64))?;
    server.kill()?;
    let started = Instant::now();
    let server = Child::start(guard, &[])?;
    let recovery = started.elapsed();
    let mut client = server.client()?;
    let sums = client.query("SELECT count(*), sum(copy), sum(id) FROM demo")?;
    let found: Vec<u128> = sums
        .rows
        .iter()
        .flatten()
        .map(|v| v.as_deref().unwrap_or("0").parse().unwrap_or(0))
        .collect();
    if found != loader.expected_sums() {
        return Err(format!(
            "after the recovery, count and sums should be {:?} and are {found:?}",
            loader.expected_sums()
        )
        .into());
    }
    drop(client);
    server.stop()?;
    Ok(Crash {
        acknowledged,
        rows: loader.acknowledged_rows() - before,
        recovery,
        counted: loader.acknowledged_rows(),
    })
}

fn farewell(options: &DemoOptions, directory: &DemoDir) {
    if options.keep {
        let data = directory.data_dir();
        println!("\nThe data are kept. To go on with them:\n");
        println!("    forebay serve -D {} -p 5433", data.display());
        println!("    psql -h 127.0.0.1 -p 5433 -U postgres -c 'SELECT count(*) FROM demo'");
    } else {
        println!(
            "\nThe directory is removed again (demo --keep leaves it). \
             To go on with a server of your own:\n"
        );
        println!("    forebay serve -D my-data -p 5433");
        println!("    psql -h 127.0.0.1 -p 5433 -U postgres");
    }
}

fn expect_rows(when: &str, found: u64, expected: u64) -> Result<(), Failure> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{when}, count(*) gives {found} rows instead of {expected}").into())
    }
}

fn rate(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / (1 << 20) as f64 / took.as_secs_f64().max(1e-9)
}

/// 1234567 as 1,234,567
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_in_groups() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(super::grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
