//! [`IoBackend`]: one thread stages, submits and waits for I/O.
//!
//! | Module | Contents |
//! |---|---|
//! | `acquire` | handles taken before their I/O is known: [`Acquired`] |
//! | `local` | local halves of completions that have not run |
//! | `finish` | runs local halves, makes reports |
//! | `leftovers` | cleanup after statements, transactions and errors: [`Leftovers`] |

mod acquire;
mod finish;
mod leftovers;
mod local;

pub use acquire::Acquired;
pub use leftovers::Leftovers;

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use smallvec::SmallVec;

use crate::aio::Aio;
use crate::completion::{IoReport, IoResult};
use crate::counters::Own;
use crate::error::{AioError, IfFound};
use crate::file::{File, OpenOptions};
use crate::handle::{HandleState, WaitRef};
use crate::io::{Io, IoFlags, Issuer, Op};
use crate::memory::AlignedBuf;
use crate::merge::{MAX_STAGED, Piece, Plan};
use crate::op::{OpKind, Target};
use crate::stats::{Account, BackendType, Counts, IoContext, IoObject, IoOp, Matrix, Usage};
use crate::sync::{Arc, Instant};
use crate::table::{Body, Ended};
use local::{LocalHalves, Locals};

/// The right to start I/O. One thread at a time owns it. Dropping it submits what is staged and
/// waits for what is in flight.
pub struct IoBackend {
    aio: Arc<Aio>,
    slot: u32,
    id: i32,
    who: BackendType,
    idle: Vec<u32>,
    /// Handles in use, in the order they were started; the staged ones are the last.
    in_use: VecDeque<u32>,
    staged: Vec<Piece>,
    combine_limit: usize,
    in_batch: bool,
    /// Acquired, and neither started nor released.
    handed_out: Option<WaitRef>,
    /// Local halves that have not run.
    locals: Locals,
    /// Reports that nobody has asked for yet, of handles that are in use again.
    reports: HashMap<WaitRef, IoReport>,
    counters: Arc<Matrix>,
}

/// An I/O that is about to get a handle.
struct Prepared {
    body: Box<Body>,
    locals: LocalHalves,
    inline: bool,
    account: Option<Account>,
}

impl Aio {
    /// A backend with an id that is chosen.
    ///
    /// # Errors
    /// All slots are taken, or the method refuses another backend.
    pub fn backend(self: &Arc<Aio>, who: BackendType) -> Result<IoBackend, AioError> {
        let (slot, id) = self.take_slot(who, None)?;
        Ok(IoBackend::new(Arc::clone(self), slot, id, who))
    }

    /// A backend with the caller's `id`, which pg_aios shows as pid.
    ///
    /// # Errors
    /// As [`Aio::backend`].
    pub fn backend_with_id(
        self: &Arc<Aio>,
        who: BackendType,
        id: i32,
    ) -> Result<IoBackend, AioError> {
        let (slot, id) = self.take_slot(who, Some(id))?;
        Ok(IoBackend::new(Arc::clone(self), slot, id, who))
    }
}

impl Issuer for IoBackend {
    fn start(&mut self, io: Io) -> WaitRef {
        IoBackend::start(self, io)
    }

    fn wait(&mut self, r: WaitRef) -> IoResult {
        IoBackend::wait(self, r)
    }

    fn run(&mut self, io: Io) -> Result<usize, AioError> {
        IoBackend::run(self, io)
    }
}

impl IoBackend {
    /// A batch of this many I/Os is submitted by itself.
    pub const MAX_STAGED: usize = MAX_STAGED;

    fn new(aio: Arc<Aio>, slot: u32, id: i32, who: BackendType) -> IoBackend {
        let per_backend = aio.handles_per_backend() as u32;
        let base = slot * per_backend;
        let counters = aio.stats().enter(who);
        IoBackend {
            slot,
            id,
            who,
            idle: (base..base + per_backend).rev().collect(),
            in_use: VecDeque::with_capacity(per_backend as usize),
            staged: Vec::with_capacity(IoBackend::MAX_STAGED),
            combine_limit: usize::MAX,
            in_batch: false,
            handed_out: None,
            locals: Locals::new(per_backend as usize),
            reports: HashMap::new(),
            counters,
            aio,
        }
    }

    /// The number of its slot: unique among living backends, and below `max_backends`.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Its id, which pg_aios shows as pid.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The type under which its I/O is counted.
    pub fn backend_type(&self) -> BackendType {
        self.who
    }

    /// The I/O layer it belongs to.
    pub fn aio(&self) -> &Arc<Aio> {
        &self.aio
    }

