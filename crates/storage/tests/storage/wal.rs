//! Logs for the pool: one that records events and fails on request, and one that fails now and
//! then. The events tell in which order log and disk were written.

use crate::fixture::{Fixture, change, set_lsn, stamp, tag};
use forebay_aio as aio;
use forebay_aio::fault::{Call, Effect, FaultPlan, Ops, Rule};
use forebay_format::Lsn;
use forebay_storage::WalFailure;
use forebay_storage::{Backend, BufferPool, Pinned, Strategy, WalFlush};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The log was made durable up to this LSN.
    Flushed(u64),
    /// These blocks were written.
    Wrote { first: u32, blocks: u32 },
}

#[derive(Default)]
pub struct Log {
    flushed: AtomicU64,
    broken: AtomicBool,
    refused: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl Log {
    /// Attaches a log to the pool, and records every write of the plan's disk.
    pub fn attach(pool: &BufferPool, plan: &FaultPlan) -> Arc<Log> {
        let log = Arc::new(Log::default());
        pool.attach_wal(Arc::clone(&log) as Arc<dyn WalFlush>);
        let seen = Arc::clone(&log);
        let note = move |call: &Call| {
            let (first, blocks) = ((call.offset / 8192) as u32, (call.len / 8192) as u32);
            seen.events.lock().unwrap().push(Event::Wrote { first, blocks });
            false
        };
        plan.add(Rule::on(Ops::WRITE).path("base/5").when(note), Effect::Fail(aio::Errno::IO));
        log
    }

    /// Sets whether flushes fail from now on.
    pub fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }

    /// How many flushes have failed.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// Returns the events since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap())
    }
}

impl WalFlush for Log {
    fn flush(&self, _io: &mut aio::IoBackend, upto: Lsn) -> Result<(), WalFailure> {
        if self.broken.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(Arc::new(std::io::Error::other("the log is broken")));
        }
        self.events.lock().unwrap().push(Event::Flushed(upto.0));
        self.flushed.fetch_max(upto.0, Ordering::SeqCst);
        Ok(())
    }

    fn flushed(&self) -> Lsn {
        Lsn(self.flushed.load(Ordering::SeqCst))
    }
}

/// A log of which some flushes fail while it is not well.
#[derive(Default)]
pub struct UnsteadyLog {
    end: AtomicU64,
    flushed: AtomicU64,
    calls: AtomicU64,
    well: AtomicBool,
}

impl UnsteadyLog {
    pub fn set_well(&self, well: bool) {
        self.well.store(well, Ordering::SeqCst);
    }

    /// Returns the LSN of a new record.
    pub fn insert(&self) -> Lsn {
        Lsn(self.end.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

impl WalFlush for UnsteadyLog {
    fn flush(&self, _io: &mut aio::IoBackend, upto: Lsn) -> Result<(), WalFailure> {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst);
        if calls % 16 == 15 && !self.well.load(Ordering::SeqCst) {
            return Err(Arc::new(std::io::Error::other("the log is unwell")));
        }
        assert!(upto.0 <= self.end.load(Ordering::SeqCst), "a page's LSN is beyond the log's end");
        self.flushed.fetch_max(upto.0, Ordering::SeqCst);
        Ok(())
    }

    fn flushed(&self) -> Lsn {
        Lsn(self.flushed.load(Ordering::SeqCst))
    }
}

/// Pins a block.
pub fn pin(pool: &Arc<BufferPool>, backend: &mut Backend, block: u32) -> Pinned {
    pool.read(backend, tag(block), Strategy::Normal).unwrap()
}

/// Pins a block and gives it this version; its LSN is `1000 * version + block`.
pub fn dirty(pool: &Arc<BufferPool>, backend: &mut Backend, block: u32, version: u64) -> Pinned {
    let pinned = pin(pool, backend, block);
    change(&pinned, |page| {
        stamp(page, block, version);
        set_lsn(page, lsn(block, version));
    });
    pinned
}

pub fn lsn(block: u32, version: u64) -> u64 {
    1000 * version + u64::from(block)
}

/// Asserts that all pins, locks and handles are released, once the backend is gone.
pub fn assert_nothing_held(fixture: &Fixture, mut backend: Backend) {
    assert_eq!(fixture.pool.evict_all(&mut backend).unwrap(), 0, "a pin or a lock was left behind");
    drop(backend);
    assert!(fixture.aio.snapshot().is_empty(), "handles are still in use");
}
