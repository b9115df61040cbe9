//! Writing out: runs of neighbouring dirty pages as one I/O.
//!
//! A page is written under its share-exclusive lock: readers may go on, nobody may change it. The lock and a pin go
//! over to the I/O, whose completion gives them back, in any thread. Before the I/O starts, the WAL is durable up to
//! the newest of its pages, and each page carries its checksum.
//!
//! A run's further pages are locked only if that needs no waiting: whoever waits for one lock while holding another
//! could wait forever.

use super::desc::{DIRTY, VALID, WRITING, refcount, usage};
use super::{BufferPool, Ring};
use crate::Backend;
use crate::error::StorageError;
use forebay_aio::sync::atomic::Ordering;
use forebay_aio::{self as aio, Errno, IoContext, IoMemory, IoObject, IoOp, WaitRef};
use forebay_format::{BLOCK_SIZE, Lsn, Oid, Page, PageBytes, PageTag, RelFileLocator, checksum};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// Pages whose checksums are taken side by side: as many as need no memory but the stack's.
const SUMMED_TOGETHER: usize = 32;
/// How far ahead of its need, in writes of full size, a ring that dirties its pages writes them.
const RING_WRITES_AHEAD: usize = 8;

/// Which pages a pass writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteScope {
    /// All.
    All,
    /// Those of a database.
    Database(Oid),
    /// Those of a relation.
    Relation(RelFileLocator),
}

impl WriteScope {
    fn covers(self, tag: &PageTag) -> bool {
        match self {
            WriteScope::All => true,
            WriteScope::Database(db) => tag.rel.db == db,
            WriteScope::Relation(rel) => tag.rel == rel,
        }
    }
}

/// What a pass wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Pages written.
    pub buffers: u64,
    /// Writes they took.
    pub writes: u64,
}

/// What a step of the cleaner did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// Pages written.
    pub cleaned: u64,
    /// True if it stopped at its limit.
    pub limited: bool,
}

/// Neighbouring pages, each pinned and share-exclusively locked by the caller.
struct Run {
    first: PageTag,
    bufs: SmallVec<[u32; 16]>,
}

impl Run {
    fn next(&self) -> PageTag {
        PageTag { block: self.first.block + self.bufs.len() as u32, ..self.first }
    }
}

/// A write in flight.
struct InFlight {
    wait: WaitRef,
    run: Run,
}

impl BufferPool {
    /// Writes all dirty pages of the scope, sorted by file and block, combined, several writes in flight. What is
    /// dirty when the call begins is in the files when it returns; [`Self::sync_pending`] makes it durable.
    pub fn write_dirty(&self, be: &mut Backend, scope: WriteScope) -> Result<WriteReport, StorageError> {
        let mut pages: Vec<(PageTag, u32)> = Vec::new();
        for (buf, desc) in self.core.descs.iter().enumerate() {
            if desc.load() & DIRTY != 0 {
                let tag = desc.tag();
                if scope.covers(&tag) {
                    pages.push((tag, buf as u32));
                }
            }
        }
        self.write_pages(&mut be.io, pages, true, IoContext::Normal)
    }

    /// Cleans up to `max` dirty buffers among the `look` that the clock's hand comes to next, so that whoever needs
    /// a victim need not write.
    pub fn cleaner_step(
        &self,
        be: &mut Backend,
        max: usize,
        look: usize,
    ) -> Result<CleanReport, StorageError> {
        let buffers = self.core.descs.len();
        let hand = self.hand.load(Ordering::Relaxed);
        let mut pages = Vec::new();
        for i in 0..look.min(buffers) as u64 {
            let at = ((hand + i) % buffers as u64) as usize;
            let desc = &self.core.descs[at];
            let state = desc.load();
            if state & DIRTY != 0 && refcount(state) == 0 && usage(state) == 0 {
                pages.push((desc.tag(), at as u32));
                if pages.len() == max {
                    break;
                }
            }
        }
        let limited = pages.len() == max;
        let report = self.write_pages(&mut be.io, pages, false, IoContext::Normal)?;
        Ok(CleanReport { cleaned: report.buffers, limited })
    }

