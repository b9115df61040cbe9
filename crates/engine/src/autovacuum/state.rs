//! What the launcher, the workers and those who change settings share.

use std::collections::HashSet;

use forebay_aio::sync::{Condvar, Instant, Mutex, RwLock};
use forebay_types::Oid;

use super::balance::Balance;
use crate::config::{AutovacuumSettings, EngineConfig, SessionSettings, VacuumSettings};

/// Settings of autovacuum, and those with which its sessions begin.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) autovacuum: AutovacuumSettings,
    pub(crate) session: SessionSettings,
}

impl Settings {
    /// The cost settings of workers, but for those of a table.
    fn costs(&self) -> VacuumSettings {
        let (own, vacuum) = (&self.autovacuum, self.session.vacuum);
        VacuumSettings {
            cost_delay: own.cost_delay.unwrap_or(vacuum.cost_delay),
            cost_limit: own.cost_limit.unwrap_or(vacuum.cost_limit),
            ..vacuum
        }
    }
}

/// Why the launcher wakes up.
#[derive(Debug, Default)]
struct Woken {
    changed: bool,
    stopped: bool,
}

/// Autovacuum, as an engine has it.
#[derive(Debug)]
pub(crate) struct Autovacuum {
    settings: RwLock<Settings>,
    /// Tables that a worker has taken.
    taken: Mutex<HashSet<Oid>>,
    pub(crate) balance: Balance,
    woken: Mutex<Woken>,
    wake: Condvar,
}

/// A table that a worker has taken.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    by: &'a Autovacuum,
    table: Oid,
}

impl Autovacuum {
    /// As an engine begins with it.
    pub(crate) fn of(config: &EngineConfig) -> Autovacuum {
        let EngineConfig { autovacuum, session, .. } = config.clone();
        let settings = Settings { autovacuum, session };
        Autovacuum {
            balance: Balance::new(settings.costs()),
            settings: RwLock::new(settings),
            taken: Mutex::default(),
            woken: Mutex::default(),
            wake: Condvar::default(),
        }
    }

    /// The settings now.
    pub(crate) fn settings(&self) -> Settings {
        self.settings.read().clone()
    }

    /// Changes the settings. The launcher follows at once, workers with their next table, but for
    /// costs with their next page.
    pub(crate) fn change(&self, settings: Settings) {
        self.balance.change(settings.costs());
        *self.settings.write() = settings;
        self.woken.lock().changed = true;
        self.wake.notify_all();
    }

    /// The launcher is to end.
    pub(crate) fn stop(&self) {
        self.woken.lock().stopped = true;
        self.wake.notify_all();
    }

    /// The launcher sleeps until then, or until its settings change. False if it is to end.
    pub(crate) fn rest_until(&self, end: Instant) -> bool {
        let mut woken = self.woken.lock();
        while !woken.stopped && !woken.changed {
            if self.wake.wait_until(&mut woken, end).timed_out() {
                break;
            }
        }
        woken.changed = false;
        !woken.stopped
    }

    /// Takes a table. None: another worker has it.
    pub(crate) fn take(&self, table: Oid) -> Option<Taken<'_>> {
        let free = self.taken.lock().insert(table);
        free.then_some(Taken { by: self, table })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.by.taken.lock().remove(&self.table);
    }
}
