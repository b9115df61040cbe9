//! The write-ahead log: `forebay bench wal` beside fio and pg_test_fsync, and one-row commits of
//! both servers by pgbench.
//!
//! - [`own`]: `forebay bench wal`, and what it says
//! - [`clients`]: one-row inserts by 1 to 64 clients
//!
//! Two runs of the bench stand between two of fio, and their part of the device's rate is that of
//! the mean of both, so drift falls on all. The order changes from round to round.

use std::fs;
use std::path::{Path, PathBuf};

use super::fio::{self, Done};
use super::servers::Subject;
use super::table::{Mark, Table, printed};
use crate::peers::Peer;

mod clients;
mod own;

use clients::COMMITTERS;
use own::{Bulk, Commit, Own};

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Interleaved rounds.
    pub rounds: usize,
    /// Length of a run of pgbench.
    pub seconds: u64,
}

/// Length of a run of fio, as long as one of the bench.
const FIO_RUN: &str = "--runtime=700ms";
/// Size of fio's file.
const FIO_BYTES: u64 = 512 << 20;

/// Columns of commits, and their indexes.
const COMMITS: [&str; 9] = [
    "a second",
    "part of fio's",
    "writes a second",
    "kB a write",
    "in flight",
    "us at 50 %",
    "us at 99 %",
    "us at 99.9 %",
    "CPU us",
];
const RATE: usize = 0;
const PART: usize = 1;
/// The mark as a part of fio's rate at the same depth, where each commit is a write of its own.
const OF_WRITES: f64 = 0.90;

/// Columns of bulk insertion, and their indexes.
const BULK: [&str; 7] = [
    "MB/s",
    "part of fio's",
    "of what is asked for",
    "kB a write",
    "in flight",
    "CPU s/GB",
    "waits for a segment",
];
const ASKED: usize = 2;
const SEGMENT_WAITS: usize = 6;
/// The mark: so many bytes a second, or this part of the device's rate.
const BULK_BYTES: f64 = 1e9;
const OF_BULK: f64 = 0.80;

/// A way to commit.
struct Way {
    name: &'static str,
    words: [&'static str; 8],
    /// The marks as parts of fio's rate: by one committer, and by several.
    marks: Option<(f64, f64)>,
}

const BLOCK: &str = "8168";
const WAYS: [Way; 7] = [
    Way {
        name: "a block and a write each, fdatasync, direct",
        words: words("fdatasync", "wal", "off", BLOCK),
        marks: Some((1.0, OF_WRITES)),
    },
    Way {
        name: "a block and a write each, open_datasync, direct",
        words: words("open_datasync", "wal", "off", BLOCK),
        marks: Some((1.0, OF_WRITES)),
    },
    Way {
        name: "a block each, gathered, fdatasync, direct",
        words: words("fdatasync", "wal", "on", BLOCK),
        marks: Some((1.0, 1.0)),
    },
    Way {
        name: "a block each, gathered, open_datasync, direct",
        words: words("open_datasync", "wal", "on", BLOCK),
        marks: Some((1.0, 1.0)),
    },
    Way {
        name: "128 bytes each, gathered, fdatasync, direct",
        words: words("fdatasync", "wal", "on", "128"),
        marks: Some((1.0, 1.0)),
    },
    Way {
        name: "128 bytes each, gathered, open_datasync, direct",
        words: words("open_datasync", "wal", "on", "128"),
        marks: Some((1.0, 1.0)),
    },
    Way {
        name: "128 bytes each, gathered, fdatasync, buffered",
        words: words("fdatasync", "", "on", "128"),
        marks: None,
    },
];

const fn words(
    sync: &'static str,
    direct: &'static str,
    gather: &'static str,
    size: &'static str,
) -> [&'static str; 8] {
    ["--wal-sync-method", sync, "--io-direct", direct, "--gather", gather, "--record-sizes", size]
}

struct Tables {
    commits: Table,
    bulk: Table,
    insertion: Table,
    fsync: Table,
    clients: Table,
}

impl Tables {
    fn new() -> Tables {
        Tables {
            commits: Table::marked("Commits by several committers", &COMMITS),
            bulk: Table::marked("Bulk insertion, durable", &BULK),
            insertion: Table::marked(
                "Insertion alone",
                &["records a second", "GB/s", "CPU ns a record"],
            ),
            fsync: Table::marked("pg_test_fsync, one 8 kB write", &["a second"]),
            clients: Table::new("One-row inserts, commits a second", &["Forebay", "PostgreSQL 18"]),
        }
    }

