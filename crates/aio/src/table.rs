//! The fixed table of handles: the I/O of each handle, and its steps from definition to report.
//!
//! | Step | Made by | Function |
//! |---|---|---|
//! | take, define, stage | backend | `hand_out`, `define`, `stage`; or `release` |
//! | submit | backend | [`HandleTable::begin`], which the method calls |
//! | execute here | backend, worker | [`HandleTable::execute`] |
//! | execute elsewhere | kernel, then reaper | [`HandleTable::executed`], [`HandleTable::finish`] |
//! | take out of the handle | backend | `collect`, which returns an [`Ended`] |
//!
//! The body of a handle is written only while only its backend uses the handle (HANDED_OUT,
//! COMPLETED_LOCAL). In between, any thread may read it, and the kernel may hold the addresses of
//! its vectors.

use smallvec::SmallVec;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::completion::{Completed, IoReport, Outcome, SharedCompletion, Status, run_all};
use crate::counters::{Counters, CountingExecutor};
use crate::error::{AioError, Errno};
use crate::execute::{Executor, Request, Vector, Vectors, before, carry_out};
use crate::file::File;
use crate::handle::{HandleInfo, HandleState, StateCell, WaitRef, Word};
use crate::io::{Completion, Io, IoFlags, Op};
use crate::memory::{IO_ALIGN, Region};
use crate::merge::{Link, Piece};
use crate::op::{OpKind, Target};
use crate::stats::Account;
use crate::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, RwLock};

mod chain;

/// The I/O of a handle.
pub(crate) struct Body {
    file: File,
    op: OpKind,
    offset: u64,
    /// Bytes of the file concerned: those of the memory, or of the range; 0 for syncs.
    length: u64,
    /// Bytes to transfer; 0 for all but transfers.
    expected: usize,
    vectors: Vectors,
    /// Keeps the memory of the vectors alive.
    region: Option<Arc<Region>>,
    target: Target,
    /// In the order of registration; run in the opposite order.
    completions: SmallVec<[Arc<dyn SharedCompletion>; 1]>,
    data: SmallVec<[u32; 16]>,
    flags: IoFlags,
    account: Option<Account>,
}

struct Handle {
    state: StateCell,
    /// The issuer's thread executes it, whatever the method, so no ring will report it. Valid from
    /// STAGED on.
    inline: AtomicBool,
    /// The issuer gave up its report after starting it.
    detached: AtomicBool,
    /// Bytes, or minus the error number. Valid from COMPLETED_IO on.
    raw: AtomicI64,
    /// The status of the outcome. Valid from COMPLETED_SHARED on.
    status: AtomicU64,
    detail: AtomicU64,
    /// When it was submitted, for its latency; 0 if that is not measured.
    since: AtomicU64,
    /// Its chain, if it was merged with neighbours.
    link: Link,
    /// Boxed, because it moves from the issuer into the handle and back, and is larger than a cache
    /// line or two.
    body: RwLock<Option<Box<Body>>>,
}

/// All handles of an [`Aio`](crate::Aio).
pub struct HandleTable {
    handles: Box<[Handle]>,
    owners: Box<[AtomicI32]>,
    per_backend: usize,
    executor: Arc<dyn Executor>,
    counters: Counters,
}

fn encode(r: Result<usize, Errno>) -> i64 {
    match r {
        Ok(n) => n as i64,
        Err(e) => -i64::from(e.0),
    }
}

fn decode(raw: i64) -> Result<usize, Errno> {
    usize::try_from(raw).map_err(|_| Errno(-raw as i32))
}

impl HandleTable {
    pub(crate) fn new(
        backends: usize,
        per_backend: usize,
        executor: Arc<dyn Executor>,
    ) -> HandleTable {
        let handle = || Handle {
            state: StateCell::new(),
            inline: AtomicBool::new(false),
            detached: AtomicBool::new(false),
            raw: AtomicI64::new(0),
            status: AtomicU64::new(0),
            detail: AtomicU64::new(0),
            since: AtomicU64::new(0),
            link: Link::new(),
            body: RwLock::new(None),
        };
        HandleTable {
            handles: (0..backends * per_backend).map(|_| handle()).collect(),
            owners: (0..backends).map(|_| AtomicI32::new(0)).collect(),
            per_backend,
            executor,
            counters: Counters::new(backends),
        }
    }

