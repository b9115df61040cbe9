//! The connections of a server: counted, found by number for a cancel, told to leave at a stop.

use crate::wire::stream::Stream;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Condvar, Duration, Instant, Mutex};
use forebay_engine::{Interrupt, InterruptKind};
use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::Arc;

/// A connection, as others see it.
#[derive(Debug)]
pub struct Connection {
    /// Another handle of its socket.
    stream: Stream,
    /// It was told to leave.
    leaving: AtomicBool,
    /// Its statement ran out of time.
    timed_out: AtomicBool,
    session: Mutex<Option<Session>>,
}

#[derive(Debug)]
struct Session {
    pid: i32,
    key: Vec<u8>,
    interrupt: Interrupt,
}

impl Connection {
    /// Whether it was told to leave.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Whether the statement timeout struck; forgets it.
    pub fn take_timed_out(&self) -> bool {
        self.timed_out.swap(false, Ordering::SeqCst)
    }

    fn interrupt(&self, kind: InterruptKind) {
        if let Some(session) = self.session.lock().as_ref() {
            session.interrupt.request(kind);
        }
    }

    /// Tells it to leave: what runs is interrupted, and a read from the client ends.
    fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        self.interrupt(InterruptKind::Terminate);
        // Fails when the client has gone.
        let _ = self.stream.shutdown(Shutdown::Read);
    }
}

/// Every connection.
#[derive(Debug, Default)]
pub struct Registry {
    inner: Mutex<Inner>,
    left: Condvar,
    deadline_changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
    sessions: usize,
    deadlines: HashMap<u64, Instant>,
    stopped: bool,
}

/// A place in the registry, given back when dropped.
#[derive(Debug)]
pub struct Place {
    registry: Arc<Registry>,
    number: u64,
    is_session: bool,
    /// The connection.
    pub connection: Arc<Connection>,
}

impl Registry {
    /// Enters a connection that has just been accepted; None when there are `limit` already.
    pub fn enter(self: &Arc<Self>, stream: Stream, limit: usize) -> Option<Place> {
        let connection = Arc::new(Connection {
            stream,
            leaving: AtomicBool::new(false),
            timed_out: AtomicBool::new(false),
            session: Mutex::new(None),
        });
        let mut inner = self.inner.lock();
        if inner.connections.len() >= limit {
            return None;
        }
        inner.next += 1;
        let number = inner.next;
        inner.connections.insert(number, Arc::clone(&connection));
        Some(Place { registry: Arc::clone(self), number, is_session: false, connection })
    }

    /// Stops the statement of the session that has this number and key.
    pub fn cancel(&self, pid: u32, key: &[u8]) -> bool {
        let inner = self.inner.lock();
        for connection in inner.connections.values() {
            let session = connection.session.lock();
            let Some(session) = session.as_ref() else { continue };
            if session.pid.cast_unsigned() == pid && same(&session.key, key) {
                session.interrupt.request(InterruptKind::Cancel);
                return true;
            }
        }
        false
    }

    /// Tells every connection to leave.
    pub fn dismiss(&self) {
        self.inner.lock().connections.values().for_each(|c| c.leave());
    }

