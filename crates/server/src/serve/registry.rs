//! The connections of a server: counted, found by number for a cancel, told to leave at a stop,
//! ended at their deadlines.

use crate::wire::stream::Stream;
use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_aio::sync::{Condvar, Duration, Instant, Mutex};
use forebay_engine::{Interrupt, InterruptKind};
use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::Arc;

/// No deadline.
const NEVER: u64 = u64::MAX;

/// A connection, as others see it.
#[derive(Debug)]
pub struct Connection {
    /// Another handle of its socket.
    stream: Stream,
    /// It was told to leave.
    leaving: AtomicBool,
    /// Its deadline has passed.
    timed_out: AtomicBool,
    /// It has not reached its first ReadyForQuery.
    starting: AtomicBool,
    /// When its start-up or its statement is ended, in nanoseconds of the registry's life.
    deadline: AtomicU64,
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

    /// Whether its deadline has passed; forgets it.
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

    /// Ends what has reached this deadline: the start-up, or the statement.
    fn expire(&self, deadline: u64) {
        let claimed =
            self.deadline.compare_exchange(deadline, NEVER, Ordering::SeqCst, Ordering::SeqCst);
        if claimed.is_err() {
            return;
        }
        self.timed_out.store(true, Ordering::SeqCst);
        if self.starting.load(Ordering::SeqCst) {
            // Reads and writes end. It fails when the client has gone.
            let _ = self.stream.shutdown(Shutdown::Both);
        } else {
            self.interrupt(InterruptKind::Cancel);
        }
    }
}

/// Every connection, and the timer of their deadlines.
///
/// A deadline is an atomic of its connection, so a statement that ends in time takes no lock and
/// wakes nobody. The timer sleeps until the earliest deadline that it has seen, and is woken only
/// for an earlier one. It stays set for a deadline that is withdrawn, and looks again then.
#[derive(Debug)]
pub struct Registry {
    inner: Mutex<Inner>,
    left: Condvar,
    /// For the timer.
    earlier: Condvar,
    /// When the timer wakes by itself; [`NEVER`] while it looks.
    wakes: AtomicU64,
    /// What deadlines count from.
    born: Instant,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
    sessions: usize,
    stopped: bool,
}

impl Default for Registry {
    fn default() -> Registry {
        Registry {
            inner: Mutex::default(),
            left: Condvar::default(),
            earlier: Condvar::default(),
            wakes: AtomicU64::new(NEVER),
            born: Instant::now(),
        }
    }
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
            starting: AtomicBool::new(true),
            deadline: AtomicU64::new(NEVER),
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

    /// The timer: ends what has reached its deadline, until `stop`.
    pub fn watch(&self) {
        let mut inner = self.inner.lock();
        while !inner.stopped {
            // From here on who sets a deadline notifies: it may be one that is not seen below.
            self.wakes.store(NEVER, Ordering::SeqCst);
            let now = self.nanos(Instant::now());
            let mut next = NEVER;
            for connection in inner.connections.values() {
                let deadline = connection.deadline.load(Ordering::SeqCst);
                if deadline <= now {
                    connection.expire(deadline);
                } else {
                    next = next.min(deadline);
                }
            }
            if next == NEVER {
                self.earlier.wait(&mut inner);
            } else {
                self.wakes.store(next, Ordering::SeqCst);
                self.earlier.wait_until(&mut inner, self.born + Duration::from_nanos(next));
            }
        }
    }

    /// A moment as deadlines have it.
    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.born).as_nanos()).unwrap_or(NEVER)
    }

    /// Ends `watch`.
    pub fn stop(&self) {
        self.inner.lock().stopped = true;
        self.earlier.notify_all();
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

    /// Makes the session known to cancel requests. If it was told to leave meanwhile, it is
    /// interrupted at once.
    pub fn publish(&self, pid: i32, key: Vec<u8>, interrupt: Interrupt) {
        *self.connection.session.lock() = Some(Session { pid, key, interrupt });
        if self.connection.is_leaving() {
            self.connection.interrupt(InterruptKind::Terminate);
        }
    }

    /// The start-up is over: deadlines are its statements' from now on. False if its time was up.
    pub fn started(&self) -> bool {
        self.clear_deadline();
        self.connection.starting.store(false, Ordering::SeqCst);
        !self.connection.timed_out.load(Ordering::SeqCst)
    }

    /// Sets the time at which the start-up, or else the running statement, is ended.
    pub fn set_deadline(&self, after: Duration) {
        let registry = &self.registry;
        let at = registry.nanos(Instant::now() + after);
        self.connection.deadline.store(at, Ordering::SeqCst);
        if at < registry.wakes.load(Ordering::SeqCst) {
            // The timer holds the lock while it looks: now it sleeps, or has not begun to look.
            drop(registry.inner.lock());
            registry.earlier.notify_all();
        }
    }

    /// What had the deadline is over. Once this returns, it can't be ended any more.
    pub fn clear_deadline(&self) {
        if self.connection.deadline.swap(NEVER, Ordering::SeqCst) == NEVER {
            // The timer was faster: it holds the lock until it has interrupted.
            drop(self.registry.inner.lock());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.registry.inner.lock();
        inner.connections.remove(&self.number);
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
    use std::io::Read;
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

    /// Runs `body` beside the timer.
    fn with_timer(registry: &Registry, body: impl FnOnce()) {
        forebay_aio::sync::thread::scope(|scope| {
            scope.spawn(|| registry.watch());
            body();
            registry.stop();
        });
    }

    #[test]
    fn a_deadline_interrupts() {
        let registry = Arc::new(Registry::default());
        let place = registry.enter(stream(), 2).expect("room");
        let interrupt = Interrupt::new();
        place.publish(1, vec![0], interrupt.clone());
        assert!(place.started());
        with_timer(&registry, || {
            // The timer sleeps for a later one, and hears of the earlier one.
            let other = registry.enter(stream(), 2).expect("room");
            other.set_deadline(Duration::from_secs(3600));
            while registry.wakes.load(Ordering::SeqCst) == NEVER {
                forebay_aio::sync::thread::yield_now();
            }
            for _ in 0..1000 {
                place.set_deadline(Duration::ZERO);
                while interrupt.pending().is_none() {
                    forebay_aio::sync::thread::yield_now();
                }
                place.clear_deadline();
                assert!(place.connection.take_timed_out() && !place.connection.take_timed_out());
                interrupt.clear_cancel();
            }
        });
    }

    #[test]
    fn a_deadline_that_is_cleared_ends_nothing() {
        let registry = Arc::new(Registry::default());
        let place = registry.enter(stream(), 2).expect("room");
        let interrupt = Interrupt::new();
        place.publish(1, vec![0], interrupt.clone());
        assert!(place.started());
        with_timer(&registry, || {
            for round in 0..10_000 {
                place.set_deadline(Duration::from_nanos(round % 20_000));
                place.clear_deadline();
                // It may have struck before it was cleared, but not after.
                place.connection.take_timed_out();
                interrupt.clear_cancel();
                forebay_aio::sync::thread::yield_now();
                assert!(interrupt.pending().is_none(), "round {round}");
            }
        });
    }

    #[test]
    fn a_start_up_that_takes_too_long_loses_its_socket() {
        let registry = Arc::new(Registry::default());
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let place = registry.enter(Stream::Unix(ours), 2).expect("room");
        place.set_deadline(Duration::ZERO);
        with_timer(&registry, || {
            assert_eq!(Stream::Unix(theirs).read(&mut [0]).expect("closed"), 0);
        });
        assert!(!place.started());
    }
}