    /// How many of its I/Os are staged and not yet submitted.
    pub fn staged(&self) -> usize {
        self.staged.len()
    }

    /// How many of its handles are in use.
    pub fn in_flight(&self) -> usize {
        self.in_use.len()
    }

    /// How many handles could be taken without waiting.
    pub fn idle_handles(&self) -> usize {
        self.idle.len()
    }

    /// Starts an I/O and returns a reference to wait with. If no handle is idle, it waits for the
    /// oldest I/O. The report tells whether the I/O failed.
    ///
    /// Outside a batch the I/O is submitted at once; inside a batch it is staged. An I/O that is to
    /// be synchronous, or that the method can't execute, is executed here, after what is staged is
    /// submitted.
    pub fn start(&mut self, io: Io) -> WaitRef {
        let prepared = self.prepare(io);
        let index = self.take_handle();
        let r = self.launch(index, prepared);
        self.run_due();
        r
    }

    /// Does what an assertion may refuse before a handle is taken, so that no handle is lost.
    fn prepare(&self, mut io: Io) -> Prepared {
        let method = self.aio.method();
        let inline = io.flags.synchronous
            || method.synchronous() && !self.in_batch
            || !method.executes(io.op.kind());
        let account = io.account;
        let locals = match io.completions.is_empty() {
            true => LocalHalves::new(),
            false => io.completions.iter_mut().filter_map(|c| c.local.take()).collect(),
        };
        Prepared { body: Body::new(io), locals, inline, account }
    }

    /// Defines and stages a handle, and submits it unless a batch is open.
    fn launch(&mut self, index: u32, prepared: Prepared) -> WaitRef {
        let Prepared { body, locals, inline, account } = prepared;
        if inline {
            self.submit();
        }
        let handed_over = inline && self.must_hand_over(body.op());
        let inline = inline && !handed_over;
        self.aio.table().counters().count_operation(self.slot, body.op(), body.length());
        if let Some(a) = account {
            let bytes = body.length();
            self.counters.add_owned(a, Counts { count: 1, bytes, time_ns: 0 });
        }
        self.locals.put(index, locals);
        let piece = body.piece(index);
        let table = self.aio.table();
        table.define(index, body);
        table.stage(index, inline);
        let r = table.wait_ref(index);
        self.in_use.push_back(index);
        if inline {
            let clock = self.clock(account);
            self.tally(Own::Immediate, 1);
            self.submitting([index].into_iter());
            self.aio.table().begin(index);
            self.aio.table().execute(index);
            self.charge(clock);
        } else {
            self.tally(Own::Staged, 1);
            self.staged.push(piece);
            if !self.in_batch || handed_over || self.staged.len() == IoBackend::MAX_STAGED {
                let clock = self.clock(account.filter(|_| !self.aio.method().synchronous()));
                self.submit();
                self.charge(clock);
            }
        }
        r
    }

    /// Whether the method must execute an operation that this thread would execute itself. It must
    /// if completions need this thread and some are due: a direct call may put the thread to a
    /// sleep that only the disk ends. With nothing in flight one direct call is cheapest.
    fn must_hand_over(&self, op: OpKind) -> bool {
        let method = self.aio.method();
        // The cheapest question comes first: a commit has nothing in use.
        !self.in_use.is_empty()
            && method.completes_through_issuer()
            && method.executes(op)
            && self.aio.table().counters().in_flight(self.slot) > 0
    }

    /// Sets this backend's own combine limit in bytes; [`Aio::combine_limit`] applies too. Returns
    /// the previous one.
    pub fn set_combine_limit(&mut self, bytes: usize) -> usize {
        std::mem::replace(&mut self.combine_limit, bytes)
    }

    /// Begins a batch. Batches don't nest. While anything is staged, don't block on another backend
    /// without [`IoBackend::submit`].
    pub fn begin_batch(&mut self) {
        assert!(!self.in_batch, "batches don't nest");
        self.in_batch = true;
    }

    /// Submits what is staged, and ends the batch.
    pub fn end_batch(&mut self) {
        assert!(self.in_batch, "no batch to end");
        self.in_batch = false;
        self.submit();
    }

    /// Whether a batch is open.
    pub fn in_batch(&self) -> bool {
        self.in_batch
    }

