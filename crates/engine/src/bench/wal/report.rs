//! What the runs gave, as tables for people and JSON for programs.

use super::super::json::Json;
use super::super::measure::Spread;
use super::super::table::{TextTable, short};
use super::{CommitCase, DeviceJob, InsertCase, Latencies, Sample, WalBench, WalWay};

/// What the device gives.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRow {
    /// Asked what.
    pub job: DeviceJob,
    /// Writes a second, or bytes.
    pub per_second: Spread,
}

impl DeviceRow {
    pub(super) fn of(job: DeviceJob, rates: &[f64]) -> Option<DeviceRow> {
        (!rates.is_empty()).then(|| DeviceRow { job, per_second: Spread::of(rates.to_vec()) })
    }
}

/// Commits of one way.
#[derive(Clone, Copy, Debug)]
pub struct CommitRow {
    /// The way.
    pub way: WalWay,
    /// Bytes of a record.
    pub record_bytes: u32,
    /// How many commit at a time.
    pub committers: u32,
    /// Commits that were acknowledged in a second.
    pub commits_per_second: Spread,
    /// Of the device's writes at the same depth in the same round.
    pub part_of_device: Option<Spread>,
    /// Writes in a second.
    pub writes_per_second: Spread,
    /// Syncs in a second.
    pub syncs_per_second: Spread,
    /// Bytes of a write.
    pub mean_write_bytes: Spread,
    /// Writes and syncs under way at a time, on the average.
    pub mean_in_flight: Spread,
    /// Processor time of a commit, user and system.
    pub cpu_microseconds: Spread,
    /// Microseconds of a commit at 50, 99 and 99.9 percent, of all rounds together.
    pub latency_microseconds: [f64; 3],
    /// How often a segment was waited for, in all rounds together.
    pub segment_waits: u64,
}

