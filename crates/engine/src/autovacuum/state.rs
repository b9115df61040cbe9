//! What the launcher, the workers and those who change settings share.

use std::collections::{HashMap, HashSet};

use forebay_aio::sync::{Condvar, Duration, Instant, Mutex, RwLock};
use forebay_txn::CountedRelation;
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
    taken: Mutex<HashSet<CountedRelation>>,
    /// Databases, and when a worker was last sent to each.
    visited: Mutex<HashMap<Oid, Option<Instant>>>,
    pub(crate) balance: Balance,
    woken: Mutex<Woken>,
    wake: Condvar,
}

/// A table that a worker has taken.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    by: &'a Autovacuum,
    table: CountedRelation,
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
            visited: Mutex::default(),
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

    /// The number of databases that are visited in turn.
    pub(crate) fn databases(&self) -> u32 {
        u32::try_from(self.visited.lock().len()).unwrap_or(u32::MAX).max(1)
    }

    /// Chooses the database that a worker visits now, and notes that: the first of `urgent`, else
    /// of the others the one that was not visited for longest. None was visited within `pause`.
    pub(crate) fn choose(&self, urgent: &[Oid], others: &[Oid], pause: Duration) -> Option<Oid> {
        let (mut visited, now) = (self.visited.lock(), Instant::now());
        let known = |oid: &Oid| urgent.contains(oid) || others.contains(oid);
        visited.retain(|oid, _| known(oid));
        let last = |oid: Oid| visited.get(&oid).copied().flatten();
        let due = |oid: &Oid| last(*oid).is_none_or(|last| last + pause <= now);
        let mut first = urgent.iter().copied().filter(due);
        let longest = others.iter().copied().filter(due).min_by_key(|oid| last(*oid));
        let chosen = first.next().or(longest);
        for oid in urgent.iter().chain(others) {
            let at = visited.entry(*oid).or_default();
            if Some(*oid) == chosen {
                *at = Some(now);
            }
        }
        chosen
    }

    /// Takes a table. None: another worker has it.
    pub(crate) fn take(&self, table: CountedRelation) -> Option<Taken<'_>> {
        let free = self.taken.lock().insert(table);
        free.then_some(Taken { by: self, table })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.by.taken.lock().remove(&self.table);
    }
}
