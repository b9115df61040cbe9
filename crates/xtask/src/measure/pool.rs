//! The buffer pool: `forebay bench` beside fio and PostgreSQL 18, on the same relation or on files
//! of its size.
//!
//! - [`relation`]: a frozen table of a PostgreSQL cluster, and PostgreSQL's own ways to read it
//! - [`device`]: what the device gives, by fio
//! - [`own`]: `forebay bench`, and what it says
//! - [`hit`]: a page that is in memory, by criterion
//!
//! Each run of the bench stands between two of fio, and its part of the device's rate is that of
//! their mean, so drift falls on both. The order of the ways changes from round to round.

use std::fs;
use std::path::Path;

use super::cold::Caches;
use super::fio::Done;
use super::servers::Subject;
use super::table::{Mark, Table, printed};
use crate::peers::Peer;

mod device;
mod hit;
mod own;
mod relation;

pub use device::Extent;

use device::{Device, EVICT_POOL, Job};
use own::{Outcome, Own, Way};
use relation::Relation;

/// Columns of tables beside fio, and their indexes.
const BESIDE_FIO: [&str; 4] = ["MB/s", "part of fio's", "CPU s/GB", "kernel's cache, MB"];
const RATE: usize = 0;
const PART: usize = 1;
const CPU: usize = 2;
const CACHED: usize = 3;
/// One more column, of random updates.
const WAITED: usize = 4;

const METHODS: [&str; 4] = ["io_uring", "worker", "sync", "posix_aio"];
/// Methods that have marks, with direct I/O.
const FAST: [&str; 2] = ["io_uring", "worker"];
const OF_READING: f64 = 0.95;
const OF_WRITING: f64 = 0.80;

struct Tables {
    reading: Table,
    random: Table,
    evict: Table,
    checkpoint: Table,
    hit: Table,
    /// Tables beside PostgreSQL.
    scan: Table,
    prewarm_read: Table,
    prewarm_buffer: Table,
}

impl Tables {
    fn new() -> Tables {
        let peers = ["Forebay", "PostgreSQL 18"];
        let evict = [&BESIDE_FIO[..], &["victims waited for, %"]].concat();
        Tables {
            reading: Table::marked("A relation read cold, in order", &BESIDE_FIO),
            random: Table::marked("Random block lists, cold", &BESIDE_FIO),
            evict: Table::marked("Random updates over four times the pool", &evict),
            checkpoint: Table::marked("Checkpoint of a full dirty pool", &BESIDE_FIO),
            hit: hit::table(),
            scan: Table::new("Scan against count(*), cold, MB/s", &peers),
            prewarm_read: Table::new("Prewarm read, cold, MB/s", &peers),
            prewarm_buffer: Table::new("Prewarm buffer, cold, MB/s", &peers),
        }
    }

    fn all(self) -> Vec<Table> {
        vec![
            self.reading,
            self.random,
            self.evict,
            self.checkpoint,
            self.hit,
            self.scan,
            self.prewarm_read,
            self.prewarm_buffer,
        ]
    }
}

/// Measures, prints the tables, and returns them.
///
/// # Errors
/// When something can't be made or run.
pub fn run(
    root: &Path,
    peer: &Peer,
    caches: &Caches,
    extent: Extent,
) -> Result<Vec<Table>, String> {
    let folder = root.join("target/measure/pool");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let relation = Relation::make(Subject::postgres(peer)?, extent.bytes)?;
    let device = Device::prepare(&relation, &folder, extent)?;
    let own = Own { program: root.join("target/release/forebay") };
    let bench = Bench { relation: &relation, device, own, caches, extent };
    let mut tables = Tables::new();
    for round in 0..extent.rounds {
        println!("round {} of {}", round + 1, extent.rounds);
        bench.reading(round, &mut tables)?;
        bench.random(round, &mut tables)?;
        bench.evict(round, &mut tables)?;
        bench.checkpoint(round, &mut tables)?;
        hit::measure(root, &mut tables.hit)?;
        bench.postgres(round, &mut tables)?;
    }
    println!(
        "The relation: {:.0} MB, {} rows; PostgreSQL with effective_io_concurrency and \
         maintenance_io_concurrency 32 and 8 workers.",
        relation.bytes as f64 / 1e6,
        relation.rows
    );
    let tables = printed(tables.all());
    relation.remove();
    fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(tables)
}

