//! A clock that admits by reuse distances, made for a buffer pool: what LIRS knows, from an epoch
//! in each buffer's state word and a table of ghosts, without lists.
//!
//! The buffer pool does the same (`victim` there); a test compares them reference by reference.
//!
//! Time is counted in misses (a hit counts a 64th), in epochs of a 64th of the pool. A page's age
//! is the time since its last use; its distance is that between its last two. Most of the pool is a
//! clock of pages. A page that is read first goes through a queue of a 16th of the pool, unless the
//! hand finds a page on the clock, within a few steps, that gives way to it:
//!
//! | the page on the clock was | gives way to a page whose distance is | or to one without, if |
//! |---|---|---|
//! | not used since it came | any; from a scan: lower than its age | from a scan: half a pool old; else always |
//! | used by bulk accesses only | lower than 16 times its age; from a scan: than its age | a quarter of a pool old; from a scan: one pool |
//! | used by others | lower than its age; from a scan: than a 16th of it | 16 pools old; from a scan: 64 |
//!
//! Vacuum and loads of new rows get only what is 16 pools old, or a place in the queue. A ghost or
//! a second use in the queue tells a page's distance. So a scan of new pages uses what is idle,
//! pages of a loop don't replace each other, and pages in use stay, whatever is scanned. Uses
//! within one epoch count once: they belong together.

use forebay_storage::AccessKind;

use super::list::List;
use super::policy::{Policy, Reference, Setup};

/// Epochs in which as many misses happen as there are buffers.
const EPOCHS: u64 = 64;
/// The age that stands for all higher ones: what fits into twelve bits.
const OLD: u64 = 64 * EPOCHS - 1;
/// The age from which on a page is idle.
const IDLE: u64 = 16 * EPOCHS;
/// The age up to which a page that scans use again is kept from others.
const RECENT: u64 = EPOCHS / 4;
/// Pages of a scan that cost as much as one that somebody waits for.
const SCANNED: u64 = 16;
/// Uses that take as long as a miss.
const USES: u64 = 64;
/// Ghosts for each buffer.
const GHOSTS: usize = 4;
/// Pages that the hand looks at for one new page.
const WINDOW: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Out,
    /// In the queue since this epoch.
    Queued(u64),
    /// On the clock, and not used since it came.
    Unused,
    /// On the clock, and used again, by bulk accesses.
    Reused,
    /// On the clock, and used again, by others too.
    Valued,
}

/// A page that wants a place on the clock.
#[derive(Clone, Copy)]
struct Candidate {
    page: u32,
    distance: Option<u64>,
    access: AccessKind,
}

pub(super) struct Reuse {
    queue_size: usize,
    clock_size: usize,
    states: Vec<State>,
    /// The epoch of each page's last use; of pages that are not in memory, while they are ghosts.
    last: Vec<u64>,
    queue: List,
    clock: Vec<u32>,
    hand: usize,
    ghosts: List,
    /// What each page's last use was for.
    accesses: Vec<AccessKind>,
    time: u64,
    steps: u64,
}

impl Reuse {
    pub(super) fn new(setup: &Setup<'_>) -> Reuse {
        let queue_size = (setup.buffers / 16).max(1);
        Reuse {
            queue_size,
            clock_size: setup.buffers - queue_size,
            states: vec![State::Out; setup.pages],
            last: vec![0; setup.pages],
            queue: List::new(setup.pages),
            clock: Vec::new(),
            hand: 0,
            ghosts: List::new(setup.pages),
            accesses: vec![AccessKind::Normal; setup.pages],
            time: 0,
            steps: 0,
        }
    }

    fn epoch(&self) -> u64 {
        self.time * EPOCHS / USES / (self.queue_size + self.clock_size) as u64
    }

    fn age(&self, page: u32) -> u64 {
        (self.epoch() - self.last[page as usize]).min(OLD)
    }

