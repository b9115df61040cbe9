//! LIRS (Jiang and Zhang, SIGMETRICS 2002): pages are ranked by the time between their last two
//! uses. All but a hundredth of the pool is for pages with a short one (LIR). A stack in the order
//! of use, down to the LIR page that was used longest ago, tells whose last interval was shorter;
//! pages that are no longer in memory keep their places on it.

use super::list::List;
use super::policy::{Policy, Reference, Setup};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not in memory.
    Out,
    /// Short intervals.
    Lir,
    /// In memory until others need its buffer.
    Hir,
}

pub(super) struct Lirs {
    buffers: usize,
    lir_size: usize,
    lir: usize,
    states: Vec<State>,
    stack: List,
    /// Pages in memory that are not LIR.
    queue: List,
    /// Pages on the stack that are not in memory. There are at most twice as many as buffers.
    ghosts: List,
    steps: u64,
}

impl Lirs {
    pub(super) fn new(setup: &Setup<'_>) -> Lirs {
        let hir = (setup.buffers / 100).max(1);
        Lirs {
            buffers: setup.buffers,
            lir_size: setup.buffers.saturating_sub(hir),
            lir: 0,
            states: vec![State::Out; setup.pages],
            stack: List::new(setup.pages),
            queue: List::new(setup.pages),
            ghosts: List::new(setup.pages),
            steps: 0,
        }
    }

    /// Takes pages off the stack down to the next LIR page.
    fn prune(&mut self) {
        while let Some(page) = self.stack.tail() {
            if self.states[page as usize] == State::Lir {
                return;
            }
            self.steps += 1;
            self.stack.pop();
            self.ghosts.remove(page);
        }
    }

    fn top(&mut self, page: u32) {
        if !self.stack.renew(page) {
            self.stack.push(page);
        }
    }

    /// Makes a page LIR, and the LIR page that was used longest ago no longer.
    fn promote(&mut self, page: u32) {
        self.states[page as usize] = State::Lir;
        self.lir += 1;
        self.top(page);
        if self.lir > self.lir_size {
            self.prune();
            if let Some(old) = self.stack.pop() {
                self.states[old as usize] = State::Hir;
                self.lir -= 1;
                self.queue.push(old);
            }
        }
        self.prune();
    }

    fn evict(&mut self) {
        self.steps += 1;
        let Some(page) = self.queue.pop() else { return };
        self.states[page as usize] = State::Out;
        if !self.stack.contains(page) {
            return;
        }
        self.ghosts.push(page);
        if self.ghosts.len() > 2 * self.buffers
            && let Some(oldest) = self.ghosts.pop()
        {
            self.stack.remove(oldest);
        }
    }
}

impl Policy for Lirs {
    fn refer(&mut self, reference: Reference) -> bool {
        let page = reference.page;
        match self.states[page as usize] {
            State::Lir => {
                self.top(page);
                self.prune();
                return true;
            }
            State::Hir => {
                if self.stack.contains(page) {
                    self.queue.remove(page);
                    self.promote(page);
                } else {
                    self.top(page);
                    self.queue.renew(page);
                }
                return true;
            }
            State::Out => {}
        }
        if self.lir + self.queue.len() >= self.buffers {
            self.evict();
        }
        let known = self.ghosts.remove(page);
        if known || self.lir < self.lir_size {
            self.promote(page);
        } else {
            self.states[page as usize] = State::Hir;
            self.top(page);
            self.queue.push(page);
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
