//! The figures of the benches of the buffer pool.

use forebay_format::BLOCK_SIZE;
use serde::Serialize;

use super::lane::Sample;
use super::plan::{IoSetup, PoolBench, PoolTask};
use super::relation::Relation;
use crate::methods::mode;
use crate::stats::{Rates, Spread};
use crate::table::{TextTable, short};

/// The runs of one setup. The fields from `mean_io_bytes` on are those of the last run.
#[derive(Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    setup: IoSetup,
    seconds: Spread,
    #[serde(flatten)]
    rates: Rates,
    /// The sync after a checkpoint's writes, which the rates leave out.
    sync_seconds: Spread,
    mean_io_bytes: f64,
    ios: u64,
    waits: u64,
    live_tuples: Option<u64>,
    /// The part of all requests for a buffer that waited for a victim's write.
    #[serde(rename = "victims_waited_share")]
    victims_waited: Option<f64>,
    kernel_cached_bytes: u64,
}

impl Row {
    pub(super) fn of(setup: IoSetup, samples: &[Sample]) -> Row {
        let last = samples.last().expect("there is at least one round");
        Row {
            setup,
            seconds: Spread::of(samples.iter().map(|s| s.moved.seconds)),
            rates: Rates::of(samples.iter().map(|s| s.moved)),
            sync_seconds: Spread::of(samples.iter().map(|s| s.sync_seconds)),
            mean_io_bytes: last.moved.bytes as f64 / last.moved.ios.max(1) as f64,
            ios: last.moved.ios,
            waits: last.waits,
            live_tuples: last.live_tuples,
            victims_waited: (last.allocated > 0)
                .then(|| last.victims_waited as f64 / last.allocated as f64),
            kernel_cached_bytes: last.kernel_cached,
        }
    }
}

/// All figures; the JSON object's fields.
#[derive(Serialize)]
pub(super) struct Figures {
    bench: &'static str,
    version: u32,
    /// The path of the relation's first file.
    relation: String,
    relation_bytes: u64,
    depth: u32,
    random: bool,
    warm: bool,
    rounds: usize,
    notes: Vec<String>,
    results: Vec<Row>,
}

impl Figures {
    pub(super) fn new(
        bench: &PoolBench,
        relation: &Relation,
        notes: Vec<String>,
        results: Vec<Row>,
    ) -> Figures {
        Figures {
            bench: bench.task.name(),
            version: 1,
            relation: relation.name(),
            relation_bytes: u64::from(relation.blocks) * BLOCK_SIZE as u64,
            depth: bench.depth,
            random: bench.random,
            warm: bench.warm,
            rounds: bench.rounds,
            notes,
            results,
        }
    }

    pub(super) fn text(&self, task: PoolTask) -> String {
        let mut text = format!(
            "{} of \"{}\", {} MB, {}{}depth {}; medians of {} rounds, \
             smallest and largest in brackets;\n\
             MB and GB are 10^6 and 10^9 bytes; processor time is user and system.\n",
            self.bench,
            self.relation,
            self.relation_bytes / 1_000_000,
            if self.random { "in random order, " } else { "" },
            if self.warm { "warm, " } else { "cold, " },
            self.depth,
            self.rounds,
        );
        self.notes.iter().for_each(|note| text += &format!("{note}\n"));
        text + &self.table(task)
    }

    fn table(&self, task: PoolTask) -> String {
        let mut heading = vec!["method", "mode", "blocks", "MB/s", "I/Os a second", "kB an I/O"];
        heading.extend(["waits", "CPU s/GB"]);
        heading.extend(match task {
            PoolTask::Scan => Some("live tuples"),
            PoolTask::Evict => Some("victims waited for"),
            PoolTask::Checkpoint => Some("sync, s"),
            PoolTask::Prewarm(_) => None,
        });
        heading.push("kernel's cache, MB");
        let mut table = TextTable::new(heading);
        for row in &self.results {
            let mut cells =
                vec![row.setup.method.name().to_owned(), mode(row.setup.direct).to_owned()];
            cells.push(row.setup.combine.to_string());
            cells.extend(row.rates.cells());
            cells.push(format!("{:.0}", row.mean_io_bytes / 1024.0));
            cells.push(row.waits.to_string());
            cells.push(short(row.rates.cpu_seconds_per_gb.median));
            cells.extend(match task {
                PoolTask::Scan => Some(row.live_tuples.unwrap_or(0).to_string()),
                PoolTask::Evict => {
                    Some(format!("{:.2} %", 100.0 * row.victims_waited.unwrap_or(0.0)))
                }
                PoolTask::Checkpoint => Some(row.sync_seconds.text()),
                PoolTask::Prewarm(_) => None,
            });
            cells.push((row.kernel_cached_bytes / 1_000_000).to_string());
            table.row(cells);
        }
        table.text()
    }
}
