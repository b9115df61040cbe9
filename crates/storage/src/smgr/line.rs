//! Those who want a fork to grow at the same time, served together.
//!
//! Who comes first leads: it waits for the extension lock, takes up everyone who has lined up by
//! then, and does the work for all of them at once. Meanwhile the next ones line up. They sleep,
//! each in a seat of its own, until they have their answer, or until the lead is theirs. So however
//! many there are, the lock has one who waits for it, the file system grows the file a few times,
//! and nobody is woken for nothing.

use forebay_aio::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;

/// The line before one fork.
pub(crate) struct Line<Q, A> {
    state: Mutex<State<Q, A>>,
}

struct State<Q, A> {
    /// Someone leads.
    led: bool,
    waiting: VecDeque<(Q, Arc<Seat<Q, A>>)>,
}

/// Where one of them sleeps.
struct Seat<Q, A> {
    call: Mutex<Call<Q, A>>,
    called: Condvar,
}

/// What a sleeper is woken with.
enum Call<Q, A> {
    NotYet,
    /// It leads, with the request that it came with.
    Lead(Q),
    Answer(A),
    /// Whoever had its request panicked.
    Lost,
}

/// What became of a request.
pub(crate) enum Turn<'a, Q, A> {
    /// The caller leads.
    Lead(Lead<'a, Q, A>),
    /// Someone else did it.
    Answer(A),
}

/// The lead, with the leader's own request.
pub(crate) struct Lead<'a, Q, A> {
    line: &'a Line<Q, A>,
    own: Option<Q>,
    seats: Vec<Arc<Seat<Q, A>>>,
}

impl<Q, A> Default for Line<Q, A> {
    fn default() -> Self {
        Line { state: Mutex::new(State { led: false, waiting: VecDeque::new() }) }
    }
}

impl<Q, A> Line<Q, A> {
    /// Lines up; `before_waiting` is called where someone leads already. The caller has no I/O
    /// staged.
    pub(crate) fn enter(&self, request: Q, before_waiting: impl FnOnce()) -> Turn<'_, Q, A> {
        let seat = {
            let mut state = self.state.lock();
            if !state.led {
                state.led = true;
                return Turn::Lead(self.lead(request));
            }
            let seat = Arc::new(Seat { call: Mutex::new(Call::NotYet), called: Condvar::new() });
            state.waiting.push_back((request, Arc::clone(&seat)));
            // While the lead can't be passed on without this one.
            before_waiting();
            seat
        };
        match seat.sleep() {
            Call::Lead(request) => Turn::Lead(self.lead(request)),
            Call::Answer(answer) => Turn::Answer(answer),
            Call::NotYet | Call::Lost => panic!("whoever extended for this thread panicked"),
        }
    }

    fn lead(&self, request: Q) -> Lead<'_, Q, A> {
        Lead { line: self, own: Some(request), seats: Vec::new() }
    }
}

impl<Q, A> Seat<Q, A> {
    fn sleep(&self) -> Call<Q, A> {
        let mut call = self.call.lock();
        while matches!(*call, Call::NotYet) {
            self.called.wait(&mut call);
        }
        std::mem::replace(&mut call, Call::NotYet)
    }

    fn wake(&self, with: Call<Q, A>) {
        *self.call.lock() = with;
        self.called.notify_one();
    }
}

impl<Q, A> Lead<'_, Q, A> {
    /// Takes up everyone who has lined up: all requests, the leader's own first.
    pub(crate) fn gather(&mut self) -> Vec<Q> {
        let mut requests: Vec<Q> = self.own.take().into_iter().collect();
        for (request, seat) in self.line.state.lock().waiting.drain(..) {
            requests.push(request);
            self.seats.push(seat);
        }
        requests
    }

    /// Gives each its answer, in the order of the requests, and returns the leader's own. Then the
    /// lead passes on.
    pub(crate) fn answer(mut self, answers: Vec<A>) -> Option<A> {
        debug_assert_eq!(answers.len(), 1 + self.seats.len(), "an answer for each request");
        let mut answers = answers.into_iter();
        let own = answers.next();
        for (seat, answer) in self.seats.drain(..).zip(answers) {
            seat.wake(Call::Answer(answer));
        }
        own
    }
}

impl<Q, A> Drop for Lead<'_, Q, A> {
    /// Passes the lead on.
    fn drop(&mut self) {
        self.seats.drain(..).for_each(|seat| seat.wake(Call::Lost));
        let mut state = self.line.state.lock();
        match state.waiting.pop_front() {
            Some((request, seat)) => seat.wake(Call::Lead(request)),
            None => state.led = false,
        }
    }
}
