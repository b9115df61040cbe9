//! A write stream takes dirty pages in any order and writes neighbours together, with a bounded
//! number of writes in flight.
//!
//! ```text
//!   push() --> window --> runs --> in flight --> next_written(), in order
//!              |          |        |
//!              |          |        at most `depth` writes
//!              |          locked pages; the log is flushed once for all
//!              unlocked pages; sorted when the window is full
//! ```
//!
//! A page is locked only when its run is about to start. A stream that waits for a page's lock
//! holds no other one: the runs that are locked by then are started first. After an error the
//! stream releases the pages whose writes it has not started, and waits for the others. With
//! [`WriteOptions::go_on`] it continues, and returns the first error at the end.

use crate::error::StorageError;
use crate::pool::desc::DIRTY;
use crate::pool::{Backend, BufferPool, Pinned, Run};
use forebay_aio::{self as aio, IoContext, WaitRef};
use forebay_format::PageTag;
use std::collections::VecDeque;

/// What a stream does with a page that is locked when its turn comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// It waits for the lock.
    Wait,
    /// It leaves the page out.
    Skip,
}

/// How a stream writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Writes in flight at once; fewer if the pool is small.
    pub depth: usize,
    /// The most pages of one write; bounded by the pool's combine limit.
    pub combine: u32,
    /// The context that statistics count the writes under.
    pub context: IoContext,
    /// What happens to locked pages.
    pub locked: Locked,
    /// Whether the stream goes on after a failed write, and returns the first error at the end.
    pub go_on: bool,
    /// Blocks after which the kernel is told to write back what it has buffered; 0: never. It has
    /// no effect on direct files.
    pub flush_after: u32,
}

impl WriteOptions {
    /// For a pass that must write all pages: it waits for locks.
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

    /// For cleaning ahead of need: pages that are locked or cannot be written are left out.
    pub fn cleaning(pool: &BufferPool) -> WriteOptions {
        WriteOptions { locked: Locked::Skip, go_on: true, ..WriteOptions::checkpoint(pool) }
    }
}

/// What a stream wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// The number of pages.
    pub buffers: u64,
    /// The number of writes.
    pub writes: u64,
}

/// A write that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Its first page.
    pub first: PageTag,
    /// The number of its pages.
    pub pages: u32,
}

/// A page that may have to be written.
struct Candidate {
    tag: PageTag,
    buf: u32,
    /// The caller's pin. Without one the buffer may contain another page by now.
    pin: Option<Pinned>,
}

/// A write in flight.
struct InFlight {
    wait: WaitRef,
    run: Run,
}

/// Writes pages to their files.
pub struct WriteStream<'a> {
    pool: &'a BufferPool,
    options: WriteOptions,
    /// Pages not examined yet.
    window: Vec<Candidate>,
    /// Locked pages whose writes are not started.
    runs: Vec<Run>,
    in_flight: VecDeque<InFlight>,
    written: VecDeque<Written>,
    report: WriteReport,
    /// The first failure, if the stream went on after it.
    failure: Option<StorageError>,
    /// Runs written since the kernel was last told to write back.
    buffered: Vec<Written>,
}

