//! The fixed table of handles: what each I/O in flight is, and the steps from definition to report.
//!
//! | Step | By | Function |
//! |---|---|---|
//! | take, define, stage | backend | `hand_out`, `define`, `stage`; or `release` |
//! | submit | backend | [`HandleTable::begin`], called by the method |
//! | execute here | backend or worker | [`HandleTable::execute`] |
//! | execute elsewhere | kernel; then whoever reaps | [`HandleTable::executed`], then [`HandleTable::finish`] |
//! | take the I/O out of its handle | backend | `collect`; what is left to do is in the [`Ended`] |
//!
//! The body of a handle is written only while its backend alone has it (HANDED_OUT,
//! COMPLETED_LOCAL); in between any number of threads may read it, and the kernel may hold the
//! addresses of its vectors.

use smallvec::SmallVec;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::completion::{
    Completed, Completion, IoReport, Outcome, SharedCompletion, Status, run_all,
};
use crate::counters::{Counters, CountingExecutor};
use crate::error::{AioError, Errno};
use crate::execute::{Executor, Request, Vector, Vectors, before, carry_out};
use crate::file::File;
use crate::handle::{HandleInfo, HandleState, StateCell, WaitRef, Word};
use crate::memory::{IO_ALIGN, Region};
use crate::merge::{Chain, Link, Piece};
use crate::method::Method;
use crate::op::{Account, Io, IoFlags, Op, OpKind, Target};
use crate::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, RwLock};

mod chain;

/// What a handle's I/O is.
pub(crate) struct Body {
    file: File,
    op: OpKind,
    offset: u64,
    /// Bytes of the file concerned: those of the memory, or of the range; 0 for syncs.
    length: u64,
    /// Bytes to transfer; 0 for all but transfers.
    expected: usize,
    vectors: Vectors,
    /// Keeps the memory behind the vectors.
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
    /// Executed by its issuer's thread, whatever the method: no ring will ever report it. Valid
    /// from STAGED on.
    inline: AtomicBool,
    /// The issuer gave up its report after starting.
    detached: AtomicBool,
    /// Bytes, or minus the error number. Valid from COMPLETED_IO on.
    raw: AtomicI64,
    /// Of the outcome. Valid from COMPLETED_SHARED on.
    status: AtomicU64,
    detail: AtomicU64,
    /// When it was submitted, for its latency; 0: not measured.
    since: AtomicU64,
    /// Its chain, if it was merged with neighbours.
    link: Link,
    /// Boxed: it goes from the issuer into the handle and back, and is larger than a cache line or
    /// two.
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

    /// Counters of pg_stat_aio_backends.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A staged handle is about to be submitted, at this time.
    pub(crate) fn stamp(&self, index: u32, now: u64) {
        self.handle(index).since.store(now, Relaxed);
    }

    /// Handles per backend.
    pub fn per_backend(&self) -> usize {
        self.per_backend
    }

    /// The backend slot a handle belongs to.
    pub fn slot_of(&self, index: u32) -> u32 {
        index / self.per_backend as u32
    }

    /// State and generation.
    pub fn word(&self, index: u32) -> Word {
        self.handle(index).state.load()
    }

    /// Sleeps until a handle's state or generation is another than `seen`.
    pub fn wait_change(&self, index: u32, seen: Word) {
        self.handle(index).state.wait_change(seen, || true);
    }

    /// Sleeps until a handle's state or generation is another than `seen`, or until `stay` (a
    /// sequentially consistent load) turned false and a [`HandleTable::nudge`] followed.
    pub fn wait_change_while(&self, index: u32, seen: Word, stay: impl Fn() -> bool) {
        self.handle(index).state.wait_change(seen, stay);
    }

    /// Makes the threads that sleep on a handle look again.
    pub fn nudge(&self, index: u32) {
        self.handle(index).state.nudge();
    }

    /// A reference to a handle's present use.
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

    /// Handed out -> idle, next generation: not needed after all.
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

    /// Staged -> submitted: the method has it, with all that were merged with it.
    pub fn begin(&self, index: u32) {
        self.handle(index).state.advance(HandleState::Staged, HandleState::Submitted);
        self.begin_followers(index);
    }

    /// Executes a submitted handle to its end in this thread. An executor that panics makes it an
    /// I/O error.
    pub fn execute(&self, index: u32) {
        let result = self.surviving(index, || self.carry(index, None));
        self.executed(index, result);
        self.conclude(index, result);
    }

    /// The same in a thread that dies when the executor panics, and leaves the handle SUBMITTED to
    /// whoever takes over.
    pub(crate) fn execute_or_die(&self, index: u32) {
        let result = self.carry(index, None);
        self.executed(index, result);
        self.conclude(index, result);
    }

