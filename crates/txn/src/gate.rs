//! Commits in progress, for which a checkpoint waits.
//!
//! A commit record before a checkpoint's redo pointer is not replayed from that checkpoint, so its
//! outcome must be among the pages of `pg_xact` that the checkpoint writes. A commit holds a pass
//! from before it inserts its record until it has set its outcome. The checkpoint sets its redo
//! pointer, then waits for the passes given out before. It never delays new commits: their records
//! lie behind the redo pointer.

use forebay_aio::sync::{Condvar, Mutex};

/// Passes in use, in two generations. The parity of `generation` tells which one is current.
#[derive(Debug, Default)]
struct State {
    generation: u64,
    active: [u32; 2],
}

/// Gives out passes to commits, and waits for them.
#[derive(Debug, Default)]
pub struct CommitGate {
    state: Mutex<State>,
    left: Condvar,
    /// One waiter at a time: there are only two generations.
    waiter: Mutex<()>,
}

/// Held by a commit from before it inserts its record until it has set its outcome.
#[derive(Debug)]
pub struct CommitPass<'a> {
    gate: &'a CommitGate,
    parity: usize,
}

impl CommitGate {
    /// A gate without passes in use.
    pub fn new() -> CommitGate {
        CommitGate::default()
    }

    /// Takes a pass. Does not wait.
    pub fn enter(&self) -> CommitPass<'_> {
        let mut state = self.state.lock();
        let parity = (state.generation & 1) as usize;
        state.active[parity] += 1;
        CommitPass { gate: self, parity }
    }

    /// Waits until every pass taken before the call is returned.
    pub fn wait_for_earlier(&self) {
        let _only = self.waiter.lock();
        let mut state = self.state.lock();
        let parity = (state.generation & 1) as usize;
        state.generation += 1;
        while state.active[parity] != 0 {
            self.left.wait(&mut state);
        }
    }
}

impl Drop for CommitPass<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        state.active[self.parity] -= 1;
        if state.active[self.parity] == 0 {
            self.gate.left.notify_all();
        }
    }
}