    /// Cuts the connections that have not left, because they wait for a client that does not read.
    pub fn cut(&self) {
        for connection in self.inner.lock().connections.values() {
            // Fails when the client has gone.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    }

    /// Waits until there is no connection; false if time ran out first.
    pub fn wait_until_empty(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut inner = self.inner.lock();
        while !inner.connections.is_empty() {
            if self.left.wait_until(&mut inner, until).timed_out() {
                return inner.connections.is_empty();
            }
        }
        true
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.inner.lock().connections.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Watches over statement timeouts until `stop`.
    pub fn watch(&self) {
        let mut inner = self.inner.lock();
        while !inner.stopped {
            let now = Instant::now();
            let due: Vec<u64> =
                inner.deadlines.iter().filter(|(_, at)| **at <= now).map(|(number, _)| *number).collect();
            for number in due {
                inner.deadlines.remove(&number);
                if let Some(connection) = inner.connections.get(&number) {
                    connection.timed_out.store(true, Ordering::SeqCst);
                    connection.interrupt(InterruptKind::Cancel);
                }
            }
            match inner.deadlines.values().min().copied() {
                Some(next) => {
                    self.deadline_changed.wait_until(&mut inner, next);
                }
                None => self.deadline_changed.wait(&mut inner),
            }
        }
    }

    /// Ends `watch`.
    pub fn stop(&self) {
        self.inner.lock().stopped = true;
        self.deadline_changed.notify_all();
    }
}

impl Place {
    /// Counts it as a session; false when there are `limit` already.
    pub fn become_session(&mut self, limit: usize) -> bool {
        let mut inner = self.registry.inner.lock();
        if inner.sessions >= limit {
            return false;
        }
        inner.sessions += 1;
        self.is_session = true;
        true
    }

    /// Makes the session known to cancel requests. If it was told to leave meanwhile, it is interrupted at once.
    pub fn publish(&self, pid: i32, key: Vec<u8>, interrupt: Interrupt) {
        *self.connection.session.lock() = Some(Session { pid, key, interrupt });
        if self.connection.is_leaving() {
            self.connection.interrupt(InterruptKind::Terminate);
        }
    }

    /// Sets the time at which the running statement is cancelled.
    pub fn set_deadline(&self, at: Option<Instant>) {
        let mut inner = self.registry.inner.lock();
        match at {
            Some(at) => {
                inner.deadlines.insert(self.number, at);
                self.registry.deadline_changed.notify_all();
            }
            None => {
                inner.deadlines.remove(&self.number);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.registry.inner.lock();
        inner.connections.remove(&self.number);
        inner.deadlines.remove(&self.number);
        inner.sessions -= usize::from(self.is_session);
        self.registry.left.notify_all();
    }
}

/// Compares keys in a time that does not tell where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn stream() -> Stream {
        Stream::Unix(UnixStream::pair().expect("a pair").0)
    }

    #[test]
    fn cancel_needs_number_and_key() {
        let registry = Arc::new(Registry::default());
        let place = registry.enter(stream(), 10).expect("room");
        let interrupt = Interrupt::new();
        place.publish(7, vec![1, 2, 3, 4], interrupt.clone());
        assert!(!registry.cancel(7, &[1, 2, 3, 5]) && !registry.cancel(8, &[1, 2, 3, 4]));
        assert!(!registry.cancel(7, &[1, 2, 3]) && interrupt.pending().is_none());
        assert!(registry.cancel(7, &[1, 2, 3, 4]));
        assert_eq!(interrupt.pending(), Some(InterruptKind::Cancel));
    }

    #[test]
    fn places_are_limited_and_given_back() {
        let registry = Arc::new(Registry::default());
        let mut first = registry.enter(stream(), 2).expect("room");
        let mut second = registry.enter(stream(), 2).expect("room");
        assert!(registry.enter(stream(), 2).is_none());
        assert!(first.become_session(1) && !second.become_session(1));
        drop(first);
        assert!(second.become_session(1));
        assert!(!registry.wait_until_empty(Duration::from_millis(1)));
        drop(second);
        assert!(registry.wait_until_empty(Duration::ZERO));
    }

    #[test]
    fn a_deadline_interrupts() {
        let registry = Arc::new(Registry::default());
        let place = registry.enter(stream(), 2).expect("room");
        let interrupt = Interrupt::new();
        place.publish(1, vec![0], interrupt.clone());
        place.set_deadline(Some(Instant::now()));
        forebay_aio::sync::thread::scope(|scope| {
            scope.spawn(|| registry.watch());
            while interrupt.pending().is_none() {
                forebay_aio::sync::thread::yield_now();
            }
            registry.stop();
        });
        assert!(place.connection.take_timed_out() && !place.connection.take_timed_out());
    }
}