/// One run of the bench, in a group beside one job of fio.
struct Run {
    row: String,
    way: Way,
    words: Vec<String>,
}

struct Bench<'a> {
    relation: &'a Relation,
    device: Device,
    own: Own,
    caches: &'a Caches,
    extent: Extent,
}

impl Bench<'_> {
    /// Scan and prewarm by each method, buffered and direct.
    fn reading(&self, round: usize, tables: &mut Tables) -> Result<(), String> {
        let tasks = [("scan", ""), ("prewarm", "read"), ("prewarm", "buffer")];
        let mut runs = Vec::new();
        for (task, mode) in tasks {
            for way in ways(&METHODS) {
                let row = format!("{task}{}{mode}, {way}", if mode.is_empty() { "" } else { " " });
                let mut words = vec![task.to_string()];
                if !mode.is_empty() {
                    words.extend(["--mode".to_string(), mode.to_string()]);
                }
                words.extend(self.relation.words());
                runs.push(Run { row, way, words });
            }
        }
        for (run, outcome) in
            self.beside(Job::Read, round, runs, OF_READING, &mut tables.reading)?
        {
            self.check(&run, &outcome)?;
            let peers = match run.row.split(',').next() {
                Some("scan") => &mut tables.scan,
                Some("prewarm read") => &mut tables.prewarm_read,
                _ => &mut tables.prewarm_buffer,
            };
            if run.way.method != "posix_aio" {
                peers.add(&run.way.to_string(), 0, outcome.bytes_per_second / 1e6);
            }
        }
        // It asks the kernel to read, and does not wait.
        self.caches.drop()?;
        let way = Way { method: "io_uring", direct: false };
        let words =
            [&["prewarm".into(), "--mode".into(), "prefetch".into()], &self.relation.words()[..]];
        let asked = self.own.run(&words.concat(), way)?;
        let row = format!("prewarm prefetch (only asks), {way}");
        tables.reading.add(&row, RATE, self.relation.bytes as f64 / 1e6 / asked.seconds);
        tables.reading.add(&row, CACHED, asked.kernel_cached / 1e6);
        Ok(())
    }

    fn random(&self, round: usize, tables: &mut Tables) -> Result<(), String> {
        // All methods get the same list, a quarter of the relation.
        let blocks = (self.device.random_bytes() / 8192).to_string();
        let mut words = vec!["scan".to_string(), "--random".into(), "--blocks".into(), blocks];
        words.extend(self.relation.words());
        let all = ways(&METHODS).into_iter().filter(|way| way.direct || FAST.contains(&way.method));
        let runs =
            all.map(|way| Run { row: format!("random list, {way}"), way, words: words.clone() });
        let mut runs: Vec<Run> = runs.collect();
        // The best settings: a deeper look ahead, and as many workers as possible.
        for way in ways(&FAST).into_iter().filter(|way| way.direct) {
            let (row, more) = match way.method {
                "worker" => ("random list, depth 64, 32 workers", "--depth 64 --io-workers 32"),
                _ => ("random list, depth 64", "--depth 64"),
            };
            let more: Vec<String> = more.split(' ').map(str::to_string).collect();
            runs.push(Run {
                row: format!("{row}, {way}"),
                way,
                words: [&words[..], &more].concat(),
            });
        }
        self.beside(Job::Random, round, runs, OF_READING, &mut tables.random).map(drop)
    }

    fn evict(&self, round: usize, tables: &mut Tables) -> Result<(), String> {
        let seconds = self.extent.seconds.to_string();
        let pool = EVICT_POOL.to_string();
        let words =
            ["evict", "-D", &self.device.folder, "--seconds", &seconds, "--shared-buffers", &pool];
        let words: Vec<String> = words.map(str::to_string).to_vec();
        let all = ways(&FAST).into_iter().filter(|way| way.direct || way.method == "io_uring");
        let runs: Vec<Run> = all
            .map(|way| Run { row: format!("updates, {way}"), way, words: words.clone() })
            .collect();
        let done = self.beside(Job::Mixed, round, runs, OF_WRITING, &mut tables.evict)?;
        for (run, outcome) in done {
            tables.evict.add(&run.row, WAITED, outcome.waited.unwrap_or(f64::NAN) * 100.0);
            if run.way.direct {
                let marks = [
                    Mark::at_least(PART, OF_WRITING),
                    Mark::at_most(WAITED, 1.0),
                    Mark::at_most(CACHED, 0.0),
                ];
                tables.evict.mark(&run.row, &marks);
            }
        }
        Ok(())
    }

    fn checkpoint(&self, round: usize, tables: &mut Tables) -> Result<(), String> {
        let bytes = self.extent.bytes.to_string();
        let words =
            ["checkpoint", "-D", &self.device.folder, "--size", &bytes, "--shared-buffers", &bytes];
        let words: Vec<String> = words.map(str::to_string).to_vec();
        let all = ways(&["io_uring", "worker", "sync"]);
        let runs = all.into_iter().map(|way| Run {
            row: format!("checkpoint, {way}"),
            way,
            words: words.clone(),
        });
        self.beside(Job::Write, round, runs.collect(), OF_WRITING, &mut tables.checkpoint).map(drop)
    }

    /// Runs each run between two runs of fio's job, and sets its marks.
    fn beside(
        &self,
        job: Job,
        round: usize,
        mut runs: Vec<Run>,
        part: f64,
        table: &mut Table,
    ) -> Result<Vec<(Run, Outcome)>, String> {
        let fio = || -> Result<Done, String> {
            self.caches.drop()?;
            self.device.run(job)
        };
        let mut before = fio()?;
        tell_fio(table, job, &before);
        if round == 0 {
            // Rows appear in the order of their first figures.
            runs.iter().for_each(|run| table.mark(&run.row, &run.marks(part)));
        }
        let first = round % runs.len();
        runs.rotate_left(first);
        let mut done = Vec::new();
        for run in runs {
            self.caches.drop()?;
            let outcome = self.own.run(&run.words, run.way)?;
            let after = fio()?;
            tell_fio(table, job, &after);
            let rate = outcome.bytes_per_second / 1e6;
            let device = f64::midpoint(before.megabytes_per_second(), after.megabytes_per_second());
            table.add(&run.row, RATE, rate);
            table.add(&run.row, PART, rate / device);
            table.add(&run.row, CPU, outcome.cpu_seconds_per_gb);
            table.add(&run.row, CACHED, outcome.kernel_cached / 1e6);
            before = after;
            done.push((run, outcome));
        }
        Ok(done)
    }

    /// Checks that scans count what PostgreSQL counts.
    fn check(&self, run: &Run, outcome: &Outcome) -> Result<(), String> {
        match outcome.live_tuples {
            Some(found) if found != self.relation.rows => {
                Err(format!("{}: counted {found} rows, PostgreSQL {}", run.row, self.relation.rows))
            }
            _ => Ok(()),
        }
    }

    fn postgres(&self, round: usize, tables: &mut Tables) -> Result<(), String> {
        let mut ways = ways(&["io_uring", "worker", "sync"]);
        let first = round % ways.len();
        ways.rotate_left(first);
        for way in ways {
            let times = self.relation.read_by_postgres(way, self.caches)?;
            let rate = |seconds: f64| self.relation.bytes as f64 / 1e6 / seconds;
            let row = way.to_string();
            tables.scan.add(&row, 1, rate(times.scan));
            tables.prewarm_read.add(&row, 1, rate(times.prewarm_read));
            tables.prewarm_buffer.add(&row, 1, rate(times.prewarm_buffer));
        }
        Ok(())
    }
}

impl Run {
    fn marks(&self, part: f64) -> Vec<Mark> {
        let mut marks = Vec::new();
        if self.way.direct && FAST.contains(&self.way.method) {
            marks.push(Mark::at_least(PART, part));
        }
        if self.way.direct {
            marks.push(Mark::at_most(CACHED, 0.0));
        }
        marks
    }
}

fn tell_fio(table: &mut Table, job: Job, done: &Done) {
    table.add(job.row(), RATE, done.megabytes_per_second());
    table.add(job.row(), CPU, done.cpu_per_gigabyte());
}

/// The methods, direct first.
fn ways(methods: &[&'static str]) -> Vec<Way> {
    let of = |direct| methods.iter().map(move |&method| Way { method, direct });
    of(true).chain(of(false)).collect()
}
