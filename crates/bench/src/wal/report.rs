//! The figures of `forebay bench wal`.

use serde::Serialize;

use super::log::Sample;
use super::plan::{Case, WalBench, WalSetup};
use crate::device::DeviceJob;
use crate::methods::mode;
use crate::stats::{Latencies, Spread};
use crate::table::{TextTable, short};

/// All figures; the JSON object's fields.
#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) bench: &'static str,
    pub(super) version: u32,
    pub(super) directory: String,
    pub(super) filesystem: String,
    pub(super) wal_buffers_bytes: u64,
    pub(super) rounds: usize,
    pub(super) run_seconds: f64,
    pub(super) notes: Vec<String>,
    pub(super) device: Vec<DeviceRow>,
    pub(super) pg_test_fsync: Vec<FsyncRow>,
    pub(super) commits: Vec<CommitRow>,
    pub(super) insertion: Vec<InsertRow>,
    pub(super) bulk: Vec<BulkRow>,
}

/// What the device gives: writes of a block, or bytes of large writes.
#[derive(Serialize)]
pub(super) struct DeviceRow {
    #[serde(skip)]
    job: DeviceJob,
    write_bytes: u32,
    depth: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    writes_per_second: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<Spread>,
}

impl DeviceRow {
    pub(super) fn of(job: DeviceJob, rates: &[f64]) -> Option<DeviceRow> {
        let rate = Spread::of_some(rates.iter().copied())?;
        let bulk = job == DeviceJob::Bulk;
        Some(DeviceRow {
            job,
            write_bytes: job.write_bytes(),
            depth: job.depth(),
            writes_per_second: (!bulk).then_some(rate),
            bytes_per_second: bulk.then_some(rate),
        })
    }
}

/// pg_test_fsync's rate of single writes of 8 kB.
#[derive(Serialize)]
pub(super) struct FsyncRow {
    wal_sync_method: String,
    writes_per_second: f64,
}

impl FsyncRow {
    pub(super) fn of((wal_sync_method, writes_per_second): (String, f64)) -> FsyncRow {
        FsyncRow { wal_sync_method, writes_per_second }
    }
}

/// Commits with one setup.
#[derive(Serialize)]
pub(super) struct CommitRow {
    #[serde(flatten)]
    setup: WalSetup,
    record_bytes: u32,
    committers: u32,
    commits_per_second: Spread,
    /// Of the device's writes at the same depth in the same round.
    part_of_device: Option<Spread>,
    writes_per_second: Spread,
    syncs_per_second: Spread,
    mean_write_bytes: Spread,
    /// Writes and syncs in flight, on the average.
    mean_in_flight: Spread,
    cpu_microseconds: Spread,
    /// Percentiles of all rounds together, in microseconds.
    latency_us_p50: f64,
    latency_us_p99: f64,
    latency_us_p999: f64,
    /// Waits for a segment, in all rounds together.
    segment_waits: u64,
}