    /// Submitted -> executed, with the result of the first attempt. The caller calls
    /// [`HandleTable::finish`] next, holding no lock.
    pub fn executed(&self, index: u32, result: Result<usize, Errno>) {
        self.executed_followers(index, result);
        let handle = self.handle(index);
        handle.raw.store(encode(result), Relaxed);
        handle.state.advance(HandleState::Submitted, HandleState::CompletedIo);
    }

    /// One attempt at a submitted handle's operation in this thread; of a transfer, at its first
    /// `most` bytes. Changes no state: the caller, who alone has the handle in hand, gives the
    /// result to [`HandleTable::executed`].
    pub(crate) fn attempt(&self, index: u32, most: usize) -> Result<usize, Errno> {
        self.with_kernel_view(index, |view| {
            let whole = Request::new(view.file, view.op, view.offset, view.length, view.vectors);
            if !view.op.is_transfer() || most as u64 >= view.length {
                return self.executor.execute(&whole);
            }
            self.executor.execute(&whole.with_vectors(&before(view.vectors, most)))
        })
    }

    /// Executed -> completed for all: continues a short transfer and runs the shared completions.
    pub fn finish(&self, index: u32) {
        let first = decode(self.handle(index).raw.load(Relaxed));
        let result = self.surviving(index, || self.carry(index, Some(first)));
        self.conclude(index, result);
    }

    /// What is done to a handle must end, whatever happens in the executor: others wait for it.
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
        self.with_chain(index, |c| self.carry_request(index, &c.request(), c.len, first))
            .unwrap_or_else(|| self.carry_alone(index, first))
    }

    fn carry_alone(&self, index: u32, first: Option<Result<usize, Errno>>) -> Result<usize, Errno> {
        // A read lock, although this may take long: nobody writes the body of a handle that is not
        // completed.
        let body = self.handle(index).body.read();
        let body = body.as_ref().expect("a submitted handle has a body");
        let whole = Request::new(&body.file, body.op, body.offset, body.length, &body.vectors);
        self.carry_request(index, &whole, body.expected, first)
    }

    fn carry_request(
        &self,
        index: u32,
        whole: &Request<'_>,
        expected: usize,
        first: Option<Result<usize, Errno>>,
    ) -> Result<usize, Errno> {
        let counting = CountingExecutor::new(&*self.executor);
        let result = carry_out(&counting, whole, expected, first);
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

    /// Completed for all -> idle, next generation. What is left to do for the I/O is the issuer's:
    /// its local completions, its report.
    pub(crate) fn collect(&self, index: u32) -> Ended {
        let handle = self.handle(index);
        handle.state.advance(HandleState::CompletedShared, HandleState::CompletedLocal);
        // Taken out under the lock, dropped (a file may close) after it.
        let body = handle.body.write().take().expect("a completed handle has a body");
        let result = decode(handle.raw.load(Relaxed));
        let outcome =
            Outcome::new(status_of(handle.status.load(Relaxed)), handle.detail.load(Relaxed));
        let detached = body.flags.detached || handle.detached.load(Relaxed);
        handle.state.advance(HandleState::CompletedLocal, HandleState::Idle);
        Ended { body, result, outcome, detached }
    }

    /// Is the handle's I/O on this open file?
    pub(crate) fn is_on(&self, index: u32, file: &File) -> bool {
        self.handle(index).body.read().as_ref().is_some_and(|b| b.file.same(file))
    }

    /// Threads that sleep on a handle.
    pub(crate) fn sleepers(&self, index: u32) -> u32 {
        self.handle(index).state.sleepers()
    }

    /// The account of an I/O.
    pub(crate) fn account(&self, index: u32) -> Option<Account> {
        self.handle(index).body.read().as_ref().and_then(|b| b.account)
    }

    /// Nobody will ask for the report.
    pub(crate) fn detach(&self, index: u32) {
        self.handle(index).detached.store(true, Relaxed);
    }

    /// Has this use of the handle ended?
    pub(crate) fn is_done(&self, r: WaitRef) -> bool {
        let word = self.word(r.index);
        word.generation() != r.generation || word.state() >= HandleState::CompletedShared
    }

    /// Waits until this use of the handle has ended; helps the method where it can.
    pub(crate) fn wait_done(&self, method: &dyn Method, r: WaitRef) {
        loop {
            let word = self.word(r.index);
            if word.generation() != r.generation {
                debug_assert!(word.generation() > r.generation, "a reference to the future");
                return;
            }
            if word.state() >= HandleState::CompletedShared || word.state() == HandleState::Idle {
                return;
            }
            self.step(r.index, word, |index, seen| method.wait(self, index, seen));
        }
    }

    /// Sleeps until this use of the handle, or where the method can tell any other I/O of its
    /// backend, may have moved on. Only the backend itself calls this.
    pub(crate) fn step_any(&self, method: &dyn Method, r: WaitRef) {
        let word = self.word(r.index);
        if word.generation() == r.generation && word.state() < HandleState::CompletedShared {
            self.step(r.index, word, |index, seen| method.wait_any(self, index, seen));
        }
    }

    /// Waits by way of the method for a handle that is with it, and for the handle itself
    /// otherwise.
    fn step(&self, index: u32, word: Word, wait: impl FnOnce(u32, Word)) {
        if word.state() == HandleState::Submitted && !self.handle(index).inline.load(Relaxed) {
            if let Some((head, seen)) = self.at_method(index, word) {
                wait(head, seen);
            }
        } else {
            self.wait_change(index, word);
        }
    }

    /// How to hand a submitted handle to the kernel.
    pub(crate) fn with_kernel_view<R>(&self, index: u32, f: impl FnOnce(KernelView<'_>) -> R) -> R {
        let link = &self.handle(index).link;
        if link.head() == Some(index) {
            let chain = link.chain.read();
            let chain = chain.as_ref().expect("a head has its chain until it is completed");
            let Chain { file, op, offset, len, vectors, region, .. } = &**chain;
            let (length, region) = (*len as u64, region.as_deref());
            return f(KernelView { file, op: *op, offset: *offset, length, vectors, region });
        }
        let body = self.handle(index).body.read();
        let body = body.as_ref().expect("a staged handle has a body");
        let Body { file, op, offset, length, vectors, region, .. } = &**body;
        f(KernelView {
            file,
            op: *op,
            offset: *offset,
            length: *length,
            vectors,
            region: region.as_deref(),
        })
    }

    /// pg_aios.
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
            let mut info =
                HandleInfo::bare(index, word, slot, self.owners[slot as usize].load(Relaxed));
            if let Some(body) = handle.body.read().as_ref() {
                body.describe(&mut info);
            }
            if word.state() >= HandleState::CompletedIo {
                info.raw_result = Some(handle.raw.load(Relaxed));
            }
            if word.state() >= HandleState::CompletedShared {
                info.result = status_of(handle.status.load(Relaxed)).name();
            }
            // As PostgreSQL does: what belongs to another use by now is read again.
            if handle.state.load().generation() == word.generation() {
                return Some(info);
            }
        }
    }
}