    /// Submits what is staged, with neighbours merged, in one system call if the method can. An
    /// open batch stays open.
    pub fn submit(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let mut staged = std::mem::take(&mut self.staged);
        let before = self.in_use.len() - staged.len();
        let heads = self.merge(&staged);
        self.tally(Own::Submissions, 1);
        self.tally(Own::Issued, heads.len() as u64);
        self.tally(Own::Merged, (staged.len() - heads.len()) as u64);
        self.submitting(staged.iter().map(|p| p.index));
        let (method, table) = (self.aio.method(), self.aio.table());
        if method.synchronous() && self.aio.track_io_timing() {
            // The submitter executes here, so each I/O is charged for its own time.
            for &head in &heads {
                let clock = self.clock(table.account(head));
                method.submit(table, self.slot, &[head], before);
                self.charge(clock);
            }
        } else {
            method.submit(table, self.slot, &heads, before);
        }
        staged.clear();
        self.staged = staged;
    }

    /// Chains neighbours; returns the handles to submit.
    fn merge(&self, staged: &[Piece]) -> SmallVec<[u32; MAX_STAGED]> {
        let limit = self.aio.combine_limit().min(self.combine_limit);
        if staged.len() == 1 || limit == 0 {
            return staged.iter().map(|p| p.index).collect();
        }
        let table = self.aio.table();
        let plan = Plan::new(staged, limit, |a, b| table.same_path(a, b));
        plan.units().map(|unit| table.link(unit.map(|n| staged[n].index))).collect()
    }

    /// Waits for an I/O of any backend, after submitting what is staged, and leaves the report to
    /// who started it: a stream of this backend may ask for it later.
    pub fn wait_and_keep(&mut self, r: WaitRef) {
        self.submit();
        if !self.owns(r) {
            self.wait_counted(r);
            return;
        }
        if self.aio.table().word(r.index).generation() == r.generation {
            assert!(self.handed_out != Some(r), "an I/O that was not started is not waited for");
            self.take_back(r);
        }
        self.run_due();
    }

    /// Waits for an I/O of any backend, after submitting what is staged. An I/O of this backend
    /// yields its report, once.
    pub fn wait(&mut self, r: WaitRef) -> IoResult {
        if !self.owns(r) {
            self.submit();
            self.wait_counted(r);
            return IoResult::Finished;
        }
        let word = self.aio.table().word(r.index);
        let result = if word.generation() == r.generation {
            assert!(self.handed_out != Some(r), "an I/O that was not started is not waited for");
            if word.state() == HandleState::Staged {
                self.submit();
            }
            let ended = self.finish(r);
            IoResult::Own(self.conclude(r, ended))
        } else if let Some((ended, halves)) = self.locals.take_due(r) {
            IoResult::Own(self.conclude_with(ended, halves))
        } else {
            self.reports.remove(&r).map_or(IoResult::Finished, IoResult::Own)
        };
        self.run_due();
        result
    }

    /// Submits what is staged, waits until any I/O of this backend has finished, and returns all
    /// that have, the oldest first. Returns nothing if nothing is in flight.
    ///
    /// It is for windows of I/O whose order does not matter: a window that waits for its oldest I/O
    /// can't refill the places of those that finish earlier. A method that can't tell waits for the
    /// oldest I/O, and so do fault plans, and io_uring while another thread waits on the same ring.
    pub fn wait_any(&mut self) -> SmallVec<[WaitRef; 32]> {
        self.submit();
        let table = self.aio.table();
        let finished = || -> SmallVec<[WaitRef; 32]> {
            self.in_use.iter().map(|&i| table.wait_ref(i)).filter(|&r| table.is_done(r)).collect()
        };
        let mut done = finished();
        if done.is_empty()
            && let Some(&oldest) = self.in_use.front()
        {
            self.counting_wait(|| {
                while done.is_empty() {
                    let oldest = table.wait_ref(oldest);
                    self.step_any(oldest);
                    self.aio.is_done(oldest);
                    done = finished();
                }
            });
        }
        done
    }

    /// Submits what is staged, and waits until this I/O, or any other of this backend, has been
    /// executed. It may return early, and it finishes nothing (see [`IoBackend::arrived`]). A
    /// method that can't tell waits for this I/O.
    ///
    /// It is for a reader that takes its window in order, and starts new I/O while the oldest is in
    /// flight.
    pub fn wait_for_arrival(&mut self, r: WaitRef) {
        self.submit();
        let table = self.aio.table();
        if !table.is_done(r) {
            self.counting_wait(|| self.step_any(r));
        }
    }

    fn step_any(&self, r: WaitRef) {
        let (method, table) = (self.aio.method(), self.aio.table());
        table.step_any(r, |index, seen| method.wait_any(table, index, seen));
    }

    /// How many I/Os of this backend have been executed and not yet finished (verified, reported to
    /// waiters), as far as the method knows. A reader that starts new I/O before it finishes these
    /// keeps the disk busy.
    pub fn arrived(&self) -> usize {
        self.aio.method().arrived(self.slot)
    }