fn spread(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> Spread {
    Spread::of(samples.iter().map(value))
}

/// The part of each sample whose round has a figure of the device's.
fn part(samples: &[Sample], rate: impl Fn(&Sample) -> f64) -> Option<Spread> {
    Spread::of_some(samples.iter().filter_map(|s| Some(rate(s) / s.device?)))
}

fn segment_waits(samples: &[Sample]) -> u64 {
    samples.iter().map(|s| s.segment_waits).sum()
}

fn commits_per_second(sample: &Sample) -> f64 {
    sample.latencies.count() as f64 / sample.seconds
}

fn mean_write(sample: &Sample) -> f64 {
    sample.write_bytes as f64 / sample.writes.max(1) as f64
}

impl CommitRow {
    pub(super) fn of(case: &Case, samples: &[Sample]) -> CommitRow {
        let mut latencies = Latencies::default();
        samples.iter().for_each(|sample| latencies.merge(&sample.latencies));
        let latency = |part: f64| latencies.percentile(part) as f64 / 1e3;
        let each = |value: fn(&Sample) -> f64| spread(samples, value);
        CommitRow {
            setup: case.setup,
            record_bytes: case.record_size,
            committers: case.threads,
            commits_per_second: each(commits_per_second),
            part_of_device: part(samples, commits_per_second),
            writes_per_second: each(|s| s.writes as f64 / s.seconds),
            syncs_per_second: each(|s| s.syncs as f64 / s.seconds),
            mean_write_bytes: each(mean_write),
            mean_in_flight: each(|s| s.io_seconds / s.seconds),
            cpu_microseconds: each(|s| s.cpu_seconds * 1e6 / s.latencies.count().max(1) as f64),
            latency_us_p50: latency(0.5),
            latency_us_p99: latency(0.99),
            latency_us_p999: latency(0.999),
            segment_waits: segment_waits(samples),
        }
    }
}

/// Insertion into memory.
#[derive(Serialize)]
pub(super) struct InsertRow {
    record_bytes: u32,
    threads: u32,
    records_per_second: Spread,
    bytes_per_second: Spread,
    cpu_nanoseconds: Spread,
}

impl InsertRow {
    pub(super) fn of(case: &Case, samples: &[Sample]) -> InsertRow {
        let each = |value: fn(&Sample) -> f64| spread(samples, value);
        InsertRow {
            record_bytes: case.record_size,
            threads: case.threads,
            records_per_second: each(|s| s.records as f64 / s.seconds),
            bytes_per_second: each(|s| s.record_bytes as f64 / s.seconds),
            cpu_nanoseconds: each(|s| s.cpu_seconds * 1e9 / s.records.max(1) as f64),
        }
    }
}

/// Bulk insertion, durable at the end.
#[derive(Serialize)]
pub(super) struct BulkRow {
    #[serde(flatten)]
    setup: WalSetup,
    record_bytes: u32,
    threads: u32,
    bytes_per_second: Spread,
    /// Of the device's bytes in the same round.
    part_of_device: Option<Spread>,
    mean_write_bytes: Spread,
    /// Writes and syncs in flight, on the average.
    mean_in_flight: Spread,
    cpu_seconds_per_gb: Spread,
    /// Waits for a segment, in all rounds together.
    segment_waits: u64,
}

impl BulkRow {
    pub(super) fn of(case: &Case, samples: &[Sample]) -> BulkRow {
        let each = |value: fn(&Sample) -> f64| spread(samples, value);
        let rate = |s: &Sample| s.record_bytes as f64 / s.seconds;
        BulkRow {
            setup: case.setup,
            record_bytes: case.record_size,
            threads: case.threads,
            bytes_per_second: each(rate),
            part_of_device: part(samples, rate),
            mean_write_bytes: each(mean_write),
            mean_in_flight: each(|s| s.io_seconds / s.seconds),
            cpu_seconds_per_gb: each(|s| s.cpu_seconds / (s.record_bytes.max(1) as f64 / 1e9)),
            segment_waits: segment_waits(samples),
        }
    }
}

/// The median, or a dash.
fn maybe(part: Option<Spread>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| short(part.median))
}

impl Figures {
    pub(super) fn text(&self, bench: &WalBench) -> String {
        let mut text = self.heading();
        for &size in &bench.record_sizes {
            let rows: Vec<&CommitRow> =
                self.commits.iter().filter(|row| row.record_bytes == size).collect();
            if !rows.is_empty() {
                let whole = size == WalBench::WHOLE_BLOCK;
                let block = if whole { ", each a block of its own" } else { "" };
                text += &format!(
                    "\nCommits a second by committers, records of {size} bytes{block}\n\n{}\n\
                     The same in detail, records of {size} bytes\n\n{}",
                    self.overview(&bench.committers, &rows),
                    commit_table(&rows)
                );
            }
        }
        if !self.insertion.is_empty() {
            text += &format!("\nInsertion alone\n\n{}", insert_table(&self.insertion));
        }
        if !self.bulk.is_empty() {
            text += &format!("\nBulk insertion, durable\n\n{}", self.bulk_table());
        }
        text
    }

    fn heading(&self) -> String {
        let mut text = format!(
            "The write-ahead log in \"{}\" (file system {}), wal_buffers {} kB; \
             medians of {} rounds of {} s, smallest and\n\
             largest in brackets; latencies of all rounds together; \
             MB and GB are 10^6 and 10^9 bytes; processor time is user and system.\n",
            self.directory,
            self.filesystem,
            self.wal_buffers_bytes >> 10,
            self.rounds,
            self.run_seconds,
        );
        let rate = |row: &FsyncRow| format!("{} {:.0}", row.wal_sync_method, row.writes_per_second);
        let rates: Vec<String> = self.pg_test_fsync.iter().map(rate).collect();
        if !rates.is_empty() {
            text += &format!("pg_test_fsync, one 8 kB write, a second: {}.\n", rates.join(", "));
        }
        self.notes.iter().for_each(|note| text += &format!("{note}\n"));
        text
    }