    /// Writes pages in order of their tags. With `all`, waits for pages that are locked; else skips them.
    fn write_pages(
        &self,
        io: &mut aio::Backend,
        mut pages: Vec<(PageTag, u32)>,
        all: bool,
        context: IoContext,
    ) -> Result<WriteReport, StorageError> {
        io.submit();
        pages.sort_unstable_by_key(|&(tag, _)| tag);
        let depth =
            self.config.write_depth.min(self.config.buffers / 4 / self.config.combine_limit as usize).max(1);
        let mut pass = Pass { report: WriteReport::default(), in_flight: VecDeque::new(), depth, context };
        let result = self.write_sorted(io, &pages, all, &mut pass);
        let drained = self.drain_pass(io, &mut pass);
        result.and(drained).map(|()| pass.report)
    }

    fn write_sorted(
        &self,
        io: &mut aio::Backend,
        pages: &[(PageTag, u32)],
        all: bool,
        pass: &mut Pass,
    ) -> Result<(), StorageError> {
        let mut run: Option<Run> = None;
        let limit = self.run_limit();
        for &(tag, buf) in pages {
            let joins = |r: &Run| r.next() == tag && r.bufs.len() < limit && !self.starts_segment(tag.block);
            if let Some(done) = run.take_if(|r| !joins(r)) {
                self.write_in_pass(io, done, pass)?;
            }
            // The tag was read without a pin: the buffer may hold another page by now.
            let desc = self.desc(buf);
            if !desc.pin_if(DIRTY) {
                continue;
            }
            if desc.tag() != tag {
                self.core.unpin(buf);
                continue;
            }
            if !desc.try_share_exclusive() {
                if !all {
                    self.core.unpin(buf);
                    continue;
                }
                // Nothing may be held while waiting.
                if let Some(done) = run.take() {
                    self.write_in_pass(io, done, pass).inspect_err(|_| self.core.unpin(buf))?;
                }
                self.lock_share_exclusive(io, buf);
            }
            if desc.load() & (DIRTY | VALID) != DIRTY | VALID {
                self.unlock_share_exclusive(buf);
                self.core.unpin(buf);
                continue;
            }
            match &mut run {
                Some(r) => r.bufs.push(buf),
                None => run = Some(Run { first: tag, bufs: SmallVec::from_slice(&[buf]) }),
            }
        }
        match run {
            Some(run) => self.write_in_pass(io, run, pass),
            None => Ok(()),
        }
    }

    /// Most pages of one write.
    pub(super) fn run_limit(&self) -> usize {
        (self.config.combine_limit as usize).min(self.config.buffers / 4)
    }

    fn starts_segment(&self, block: u32) -> bool {
        self.smgr.room_in_segment(block) == self.smgr.room_in_segment(0)
    }

    /// Starts a run's write within a pass; waits for the oldest first if too many are in flight.
    fn write_in_pass(&self, io: &mut aio::Backend, run: Run, pass: &mut Pass) -> Result<(), StorageError> {
        pass.report.buffers += run.bufs.len() as u64;
        pass.report.writes += 1;
        let wait = self.start_run(io, &run, pass.context)?;
        pass.in_flight.push_back(InFlight { wait, run });
        if pass.in_flight.len() >= pass.depth {
            self.finish_oldest(io, pass)?;
        }
        Ok(())
    }

    fn finish_oldest(&self, io: &mut aio::Backend, pass: &mut Pass) -> Result<(), StorageError> {
        match pass.in_flight.pop_front() {
            Some(InFlight { wait, run }) => self.finish_run(io, wait, &run),
            None => Ok(()),
        }
    }

    fn drain_pass(&self, io: &mut aio::Backend, pass: &mut Pass) -> Result<(), StorageError> {
        let mut result = Ok(());
        while !pass.in_flight.is_empty() {
            result = result.and(self.finish_oldest(io, pass));
        }
        result
    }

    /// Gives up a run's locks and pins.
    fn release(&self, run: &Run) {
        for &buf in &run.bufs {
            self.unlock_share_exclusive(buf);
            self.core.unpin(buf);
        }
    }

