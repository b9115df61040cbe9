//! A backend's latch. A waiting backend wakes up when its lock is granted, or when it is asked to
//! stop.

use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicU8, Ordering};
use forebay_aio::sync::{Condvar, Instant, Mutex};
use forebay_storage::Latch;

/// What a backend is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptKind {
    /// Give up the statement.
    Cancel,
    /// Give up the connection.
    Terminate,
}

impl InterruptKind {
    /// PostgreSQL's message.
    pub const fn message(self) -> &'static str {
        match self {
            InterruptKind::Cancel => "canceling statement due to user request",
            InterruptKind::Terminate => "terminating connection due to administrator command",
        }
    }

    /// PostgreSQL's SQLSTATE.
    pub const fn sqlstate(self) -> &'static str {
        match self {
            InterruptKind::Cancel => "57014",
            InterruptKind::Terminate => "57P01",
        }
    }
}

/// Why a wait ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// A stop was requested.
    Interrupted(InterruptKind),
    /// It took too long.
    TimedOut,
}

const NONE: u8 = 0;
const CANCEL: u8 = 1;
const TERMINATE: u8 = 2;

impl Latch for Interrupt {
    fn notify(&self) {
        Interrupt::notify(self);
    }
}

/// A backend's latch; clones are the same latch.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    requested: AtomicU8,
    /// Held while notifying, so that no notification falls between a waiter's test and its wait.
    gate: Mutex<()>,
    wake: Condvar,
}

impl Interrupt {
    /// A latch without a request.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Asks the backend to stop. A cancel never takes back a terminate.
    pub fn request(&self, kind: InterruptKind) {
        let value = match kind {
            InterruptKind::Cancel => CANCEL,
            InterruptKind::Terminate => TERMINATE,
        };
        self.inner.requested.fetch_max(value, Ordering::SeqCst);
        self.notify();
    }

    /// What was requested, if anything. Cheap enough for a loop over rows.
    pub fn pending(&self) -> Option<InterruptKind> {
        match self.inner.requested.load(Ordering::Relaxed) {
            NONE => None,
            CANCEL => Some(InterruptKind::Cancel),
            _ => Some(InterruptKind::Terminate),
        }
    }

    /// Withdraws a cancel, which came for a statement that is over. A terminate stays.
    pub fn clear_cancel(&self) {
        let _ =
            self.inner.requested.compare_exchange(CANCEL, NONE, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Makes a waiter test its condition again.
    pub(super) fn notify(&self) {
        let _gate = self.inner.gate.lock();
        self.inner.wake.notify_all();
    }

    /// Waits until `ready`, or until a stop is requested, or until `end`. `ready` must not take a
    /// lock that a notifier holds.
    pub(super) fn wait_until(
        &self,
        ready: impl Fn() -> bool,
        end: Option<Instant>,
    ) -> Result<(), WaitEnd> {
        let mut gate = self.inner.gate.lock();
        loop {
            if ready() {
                return Ok(());
            }
            if let Some(kind) = self.pending() {
                return Err(WaitEnd::Interrupted(kind));
            }
            match end {
                None => self.inner.wake.wait(&mut gate),
                Some(end) if self.inner.wake.wait_until(&mut gate, end).timed_out() => {
                    return if ready() { Ok(()) } else { Err(WaitEnd::TimedOut) };
                }
                Some(_) => {}
            }
        }
    }

    /// Waits until `ready`, or until a stop is requested. Whatever changes what `ready` tests must
    /// notify this latch, and hold no lock that `ready` takes.
    pub fn wait_for(&self, ready: impl Fn() -> bool) -> Result<(), InterruptKind> {
        self.wait_until(ready, None).map_err(|end| match end {
            WaitEnd::Interrupted(kind) => kind,
            WaitEnd::TimedOut => unreachable!("there is no limit"),
        })
    }

    /// Sleeps until `end`, or until a stop is requested.
    pub fn sleep_until(&self, end: Instant) -> Result<(), InterruptKind> {
        let mut gate = self.inner.gate.lock();
        loop {
            if let Some(kind) = self.pending() {
                return Err(kind);
            }
            if self.inner.wake.wait_until(&mut gate, end).timed_out() {
                return self.pending().map_or(Ok(()), Err);
            }
        }
    }
}
