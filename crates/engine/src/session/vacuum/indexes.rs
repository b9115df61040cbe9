//! The indexes of a table that is vacuumed.

use std::sync::Arc;

use forebay_access::AccessError;
use forebay_access::heap::{DeadItems, Heap, Pace, Removed, TableIndexes};
use forebay_access::nbtree::{Index, IndexVacuumJob, IndexVacuumStats};
use forebay_access::vacuum_progress as shown;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_catalog::{ClassFigures, NextIds, Reader, Table};
use forebay_format::Fork;
use forebay_storage::Backend;
use forebay_types::Oid;

use super::cutoffs::is_too_old;
use super::parallel::Team;
use crate::config::VacuumSettings;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::id_limits::next_ids;
use crate::session::state::Session;

/// An index, and what was found and done in it.
#[derive(Debug)]
pub(super) struct VacuumedIndex {
    oid: Oid,
    index: Index,
    stats: IndexVacuumStats,
}

/// What is done to an index.
type OneIndex<'a> =
    &'a (dyn Fn(&mut VacuumedIndex, &mut Backend, Pace<'_>) -> Result<(), AccessError> + Sync);

/// All indexes of a table.
#[derive(Debug)]
pub(super) struct VacuumedIndexes<'a> {
    pub(super) core: &'a InDatabase,
    pub(super) all: Vec<VacuumedIndex>,
    pub(super) job: IndexVacuumJob<'a>,
    /// The table's figures, and the ages that it may reach.
    pub(super) limits: (&'a ClassFigures, VacuumSettings),
    /// Set once they are given up because it is older. Nothing rests any more then.
    pub(super) hurries: Arc<AtomicBool>,
    /// How often entries have been removed from all of them.
    pub(super) rounds: u32,
    /// Those that vacuum several at once. None: one after the other.
    pub(super) team: Option<Team<'a>>,
}

impl VacuumedIndexes<'_> {
    fn gives_up(&mut self) -> bool {
        let (figures, settings) = &self.limits;
        let gives_up = is_too_old(figures, next_ids(self.core), settings);
        self.hurries.store(gives_up, Ordering::Relaxed);
        gives_up
    }
}

/// Shows how many indexes are to be looked at, 0 of them done.
fn show_indexes(backend: &Backend, total: usize) {
    let total = (shown::INDEXES_TOTAL, total as u64);
    backend.progress.set_all(&[total, (shown::INDEXES_DONE, 0)]);
}

impl VacuumedIndexes<'_> {
    /// Does something to all indexes, by several threads if there is a team, or gives up.
    fn each(
        &mut self,
        (backend, pace): (&mut Backend, Pace<'_>),
        (what, alone, may_give_up): (&str, bool, bool),
        one: OneIndex<'_>,
    ) -> Result<Removed, AccessError> {
        show_indexes(backend, self.all.len());
        let one = |index: &mut VacuumedIndex, backend: &mut Backend, pace: Pace<'_>| {
            one(index, backend, pace)?;
            backend.progress.add(shown::INDEXES_DONE, 1);
            Ok(())
        };
        let mut goes_on = !(may_give_up && self.gives_up());
        let given_up = if goes_on { Removed::Some } else { Removed::None };
        let mut at = 0;
        while goes_on && at < self.all.len() {
            match &mut self.team {
                Some(team) => {
                    team.run(self.core, &mut self.all, (backend, pace), (what, alone), &one)?;
                    at = self.all.len();
                }
                None => {
                    one(&mut self.all[at], backend, pace)?;
                    at += 1;
                }
            }
            goes_on = !(may_give_up && self.gives_up());
        }
        show_indexes(backend, 0);
        Ok(if goes_on { Removed::All } else { given_up })
    }
}

impl TableIndexes for VacuumedIndexes<'_> {
    fn remove(
        &mut self,
        backend: &mut Backend,
        dead: &DeadItems,
        pace: Pace<'_>,
    ) -> Result<Removed, AccessError> {
        let (job, is_dead) = (self.job, |item| dead.contains(item));
        let how = ("vacuuming", false, true);
        let removed = self.each((backend, pace), how, &|one, backend, pace| {
            one.index.bulk_delete(backend, &job, &is_dead, pace, &mut one.stats)
        })?;
        self.rounds += u32::from(removed == Removed::All);
        Ok(removed)
    }

    fn clean_up(&mut self, backend: &mut Backend, pace: Pace<'_>) -> Result<(), AccessError> {
        // There is little to do where entries were removed.
        let (job, how) = (self.job, ("cleanup", self.rounds > 0, false));
        self.each((backend, pace), how, &|one, backend, pace| {
            one.index.vacuum_cleanup(backend, &job, pace, &mut one.stats)
        })?;
        Ok(())
    }
}

impl VacuumedIndex {
    /// The indexes of a table that have entries for its rows.
    pub(super) fn all_of(table: &Table, heap: &Heap) -> Vec<VacuumedIndex> {
        let ready = table.indexes.iter().filter(|index| index.ready);
        let opened = ready.map(|of| {
            let (oid, index) = (of.oid, of.open(heap));
            VacuumedIndex { oid, index, stats: IndexVacuumStats::default() }
        });
        opened.collect()
    }

    /// Blocks of each.
    pub(super) fn blocks(all: &[VacuumedIndex]) -> Result<Vec<u32>, AccessError> {
        let blocks = |of: &VacuumedIndex| of.index.pool.nblocks(of.index.locator, Fork::Main);
        Ok(all.iter().map(blocks).collect::<Result<_, _>>()?)
    }

    /// Its line of what VERBOSE tells. None if nobody looked at it.
    pub(super) fn line(&self) -> Option<String> {
        let IndexVacuumStats { pages, newly_deleted, deleted, free, scanned, .. } = self.stats;
        scanned.then(|| {
            format!(
                "index \"{}\": pages: {pages} in total, {newly_deleted} newly deleted, {deleted} \
                 currently deleted, {free} reusable",
                self.index.shape.name
            )
        })
    }
}

impl Session {
    /// Stores the sizes of indexes in pg_class, as far as they are known.
    pub(super) fn store_index_figures(
        &mut self,
        core: &InDatabase,
        indexes: &[VacuumedIndex],
        next: NextIds,
    ) -> Result<(), EngineError> {
        for VacuumedIndex { oid, stats, .. } in indexes {
            if !stats.scanned || stats.estimated {
                continue;
            }
            let snapshot = core.xacts.snapshot(&self.running()?.tx);
            let found = Reader::new(&core.database, &mut self.backend, snapshot).figures(*oid)?;
            let Some(before) = found else { continue };
            let (pages, tuples) = (stats.pages, stats.rows as f32);
            let figures = ClassFigures { pages, tuples, all_visible: 0, all_frozen: 0, ..before };
            self.update_class(core, *oid, &figures, next)?;
        }
        Ok(())
    }
}