    fn all(self) -> Vec<Table> {
        vec![self.commits, self.bulk, self.insertion, self.fsync, self.clients]
    }
}

/// Measures, prints the tables, and returns them.
///
/// # Errors
/// When something can't be made or run.
pub fn run(root: &Path, peer: &Peer, extent: Extent) -> Result<Vec<Table>, String> {
    let folder = root.join("target/measure/wal");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let file = folder.join("fio");
    fio::fill(&file, FIO_BYTES)?;
    let own = Own::new(root.join("target/release/forebay"), &folder);
    let (forebay, postgres) = (Subject::forebay(root)?, Subject::postgres(peer)?);
    let bench = Bench { own, file };
    let mut tables = Tables::new();
    for round in 0..extent.rounds {
        println!("round {} of {}", round + 1, extent.rounds);
        for committers in COMMITTERS {
            bench.commits(round, committers, &mut tables.commits)?;
        }
        bench.bulk(round, &mut tables.bulk)?;
        bench.insertion(&mut tables.insertion)?;
        bench.fsync(peer, &mut tables.fsync)?;
        clients::measure([&forebay, &postgres], peer, round, extent.seconds, &mut tables.clients)?;
    }
    let tables = printed(tables.all());
    forebay.remove();
    postgres.remove();
    fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(tables)
}

struct Bench {
    own: Own,
    /// fio's file, beside the log.
    file: PathBuf,
}

impl Bench {
    /// Runs the ways, two at a time, between fio's writes at the same depth.
    fn commits(&self, round: usize, committers: u32, table: &mut Table) -> Result<(), String> {
        let row = format!("{committers}: fio, 8 KiB, O_DSYNC, direct");
        let number = committers.to_string();
        let mut before = self.writes(committers)?;
        table.add(&row, RATE, before.operations);
        if round == 0 {
            // Rows appear in the order of their first figures.
            WAYS.iter().for_each(|way| table.mark(&way.row(committers), &way.marks(committers)));
        }
        let mut order: Vec<&Way> = WAYS.iter().collect();
        let first = round % order.len();
        order.rotate_left(first);
        for pair in order.chunks(2) {
            let mut done = Vec::new();
            for way in pair {
                let words =
                    [&way.words[..], &["--tables", "commit", "--committers", &number]].concat();
                done.push((way, Commit::of(&self.own.run(&words)?)?));
            }
            let after = self.writes(committers)?;
            table.add(&row, RATE, after.operations);
            let device = f64::midpoint(before.operations, after.operations);
            for (way, commit) in done {
                let row = way.row(committers);
                table.add(&row, RATE, commit.per_second);
                table.add(&row, PART, commit.per_second / device);
                commit
                    .others
                    .iter()
                    .enumerate()
                    .for_each(|(n, figure)| table.add(&row, PART + 1 + n, *figure));
            }
            before = after;
        }
        Ok(())
    }

    fn bulk(&self, round: usize, table: &mut Table) -> Result<(), String> {
        let row = "fio, 128 KiB, O_DSYNC, direct, depth 16";
        let mut ways = [("open_datasync", "wal"), ("fdatasync", "wal"), ("fdatasync", "")];
        let name = |(sync, direct): (&str, &str)| {
            format!("4 threads, {sync}, {}", if direct.is_empty() { "buffered" } else { "direct" })
        };
        let mut before = self.large_writes()?;
        table.add(row, 0, before.megabytes_per_second());
        if round == 0 {
            for way in ways {
                let marks = [Mark::at_least(ASKED, 1.0), Mark::at_most(SEGMENT_WAITS, 0.0)];
                // Through the kernel's cache there is no mark.
                table.mark(&name(way), if way.1.is_empty() { &[] } else { &marks });
            }
        }
        ways.rotate_left(round % 3);
        for way in ways {
            let words = ["--wal-sync-method", way.0, "--io-direct", way.1, "--gather", "on"];
            let words = [&words[..], &["--tables", "bulk", "--inserters", "4"]].concat();
            let bulk = Bulk::of(&self.own.run(&words)?)?;
            let after = self.large_writes()?;
            table.add(row, 0, after.megabytes_per_second());
            let rate = |done: &Done| done.bytes / done.seconds;
            let device = f64::midpoint(rate(&before), rate(&after));
            let row = name(way);
            table.add(&row, 0, bulk.bytes_per_second / 1e6);
            table.add(&row, 1, bulk.bytes_per_second / device);
            table.add(&row, ASKED, bulk.bytes_per_second / BULK_BYTES.min(OF_BULK * device));
            bulk.others
                .iter()
                .enumerate()
                .for_each(|(n, figure)| table.add(&row, ASKED + 1 + n, *figure));
            before = after;
        }
        Ok(())
    }

    fn insertion(&self, table: &mut Table) -> Result<(), String> {
        let report =
            self.own.run(&["--tables", "insert", "--inserters", "1,2", "--gather", "on"])?;
        for (row, figures) in own::insertion(&report)? {
            figures.iter().enumerate().for_each(|(n, figure)| table.add(&row, n, *figure));
        }
        Ok(())
    }

    fn fsync(&self, peer: &Peer, table: &mut Table) -> Result<(), String> {
        let program = "/usr/lib/postgresql/18/bin/pg_test_fsync";
        let command = format!("{} postgres {program} -f /x/measure/fsync", peer.runner.display());
        for (method, rate) in self.own.pg_test_fsync(&command)? {
            table.add(&method, 0, rate);
        }
        Ok(())
    }

    /// Durable writes of a block at this depth.
    fn writes(&self, depth: u32) -> Result<Done, String> {
        let depth = format!("--iodepth={depth}");
        // With one write at a time, the plain system call is fastest.
        let engine =
            if depth == "--iodepth=1" { "--ioengine=psync" } else { "--ioengine=io_uring" };
        self.fio(&["--bs=8k", &depth, engine])
    }

    fn large_writes(&self) -> Result<Done, String> {
        self.fio(&["--bs=128k", "--iodepth=16"])
    }

    fn fio(&self, arguments: &[&str]) -> Result<Done, String> {
        let timed = ["--rw=write", "--overwrite=1", "--sync=dsync", "--time_based", FIO_RUN];
        fio::run(&self.file.display().to_string(), &[&timed[..], arguments].concat())
    }
}

impl Way {
    fn row(&self, committers: u32) -> String {
        format!("{committers}: {}", self.name)
    }

    fn marks(&self, committers: u32) -> Vec<Mark> {
        let limit =
            self.marks.map(|(alone, together)| if committers == 1 { alone } else { together });
        limit.map(|limit| Mark::at_least(PART, limit)).into_iter().collect()
    }
}
