//! Counters of each backend's asynchronous I/O: the rows of pg_stat_aio_backends.
//!
//! Each slot of the handle table has a set of counters that only grow, in two halves on separate
//! cache lines. Only the backend's thread stores to the first, so it needs no locked instruction.
//! Whichever thread completes an I/O adds to the second. A row is the difference to the values when
//! the backend began or at the last reset, so neither event stops any thread from counting.
//!
//! Latency costs one reading of the clock for each submitted batch and one for each completed
//! kernel-level I/O.

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Instant, Mutex, SystemTime};

use crate::completion::Status;
use crate::error::Errno;
use crate::execute::{Executor, Request};
use crate::op::OpKind;
use crate::platform::thread_token;
use crate::stats::BackendType;

/// Classes of latency: the n-th counts latencies from 2^n to below 2^(n+1) nanoseconds. The first
/// also counts shorter ones, and the last (over nine minutes) longer ones.
pub const LATENCY_CLASSES: usize = 40;

/// One row of pg_stat_aio_backends: a living backend. Each field is a column of that name, in this
/// order. Times are in nanoseconds here; the view has milliseconds as double precision. All but
/// `in_flight` count since `stats_reset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendStatsRow {
    /// The backend's id (`pid`).
    pub pid: i32,
    /// Its type.
    pub backend_type: BackendType,
    /// The method, as in the setting.
    pub io_method: &'static str,
    /// Handles acquired.
    pub acquired: u64,
    /// Acquisitions that had to wait for an I/O in flight because no handle was idle.
    pub acquire_waits: u64,
    /// I/Os staged for the method.
    pub staged: u64,
    /// I/Os that the backend executed itself at once: it was told to, or the method is sync and no
    /// batch was open.
    pub immediate: u64,
    /// Batches submitted, of one or more I/Os.
    pub submissions: u64,
    /// Kernel-level I/Os given to the method: `staged` less those still staged and `merged`.
    pub issued: u64,
    /// Staged I/Os that became part of a neighbour's.
    pub merged: u64,
    /// I/Os completed by the backend's own thread.
    pub completed_self: u64,
    /// I/Os completed by another thread: a worker, or a thread that waited for the same I/O or for
    /// another of the same ring.
    pub completed_other: u64,
    /// I/Os submitted and not yet completed.
    pub in_flight: u64,
    /// The maximum of `in_flight`.
    pub in_flight_max: u64,
    /// Reads started.
    pub reads: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Writes started.
    pub writes: u64,
    /// Bytes of these writes.
    pub write_bytes: u64,
    /// fsync and fdatasync started.
    pub syncs: u64,
    /// Other operations started (sync_file_range, fallocate).
    pub others: u64,
    /// Times the backend blocked until an I/O of any backend was complete.
    pub waits: u64,
    /// Time of these waits.
    pub wait_time: u64,
    /// Completed I/Os whose latency was measured, from the submission of the batch to the
    /// completion.
    pub latency_count: u64,
    /// Sum of their latencies.
    pub latency_sum: u64,
    /// The longest of them.
    pub latency_max: u64,
    /// Latencies by class (bigint\[\] in the view); see [`LATENCY_CLASSES`].
    pub latency_histogram: [u64; LATENCY_CLASSES],
    /// I/Os whose outcome was an error.
    pub errors: u64,
    /// Attempts beyond the first of an I/O: short transfers continued (with the attempt past the
    /// end of a file), interrupted calls repeated, merged I/Os executed one by one after a failure.
    pub retries: u64,
    /// When counting began: at the backend's begin or the last reset.
    pub stats_reset: SystemTime,
}

/// Counters of the backend's own thread.
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
    /// Given to the method, or executed at once.
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

/// Counters of the threads that complete I/Os.
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
    /// The thread that submitted last.
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
    occupant: Mutex<Option<Occupant>>,
}

/// The backend in a slot.
struct Occupant {
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
            occupant: Mutex::new(None),
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
        slot.restart(&mut slot.occupant.lock(), id, who);
    }

    /// A backend ends.
    pub(crate) fn leave(&self, slot: u32) {
        *self.slot(slot).occupant.lock() = None;
    }

    /// Resets the counters of all backends.
    pub(crate) fn reset(&self) {
        for slot in &self.slots {
            let mut occupant = slot.occupant.lock();
            if let Some((id, who)) = occupant.as_ref().map(|l| (l.id, l.who)) {
                slot.restart(&mut occupant, id, who);
            }
        }
    }

    /// Switches the measurement of latencies.
    pub(crate) fn set_measure_latency(&self, on: bool) {
        self.latency.store(on, Relaxed);
    }

    /// The rows of the living backends.
    pub(crate) fn rows(&self, io_method: &'static str) -> Vec<BackendStatsRow> {
        self.slots.iter().filter_map(|slot| slot.row(io_method)).collect()
    }

    /// Adds to a counter. Only the slot's backend may call this.
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

    /// Counts `ios` I/Os of the slot before they are handed to the method, in its backend's thread.
    /// Returns the time for [`Counters::completed`], or 0 if it is not measured.
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

    /// I/Os of the slot that are submitted and not complete. Only for the slot's backend is "none"
    /// certain.
    pub(crate) fn in_flight(&self, slot: u32) -> u64 {
        self.slot(slot).in_flight()
    }

    /// Counts the end of a kernel-level I/O that stands for `ios` I/Os of the slot, submitted at
    /// `since`. Any thread may call this, before it tells any other thread.
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

    /// Counts the outcome of one I/O. Any thread may call this.
    pub(crate) fn outcome(&self, slot: u32, status: Status) {
        if status == Status::Error {
            self.slot(slot).add(Any::Errors, 1);
        }
    }

    /// Counts attempts beyond the first. Any thread may call this.
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

/// An executor that counts attempts.
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
        // Only one thread uses it, so it needs no locked instruction.
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
            // Completions are read first, so that what is seen as completed is seen as started.
            any: self.any.counts.each_ref().map(read),
            histogram: self.any.histogram.each_ref().map(read),
            own: self.own.counts.each_ref().map(read),
        }
    }

    fn restart(&self, occupant: &mut Option<Occupant>, id: i32, who: BackendType) {
        // Maxima have no difference. A value stored at this moment may be kept or lost; either is
        // right.
        self.own.in_flight_max.store(self.in_flight(), Relaxed);
        self.any.latency_max.store(0, Relaxed);
        *occupant = Some(Occupant { id, who, since: SystemTime::now(), base: self.values() });
    }

    fn row(&self, io_method: &'static str) -> Option<BackendStatsRow> {
        let occupant = self.occupant.lock();
        let occupant = occupant.as_ref()?;
        let now = self.values();
        let own = |what: Own| now.own[what as usize].wrapping_sub(occupant.base.own[what as usize]);
        let any = |what: Any| now.any[what as usize].wrapping_sub(occupant.base.any[what as usize]);
        let latency_histogram: [u64; LATENCY_CLASSES] =
            std::array::from_fn(|n| now.histogram[n].wrapping_sub(occupant.base.histogram[n]));
        Some(BackendStatsRow {
            pid: occupant.id,
            backend_type: occupant.who,
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
            stats_reset: occupant.since,
        })
    }
}
