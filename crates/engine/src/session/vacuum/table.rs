//! Vacuum of one table.

use std::sync::Arc;

use forebay_access::heap::{DeadItems, Heap, IndexCleanup, IndexesJob, VacuumJob, VacuumReport};
use forebay_access::nbtree::IndexVacuumJob;
use forebay_access::vacuum_progress::{self as shown, Phase};
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Duration, Instant};
use forebay_catalog::{Advanced, ClassFigures, NextIds, Reader, Table};
use forebay_format::{BLOCK_SIZE, BlockNumber};
use forebay_storage::progress::{Command, Progress};
use forebay_storage::{Backend, Strategy, StreamSettings};
use forebay_txn::locks::{LockError, LockMode};
use forebay_types::Oid;

use super::VacuumOptions;
use super::cutoffs::{Decided, InUse, decide};
use super::indexes::{VacuumedIndex, VacuumedIndexes};
use super::parallel::{OwnPace, SharedCost, Team, plan};
use super::report::VacuumedTable;
use super::rests::Rests;
use super::tail::is_worthwhile;
use crate::config::VacuumSettings;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::id_limits::next_ids;
use crate::session::locks::lock_tag;
use crate::session::scan::horizon_of;
use crate::session::state::{Session, no_transaction};
use crate::warning::Warning;

pub(in crate::session) const KB_PER_BUFFER: u32 = (BLOCK_SIZE / 1024) as u32;
/// A part of a table so small that it says nothing about the rest.
const TOO_FEW: f64 = 0.02;

/// The number of rows, estimated from the pages that were read and the figures before.
fn estimated_rows(before: &ClassFigures, report: &VacuumReport) -> f64 {
    let (pages, scanned) = (f64::from(report.pages), f64::from(report.scanned));
    let (live, old_pages, old) = (report.live as f64, before.pages, f64::from(before.tuples));
    if report.scanned >= report.pages {
        return live;
    }
    if old_pages == report.pages && scanned < pages * TOO_FEW || report.scanned <= 1 {
        return old;
    }
    if old < 0.0 || old_pages == 0 {
        return (live / scanned * pages + 0.5).floor();
    }
    let density = old / f64::from(old_pages);
    (density * (pages - scanned) + live + 0.5).floor()
}

/// A table as the catalogs have it now.
pub(in crate::session) struct Found {
    pub(in crate::session) table: Arc<Table>,
    pub(in crate::session) figures: ClassFigures,
    /// Its TOAST table, if it has one.
    pub(super) toast: Option<Arc<Table>>,
}

/// What a vacuum has done to a table's pages and its indexes.
struct Vacuumed {
    report: VacuumReport,
    indexes: Vec<VacuumedIndex>,
    /// If the table is so old that indexes were left out: how often entries had been removed from
    /// them.
    failsafe: Option<u32>,
    /// What VERBOSE tells of workers.
    told: Vec<String>,
}

fn eager_scanning_ends(frozen: BlockNumber, name: &str) -> String {
    format!(
        "disabling eager scanning after freezing {frozen} eagerly scanned blocks of relation \
         \"{name}\""
    )
}

impl Session {
    /// Vacuums a table. Returns its TOAST table, if it has one.
    pub(super) fn vacuum_table(
        &mut self,
        table: &Arc<Table>,
        options: &VacuumOptions,
        told: &mut Vec<String>,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        self.check_own(table)?;
        self.call(|session, core| {
            let found = session.find_locked(core, "vacuum", table, options.skip_locked)?;
            let Some(Found { table, figures, toast }) = found else { return Ok(None) };
            table.check_vacuumable()?;
            if options.process_main {
                session.vacuum_locked(core, &table, &figures, options, told)?;
            }
            Ok(toast)
        })
    }

    /// Locks a table for VACUUM or ANALYZE, and finds it again. None, with a warning, if its lock
    /// is not free and is not to be waited for, or if the table has been dropped.
    pub(in crate::session) fn find_locked(
        &mut self,
        core: &InDatabase,
        what: &str,
        table: &Table,
        skip_locked: bool,
    ) -> Result<Option<Found>, EngineError> {
        let mode = LockMode::ShareUpdateExclusive;
        self.find_locked_in(core, (what, mode), table, skip_locked)
    }

