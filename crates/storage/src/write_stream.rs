//! A write stream: dirty pages go in, in any order; neighbours come out as single writes, a bounded
//! number in flight.
//!
//! ```text
//!   push() --> window (not locked) --> runs (locked, not started) --> in flight --> next_written(), in order
//!               sorted when full        log flushed once for all       at most `depth`
//! ```
//!
//! A page is locked only when its run is about to start. Whoever waits for a page's lock holds
//! nothing: the runs that are locked by then are started first. After an error the stream gives up
//! what it has not started, and waits for the rest; unless it was told to go on, and to tell at the
//! end.

use crate::Backend;
use crate::error::StorageError;
use crate::pool::{BufferPool, Pinned, Run, WriteReport};
use forebay_aio::{self as aio, IoContext, WaitRef};
use forebay_format::PageTag;
use std::collections::VecDeque;

/// What a stream does with a page that is locked when its turn comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// Waits for it.
    Wait,
    /// Leaves it out.
    Skip,
}

/// How a stream writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Writes in flight at once; fewer where the pool is small.
    pub depth: usize,
    /// Most pages of one write; not more than the pool's combine limit.
    pub combine: u32,
    /// Where statistics count the writes.
    pub context: IoContext,
    /// What becomes of locked pages.
    pub locked: Locked,
    /// Does the stream go on after a write that failed? The first failure is then told at the end.
    pub go_on: bool,
    /// Blocks after which the kernel is told to begin writing back what it has buffered; 0: never.
    /// Without effect on direct files.
    pub flush_after: u32,
}

impl WriteOptions {
    /// For a pass that must have all pages: the pool's own depth, waiting for locks.
    pub fn checkpoint(pool: &BufferPool) -> WriteOptions {
        WriteOptions {
            depth: pool.config.write_depth,
            combine: pool.config.combine_limit,
            context: IoContext::Normal,
            locked: Locked::Wait,
            go_on: false,
            flush_after: 0,
        }
    }

    /// For cleaning ahead of need: the pool's own depth, leaving out pages that are locked or can't
    /// be written.
    pub fn cleaning(pool: &BufferPool) -> WriteOptions {
        WriteOptions { locked: Locked::Skip, go_on: true, ..WriteOptions::checkpoint(pool) }
    }
}

/// A write that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Its first page.
    pub first: PageTag,
    /// Its pages.
    pub pages: u32,
}

/// A page to be written.
struct Candidate {
    tag: PageTag,
    buf: u32,
    /// The caller's pin. Without one the buffer may hold another page by now.
    pin: Option<Pinned>,
}

/// A write in flight.
struct InFlight {
    wait: WaitRef,
    run: Run,
}

/// Pages on their way to their files.
pub struct WriteStream<'a> {
    pool: &'a BufferPool,
    options: WriteOptions,
    /// Pages not looked at yet.
    window: Vec<Candidate>,
    /// Locked, not started.
    runs: Vec<Run>,
    in_flight: VecDeque<InFlight>,
    written: VecDeque<Written>,
    report: WriteReport,
    /// The first write that failed, if the stream went on then.
    failure: Option<StorageError>,
    /// Blocks written since the kernel was last told to write back, in runs.
    buffered: Vec<Written>,
}

impl<'a> WriteStream<'a> {
    /// A stream into the files of a pool's relations.
    pub fn new(pool: &'a BufferPool, options: WriteOptions) -> Self {
        let combine = options.combine.clamp(1, pool.run_limit().max(1) as u32);
        // Of a small pool only a part may be locked at once.
        let most = (pool.config.buffers / 4 / combine as usize).max(1);
        WriteStream {
            pool,
            options: WriteOptions { depth: options.depth.clamp(1, most), combine, ..options },
            window: Vec::new(),
            runs: Vec::new(),
            in_flight: VecDeque::new(),
            written: VecDeque::new(),
            report: WriteReport::default(),
            failure: None,
            buffered: Vec::new(),
        }
    }

