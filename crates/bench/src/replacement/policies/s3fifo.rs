//! S3-FIFO (Yang et al., SOSP 2023): new pages go through a small queue of a tenth of the pool.
//! Pages that were hit there go on to the main queue. The others leave, and a ghost queue keeps
//! their names. A page whose name it still has goes to the main queue at once. The main queue gives
//! pages that were hit another turn.

use super::list::List;
use super::policy::{Policy, Reference, Setup};

/// The limit of the count of hits.
const MOST_HITS: u8 = 3;

pub(super) struct S3Fifo {
    buffers: usize,
    small_size: usize,
    small: List,
    main: List,
    ghosts: List,
    hits: Vec<u8>,
    steps: u64,
}

impl S3Fifo {
    pub(super) fn new(setup: &Setup<'_>) -> S3Fifo {
        S3Fifo {
            buffers: setup.buffers,
            small_size: (setup.buffers / 10).max(1),
            small: List::new(setup.pages),
            main: List::new(setup.pages),
            ghosts: List::new(setup.pages),
            hits: vec![0; setup.pages],
            steps: 0,
        }
    }

    fn evict(&mut self) {
        loop {
            self.steps += 1;
            if self.small.len() >= self.small_size || self.main.len() == 0 {
                let Some(page) = self.small.pop() else { return };
                if self.hits[page as usize] > 1 {
                    self.hits[page as usize] = 0;
                    self.main.push(page);
                    continue;
                }
                if self.ghosts.len() >= self.buffers - self.small_size {
                    self.ghosts.pop();
                }
                self.ghosts.push(page);
                return;
            }
            let Some(page) = self.main.pop() else { return };
            if self.hits[page as usize] == 0 {
                return;
            }
            self.hits[page as usize] -= 1;
            self.main.push(page);
        }
    }
}

impl Policy for S3Fifo {
    fn refer(&mut self, reference: Reference) -> bool {
        let page = reference.page;
        if self.small.contains(page) || self.main.contains(page) {
            let hits = &mut self.hits[page as usize];
            *hits = (*hits + 1).min(MOST_HITS);
            return true;
        }
        if self.small.len() + self.main.len() >= self.buffers {
            self.evict();
        }
        self.hits[page as usize] = 0;
        if self.ghosts.remove(page) {
            self.main.push(page)
        } else {
            self.small.push(page)
        }
        false
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn hit_writes(&self) -> &'static str {
        "-"
    }
}
