//! Aggregates over a table that worker threads scan together with the session.
//!
//! ```text
//!   worker:  its part of the scan -> Filter, Project -> groups ─┐ handed over at the end, and
//!   worker:  the same                                          ─┤ whenever they take work_mem
//!   leader:  the same                                 -> groups ◀┘ combined; in files beyond that
//! ```
//!
//! Sums of floats depend on the order of rows, so they may differ in their last digits from those
//! of a statement without workers, and from run to run. An error of a worker ends the statement:
//! the leader gives up, and with it the other workers.

use super::eval::Params;
use super::groups::{Batch, GroupRows, Groups};
use super::host::Host;
use super::row::{Flow, Visit};
use super::scan::Scan;
use crate::error::Result;
use crate::plan::{Grouping, Node};
use forebay_engine::{Handoff, ScanPart, Sender, SharedScan};
use forebay_types::Datum;

/// Rows between two looks at what workers have handed over.
const ROWS: u32 = 64;

/// An aggregate that threads compute together.
#[derive(Clone, Copy)]
struct Shared<'n> {
    input: &'n Node,
    grouping: &'n Grouping,
    params: &'n [Datum<'static>],
    run_over: RunOver,
    /// Whether rows are counted, and nothing else is done with them.
    counts: bool,
    /// Bytes that a worker's groups may take.
    memory: usize,
}

/// Hands the rows that a plan makes of those of a scan to a function.
type RunOver = fn(&Node, Scan, Params<'_>, &mut Host, Visit<'_>) -> Result<Flow>;

/// What a worker hands over.
type Message = Result<Batch>;

/// The rows of groups, over all rows of the input. None: workers cannot help, or it is not worth
/// while.
pub(super) fn aggregated(
    node: &Node,
    grouping: &Grouping,
    params: Params<'_>,
    host: &mut Host,
    run_over: RunOver,
) -> Result<Option<GroupRows>> {
    if !host.uses_workers || host.parallel().workers_per_gather == 0 {
        return Ok(None);
    }
    let Some(aggregate) = node.shared_aggregate() else { return Ok(None) };
    let table = &aggregate.read.table;
    let blocks = host.call(|session| session.table_blocks(table))?;
    let workers = aggregate.workers(blocks, host.parallel());
    if workers == 0 {
        return Ok(None);
    }
    let (memory, counts) = (host.work_memory(), node.counted_table().is_some());
    let input = node.input().expect("an aggregate has one");
    let shared = Shared { input, grouping, params, run_over, counts, memory };
    let scan = host.call(|session| session.share_scan(table))?;
    let rows = shared.run(&scan, workers, host);
    if let Some(session) = host.session_if_any() {
        session.end_shared_scan(&scan);
    }
    rows.map(Some)
}

impl Shared<'_> {
    fn run(self, scan: &SharedScan, workers: usize, host: &mut Host) -> Result<GroupRows> {
        let job = |mut own: Host| {
            move |part: ScanPart, leader: &Sender<'_, Message>| {
                if let Err(error) = self.work(part, leader, &mut own) {
                    // If it takes no more, it has failed itself.
                    leader.send(Err(error));
                }
            }
        };
        let jobs = (0..workers).map(|_| job(host.of_worker())).collect();
        scan.run(jobs, |started, workers| self.lead(scan, started, workers, host))
    }

    /// What a worker does.
    fn work(self, mut part: ScanPart, leader: &Sender<'_, Message>, host: &mut Host) -> Result<()> {
        let Shared { input, grouping, params, run_over, .. } = self;
        host.values = part.take_values();
        if self.counts {
            leader.send(Ok(Batch::counted(grouping, part.count()?)));
            return Ok(());
        }
        let mut groups = Groups::of_worker(grouping, self.memory);
        run_over(input, Scan::of_worker(part), params, host, &mut |row, host| {
            groups.add(grouping, row.values, params, host)?;
            let wanted = groups.take_full().is_none_or(|full| leader.send(Ok(full)));
            Ok(if wanted { Flow::Continue } else { Flow::Rest })
        })?;
        leader.send(Ok(groups.take_all()));
        Ok(())
    }

    /// What the session does, beside workers of this number.
    fn lead(
        self,
        scan: &SharedScan,
        started: usize,
        workers: &Handoff<Message>,
        host: &mut Host,
    ) -> Result<GroupRows> {
        let Shared { input, grouping, params, run_over, .. } = self;
        let mut groups = Groups::of_leader(grouping, host);
        if started == 0 || host.parallel().leader_participates {
            let mut part = host.call(|session| session.scan_part(scan))?;
            if self.counts {
                let count = host.call(|session| part.count(session))?;
                groups.combine_all(grouping, Batch::counted(grouping, count), host)?;
            } else {
                let mut rows = 0u32;
                run_over(input, Scan::of(part), params, host, &mut |row, host| {
                    groups.add(grouping, row.values, params, host)?;
                    rows = rows.wrapping_add(1);
                    while rows.is_multiple_of(ROWS)
                        && let Some(batch) = workers.poll()
                    {
                        groups.combine_all(grouping, batch?, host)?;
                    }
                    Ok(Flow::Continue)
                })?;
            }
        }
        while let Some(batch) = workers.wait() {
            groups.combine_all(grouping, batch?, host)?;
        }
        groups.rows(host)
    }
}