    /// How many pages the stream takes together: their order does not matter, and the log is
    /// flushed once for them.
    pub fn window(&self) -> usize {
        self.group() * self.options.combine as usize
    }

    /// Most pages of one write.
    pub(crate) fn combine(&self) -> usize {
        self.options.combine as usize
    }

    /// Runs that are started together: half of what may be in flight, so that the other half keeps
    /// the disk busy.
    fn group(&self) -> usize {
        self.options.depth.div_ceil(2)
    }

    /// Takes a page to be written, if it is dirty when its turn comes. The stream keeps the pin
    /// until then; the caller holds no lock on the page when it next calls the stream.
    pub fn push(&mut self, be: &mut Backend, pin: Pinned) -> Result<(), StorageError> {
        let candidate = Candidate { tag: pin.tag(), buf: pin.buffer(), pin: Some(pin) };
        self.take(be, candidate)
    }

    /// Takes a buffer that held this dirty page a moment ago.
    pub(crate) fn push_buffer(
        &mut self,
        be: &mut Backend,
        tag: PageTag,
        buf: u32,
    ) -> Result<(), StorageError> {
        self.take(be, Candidate { tag, buf, pin: None })
    }

    fn take(&mut self, be: &mut Backend, candidate: Candidate) -> Result<(), StorageError> {
        self.window.push(candidate);
        if self.window.len() >= self.window() { self.start(be) } else { Ok(()) }
    }

    /// Starts writing all that was taken so far.
    pub fn start(&mut self, be: &mut Backend) -> Result<(), StorageError> {
        let io = &mut be.io;
        let mut window = std::mem::take(&mut self.window);
        window.sort_unstable_by_key(|candidate| candidate.tag);
        // Taken twice, a page would stand in its own way.
        window.dedup_by_key(|candidate| (candidate.tag, candidate.buf));
        // What is staged elsewhere must not wait for what happens here.
        io.submit();
        for candidate in window {
            if let Err(error) = self.add(io, candidate) {
                self.give_up_runs();
                return Err(error);
            }
        }
        self.start_runs(io)
    }

    /// The next write that has ended, in the order in which the writes were started.
    pub fn next_written(&mut self) -> Option<Written> {
        self.written.pop_front()
    }

    /// What was written so far.
    pub fn report(&self) -> WriteReport {
        self.report
    }

    /// Starts what was taken, and waits for all writes.
    pub fn drain(&mut self, be: &mut Backend) -> Result<(), StorageError> {
        let mut result = self.start(be);
        while !self.in_flight.is_empty() {
            result = result.and(self.finish_oldest(&mut be.io));
        }
        self.write_back(&mut be.io);
        result.and(self.failure.take().map_or(Ok(()), Err))
    }

    /// Writes what was taken, waits for all of it, and tells what was written.
    pub fn finish(mut self, be: &mut Backend) -> Result<WriteReport, StorageError> {
        self.drain(be).map(|()| self.report)
    }

    /// Gives up what was not started, waits for what was, and returns the error.
    pub(crate) fn abandon(
        mut self,
        be: &mut Backend,
        error: StorageError,
    ) -> Result<WriteReport, StorageError> {
        self.window.clear();
        // The first error counts.
        self.drain(be).and(Err(error.clone())).map_err(|_| error)
    }

    // ---- from page to run

    fn add(&mut self, io: &mut aio::Backend, candidate: Candidate) -> Result<(), StorageError> {
        let Candidate { tag, buf, pin } = candidate;
        let desc = self.pool.desc(buf);
        if !desc.pin_if_dirty() {
            return Ok(());
        }
        if desc.tag() != tag {
            self.pool.core.unpin(buf);
            return Ok(());
        }
        // The write has a pin of its own now.
        drop(pin);
        if !desc.try_share_exclusive() {
            if self.options.locked == Locked::Skip {
                self.pool.core.unpin(buf);
                return Ok(());
            }
            // Nothing may be held while waiting.
            self.start_runs(io).inspect_err(|_| self.pool.core.unpin(buf))?;
            self.pool.lock_share_exclusive(io, buf);
        }
        if !desc.is_dirty_and_valid() {
            self.pool.unlock_share_exclusive(buf);
            self.pool.core.unpin(buf);
            return Ok(());
        }
        self.append(io, tag, buf)
    }

