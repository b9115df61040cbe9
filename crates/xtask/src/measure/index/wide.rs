//! A table of wide rows, whose order by key has nothing to do with the order of its pages: each row
//! of a range is on another page.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::setup::{Extent, SERVERS, start};
use crate::measure::cold::Caches;
use crate::measure::fio::{self, REGISTERED};
use crate::measure::pgbench::{Length, Run, Script};
use crate::measure::servers::{Running, Subject};
use crate::measure::table::{Mark, Table};
use crate::measure::work::{self, word};
use crate::peers::Peer;
use crate::run::run as run_command;

const BLOCK: f64 = 8192.0;
/// Rows of a range that is read.
const RANGE: u64 = 20_000;
/// The pool holds this part of the table.
const POOL: u64 = 10;
/// Only an index scan will do.
const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off";

/// Only a bitmap will do.
const BY_BITMAP: &str =
    "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off";

/// Columns of cold ranges, and their indexes.
const RANGES: [&str; 2] = ["MB/s", "part of fio's"];
const RATE: usize = 0;
const PART: usize = 1;
/// The mark as a part of fio's rate.
const OF_FIO: f64 = 0.9;

/// Columns of checks.
const CHECKERS: [&str; 3] = ["forebay check", "pg_amcheck --heapallindexed", "fio, 128 KiB reads"];

/// Columns of ranges that the pool holds.
const CACHED: [&str; 3] = ["Forebay", "Forebay, one block at a time", "PostgreSQL 18"];

/// Selects the rows: their keys are shuffled.
pub fn source(rows: u64) -> String {
    format!(
        "SELECT g::int8, (g * 7919 % 1000003)::int8, repeat('x', 900) \
         FROM generate_series(1::int8, {rows}) g"
    )
}

/// The tables.
pub struct Tables {
    ranges: Table,
    cached: Table,
    limit: Table,
    keys: Table,
    analyze: Table,
    vacuum: Table,
    check: Table,
}

impl Tables {
    /// Empty tables.
    pub fn new() -> Tables {
        let title = "Ranges by an index, cold, pool a tenth of the table";
        Tables {
            ranges: Table::marked(title, &RANGES),
            cached: Table::new("A range by an index, in memory, milliseconds", &CACHED),
            limit: Table::new("The first 10 rows by an index, cold, milliseconds", &SERVERS),
            keys: Table::new("Look-ups of a row by its key, a second", &SERVERS),
            analyze: Table::new("ANALYZE, cold, seconds", &SERVERS),
            vacuum: Table::new(
                "VACUUM after a tenth of the rows was deleted, pool a quarter, seconds",
                &SERVERS,
            ),
            check: Table::new("Checking the table and its index, cold, MB/s", &CHECKERS),
        }
    }

    /// The tables.
    pub fn all(self) -> [Table; 7] {
        let Tables { ranges, cached, limit, keys, analyze, vacuum, check } = self;
        [ranges, cached, limit, keys, analyze, vacuum, check]
    }
}

/// What is measured.
pub struct Wide<'w> {
    /// Has pgbench.
    pub peer: &'w Peer,
    /// Forebay's program.
    pub program: &'w Path,
    /// The kernel's cache.
    pub caches: &'w Caches,
    /// How much.
    pub extent: Extent,
    /// The rows, in COPY's binary format.
    pub input: &'w Path,
    /// fio's file.
    pub device: &'w Path,
}

