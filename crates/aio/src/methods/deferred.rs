//! A method for tests: it holds every submitted I/O until a thread waits, polls or releases, and
//! then executes and completes what it holds in random order.
//!
//! So tests take each path that resumes after a wait. Code fails that counts on an I/O being fast,
//! in order, or finished although nobody waits for it:
//!
//! - Execution and completion are two steps, and steps of other I/Os come between them.
//! - A thread that waits for one I/O may first execute and complete any number of others, its own
//!   and those of other backends.
//! - With [`Deferred::cutting`], some transfers are short, and some attempts never run, as if the
//!   kernel had cancelled them. The thread that finishes the I/O continues it.
//!
//! The choices follow from the seed, and from how threads interleave.
//!
//! A waiter executes and completes its I/O in its own thread, unless another thread is doing so.
//! Then it sleeps until that thread is done or has put the I/O back.

use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::sync::{Arc, Mutex, OnceLock};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Errno;
use crate::handle::Word;
use crate::memory::IO_ALIGN;
use crate::method::Method;
use crate::table::HandleTable;

/// The progress of a held I/O.
#[derive(Clone, Copy)]
enum Step {
    /// Nothing has been done.
    Submitted,
    /// It was executed with this result, and no thread knows.
    Executed(Result<usize, Errno>),
    /// A thread is executing it.
    InHand,
}

struct Held {
    index: u32,
    step: Step,
}

struct Queue {
    random: u64,
    held: Vec<Held>,
}

struct Shared {
    cuts: bool,
    queue: Mutex<Queue>,
    /// How often an I/O was put back after its execution. Its waiters then check again.
    put_back: AtomicU64,
    table: OnceLock<Arc<HandleTable>>,
}

/// The method, which the test controls. A clone is the same method.
#[derive(Clone)]
pub struct Deferred(Arc<Shared>);

impl Queue {
    /// True once in `n` times. The generator is SplitMix64.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn below(&mut self, n: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn find(&self, index: u32) -> Option<usize> {
        self.held.iter().position(|h| h.index == index)
    }

    /// A random I/O that no thread has taken.
    fn any(&mut self) -> Option<usize> {
        let free = |h: &Held| !matches!(h.step, Step::InHand);
        let n = self.held.iter().filter(|h| free(h)).count();
        let nth = if n == 0 { return None } else { self.below(n) };
        self.held.iter().enumerate().filter(|(_, h)| free(h)).nth(nth).map(|(at, _)| at)
    }

    /// Takes an I/O. One that was executed is no longer held: this thread will complete it.
    fn take(&mut self, at: usize) -> (u32, Step) {
        let step = std::mem::replace(&mut self.held[at].step, Step::InHand);
        let index = self.held[at].index;
        if let Step::Executed(_) = step {
            self.held.swap_remove(at);
        }
        (index, step)
    }
}

impl Deferred {
    /// A method that makes its choices from `seed`.
    pub fn new(seed: u64) -> Deferred {
        Deferred::made(seed, false)
    }

    /// A method that also makes transfers short, and loses attempts.
    pub fn cutting(seed: u64) -> Deferred {
        Deferred::made(seed, true)
    }

    fn made(seed: u64, cuts: bool) -> Deferred {
        Deferred(Arc::new(Shared {
            cuts,
            queue: Mutex::new(Queue { random: seed, held: Vec::new() }),
            put_back: AtomicU64::new(0),
            table: OnceLock::new(),
        }))
    }

    /// The method for [`Aio::with_method`](crate::Aio::with_method): `|table|
    /// Ok(deferred.over(table))`. May be called once.
    pub fn over(&self, table: Arc<HandleTable>) -> Box<dyn Method> {
        assert!(self.0.table.set(table).is_ok(), "a deferring method serves one Aio");
        Box::new(self.clone())
    }

    /// How many I/Os are submitted and not completed.
    pub fn held(&self) -> usize {
        self.0.queue.lock().held.len()
    }

    /// Executes and completes everything that is held, in random order, except what other threads
    /// have taken.
    pub fn release(&self) {
        while self.step() {}
    }

    /// Executes or completes a random I/O. False if there is none.
    pub fn step(&self) -> bool {
        let Some(table) = self.0.table.get() else { return false };
        let taken = {
            let mut q = self.0.queue.lock();
            q.any().map(|at| q.take(at))
        };
        taken.map(|(index, step)| self.carry_on(table, index, step)).is_some()
    }

    /// Takes an I/O one or two steps further.
    fn carry_on(&self, table: &HandleTable, index: u32, step: Step) {
        let result = match step {
            Step::InHand => unreachable!("nobody takes what another thread has in hand"),
            Step::Executed(result) => result,
            Step::Submitted => {
                let result = self.attempt(table, index);
                let mut q = self.0.queue.lock();
                let at = q.find(index).expect("what is in hand stays held");
                if q.one_in(2) {
                    q.held[at].step = Step::Executed(result);
                    self.0.put_back.fetch_add(1, SeqCst);
                    drop(q);
                    table.nudge(index);
                    return;
                }
                q.held.swap_remove(at);
                result
            }
        };
        table.executed(index, result);
        table.finish(index);
    }

    /// Makes one attempt; with cuts, sometimes only at a part, and sometimes none.
    fn attempt(&self, table: &HandleTable, index: u32) -> Result<usize, Errno> {
        let mut most = usize::MAX;
        if self.0.cuts {
            let mut q = self.0.queue.lock();
            most = match q.below(16) {
                0 => return Err(Errno::CANCELED),
                1..4 => (1 + q.below(4)) * IO_ALIGN,
                _ => usize::MAX,
            };
        }
        // A panic must not leave the I/O taken forever.
        catch_unwind(AssertUnwindSafe(|| table.attempt(index, most))).unwrap_or_else(|_| {
            tracing::error!(index, "the execution of an I/O panicked");
            Err(Errno::IO)
        })
    }
}

impl Method for Deferred {
    fn name(&self) -> &'static str {
        "deferred"
    }

    fn submit(&self, table: &HandleTable, _slot: u32, staged: &[u32], _in_flight: usize) {
        let mut q = self.0.queue.lock();
        for &index in staged {
            table.begin(index);
            q.held.push(Held { index, step: Step::Submitted });
        }
    }

    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        while table.word(index) == seen {
            let mut q = self.0.queue.lock();
            let Some(own) = q.find(index) else {
                drop(q);
                return table.wait_change(index, seen); // another thread is completing it
            };
            if let Step::InHand = q.held[own].step {
                let before = self.0.put_back.load(SeqCst);
                drop(q);
                table.wait_change_while(index, seen, || self.0.put_back.load(SeqCst) == before);
                continue;
            }
            let at = if q.one_in(3) { own } else { q.any().expect("its own is free") };
            let (taken, step) = q.take(at);
            drop(q);
            self.carry_on(table, taken, step);
        }
    }

    fn poll(&self, _table: &HandleTable, _index: u32) {
        if self.0.queue.lock().one_in(2) {
            self.step();
        }
    }
}
