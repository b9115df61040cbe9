//! What each operator of a plan does: EXPLAIN ANALYZE.
//!
//! Rows are handed up by calls, so an operator's time is that of its own call without the calls
//! that it makes upward. That of the operators below it is part of it, as in PostgreSQL. The same
//! holds for the pages that it has used.

use crate::plan::{Actual, Bitmap, Node, PageUsage};
use forebay_aio::sync::{Duration, Instant};
use forebay_engine::{ScanStats, StreamStats};
use std::collections::HashMap;

/// What has been measured of a plan's nodes, by their addresses.
#[derive(Debug, Default)]
pub struct Measures {
    nodes: HashMap<usize, Measure>,
    /// The next call of an operator is one that is being measured.
    begun: bool,
}

/// ON CONFLICT: rows that met others with their keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conflicts {
    pub(super) rows: u64,
    /// Those that the condition of DO UPDATE kept from being updated.
    pub(super) filtered: u64,
}

#[derive(Debug, Default)]
struct Measure {
    ran: bool,
    rows: u64,
    /// Up to the first row.
    first: Option<Duration>,
    spent: Duration,
    /// What was done to pages.
    pages: PageUsage,
    /// What an index scan has read, and whether it reads entries only.
    scan: Option<(ScanStats, bool)>,
    bitmap: Option<BitmapStats>,
    /// ON CONFLICT: rows that met others.
    conflicts: Option<Conflicts>,
}

/// What a scan by a bitmap has done.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitmapStats {
    /// Pages of which it knew the rows, and others.
    pub(super) pages: (u64, u64),
    /// Rows that did not satisfy what the bitmap stands for.
    pub(super) removed: u64,
    pub(super) stream: StreamStats,
}

/// A moment: the time, and what was done to pages until then.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    time: Instant,
    pages: PageUsage,
}

/// What was done in a stretch of time.
#[derive(Clone, Copy, Default)]
pub(super) struct Spent {
    time: Duration,
    pages: PageUsage,
}

impl Moment {
    pub(super) fn now(pages: PageUsage) -> Moment {
        Moment { time: Instant::now(), pages }
    }

    /// What was done since then.
    pub(super) fn spent(&self, pages: PageUsage) -> Spent {
        Spent { time: self.time.elapsed(), pages: pages.since(&self.pages) }
    }
}

impl Spent {
    pub(super) fn add(&mut self, other: &Spent) {
        self.time += other.time;
        self.pages.add(&other.pages);
    }

    /// This without a part of it.
    #[must_use]
    pub(super) fn without(&self, part: &Spent) -> Spent {
        let time = self.time.saturating_sub(part.time);
        Spent { time, pages: self.pages.since(&part.pages) }
    }
}

