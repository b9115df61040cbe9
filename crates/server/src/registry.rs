//! The connections of a server. They are counted, found by number for a cancel, told to leave at a
//! stop, and ended at their deadlines.

use crate::wire::stream::Stream;
use forebay_aio::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use forebay_aio::sync::{Condvar, Duration, Instant, Mutex};
use forebay_engine::{Interrupt, InterruptKind};
use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::Arc;

/// No deadline.
const NEVER: u64 = u64::MAX;

/// Before the first ReadyForQuery.
const STARTING: u8 = 0;
/// A statement runs.
const RUNNING: u8 = 1;
/// It waits for the client's next statement.
const IDLE: u8 = 2;

/// A connection, as other threads see it.
#[derive(Debug)]
pub struct Connection {
    /// Another handle of its socket.
    stream: Stream,
    /// It has been told to leave.
    leaving: AtomicBool,
    /// Its deadline has passed.
    timed_out: AtomicBool,
    /// What the deadline ends.
    phase: AtomicU8,
    /// When that is to end, in nanoseconds since the registry was made.
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
    /// Whether it has been told to leave.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Whether its deadline has passed; clears that.
    pub fn take_timed_out(&self) -> bool {
        self.timed_out.swap(false, Ordering::SeqCst)
    }

    fn interrupt(&self, kind: InterruptKind) {
        if let Some(session) = self.session.lock().as_ref() {
            session.interrupt.request(kind);
        }
    }

    /// Tells it to leave: interrupts its statement, and ends a read from the client.
    fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        self.interrupt(InterruptKind::Terminate);
        // Fails when the client has gone.
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Ends what has reached this deadline: the start-up, the statement, or the wait for one.
    fn expire(&self, deadline: u64) {
        let claimed =
            self.deadline.compare_exchange(deadline, NEVER, Ordering::SeqCst, Ordering::SeqCst);
        if claimed.is_err() {
            return;
        }
        self.timed_out.store(true, Ordering::SeqCst);
        // Where the client has gone, a shutdown fails.
        let _ = match self.phase.load(Ordering::SeqCst) {
            STARTING => self.stream.shutdown(Shutdown::Both),
            IDLE => self.stream.shutdown(Shutdown::Read),
            _ => {
                self.interrupt(InterruptKind::Cancel);
                Ok(())
            }
        };
    }
}

