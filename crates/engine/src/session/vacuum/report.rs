//! What a vacuum tells, in PostgreSQL's words, as far as there are figures: not buffers, log and
//! processor time, which are not counted for one statement.

use std::fmt;

use forebay_access::heap::VacuumReport;
use forebay_aio::sync::Duration;
use forebay_catalog::{Advanced, NextIds, Table};
use forebay_format::{BlockNumber, Xid};

use crate::core::InDatabase;
use crate::relation_stats::Maintained;
use crate::session::counting::counted;
use crate::session::state::Session;

/// A table that was vacuumed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VacuumedTable {
    /// Database, schema and name.
    pub(super) name: String,
    pub(super) report: VacuumReport,
    /// A line for each of its indexes that was looked at.
    pub(super) indexes: Vec<String>,
    /// Whether it was so old that its indexes were left out.
    pub(super) failsafe: bool,
    /// Blocks cut off.
    pub(super) cut: BlockNumber,
    /// Estimated rows.
    pub(super) tuples: f64,
    pub(super) oldest_xid: Xid,
    /// The next ids at the end.
    pub(super) next: NextIds,
    /// The ids stored before, and what became of them.
    pub(super) before: NextIds,
    pub(super) advanced: Advanced,
    pub(super) elapsed: Duration,
    /// A line of its rests, or nothing.
    pub(super) delay: String,
}

impl Session {
    /// Tells the statistics how many rows a table has.
    pub(super) fn report_vacuumed(
        &self,
        core: &InDatabase,
        table: &Table,
        done: &VacuumedTable,
        took: Duration,
    ) {
        if self.settings.track_counts {
            core.statistics.vacuumed(&Maintained {
                relation: counted(table),
                live: done.tuples.max(0.0) as u64,
                dead: done.report.recently_dead + done.report.missed.0,
                took,
                automatic: self.is_autovacuum(),
            });
        }
    }
}

fn percent(part: BlockNumber, of: BlockNumber) -> f64 {
    if of == 0 { 100.0 } else { 100.0 * f64::from(part) / f64::from(of) }
}

impl VacuumedTable {
    fn write_indexes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VacuumReport { pages, dead_items, index_scans, bypassed, .. } = self.report;
        let (scan, what, removed) = match (bypassed, index_scans) {
            (false, 0) => ("not needed", "had", " removed"),
            (false, _) => ("needed", "had", " removed"),
            (true, _) if self.failsafe => ("bypassed by failsafe", "have", ""),
            (true, _) => ("bypassed", "have", ""),
        };
        writeln!(
            f,
            "index scan {scan}: {} pages from table ({:.2}% of total) {what} {} dead item \
             identifiers{removed}",
            dead_items.1,
            percent(dead_items.1, pages),
            dead_items.0
        )?;
        for index in &self.indexes {
            writeln!(f, "{index}")?;
        }
        Ok(())
    }

    /// The oldest ids, if they have advanced.
    fn write_oldest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(remaining) = self.report.remaining else { return Ok(()) };
        for (advanced, name, what, oldest, before) in [
            (self.advanced.xid, "relfrozenxid", "XIDs", remaining.xid, self.before.xid),
            (self.advanced.multi, "relminmxid", "MXIDs", remaining.multi, self.before.multi),
        ] {
            if advanced {
                let ahead = oldest.wrapping_sub(before) as i32;
                writeln!(
                    f,
                    "new {name}: {oldest}, which is {ahead} {what} ahead of previous value"
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for VacuumedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VacuumReport {
            pages,
            scanned,
            eager,
            removed,
            recently_dead,
            missed,
            frozen,
            marked,
            ..
        } = self.report;
        let scans = self.report.index_scans;
        writeln!(f, "finished vacuuming \"{}\": index scans: {scans}", self.name)?;
        writeln!(
            f,
            "pages: {} removed, {} remain, {scanned} scanned ({:.2}% of total), {eager} eagerly \
             scanned",
            self.cut,
            pages - self.cut,
            percent(scanned, pages)
        )?;
        let remain = self.tuples.max(0.0) as u64 + recently_dead + missed.0;
        writeln!(
            f,
            "tuples: {removed} removed, {remain} remain, {recently_dead} are dead but not yet \
             removable"
        )?;
        if missed.1 > 0 {
            writeln!(
                f,
                "tuples missed: {} dead from {} pages not removed due to cleanup lock contention",
                missed.0, missed.1
            )?;
        }
        writeln!(
            f,
            "removable cutoff: {}, which was {} XIDs old when operation ended",
            self.oldest_xid,
            self.next.xid.wrapping_sub(self.oldest_xid) as i32
        )?;
        self.write_oldest(f)?;
        writeln!(
            f,
            "frozen: {} pages from table ({:.2}% of total) had {} tuples frozen",
            frozen.1,
            percent(frozen.1, pages),
            frozen.0
        )?;
        let [visible, both, only_frozen] = marked;
        writeln!(
            f,
            "visibility map: {visible} pages set all-visible, {} pages set all-frozen \
             ({only_frozen} were all-visible)",
            both + only_frozen
        )?;
        self.write_indexes(f)?;
        f.write_str(&self.delay)?;
        write!(f, "system usage: elapsed: {:.2} s", self.elapsed.as_secs_f64())
    }
}
