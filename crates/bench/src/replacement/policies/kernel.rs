//! Linux's two lists of the page cache: new pages are inactive; a second reference makes them
//! active. The inactive list is reclaimed from its end, and the active one is cut to the other's
//! size. A page that comes back soon enough to have stayed, had the active pages' memory been used
//! for inactive ones, becomes active at once (the refault distance).

use super::list::List;
use super::policy::{Policy, Reference, Setup};

const NEVER: u64 = u64::MAX;

pub(super) struct TwoLists {
    buffers: usize,
    inactive: List,
    active: List,
    referenced: Vec<bool>,
    /// Evictions and activations so far.
    age: u64,
    /// The age at which each page was evicted.
    evicted: Vec<u64>,
    steps: u64,
}

impl TwoLists {
    pub(super) fn new(setup: &Setup<'_>) -> TwoLists {
        TwoLists {
            buffers: setup.buffers,
            inactive: List::new(setup.pages),
            active: List::new(setup.pages),
            referenced: vec![false; setup.pages],
            age: 0,
            evicted: vec![NEVER; setup.pages],
            steps: 0,
        }
    }

    fn activate(&mut self, page: u32) {
        self.inactive.remove(page);
        self.active.push(page);
        self.age += 1;
    }

    fn evict(&mut self) {
        while self.active.len() > self.inactive.len() {
            self.steps += 1;
            let Some(page) = self.active.pop() else { break };
            self.referenced[page as usize] = false;
            self.inactive.push(page);
        }
        self.steps += 1;
        if let Some(page) = self.inactive.pop() {
            self.evicted[page as usize] = self.age;
            self.age += 1;
        }
    }
}

impl Policy for TwoLists {
    fn refer(&mut self, reference: Reference) -> bool {
        let page = reference.page;
        if self.active.contains(page) {
            self.referenced[page as usize] = true;
            return true;
        }
        if self.inactive.contains(page) {
            if std::mem::replace(&mut self.referenced[page as usize], true) {
                self.referenced[page as usize] = false;
                self.activate(page);
            }
            return true;
        }
        if self.inactive.len() + self.active.len() >= self.buffers {
            self.evict();
        }
        let left = std::mem::replace(&mut self.evicted[page as usize], NEVER);
        self.referenced[page as usize] = true;
        if left != NEVER && self.age - left <= self.active.len() as u64 {
            self.activate(page);
        } else {
            self.inactive.push(page);
        }
        false
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn hit_writes(&self) -> &'static str {
        "bit, at times list, lock"
    }
}