fn spread(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> Spread {
    Spread::of(samples.iter().map(value).collect())
}

/// The part of each sample whose round has a figure of the device's.
fn part(samples: &[Sample], rate: impl Fn(&Sample) -> f64) -> Option<Spread> {
    let parts: Vec<f64> = samples.iter().filter_map(|s| Some(rate(s) / s.device?)).collect();
    (!parts.is_empty()).then(|| Spread::of(parts))
}

fn commits_per_second(sample: &Sample) -> f64 {
    sample.latencies.count() as f64 / sample.seconds
}

fn mean_write(sample: &Sample) -> f64 {
    sample.write_bytes as f64 / sample.writes.max(1) as f64
}

impl CommitRow {
    pub(super) fn of(case: &CommitCase, samples: &[Sample]) -> CommitRow {
        let mut latencies = Latencies::default();
        samples.iter().for_each(|sample| latencies.merge(&sample.latencies));
        let each = |value: fn(&Sample) -> f64| spread(samples, value);
        CommitRow {
            way: case.way,
            record_bytes: case.record_size,
            committers: case.committers,
            commits_per_second: each(commits_per_second),
            part_of_device: part(samples, commits_per_second),
            writes_per_second: each(|s| s.writes as f64 / s.seconds),
            syncs_per_second: each(|s| s.syncs as f64 / s.seconds),
            mean_write_bytes: each(mean_write),
            mean_in_flight: each(|s| s.io_seconds / s.seconds),
            cpu_microseconds: each(|s| s.cpu_seconds * 1e6 / s.latencies.count().max(1) as f64),
            latency_microseconds: [0.5, 0.99, 0.999].map(|p| latencies.percentile(p) as f64 / 1e3),
            segment_waits: samples.iter().map(|s| s.segment_waits).sum(),
        }
    }
}

/// Insertion into memory.
#[derive(Clone, Copy, Debug)]
pub struct InsertRow {
    /// Bytes of a record.
    pub record_bytes: u32,
    /// Threads.
    pub inserters: u32,
    /// Records in a second.
    pub records_per_second: Spread,
    /// Their bytes in a second.
    pub bytes_per_second: Spread,
    /// Processor time of a record, user and system.
    pub cpu_nanoseconds: Spread,
}

impl InsertRow {
    pub(super) fn of(case: &InsertCase, samples: &[Sample]) -> InsertRow {
        let each = |value: fn(&Sample) -> f64| spread(samples, value);
        InsertRow {
            record_bytes: case.record_size,
            inserters: case.inserters,
            records_per_second: each(|s| s.records as f64 / s.seconds),
            bytes_per_second: each(|s| s.record_bytes as f64 / s.seconds),
            cpu_nanoseconds: each(|s| s.cpu_seconds * 1e9 / s.records.max(1) as f64),
        }
    }
}

/// Insertion of much, durable at the end.
#[derive(Clone, Copy, Debug)]
pub struct BulkRow {
    /// The way.
    pub way: WalWay,
    /// Bytes of a record.
    pub record_bytes: u32,
    /// Threads.
    pub inserters: u32,
    /// Bytes of records in a second.
    pub bytes_per_second: Spread,
    /// Of the device's bytes in the same round.
    pub part_of_device: Option<Spread>,
    /// Bytes of a write.
    pub mean_write_bytes: Spread,
    /// Writes and syncs under way at a time, on the average.
    pub mean_in_flight: Spread,
    /// Processor time for 10^9 bytes, user and system.
    pub cpu_seconds_per_gb: Spread,
    /// How often a segment was waited for, in all rounds together.
    pub segment_waits: u64,
}

impl BulkRow {
    pub(super) fn of(case: &InsertCase, samples: &[Sample]) -> BulkRow {
        let each = |value: fn(&Sample) -> f64| spread(samples, value);
        let rate = |s: &Sample| s.record_bytes as f64 / s.seconds;
        BulkRow {
            way: case.way,
            record_bytes: case.record_size,
            inserters: case.inserters,
            bytes_per_second: each(rate),
            part_of_device: part(samples, rate),
            mean_write_bytes: each(mean_write),
            mean_in_flight: each(|s| s.io_seconds / s.seconds),
            cpu_seconds_per_gb: each(|s| s.cpu_seconds / (s.record_bytes.max(1) as f64 / 1e9)),
            segment_waits: samples.iter().map(|s| s.segment_waits).sum(),
        }
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct WalReport {
    /// The wish.
    pub bench: WalBench,
    /// The file system's name.
    pub filesystem: String,
    /// What could not be had, and whatever else is to be said.
    pub notes: Vec<String>,
    /// What the device gave.
    pub device: Vec<DeviceRow>,
    /// A row for each way, size and number of committers.
    pub commits: Vec<CommitRow>,
    /// A row for each size and number of threads.
    pub inserts: Vec<InsertRow>,
    /// A row for each way.
    pub bulks: Vec<BulkRow>,
    /// What PostgreSQL's pg_test_fsync said: sync methods, and how many single writes of 8 kB a
    /// second each gave. Whoever asked it puts it here.
    pub pg_test_fsync: Vec<(String, f64)>,
}

fn on(value: bool, yes: &'static str, no: &'static str) -> &'static str {
    if value { yes } else { no }
}

fn maybe(part: Option<Spread>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| short(part.median))
}

impl WalReport {
    /// For people.
    pub fn text(&self) -> String {
        let bench = &self.bench;
        let mut text = format!(
            "The write-ahead log in \"{}\" (file system {}), wal_buffers {} kB; medians of {} rounds of {} s, smallest and\n\
             largest in brackets; latencies of all rounds together; MB and GB are 10^6 and 10^9 bytes; processor time is user and system.\n",
            bench.dir.display(),
            self.filesystem,
            bench.wal_buffers >> 10,
            bench.rounds,
            bench.run_time.as_secs_f64(),
        );
        if !self.pg_test_fsync.is_empty() {
            let rates: Vec<String> =
                self.pg_test_fsync.iter().map(|(name, rate)| format!("{name} {rate:.0}")).collect();
            text += &format!("pg_test_fsync, one 8 kB write, a second: {}.\n", rates.join(", "));
        }
        self.notes.iter().for_each(|note| text += &format!("{note}\n"));
        for &size in &bench.record_sizes {
            let rows: Vec<&CommitRow> =
                self.commits.iter().filter(|row| row.record_bytes == size).collect();
            if !rows.is_empty() {
                let block = on(size == WalBench::WHOLE_BLOCK, ", each a block of its own", "");
                text += &format!(
                    "\nCommits a second by committers, records of {size} bytes{block}\n\n"
                );
                text += &self.overview(&rows);
                text += &format!(
                    "\nThe same in detail, records of {size} bytes\n\n{}",
                    commit_table(&rows)
                );
            }
        }
        if !self.inserts.is_empty() {
            text += &format!("\nInsertion alone\n\n{}", insert_table(&self.inserts));
        }
        if !self.bulks.is_empty() {
            text += &format!("\nBulk insertion, durable\n\n{}", self.bulk_table());
        }
        text
    }

    /// A row for each way, a column for each number of committers.
    fn overview(&self, rows: &[&CommitRow]) -> String {
        let committers = &self.bench.committers;
        let heading = ["sync method", "mode", "gather"].map(str::to_owned).into_iter();
        let mut table = TextTable::new(heading.chain(committers.iter().map(u32::to_string)));
        let of_device = |n: u32| {
            let found = self.device.iter().find(|row| row.job == DeviceJob::Commits(n));
            found.map_or_else(|| "-".to_owned(), |row| short(row.per_second.median))
        };
        if self.device.iter().any(|row| row.job != DeviceJob::Bulk) {
            let name = ["fio, O_DSYNC, 8 KiB", "direct", ""].map(str::to_owned).into_iter();
            table.row(name.chain(committers.iter().map(|&n| of_device(n))));
        }
        // However many of its writes are on their way at once, which differs between columns.
        let same = |a: WalWay, b: WalWay| a == WalWay { in_flight: a.in_flight, ..b };
        let mut ways: Vec<WalWay> = Vec::new();
        for row in rows {
            if !ways.iter().any(|&way| same(way, row.way)) {
                ways.push(row.way);
            }
        }
        for way in ways {
            let name = way_cells(way).into_iter();
            let rate = |n: &u32| {
                let found = rows.iter().find(|row| same(way, row.way) && row.committers == *n);
                found.map_or_else(|| "-".to_owned(), |row| short(row.commits_per_second.median))
            };
            table.row(name.chain(committers.iter().map(rate)));
        }
        table.text()
    }

    fn bulk_table(&self) -> String {
        let mut table = TextTable::new([
            "sync method",
            "mode",
            "gather",
            "threads",
            "MB/s",
            "of device",
            "kB a write",
            "in flight",
            "CPU s/GB",
            "waits for a segment",
        ]);
        for row in &self.device {
            if row.job == DeviceJob::Bulk {
                let rate = row.per_second.per(1e6).text();
                table.row(["fio, O_DSYNC, 128 KiB, 16 in flight", "direct", "", "", &rate]);
            }
        }
        for row in &self.bulks {
            let [sync, mode, gather] = way_cells(row.way);
            table.row([
                sync,
                mode,
                gather,
                row.inserters.to_string(),
                row.bytes_per_second.per(1e6).text(),
                maybe(row.part_of_device),
                short(row.mean_write_bytes.median / 1024.0),
                short(row.mean_in_flight.median),
                short(row.cpu_seconds_per_gb.median),
                row.segment_waits.to_string(),
            ]);
        }
        table.text()
    }

    /// For programs.
    pub fn json(&self) -> String {
        let bench = &self.bench;
        Json::Object(vec![
            ("bench", Json::text("wal")),
            ("version", Json::Int(1)),
            ("directory", Json::text(bench.dir.display().to_string())),
            ("filesystem", Json::text(&self.filesystem)),
            ("wal_buffers_bytes", Json::Int(bench.wal_buffers)),
            ("rounds", Json::Int(bench.rounds as u64)),
            ("run_seconds", Json::Number(bench.run_time.as_secs_f64())),
            ("notes", Json::list(self.notes.iter().map(Json::text))),
            ("device", Json::list(self.device.iter().map(device_json))),
            ("pg_test_fsync", Json::list(self.pg_test_fsync.iter().map(fsync_json))),
            ("commits", Json::list(self.commits.iter().map(commit_json))),
            ("insertion", Json::list(self.inserts.iter().map(insert_json))),
            ("bulk", Json::list(self.bulks.iter().map(bulk_json))),
        ])
        .to_string()
    }
}

fn way_cells(way: WalWay) -> [String; 3] {
    let method = way.method.name();
    [
        format!("{}, {method}", way.sync.name()),
        on(way.direct, "direct", "buffered").to_owned(),
        on(way.gather, "yes", "no").to_owned(),
    ]
}

fn commit_table(rows: &[&CommitRow]) -> String {
    let mut table = TextTable::new([
        "sync method",
        "mode",
        "gather",
        "committers",
        "commits/s",
        "of device",
        "writes/s",
        "syncs/s",
        "kB a write",
        "in flight",
        "us at 50 %",
        "99 %",
        "99.9 %",
        "CPU us",
    ]);
    for row in rows {
        let [sync, mode, gather] = way_cells(row.way);
        let [half, most, nearly] = row.latency_microseconds.map(|us| format!("{us:.0}"));
        table.row([
            sync,
            mode,
            gather,
            row.committers.to_string(),
            row.commits_per_second.text(),
            maybe(row.part_of_device),
            short(row.writes_per_second.median),
            short(row.syncs_per_second.median),
            short(row.mean_write_bytes.median / 1024.0),
            short(row.mean_in_flight.median),
            half,
            most,
            nearly,
            short(row.cpu_microseconds.median),
        ]);
    }
    table.text()
}

fn insert_table(rows: &[InsertRow]) -> String {
    let mut table =
        TextTable::new(["record, bytes", "threads", "records/s", "GB/s", "CPU ns a record"]);
    for row in rows {
        table.row([
            row.record_bytes.to_string(),
            row.inserters.to_string(),
            row.records_per_second.text(),
            row.bytes_per_second.per(1e9).text(),
            short(row.cpu_nanoseconds.median),
        ]);
    }
    table.text()
}

fn way_json(way: WalWay) -> Vec<(&'static str, Json)> {
    vec![
        ("method", Json::text(way.method.name())),
        ("wal_sync_method", Json::text(way.sync.name())),
        ("direct", Json::Bool(way.direct)),
        ("gather", Json::Bool(way.gather)),
        ("most_in_flight", Json::Int(u64::from(way.in_flight))),
    ]
}

fn fsync_json((name, rate): &(String, f64)) -> Json {
    Json::Object(vec![
        ("wal_sync_method", Json::text(name)),
        ("writes_per_second", Json::Number(*rate)),
    ])
}

fn device_json(row: &DeviceRow) -> Json {
    let (bytes, depth) = match row.job {
        DeviceJob::Commits(depth) => (8192, depth),
        DeviceJob::Bulk => (128 << 10, DeviceJob::BULK_DEPTH),
        DeviceJob::Store => (512 << 10, DeviceJob::STORE_DEPTH),
    };
    let rate = match row.job {
        DeviceJob::Commits(_) => "writes_per_second",
        DeviceJob::Bulk | DeviceJob::Store => "bytes_per_second",
    };
    Json::Object(vec![
        ("write_bytes", Json::Int(bytes)),
        ("depth", Json::Int(u64::from(depth))),
        (rate, row.per_second.json()),
    ])
}

fn commit_json(row: &CommitRow) -> Json {
    let [half, most, nearly] = row.latency_microseconds.map(Json::Number);
    let mut fields = way_json(row.way);
    fields.extend([
        ("record_bytes", Json::Int(u64::from(row.record_bytes))),
        ("committers", Json::Int(u64::from(row.committers))),
        ("commits_per_second", row.commits_per_second.json()),
        ("part_of_device", Json::maybe(row.part_of_device, Spread::json)),
        ("writes_per_second", row.writes_per_second.json()),
        ("syncs_per_second", row.syncs_per_second.json()),
        ("mean_write_bytes", row.mean_write_bytes.json()),
        ("mean_in_flight", row.mean_in_flight.json()),
        ("cpu_microseconds", row.cpu_microseconds.json()),
        ("latency_us_p50", half),
        ("latency_us_p99", most),
        ("latency_us_p999", nearly),
        ("segment_waits", Json::Int(row.segment_waits)),
    ]);
    Json::Object(fields)
}

fn insert_json(row: &InsertRow) -> Json {
    Json::Object(vec![
        ("record_bytes", Json::Int(u64::from(row.record_bytes))),
        ("threads", Json::Int(u64::from(row.inserters))),
        ("records_per_second", row.records_per_second.json()),
        ("bytes_per_second", row.bytes_per_second.json()),
        ("cpu_nanoseconds", row.cpu_nanoseconds.json()),
    ])
}

fn bulk_json(row: &BulkRow) -> Json {
    let mut fields = way_json(row.way);
    fields.extend([
        ("record_bytes", Json::Int(u64::from(row.record_bytes))),
        ("threads", Json::Int(u64::from(row.inserters))),
        ("bytes_per_second", row.bytes_per_second.json()),
        ("part_of_device", Json::maybe(row.part_of_device, Spread::json)),
        ("mean_write_bytes", row.mean_write_bytes.json()),
        ("mean_in_flight", row.mean_in_flight.json()),
        ("cpu_seconds_per_gb", row.cpu_seconds_per_gb.json()),
        ("segment_waits", Json::Int(row.segment_waits)),
    ]);
    Json::Object(fields)
}