    /// Call this before a file is closed or emptied: it submits what is staged if any of it is on
    /// this file, and waits for this backend's I/O on it. Reports can still be asked for, and an
    /// open batch stays open. I/O of other backends holds the file open by itself.
    pub fn settle_file(&mut self, file: &File) {
        let table = self.aio.table();
        if self.staged.iter().any(|p| table.is_on(p.index, file)) {
            self.submit();
        }
        for &index in &self.in_use {
            let table = self.aio.table();
            if table.is_on(index, file) {
                self.aio.wait_done(table.wait_ref(index));
            }
        }
    }

    /// Call this before the thread may sleep for long where nothing wakes it, as in starting a
    /// process. It submits what is staged, and waits for I/O in flight that other threads could not
    /// finish meanwhile. Reports can still be asked for, and an open batch stays open. The
    /// operations of a backend do this themselves.
    pub fn quiesce(&mut self) {
        self.submit();
        if self.aio.method().completes_through_issuer() {
            for &index in &self.in_use {
                self.aio.wait_done(self.aio.table().wait_ref(index));
            }
        }
    }

    /// Whether it has finished. Never blocks; processes completions that have arrived.
    pub fn is_done(&mut self, r: WaitRef) -> bool {
        self.aio.is_done(r)
    }

    /// Whether it is known to have finished. Unlike [`IoBackend::is_done`] it processes no
    /// completions.
    pub fn is_known_done(&self, r: WaitRef) -> bool {
        self.aio.table().is_done(r)
    }

    /// Declares that nobody will ask for the report of this I/O. Does not wait.
    pub fn forget(&mut self, r: WaitRef) {
        if !self.owns(r) {
            return;
        }
        if self.aio.table().word(r.index).generation() == r.generation {
            self.aio.table().detach(r.index);
        }
        self.locals.detach_due(r);
        self.reports.remove(&r);
    }

    fn owns(&self, r: WaitRef) -> bool {
        self.aio.table().slot_of(r.index) == self.slot
    }

    /// Waits for a submitted I/O of this backend, and returns its handle to the idle ones.
    fn finish(&mut self, r: WaitRef) -> Ended {
        let table = self.aio.table();
        if !table.is_done(r) {
            let clock = self.clock(table.account(r.index));
            self.wait_counted(r);
            self.charge(clock);
        }
        let ended = self.aio.table().collect(r.index);
        let at = self.in_use.iter().position(|&i| i == r.index).expect("an own handle is in use");
        self.in_use.remove(at);
        self.idle.push(r.index);
        ended
    }

    /// Waits, and counts for how long.
    fn wait_counted(&self, r: WaitRef) {
        if self.aio.table().is_done(r) {
            return;
        }
        self.counting_wait(|| self.aio.wait_done(r));
    }

    fn counting_wait(&self, wait: impl FnOnce()) {
        let begun = self.aio.table().counters().now();
        wait();
        self.tally(Own::Waits, 1);
        self.tally(Own::WaitTime, self.aio.table().counters().now() - begun);
    }

    fn tally(&self, what: Own, by: u64) {
        self.aio.table().counters().add(self.slot, what, by);
    }

    /// Call this before the I/Os are given to the method or executed.
    fn submitting(&self, ios: impl ExactSizeIterator<Item = u32>) {
        let table = self.aio.table();
        let now = table.counters().submitting(self.slot, ios.len() as u64);
        ios.for_each(|index| table.stamp(index, now));
    }

    fn clock(&self, account: Option<Account>) -> Option<(Account, Instant)> {
        account.filter(|_| self.aio.track_io_timing()).map(|a| (a, Instant::now()))
    }

    fn charge(&self, clock: Option<(Account, Instant)>) {
        if let Some((a, since)) = clock {
            let time_ns = since.elapsed().as_nanos() as u64;
            self.counters.add_owned(a, Counts { time_ns, ..Counts::default() });
        }
    }

    /// Starts an I/O and waits for it. This thread executes it, unless I/O in flight needs the
    /// thread (see
    /// [`Method::completes_through_issuer`](crate::method::Method::completes_through_issuer)).
    ///
    /// # Errors
    /// The I/O failed, or was short.
    pub fn run(&mut self, mut io: Io) -> Result<usize, AioError> {
        io.flags = IoFlags { synchronous: true, ..io.flags };
        let r = self.start(io);
        self.wait(r).check()
    }

    fn run_op(&mut self, file: &File, op: Op) -> Result<(), AioError> {
        self.run(Io::new(file.clone(), op, Target::File)).map(drop)
    }

