//! A table four times the pool: rows by ctid, and a cold VACUUM beside fio. Its count(*) is
//! measured before, in a pool that holds it.
//!
//! Each way of I/O begins with a new table, since the changes of one would be found by the other.

use std::path::{Path, PathBuf};

use super::extent::{Extent, SERVERS, SESSIONS};
use crate::measure::cold::Caches;
use crate::measure::fio::{self, Done, REGISTERED};
use crate::measure::pgbench::{Length, Run, Script};
use crate::measure::servers::{Running, Subject, WITHOUT_AUTOVACUUM};
use crate::measure::table::{Better, Mark, Table};
use crate::measure::work::{self, TABLE, word};
use crate::peers::Peer;

const BLOCK: f64 = 8192.0;
/// Each page of the table has at least so many rows, at first.
const ROWS_A_PAGE: u32 = 100;
/// Parallel workers of a count(*).
const WORKERS: [u32; 3] = [0, 1, 2];

/// Columns of VACUUM, and their indexes.
const VACUUM: [&str; 4] = ["MB/s", "part of fio's", "VACUUM, s", "CHECKPOINT, s"];
const RATE: usize = 0;
const PART: usize = 1;
const SECONDS: usize = 2;
const CHECKPOINT: usize = 3;
/// The mark as a part of fio's rate.
const OF_MIXED: f64 = 0.9;

/// The tables.
pub struct Tables {
    by_ctid: Table,
    vacuum: Table,
    cold: Table,
    warm: Table,
}

impl Tables {
    /// Empty tables.
    pub fn new() -> Tables {
        Tables {
            by_ctid: Table::new(
                "A table four times the pool by ctid, transactions a second",
                &SERVERS,
            ),
            vacuum: Table::marked("VACUUM of a table four times the pool, cold", &VACUUM),
            cold: Table::against_best("count(*), cold, seconds", SERVERS, Better::Less),
            warm: Table::against_best("count(*), warm, seconds", SERVERS, Better::Less),
        }
    }

    /// The tables.
    pub fn all(self) -> Vec<Table> {
        vec![self.by_ctid, self.vacuum, self.cold, self.warm]
    }
}

/// What is measured.
pub struct Large<'l> {
    /// Has pgbench.
    pub peer: &'l Peer,
    /// The kernel's cache.
    pub caches: &'l Caches,
    /// How much.
    pub extent: Extent,
    /// The rows, in COPY's binary format.
    pub input: PathBuf,
    /// fio's file.
    pub device: &'l Path,
}