/// An I/O whose handle was given back, in its issuer's hands.
pub(crate) struct Ended {
    body: Box<Body>,
    result: Result<usize, Errno>,
    outcome: Outcome,
    pub(crate) detached: bool,
}

impl Ended {
    /// As its completions see it.
    pub(crate) fn completed(&self, issuer: u32) -> Completed<'_> {
        self.body.completed(self.result, self.outcome, issuer)
    }

    /// What the local completions made of it.
    pub(crate) fn set_outcome(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// The report.
    pub(crate) fn report(&self) -> IoReport {
        self.body.report(self.result, self.outcome)
    }
}

/// What the kernel needs to know of an I/O.
pub(crate) struct KernelView<'a> {
    pub(crate) file: &'a File,
    pub(crate) op: OpKind,
    pub(crate) offset: u64,
    /// Bytes of the file concerned; the operations on a range have no vectors.
    pub(crate) length: u64,
    pub(crate) vectors: &'a [Vector],
    /// Where all the vectors lie; None: in several, or there are none.
    pub(crate) region: Option<&'a Region>,
}

fn status_of(n: u64) -> Status {
    [Status::Unknown, Status::Ok, Status::Partial, Status::Warning, Status::Error]
        .get(n as usize)
        .copied()
        .unwrap_or_default()
}

impl Body {
    /// An I/O in the form in which it is executed. This is the one place that checks alignment.
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

    /// What to do.
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

impl HandleInfo {
    fn bare(index: u32, word: Word, slot: u32, backend_id: i32) -> HandleInfo {
        HandleInfo {
            backend: slot,
            backend_id,
            io_id: index,
            generation: word.generation(),
            state: word.state(),
            operation: OpKind::Invalid,
            offset: None,
            length: None,
            target: None,
            handle_data_len: 0,
            raw_result: None,
            result: Status::Unknown.name(),
            target_desc: None,
            f_sync: false,
            f_localmem: false,
            f_buffered: false,
            file: None,
        }
    }
}
