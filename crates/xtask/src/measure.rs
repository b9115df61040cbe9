//! `cargo xtask measure`: Forebay beside PostgreSQL 18 and fio, in one run, interleaved.
//!
//! - [`servers`]: starts and stops either server with the same kind of settings
//! - [`work`]: the workloads: COPY in, cold count(*), one-row commits; and fio's figures for the device
//! - [`checksums`]: `forebay checksums` beside pg_checksums and fio on the same files, and `forebay bench` beside fio
//! - [`fio`]: runs it
//! - [`table`]: medians, spreads and the printed table
//!
//! Every figure is the median of the rounds, with the smallest and largest behind it. Caches are dropped
//! and the server restarted before each cold scan. PostgreSQL runs with checksums, as Forebay does.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::packages::{Needed, ensure};
use crate::peers::{self, Peer};
use crate::run::run as command;

mod checksums;
mod fio;
mod servers;
mod table;
mod work;

use servers::Subject;
use table::Table;

/// How long and how large a measurement is.
#[derive(Args)]
pub struct Options {
    /// Rows of the table
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Interleaved rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each one-row commit run
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Only this part
    #[arg(long)]
    only: Option<Part>,
    /// pgbench's scale for the cluster whose checksums are checked: 150 are 2.3 GB
    #[arg(long, default_value_t = 150)]
    scale: u32,
}

/// What can be measured by itself.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The two servers and the device
    Servers,
    /// Page checksums of a cluster at rest
    Checksums,
}

/// Measures, and prints tables in Markdown.
///
/// # Errors
/// When a program can't be had or a workload fails.
pub fn run(root: &Path, options: &Options) -> Result<(), String> {
    ensure(&[
        Needed { program: "fio", package: "fio" },
        Needed { program: "psql", package: "postgresql-client" },
    ])?;
    let peer = peers::prepare(root)?;
    command(Command::new("cargo").current_dir(root).args(["build", "--release", "--bin", "forebay"]))?;
    if options.only != Some(Part::Servers) {
        checksums::run(root, &peer, options.rounds, options.scale)?;
    }
    if options.only != Some(Part::Checksums) {
        servers(root, &peer, options)?;
    }
    Ok(())
}

fn servers(root: &Path, peer: &Peer, options: &Options) -> Result<(), String> {
    let forebay = Subject::forebay(root)?;
    let postgres = Subject::postgres(peer)?;
    let input = work::make_input(&postgres, root, options.rows)?;

    let mut device = Table::new("The device (fio)", &["MB/s or a second"]);
    let mut copy = Table::new("COPY in, MB/s of the file", &["Forebay", "PostgreSQL 18"]);
    let mut scan = Table::new("Cold count(*), seconds", &["Forebay", "PostgreSQL 18"]);
    let mut commits = Table::new("One-row inserts, commits a second", &["Forebay", "PostgreSQL 18"]);
    for round in 0..options.rounds {
        println!("round {} of {}", round + 1, options.rounds);
        work::device(root, &mut device)?;
        for format in ["text", "binary"] {
            for subject in order(&forebay, &postgres, round) {
                work::copy_in(subject, &input, format, &mut copy)?;
            }
        }
        for direct in [false, true] {
            for method in ["sync", "worker", "io_uring"] {
                for subject in order(&forebay, &postgres, round) {
                    work::cold_count(subject, method, direct, options.rows, &mut scan)?;
                }
            }
        }
        for clients in [1, 8] {
            for subject in order(&forebay, &postgres, round) {
                work::commits(subject, peer, clients, options.seconds, &mut commits)?;
            }
        }
    }
    for table in [device, copy, scan, commits] {
        println!("{table}");
    }
    forebay.remove();
    postgres.remove();
    Ok(())
}

/// Who goes first changes from round to round, so that drift falls on both.
fn order<'s>(a: &'s Subject, b: &'s Subject, round: usize) -> [&'s Subject; 2] {
    if round.is_multiple_of(2) { [a, b] } else { [b, a] }
}