fn address<T>(part: &T) -> usize {
    std::ptr::from_ref(part).addr()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

impl Measures {
    /// Whether a call of an operator is to be measured.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::take(&mut self.begun)
    }

    /// The next call of an operator is one that is being measured.
    pub(super) fn expect(&mut self) {
        self.begun = true;
    }

    /// A call of an operator has ended: the rows that it handed on, the time up to the first of
    /// them, the time it took.
    pub(super) fn ran(&mut self, node: &Node, rows: u64, first: Option<Spent>, spent: Spent) {
        let measure = self.nodes.entry(address(node)).or_default();
        if let Some(first) = first {
            let before = measure.spent;
            measure.first.get_or_insert(before + first.time);
        }
        measure.ran = true;
        measure.rows += rows;
        measure.add(&spent);
    }

    /// What an index scan has read so far.
    pub(super) fn scanned(&mut self, node: &Node, stats: ScanStats) {
        let Node::IndexScan(read) = node else { return };
        let measure = self.nodes.entry(address(node)).or_default();
        measure.scan = Some((stats, read.entries_only));
    }

    /// What a scan by a bitmap has read so far.
    pub(super) fn scanned_by_bitmap(&mut self, node: &Node, stats: BitmapStats) {
        self.nodes.entry(address(node)).or_default().bitmap = Some(stats);
    }

    /// A bitmap was made: of so many entries of an index, if it was not made of other bitmaps.
    pub(super) fn made(&mut self, bitmap: &Bitmap, found: Option<(u64, ScanStats)>, spent: &Spent) {
        let measure = self.nodes.entry(address(bitmap)).or_default();
        measure.ran = true;
        measure.rows = found.map_or(0, |(found, _)| found);
        measure.scan = found.map(|(_, stats)| (stats, false));
        measure.add(spent);
    }

    /// An operator was opened.
    pub(super) fn opened(&mut self, node: &Node, spent: &Spent) {
        self.nodes.entry(address(node)).or_default().add(spent);
    }

    /// An INSERT with ON CONFLICT has ended.
    pub(super) fn conflicted(&mut self, node: &Node, conflicts: Conflicts) {
        self.nodes.entry(address(node)).or_default().conflicts = Some(conflicts);
    }

    /// What a node has done, with what index scans have read ahead if `io`. None: it did not run.
    pub fn actual(&self, node: &Node, io: bool) -> Option<Actual> {
        let measure = self.nodes.get(&address(node)).filter(|measure| measure.ran)?;
        let (mut lines, mut rechecked) = (Vec::new(), None);
        if let Some(BitmapStats { pages: (exact, lossy), removed, stream }) = &measure.bitmap {
            rechecked = (*removed > 0).then_some(*removed);
            let counted = [("exact", exact), ("lossy", lossy)].into_iter().filter(|(_, n)| **n > 0);
            let counted: Vec<String> = counted.map(|(what, n)| format!("{what}={n}")).collect();
            if !counted.is_empty() {
                lines.push(format!("Heap Blocks: {}", counted.join(" ")));
            }
            if io {
                lines.extend(stream_lines(stream));
            }
        }
        if let Some((stats, entries_only)) = &measure.scan {
            if *entries_only {
                let fetches = measure.rows.saturating_sub(stats.all_visible);
                lines.push(format!("Heap Fetches: {fetches}"));
            }
            lines.push(format!("Index Searches: {}", stats.searches));
            if io {
                lines.extend(stream_lines(&stats.heap));
                let ScanStats { leaves, leaves_ahead, .. } = stats;
                lines.push(format!("Leaves: count={leaves} ahead={leaves_ahead}"));
            }
        }
        if let Some(Conflicts { rows, filtered }) = measure.conflicts {
            if filtered > 0 {
                lines.push(format!("Rows Removed by Conflict Filter: {filtered}"));
            }
            let below = node.input().and_then(|input| self.nodes.get(&address(input)));
            let inserted = below.map_or(0, |below| below.rows.saturating_sub(rows));
            lines.push(format!("Tuples Inserted: {inserted}"));
            lines.push(format!("Conflicting Tuples: {rows}"));
        }
        Some(Actual { rechecked, lines, ..measure.actual() })
    }

    /// What the making of a bitmap took.
    pub fn actual_bitmap(&self, bitmap: &Bitmap) -> Option<Actual> {
        let measure = self.nodes.get(&address(bitmap)).filter(|measure| measure.ran)?;
        let searches = measure.scan.iter().map(|(stats, _)| stats.searches);
        let lines = searches.map(|searches| format!("Index Searches: {searches}")).collect();
        Some(Actual { lines, ..measure.actual() })
    }
}

impl Measure {
    fn add(&mut self, spent: &Spent) {
        self.spent += spent.time;
        self.pages.add(&spent.pages);
    }

    /// Rows and time.
    fn actual(&self) -> Actual {
        let first = self.first.unwrap_or(self.spent);
        let time = [milliseconds(first), milliseconds(self.spent)];
        Actual { rows: self.rows, time, pages: self.pages, ..Actual::default() }
    }
}

/// How far a scan has read ahead in its table, and what it waited for.
fn stream_lines(stream: &StreamStats) -> Vec<String> {
    let average = |sum: u64, of: u64| if of > 0 { sum as f64 / of as f64 } else { 0.0 };
    let StreamStats { returned, reads, waits, pages_read, distance_max, capacity, .. } = *stream;
    let distance = average(stream.distance_sum, returned);
    let mut lines =
        vec![format!("Prefetch: avg={distance:.2} max={distance_max} capacity={capacity}")];
    if reads > 0 {
        let size = average(pages_read, reads);
        let in_progress = average(stream.in_progress_sum, reads);
        lines.push(format!(
            "I/O: count={reads} waits={waits} size={size:.2} inprogress={in_progress:.2}"
        ));
    }
    lines
}