    /// The same in another mode.
    pub(super) fn find_locked_in(
        &mut self,
        core: &InDatabase,
        (what, mode): (&str, LockMode),
        table: &Table,
        skip_locked: bool,
    ) -> Result<Option<Found>, EngineError> {
        let tag = lock_tag(table);
        if skip_locked {
            match self.try_lock(core, tag, mode) {
                Err(EngineError::Lock(LockError::NotAvailable { .. })) => {
                    self.skip("55P03", what, &table.name, "lock not available");
                    return Ok(None);
                }
                other => other?,
            }
        } else {
            self.lock(core, tag, mode)?;
        }
        // The snapshot ends here: it would hold back the horizon as long as the vacuum runs.
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let mut reader = Reader::new(&core.database, &mut self.backend, snapshot);
        let found = reader.table_by_oid(table.oid)?.zip(reader.figures(table.oid)?);
        let Some((found, figures)) = found else {
            self.skip("42P01", what, &table.name, "relation no longer exists");
            return Ok(None);
        };
        let toast = match figures.toast {
            0 => None,
            toast => reader.table_by_oid(toast)?.map(Arc::new),
        };
        Ok(Some(Found { table: Arc::new(found), figures, toast }))
    }

    fn vacuum_locked(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        figures: &ClassFigures,
        options: &VacuumOptions,
        told: &mut Vec<String>,
    ) -> Result<(), EngineError> {
        let begun = Instant::now();
        let _shown = Progress::start(&self.backend.progress, Command::Vacuum, table.oid);
        let kind = horizon_of(table);
        let settings = self.settings.vacuum;
        let in_use = self.ids_in_use(core, table);
        let decided = decide(figures, &in_use, &settings, options.freeze);
        let name = format!("{}.{}.{}", core.database_name, table.schema, table.name);
        self.warn_of_ids(&decided);
        let aggressive = decided.aggressive || options.disable_page_skipping;
        if options.verbose {
            let how = if aggressive { "aggressively vacuuming" } else { "vacuuming" };
            told.push(format!("{how} \"{name}\""));
        }
        let usage_limit = options.buffer_usage_limit.unwrap_or(settings.buffer_usage_limit);
        let job = VacuumJob {
            kind,
            database: core.database.oid,
            cutoffs: decided.cutoffs,
            aggressive,
            skip_pages: !options.disable_page_skipping,
            eager_failure_rate: (table.vacuum.max_eager_freeze_failure_rate)
                .unwrap_or(settings.max_eager_freeze_failure_rate),
            stream: self.vacuum_stream(),
            strategy: Strategy::Vacuum { buffers: usage_limit / KB_PER_BUFFER },
        };
        let heap = self.heap(core, table)?;
        let Vacuumed { report, indexes, failsafe, told: of_team } =
            self.vacuum_pages(core, (table, &heap), (figures, decided.failsafe), &job, options)?;
        if options.verbose {
            told.extend(of_team);
            told.extend(report.eager_end.map(|frozen| eager_scanning_ends(frozen, &name)));
        }
        if let Some(rounds) = failsafe {
            self.warn_of_failsafe(&name, rounds);
        }
        let failsafe = failsafe.is_some();
        self.warn_of_contradictions(report.contradictions, &table.name);
        let mut remain = report.pages;
        let truncate = options.truncate.or(table.vacuum.truncate).unwrap_or(settings.truncate);
        // DDL locks no catalog, so rows could be put into the tail while it is cut off.
        let truncate = truncate && !failsafe && !table.is_catalog();
        if truncate && is_worthwhile(report.pages, report.with_rows) {
            let cut = (report.pages, report.with_rows);
            let mut cuts = Vec::new();
            remain = self.cut_tail(core, (table, &heap), cut, &mut cuts)?;
            told.extend(cuts.into_iter().filter(|_| options.verbose));
        }
        self.backend.progress.set(shown::PHASE, Phase::FinalCleanup as u64);
        let oldest_xid = in_use.oldest_xid;
        let done = self.store_figures(core, (table, &heap), figures, &report, remain)?;
        self.store_index_figures(core, &indexes, done.next)?;
        self.report_vacuumed(core, table, &done, begun.elapsed());
        if options.verbose {
            let (elapsed, indexes) = (begun.elapsed(), indexes.iter());
            let indexes = indexes.filter_map(VacuumedIndex::line).collect();
            let done = VacuumedTable { name, oldest_xid, elapsed, indexes, failsafe, ..done };
            told.push(done.to_string());
        }
        Ok(())
    }

    /// The ids of the engine, as far as they matter to a table.
    pub(super) fn ids_in_use(&self, core: &InDatabase, table: &Table) -> InUse {
        let max_age = self.settings.vacuum.multixact_freeze_max_age;
        // Rows of its own are younger than a temporary table's horizon without it.
        let own = self.open.as_ref().and_then(|open| open.tx.full_xid());
        InUse {
            oldest_xid: core
                .xacts
                .procs()
                .horizons(core.database.oid, own)
                .of(horizon_of(table))
                .xid(),
            oldest_multi: core.multis.oldest_in_use(),
            next: next_ids(core),
            multi_max_age: core.multis.freeze_max_age(max_age),
        }
    }