    /// Forgets all of a page but its name and its last use.
    fn evict(&mut self, page: u32) {
        self.states[page as usize] = State::Out;
        if self.ghosts.len() == GHOSTS * (self.queue_size + self.clock_size) {
            self.ghosts.pop();
        }
        self.ghosts.push(page);
    }

    /// Whether a page on the clock gives way.
    fn gives_way(&self, page: u32, to: Candidate) -> bool {
        let (age, state) = (self.age(page), self.states[page as usize]);
        let scan = match to.access {
            AccessKind::Normal => false,
            AccessKind::BulkRead => true,
            AccessKind::BulkWrite | AccessKind::Vacuum => return age >= IDLE,
        };
        match (to.distance, state) {
            (Some(distance), State::Valued) if scan => age == OLD || age / SCANNED > distance,
            (_, State::Unused) if !scan => true,
            (Some(distance), State::Reused) if !scan => age > (distance / SCANNED).min(RECENT),
            (Some(distance), _) => age > distance,
            (None, State::Valued) => age >= if scan { OLD } else { IDLE },
            (None, State::Reused) => age >= if scan { EPOCHS } else { RECENT },
            (None, _) => age >= EPOCHS / 2,
        }
    }

    /// Finds the clock's place for a page: that of the oldest one that gives way.
    fn place(&mut self, candidate: Candidate) -> Option<usize> {
        let mut best = None;
        for step in 0..WINDOW.min(self.clock.len()) {
            self.steps += 1;
            let at = (self.hand + step) % self.clock.len();
            let page = self.clock[at];
            let key = (self.states[page as usize] == State::Unused, self.age(page));
            if self.gives_way(page, candidate) && best.is_none_or(|(_, found)| found < key) {
                best = Some((at, key));
            }
        }
        let at = best.map(|(at, _)| at);
        self.hand = (at.map_or(self.hand + WINDOW, |at| at + 1)) % self.clock.len().max(1);
        at
    }

    /// Puts a page on the clock if there is a place for it.
    fn admit(&mut self, candidate: Candidate) -> bool {
        let page = candidate.page;
        if self.clock.len() < self.clock_size {
            self.clock.push(page);
        } else {
            let Some(at) = self.place(candidate) else { return false };
            let old = std::mem::replace(&mut self.clock[at], page);
            self.evict(old);
        }
        self.states[page as usize] = match candidate {
            Candidate { distance: None, .. } => State::Unused,
            Candidate { access: AccessKind::Normal, .. } => State::Valued,
            _ => State::Reused,
        };
        true
    }

    /// Makes room in the queue: its oldest page goes to the clock if it was used again, or leaves.
    fn shorten_queue(&mut self) {
        while self.queue.len() >= self.queue_size {
            let Some(page) = self.queue.pop() else { return };
            let State::Queued(since) = self.states[page as usize] else { return };
            let distance = self.last[page as usize] - since;
            let access = self.accesses[page as usize];
            let candidate = Candidate { page, distance: Some(distance), access };
            if distance == 0 || !self.admit(candidate) {
                self.evict(page);
            }
        }
    }
}

impl Policy for Reuse {
    fn refer(&mut self, reference: Reference) -> bool {
        let page = reference.page;
        let access = reference.access;
        self.time += 1;
        let now = self.epoch();
        let last = std::mem::replace(&mut self.last[page as usize], now);
        self.accesses[page as usize] = access;
        match &mut self.states[page as usize] {
            State::Out => {}
            State::Queued(_) => return true,
            state => {
                if last < now && *state != State::Valued {
                    let normal = access == AccessKind::Normal;
                    *state = if normal { State::Valued } else { State::Reused };
                }
                return true;
            }
        }
        self.time += USES;
        let distance = self.ghosts.remove(page).then(|| (now - last).min(OLD));
        // A page leaves only when all buffers have pages.
        let clock_is_full = self.clock.len() == self.clock_size;
        let to_queue = clock_is_full && self.queue.len() < self.queue_size;
        if !to_queue && self.admit(Candidate { page, distance, access }) {
            return false;
        }
        self.shorten_queue();
        self.states[page as usize] = State::Queued(now);
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