    /// Reads up to `buf.len()` bytes; fewer only at the end of the file. Returns how many.
    pub fn read_at(
        &mut self,
        file: &File,
        offset: u64,
        buf: &mut AlignedBuf,
    ) -> Result<usize, AioError> {
        match self.read_exact_at(file, offset, buf) {
            Ok(()) => Ok(buf.len()),
            Err(AioError::Short { got, .. }) => Ok(got),
            Err(e) => Err(e),
        }
    }

    /// Reads `buf.len()` bytes; fewer are an error.
    pub fn read_exact_at(
        &mut self,
        file: &File,
        offset: u64,
        buf: &mut AlignedBuf,
    ) -> Result<(), AioError> {
        if buf.is_empty() {
            return Ok(());
        }
        let op = Op::Readv { offset, memory: buf.io_memory() };
        self.run_op(file, op)
    }

    /// Writes all of `buf`.
    pub fn write_all_at(
        &mut self,
        file: &File,
        offset: u64,
        buf: &AlignedBuf,
    ) -> Result<(), AioError> {
        if buf.is_empty() {
            return Ok(());
        }
        let op = Op::Writev { offset, memory: buf.io_memory() };
        self.run_op(file, op)
    }

    /// Makes the file's data and metadata durable.
    pub fn fsync(&mut self, file: &File) -> Result<(), AioError> {
        self.run_op(file, Op::Fsync)
    }

    /// Makes the file's data durable, and the metadata needed to find it.
    pub fn fdatasync(&mut self, file: &File) -> Result<(), AioError> {
        self.run_op(file, Op::Fdatasync)
    }

    /// Starts the write-out of a range of `len` bytes (0: up to the end of the file). It makes
    /// nothing durable.
    pub fn sync_file_range(&mut self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        self.run_op(file, Op::SyncFileRange { offset, len })
    }

    /// Allocates the blocks of a range of `len` bytes; the file grows to hold it.
    pub fn allocate(&mut self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        self.run_op(file, Op::Allocate { offset, len })
    }

    /// Reads a whole small file.
    pub fn read_file(&mut self, path: &Path) -> Result<Vec<u8>, AioError> {
        let names = Arc::clone(self.aio.namespace());
        let file = names.open(path, &OpenOptions::READ)?;
        let mut buf = AlignedBuf::zeroed(names.file_len(&file)? as usize)?;
        let got = self.read_at(&file, 0, &mut buf)?;
        Ok(buf[..got].to_vec())
    }

    /// The same; None if there is no such file.
    pub fn read_file_if_there(&mut self, path: &Path) -> Result<Option<Vec<u8>>, AioError> {
        self.read_file(path).if_found()
    }

    /// Creates a small file or replaces its contents, and syncs it, but not its directory.
    pub fn write_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), AioError> {
        self.write_file_as(path, &OpenOptions::READ_WRITE.create().truncate(), bytes)
    }

    /// Creates a small file, which must not exist, and syncs it, but not its directory.
    pub fn write_new_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), AioError> {
        self.write_file_as(path, &OpenOptions::READ_WRITE.create_new(), bytes)
    }

    /// Opens a file, writes its first bytes and syncs it.
    pub fn write_file_as(
        &mut self,
        path: &Path,
        options: &OpenOptions,
        bytes: &[u8],
    ) -> Result<(), AioError> {
        let file = self.aio.namespace().open(path, options)?;
        if !bytes.is_empty() {
            self.write_all_at(&file, 0, &AlignedBuf::copy_of(bytes)?)?;
        }
        self.fsync(&file)
    }

    /// What this backend has done to pages of a kind of object so far.
    pub fn usage(&self, object: IoObject) -> Usage {
        self.counters.usage(object)
    }

    /// Counts `n` operations in pg_stat_io under this backend's type. I/Os with an account are
    /// counted without it.
    pub fn count(&mut self, object: IoObject, context: IoContext, op: IoOp, n: u64) {
        let account = Account { object, context, op };
        self.counters.add_owned(account, Counts { count: n, ..Counts::default() });
    }
}

impl Drop for IoBackend {
    fn drop(&mut self) {
        let leftovers = self.drain();
        leftovers.warnings().for_each(|warning| tracing::warn!(backend = self.id, "{warning}"));
        if leftovers.failed > 0 {
            let lost = leftovers.failed;
            tracing::warn!(
                backend = self.id,
                "{lost} failed I/Os went without anyone asking for their results"
            );
        }
        self.aio.stats().leave(self.who, &self.counters);
        self.aio.release_slot(self.slot);
    }
}
