//! SIEVE (Zhang et al., NSDI 2024): a queue in the order of arrival, a bit for a hit, and a hand
//! that goes from the oldest to the newest page and evicts the first one without the bit. Pages
//! that it spares stay where they are.

use super::list::List;
use super::policy::{Policy, Reference, Setup};

pub(super) struct Sieve {
    buffers: usize,
    queue: List,
    visited: Vec<bool>,
    hand: Option<u32>,
    steps: u64,
}

impl Sieve {
    pub(super) fn new(setup: &Setup<'_>) -> Sieve {
        Sieve {
            buffers: setup.buffers,
            queue: List::new(setup.pages),
            visited: vec![false; setup.pages],
            hand: None,
            steps: 0,
        }
    }

    fn evict(&mut self) {
        let mut at = self.hand.or(self.queue.tail());
        while let Some(page) = at {
            self.steps += 1;
            let next = self.queue.newer(page);
            if !std::mem::take(&mut self.visited[page as usize]) {
                self.queue.remove(page);
                self.hand = next;
                return;
            }
            at = next.or(self.queue.tail());
        }
    }
}

impl Policy for Sieve {
    fn refer(&mut self, reference: Reference) -> bool {
        let page = reference.page;
        if self.queue.contains(page) {
            self.visited[page as usize] = true;
            return true;
        }
        if self.queue.len() == self.buffers {
            self.evict();
        }
        self.visited[page as usize] = false;
        self.queue.push(page);
        false
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn hit_writes(&self) -> &'static str {
        "-"
    }
}