    fn handle(&self, index: u32) -> &Handle {
        &self.handles[index as usize]
    }

    /// The counters of pg_stat_aio_backends.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Notes when a staged handle is submitted.
    pub(crate) fn stamp(&self, index: u32, now: u64) {
        self.handle(index).since.store(now, Relaxed);
    }

    /// How many handles each backend has.
    pub fn per_backend(&self) -> usize {
        self.per_backend
    }

    /// The backend slot of a handle.
    pub fn slot_of(&self, index: u32) -> u32 {
        index / self.per_backend as u32
    }

    /// The state and generation of a handle.
    pub fn word(&self, index: u32) -> Word {
        self.handle(index).state.load()
    }

    /// Sleeps until a handle's word differs from `seen`.
    pub fn wait_change(&self, index: u32, seen: Word) {
        self.handle(index).state.wait_change(seen, || true);
    }

    /// Sleeps until a handle's word differs from `seen`, or until `stay` (a sequentially consistent
    /// load) is false and a [`HandleTable::nudge`] followed.
    pub fn wait_change_while(&self, index: u32, seen: Word, stay: impl Fn() -> bool) {
        self.handle(index).state.wait_change(seen, stay);
    }

    /// Makes the threads that sleep on a handle check their conditions again.
    pub fn nudge(&self, index: u32) {
        self.handle(index).state.nudge();
    }

    /// A reference to the current use of a handle.
    pub(crate) fn wait_ref(&self, index: u32) -> WaitRef {
        WaitRef { index, generation: self.word(index).generation() }
    }

    pub(crate) fn set_owner(&self, slot: u32, id: i32) {
        self.owners[slot as usize].store(id, Relaxed);
    }

    /// Idle -> handed out.
    pub(crate) fn hand_out(&self, index: u32) {
        self.handle(index).state.advance(HandleState::Idle, HandleState::HandedOut);
    }

    /// Handed out -> idle, with the next generation: the handle is not needed.
    pub(crate) fn release(&self, index: u32) {
        self.handle(index).state.advance(HandleState::HandedOut, HandleState::Idle);
    }

    /// Handed out -> defined.
    pub(crate) fn define(&self, index: u32, body: Box<Body>) {
        let handle = self.handle(index);
        *handle.body.write() = Some(body);
        handle.state.advance(HandleState::HandedOut, HandleState::Defined);
    }

    /// Defined -> staged.
    pub(crate) fn stage(&self, index: u32, inline: bool) {
        let handle = self.handle(index);
        handle.inline.store(inline, Relaxed);
        handle.detached.store(false, Relaxed);
        handle.link.clear();
        handle.state.advance(HandleState::Defined, HandleState::Staged);
    }

    /// Staged -> submitted: the method has the handle, with all that were merged with it.
    pub fn begin(&self, index: u32) {
        self.handle(index).state.advance(HandleState::Staged, HandleState::Submitted);
        self.begin_followers(index);
    }

    /// Executes a submitted handle to its end in this thread. A panic of the executor becomes an
    /// I/O error.
    pub fn execute(&self, index: u32) {
        let result = self.surviving(index, || self.carry(index, None));
        self.executed(index, result);
        self.conclude(index, result);
    }

    /// Like [`HandleTable::execute`], but a panic of the executor ends the thread, and leaves the
    /// handle SUBMITTED to its successor.
    pub(crate) fn execute_or_die(&self, index: u32) {
        let result = self.carry(index, None);
        self.executed(index, result);
        self.conclude(index, result);
    }

    /// Submitted -> executed, with the result of the first attempt. The caller then calls
    /// [`HandleTable::finish`], without holding a lock.
    pub fn executed(&self, index: u32, result: Result<usize, Errno>) {
        self.executed_followers(index, result);
        let handle = self.handle(index);
        handle.raw.store(encode(result), Relaxed);
        handle.state.advance(HandleState::Submitted, HandleState::CompletedIo);
    }

    /// Makes one attempt at the operation of a submitted handle; for a transfer, at its first
    /// `most` bytes. The state does not change: only the caller has the handle, and it passes the
    /// result to [`HandleTable::executed`].
    pub(crate) fn attempt(&self, index: u32, most: usize) -> Result<usize, Errno> {
        self.with_request(index, |whole| {
            if !whole.op.is_transfer() || most as u64 >= whole.length {
                return self.executor.execute(whole);
            }
            self.executor.execute(&whole.with_vectors(&before(whole.vectors, most)))
        })
    }

