//! What workers hand over to their leader: a queue of bounded length.

use std::collections::VecDeque;

use forebay_aio::sync::{Condvar, Mutex};

/// The queue, as the leader has it.
#[derive(Debug)]
pub struct Handoff<M> {
    state: Mutex<State<M>>,
    changed: Condvar,
    /// Messages that it holds, at most.
    most: usize,
}

#[derive(Debug)]
struct State<M> {
    messages: VecDeque<M>,
    senders: usize,
    /// Whether the leader takes no more.
    closed: bool,
}

/// A worker's end of the queue.
#[derive(Debug)]
pub struct Sender<'q, M>(&'q Handoff<M>);

impl<M> Handoff<M> {
    pub(super) fn new(most: usize) -> Handoff<M> {
        let state = State { messages: VecDeque::new(), senders: 0, closed: false };
        Handoff { state: Mutex::new(state), changed: Condvar::new(), most: most.max(1) }
    }

    pub(super) fn sender(&self) -> Sender<'_, M> {
        self.state.lock().senders += 1;
        Sender(self)
    }

    /// Refuses further messages.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// The next message, if there is one.
    pub fn poll(&self) -> Option<M> {
        let message = self.state.lock().messages.pop_front()?;
        self.changed.notify_all();
        Some(message)
    }

    /// Waits for the next message. None: all workers have ended.
    pub fn wait(&self) -> Option<M> {
        let mut state = self.state.lock();
        loop {
            if let Some(message) = state.messages.pop_front() {
                self.changed.notify_all();
                return Some(message);
            }
            if state.senders == 0 {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}

impl<M> Sender<'_, M> {
    /// Hands a message over. Waits for room. False: the leader wants no more.
    pub fn send(&self, message: M) -> bool {
        let Handoff { state, changed, most } = self.0;
        let mut state = state.lock();
        while state.messages.len() >= *most && !state.closed {
            changed.wait(&mut state);
        }
        if state.closed {
            return false;
        }
        state.messages.push_back(message);
        changed.notify_all();
        true
    }
}

impl<M> Drop for Sender<'_, M> {
    fn drop(&mut self) {
        self.0.state.lock().senders -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use forebay_aio::sync::thread;

    use super::*;

    #[test]
    fn messages_of_all_workers_arrive_and_the_queue_stays_short() {
        let queue = Handoff::new(2);
        let mut got = thread::scope(|scope| {
            for worker in 0..3 {
                let sender = queue.sender();
                scope.spawn(move || {
                    assert!((0..100).all(|n| sender.send(worker * 100 + n)));
                });
            }
            let next = || {
                assert!(queue.state.lock().messages.len() <= 2);
                queue.poll().or_else(|| queue.wait())
            };
            std::iter::from_fn(next).collect::<Vec<i32>>()
        });
        got.sort_unstable();
        assert!(got.into_iter().eq(0..300));
    }

    #[test]
    fn a_worker_that_waits_for_room_ends_with_the_leader() {
        let queue = Handoff::new(1);
        thread::scope(|scope| {
            let sender = queue.sender();
            let sent = scope.spawn(move || (0..).take_while(|n| sender.send(*n)).count());
            while queue.state.lock().messages.is_empty() {
                thread::yield_now();
            }
            queue.close();
            assert_eq!(sent.join().expect("no panic"), 1);
        });
        assert_eq!((queue.wait(), queue.wait()), (Some(0), None));
    }
}
