//! Commits on their way.
//!
//! A commit record that lies before a checkpoint's redo pointer will never be replayed from that
//! checkpoint, so its `pg_xact` bit must be among the pages the checkpoint writes. Between
//! inserting the record and setting the bit a commit holds a pass; the checkpoint, once its redo
//! pointer stands, waits for the passes given out before. New commits are never held up: their
//! records lie behind the redo pointer.

use forebay_aio::sync::{Condvar, Mutex};

/// Counts passes in two generations, told apart by the parity of `generation`.
#[derive(Debug, Default)]
struct State {
    generation: u64,
    active: [u32; 2],
}

/// Gives out passes, and waits for those given out earlier.
#[derive(Debug, Default)]
pub struct CommitGate {
    state: Mutex<State>,
    left: Condvar,
    /// One waiter at a time, as two generations are all there are.
    waiter: Mutex<()>,
}

/// Held by a commit from before its record is inserted until its `pg_xact` bit is set.
#[derive(Debug)]
pub struct CommitPass<'a> {
    gate: &'a CommitGate,
    parity: usize,
}

impl CommitGate {
    /// A gate nobody is in.
    pub fn new() -> CommitGate {
        CommitGate::default()
    }

    /// Takes a pass; never waits for a checkpoint.
    pub fn enter(&self) -> CommitPass<'_> {
        let mut state = self.state.lock();
        let parity = (state.generation & 1) as usize;
        state.active[parity] += 1;
        CommitPass { gate: self, parity }
    }

    /// Returns once every pass taken before the call is given back.
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