impl Wide<'_> {
    /// Measures a server with direct or buffered I/O.
    ///
    /// # Errors
    /// When the server does not start, or something fails.
    pub fn measure(
        &self,
        subject: &Subject,
        direct: bool,
        tables: &mut Tables,
    ) -> Result<(), String> {
        let size = self.load(subject, direct)?;
        self.in_memory(subject, direct, size, tables)?;
        let server = start(subject, direct, &[&pool(size / POOL)])?;
        self.ranges(&server, direct, &mut tables.ranges)?;
        let first = format!("{BY_INDEX}; SELECT id FROM w WHERE k > 500000 ORDER BY k LIMIT 10");
        let (_, seconds) = self.caches.cold(&server, &first)?;
        tables.limit.add(word(direct), server.column(), seconds * 1e3);
        self.keys(&server, 32, &format!("32 sessions, cold, {}", word(direct)), &mut tables.keys)?;
        let (_, seconds) = self.caches.cold(&server, "ANALYZE w")?;
        tables.analyze.add(word(direct), server.column(), seconds);
        drop(server);
        self.vacuum(subject, direct, size, &mut tables.vacuum)?;
        if direct { self.check(subject, &mut tables.check) } else { Ok(()) }
    }

    /// Makes the table with its index. Returns its size.
    fn load(&self, subject: &Subject, direct: bool) -> Result<u64, String> {
        let server = start(subject, direct, &[])?;
        server.create_extensions()?;
        server.query("DROP TABLE IF EXISTS w")?;
        server.query("CREATE TABLE w (id int8, k int8, pad text)")?;
        work::load(&server, "w", "binary", self.input)?;
        server.query("CREATE INDEX w_k ON w (k)")?;
        server.query("VACUUM w")?;
        server.query("CHECKPOINT")?;
        Ok(server.number("SELECT pg_relation_size('w')")? as u64)
    }

    /// Reads ranges and rows with a pool that holds everything.
    fn in_memory(
        &self,
        subject: &Subject,
        direct: bool,
        size: u64,
        tables: &mut Tables,
    ) -> Result<(), String> {
        let server = start(subject, direct, &[&pool(size / 2 * 3)])?;
        server.query("SELECT pg_prewarm('w', 'buffer')")?;
        // Reads the whole index.
        server.query(&format!("{BY_INDEX}; SELECT count(k) FROM w WHERE k >= 0"))?;
        for clients in [1, 2] {
            let row = format!("{clients} sessions, in memory, {}", word(direct));
            self.keys(&server, clients, &row, &mut tables.keys)?;
        }
        let ways: &[(usize, u32)] =
            if server.column() == 0 { &[(0, 32), (1, 0)] } else { &[(2, 32)] };
        for start in [0, RANGE, 2 * RANGE] {
            for (column, ahead) in ways {
                let setting = format!("SET effective_io_concurrency = {ahead}; {BY_INDEX}");
                let sql = format!("{setting}; {}", range("sum(id)", start));
                let (_, seconds) = server.timed(&sql)?;
                tables.cached.add(word(direct), *column, seconds * 1e3);
            }
        }
        Ok(())
    }

    /// Reads ranges, forward, backward and in the order of the pages, beside fio.
    fn ranges(
        &self,
        server: &Running<'_>,
        direct: bool,
        figures: &mut Table,
    ) -> Result<(), String> {
        let name = SERVERS[server.column()];
        let before = self.random_reads(32)?;
        let ways = [
            ("forward", BY_INDEX, " ORDER BY k"),
            ("backward", BY_INDEX, " ORDER BY k DESC"),
            ("bitmap", BY_BITMAP, ""),
        ];
        let mut found = Vec::new();
        for (n, (way, setting, order)) in ways.into_iter().enumerate() {
            let rows = range("ctid", n as u64 * RANGE);
            let places = server.query(&format!("{BY_INDEX}; {rows}"))?;
            let sql = format!(
                "{setting}; SELECT sum(id) FROM ({}{order} LIMIT 1000000000) r",
                range("id", n as u64 * RANGE)
            );
            let (_, seconds) = self.caches.cold(server, &sql)?;
            let row = format!("{way}, {name}, {}", word(direct));
            found.push((row, blocks(&places)? as f64 * BLOCK / 1e6 / seconds));
        }
        let after = self.random_reads(32)?;
        let fio = f64::midpoint(before, after);
        figures.add("fio, direct 8 KiB random read, depth 32", RATE, fio);
        figures.add("fio, direct 8 KiB random read, depth 1", RATE, self.random_reads(1)?);
        for (row, rate) in found {
            figures.add(&row, RATE, rate);
            figures.add(&row, PART, rate / fio);
            if direct && server.column() == 0 {
                figures.mark(&row, &[Mark::at_least(PART, OF_FIO)]);
            }
        }
        Ok(())
    }

    /// fio's rate of random reads, MB/s.
    fn random_reads(&self, depth: u32) -> Result<f64, String> {
        let seconds = format!("--runtime={}", self.extent.seconds);
        let depth = format!("--iodepth={depth}");
        let job = ["--rw=randread", "--bs=8k", "--time_based", &seconds, &depth];
        let done = fio::run(&self.device.display().to_string(), &[&job[..], &REGISTERED].concat())?;
        Ok(done.megabytes_per_second())
    }

    /// Sessions look up rows at random.
    fn keys(
        &self,
        server: &Running<'_>,
        clients: u32,
        row: &str,
        figures: &mut Table,
    ) -> Result<(), String> {
        let script = "\\set k random(1, 1000000)\nSELECT id FROM w WHERE k = :k;\n";
        let length = Length::Seconds(self.extent.seconds);
        let run = Run { script: Script::Own(script), mode: "prepared", clients, length };
        figures.add(row, server.column(), run.done(server, self.peer)?.rate);
        Ok(())
    }

    /// Deletes a tenth of the rows, at random places, and vacuums the table and its index.
    fn vacuum(
        &self,
        subject: &Subject,
        direct: bool,
        size: u64,
        figures: &mut Table,
    ) -> Result<(), String> {
        let server = start(subject, direct, &[&pool(size / 4)])?;
        server.query("DELETE FROM w WHERE k % 10 = 0")?;
        server.query("CHECKPOINT")?;
        let (_, seconds) = self.caches.cold(&server, "VACUUM w")?;
        figures.add(word(direct), server.column(), seconds);
        Ok(())
    }

    /// Checks each page, and each row in the index and back: with the server's own program, and
    /// `forebay check` on PostgreSQL's directory too.
    fn check(&self, subject: &Subject, figures: &mut Table) -> Result<(), String> {
        let server = start(subject, true, &[])?;
        let bytes = server.number("SELECT pg_relation_size('w')")?
            + server.number("SELECT pg_relation_size('w_k')")?;
        let row = format!("of {}", SERVERS[server.column()]);
        let mut timed = |column, command: &mut Command| {
            self.caches.drop()?;
            let begun = Instant::now();
            let run = run_command(command);
            figures.add(&row, column, bytes / 1e6 / begun.elapsed().as_secs_f64());
            run
        };
        if server.column() == 1 {
            server.query("CREATE EXTENSION IF NOT EXISTS amcheck")?;
            server.query("SELECT count(*) FROM pg_buffercache_evict_all()")?;
            let port = server.port.to_string();
            let words = ["pg_amcheck", "-h", "127.0.0.1", "-U", "postgres", "-p", &port];
            let what = ["--heapallindexed", "-j", "2", "-t", "w", "-d", "postgres"];
            timed(1, &mut subject.program(&[&words[..], &what].concat()))?;
        }
        drop(server);
        let mut check = Command::new(self.program);
        check.args(["check", "-r", "w", "-j", "2", "-D"]).arg(subject.directory());
        timed(0, check.stdout(Stdio::null()))?;
        let job = ["--rw=read", "--bs=128k", "--iodepth=32"];
        let done = fio::run(&self.device.display().to_string(), &job)?;
        figures.add(&row, 2, done.megabytes_per_second());
        Ok(())
    }
}

/// The rows of a range.
fn range(what: &str, start: u64) -> String {
    let end = start + RANGE - 1;
    format!("SELECT {what} FROM w WHERE k BETWEEN {start} AND {end}")
}

/// A pool of so many bytes.
fn pool(bytes: u64) -> String {
    format!("shared_buffers={}kB", bytes / 1024)
}

/// Number of pages on which these rows are. psql prints each row's place.
fn blocks(places: &str) -> Result<usize, String> {
    let block = |place: &str| {
        let (block, _) = place.trim().strip_prefix('(')?.split_once(',')?;
        block.parse::<u32>().ok()
    };
    let found: Option<HashSet<u32>> =
        places.lines().filter(|line| line.starts_with('(')).map(block).collect();
    match found {
        Some(found) if !found.is_empty() => Ok(found.len()),
        _ => Err(format!("no places of rows: {places}")),
    }
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn pages_of_rows_are_counted_once() {
        assert_eq!(blocks("SET\n(0,1)\n(12,3)\n(0,2)\n"), Ok(2));
        assert!(blocks("SET\n").is_err() && blocks("(x,1)").is_err());
    }
}
