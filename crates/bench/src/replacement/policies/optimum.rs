//! Belady's optimum: evicts the page that is needed last. It gives the most hits that are possible
//! where each page that is asked for must have a buffer.

use std::collections::{BTreeSet, HashMap};

use super::policy::{Policy, Reference, Setup};

const NEVER: u32 = u32::MAX;

pub(super) struct Optimum {
    buffers: usize,
    /// For each reference, the position of the page's next one.
    next: Vec<u32>,
    at: usize,
    /// The pages in memory by their next use.
    by_next: BTreeSet<(u32, u32)>,
    /// The next use of each page in memory.
    resident: HashMap<u32, u32>,
}

impl Optimum {
    pub(super) fn new(setup: &Setup<'_>) -> Optimum {
        let mut next = vec![NEVER; setup.trace.len()];
        let mut later = vec![NEVER; setup.pages];
        for (at, reference) in setup.trace.iter().enumerate().rev() {
            next[at] = std::mem::replace(&mut later[reference.page as usize], at as u32);
        }
        let (by_next, resident) = (BTreeSet::new(), HashMap::new());
        Optimum { buffers: setup.buffers, next, at: 0, by_next, resident }
    }
}

impl Policy for Optimum {
    fn refer(&mut self, reference: Reference) -> bool {
        let page = reference.page;
        let next = self.next[self.at];
        self.at += 1;
        let known = self.resident.insert(page, next);
        if let Some(now) = known {
            self.by_next.remove(&(now, page));
        } else if self.by_next.len() == self.buffers
            && let Some((_, victim)) = self.by_next.pop_last()
        {
            self.resident.remove(&victim);
        }
        self.by_next.insert((next, page));
        known.is_some()
    }

    fn steps(&self) -> u64 {
        0
    }

    fn hit_writes(&self) -> &'static str {
        "-"
    }
}
