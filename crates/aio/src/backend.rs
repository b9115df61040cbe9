//! One thread's side of the door: stage, submit, wait.
//!
//! | Module | What |
//! |---|---|
//! | `acquire` | handles taken before it is known what for: [`Acquired`] |
//! | `local` | the local halves of completions, and when they run |
//! | `leftovers` | what is put right at the end of a statement, a transaction, after an error: [`Leftovers`] |

mod acquire;
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
use crate::error::AioError;
use crate::file::{File, OpenOptions};
use crate::handle::{HandleState, WaitRef};
use crate::memory::AlignedBuf;
use crate::merge::{Piece, Plan};
use crate::op::{Account, Io, IoFlags, Op, OpKind, Target};
use crate::stats::{BackendType, Counts, IoContext, IoObject, IoOp, Matrix};
use crate::sync::{Arc, Instant};
use crate::table::{Body, Ended};
use local::{Halves, Locals};

/// The right to start I/O. Owned by one thread at a time; dropping it submits what is staged and
/// waits for what is in flight.
pub struct Backend {
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
    /// Taken, and neither started nor released.
    handed_out: Option<WaitRef>,
    /// Local halves yet to run.
    locals: Locals,
    /// Reports whose handles were needed again before anyone asked.
    reports: HashMap<WaitRef, IoReport>,
    counters: Arc<Matrix>,
}

/// An I/O about to get a handle.
struct Prepared {
    body: Box<Body>,
    locals: Halves,
    inline: bool,
    account: Option<Account>,
}

impl Backend {
    /// Most I/Os a batch stages before it is submitted by itself.
    pub const MAX_STAGED: usize = 32;

    pub(crate) fn new(aio: Arc<Aio>, slot: u32, id: i32, who: BackendType) -> Backend {
        let per_backend = aio.handles_per_backend() as u32;
        let base = slot * per_backend;
        let counters = aio.stats().enter(who);
        Backend {
            slot,
            id,
            who,
            idle: (base..base + per_backend).rev().collect(),
            in_use: VecDeque::with_capacity(per_backend as usize),
            staged: Vec::with_capacity(Backend::MAX_STAGED),
            combine_limit: usize::MAX,
            in_batch: false,
            handed_out: None,
            locals: Locals::new(per_backend as usize),
            reports: HashMap::new(),
            counters,
            aio,
        }
    }

    /// The slot's number: unique among living backends, below `max_backends`.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The id shown as pid.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Whose I/O it is.
    pub fn backend_type(&self) -> BackendType {
        self.who
    }

    /// The door.
    pub fn aio(&self) -> &Arc<Aio> {
        &self.aio
    }

    /// I/Os staged and not yet submitted.
    pub fn staged(&self) -> usize {
        self.staged.len()
    }

    /// Own I/Os whose handles are in use.
    pub fn in_flight(&self) -> usize {
        self.in_use.len()
    }

    /// Handles that could be taken without waiting.
    pub fn idle_handles(&self) -> usize {
        self.idle.len()
    }

    /// Starts an I/O: outside of a batch it is submitted at once, inside it is staged (unless it is
    /// to be synchronous, or the method can't execute it: then what is staged is submitted, and it
    /// is executed here). Where no handle is idle, waits for the oldest I/O. That an I/O failed is
    /// told by its report, not here.
    pub fn start(&mut self, io: Io) -> WaitRef {
        let prepared = self.prepare(io);
        let index = self.take_handle();
        let r = self.launch(index, prepared);
        self.run_due();
        r
    }

    /// Everything about an I/O that may be refused by an assertion: no handle is lost by that.
    fn prepare(&self, mut io: Io) -> Prepared {
        let method = self.aio.method();
        let inline = io.flags.synchronous
            || method.synchronous() && !self.in_batch
            || !method.executes(io.op.kind());
        let account = io.account;
        let locals = match io.completions.is_empty() {
            true => Halves::new(),
            false => io.completions.iter_mut().filter_map(|c| c.local.take()).collect(),
        };
        Prepared { body: Body::new(io), locals, inline, account }
    }

