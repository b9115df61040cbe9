//! The thread that starts workers.

use std::sync::Arc;

use forebay_aio::sync::thread::{self, JoinHandle};
use forebay_aio::sync::{Duration, Instant};
use forebay_format::ids::xid_precedes;

use super::state::Settings;
use super::worker::{AutovacuumRound, visit_all, visit_next};
use crate::config::{AutovacuumSettings, Background, SessionSettings};
use crate::core::Core;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::id_limits::next_ids;

/// Bytes of a worker's stack: as a session's.
const STACK: usize = 8 << 20;

impl Core {
    /// Starts the launcher. None: the engine has no room for workers, or no threads at all.
    pub(crate) fn start_autovacuum(
        self: &Arc<Core>,
    ) -> Result<Option<JoinHandle<()>>, EngineError> {
        let without = self.config.background == Background::Stepped;
        if without || self.config.autovacuum_worker_slots == 0 {
            return Ok(None);
        }
        let core = Arc::clone(self);
        let name = "autovacuum launcher";
        let started = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || core.fatal.watch(name, || launch(&core)));
        let handle = started.map_err(|error| {
            EngineError::statement("53000", format!("could not start {name}: {error}"))
        })?;
        Ok(Some(handle))
    }

    /// Whether tables may have ids so old that they must be vacuumed.
    fn has_old_ids(&self) -> bool {
        let next = next_ids(self);
        let oldest = self.xacts.oldest_xid().0;
        let limit = oldest.wrapping_add(self.config.session.vacuum.freeze_max_age);
        let sets = next.multi.wrapping_sub(self.multis.counters().oldest);
        let most = self.config.session.vacuum.multixact_freeze_max_age;
        xid_precedes(limit, next.xid) || sets > self.multis.freeze_max_age(most)
    }
}

impl Engine {
    /// Takes over settings of autovacuum, and those with which its sessions begin.
    pub fn change_autovacuum(&self, to: &AutovacuumSettings, session: &SessionSettings) {
        let settings = Settings { autovacuum: *to, session: session.clone() };
        self.core().autovacuum.change(settings);
    }

    /// Vacuums and analyzes, in this thread, the tables of all databases that need it: what workers
    /// of autovacuum do, whether it is on or not. For programs that decide by themselves when that
    /// happens. What fails for one table is logged, and found in the round's failures.
    pub fn run_autovacuum(&self) -> Result<AutovacuumRound, EngineError> {
        visit_all(self.core())
    }
}

/// Starts workers until the engine stops. Then it waits for them.
fn launch(core: &Arc<Core>) {
    let mut workers: Vec<JoinHandle<()>> = Vec::new();
    let mut last = Instant::now();
    loop {
        let naptime = interval(&core.autovacuum.settings(), core.autovacuum.databases());
        if !core.autovacuum.rest_until(last + naptime) {
            break;
        }
        if last.elapsed() < naptime {
            continue;
        }
        last = Instant::now();
        let (ended, running): (Vec<_>, Vec<_>) =
            workers.into_iter().partition(JoinHandle::is_finished);
        join(core, ended);
        workers = running;
        let settings = core.autovacuum.settings();
        let most = settings.autovacuum.max_workers.min(core.config.autovacuum_worker_slots);
        let active = is_active(&settings);
        if workers.len() < most && (active || core.has_old_ids()) && core.check_running().is_ok() {
            workers.extend(start_worker(core, active));
        }
    }
    join(core, workers);
}

/// Whether there is more to do than to look after old ids. Without counters there is nothing to
/// decide by.
fn is_active(settings: &Settings) -> bool {
    settings.autovacuum.enabled && settings.session.track_counts
}

/// The time from one worker to the next, so that each database is visited every naptime. While
/// autovacuum is off, PostgreSQL starts a worker for old ids with each 65,536 new ones, so a long
/// naptime must not keep it from that here.
fn interval(settings: &Settings, databases: u32) -> Duration {
    const OLD_IDS: Duration = Duration::from_secs(60);
    const LEAST: Duration = Duration::from_millis(100);
    let naptime = settings.autovacuum.naptime;
    let naptime = if is_active(settings) { naptime } else { naptime.min(OLD_IDS) };
    (naptime / databases).max(naptime.min(LEAST))
}

fn join(core: &Core, workers: Vec<JoinHandle<()>>) {
    for worker in workers {
        if worker.join().is_err() {
            core.fatal.stop("an autovacuum worker panicked");
        }
    }
}

/// Starts a worker; none if that is not possible now. Unless autovacuum is active, it only looks
/// after old ids.
fn start_worker(core: &Arc<Core>, active: bool) -> Option<JoinHandle<()>> {
    let own = Arc::clone(core);
    let body = move || {
        let worked = own.fatal.watch("autovacuum worker", || visit_next(&own, active));
        if let Err(error) = worked
            && own.check_running().is_ok()
        {
            tracing::error!("autovacuum worker: {error}");
        }
    };
    let worker = thread::Builder::new().name("autovacuum worker".to_owned()).stack_size(STACK);
    worker
        .spawn(body)
        .inspect_err(|error| tracing::warn!("could not start an autovacuum worker: {error}"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_naptime_delays_old_ids_only_where_autovacuum_is_on() {
        let day = Duration::from_secs(86_400);
        let autovacuum = AutovacuumSettings { naptime: day, ..AutovacuumSettings::default() };
        let on = Settings { autovacuum, session: SessionSettings::default() };
        assert_eq!(interval(&on, 1), day);
        assert_eq!(interval(&on, 4), day / 4);
        assert_eq!(interval(&on, u32::MAX), Duration::from_millis(100));
        let mut off = on.clone();
        off.autovacuum.enabled = false;
        assert_eq!(interval(&off, 1), Duration::from_secs(60));
        let mut blind = on;
        blind.session.track_counts = false;
        assert_eq!(interval(&blind, 1), Duration::from_secs(60));
        off.autovacuum.naptime = Duration::from_secs(1);
        assert_eq!(interval(&off, 1), Duration::from_secs(1));
    }
}
