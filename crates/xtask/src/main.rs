//! Development tasks: `cargo xtask TASK`.
//!
//! - [`test`](mod@test): everything that must hold before a change is merged
//! - [`battery`]: the engine on a simulated disk, with faults, crashes and planted bugs
//! - [`instrumented`]: the tests that shuttle and Miri run
//! - [`suite`]: builds tests by cargo, runs and counts them
//! - [`tidy`]: structure, sizes, words and bans that no compiler lint expresses
//! - [`peers`]: a real PostgreSQL 18 under `target/peers` to test and measure against
//! - [`catalogs`]: the initial rows of PostgreSQL's catalogs, as data files
//! - [`measure`]: Forebay beside PostgreSQL 18 and fio, in one run
//! - [`plots`]: charts of what was measured
//! - [`occupy`]: takes memory for a while, beside what is measured
//! - [`watched`]: any program of tests, under watch as in [`test`](mod@test)
//! - [`single`]: power cuts, turns with PostgreSQL 18, isolation specifications,
//!   regression tests; in any number
//! - [`moto`]: an S3 server to test and measure against
//! - [`packages`]: Debian packages and cargo tools the tasks need
//! - [`run`]: runs commands and prints them
//! - [`watch`]: runs programs within bounds, so that one that hangs is named and killed
//! - [`harness`]: reads what Rust's test harness prints

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use watch::processes;

mod battery;
mod catalogs;
mod harness;
mod instrumented;
mod measure;
mod moto;
mod occupy;
mod packages;
mod peers;
mod plots;
mod run;
mod single;
mod suite;
mod test;
mod tidy;
mod watch;
mod watched;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Forebay's development tasks")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check style, lints, licences and layering, then run every test
    Test(test::Options),
    /// Run a program of tests under watch, with bounds of its own
    Watch(watched::Options),
    /// Check layering, sizes, words and banned constructs
    Tidy(tidy::Options),
    /// Prepare PostgreSQL 18 (server and clients) under target/peers
    Peers,
    /// Extract the initial rows of PostgreSQL 18's catalogs into crates/catalog/data
    Catalogs,
    /// Prepare moto, an S3 server for tests, under target/tools
    Moto,
    /// Measure Forebay beside PostgreSQL 18 and fio
    Measure(measure::Options),
    /// Draw docs/plots from the newest results in docs/results
    Plots,
    /// Take so many MB of memory for so many seconds
    #[command(hide = true)]
    Occupy(occupy::Options),
    /// Cut the power of Forebay and PostgreSQL 18 under load
    Powercut(single::Powercut),
    /// Let Forebay and PostgreSQL 18 crash and recover one directory by turns
    Turns(single::Turns),
    /// Run PostgreSQL's isolation specifications on both servers
    Isolation(single::Isolation),
    /// Run PostgreSQL's regression tests on directories of `forebay init`, and on Forebay
    Regress(single::Regress),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = processes::adopt().and_then(|()| perform(arguments.task));
    for left in processes::end() {
        println!("left behind, and killed: {left}");
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<(), String> {
    match task {
        Task::Test(options) => test::run(&workspace_root(), &options),
        Task::Measure(options) => measure::run(&workspace_root(), &options),
        Task::Plots => plots::run(&workspace_root()),
        Task::Occupy(options) => {
            occupy::run(&options);
            Ok(())
        }
        Task::Watch(options) => watched::run(&options),
        Task::Powercut(options) => options.run(&workspace_root()),
        Task::Turns(options) => options.run(&workspace_root()),
        Task::Isolation(options) => options.run(&workspace_root()),
        Task::Regress(options) => options.run(&workspace_root()),
        Task::Tidy(options) => tidy::run(&workspace_root(), &options),
        Task::Peers => prepare_peers(&workspace_root()),
        Task::Catalogs => catalogs::run(&workspace_root()),
        Task::Moto => moto::prepare(&workspace_root()).map(|python| {
            println!("moto is ready; tests find it by: FOREBAY_MOTO={}", python.display());
        }),
    }
}

fn prepare_peers(root: &Path) -> Result<(), String> {
    let peer = peers::prepare(root)?;
    let sources = peers::sources::prepare(root, &peer)?;
    println!(
        "PostgreSQL 18 is ready; run its programs by: {} USER PROGRAM ...\n\
         Tests find it by: FOREBAY_PG18_RUN={} FOREBAY_PG18_ROOT={} FOREBAY_PG18_SPECS={} \
         FOREBAY_PG18_REGRESS={}",
        peer.runner.display(),
        peer.runner.display(),
        peer.tree.display(),
        sources.isolation.display(),
        sources.regress.display()
    );
    Ok(())
}

/// The workspace's root, found from this package's own manifest so that the tasks work from any
/// folder.
fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("crates/xtask lies two levels below the root").to_path_buf()
}