    // ---- victims

    /// Writes a dirty victim, pinned by the caller, and dirty neighbours of it that nobody needs soon. False if it
    /// is locked.
    pub(super) fn clean_victim(
        &self,
        io: &mut aio::Backend,
        buf: u32,
        context: IoContext,
    ) -> Result<bool, StorageError> {
        let desc = self.desc(buf);
        if !desc.try_share_exclusive() {
            return Ok(false);
        }
        if desc.load() & DIRTY == 0 {
            self.unlock_share_exclusive(buf);
            return Ok(true);
        }
        // The run's pin goes to the I/O; the caller keeps its own.
        desc.pin_again();
        io.submit();
        let run = self.gather_run(buf);
        let wait = self.start_run(io, &run, context)?;
        self.finish_run(io, wait, &run).map(|()| true)
    }

    /// The run of dirty pages around a page that the caller has pinned and locked.
    fn gather_run(&self, buf: u32) -> Run {
        let tag = self.desc(buf).tag();
        let mut first = tag;
        let mut bufs: SmallVec<[u32; 16]> = SmallVec::from_slice(&[buf]);
        let limit = self.run_limit();
        while bufs.len() < limit && self.smgr.room_in_segment(tag.block) > bufs.len() as u32 {
            let next = PageTag { block: tag.block + bufs.len() as u32, ..tag };
            let Some(b) = self.lock_dirty_neighbour(&next) else { break };
            bufs.push(b);
        }
        while bufs.len() < limit && !self.starts_segment(first.block) {
            let before = PageTag { block: first.block - 1, ..first };
            let Some(b) = self.lock_dirty_neighbour(&before) else { break };
            bufs.insert(0, b);
            first = before;
        }
        Run { first, bufs }
    }

    /// Pins and locks a page for writing if it is in memory, dirty, not in use and not wanted soon.
    fn lock_dirty_neighbour(&self, tag: &PageTag) -> Option<u32> {
        let idle = |s| s & (DIRTY | VALID) == DIRTY | VALID && refcount(s) == 0 && usage(s) <= 1;
        let buf = self.pin_cached_if(tag, idle)?;
        if self.lock_pinned_dirty(buf) {
            return Some(buf);
        }
        self.core.unpin(buf);
        None
    }

    /// Takes the share-exclusive lock of a pinned page if it is free and the page dirty.
    fn lock_pinned_dirty(&self, buf: u32) -> bool {
        let desc = self.desc(buf);
        if !desc.try_share_exclusive() {
            return false;
        }
        let dirty = desc.load() & (DIRTY | VALID | WRITING) == DIRTY | VALID;
        if !dirty {
            self.unlock_share_exclusive(buf);
        }
        dirty
    }

    /// Starts writes of the ring's next dirty buffers, so that they are clean when their turn comes. Nobody waits
    /// for them here; a failure shows when the buffer is written again.
    pub(super) fn write_ahead_of_ring(&self, io: &mut aio::Backend, ring: &Ring, context: IoContext) {
        for buf in ring.upcoming(RING_WRITES_AHEAD * self.run_limit()) {
            let desc = self.desc(buf);
            if usage(desc.load()) > 1 || refcount(desc.load()) > 0 || !desc.pin_if(DIRTY) {
                continue;
            }
            if !self.lock_pinned_dirty(buf) {
                self.core.unpin(buf);
                continue;
            }
            let run = self.gather_run(buf);
            match self.start_run(io, &run, context) {
                Ok(wait) => io.forget(wait),
                Err(_) => return,
            }
        }
    }

    // ---- one run