    /// Adds a locked page to the last run, or begins the next.
    fn append(
        &mut self,
        io: &mut aio::Backend,
        tag: PageTag,
        buf: u32,
    ) -> Result<(), StorageError> {
        let limit = self.options.combine as usize;
        let joins = |r: &Run| {
            r.next() == tag && r.bufs.len() < limit && !self.pool.starts_segment(tag.block)
        };
        if let Some(run) = self.runs.last_mut()
            && joins(run)
        {
            run.bufs.push(buf);
            return Ok(());
        }
        let full = self.runs.len() >= self.group();
        let begun = if full { self.start_runs(io) } else { Ok(()) };
        self.runs.push(Run::of(tag, buf));
        begun
    }

    // ---- from run to file

    /// Flushes the log for all runs, and starts their writes as one batch.
    fn start_runs(&mut self, io: &mut aio::Backend) -> Result<(), StorageError> {
        if self.runs.is_empty() {
            return Ok(());
        }
        let newest = self.runs.iter().map(|run| self.pool.run_lsn(run)).max().unwrap_or_default();
        if let Err(error) = self.pool.flush_wal(io, newest) {
            self.give_up_runs();
            return Err(error);
        }
        while self.in_flight.len() + self.runs.len() > self.options.depth
            && !self.in_flight.is_empty()
        {
            if let Err(error) = self.finish_oldest(io) {
                self.give_up_runs();
                return Err(error);
            }
        }
        let batch = !io.in_batch();
        if batch {
            io.begin_batch();
        }
        let mut result = Ok(());
        for run in self.runs.drain(..) {
            if result.is_err() {
                self.pool.release_run(&run);
                continue;
            }
            match self.pool.start_run(io, &run, self.options.context) {
                Ok(wait) => self.in_flight.push_back(InFlight { wait, run }),
                Err(error) if self.options.go_on => drop(self.failure.get_or_insert(error)),
                Err(error) => result = Err(error),
            }
        }
        if batch {
            io.end_batch();
        }
        result
    }

    fn give_up_runs(&mut self) {
        for run in self.runs.drain(..) {
            self.pool.release_run(&run);
        }
    }

    fn finish_oldest(&mut self, io: &mut aio::Backend) -> Result<(), StorageError> {
        let Some(InFlight { wait, run }) = self.in_flight.pop_front() else { return Ok(()) };
        if let Err(error) = self.pool.finish_run(io, wait, &run) {
            if !self.options.go_on {
                return Err(error);
            }
            self.failure.get_or_insert(error);
            return Ok(());
        }
        let written = Written { first: run.first, pages: run.bufs.len() as u32 };
        self.report.buffers += u64::from(written.pages);
        self.report.writes += 1;
        self.written.push_back(written);
        if self.options.flush_after > 0 && !self.pool.smgr.is_direct() {
            self.buffered.push(written);
            if self.buffered.iter().map(|w| w.pages).sum::<u32>() >= self.options.flush_after {
                self.write_back(io);
            }
        }
        Ok(())
    }

    /// Has the kernel begin to write back what it has buffered. Only a hint: what it can't do is
    /// left to the sync.
    fn write_back(&mut self, io: &mut aio::Backend) {
        for Written { first, pages } in self.buffered.drain(..) {
            if let Some(hint) =
                self.pool.smgr.writeback_io(first.rel, first.fork, first.block, pages)
            {
                let wait = io.start(hint);
                io.forget(wait);
            }
        }
    }
}

impl Drop for WriteStream<'_> {
    fn drop(&mut self) {
        // Writes in flight have locks and pins of their own and end without us.
        self.give_up_runs();
    }
}

impl std::fmt::Debug for WriteStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteStream")
            .field("in_flight", &self.in_flight.len())
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
