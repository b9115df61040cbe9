//! `cargo xtask measure`: Forebay beside PostgreSQL 18 and fio, in one run, interleaved.
//!
//! - [`servers`]: starts and stops either server with the same kind of settings
//! - [`work`]: workloads of the servers: COPY in, one-row commits; and fio's figures for the device
//! - [`cold`]: count(*) and pg_prewarm with cold caches
//! - [`copy`]: COPY by several clients, and the checkpoints that come with it
//! - [`pool`]: the buffer pool by `forebay bench`, on the same relation as PostgreSQL and fio, with
//!   marks
//! - [`wal`]: the write-ahead log by `forebay bench wal`, with marks, and one-row commits of both
//!   servers
//! - [`archive`]: the archivers of both servers with many files that wait; segments stored in a
//!   directory
//! - [`checksums`]: `forebay checksums` beside pg_checksums and fio on the same files, and
//!   `forebay bench` beside fio
//! - [`fio`]: runs it
//! - [`table`]: medians, spreads, marks and the printed table
//!
//! Every figure is the median of the rounds, with the smallest and largest behind it. Caches are
//! dropped and the pool emptied before each cold read. PostgreSQL runs with checksums, as Forebay
//! does.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::packages::{Needed, ensure};
use crate::peers::{self, Peer};
use crate::run::run as command;

mod archive;
mod checksums;
mod cold;
mod copy;
mod fio;
mod pool;
mod servers;
mod table;
mod wal;
mod work;

use cold::{Caches, Cold};
use copy::Copies;
use pool::Extent;
use servers::Subject;
use table::Table;

/// How long and how large a measurement is.
#[derive(Args)]
pub struct Options {
    /// Rows of the servers' table
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Interleaved rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each run of one-row commits (pgbench), and of each run of random updates
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Seconds of each run of COPY by 8 clients; 0: none
    #[arg(long, default_value_t = 60)]
    copy_seconds: u64,
    /// MB of the relation that the pool reads, and of the pool that a checkpoint writes
    #[arg(long, value_name = "MB", default_value_t = 1000)]
    size: u64,
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
    /// The buffer pool, with its marks
    Pool,
    /// The write-ahead log, with its marks
    Wal,
    /// The archivers, with their marks
    Archive,
}

/// Measures, and prints tables in Markdown.
///
/// # Errors
/// When a program can't be had or a workload fails. What else could be measured is printed before.
pub fn run(root: &Path, options: &Options) -> Result<(), String> {
    ensure(&[
        Needed { program: "fio", package: "fio" },
        Needed { program: "psql", package: "postgresql-client" },
    ])?;
    let peer = peers::prepare(root)?;
    command(Command::new("cargo").current_dir(root).args([
        "build",
        "--release",
        "--bin",
        "forebay",
    ]))?;
    let caches = Caches::find();
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let (mut behind, mut missing) = (Vec::new(), None);
    if wanted(Part::Checksums) {
        checksums::run(root, &peer, options.rounds, options.scale)?;
    }
    if wanted(Part::Pool) {
        let extent = Extent {
            rounds: options.rounds,
            bytes: options.size * 1_000_000,
            seconds: options.seconds,
        };
        behind.extend(pool::run(root, &peer, &caches, extent)?);
    }
    if wanted(Part::Wal) {
        let extent = wal::Extent { rounds: options.rounds, seconds: options.seconds };
        behind.extend(wal::run(root, &peer, extent)?);
    }
    if wanted(Part::Archive) {
        let outcome = archive::run(root, &peer, options.rounds)?;
        behind.extend(outcome.behind);
        missing = outcome.missing;
    }
    if wanted(Part::Servers) {
        behind.extend(servers(root, &peer, &caches, options)?);
    }
    if let Some(reason) = caches.refused() {
        println!("NOT COLD: the kernel's cache could not be dropped ({reason}).");
    }
    behind.iter().for_each(|row| println!("behind: {row}"));
    missing.map_or(Ok(()), Err)
}

/// Measures, prints the tables, and returns the rows in which Forebay is behind.
fn servers(
    root: &Path,
    peer: &Peer,
    caches: &Caches,
    options: &Options,
) -> Result<Vec<String>, String> {
    let forebay = Subject::forebay(root)?;
    let postgres = Subject::postgres(peer)?;
    let input = work::make_input(&postgres, root, options.rows)?;

    let mut device = Table::new("The device (fio)", &["MB/s or a second"]);
    let mut load = Table::new("COPY in, MB/s of the file", &["Forebay", "PostgreSQL 18"]);
    let mut commits =
        Table::new("One-row inserts, commits a second", &["Forebay", "PostgreSQL 18"]);
    let (mut cold, mut copies) = (Cold::new(), Copies::new());
    for round in 0..options.rounds {
        println!("round {} of {}", round + 1, options.rounds);
        work::device(root, &mut device)?;
        for format in ["text", "binary"] {
            for subject in order(&forebay, &postgres, round) {
                work::copy_in(subject, &input, format, &mut load)?;
            }
        }
        for direct in [false, true] {
            for method in ["sync", "worker", "io_uring"] {
                for subject in order(&forebay, &postgres, round) {
                    cold.read(subject, (method, direct), options.rows, caches)?;
                }
            }
        }
        for direct in [false, true].into_iter().filter(|_| options.copy_seconds > 0) {
            for subject in order(&forebay, &postgres, round) {
                copies.run(
                    subject,
                    direct,
                    &input.file("load"),
                    work::TABLE,
                    options.copy_seconds,
                )?;
            }
        }
        for clients in [1, 8] {
            for subject in order(&forebay, &postgres, round) {
                work::commits(subject, peer, clients, options.seconds, &mut commits)?;
            }
        }
    }
    println!("{device}\n{load}");
    let compared: Vec<&Table> = cold.all().into_iter().chain(copies.all()).collect();
    compared.iter().for_each(|table| println!("{table}"));
    println!("{commits}");
    forebay.remove();
    postgres.remove();
    Ok(compared.iter().flat_map(|table| table.behind()).collect())
}

/// Who goes first changes from round to round, so that drift falls on both.
fn order<'s>(a: &'s Subject, b: &'s Subject, round: usize) -> [&'s Subject; 2] {
    if round.is_multiple_of(2) { [a, b] } else { [b, a] }
}