    /// Vacuums a table's pages, and its indexes.
    fn vacuum_pages(
        &mut self,
        core: &InDatabase,
        (table, heap): (&Table, &Heap),
        (figures, failsafe): (&ClassFigures, bool),
        job: &VacuumJob,
        options: &VacuumOptions,
    ) -> Result<Vacuumed, EngineError> {
        let (settings, interrupt) = (self.settings.vacuum, self.interrupt.clone());
        let hurries = Arc::new(AtomicBool::new(failsafe));
        let all = VacuumedIndex::all_of(table, heap);
        let VacuumJob { stream, strategy, .. } = *job;
        let of_index = IndexVacuumJob { stream, strategy, interrupt: &interrupt };
        let limits = (figures, self.settings.vacuum);
        let cleanup = options.index_cleanup.or(table.vacuum.index_cleanup).unwrap_or_default();
        let cleanup = if failsafe { IndexCleanup::Off } else { cleanup };
        let cost = Arc::new(SharedCost::default());
        let pace = |backend: &Backend| -> OwnPace {
            let mut rests = Rests::new(settings, interrupt.clone(), backend);
            rests = rests.hurried_by(&hurries).in_team(&cost);
            Box::new(move |backend, page| rests.after(backend, page))
        };
        let workers = match cleanup {
            IndexCleanup::Off => None,
            _ => self.plan_workers(table, &all, options.parallel)?,
        };
        let combined = self.read_ahead().combine_limit as usize * BLOCK_SIZE;
        let reading = (self.backend.policy, combined);
        let most = self.settings.parallel.max_workers;
        let team = workers.map(|workers| Team::new(workers, (&cost, &pace), reading, most));
        let mut indexes = VacuumedIndexes {
            core,
            all,
            job: of_index,
            limits,
            hurries: Arc::clone(&hurries),
            rounds: 0,
            team,
        };
        let room = self.settings.maintenance_work_mem.saturating_mul(1024);
        let dead = DeadItems::new(room);
        let (has_some, indexes_at_once) = (!indexes.all.is_empty(), indexes.team.is_some());
        let of_table = has_some.then_some(IndexesJob { indexes: &mut indexes, cleanup, dead });
        self.backend.progress.set(shown::MAX_DEAD_BYTES, room as u64);
        let rests = Rests::new(settings, interrupt.clone(), &self.backend);
        let mut rests = rests.hurried_by(&hurries).of_worker(self.costs.clone());
        if indexes_at_once {
            rests = rests.in_team(&cost);
        }
        let mut rest = |backend: &mut Backend, page| rests.after(backend, page);
        let backend = &mut self.backend;
        let vacuumed = heap.vacuum_with(backend, job, of_table, &interrupt, &mut rest);
        let VacuumedIndexes { all, rounds, team, .. } = indexes;
        let (mut warnings, told) = team.map_or_else(Default::default, Team::end);
        self.warnings.append(&mut warnings);
        let mut report = vacuumed?;
        report.bypassed |= cleanup == IndexCleanup::Off;
        let failsafe = hurries.load(Ordering::Relaxed).then_some(rounds);
        Ok(Vacuumed { report, indexes: all, failsafe, told })
    }

    /// Which of a table's indexes workers may vacuum, and the number of workers. None: there are
    /// none.
    fn plan_workers(
        &mut self,
        table: &Table,
        indexes: &[VacuumedIndex],
        requested: Option<u32>,
    ) -> Result<Option<(Vec<bool>, usize)>, EngineError> {
        if indexes.len() < 2 || requested == Some(0) {
            return Ok(None);
        }
        if table.is_temporary() {
            if requested.is_some() {
                self.warnings.push(Warning::new(format!(
                    "disabling parallel option of vacuum on \"{}\" --- cannot vacuum temporary \
                     tables in parallel",
                    table.name
                )));
            }
            return Ok(None);
        }
        let VacuumSettings { parallel_workers: most, min_parallel_index_blocks: least, .. } =
            self.settings.vacuum;
        let (parallel, planned) = plan(&VacuumedIndex::blocks(indexes)?, least, requested, most);
        Ok((planned > 0).then_some((parallel, planned)))
    }

    fn warn_of_contradictions(&mut self, pages: u32, name: &str) {
        if pages > 0 {
            self.warnings.push(Warning::new(format!(
                "{pages} pages are not marked all-visible but their visibility map bits were set \
                 in relation \"{name}\""
            )));
        }
    }