impl<'a> WriteStream<'a> {
    /// Makes a stream into the files of a pool's relations.
    pub fn new(pool: &'a BufferPool, options: WriteOptions) -> Self {
        let combine = options.combine.clamp(1, pool.run_limit().max(1) as u32);
        // Only a part of a small pool may be locked at once.
        let most = (pool.buffers() / 4 / combine as usize).max(1);
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

    /// Returns the number of pages that are taken together: the stream sorts them, and flushes the
    /// log once for them.
    pub fn window(&self) -> usize {
        self.group() * self.options.combine as usize
    }

    /// Returns the most pages of one write.
    pub(crate) fn combine(&self) -> usize {
        self.options.combine as usize
    }

    /// Returns the number of runs that are started together: half of the depth, so that the other
    /// half keeps the disk busy.
    fn group(&self) -> usize {
        self.options.depth.div_ceil(2)
    }

    /// Takes a page, which is written if it is dirty when its turn comes. The stream keeps the pin
    /// until then. The caller holds no lock on the page during further calls.
    pub fn push(&mut self, backend: &mut Backend, pin: Pinned) -> Result<(), StorageError> {
        let candidate = Candidate { tag: pin.tag(), buf: pin.buffer(), pin: Some(pin) };
        self.take(backend, candidate)
    }

    /// Takes a buffer that contained this dirty page a moment ago.
    pub(crate) fn push_buffer(
        &mut self,
        backend: &mut Backend,
        tag: PageTag,
        buf: u32,
    ) -> Result<(), StorageError> {
        self.take(backend, Candidate { tag, buf, pin: None })
    }

    fn take(&mut self, backend: &mut Backend, candidate: Candidate) -> Result<(), StorageError> {
        self.window.push(candidate);
        if self.window.len() >= self.window() { self.start(backend) } else { Ok(()) }
    }

    /// Starts to write all pages taken so far.
    pub fn start(&mut self, backend: &mut Backend) -> Result<(), StorageError> {
        let io = &mut backend.io;
        let mut window = std::mem::take(&mut self.window);
        window.sort_unstable_by_key(|candidate| candidate.tag);
        // A page must not be locked twice.
        window.dedup_by_key(|candidate| candidate.tag);
        // This may wait for locks, so nothing stays staged.
        io.submit();
        for candidate in window {
            if let Err(error) = self.add(io, candidate) {
                self.give_up_runs();
                return Err(error);
            }
        }
        self.start_runs(io)
    }

    /// Returns the next write that has ended, in the order in which writes were started.
    pub fn next_written(&mut self) -> Option<Written> {
        self.written.pop_front()
    }

    /// Returns what was written so far.
    pub fn report(&self) -> WriteReport {
        self.report
    }

    /// Starts to write all pages taken so far, and waits for all writes.
    pub fn drain(&mut self, backend: &mut Backend) -> Result<(), StorageError> {
        let mut result = self.start(backend);
        while !self.in_flight.is_empty() {
            result = result.and(self.finish_oldest(&mut backend.io));
        }
        self.write_back(&mut backend.io);
        result.and(self.failure.take().map_or(Ok(()), Err))
    }

    /// Writes all pages taken so far, waits, and returns what was written.
    pub fn finish(mut self, backend: &mut Backend) -> Result<WriteReport, StorageError> {
        self.drain(backend).map(|()| self.report)
    }

    /// Gives up the pages whose writes are not started, waits for the others, and returns the
    /// error.
    pub(crate) fn abandon(
        mut self,
        backend: &mut Backend,
        error: StorageError,
    ) -> Result<WriteReport, StorageError> {
        self.window.clear();
        // The first error counts.
        self.drain(backend).and(Err(error.clone())).map_err(|_| error)
    }

    // ---- from page to run

    fn add(&mut self, io: &mut aio::IoBackend, candidate: Candidate) -> Result<(), StorageError> {
        let Candidate { tag, buf, pin } = candidate;
        let Some(buf) = self.pin_dirty(&tag, buf) else { return Ok(()) };
        // The stream has a pin of its own now.
        drop(pin);
        let desc = self.pool.desc(buf);
        if !desc.try_share_exclusive() {
            if self.options.locked == Locked::Skip {
                self.pool.core.unpin(buf);
                return Ok(());
            }
            // No lock may be held while waiting.
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

    /// Pins a page if it is dirty. It is probably in this buffer, unless it has left the pool or a
    /// smaller pool has moved it.
    fn pin_dirty(&self, tag: &PageTag, buf: u32) -> Option<u32> {
        let desc = self.pool.desc(buf);
        let pinned_here = desc.pin(None).is_some();
        if pinned_here && desc.has_tag(tag) {
            return self.keep_dirty(buf);
        }
        if pinned_here {
            self.pool.core.unpin(buf);
        }
        self.pool.pin_certainly(tag).and_then(|buf| self.keep_dirty(buf))
    }

    /// Releases a pin if the page is clean.
    fn keep_dirty(&self, buf: u32) -> Option<u32> {
        if self.pool.desc(buf).load() & DIRTY != 0 {
            return Some(buf);
        }
        self.pool.core.unpin(buf);
        None
    }

    /// Adds a locked page to the last run, or begins the next.
    fn append(
        &mut self,
        io: &mut aio::IoBackend,
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
    fn start_runs(&mut self, io: &mut aio::IoBackend) -> Result<(), StorageError> {
        let Some(newest) = self.runs.iter().map(|run| self.pool.run_lsn(run)).max() else {
            return Ok(());
        };
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

    fn finish_oldest(&mut self, io: &mut aio::IoBackend) -> Result<(), StorageError> {
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

    /// Tells the kernel to write back what it has buffered. This is only a hint: if it fails, the
    /// sync does the work.
    fn write_back(&mut self, io: &mut aio::IoBackend) {
        for Written { first, pages } in self.buffered.drain(..) {
            if let Some(hint) = self.pool.smgr.writeback_io(&first, pages) {
                let wait = io.start(hint);
                io.forget(wait);
            }
        }
    }
}

impl Drop for WriteStream<'_> {
    fn drop(&mut self) {
        // Writes in flight have locks and pins of their own and end by themselves.
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
