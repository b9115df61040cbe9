//! PostgreSQL's clock sweep, which the pool had before: a hit raises a usage count up to 5, the
//! hand lowers it, and evicts a page whose count is 0. With rings, bulk accesses of a backend use a
//! few buffers over and over again, and raise the count to 1 only.

use std::collections::HashMap;

use forebay_storage::AccessKind;

use super::policy::{Policy, Reference, Setup};

const NONE: u32 = u32::MAX;
const MOST_USES: u8 = 5;

#[derive(Default)]
struct Ring {
    buffers: Vec<u32>,
    next: usize,
}

pub(super) struct Clock {
    /// The buffer of each page.
    places: Vec<u32>,
    /// The page and the usage count of each buffer.
    buffers: Vec<(u32, u8)>,
    hand: usize,
    rings: Option<HashMap<(u16, AccessKind), Ring>>,
    steps: u64,
}

impl Clock {
    pub(super) fn new(setup: &Setup<'_>, rings: bool) -> Clock {
        Clock {
            places: vec![NONE; setup.pages],
            buffers: vec![(NONE, 0); setup.buffers],
            hand: 0,
            rings: rings.then(HashMap::new),
            steps: 0,
        }
    }

    /// The size of a ring; None without one. That of a scan has room for the look-ahead of 16 reads
    /// of 16 blocks.
    fn ring_size(&self, access: AccessKind) -> Option<usize> {
        self.rings.as_ref()?;
        let most = match access {
            AccessKind::Normal => return None,
            AccessKind::BulkRead => 32 + 256,
            AccessKind::BulkWrite => 2048,
            AccessKind::Vacuum => 256,
        };
        Some(most.min(self.buffers.len() / 8).max(1))
    }

    fn sweep(&mut self) -> u32 {
        loop {
            self.steps += 1;
            let at = self.hand;
            self.hand = (at + 1) % self.buffers.len();
            let uses = &mut self.buffers[at].1;
            if *uses == 0 {
                return at as u32;
            }
            *uses -= 1;
        }
    }

    /// The buffer for a new page of an access with a ring.
    fn ring_buffer(&mut self, key: (u16, AccessKind), size: usize) -> u32 {
        let ring = self.rings.get_or_insert_default().entry(key).or_default();
        let turn = ring.next;
        ring.next = (turn + 1) % size;
        let reused = ring.buffers.get(turn).copied().filter(|&b| self.buffers[b as usize].1 <= 1);
        if let Some(buffer) = reused {
            self.steps += 1;
            return buffer;
        }
        let buffer = self.sweep();
        let ring = self.rings.get_or_insert_default().entry(key).or_default();
        match ring.buffers.get_mut(turn) {
            Some(place) => *place = buffer,
            None => ring.buffers.push(buffer),
        }
        buffer
    }
}

impl Policy for Clock {
    fn refer(&mut self, reference: Reference) -> bool {
        let Reference { page, backend, access } = reference;
        let ring = self.ring_size(access);
        let place = self.places[page as usize];
        if place != NONE {
            let most = if ring.is_some() { 1 } else { MOST_USES };
            let uses = &mut self.buffers[place as usize].1;
            *uses = (*uses).max((*uses + 1).min(most));
            return true;
        }
        let buffer = match ring {
            Some(size) => self.ring_buffer((backend, access), size),
            None => self.sweep(),
        };
        let (old, _) = std::mem::replace(&mut self.buffers[buffer as usize], (page, 1));
        if old != NONE {
            self.places[old as usize] = NONE;
        }
        self.places[page as usize] = buffer;
        false
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn hit_writes(&self) -> &'static str {
        "-"
    }
}
