//! Counters of each backend's own asynchronous I/O: the rows of pg_stat_aio_backends.
//!
//! Each slot of the handle table has a set of counters that only ever grow. Two halves, on cache
//! lines of their own: one that the backend's thread alone stores to (no locked instruction), one
//! that whoever completes an I/O adds to. A row is the difference to the values at the backend's
//! begin, or at the last reset, so neither has to stop anyone from counting.
//!
//! Latency is measured by one reading of the clock for each batch submitted and one for each
//! kernel-level I/O completed.

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Instant, Mutex, SystemTime};

use crate::completion::Status;
use crate::error::Errno;
use crate::execute::{Executor, Request};
use crate::op::OpKind;
use crate::platform::thread_token;
use crate::stats::BackendType;

/// Classes of latency: the n-th holds 2^n up to 2^(n+1) nanoseconds; the first also less, the last
/// (over nine minutes) also more.
pub const LATENCY_CLASSES: usize = 40;

/// One row of pg_stat_aio_backends: a living backend. Each field is a column of that name, in this
/// order; times are in nanoseconds here, and of type double precision in milliseconds in the view.
/// All but `in_flight` count since `stats_reset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendStatsRow {
    /// The backend's id (`pid`).
    pub pid: i32,
    /// Whose I/O it is.
    pub backend_type: BackendType,
    /// The method that executes it, as in the setting.
    pub io_method: &'static str,
    /// Handles acquired.
    pub acquired: u64,
    /// Of these, those for which an I/O in flight had to be waited for because no handle was idle.
    pub acquire_waits: u64,
    /// I/Os staged for the method.
    pub staged: u64,
    /// I/Os that the backend executed itself at once, unstaged: it was told to, or the method is
    /// sync and no batch was open.
    pub immediate: u64,
    /// Batches submitted, of one I/O or more.
    pub submissions: u64,
    /// Kernel-level I/Os that went to the method: `staged` less those still staged and `merged`.
    pub issued: u64,
    /// Staged I/Os that went out as a part of a neighbour's.
    pub merged: u64,
    /// I/Os completed by the backend's own thread.
    pub completed_self: u64,
    /// I/Os completed by another thread: a worker, or one that waited for the same I/O or for
    /// another of the same ring.
    pub completed_other: u64,
    /// I/Os submitted and not yet completed, now.
    pub in_flight: u64,
    /// Most of them at one time.
    pub in_flight_max: u64,
    /// Reads started.
    pub reads: u64,
    /// Bytes they asked for.
    pub read_bytes: u64,
    /// Writes started.
    pub writes: u64,
    /// Bytes they were given.
    pub write_bytes: u64,
    /// fsync and fdatasync started.
    pub syncs: u64,
    /// Other operations started (sync_file_range, fallocate).
    pub others: u64,
    /// Times the backend blocked until an I/O, its own or another's, was complete.
    pub waits: u64,
    /// How long.
    pub wait_time: u64,
    /// I/Os completed whose latency was measured, from submission (of the batch) to completion.
    pub latency_count: u64,
    /// Sum of their latencies.
    pub latency_sum: u64,
    /// The longest of them.
    pub latency_max: u64,
    /// How many fell into each class (bigint\[\] in the view): the n-th of [`LATENCY_CLASSES`],
    /// from 0 on, holds 2^n up to 2^(n+1) nanoseconds.
    pub latency_histogram: [u64; LATENCY_CLASSES],
    /// I/Os whose outcome was an error.
    pub errors: u64,
    /// Attempts beyond an I/O's first: short transfers continued (the look past the end of a file
    /// included), interrupted calls repeated, merged I/Os carried out one by one after their union
    /// failed.
    pub retries: u64,
    /// When counting began: at the backend's begin, or at the last reset.
    pub stats_reset: SystemTime,
}

impl BackendStatsRow {
    /// The columns' names, in order.
    pub const COLUMNS: [&str; 29] = [
        "pid",
        "backend_type",
        "io_method",
        "acquired",
        "acquire_waits",
        "staged",
        "immediate",
        "submissions",
        "issued",
        "merged",
        "completed_self",
        "completed_other",
        "in_flight",
        "in_flight_max",
        "reads",
        "read_bytes",
        "writes",
        "write_bytes",
        "syncs",
        "others",
        "waits",
        "wait_time",
        "latency_count",
        "latency_sum",
        "latency_max",
        "latency_histogram",
        "errors",
        "retries",
        "stats_reset",
    ];
}

/// What the backend's own thread counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Own {
    Acquired,
    AcquireWaits,
    Staged,
    Immediate,
    Submissions,
    Issued,
    Merged,
    /// Given to the method or executed at once.
    Started,
    Reads,
    ReadBytes,
    Writes,
    WriteBytes,
    Syncs,
    Others,
    Waits,
    WaitTime,
}

