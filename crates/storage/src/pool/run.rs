//! Runs: neighbouring dirty pages that are written by one I/O.
//!
//! A page is written under its share-exclusive lock: others may read it, nobody may change it. The
//! lock and a pin go over to the I/O; its completion releases them, in any thread. Before the I/O
//! starts, the WAL is durable up to the newest LSN of its pages, and each page has its checksum.
//!
//! The further pages of a run are locked only if that needs no waiting: a thread that holds one
//! lock and waits for another could wait forever.

use super::buffer_pool::BufferPool;
use super::desc::{DIRTY, VALID, WRITING, refcount};
use crate::error::{StorageError, errno_of};
use forebay_aio::sync::atomic::Ordering;
use forebay_aio::{self as aio, IoContext, IoMemory, IoOp, WaitRef};
use forebay_format::{BLOCK_SIZE, Lsn, Page, PageBytes, PageTag, checksum};
use smallvec::SmallVec;
use std::sync::Arc;

/// Pages whose checksums are computed together: as many as fit on the stack.
const SUMMED_TOGETHER: usize = 32;

/// Neighbouring pages. The owner of the run has them pinned and share-exclusively locked.
pub(crate) struct Run {
    pub(crate) first: PageTag,
    pub(crate) bufs: SmallVec<[u32; 16]>,
}

impl Run {
    /// Makes a run of one page.
    pub(crate) fn of(tag: PageTag, buf: u32) -> Run {
        Run { first: tag, bufs: SmallVec::from_slice(&[buf]) }
    }

    /// Returns the tag of the page that would continue the run.
    pub(crate) fn next(&self) -> PageTag {
        PageTag { block: self.first.block + self.bufs.len() as u32, ..self.first }
    }
}

impl BufferPool {
    /// Returns the most pages of one write.
    pub(crate) fn run_limit(&self) -> usize {
        (self.config.combine_limit as usize).min(self.buffers() / 4)
    }

    /// Whether a block is the first of its segment. No write crosses that border.
    pub(crate) fn starts_segment(&self, block: u32) -> bool {
        self.smgr.room_in_segment(block) == self.smgr.room_in_segment(0)
    }

    /// Releases a run's locks and pins.
    pub(crate) fn release_run(&self, run: &Run) {
        for &buf in &run.bufs {
            self.unlock_share_exclusive(buf);
            self.core.unpin(buf);
        }
    }

    /// Collects the run of dirty pages around a page that the caller has pinned and locked.
    pub(super) fn gather_run(&self, buf: u32) -> Run {
        let tag = self.desc(buf).tag();
        let mut run = Run::of(tag, buf);
        let limit = self.run_limit();
        while run.bufs.len() < limit && self.smgr.room_in_segment(tag.block) > run.bufs.len() as u32
        {
            let Some(b) = self.lock_dirty_neighbour(&run.next()) else { break };
            run.bufs.push(b);
        }
        while run.bufs.len() < limit && !self.starts_segment(run.first.block) {
            let before = PageTag { block: run.first.block - 1, ..run.first };
            let Some(b) = self.lock_dirty_neighbour(&before) else { break };
            run.bufs.insert(0, b);
            run.first = before;
        }
        run
    }

    /// Pins and locks a page if it is in memory, dirty, unused and not needed soon.
    fn lock_dirty_neighbour(&self, tag: &PageTag) -> Option<u32> {
        let idle =
            |s| s & (DIRTY | VALID) == DIRTY | VALID && refcount(s) == 0 && !self.is_in_demand(s);
        let buf = self.pin_cached_if(tag, idle)?;
        if self.lock_pinned_dirty(buf) {
            return Some(buf);
        }
        self.core.unpin(buf);
        None
    }

