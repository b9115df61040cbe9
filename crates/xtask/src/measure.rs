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
//! - [`rows`]: updates, deletes, row locks, bloat, vacuum and count(*) of both servers
//! - [`index`]: ranges and rows by an index, its making, and VACUUM, of both servers
//! - [`tpcb`]: pgbench's own transactions, on its own tables, and DDL
//! - [`cache`]: the pool as the only cache: scans and look-ups in a memory cgroup
//! - [`neighbour`]: a load beside a program that takes memory and gives it back
//! - [`warm`]: from a restart to the hits of before
//! - [`archive`]: the archivers of both servers with many files that wait; segments stored in a
//!   directory
//! - [`checksums`]: `forebay checksums` beside pg_checksums and fio on the same files, and
//!   `forebay bench` beside fio
//! - [`fio`], [`pgbench`]: run them; [`processor`]: a server's processor time; [`report`]: what
//!   `forebay bench` prints
//! - [`cgroup`]: bounds a server's memory; [`contender`]: servers in it, with their best settings
//! - [`counters`]: what was read; [`keyed`]: a table for look-ups; [`ticks`]: even intervals
//! - [`table`]: medians, spreads, marks and the printed table
//!
//! Every figure is the median of the rounds, with the smallest and largest. Caches are dropped and
//! the pool emptied before each cold read. PostgreSQL runs with checksums, as Forebay does.

use std::path::Path;
use std::process::Command;

use clap::Args;
use serde_json::Value;

use crate::packages::{Needed, ensure};
use crate::peers::{self, Peer};
use crate::plots::{self, results};
use crate::run::run as command;

mod archive;
mod cache;
mod cgroup;
mod checksums;
mod cold;
mod contender;
mod copy;
mod counters;
mod fio;
mod index;
mod keyed;
mod neighbour;
mod pgbench;
mod pool;
mod processor;
mod report;
mod rows;
mod servers;
mod table;
mod ticks;
mod tpcb;
mod wal;
mod warm;
mod warming;
mod work;

use archive::Outcome;
use cold::{Caches, Cold};
use contender::Sizes;
use copy::Copies;
use pool::Extent;
use servers::{Subject, order};
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
    /// Seconds of each run of pgbench, and of each run of random updates: 4, but 10 for cache and
    /// warm, and 1200 for neighbour
    #[arg(long)]
    seconds: Option<u64>,
    /// Updates of a small table, after which its size is measured
    #[arg(long, default_value_t = 5_000_000)]
    updates: u64,
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
    /// pgbench's scale for tables in memory; 0: none, and no DDL
    #[arg(long, value_name = "SCALE", default_value_t = 100)]
    memory_scale: u32,
    /// pgbench's scale for tables ten times the pool: 1000 are 16 GB; 0: none
    #[arg(long, value_name = "SCALE", default_value_t = 1000)]
    large_scale: u32,
    /// Memory of each server in cache, neighbour and warm: the bound of a cgroup
    #[arg(long, value_name = "MB", default_value_t = 2048)]
    memory: u64,
    /// Forebay's shared_buffers there
    #[arg(long, value_name = "SIZE", default_value = "auto")]
    forebay_buffers: String,
    /// Measure target/release/forebay as it is
    #[arg(long)]
    no_build: bool,
    /// Write the results into docs/results, and draw docs/plots from them
    #[arg(long)]
    keep: bool,
}

/// The order in which the parts run.
const PARTS: [Part; 11] = [
    Part::Checksums,
    Part::Pool,
    Part::Wal,
    Part::Archive,
    Part::Servers,
    Part::Rows,
    Part::Index,
    Part::Pgbench,
    Part::Cache,
    Part::Warm,
    Part::Neighbour,
];

/// A part that can be measured by itself.
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
    /// Rows that change
    Rows,
    /// Rows by an index
    Index,
    /// pgbench's own transactions, and DDL
    Pgbench,
    /// Servers whose memory is bound
    Cache,
    /// Restarts
    Warm,
    /// Memory that comes and goes
    Neighbour,
}

impl Part {
    /// Its name in `--only` and in docs/results.
    fn name(self) -> &'static str {
        match self {
            Part::Servers => "servers",
            Part::Checksums => "checksums",
            Part::Pool => "pool",
            Part::Wal => "wal",
            Part::Archive => "archive",
            Part::Rows => "rows",
            Part::Index => "index",
            Part::Pgbench => "pgbench",
            Part::Cache => "cache",
            Part::Warm => "warm",
            Part::Neighbour => "neighbour",
        }
    }

    /// Whether it runs only if it is asked for: it bounds memory by cgroups, which takes root.
    fn only_by_name(self) -> bool {
        matches!(self, Part::Cache | Part::Warm | Part::Neighbour)
    }

    /// The length of its runs, if none is given.
    fn seconds(self) -> u64 {
        match self {
            Part::Cache | Part::Warm => 10,
            Part::Neighbour => 1200,
            _ => 4,
        }
    }
}