    /// Starts the write of a run, whose locks and one pin each go over to the I/O. After an error they are given
    /// up too.
    fn start_run(
        &self,
        io: &mut aio::Backend,
        run: &Run,
        context: IoContext,
    ) -> Result<WaitRef, StorageError> {
        let newest = run.bufs.iter().map(|&buf| self.locked_page_lsn(buf)).max().unwrap_or_default();
        let mut memory = IoMemory::empty(Arc::clone(&self.core.region));
        for &buf in &run.bufs {
            memory.push(buf as usize * BLOCK_SIZE, BLOCK_SIZE);
        }
        let PageTag { rel, fork, block } = run.first;
        let ready = self.flush_wal(io, newest).and_then(|()| self.smgr.write_io(rel, fork, block, memory));
        let write = match ready {
            Ok(write) => write,
            Err(error) => {
                self.release(run);
                return Err(error);
            }
        };
        let mut rounds: SmallVec<[u32; 16]> = SmallVec::new();
        if self.core.checksums {
            self.set_checksums(&run.bufs, block);
        }
        for &buf in &run.bufs {
            let desc = self.desc(buf);
            desc.start_writing();
            rounds.push(desc.io_round());
        }
        let write = write.completion(Arc::clone(&self.on_write), run.bufs.clone()).account(
            IoObject::Relation,
            context,
            IoOp::Write,
        );
        let wait = io.start(write);
        for (&buf, &round) in run.bufs.iter().zip(&rounds) {
            self.core.io_started(buf, round, wait);
        }
        Ok(wait)
    }

    /// Waits for a run's write, which this backend has started. What the descriptors say may be of a later write.
    fn finish_run(&self, io: &mut aio::Backend, wait: WaitRef, run: &Run) -> Result<(), StorageError> {
        let Some(error) = io.wait(wait).report().and_then(|report| report.error) else { return Ok(()) };
        Err(StorageError::Write {
            file: self.smgr.file_name(run.first.rel, run.first.fork, run.first.block),
            block: run.first.block,
            count: run.bufs.len() as u32,
            errno: error.errno().unwrap_or(Errno::IO),
        })
    }

    /// Makes the log durable up to `lsn`, if there is one and it is not yet.
    fn flush_wal(&self, io: &mut aio::Backend, lsn: Lsn) -> Result<(), StorageError> {
        match self.wal.get() {
            Some(wal) if lsn > wal.flushed() => {
                // The log may stage a batch of its own.
                let in_batch = io.in_batch();
                if in_batch {
                    io.end_batch();
                }
                let flushed = wal.flush(io, lsn).map_err(StorageError::Wal);
                if in_batch {
                    io.begin_batch();
                }
                flushed
            }
            _ => Ok(()),
        }
    }

    /// The LSN of a page that the caller has locked.
    fn locked_page_lsn(&self, buf: u32) -> Lsn {
        // SAFETY: the caller has the page pinned, and its share-exclusive lock excludes writers.
        unsafe { self.core.page(buf) }.lsn()
    }

    /// Stores the checksums of neighbouring pages that the caller has share-exclusively locked.
    fn set_checksums(&self, bufs: &[u32], first: u32) {
        let mut sums = [0; SUMMED_TOGETHER];
        for (group, bufs) in bufs.chunks(SUMMED_TOGETHER).enumerate() {
            let sums = &mut sums[..bufs.len()];
            let news: SmallVec<[bool; SUMMED_TOGETHER]> = {
                // SAFETY: as in `locked_page_lsn`; and the checksum too is only the lock's holder's to store, who does it
                // when these are gone.
                let page = |&buf: &u32| unsafe { &*self.core.page_ptr(buf).cast::<PageBytes>() };
                let pages: SmallVec<[&PageBytes; SUMMED_TOGETHER]> = bufs.iter().map(page).collect();
                checksum::checksum_scattered(&pages, first + (group * SUMMED_TOGETHER) as u32, sums);
                pages.iter().map(|page| Page::new(page).is_new()).collect()
            };
            for ((&buf, sum), _) in bufs.iter().zip(sums).zip(news).filter(|(_, new)| !new) {
                // SAFETY: as in `locked_page_lsn`; the references to whole pages are gone.
                let field = unsafe { self.core.checksum_field(buf) };
                field.store(sum.to_le(), Ordering::Relaxed);
            }
        }
    }
}

/// A pass over many pages.
struct Pass {
    report: WriteReport,
    in_flight: VecDeque<InFlight>,
    depth: usize,
    context: IoContext,
}