impl Large<'_> {
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
        let size = self.load_and_count(subject, direct, tables)?;
        let pool = format!("shared_buffers={}kB", size / 4 / 1024);
        let server = start(subject, direct, &[&pool])?;
        server.query("SELECT pg_prewarm('t', 'buffer')")?;
        self.by_ctid(&server, size, direct, &mut tables.by_ctid)?;
        self.vacuum(&server, direct, &mut tables.vacuum)
    }

    /// Makes the table, and counts its rows. Returns its size.
    fn load_and_count(
        &self,
        subject: &Subject,
        direct: bool,
        tables: &mut Tables,
    ) -> Result<u64, String> {
        let server = start(subject, direct, &[])?;
        server.create_extensions()?;
        server.query("DROP TABLE IF EXISTS t")?;
        server.query(TABLE)?;
        work::load(&server, "t", "binary", &self.input)?;
        server.query("VACUUM t")?;
        server.query("CHECKPOINT")?;
        let column = subject.column();
        for workers in WORKERS {
            let sql =
                format!("SET max_parallel_workers_per_gather = {workers}; SELECT count(*) FROM t");
            let row = format!("{workers} workers, {}", word(direct));
            let cold = self.caches.cold(&server, &sql)?;
            // A scan of a large table leaves most of it out of the pool.
            server.query("SELECT pg_prewarm('t', 'buffer')")?;
            let warm = server.timed(&sql)?;
            let timed = [(cold, &mut tables.cold), (warm, &mut tables.warm)];
            for ((count, seconds), table) in timed {
                if count != self.extent.rows.to_string() {
                    return Err(format!("count(*) gave {count}, not {}", self.extent.rows));
                }
                table.add(&row, column, seconds);
            }
        }
        Ok(server.number("SELECT pg_relation_size('t')")? as u64)
    }

    /// Changes rows at random places. A place that was used before has no row any more; in one run
    /// those are few.
    fn by_ctid(
        &self,
        server: &Running<'_>,
        size: u64,
        direct: bool,
        table: &mut Table,
    ) -> Result<(), String> {
        // The last page may be almost empty.
        let last = (size / BLOCK as u64).saturating_sub(2);
        let length = Length::Seconds(self.extent.seconds);
        for (verb, change) in [("update", "UPDATE t SET k = k + 1"), ("delete", "DELETE FROM t")] {
            for clients in SESSIONS {
                let script = format!(
                    "\\set b random(0, {last})\n\\set o random(1, {ROWS_A_PAGE})\n\
                     {change} WHERE ctid = '(:b,:o)';\n"
                );
                let run = Run { script: Script::Own(&script), mode: "simple", clients, length };
                let done = run.done(server, self.peer)?;
                let row = format!("{verb}, {clients} sessions, {}", word(direct));
                table.add(&row, server.column(), done.rate);
            }
        }
        Ok(())
    }

    /// Updates some rows of each page, and vacuums the table, which reads and writes each page
    /// once. There is no checkpoint between, so the log has their images already. The seconds
    /// include a checkpoint after it, which writes what is left in the pool.
    fn vacuum(&self, server: &Running<'_>, direct: bool, table: &mut Table) -> Result<(), String> {
        server.query("UPDATE t SET k = k + 1 WHERE id % 10 = 0")?;
        let size = server.number("SELECT pg_relation_size('t')")?;
        server.query("SELECT count(*) FROM pg_buffercache_evict_all()")?;
        let before = self.mixed()?;
        let (_, vacuum) = self.caches.cold(server, "VACUUM t")?;
        let (_, checkpoint) = server.timed("CHECKPOINT")?;
        let after = self.mixed()?;
        for done in [&before, &after] {
            table.add("fio, direct 128 KiB, half written, depth 32", RATE, rate(done));
        }
        let row = format!("{}, {}", SERVERS[server.column()], word(direct));
        let moved = 2.0 * size / 1e6 / (vacuum + checkpoint);
        table.add(&row, RATE, moved);
        table.add(&row, PART, moved / f64::midpoint(rate(&before), rate(&after)));
        table.add(&row, SECONDS, vacuum);
        table.add(&row, CHECKPOINT, checkpoint);
        if direct && server.column() == 0 {
            table.mark(&row, &[Mark::at_least(PART, OF_MIXED)]);
        }
        Ok(())
    }

    /// fio reads and writes a file in order, as a vacuum does.
    fn mixed(&self) -> Result<Done, String> {
        let seconds = format!("--runtime={}", self.extent.seconds);
        let mix = ["--rw=rw", "--rwmixread=50", "--bs=128k", "--iodepth=32", "--overwrite=1"];
        let arguments = [&mix[..], &["--time_based", &seconds], &REGISTERED].concat();
        fio::run(&self.device.display().to_string(), &arguments)
    }
}

fn rate(done: &Done) -> f64 {
    done.megabytes_per_second()
}

/// Starts a server for reading ahead as far as fio does, with checkpoints only when asked for.
fn start<'s>(subject: &'s Subject, direct: bool, more: &[&str]) -> Result<Running<'s>, String> {
    let direct = subject.direct_setting(direct);
    let mut settings = vec![
        "io_method=io_uring",
        "wal_sync_method=fdatasync",
        "effective_io_concurrency=32",
        "maintenance_io_concurrency=32",
        "checkpoint_timeout=3600",
        // The ring of a vacuum, in which pages wait for being written.
        "vacuum_buffer_usage_limit=16MB",
        &direct,
        WITHOUT_AUTOVACUUM,
    ];
    settings.extend(more);
    subject.start(&settings)
}
