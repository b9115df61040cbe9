//! What the runs gave, as a table for people and JSON for programs.

use forebay_format::{BLOCK_SIZE, BlockNumber};

use super::super::json::Json;
use super::super::measure::Spread;
use super::super::table::{TextTable, short};
use super::lane::Sample;
use super::{PoolBench, PoolTask, Way};

/// What the runs of one way gave.
#[derive(Clone, Debug)]
pub struct PoolRow {
    /// The way.
    pub way: Way,
    /// Length of a run.
    pub seconds: Spread,
    /// Bytes read and written in a second.
    pub bytes_per_second: Spread,
    /// I/Os in a second.
    pub ios_per_second: Spread,
    /// Processor time, user and system, for 10^9 bytes.
    pub cpu_seconds_per_gb: Spread,
    /// Seconds of the sync after a checkpoint's writes, which the rates leave out.
    pub sync_seconds: Spread,
    /// Bytes of an I/O; of the last run, as all below.
    pub mean_io_bytes: f64,
    /// I/Os of a run.
    pub ios: u64,
    /// How often someone waited for an I/O.
    pub waits: u64,
    /// Tuples counted by a scan.
    pub live_tuples: Option<u64>,
    /// Which part of those who needed a buffer waited for a victim's write.
    pub victims_waited: Option<f64>,
    /// What the kernel cached of the relation afterwards, in bytes.
    pub kernel_cached_bytes: u64,
}

impl PoolRow {
    pub(super) fn of(way: Way, samples: &[Sample]) -> PoolRow {
        let spread = |value: fn(&Sample) -> f64| Spread::of(samples.iter().map(value).collect());
        let last = samples.last().copied().unwrap_or_default();
        PoolRow {
            way,
            seconds: spread(|s| s.seconds),
            bytes_per_second: spread(|s| s.bytes as f64 / s.seconds),
            ios_per_second: spread(|s| s.ios as f64 / s.seconds),
            cpu_seconds_per_gb: spread(|s| s.cpu_seconds / (s.bytes.max(1) as f64 / 1e9)),
            sync_seconds: spread(|s| s.sync_seconds),
            mean_io_bytes: last.bytes as f64 / last.ios.max(1) as f64,
            ios: last.ios,
            waits: last.waits,
            live_tuples: last.live_tuples,
            victims_waited: (last.allocated > 0)
                .then(|| last.victims_waited as f64 / last.allocated as f64),
            kernel_cached_bytes: last.kernel_cached,
        }
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct PoolReport {
    /// The wish.
    pub bench: PoolBench,
    /// The relation's first file.
    pub relation: String,
    /// Its blocks.
    pub blocks: BlockNumber,
    /// What could not be had.
    pub notes: Vec<String>,
    /// A row for each way.
    pub rows: Vec<PoolRow>,
}

impl PoolReport {
    /// For people.
    pub fn text(&self) -> String {
        let bench = &self.bench;
        let order = if bench.random { "in random order, " } else { "" };
        let mut text = format!(
            "{} of \"{}\", {} MB, {order}{}depth {}; medians of {} rounds, smallest and largest in brackets;\n\
             MB and GB are 10^6 and 10^9 bytes; processor time is user and system.\n",
            bench.task.name(),
            self.relation,
            u64::from(self.blocks) * BLOCK_SIZE as u64 / 1_000_000,
            if bench.warm { "warm, " } else { "cold, " },
            bench.depth,
            bench.rounds,
        );
        self.notes.iter().for_each(|note| text += &format!("{note}\n"));
        let mut heading = vec![
            "method",
            "mode",
            "blocks",
            "MB/s",
            "I/Os a second",
            "kB an I/O",
            "waits",
            "CPU s/GB",
        ];
        heading.extend(match bench.task {
            PoolTask::Scan => Some("live tuples"),
            PoolTask::Evict => Some("victims waited for"),
            PoolTask::Checkpoint => Some("sync, s"),
            PoolTask::Prewarm(_) => None,
        });
        heading.push("kernel's cache, MB");
        let mut table = TextTable::new(heading);
        for row in &self.rows {
            let mode = if row.way.direct { "direct" } else { "buffered" };
            let mut cells = vec![
                row.way.method.name().to_owned(),
                mode.to_owned(),
                row.way.combine.to_string(),
            ];
            cells.push(row.bytes_per_second.per(1e6).text());
            cells.push(format!("{:.0}", row.ios_per_second.median));
            cells.push(format!("{:.0}", row.mean_io_bytes / 1024.0));
            cells.push(row.waits.to_string());
            cells.push(short(row.cpu_seconds_per_gb.median));
            match bench.task {
                PoolTask::Scan => cells.push(row.live_tuples.unwrap_or(0).to_string()),
                PoolTask::Evict => {
                    cells.push(format!("{:.2} %", 100.0 * row.victims_waited.unwrap_or(0.0)));
                }
                PoolTask::Checkpoint => cells.push(row.sync_seconds.text()),
                PoolTask::Prewarm(_) => {}
            }
            cells.push((row.kernel_cached_bytes / 1_000_000).to_string());
            table.row(cells);
        }
        text + &table.text()
    }

    /// For programs.
    pub fn json(&self) -> String {
        let bench = &self.bench;
        Json::Object(vec![
            ("bench", Json::text(bench.task.name())),
            ("version", Json::Int(1)),
            ("relation", Json::text(&self.relation)),
            ("relation_bytes", Json::Int(u64::from(self.blocks) * BLOCK_SIZE as u64)),
            ("depth", Json::Int(u64::from(bench.depth))),
            ("random", Json::Bool(bench.random)),
            ("warm", Json::Bool(bench.warm)),
            ("rounds", Json::Int(bench.rounds as u64)),
            ("notes", Json::list(self.notes.iter().map(Json::text))),
            ("results", Json::list(self.rows.iter().map(row_json))),
        ])
        .to_string()
    }
}

fn row_json(row: &PoolRow) -> Json {
    Json::Object(vec![
        ("method", Json::text(row.way.method.name())),
        ("direct", Json::Bool(row.way.direct)),
        ("blocks", Json::Int(u64::from(row.way.combine))),
        ("seconds", row.seconds.json()),
        ("bytes_per_second", row.bytes_per_second.json()),
        ("ios_per_second", row.ios_per_second.json()),
        ("cpu_seconds_per_gb", row.cpu_seconds_per_gb.json()),
        ("sync_seconds", row.sync_seconds.json()),
        ("mean_io_bytes", Json::Number(row.mean_io_bytes)),
        ("ios", Json::Int(row.ios)),
        ("waits", Json::Int(row.waits)),
        ("live_tuples", Json::maybe(row.live_tuples, Json::Int)),
        ("victims_waited_share", Json::maybe(row.victims_waited, Json::Number)),
        ("kernel_cached_bytes", Json::Int(row.kernel_cached_bytes)),
    ])
}
