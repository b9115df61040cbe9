//! Least recently used: the measure of what recency alone gives.

use super::list::List;
use super::policy::{Policy, Reference, Setup};

pub(super) struct Lru {
    buffers: usize,
    pages: List,
    steps: u64,
}

impl Lru {
    pub(super) fn new(setup: &Setup<'_>) -> Lru {
        Lru { buffers: setup.buffers, pages: List::new(setup.pages), steps: 0 }
    }
}

impl Policy for Lru {
    fn refer(&mut self, reference: Reference) -> bool {
        if self.pages.renew(reference.page) {
            return true;
        }
        if self.pages.len() == self.buffers {
            self.steps += 1;
            self.pages.pop();
        }
        self.pages.push(reference.page);
        false
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn hit_writes(&self) -> &'static str {
        "list, lock"
    }
}
