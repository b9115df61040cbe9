//! 2Q (Johnson and Shasha, VLDB 1994): new pages wait in a queue of a quarter of the pool, where
//! hits don't count. The names of those that left it stay in a ghost queue of half the pool. A page
//! that is asked for again within that goes to a list in the order of use.

use super::list::List;
use super::policy::{Policy, Reference, Setup};

pub(super) struct TwoQueue {
    buffers: usize,
    new: List,
    ghosts: List,
    used: List,
    steps: u64,
}

impl TwoQueue {
    pub(super) fn new(setup: &Setup<'_>) -> TwoQueue {
        TwoQueue {
            buffers: setup.buffers,
            new: List::new(setup.pages),
            ghosts: List::new(setup.pages),
            used: List::new(setup.pages),
            steps: 0,
        }
    }

    fn evict(&mut self) {
        self.steps += 1;
        if self.new.len() < (self.buffers / 4).max(1) && self.used.pop().is_some() {
            return;
        }
        let Some(page) = self.new.pop() else { return };
        if self.ghosts.len() >= (self.buffers / 2).max(1) {
            self.ghosts.pop();
        }
        self.ghosts.push(page);
    }
}

impl Policy for TwoQueue {
    fn refer(&mut self, reference: Reference) -> bool {
        let page = reference.page;
        if self.used.renew(page) || self.new.contains(page) {
            return true;
        }
        if self.new.len() + self.used.len() >= self.buffers {
            self.evict();
        }
        if self.ghosts.remove(page) {
            self.used.push(page)
        } else {
            self.new.push(page)
        }
        false
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn hit_writes(&self) -> &'static str {
        "list, lock"
    }
}