    /// A row for each setup, a column for each number of committers.
    fn overview(&self, committers: &[u32], rows: &[&CommitRow]) -> String {
        let heading = ["sync method", "mode", "gather"].map(str::to_owned).into_iter();
        let mut table = TextTable::new(heading.chain(committers.iter().map(u32::to_string)));
        let of_device = |n: &u32| {
            let found = self.device.iter().find(|row| row.job == DeviceJob::Commits(*n));
            maybe(found.and_then(|row| row.writes_per_second))
        };
        if self.device.iter().any(|row| row.job != DeviceJob::Bulk) {
            let name = ["fio, O_DSYNC, 8 KiB", "direct", ""].map(str::to_owned).into_iter();
            table.row(name.chain(committers.iter().map(of_device)));
        }
        // Setups that differ only in their writes in flight share a row.
        let mut setups: Vec<[String; 3]> = Vec::new();
        for row in rows {
            if !setups.contains(&row.setup.cells()) {
                setups.push(row.setup.cells());
            }
        }
        for setup in setups {
            let rate = |n: &u32| {
                let found =
                    rows.iter().find(|row| row.setup.cells() == setup && row.committers == *n);
                maybe(found.map(|row| row.commits_per_second))
            };
            let rates: Vec<String> = committers.iter().map(rate).collect();
            table.row(setup.iter().cloned().chain(rates));
        }
        table.text()
    }

    fn bulk_table(&self) -> String {
        let mut table = TextTable::of(
            &self.bulk,
            &[
                ("sync method", &|row| row.setup.name()),
                ("mode", &|row| mode(row.setup.direct).to_owned()),
                ("gather", &|row| row.setup.gathers()),
                ("threads", &|row| row.threads.to_string()),
                ("MB/s", &|row| row.bytes_per_second.per(1e6).text()),
                ("of device", &|row| maybe(row.part_of_device)),
                ("kB a write", &|row| short(row.mean_write_bytes.median / 1024.0)),
                ("in flight", &|row| short(row.mean_in_flight.median)),
                ("CPU s/GB", &|row| short(row.cpu_seconds_per_gb.median)),
                ("waits for a segment", &|row| row.segment_waits.to_string()),
            ],
        );
        for rate in self.device.iter().filter_map(|row| row.bytes_per_second) {
            let name = "fio, O_DSYNC, 128 KiB, 16 in flight";
            table.first([name, "direct", "", "", &rate.per(1e6).text()]);
        }
        table.text()
    }
}

fn commit_table(rows: &[&CommitRow]) -> String {
    let whole = |us: f64| format!("{us:.0}");
    let table = TextTable::of(
        rows,
        &[
            ("sync method", &|row| row.setup.name()),
            ("mode", &|row| mode(row.setup.direct).to_owned()),
            ("gather", &|row| row.setup.gathers()),
            ("committers", &|row| row.committers.to_string()),
            ("commits/s", &|row| row.commits_per_second.text()),
            ("of device", &|row| maybe(row.part_of_device)),
            ("writes/s", &|row| short(row.writes_per_second.median)),
            ("syncs/s", &|row| short(row.syncs_per_second.median)),
            ("kB a write", &|row| short(row.mean_write_bytes.median / 1024.0)),
            ("in flight", &|row| short(row.mean_in_flight.median)),
            ("us at 50 %", &|row| whole(row.latency_us_p50)),
            ("99 %", &|row| whole(row.latency_us_p99)),
            ("99.9 %", &|row| whole(row.latency_us_p999)),
            ("CPU us", &|row| short(row.cpu_microseconds.median)),
        ],
    );
    table.text()
}

fn insert_table(rows: &[InsertRow]) -> String {
    let table = TextTable::of(
        rows,
        &[
            ("record, bytes", &|row| row.record_bytes.to_string()),
            ("threads", &|row| row.threads.to_string()),
            ("records/s", &|row| row.records_per_second.text()),
            ("GB/s", &|row| row.bytes_per_second.per(1e9).text()),
            ("CPU ns a record", &|row| short(row.cpu_nanoseconds.median)),
        ],
    );
    table.text()
}
