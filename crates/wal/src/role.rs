//! The writer's role: at most one backend writes the log at a time, the others wait until it covers them.
//!
//! ```text
//!   free ──acquire──▶ held ──release──▶ free                (nobody is left waiting)
//!                      ▲  └──release──▶ handed to a waiter  (its goal is not reached yet) ─┐
//!                      └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A waiter is woken once: because its goal is reached, because the log has failed, or to take over.

use std::collections::VecDeque;

use forebay_aio::sync::{Arc, Condvar, Mutex};
use forebay_format::Lsn;

/// What someone waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Everything before this is durable.
    Flushed(Lsn),
    /// Everything before this is written.
    Written(Lsn),
}

/// What `acquire` ends with.
pub(crate) enum Acquired<'a, T> {
    /// The goal was reached by another's work, or waiting is pointless; look again.
    Woken,
    /// The caller holds the role.
    Held(Held<'a, T>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Wait,
    Look,
    TakeOver,
}

#[derive(Debug)]
struct Waiter {
    goal: Goal,
    signal: Mutex<Signal>,
    woken: Condvar,
}

impl Waiter {
    fn wake(&self, signal: Signal) {
        *self.signal.lock() = signal;
        self.woken.notify_one();
    }
}

#[derive(Debug)]
struct State<T> {
    /// The role's tool; absent while somebody holds the role.
    tool: Option<T>,
    /// Set while the tool is there but promised to a waiter that was woken to take over.
    promised: bool,
    waiters: VecDeque<Arc<Waiter>>,
}

/// The role. `T` is what only its holder may use.
#[derive(Debug)]
pub(crate) struct Role<T> {
    state: Mutex<State<T>>,
}

impl<T> Role<T> {
    pub fn new(tool: T) -> Role<T> {
        Role { state: Mutex::new(State { tool: Some(tool), promised: false, waiters: VecDeque::new() }) }
    }

    /// Takes the role, or waits. `reached` is asked under the role's lock, so that no wake-up is missed.
    pub fn acquire(&self, goal: Goal, reached: impl Fn(Goal) -> bool) -> Acquired<'_, T> {
        let waiter = {
            let mut state = self.state.lock();
            if reached(goal) {
                return Acquired::Woken;
            }
            if !state.promised
                && let Some(tool) = state.tool.take()
            {
                return Acquired::Held(Held { role: self, tool: Some(tool) });
            }
            let waiter = Arc::new(Waiter { goal, signal: Mutex::new(Signal::Wait), woken: Condvar::new() });
            state.waiters.push_back(Arc::clone(&waiter));
            waiter
        };
        let mut signal = waiter.signal.lock();
        while *signal == Signal::Wait {
            waiter.woken.wait(&mut signal);
        }
        match *signal {
            Signal::TakeOver => {
                let mut state = self.state.lock();
                state.promised = false;
                let tool = state.tool.take();
                debug_assert!(tool.is_some(), "a promised role is there");
                Acquired::Held(Held { role: self, tool })
            }
            Signal::Wait | Signal::Look => Acquired::Woken,
        }
    }

    /// Wakes those whose goals are reached, while the role stays held.
    pub fn wake_reached(&self, reached: impl Fn(Goal) -> bool) {
        wake_all(take_reached(&mut self.state.lock().waiters, reached));
    }
}

fn take_reached(waiters: &mut VecDeque<Arc<Waiter>>, reached: impl Fn(Goal) -> bool) -> Vec<Arc<Waiter>> {
    let mut ready = Vec::new();
    waiters.retain(|waiter| {
        let done = reached(waiter.goal);
        if done {
            ready.push(Arc::clone(waiter));
        }
        !done
    });
    ready
}

fn wake_all(ready: Vec<Arc<Waiter>>) {
    for waiter in ready {
        waiter.wake(Signal::Look);
    }
}

/// The role, held. Dropped without [`Held::release`] (by a panic), it goes to the next waiter.
pub(crate) struct Held<'a, T> {
    role: &'a Role<T>,
    tool: Option<T>,
}

impl<T> Held<'_, T> {
    /// What only the holder may use.
    pub fn tool(&mut self) -> &mut T {
        match &mut self.tool {
            Some(tool) => tool,
            None => unreachable!("the tool is there until the role is given up"),
        }
    }

    /// Gives the role up: wakes those whose goals are reached, and hands it to one whose goal is not.
    pub fn release(mut self, reached: impl Fn(Goal) -> bool) {
        self.give_up(reached);
    }

    fn give_up(&mut self, reached: impl Fn(Goal) -> bool) {
        let Some(tool) = self.tool.take() else { return };
        let mut state = self.role.state.lock();
        state.tool = Some(tool);
        let ready = take_reached(&mut state.waiters, reached);
        let next = state.waiters.pop_front();
        state.promised = next.is_some();
        drop(state);
        if let Some(next) = next {
            next.wake(Signal::TakeOver);
        }
        wake_all(ready);
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.give_up(|_| false);
    }
}

#[cfg(test)]
mod tests {
    use forebay_aio::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Many threads want numbers covered; each holder covers a few, one of them panics as a holder.
    #[test]
    fn everyone_is_covered_and_the_holder_is_alone() {
        let role = Role::new(0u64);
        let covered = AtomicU64::new(0);
        let inside = AtomicU64::new(0);
        let reached = |goal: Goal| match goal {
            Goal::Flushed(lsn) | Goal::Written(lsn) => covered.load(Ordering::SeqCst) >= lsn.0,
        };
        forebay_aio::sync::thread::scope(|scope| {
            for thread in 0..8u64 {
                let (role, covered, inside) = (&role, &covered, &inside);
                scope.spawn(move || {
                    for n in 0..500u64 {
                        let goal = Goal::Flushed(Lsn(n * 8 + thread));
                        while !reached(goal) {
                            match role.acquire(goal, reached) {
                                Acquired::Woken => {}
                                Acquired::Held(mut held) => {
                                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                                    *held.tool() += 1;
                                    covered.fetch_add(3, Ordering::SeqCst);
                                    inside.fetch_sub(1, Ordering::SeqCst);
                                    if n % 7 == 0 {
                                        drop(held);
                                    } else {
                                        held.release(reached);
                                    }
                                }
                            }
                        }
                    }
                });
            }
        });
        assert!(covered.load(Ordering::SeqCst) >= 499 * 8 + 7);
        assert!(role.state.lock().waiters.is_empty());
    }
}
