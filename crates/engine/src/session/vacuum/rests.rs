//! Rests of a VACUUM or ANALYZE, by what its pages cost. They notice a cancel, too.

use std::sync::Arc;

use forebay_access::AccessError;
use forebay_access::heap::PageCost;
use forebay_access::{analyze_progress, vacuum_progress};
use forebay_aio::IoObject;
use forebay_aio::sync::Instant;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_format::BLOCK_SIZE;
use forebay_storage::Backend;
use forebay_storage::progress::Counter;
use forebay_txn::locks::Interrupt;

use super::parallel::SharedCost;
use crate::autovacuum::balance::WorkerCosts;
use crate::config::VacuumSettings;
use crate::session::state::Session;

/// Lets a vacuum rest now and then, and notices a cancel.
pub(in crate::session) struct Rests {
    settings: VacuumSettings,
    interrupt: Interrupt,
    /// What pages cost a worker of autovacuum, as its settings are now.
    worker: Option<WorkerCosts>,
    cost: u32,
    /// Pages that the backend had found in memory, and had read, when it was asked last. None: they
    /// cost nothing then.
    seen: Option<[u64; 2]>,
    /// What threads that vacuum the same table cost together.
    team: Option<Arc<SharedCost>>,
    /// Whether the table has become so old that no time is to be lost.
    hurries: Arc<AtomicBool>,
}

/// Pages that a backend has found in memory, and has read.
fn pages(backend: &Backend) -> [u64; 2] {
    let used = [IoObject::Relation, IoObject::TempRelation].map(|of| backend.io.usage(of));
    used.iter().fold([0; 2], |[hits, reads], used| {
        [hits + used.hits, reads + used.read[0] / BLOCK_SIZE as u64]
    })
}

fn cost_of(pages: u64, each: u32) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX).saturating_mul(each)
}

impl Rests {
    /// What the backend does from now on counts.
    pub(in crate::session) fn new(
        settings: VacuumSettings,
        interrupt: Interrupt,
        backend: &Backend,
    ) -> Rests {
        let (cost, seen) = (0, Some(pages(backend)));
        let hurries = Arc::default();
        Rests { settings, interrupt, worker: None, cost, seen, team: None, hurries }
    }

    /// The same for a worker of autovacuum, if it is one.
    pub(in crate::session) fn of_worker(self, worker: Option<WorkerCosts>) -> Rests {
        Rests { worker, ..self }
    }

    /// The same, but without a rest once that is set.
    pub(super) fn hurried_by(self, hurries: &Arc<AtomicBool>) -> Rests {
        Rests { hurries: Arc::clone(hurries), ..self }
    }

    /// The same for one of several threads.
    pub(super) fn in_team(self, team: &Arc<SharedCost>) -> Rests {
        Rests { team: Some(Arc::clone(team)), ..self }
    }

    /// Counts what a page cost: as many pages as the backend has found and read since the last
    /// call, and what was dirtied. Rests once that is enough.
    pub(in crate::session) fn after(
        &mut self,
        backend: &mut Backend,
        page: PageCost,
    ) -> Result<(), AccessError> {
        if let Some(kind) = self.interrupt.pending() {
            return Err(AccessError::Interrupted(kind));
        }
        let settings = match &self.worker {
            None => self.settings,
            Some(worker) => worker.now(&self.settings),
        };
        let VacuumSettings { cost_delay, cost_limit, .. } = settings;
        if cost_delay.is_zero() || self.hurries.load(Ordering::Relaxed) {
            (self.cost, self.seen) = (0, None);
            return Ok(());
        }
        let added = self.count(backend, page, &settings);
        let is_due = match &self.team {
            None => self.cost >= cost_limit,
            Some(team) => team.add(added, self.cost, cost_limit),
        };
        if !is_due {
            return Ok(());
        }
        if let Some(team) = &self.team {
            team.settle(self.cost);
        }
        let time = cost_delay.mul_f64(f64::from(self.cost) / f64::from(cost_limit));
        self.cost = 0;
        backend.io.submit();
        let begun = Instant::now();
        let rested = self.interrupt.sleep_until(begun + time.min(cost_delay * 4));
        if settings.track_delays {
            let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            backend.progress.add(vacuum_progress::DELAY, nanos);
            backend.progress.add(analyze_progress::DELAY, nanos);
        }
        rested.map_err(AccessError::Interrupted)
    }

    fn count(&mut self, backend: &Backend, page: PageCost, settings: &VacuumSettings) -> u32 {
        let now = pages(backend);
        let [hits, reads] = self.seen.replace(now).unwrap_or(now);
        let added = [
            cost_of(now[0].saturating_sub(hits), settings.cost_page_hit),
            cost_of(now[1].saturating_sub(reads), settings.cost_page_miss),
            cost_of(page.dirtied.into(), settings.cost_page_dirty),
        ];
        let added = added.into_iter().fold(0, u32::saturating_add);
        self.cost = self.cost.saturating_add(added);
        added
    }
}

impl Session {
    /// What VERBOSE tells of the rests of the running command, by its counter of them: a line, or
    /// nothing if they are not timed.
    pub(in crate::session) fn delay_line(&self, counter: Counter) -> String {
        let tracks = match &self.costs {
            None => self.settings.vacuum.track_delays,
            Some(worker) => worker.now(&self.settings.vacuum).track_delays,
        };
        let running = self.backend.progress.running().filter(|_| tracks);
        let millis = running.map(|running| running.get(counter) as f64 / 1e6);
        millis.map_or_else(String::new, |millis| format!("delay time: {millis:.3} ms\n"))
    }
}
