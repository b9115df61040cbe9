//! The extension queue: backends that extend a fork at the same time are served together.
//!
//! The first backend becomes the leader. It waits for the extension lock, takes the requests of all
//! backends that have queued by then, and serves them in one go. Meanwhile the next ones queue.
//! Each waiter sleeps on its own condition variable until it has its answer or becomes the leader.
//! So one backend at a time waits for the lock, the file grows in a few large steps, and each
//! waiter is woken once.

use forebay_aio::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;

/// The backends that wait to extend one fork, each with a request `Q` to be answered by an `A`.
pub(crate) struct ExtensionQueue<Q, A> {
    waiting: Mutex<Waiting<Q, A>>,
}

struct Waiting<Q, A> {
    /// A leader is at work.
    has_leader: bool,
    requests: VecDeque<(Q, Arc<Waiter<Q, A>>)>,
}

/// Where one backend sleeps.
struct Waiter<Q, A> {
    wakeup: Mutex<Wakeup<Q, A>>,
    woken: Condvar,
}

/// Why a waiter was woken.
enum Wakeup<Q, A> {
    /// Not woken yet.
    Pending,
    /// It is the leader now, and gets its request back.
    Lead(Q),
    Answer(A),
    /// The leader that had its request panicked.
    LeaderPanicked,
}

/// What became of a request.
pub(crate) enum Turn<'a, Q, A> {
    /// The caller is the leader.
    Lead(Leader<'a, Q, A>),
    /// Another leader has served the request.
    Answer(A),
}

/// The leader's role. Dropping it passes the role on.
pub(crate) struct Leader<'a, Q, A> {
    queue: &'a ExtensionQueue<Q, A>,
    /// The leader's own request, until it is gathered.
    own: Option<Q>,
    /// The backends whose requests were gathered.
    waiters: Vec<Arc<Waiter<Q, A>>>,
}

impl<Q, A> Default for ExtensionQueue<Q, A> {
    fn default() -> Self {
        let waiting = Waiting { has_leader: false, requests: VecDeque::new() };
        ExtensionQueue { waiting: Mutex::new(waiting) }
    }
}

impl<Q, A> ExtensionQueue<Q, A> {
    /// Queues a request. Calls `before_waiting` if there is a leader already. The caller has no
    /// staged I/O.
    pub(crate) fn enter(&self, request: Q, before_waiting: impl FnOnce()) -> Turn<'_, Q, A> {
        let waiter = {
            let mut waiting = self.waiting.lock();
            if !waiting.has_leader {
                waiting.has_leader = true;
                return Turn::Lead(self.leader(request));
            }
            let waiter =
                Arc::new(Waiter { wakeup: Mutex::new(Wakeup::Pending), woken: Condvar::new() });
            waiting.requests.push_back((request, Arc::clone(&waiter)));
            // Under the lock, so that the leader cannot serve this request before.
            before_waiting();
            waiter
        };
        match waiter.sleep() {
            Wakeup::Lead(request) => Turn::Lead(self.leader(request)),
            Wakeup::Answer(answer) => Turn::Answer(answer),
            Wakeup::Pending => unreachable!("a waiter sleeps until it is woken"),
            Wakeup::LeaderPanicked => panic!("the backend that extended for this one panicked"),
        }
    }

    fn leader(&self, request: Q) -> Leader<'_, Q, A> {
        Leader { queue: self, own: Some(request), waiters: Vec::new() }
    }
}

impl<Q, A> Waiter<Q, A> {
    fn sleep(&self) -> Wakeup<Q, A> {
        let mut wakeup = self.wakeup.lock();
        while matches!(*wakeup, Wakeup::Pending) {
            self.woken.wait(&mut wakeup);
        }
        std::mem::replace(&mut wakeup, Wakeup::Pending)
    }

    fn wake(&self, with: Wakeup<Q, A>) {
        *self.wakeup.lock() = with;
        self.woken.notify_one();
    }
}

impl<Q, A> Leader<'_, Q, A> {
    /// Takes all requests that are queued, the leader's own first.
    pub(crate) fn gather(&mut self) -> Vec<Q> {
        let mut requests: Vec<Q> = self.own.take().into_iter().collect();
        for (request, waiter) in self.queue.waiting.lock().requests.drain(..) {
            requests.push(request);
            self.waiters.push(waiter);
        }
        requests
    }

    /// Answers the gathered requests, in their order, and returns the leader's own answer.
    pub(crate) fn answer(mut self, answers: Vec<A>) -> A {
        assert_eq!(answers.len(), 1 + self.waiters.len(), "an answer for each request");
        let mut answers = answers.into_iter();
        let own = answers.next().expect("there is one at least");
        for (waiter, answer) in self.waiters.drain(..).zip(answers) {
            waiter.wake(Wakeup::Answer(answer));
        }
        own
    }
}

impl<Q, A> Drop for Leader<'_, Q, A> {
    /// Makes the next waiter the leader. Requests without an answer are those of a panic.
    fn drop(&mut self) {
        self.waiters.drain(..).for_each(|waiter| waiter.wake(Wakeup::LeaderPanicked));
        let mut waiting = self.queue.waiting.lock();
        match waiting.requests.pop_front() {
            Some((request, waiter)) => waiter.wake(Wakeup::Lead(request)),
            None => waiting.has_leader = false,
        }
    }
}