/// Measures, and prints tables in Markdown.
///
/// # Errors
/// When a program can't be had or a workload fails. The parts before it are printed.
pub fn run(root: &Path, options: &Options) -> Result<(), String> {
    ensure(&[
        Needed { program: "fio", package: "fio" },
        Needed { program: "psql", package: "postgresql-client" },
    ])?;
    let peer = peers::prepare(root)?;
    if !options.no_build {
        let build = ["build", "--release", "--bin", "forebay"];
        command(Command::new("cargo").current_dir(root).args(build))?;
    }
    let caches = Caches::find();
    let wanted = |part: Part| match options.only {
        Some(only) => only == part,
        None => !part.only_by_name(),
    };
    let (mut behind, mut missing) = (Vec::new(), None);
    for part in PARTS.into_iter().filter(|part| wanted(*part)) {
        let outcome = measure(part, root, &peer, &caches, options)?;
        behind.extend(outcome.tables.iter().flat_map(Table::behind));
        missing = missing.or(outcome.missing);
        if options.keep {
            let tables: Vec<Value> = outcome.tables.iter().map(Table::json).collect();
            let printed: String = outcome.tables.iter().map(ToString::to_string).collect();
            results::keep(root, part.name(), &tables, &printed)?;
            if let Some(series) = &outcome.series {
                results::keep_series(root, part.name(), series)?;
            }
        }
    }
    if let Some(reason) = caches.refused() {
        println!("NOT COLD: the kernel's cache could not be dropped ({reason}).");
    }
    behind.iter().for_each(|row| println!("behind: {row}"));
    if options.keep {
        plots::run(root)?;
    }
    missing.map_or(Ok(()), Err)
}

/// Measures one part, and prints its tables.
fn measure(
    part: Part,
    root: &Path,
    peer: &Peer,
    caches: &Caches,
    options: &Options,
) -> Result<Outcome, String> {
    let (rounds, seconds) = (options.rounds, options.seconds.unwrap_or(part.seconds()));
    let sizes =
        || Sizes { memory: options.memory, forebay_buffers: options.forebay_buffers.clone() };
    let tables = match part {
        Part::Checksums => checksums::run(root, peer, rounds, options.scale)?,
        Part::Pool => {
            let extent = Extent { rounds, bytes: options.size * 1_000_000, seconds };
            pool::run(root, peer, caches, extent)?
        }
        Part::Wal => wal::run(root, peer, wal::Extent { rounds, seconds })?,
        Part::Archive => return archive::run(root, peer, rounds),
        Part::Servers => servers(root, peer, caches, options)?,
        Part::Rows => {
            let (rows, updates) = (options.rows, options.updates);
            rows::run(root, peer, caches, rows::Extent { rounds, rows, seconds, updates })?
        }
        Part::Index => {
            let extent = index::Extent { rounds, rows: options.rows, seconds };
            index::run(root, peer, caches, extent)?
        }
        Part::Pgbench => {
            let (scale, large_scale) = (options.memory_scale, options.large_scale);
            tpcb::run(root, peer, tpcb::Extent { rounds, seconds, scale, large_scale })?
        }
        Part::Cache => {
            cache::run(root, peer, caches, &cache::Extent { rounds, seconds, sizes: sizes() })?
        }
        Part::Warm => {
            warm::run(root, peer, caches, &warm::Extent { rounds, seconds, sizes: sizes() })?
        }
        Part::Neighbour => {
            let extent = neighbour::Extent { seconds, sizes: sizes() };
            let (tables, series) = neighbour::run(root, peer, caches, &extent)?;
            return Ok(Outcome { tables, missing: None, series: Some(series) });
        }
    };
    Ok(Outcome { tables, missing: None, series: None })
}

/// Measures the two servers and the device, prints the tables and returns them.
fn servers(
    root: &Path,
    peer: &Peer,
    caches: &Caches,
    options: &Options,
) -> Result<Vec<Table>, String> {
    let forebay = Subject::forebay(root)?;
    let postgres = Subject::postgres(peer)?;
    let (rows, seconds) = (options.rows, options.seconds.unwrap_or(Part::Servers.seconds()));
    let files =
        [("text", "text", rows), ("binary", "binary", rows), ("load", "binary", work::LOAD_ROWS)];
    let input = work::make_input(&postgres, root, &files)?;

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
                work::commits(subject, peer, clients, seconds, &mut commits)?;
            }
        }
    }
    forebay.remove();
    postgres.remove();
    let tables = [device, load].into_iter().chain(cold.into_tables()).chain(copies.into_tables());
    Ok(table::printed(tables.chain([commits]).collect()))
}