    /// Defines and stages a handle; submits it unless it is in a batch.
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
            self.counters.add_owned(
                a.object,
                a.context,
                a.op,
                Counts { count: 1, bytes, time_ns: 0 },
            );
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
            if !self.in_batch || handed_over || self.staged.len() == Backend::MAX_STAGED {
                let clock = self.clock(account.filter(|_| !self.aio.method().synchronous()));
                self.submit();
                self.charge(clock);
            }
        }
        r
    }

    /// Must the method execute an operation that this thread would execute itself? Where
    /// completions need this thread, and some are due: a direct call may put it to a sleep that
    /// nothing ends but the disk. With nothing in flight one direct call is the cheapest.
    fn must_hand_over(&self, op: OpKind) -> bool {
        let method = self.aio.method();
        // The cheapest question comes first: a commit has nothing in use.
        !self.in_use.is_empty()
            && method.completes_through_issuer()
            && method.executes(op)
            && self.aio.table().counters().in_flight(self.slot) > 0
    }

    /// Merges this backend's neighbours up to so many bytes, where [`Aio::combine_limit`] does not
    /// set a smaller limit. What it was before.
    pub fn set_combine_limit(&mut self, bytes: usize) -> usize {
        std::mem::replace(&mut self.combine_limit, bytes)
    }

    /// Begins staging. Batches don't nest. While anything is staged, don't block on another backend
    /// without [`Backend::submit`].
    pub fn begin_batch(&mut self) {
        assert!(!self.in_batch, "batches don't nest");
        self.in_batch = true;
    }

    /// Submits what is staged and ends the batch.
    pub fn end_batch(&mut self) {
        assert!(self.in_batch, "no batch to end");
        self.in_batch = false;
        self.submit();
    }

    /// Between begin and end of a batch.
    pub fn in_batch(&self) -> bool {
        self.in_batch
    }

    /// Submits what is staged, neighbours merged, in one system call where the method has it; the
    /// batch goes on.
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
            // Submitting is executing here: each pays for its own.
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

    /// Makes chains of neighbours. The handles to submit.
    fn merge(&self, staged: &[Piece]) -> SmallVec<[u32; Backend::MAX_STAGED]> {
        let limit = self.aio.combine_limit().min(self.combine_limit);
        if staged.len() == 1 || limit == 0 {
            return staged.iter().map(|p| p.index).collect();
        }
        let table = self.aio.table();
        let plan = Plan::new(staged, limit, |a, b| table.same_path(a, b));
        plan.units().map(|unit| table.link(unit.map(|n| staged[n].index))).collect()
    }

    /// Waits for an I/O, anyone's, after submitting what is staged. For an own one the report comes
    /// with it, once.
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

    /// Submits what is staged, and waits until own I/O in flight has finished, any of it: all that
    /// has, the oldest first. Nothing, where nothing is in flight. For windows of I/O whose order
    /// does not matter: waiting for the oldest leaves the places of those that finish before it
    /// empty meanwhile. (A method that can't tell, and one of fault plans, waits for the oldest all
    /// the same; so does io_uring's while another thread waits on the same ring.)
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
                    table.step_any(self.aio.method(), oldest);
                    self.aio.is_done(oldest); // notices what has arrived
                    done = finished();
                }
            });
        }
        done
    }

    /// Submits what is staged, and waits until this own I/O, or any other in flight, has been
    /// executed: for who takes a window of I/O in order, and starts new ones while the oldest is on
    /// its way. May return early; nothing that arrives is worked on here (see
    /// [`Backend::arrived`]). A method that can't tell waits for this one, as in
    /// [`Backend::wait_any`].
    pub fn wait_for_arrival(&mut self, r: WaitRef) {
        self.submit();
        let table = self.aio.table();
        if !table.is_done(r) {
            self.counting_wait(|| table.step_any(self.aio.method(), r));
        }
    }

    /// Own I/Os that have been executed and wait for someone to finish them (to verify what was
    /// read, to tell who waits), as far as the method knows: the disk is through with them. Who
    /// starts new ones before that keeps it busy meanwhile.
    pub fn arrived(&self) -> usize {
        self.aio.method().arrived(self.slot)
    }

    /// Before a file is closed or emptied: submits what is staged, if any of it is on this file,
    /// and waits for all own I/O in flight on it. Reports stay to be asked for, a batch stays open.
    /// I/O of other backends holds the file open by itself.
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

    /// Before this thread may sleep for long where nothing wakes it, as in starting a process:
    /// submits what is staged, and waits for own I/O in flight that others could not finish
    /// meanwhile. Reports stay to be asked for, a batch stays open. The operations of a backend
    /// need no such care.
    pub fn quiesce(&mut self) {
        self.submit();
        if self.aio.method().completes_through_issuer() {
            for &index in &self.in_use {
                self.aio.wait_done(self.aio.table().wait_ref(index));
            }
        }
    }

    /// Has it finished? Never blocks; notices completions that already arrived.
    pub fn is_done(&mut self, r: WaitRef) -> bool {
        self.aio.is_done(r)
    }

    /// Is it known to have finished? As [`Backend::is_done`], but what has arrived stays unnoticed.
    pub fn is_known_done(&self, r: WaitRef) -> bool {
        self.aio.table().is_done(r)
    }

    /// The report of an own I/O will not be asked for. Does not wait.
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

    /// Waits for an own, submitted I/O and gives its handle back.
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

    /// Waits, and counts how long.
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

    /// These are about to be given to the method, or executed.
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
            self.counters.add_owned(
                a.object,
                a.context,
                a.op,
                Counts { time_ns, ..Counts::default() },
            );
        }
    }

    /// Starts and waits, executing in this thread unless own I/O in flight needs it (see
    /// [`Method::completes_through_issuer`](crate::Method::completes_through_issuer)).
    pub fn run(&mut self, mut io: Io) -> Result<usize, AioError> {
        io.flags = IoFlags { synchronous: true, ..io.flags };
        let r = self.start(io);
        self.wait(r).check()
    }

    /// Reads up to `buf.len()` bytes; less only at the end of the file.
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

    /// Reads `buf.len()` bytes.
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
        self.run(Io::new(file.clone(), op, Target::File)).map(drop)
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
        self.run(Io::new(file.clone(), op, Target::File)).map(drop)
    }

    /// Makes data and metadata durable.
    pub fn fsync(&mut self, file: &File) -> Result<(), AioError> {
        self.run(Io::new(file.clone(), Op::Fsync, Target::File)).map(drop)
    }

    /// Makes data durable.
    pub fn fdatasync(&mut self, file: &File) -> Result<(), AioError> {
        self.run(Io::new(file.clone(), Op::Fdatasync, Target::File)).map(drop)
    }

    /// Lets the system begin to write out a range; 0 bytes: up to the end of the file. Not durable.
    pub fn sync_file_range(&mut self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        self.run(Io::new(file.clone(), Op::SyncFileRange { offset, len }, Target::File)).map(drop)
    }

    /// Allocates the blocks of a range; the file grows to hold it.
    pub fn allocate(&mut self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        self.run(Io::new(file.clone(), Op::Allocate { offset, len }, Target::File)).map(drop)
    }

    /// A whole small file.
    pub fn read_file(&mut self, path: &Path) -> Result<Vec<u8>, AioError> {
        let names = Arc::clone(self.aio.namespace());
        let file = names.open(path, &OpenOptions::READ)?;
        let mut buf = AlignedBuf::zeroed(names.file_len(&file)? as usize)?;
        let got = self.read_at(&file, 0, &mut buf)?;
        Ok(buf[..got].to_vec())
    }

    /// Creates a small file or replaces its contents, and syncs it (not its directory).
    pub fn write_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), AioError> {
        let file = self.aio.namespace().open(path, &OpenOptions::READ_WRITE.create().truncate())?;
        self.write_all_at(&file, 0, &AlignedBuf::copy_of(bytes)?)?;
        self.fsync(&file)
    }

    /// Counts in pg_stat_io under this backend's type. I/Os with an account are counted by
    /// themselves.
    pub fn count(&mut self, object: IoObject, context: IoContext, op: IoOp, n: u64) {
        self.counters.add_owned(object, context, op, Counts { count: n, ..Counts::default() });
    }
}

impl Drop for Backend {
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