const OWN: usize = Own::WaitTime as usize + 1;

/// What whoever completes an I/O counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum Any {
    Completed,
    Foreign,
    LatencySum,
    Errors,
    Retries,
}

const ANY: usize = Any::Retries as usize + 1;

#[repr(align(128))]
#[derive(Default)]
struct OwnHalf {
    counts: [AtomicU64; OWN],
    in_flight_max: AtomicU64,
    /// Whose thread submitted last.
    thread: AtomicUsize,
}

#[repr(align(128))]
struct AnyHalf {
    counts: [AtomicU64; ANY],
    latency_max: AtomicU64,
    histogram: [AtomicU64; LATENCY_CLASSES],
}

/// The counters of one slot.
struct Slot {
    own: OwnHalf,
    any: AnyHalf,
    life: Mutex<Option<Life>>,
}

/// One backend in a slot.
struct Life {
    id: i32,
    who: BackendType,
    since: SystemTime,
    base: Values,
}

/// All counters of a slot at one moment.
#[derive(Clone, Copy)]
struct Values {
    own: [u64; OWN],
    any: [u64; ANY],
    histogram: [u64; LATENCY_CLASSES],
}

/// The counters of all backends.
pub(crate) struct Counters {
    slots: Box<[Slot]>,
    epoch: Instant,
    latency: AtomicBool,
}

impl Counters {
    pub(crate) fn new(slots: usize) -> Counters {
        let slot = || Slot {
            own: OwnHalf::default(),
            any: AnyHalf {
                counts: Default::default(),
                latency_max: AtomicU64::new(0),
                histogram: std::array::from_fn(|_| AtomicU64::new(0)),
            },
            life: Mutex::new(None),
        };
        Counters {
            slots: (0..slots).map(|_| slot()).collect(),
            epoch: Instant::now(),
            latency: AtomicBool::new(true),
        }
    }

    fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// A backend begins.
    pub(crate) fn enter(&self, slot: u32, id: i32, who: BackendType) {
        let slot = self.slot(slot);
        slot.restart(&mut slot.life.lock(), id, who);
    }

    /// A backend ends.
    pub(crate) fn leave(&self, slot: u32) {
        *self.slot(slot).life.lock() = None;
    }

    /// Counting starts from zero, for all.
    pub(crate) fn reset(&self) {
        for slot in &self.slots {
            let mut life = slot.life.lock();
            if let Some((id, who)) = life.as_ref().map(|l| (l.id, l.who)) {
                slot.restart(&mut life, id, who);
            }
        }
    }

    /// Measures latencies from now on, or does not.
    pub(crate) fn set_measure_latency(&self, on: bool) {
        self.latency.store(on, Relaxed);
    }

    /// The rows of the living backends.
    pub(crate) fn rows(&self, io_method: &'static str) -> Vec<BackendStatsRow> {
        self.slots.iter().filter_map(|slot| slot.row(io_method)).collect()
    }

    /// Adds; only the slot's backend may.
    pub(crate) fn add(&self, slot: u32, what: Own, by: u64) {
        let cell = &self.slot(slot).own.counts[what as usize];
        cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
    }

    /// Counts an I/O that its backend starts.
    pub(crate) fn count_operation(&self, slot: u32, op: OpKind, bytes: u64) {
        let (count, sum) = match op {
            OpKind::Readv => (Own::Reads, Some(Own::ReadBytes)),
            OpKind::Writev => (Own::Writes, Some(Own::WriteBytes)),
            OpKind::Fsync | OpKind::Fdatasync => (Own::Syncs, None),
            _ => (Own::Others, None),
        };
        self.add(slot, count, 1);
        if let Some(sum) = sum {
            self.add(slot, sum, bytes);
        }
    }

    /// Before `ios` I/Os of the slot are handed to the method, in its backend's thread. Returns the
    /// time, for [`Counters::completed`].
    pub(crate) fn submitting(&self, slot: u32, ios: u64) -> u64 {
        let s = self.slot(slot);
        s.own.thread.store(thread_token(), Relaxed);
        self.add(slot, Own::Started, ios);
        let in_flight = s.in_flight();
        if in_flight > s.own.in_flight_max.load(Relaxed) {
            s.own.in_flight_max.store(in_flight, Relaxed);
        }
        if self.latency.load(Relaxed) { self.now() } else { 0 }
    }

    /// I/Os of the slot that are submitted and not yet complete; only the slot's backend may ask
    /// and be sure of none.
    pub(crate) fn in_flight(&self, slot: u32) -> u64 {
        self.slot(slot).in_flight()
    }