    /// Executed -> completed shared: continues a short transfer, and runs the shared completions.
    pub fn finish(&self, index: u32) {
        let first = decode(self.handle(index).raw.load(Relaxed));
        let result = self.surviving(index, || self.carry(index, Some(first)));
        self.conclude(index, result);
    }

    /// Turns a panic into an I/O error, because other threads wait for the handle.
    fn surviving(
        &self,
        index: u32,
        attempt: impl FnOnce() -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|_| {
            tracing::error!(index, "the execution of an I/O panicked");
            Err(Errno::IO)
        })
    }

    fn carry(&self, index: u32, first: Option<Result<usize, Errno>>) -> Result<usize, Errno> {
        self.with_request(index, |whole| self.carry_request(index, whole, first))
    }

    fn carry_request(
        &self,
        index: u32,
        whole: &Request<'_>,
        first: Option<Result<usize, Errno>>,
    ) -> Result<usize, Errno> {
        let counting = CountingExecutor::new(&*self.executor);
        let result = carry_out(&counting, whole, first);
        let beyond_first = counting.attempts() - u64::from(first.is_none());
        self.counters.retried(self.slot_of(index), beyond_first);
        result
    }

    fn complete_shared(&self, index: u32, result: Result<usize, Errno>) {
        let handle = self.handle(index);
        handle.raw.store(encode(result), Relaxed);
        let outcome = {
            let body = handle.body.read();
            body.as_ref()
                .expect("an executed handle has a body")
                .complete(result, self.slot_of(index))
        };
        self.counters.outcome(self.slot_of(index), outcome.status);
        handle.status.store(outcome.status as u64, Relaxed);
        handle.detail.store(outcome.detail, Relaxed);
        handle.state.advance(HandleState::CompletedIo, HandleState::CompletedShared);
    }

    /// Completed shared -> idle, with the next generation. The issuer then runs the local
    /// completions and makes the report.
    pub(crate) fn collect(&self, index: u32) -> Ended {
        let handle = self.handle(index);
        handle.state.advance(HandleState::CompletedShared, HandleState::CompletedLocal);
        // Taken out under the lock, and dropped (which may close a file) after it.
        let body = handle.body.write().take().expect("a completed handle has a body");
        let result = decode(handle.raw.load(Relaxed));
        let outcome = Outcome::new(
            Status::ALL[handle.status.load(Relaxed) as usize],
            handle.detail.load(Relaxed),
        );
        let detached = body.flags.detached || handle.detached.load(Relaxed);
        handle.state.advance(HandleState::CompletedLocal, HandleState::Idle);
        Ended { body, result, outcome, detached }
    }

    /// Whether the handle's I/O is on this open file.
    pub(crate) fn is_on(&self, index: u32, file: &File) -> bool {
        self.handle(index).body.read().as_ref().is_some_and(|b| b.file.same(file))
    }

    /// How many threads sleep on a handle.
    pub(crate) fn sleepers(&self, index: u32) -> u32 {
        self.handle(index).state.sleepers()
    }

    /// The account of a handle's I/O.
    pub(crate) fn account(&self, index: u32) -> Option<Account> {
        self.handle(index).body.read().as_ref().and_then(|b| b.account)
    }

    /// Nobody will ask for the report.
    pub(crate) fn detach(&self, index: u32) {
        self.handle(index).detached.store(true, Relaxed);
    }

    /// Whether this use of the handle has ended.
    pub(crate) fn is_done(&self, r: WaitRef) -> bool {
        let word = self.word(r.index);
        word.generation() != r.generation || word.state() >= HandleState::CompletedShared
    }

    /// Waits until this use of the handle has ended. `wait` waits by way of the method for a handle
    /// that was seen SUBMITTED.
    pub(crate) fn wait_done(&self, r: WaitRef, wait: impl Fn(u32, Word)) {
        loop {
            let word = self.word(r.index);
            if word.generation() != r.generation {
                debug_assert!(word.generation() > r.generation, "a reference to the future");
                return;
            }
            if word.state() >= HandleState::CompletedShared || word.state() == HandleState::Idle {
                return;
            }
            self.step(r.index, word, &wait);
        }
    }

    /// Sleeps once until this use of the handle may have moved on, or any other I/O of its backend
    /// if the method can tell. Only the backend itself calls this.
    pub(crate) fn step_any(&self, r: WaitRef, wait_any: impl Fn(u32, Word)) {
        let word = self.word(r.index);
        if word.generation() == r.generation && word.state() < HandleState::CompletedShared {
            self.step(r.index, word, wait_any);
        }
    }

    /// Waits once: by way of the method for a handle that is with it, otherwise on the handle.
    fn step(&self, index: u32, word: Word, wait: impl FnOnce(u32, Word)) {
        if word.state() == HandleState::Submitted && !self.handle(index).inline.load(Relaxed) {
            if let Some((head, seen)) = self.at_method(index, word) {
                wait(head, seen);
            }
        } else {
            self.wait_change(index, word);
        }
    }

    /// Calls `f` with the I/O of a handle, or of the chain of which it is the head.
    pub(crate) fn with_request<R>(&self, index: u32, f: impl FnOnce(&Request<'_>) -> R) -> R {
        if !self.is_head(index) {
            return self.with_own_request(index, f);
        }
        // This read lock may be held long: no thread takes the chain away before it is completed.
        let chain = self.handle(index).link.chain.read();
        f(&chain.as_ref().expect("a head has its chain until it is completed").request())
    }

    /// Calls `f` with the I/O of a handle, also if it is merged with others.
    fn with_own_request<R>(&self, index: u32, f: impl FnOnce(&Request<'_>) -> R) -> R {
        // This read lock may be held long: no thread writes the body of a handle that is not
        // completed.
        let body = self.handle(index).body.read();
        f(&body.as_ref().expect("a staged handle has a body").request())
    }

    /// The rows of pg_aios.
    pub(crate) fn snapshot(&self) -> Vec<HandleInfo> {
        (0..self.handles.len() as u32).filter_map(|i| self.info(i)).collect()
    }

    fn info(&self, index: u32) -> Option<HandleInfo> {
        let handle = self.handle(index);
        loop {
            let word = handle.state.load();
            if word.state() == HandleState::Idle {
                return None;
            }
            let slot = self.slot_of(index);
            let mut info = HandleInfo {
                backend: slot,
                backend_id: self.owners[slot as usize].load(Relaxed),
                io_id: index,
                generation: word.generation(),
                state: word.state(),
                result: Status::Unknown.name(),
                ..HandleInfo::default()
            };
            if let Some(body) = handle.body.read().as_ref() {
                body.describe(&mut info);
            }
            if word.state() >= HandleState::CompletedIo {
                info.raw_result = Some(handle.raw.load(Relaxed));
            }
            if word.state() >= HandleState::CompletedShared {
                info.result = Status::ALL[handle.status.load(Relaxed) as usize].name();
            }
            // As in PostgreSQL, a row that mixes two uses is read again.
            if handle.state.load().generation() == word.generation() {
                return Some(info);
            }
        }
    }
}

/// An I/O whose handle was given back.
pub(crate) struct Ended {
    body: Box<Body>,
    result: Result<usize, Errno>,
    outcome: Outcome,
    pub(crate) detached: bool,
}

impl Ended {
    /// The I/O as its completions see it.
    pub(crate) fn completed(&self, issuer: u32) -> Completed<'_> {
        self.body.completed(self.result, self.outcome, issuer)
    }

    /// Sets the outcome of the local completions.
    pub(crate) fn set_outcome(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// The report of the I/O.
    pub(crate) fn report(&self) -> IoReport {
        self.body.report(self.result, self.outcome)
    }
}

impl Body {
    /// Converts an I/O to the form in which it is executed. Only this function checks alignment.
    pub(crate) fn new(io: Io) -> Box<Body> {
        let op = io.op.kind();
        let (offset, range, memory) = match io.op {
            Op::Readv { offset, memory } | Op::Writev { offset, memory } => {
                (offset, 0, Some(memory))
            }
            Op::SyncFileRange { offset, len } | Op::Allocate { offset, len } => (offset, len, None),
            Op::Fsync | Op::Fdatasync => (0, 0, None),
        };
        let mut vectors = Vectors::new();
        let mut expected = 0;
        if let Some(m) = &memory {
            let direct = io.file.is_direct();
            assert!(
                !direct || offset.is_multiple_of(IO_ALIGN as u64),
                "direct I/O at unaligned offset {offset}"
            );
            assert!(!m.slices.is_empty(), "a transfer has memory");
            for s in &m.slices {
                let inside = s.offset.checked_add(s.len).is_some_and(|end| end <= m.region.len());
                assert!(
                    inside && s.len > 0,
                    "memory {s:?} outside of a region of {} bytes",
                    m.region.len()
                );
                let ptr = m.region.ptr(s.offset);
                assert!((ptr as usize).is_multiple_of(IO_ALIGN), "I/O memory at unaligned {ptr:?}");
                assert!(
                    !direct || s.len.is_multiple_of(IO_ALIGN),
                    "direct I/O of unaligned length {}",
                    s.len
                );
                vectors.push(Vector::new(ptr, s.len));
                expected += s.len;
            }
        }
        let most = Completion::MAX;
        assert!(io.completions.len() <= most, "an I/O has at most {most} completions");
        let completions = match io.completions.is_empty() {
            true => SmallVec::new(),
            false => io.completions.into_iter().filter_map(|c| c.shared).collect(),
        };
        Box::new(Body {
            file: io.file,
            op,
            offset,
            length: range + expected as u64,
            expected,
            vectors,
            region: memory.map(|m| m.region),
            target: io.target,
            completions,
            data: io.data,
            flags: io.flags,
            account: io.account,
        })
    }

    /// What merging needs to know of it.
    pub(crate) fn piece(&self, index: u32) -> Piece {
        Piece {
            index,
            file: self.file.id(),
            op: self.op,
            offset: self.offset,
            len: self.length,
            vectors: self.vectors.len(),
            local_memory: self.flags.local_memory,
        }
    }

    /// The I/O as one request.
    fn request(&self) -> Request<'_> {
        Request {
            file: &self.file,
            op: self.op,
            offset: self.offset,
            length: self.length,
            vectors: &self.vectors,
            region: self.region.as_deref(),
        }
    }

    /// The operation.
    pub(crate) fn op(&self) -> OpKind {
        self.op
    }

    /// Bytes of the file concerned.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    fn complete(&self, result: Result<usize, Errno>, issuer: u32) -> Outcome {
        let transfer = Outcome::of_transfer(result, self.expected);
        let mut done = self.completed(result, transfer, issuer);
        run_all(self.completions.iter().rev(), &mut done, |shared, done| shared.complete(done))
    }

    fn completed(
        &self,
        result: Result<usize, Errno>,
        outcome: Outcome,
        issuer: u32,
    ) -> Completed<'_> {
        Completed {
            result,
            expected: self.expected,
            op: self.op,
            offset: self.offset,
            file: &self.file,
            target: &self.target,
            data: &self.data,
            issuer,
            outcome,
        }
    }

    fn report(&self, result: Result<usize, Errno>, outcome: Outcome) -> IoReport {
        let error = match outcome.status {
            Status::Ok | Status::Warning => None,
            _ => Some(Box::new(self.error(result, outcome))),
        };
        IoReport { transferred: result.unwrap_or(0), expected: self.expected, outcome, error }
    }

    fn error(&self, result: Result<usize, Errno>, outcome: Outcome) -> AioError {
        let path = self.file.path().to_path_buf();
        let target = match &self.target {
            Target::File => format!("file \"{}\"", path.display()),
            t => t.to_string(),
        };
        let (op, offset, expected) = (self.op, self.offset, self.expected);
        match result {
            Err(errno) => AioError::Io { op, target, path, offset, len: self.length, errno },
            Ok(got) if got < expected => {
                AioError::Short { op, target, path, offset, got, expected }
            }
            Ok(_) => AioError::Rejected { op, target, path, detail: outcome.detail },
        }
    }

    fn describe(&self, info: &mut HandleInfo) {
        info.operation = self.op;
        if self.op.has_range() {
            info.offset = Some(self.offset);
            info.length = Some(self.length);
        }
        info.target = Some(self.target.name());
        info.target_desc = Some(match &self.target {
            Target::File => self.file.path().display().to_string(),
            t => t.to_string(),
        });
        info.handle_data_len = self.data.len();
        info.f_sync = self.flags.synchronous;
        info.f_localmem = self.flags.local_memory;
        info.f_buffered = !self.file.is_direct();
        info.file = Some(self.file.clone());
    }
}