/// All connections, and the timer of their deadlines.
///
/// A deadline is an atomic of its connection, so a statement that ends in time takes no lock and
/// wakes no thread. The timer sleeps until the earliest deadline that it has seen. Only an earlier
/// deadline wakes it; a deadline that is cleared does not.
#[derive(Debug)]
pub struct Registry {
    inner: Mutex<Inner>,
    left: Condvar,
    /// Wakes the timer.
    earlier: Condvar,
    /// When the timer wakes by itself; [`NEVER`] while it reads the deadlines.
    wakes: AtomicU64,
    /// When the registry was made: deadlines count from here.
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

/// An entry in the registry, removed when it is dropped.
#[derive(Debug)]
pub struct Registration {
    registry: Arc<Registry>,
    number: u64,
    is_session: bool,
    /// The connection.
    pub connection: Arc<Connection>,
}

impl Registry {
    /// Registers a connection that has just been accepted; None if there are `limit` already.
    pub fn enter(self: &Arc<Self>, stream: Stream, limit: usize) -> Option<Registration> {
        let connection = Arc::new(Connection {
            stream,
            leaving: AtomicBool::new(false),
            timed_out: AtomicBool::new(false),
            phase: AtomicU8::new(STARTING),
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
        Some(Registration { registry: Arc::clone(self), number, is_session: false, connection })
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

    /// Shuts the sockets of all connections, for those that wait for a client that does not read.
    pub fn cut(&self) {
        for connection in self.inner.lock().connections.values() {
            // Fails when the client has gone.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    }

    /// Waits until there is no connection; false if the time runs out first.
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

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.inner.lock().connections.is_empty()
    }

    /// The timer: ends start-ups, statements and idle sessions at their deadlines, until
    /// [`Registry::stop`].
    pub fn watch(&self) {
        let mut inner = self.inner.lock();
        while !inner.stopped {
            // From here on, setting a deadline notifies: the loop below may not see it.
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

    /// Nanoseconds since the registry was made.
    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.born).as_nanos()).unwrap_or(NEVER)
    }

    /// Ends `watch`.
    pub fn stop(&self) {
        self.inner.lock().stopped = true;
        self.earlier.notify_all();
    }
}

impl Registration {
    /// Counts it as a session; false if there are `limit` already.
    pub fn become_session(&mut self, limit: usize) -> bool {
        let mut inner = self.registry.inner.lock();
        if inner.sessions >= limit {
            return false;
        }
        inner.sessions += 1;
        self.is_session = true;
        true
    }

    /// Makes the session known to cancel requests. Interrupts it at once if it has been told to
    /// leave meanwhile.
    pub fn publish(&self, pid: i32, key: Vec<u8>, interrupt: Interrupt) {
        *self.connection.session.lock() = Some(Session { pid, key, interrupt });
        if self.connection.is_leaving() {
            self.connection.interrupt(InterruptKind::Terminate);
        }
    }

    /// Ends the start-up: later deadlines are those of statements. False if its deadline has
    /// passed.
    pub fn started(&self) -> bool {
        self.clear_deadline();
        self.connection.phase.store(RUNNING, Ordering::SeqCst);
        !self.connection.timed_out.load(Ordering::SeqCst)
    }

    /// Sets the time at which the session is to end, if the client sends nothing.
    pub fn set_idle_deadline(&self, after: Duration) {
        // Clears a timeout of the statement before, which came too late.
        self.connection.take_timed_out();
        self.connection.phase.store(IDLE, Ordering::SeqCst);
        self.set_deadline(after);
    }

    /// Clears that. False if the deadline has passed: then nothing can be read from the client.
    pub fn end_idle(&self) -> bool {
        self.clear_deadline();
        self.connection.phase.store(RUNNING, Ordering::SeqCst);
        !self.connection.take_timed_out()
    }

    /// Sets the time at which the start-up or the running statement is to end.
    pub fn set_deadline(&self, after: Duration) {
        let registry = &self.registry;
        let at = registry.nanos(Instant::now() + after);
        self.connection.deadline.store(at, Ordering::SeqCst);
        if at < registry.wakes.load(Ordering::SeqCst) {
            // The timer holds the lock while it reads: now it sleeps, or has not begun.
            drop(registry.inner.lock());
            registry.earlier.notify_all();
        }
    }

    /// Clears the deadline. Once this returns, it can't interrupt any more.
    pub fn clear_deadline(&self) {
        if self.connection.deadline.swap(NEVER, Ordering::SeqCst) == NEVER {
            // The timer was faster. It holds the lock until it has interrupted.
            drop(self.registry.inner.lock());
        }
    }
}

impl Drop for Registration {
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

    /// A session that has started, with its interrupt.
    fn session(registry: &Arc<Registry>) -> (Registration, Interrupt) {
        let (registration, interrupt) =
            (registry.enter(stream(), 2).expect("room"), Interrupt::new());
        registration.publish(7, vec![1, 2, 3, 4], interrupt.clone());
        assert!(registration.started());
        (registration, interrupt)
    }

    #[test]
    fn cancel_needs_number_and_key() {
        let registry = Arc::new(Registry::default());
        let (_registration, interrupt) = session(&registry);
        assert!(!registry.cancel(7, &[1, 2, 3, 5]) && !registry.cancel(8, &[1, 2, 3, 4]));
        assert!(!registry.cancel(7, &[1, 2, 3]) && interrupt.pending().is_none());
        assert!(registry.cancel(7, &[1, 2, 3, 4]));
        assert_eq!(interrupt.pending(), Some(InterruptKind::Cancel));
    }

    #[test]
    fn registrations_are_limited_and_removed() {
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
        let (registration, interrupt) = session(&registry);
        with_timer(&registry, || {
            // The timer sleeps until a later deadline, and is woken for an earlier one.
            let other = registry.enter(stream(), 2).expect("room");
            other.set_deadline(Duration::from_secs(3600));
            while registry.wakes.load(Ordering::SeqCst) == NEVER {
                forebay_aio::sync::thread::yield_now();
            }
            for _ in 0..1000 {
                registration.set_deadline(Duration::ZERO);
                while interrupt.pending().is_none() {
                    forebay_aio::sync::thread::yield_now();
                }
                registration.clear_deadline();
                assert!(
                    registration.connection.take_timed_out()
                        && !registration.connection.take_timed_out()
                );
                interrupt.clear_cancel();
            }
        });
    }

    #[test]
    fn a_deadline_that_is_cleared_ends_nothing() {
        let registry = Arc::new(Registry::default());
        let (registration, interrupt) = session(&registry);
        with_timer(&registry, || {
            for round in 0..10_000 {
                registration.set_deadline(Duration::from_nanos(round % 20_000));
                registration.clear_deadline();
                // It may have interrupted before it was cleared, but not after.
                registration.connection.take_timed_out();
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
        let registration = registry.enter(Stream::Unix(ours), 2).expect("room");
        registration.set_deadline(Duration::ZERO);
        with_timer(&registry, || {
            assert_eq!(Stream::Unix(theirs).read(&mut [0]).expect("closed"), 0);
        });
        assert!(!registration.started());
    }

    #[test]
    fn a_client_that_is_idle_too_long_is_not_read_from_any_more() {
        let registry = Arc::new(Registry::default());
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let reader = Stream::Unix(ours.try_clone().expect("cloned"));
        let registration = registry.enter(Stream::Unix(ours), 2).expect("room");
        assert!(registration.started());
        with_timer(&registry, || {
            registration.set_idle_deadline(Duration::from_secs(3600));
            assert!(registration.end_idle());
            registration.set_idle_deadline(Duration::ZERO);
            assert_eq!((&reader).read(&mut [0]).expect("ended"), 0);
            assert!(!registration.end_idle());
            // It can be told why.
            std::io::Write::write_all(&mut &reader, b"x").expect("written");
            assert_eq!(theirs.read(&mut [0]).expect("read"), 1);
        });
    }
}