    /// A kernel-level I/O of the slot, of `ios` I/Os that were submitted at `since`, is complete.
    /// In any thread, before it is told to anyone.
    pub(crate) fn completed(&self, slot: u32, ios: u64, since: u64) {
        let s = self.slot(slot);
        s.add(Any::Completed, ios);
        if s.own.thread.load(Relaxed) != thread_token() {
            s.add(Any::Foreign, ios);
        }
        if since > 0 {
            let latency = self.now().saturating_sub(since);
            s.add(Any::LatencySum, latency * ios);
            s.any.histogram[class(latency)].fetch_add(ios, Relaxed);
            if latency > s.any.latency_max.load(Relaxed) {
                s.any.latency_max.fetch_max(latency, Relaxed);
            }
        }
    }

    /// The outcome of one I/O. In any thread.
    pub(crate) fn outcome(&self, slot: u32, status: Status) {
        if status == Status::Error {
            self.slot(slot).add(Any::Errors, 1);
        }
    }

    /// Attempts beyond the first. In any thread.
    pub(crate) fn retried(&self, slot: u32, attempts: u64) {
        if attempts > 0 {
            self.slot(slot).add(Any::Retries, attempts);
        }
    }

    /// Nanoseconds since the counters were made; never 0.
    pub(crate) fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64 | 1
    }
}

/// An executor that counts the attempts.
pub(crate) struct CountingExecutor<'a> {
    inner: &'a dyn Executor,
    attempts: AtomicU64,
}

impl CountingExecutor<'_> {
    pub(crate) fn new(inner: &dyn Executor) -> CountingExecutor<'_> {
        CountingExecutor { inner, attempts: AtomicU64::new(0) }
    }

    pub(crate) fn attempts(&self) -> u64 {
        self.attempts.load(Relaxed)
    }
}

impl Executor for CountingExecutor<'_> {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        // One thread uses it: no locked instruction.
        self.attempts.store(self.attempts.load(Relaxed) + 1, Relaxed);
        self.inner.execute(request)
    }
}

/// The class of a latency.
fn class(nanoseconds: u64) -> usize {
    ((nanoseconds | 1).ilog2() as usize).min(LATENCY_CLASSES - 1)
}

impl Slot {
    fn add(&self, what: Any, by: u64) {
        self.any.counts[what as usize].fetch_add(by, Relaxed);
    }

    fn in_flight(&self) -> u64 {
        let completed = self.any.counts[Any::Completed as usize].load(Relaxed);
        self.own.counts[Own::Started as usize].load(Relaxed).saturating_sub(completed)
    }

    fn values(&self) -> Values {
        let read = |c: &AtomicU64| c.load(Relaxed);
        Values {
            // Completions first: what is seen completed is then seen started.
            any: self.any.counts.each_ref().map(read),
            histogram: self.any.histogram.each_ref().map(read),
            own: self.own.counts.each_ref().map(read),
        }
    }

    fn restart(&self, life: &mut Option<Life>, id: i32, who: BackendType) {
        // Largest values can't be subtracted from. One that is stored at this moment may survive or
        // go: either is right.
        self.own.in_flight_max.store(self.in_flight(), Relaxed);
        self.any.latency_max.store(0, Relaxed);
        *life = Some(Life { id, who, since: SystemTime::now(), base: self.values() });
    }

    fn row(&self, io_method: &'static str) -> Option<BackendStatsRow> {
        let life = self.life.lock();
        let life = life.as_ref()?;
        let now = self.values();
        let own = |what: Own| now.own[what as usize].wrapping_sub(life.base.own[what as usize]);
        let any = |what: Any| now.any[what as usize].wrapping_sub(life.base.any[what as usize]);
        let latency_histogram: [u64; LATENCY_CLASSES] =
            std::array::from_fn(|n| now.histogram[n].wrapping_sub(life.base.histogram[n]));
        Some(BackendStatsRow {
            pid: life.id,
            backend_type: life.who,
            io_method,
            acquired: own(Own::Acquired),
            acquire_waits: own(Own::AcquireWaits),
            staged: own(Own::Staged),
            immediate: own(Own::Immediate),
            submissions: own(Own::Submissions),
            issued: own(Own::Issued),
            merged: own(Own::Merged),
            completed_self: any(Any::Completed).saturating_sub(any(Any::Foreign)),
            completed_other: any(Any::Foreign),
            in_flight: self.in_flight(),
            in_flight_max: self.own.in_flight_max.load(Relaxed),
            reads: own(Own::Reads),
            read_bytes: own(Own::ReadBytes),
            writes: own(Own::Writes),
            write_bytes: own(Own::WriteBytes),
            syncs: own(Own::Syncs),
            others: own(Own::Others),
            waits: own(Own::Waits),
            wait_time: own(Own::WaitTime),
            latency_count: latency_histogram.iter().sum(),
            latency_sum: any(Any::LatencySum),
            latency_max: self.any.latency_max.load(Relaxed),
            latency_histogram,
            errors: any(Any::Errors),
            retries: any(Any::Retries),
            stats_reset: life.since,
        })
    }
}
