//! What pages cost the workers of autovacuum, and the limit that they share.
//!
//! A worker asks before each page, so it follows changed settings while it vacuums a table.

use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicUsize, Ordering};
use forebay_aio::sync::{Duration, Mutex};

use crate::config::VacuumSettings;

/// The cost settings of all workers, and how many of them share the limit: all but those whose
/// table has a limit or a delay of its own.
#[derive(Clone, Debug)]
pub(crate) struct Balance(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sharers: AtomicUsize,
    settings: Mutex<VacuumSettings>,
}

/// A worker that shares the limit.
#[derive(Debug)]
pub(crate) struct Sharer(Balance);

/// What pages cost a worker that is at a table.
#[derive(Clone, Debug)]
pub(crate) struct WorkerCosts {
    balance: Balance,
    /// The table's own delay and limit.
    delay: Option<Duration>,
    limit: Option<u32>,
}

impl Balance {
    /// Nobody shares it yet.
    pub(crate) fn new(settings: VacuumSettings) -> Balance {
        Balance(Arc::new(Shared { sharers: AtomicUsize::new(0), settings: Mutex::new(settings) }))
    }

    /// Changes the settings.
    pub(crate) fn change(&self, settings: VacuumSettings) {
        *self.0.settings.lock() = settings;
    }

    /// The costs at a table that may have a delay and a limit of its own.
    pub(crate) fn at_table(&self, delay: Option<Duration>, limit: Option<u32>) -> WorkerCosts {
        WorkerCosts { balance: self.clone(), delay, limit }
    }

    /// Each worker's part of a limit.
    fn part_of(&self, limit: u32) -> u32 {
        let workers = u32::try_from(self.0.sharers.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        (limit / workers.max(1)).max(1)
    }
}

impl WorkerCosts {
    /// Takes part in sharing the limit, unless the table has settings of its own.
    pub(crate) fn share(&self) -> Option<Sharer> {
        self.shares().then(|| {
            self.balance.0.sharers.fetch_add(1, Ordering::Relaxed);
            Sharer(self.balance.clone())
        })
    }

    fn shares(&self) -> bool {
        self.delay.is_none() && self.limit.is_none()
    }

    /// A vacuum's settings, with the costs of this moment.
    pub(crate) fn now(&self, vacuum: &VacuumSettings) -> VacuumSettings {
        let now = *self.balance.0.settings.lock();
        let shared =
            if self.shares() { self.balance.part_of(now.cost_limit) } else { now.cost_limit };
        VacuumSettings {
            cost_delay: self.delay.unwrap_or(now.cost_delay),
            cost_limit: self.limit.unwrap_or(shared),
            cost_page_hit: now.cost_page_hit,
            cost_page_miss: now.cost_page_miss,
            cost_page_dirty: now.cost_page_dirty,
            track_delays: now.track_delays,
            ..*vacuum
        }
    }
}

impl Drop for Sharer {
    fn drop(&mut self) {
        self.0.0.sharers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(2);

    fn limit(costs: &WorkerCosts) -> (Duration, u32) {
        let now = costs.now(&VacuumSettings::default());
        (now.cost_delay, now.cost_limit)
    }

    fn general(cost_limit: u32) -> VacuumSettings {
        VacuumSettings { cost_delay: DELAY, cost_limit, ..VacuumSettings::default() }
    }

    #[test]
    fn the_limit_is_divided_among_those_who_share_it() {
        let balance = Balance::new(general(200));
        let costs = balance.at_table(None, None);
        assert_eq!(limit(&costs), (DELAY, 200));
        let first = costs.share();
        let second = balance.at_table(None, None).share();
        assert_eq!(limit(&costs), (DELAY, 100));
        drop(first);
        assert_eq!(limit(&costs), (DELAY, 200));
        drop(second);
        balance.change(general(1));
        let _both = [costs.share(), costs.share()];
        assert_eq!(limit(&costs), (DELAY, 1));
    }

    #[test]
    fn settings_of_a_table_stand_and_others_follow() {
        let balance = Balance::new(general(200));
        let _other = balance.at_table(None, None).share();
        let _another = balance.at_table(None, None).share();
        let slow = balance.at_table(Some(DELAY * 2), None);
        let limited = balance.at_table(None, Some(7));
        assert!(slow.share().is_none() && limited.share().is_none());
        assert_eq!((limit(&slow), limit(&limited)), ((DELAY * 2, 200), (DELAY, 7)));
        balance.change(VacuumSettings { cost_delay: Duration::ZERO, ..general(300) });
        assert_eq!((limit(&slow), limit(&limited)), ((DELAY * 2, 300), (Duration::ZERO, 7)));
    }
}
