//! How far a long command of a backend has come, for the views pg_stat_progress_*.
//!
//! A backend has one slot ([`Progress`]). A command starts in it and sets its counters; any thread
//! may look. Each counter belongs to a kind of command: code that several commands share sets its
//! counters without asking which command runs, and those of others are left alone.
//!
//! ```text
//! let _running = Progress::start(&backend.progress, Command::CreateIndex, table);
//! backend.progress.set(BLOCKS_TOTAL, blocks);     // until _running is dropped
//! ```

use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_format::Oid;

/// A command with a view of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// CREATE INDEX and REINDEX.
    CreateIndex,
    /// VACUUM, of autovacuum too.
    Vacuum,
    /// ANALYZE, of autovacuum too.
    Analyze,
    /// VACUUM FULL. It has the name of another statement that does the same.
    Cluster,
}

/// Number of counters of a command, as PostgreSQL has them.
const COUNTERS: usize = 20;

/// A counter of a kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    command: Command,
    place: usize,
}

impl Counter {
    /// The counter at a place, from 0 as in PostgreSQL's `commands/progress.h`.
    pub const fn new(command: Command, place: usize) -> Counter {
        assert!(place < COUNTERS);
        Counter { command, place }
    }
}

/// A running command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningCommand {
    /// Its kind.
    pub command: Command,
    /// The table that it works on.
    pub relation: Oid,
    counters: [u64; COUNTERS],
}

impl RunningCommand {
    /// A counter; 0 if it is another command's.
    pub fn get(&self, counter: Counter) -> u64 {
        let own = self.counters.get(counter.place).filter(|_| counter.command == self.command);
        own.copied().unwrap_or(0)
    }

    fn set(&mut self, counter: Counter, value: impl FnOnce(u64) -> u64) {
        if counter.command == self.command
            && let Some(slot) = self.counters.get_mut(counter.place)
        {
            *slot = value(*slot);
        }
    }
}

/// What a backend's long command has done. The mutex makes a set of counters change at once.
#[derive(Debug, Default)]
pub struct Progress(Mutex<Option<RunningCommand>>);

/// A command is running. It ends when this is dropped.
#[derive(Debug)]
pub struct Started(Arc<Progress>);

impl Progress {
    /// A command starts on a table, with all counters at 0.
    pub fn start(slot: &Arc<Progress>, command: Command, relation: Oid) -> Started {
        *slot.0.lock() = Some(RunningCommand { command, relation, counters: [0; COUNTERS] });
        Started(Arc::clone(slot))
    }

    /// Sets a counter.
    pub fn set(&self, counter: Counter, value: u64) {
        self.set_all(&[(counter, value)]);
    }

    /// Sets several counters at once.
    pub fn set_all(&self, values: &[(Counter, u64)]) {
        if let Some(running) = &mut *self.0.lock() {
            values.iter().for_each(|(counter, value)| running.set(*counter, |_| *value));
        }
    }

    /// Adds to a counter.
    pub fn add(&self, counter: Counter, more: u64) {
        if let Some(running) = &mut *self.0.lock() {
            running.set(counter, |before| before + more);
        }
    }

    /// The running command, if there is one.
    pub fn running(&self) -> Option<RunningCommand> {
        *self.0.lock()
    }
}

impl Started {
    /// The command starts on another table, with all counters at 0.
    pub fn on_another(&self, relation: Oid) {
        if let Some(running) = &mut *self.0.0.lock() {
            *running = RunningCommand { relation, counters: [0; COUNTERS], ..*running };
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Counter = Counter::new(Command::CreateIndex, 0);
    const LAST: Counter = Counter::new(Command::CreateIndex, COUNTERS - 1);

    #[test]
    fn counters_live_as_long_as_the_command() {
        let slot = Arc::new(Progress::default());
        slot.set(FIRST, 1);
        assert_eq!(slot.running(), None);
        let started = Progress::start(&slot, Command::CreateIndex, 16_384);
        slot.set_all(&[(FIRST, 3), (LAST, 4)]);
        slot.add(FIRST, 5);
        let running = slot.running().expect("it runs");
        assert_eq!((running.command, running.relation), (Command::CreateIndex, 16_384));
        assert_eq!((running.get(FIRST), running.get(LAST)), (8, 4));
        started.on_another(16_390);
        let running = slot.running().expect("it runs");
        assert_eq!((running.relation, running.get(FIRST)), (16_390, 0));
        drop(started);
        assert_eq!(slot.running(), None);
        let _again = Progress::start(&slot, Command::CreateIndex, 16_385);
        assert_eq!(slot.running().expect("it runs").get(FIRST), 0);
    }
}
