//! What each operator of a plan does: EXPLAIN ANALYZE.
//!
//! Rows are handed up by calls, so an operator's time is that of its own call without the calls
//! that it makes upward. That of the operators below it is part of it, as in PostgreSQL.

use crate::plan::{Actual, Node};
use forebay_aio::sync::{Duration, Instant};
use forebay_engine::ScanStats;
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
    /// What an index scan has read, and whether it reads entries only.
    scan: Option<(ScanStats, bool)>,
    /// ON CONFLICT: rows that met others.
    conflicts: Option<Conflicts>,
}

fn address(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
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
    /// them, the time it took, and what an index scan has read.
    pub(super) fn ran(
        &mut self,
        node: &Node,
        rows: u64,
        first: Option<Duration>,
        spent: Duration,
        scan: Option<ScanStats>,
    ) {
        let measure = self.nodes.entry(address(node)).or_default();
        if let Some(first) = first {
            let before = measure.spent;
            measure.first.get_or_insert(before + first);
        }
        measure.ran = true;
        measure.rows += rows;
        measure.spent += spent;
        if let (Some(stats), Node::IndexScan(read)) = (scan, node) {
            measure.scan = Some((stats, read.entries_only));
        }
    }

    /// An operator was opened.
    pub(super) fn opened(&mut self, node: &Node, since: Instant) {
        self.nodes.entry(address(node)).or_default().spent += since.elapsed();
    }

    /// An INSERT with ON CONFLICT has ended.
    pub(super) fn conflicted(&mut self, node: &Node, conflicts: Conflicts) {
        self.nodes.entry(address(node)).or_default().conflicts = Some(conflicts);
    }

    /// What a node has done, with what index scans have read ahead if `io`. None: it did not run.
    pub fn actual(&self, node: &Node, io: bool) -> Option<Actual> {
        let measure = self.nodes.get(&address(node)).filter(|measure| measure.ran)?;
        let mut lines = Vec::new();
        if let Some((stats, entries_only)) = &measure.scan {
            if *entries_only {
                let fetches = measure.rows.saturating_sub(stats.all_visible);
                lines.push(format!("Heap Fetches: {fetches}"));
            }
            lines.push(format!("Index Searches: {}", stats.searches));
            if io {
                lines.push(io_line(stats));
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
        let first = measure.first.unwrap_or(measure.spent);
        let time = [milliseconds(first), milliseconds(measure.spent)];
        Some(Actual { rows: measure.rows, time, lines })
    }
}

/// How far an index scan has read ahead, and what it waited for.
fn io_line(stats: &ScanStats) -> String {
    let heap = &stats.heap;
    let average = match heap.returned {
        0 => 0.0,
        returned => heap.distance_sum as f64 / returned as f64,
    };
    format!(
        "Prefetch: distance={average:.1} max={} reads={} waits={} leaves={} ahead={}",
        heap.distance_max, heap.reads, heap.waits, stats.leaves, stats.leaves_ahead
    )
}