    /// Stores what the vacuum has found in pg_class.
    fn store_figures(
        &mut self,
        core: &InDatabase,
        (table, heap): (&Table, &Heap),
        before: &ClassFigures,
        report: &VacuumReport,
        remain: u32,
    ) -> Result<VacuumedTable, EngineError> {
        let (visible, frozen) = heap.marked_pages(&mut self.backend)?;
        let all_visible = visible.min(remain);
        let tuples = estimated_rows(before, report);
        let (frozen_xid, min_multi) = report.remaining.map_or((0, 0), |ids| (ids.xid, ids.multi));
        let figures = ClassFigures {
            pages: remain,
            tuples: tuples as f32,
            all_visible,
            all_frozen: frozen.min(all_visible),
            frozen_xid,
            min_multi,
            ..*before
        };
        let next = next_ids(core);
        let advanced = self.update_class(core, table.oid, &figures, next)?;
        for (what, old, new) in [
            ("relfrozenxid", advanced.bad_xid, frozen_xid),
            ("relminmxid", advanced.bad_multi, min_multi),
        ] {
            if let Some(old) = old {
                let message = format!(
                    "overwrote invalid {what} value {old} with new value {new} for table \"{}\"",
                    table.name
                );
                self.warnings.push(Warning::new(message));
            }
        }
        Ok(VacuumedTable {
            name: String::new(),
            report: *report,
            indexes: Vec::new(),
            failsafe: false,
            cut: report.pages - remain,
            tuples,
            oldest_xid: 0,
            next,
            before: NextIds { xid: before.frozen_xid, multi: before.min_multi },
            advanced,
            elapsed: Duration::ZERO,
            delay: self.delay_line(shown::DELAY),
        })
    }

    /// Stores figures of a relation in place.
    pub(in crate::session) fn update_class(
        &mut self,
        core: &InDatabase,
        oid: Oid,
        figures: &ClassFigures,
        next: NextIds,
    ) -> Result<Advanced, EngineError> {
        let Session { open: Some(open), backend, .. } = self else { return Err(no_transaction()) };
        Ok(core.database.update_class(backend, &open.tx, oid, figures, next)?)
    }

    /// Tells that a table is left out.
    fn skip(&mut self, sqlstate: &'static str, what: &str, name: &str, why: &str) {
        let message = format!("skipping {what} of \"{name}\" --- {why}");
        self.warnings.push(Warning { sqlstate, ..Warning::new(message) });
    }

    pub(super) fn warn_of_ids(&mut self, decided: &Decided) {
        const CLOSE: &str = "Close open transactions soon to avoid wraparound problems.\nYou might \
                             also need to commit or roll back old prepared transactions, or drop \
                             stale replication slots.";
        let texts = [
            "cutoff for removing and freezing tuples is far in the past",
            "cutoff for freezing multixacts is far in the past",
        ];
        for (text, _) in texts.into_iter().zip(decided.held_back).filter(|(_, held)| *held) {
            let hint = Some(CLOSE.to_owned());
            self.warnings.push(Warning { hint, ..Warning::new(text) });
        }
    }

    fn warn_of_failsafe(&mut self, name: &str, index_scans: u32) {
        const DETAIL: &str = "The table's relfrozenxid or relminmxid is too far in the past.";
        const HINT: &str = "Consider increasing configuration parameter \"maintenance_work_mem\" \
                            or \"autovacuum_work_mem\".\nYou might also need to consider other \
                            ways for VACUUM to keep up with the allocation of transaction IDs.";
        let message = format!(
            "bypassing nonessential maintenance of table \"{name}\" as a failsafe after \
             {index_scans} index scans"
        );
        let (detail, hint) = (Some(DETAIL.to_owned()), Some(HINT.to_owned()));
        self.warnings.push(Warning { detail, hint, ..Warning::new(message) });
    }

    /// How vacuum reads ahead.
    pub(in crate::session) fn vacuum_stream(&mut self) -> StreamSettings {
        let reads = u32::try_from(self.settings.vacuum.io_concurrency).unwrap_or(u32::MAX);
        StreamSettings::new(reads, self.read_ahead().combine_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(before: (u32, f32), (pages, scanned, live): (u32, u32, u64)) -> f64 {
        let before = ClassFigures {
            pages: before.0,
            tuples: before.1,
            all_visible: 0,
            all_frozen: 0,
            frozen_xid: 3,
            min_multi: 1,
            toast: 0,
            indexed: false,
        };
        let report = VacuumReport { pages, scanned, live, ..VacuumReport::default() };
        estimated_rows(&before, &report)
    }

    #[test]
    fn rows_of_pages_that_were_not_read_are_estimated() {
        assert_eq!(estimate((10, 1000.0), (20, 20, 77)), 77.0);
        assert_eq!(estimate((1000, 5.0), (1000, 19, 77)), 5.0, "too few pages");
        assert_eq!(estimate((100, 5.0), (1000, 1, 77)), 5.0);
        assert_eq!(estimate((0, -1.0), (100, 10, 50)), 500.0);
        assert_eq!(estimate((100, 1000.0), (200, 100, 700)), 1700.0);
    }
}