    /// Takes the share-exclusive lock of a pinned page, if it is free and the page is dirty.
    pub(super) fn lock_pinned_dirty(&self, buf: u32) -> bool {
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

    /// Returns the LSN up to which the log must be durable before the run is written.
    pub(crate) fn run_lsn(&self, run: &Run) -> Lsn {
        let lsns = run.bufs.iter().map(|&buf| self.locked_page_lsn(buf));
        lsns.max().expect("a run has pages")
    }

    /// Starts the write of a run, to which its locks and pins go over. After an error they are
    /// released too.
    pub(crate) fn start_run(
        &self,
        io: &mut aio::IoBackend,
        run: &Run,
        context: IoContext,
    ) -> Result<WaitRef, StorageError> {
        let newest = self.run_lsn(run);
        let mut memory = IoMemory::empty(Arc::clone(&self.core.region));
        for &buf in &run.bufs {
            memory.push(buf as usize * BLOCK_SIZE, BLOCK_SIZE);
        }
        let ready =
            self.flush_wal(io, newest).and_then(|()| self.smgr.write_io(&run.first, memory));
        let write = match ready {
            Ok(write) => write,
            Err(error) => {
                self.release_run(run);
                return Err(error);
            }
        };
        let mut rounds: SmallVec<[u32; 16]> = SmallVec::new();
        if self.core.checksums {
            self.set_checksums(&run.bufs, run.first.block);
        }
        for &buf in &run.bufs {
            let desc = self.desc(buf);
            desc.start_writing();
            rounds.push(desc.io_round());
        }
        let write = write
            .completion(Arc::clone(&self.on_write), run.bufs.clone())
            .account(self.object(), context, IoOp::Write)
            .flags(self.io_flags());
        let wait = io.start(write);
        for (&buf, &round) in run.bufs.iter().zip(&rounds) {
            self.core.io_started(buf, round, wait);
        }
        Ok(wait)
    }

    /// Waits for a run's write, which this backend has started. The result comes from the I/O's
    /// report, since the descriptors may already describe a later write.
    pub(crate) fn finish_run(
        &self,
        io: &mut aio::IoBackend,
        wait: WaitRef,
        run: &Run,
    ) -> Result<(), StorageError> {
        let Err(error) = io.wait(wait).check() else { return Ok(()) };
        Err(StorageError::Write {
            file: self.smgr.file_name(&run.first),
            block: run.first.block,
            count: run.bufs.len() as u32,
            errno: errno_of(&error),
        })
    }

    /// Whether the log is durable up to `lsn`, or no log is attached.
    pub(super) fn is_log_durable(&self, lsn: Lsn) -> bool {
        self.wal.get().is_none_or(|wal| lsn <= wal.flushed())
    }

    /// Makes the log durable up to `lsn`, unless it is already or no log is attached. It must be
    /// before a page with that LSN is written, and before files change in a way that a record
    /// describes. Fails, whatever `lsn`, once the log has ended.
    pub fn flush_wal(&self, io: &mut aio::IoBackend, lsn: Lsn) -> Result<(), StorageError> {
        forebay_aio::planted_bug!(self.aio, PagesWrittenBeforeWal, return Ok(()));
        match self.wal.get() {
            Some(wal) if lsn > wal.flushed() || wal.has_ended() => {
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

    /// Returns the LSN of a page that the caller has locked.
    fn locked_page_lsn(&self, buf: u32) -> Lsn {
        // SAFETY: the caller has the page pinned, and its share-exclusive lock excludes changes.
        unsafe { self.core.page(buf) }.lsn()
    }

    /// Stores the checksums of neighbouring pages that the caller has share-exclusively locked.
    fn set_checksums(&self, bufs: &[u32], first: u32) {
        let mut sums = [0; SUMMED_TOGETHER];
        for (group, bufs) in bufs.chunks(SUMMED_TOGETHER).enumerate() {
            let sums = &mut sums[..bufs.len()];
            let news: SmallVec<[bool; SUMMED_TOGETHER]> = {
                // SAFETY: as in `locked_page_lsn`. Only the lock's holder may store the checksum,
                // which happens below, when these references are gone.
                let page = |&buf: &u32| unsafe { &*self.core.page_ptr(buf).cast::<PageBytes>() };
                let pages: SmallVec<[&PageBytes; SUMMED_TOGETHER]> =
                    bufs.iter().map(page).collect();
                checksum::checksum_scattered(
                    &pages,
                    first + (group * SUMMED_TOGETHER) as u32,
                    sums,
                );
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
