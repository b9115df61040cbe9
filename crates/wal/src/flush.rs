//! Flush: makes the log durable up to a position.
//!
//! A committer writes everything that has been copied as one gather write, makes it durable, and
//! wakes the committers that this covers. Other writes may be in flight meanwhile. The
//! [`pipeline`](crate::pipeline) decides which thread does what, and when.
//!
//! An asynchronous commit (`synchronous_commit = off`) does not wait. The WAL writer makes it
//! durable within three of its rounds.

use std::path::Path;

use forebay_aio::{
    AioError, Errno, File, Io, IoBackend, IoContext, IoObject, IoOp, Target,
    sync::{Arc, Condvar, Duration, Instant, Mutex, atomic::Ordering, thread},
};
use forebay_format::Lsn;

use crate::{
    error::{FatalError, WalError},
    pipeline::{Claim, Step},
    position::WAL_BLOCK,
    stats::WalCounters,
    waiters::Goal,
    wal::Wal,
};

/// How often the WAL writer flushes.
#[derive(Debug, Clone, Copy)]
pub struct WriterPace {
    /// Time between two flushes (`wal_writer_delay`).
    pub delay: Duration,
    /// Bytes after which a round flushes before that time; with fewer it only writes
    /// (`wal_writer_flush_after`). 0: each round flushes.
    pub flush_after: u64,
    /// When it last flushed, if ever; [`Wal::write_behind`] updates it.
    pub last_flush: Option<Instant>,
}

/// Ends the log if it is dropped: a write or sync of the byte at this position has started, and the
/// pipeline does not know of its end. That happens after an error, which has ended the log already,
/// or in a panic.
struct UnfinishedIo<'a>(&'a Wal, Lsn);

impl Drop for UnfinishedIo<'_> {
    fn drop(&mut self) {
        let size = self.0.config.segment_size;
        let path = self.0.segments.path(size.number(self.1));
        let source = AioError::os("finish writing", &path, Errno::IO);
        self.0.fail(&path, "write", size.offset(self.1), 0, source);
    }
}

impl Wal {
    /// Returns once everything before `upto` is durable. Concurrent callers share writes and syncs.
    pub fn flush(&self, io: &mut IoBackend, upto: Lsn) -> Result<(), WalError> {
        self.check()?;
        if self.flushed_lsn() >= upto {
            return Ok(());
        }
        let upto = upto.min(self.checked_end(upto)?);
        self.wait_copied(upto);
        self.reach(io, Goal::Flushed(upto))
    }

    /// [`Wal::flush`] after `delay` (`commit_delay`), so that other committers can join. Returns at
    /// once if everything before `upto` is durable already.
    pub fn flush_after(
        &self,
        io: &mut IoBackend,
        upto: Lsn,
        delay: Duration,
    ) -> Result<(), WalError> {
        if !delay.is_zero() && self.flushed_lsn() < upto {
            let (lock, never_notified) = (Mutex::new(()), Condvar::new());
            never_notified.wait_for(&mut lock.lock(), delay);
        }
        self.flush(io, upto)
    }

    /// Notes an asynchronous commit whose record ends at `upto`: the WAL writer will flush it.
    pub fn note_async_commit(&self, upto: Lsn) {
        self.async_commits_end.fetch_max(upto.0, Ordering::AcqRel);
    }

    /// Whether an asynchronous commit may not be durable yet.
    pub fn has_async_commits(&self) -> bool {
        Lsn(self.async_commits_end.load(Ordering::Acquire)) > self.flushed_lsn()
    }

    /// Makes all asynchronous commits so far durable. Must be called before the outcome of one is
    /// written to the files of pg_xact.
    pub fn flush_async_commits(&self, io: &mut IoBackend) -> Result<(), WalError> {
        self.flush(io, Lsn(self.async_commits_end.load(Ordering::Acquire)))
    }

    /// Flushes everything inserted so far, and returns its end.
    pub fn flush_all(&self, io: &mut IoBackend) -> Result<Lsn, WalError> {
        let end = self.end_lsn();
        self.flush(io, end)?;
        Ok(end)
    }

    /// One round of a WAL writer that also prepares segments. Flushes full blocks. Returns whether
    /// there was anything to do.
    pub fn step(&self, io: &mut IoBackend) -> Result<bool, WalError> {
        let mut pace = WriterPace { delay: Duration::ZERO, flush_after: 0, last_flush: None };
        let flushes = self.write_behind(io, &mut pace)?;
        // Segments come last, because the disk may have no room for them.
        Ok(self.prepare_segments(io)? || flushes)
    }

    /// One round of a WAL writer that leaves segments to another thread. Flushes full blocks, or if
    /// those are flushed, asynchronous commits. Returns whether it flushed.
    pub fn write_behind(
        &self,
        io: &mut IoBackend,
        pace: &mut WriterPace,
    ) -> Result<bool, WalError> {
        self.check()?;
        let flushed = self.flushed_lsn();
        let full = self.end_lsn().page_start();
        let upto =
            if full > flushed { full } else { Lsn(self.async_commits_end.load(Ordering::Acquire)) };
        if upto <= flushed {
            return Ok(false);
        }
        let rested = pace.last_flush.is_none_or(|last| last.elapsed() >= pace.delay);
        if !rested && pace.flush_after > 0 && upto.since(flushed) < pace.flush_after {
            if upto > self.written_lsn() && upto.page_offset() == 0 {
                self.wait_copied(upto);
                self.reach(io, Goal::Written(upto))?;
            }
            return Ok(false);
        }
        self.flush(io, upto)?;
        pace.last_flush = Some(Instant::now());
        Ok(true)
    }

    /// The end of the log. Fails if `requested` lies beyond the start of the next record.
    fn checked_end(&self, requested: Lsn) -> Result<Lsn, WalError> {
        let end = self.end_lsn();
        if requested > end && requested > self.insert_lsn() {
            return Err(WalError::BeyondEnd { requested, end });
        }
        Ok(end)
    }

    /// Everything before this has been copied.
    fn copied(&self) -> Lsn {
        let end = self.reservations.head().pos;
        self.positions.end_lsn(self.slots.copied(end))
    }

    /// Waits until all records before `upto` have been copied to the buffers. `upto` must not be
    /// beyond the end of the log.
    pub(crate) fn wait_copied(&self, upto: Lsn) {
        let pos = self.positions.byte_pos(upto);
        // `upto` inside a page header: an inserter has started that page, so wait until it has
        // copied the first 8 bytes behind the header.
        let behind_header = || {
            let page = self.positions.byte_pos(upto.page_start());
            page.expect("the start of a page is in no header") + 8
        };
        self.slots.wait_copied(pos.unwrap_or_else(behind_header));
    }

    /// Returns once `goal` is reached: does what the pipeline asks for, or waits for other threads
    /// to do it. Everything before the goal must have been copied.
    pub(crate) fn reach(&self, io: &mut IoBackend, goal: Goal) -> Result<(), WalError> {
        let mut step = self.pipeline.step(goal, || self.copied());
        loop {
            step = match step {
                // A goal that was reached counts, even if the log has failed since.
                Step::Done => return if self.is_reached(goal) { Ok(()) } else { self.check() },
                Step::Wait(event) => {
                    event.wait();
                    // Most waiters are woken at once because their goals are reached: checking this
                    // first keeps them from contending for the lock.
                    if self.is_reached(goal) {
                        return Ok(());
                    }
                    self.pipeline.step(goal, || self.copied())
                }
                Step::Delay => {
                    thread::yield_now();
                    self.pipeline.delayed(goal, || self.copied())
                }
                Step::Write(claim) => self.complete(claim.from, || {
                    self.write(io, &claim)?;
                    Ok(self.pipeline.wrote(&claim, goal, || self.copied()))
                })?,
                Step::Sync(upto) => self.complete(Lsn(upto.0 - 1), || {
                    self.sync(io, upto)?;
                    Ok(self.pipeline.synced(upto, goal, || self.copied()))
                })?,
            };
        }
    }

    /// Has `io` write or sync the byte at `at` and report that to the pipeline. If either fails,
    /// the log ends. Returns what to do next.
    fn complete(
        &self,
        at: Lsn,
        io: impl FnOnce() -> Result<Step, WalError>,
    ) -> Result<Step, WalError> {
        let unfinished = UnfinishedIo(self, at);
        let next = io()?;
        self.segments.note_flushed(self.flushed_lsn());
        std::mem::forget(unfinished);
        Ok(next)
    }

    fn is_reached(&self, goal: Goal) -> bool {
        match goal {
            Goal::Flushed(lsn) => self.flushed_lsn() >= lsn,
            Goal::Written(lsn) => self.written_lsn() >= lsn,
        }
    }

    /// Carries out a claimed write: as one gather write, or without [`WalConfig::gather`] as one
    /// write for each block. An error ends the log.
    ///
    /// [`WalConfig::gather`]: crate::WalConfig::gather
    fn write(&self, io: &mut IoBackend, claim: &Claim) -> Result<(), WalError> {
        let size = self.config.segment_size;
        let file = self.segment_file(size.number(claim.from))?;
        if size.offset(claim.from) == 0 {
            // The segments before are complete and durable, or this could not have been claimed.
            self.segments.enter(size.number(claim.from), self.redo_lsn());
        }
        let len = claim.upto.0.next_multiple_of(WAL_BLOCK) - claim.from.page_start().0;
        let writes = if self.config.gather { 1 } else { len / WAL_BLOCK };
        let written = if writes == 1 {
            let write = self.write_of(&file, claim.from, claim.upto);
            io.run(write).map(drop).map_err(|e| (claim.from, len, e))
        } else {
            self.write_blocks(io, &file, claim).map_err(|(block, e)| (block, WAL_BLOCK, e))
        };
        if let Err((at, len, e)) = written {
            return Err(self.fail(file.path(), "write", size.offset(at.page_start()), len, e));
        }
        let counters = &self.counters;
        WalCounters::add(&counters.writes, writes);
        WalCounters::add(&counters.written_bytes, len);
        WalCounters::add(&counters.in_flight, writes * claim.in_flight as u64);
        if self.config.sync_method.opens_synchronous() {
            WalCounters::add(&counters.flushes, 1);
        }
        Ok(())
    }

    /// A write of everything from `from` to `upto`, which lie in a range that the caller claimed.
    fn write_of(&self, file: &File, from: Lsn, upto: Lsn) -> Io {
        // SAFETY: only what has been copied is claimed. `written` passes it only after the write
        // was reported as done, and two writes with partial blocks are never in flight at once.
        let gathered = unsafe { self.ring.gather(from, upto) };
        let offset = self.config.segment_size.offset(gathered.from);
        let len = gathered.memory.len() as u64;
        assert!(offset.is_multiple_of(WAL_BLOCK) && len.is_multiple_of(WAL_BLOCK));
        let target = Target::Wal { start: gathered.from.0, end: gathered.from.0 + len };
        let write = Io::write(file.clone(), offset, gathered.memory, target);
        write.account(IoObject::Wal, IoContext::Normal, IoOp::Write)
    }

    /// Writes each claimed block by itself: all at once with direct I/O, but one after the other
    /// through the kernel's cache (see [`pipeline`](crate::pipeline)). An error names its block.
    fn write_blocks(
        &self,
        io: &mut IoBackend,
        file: &File,
        claim: &Claim,
    ) -> Result<(), (Lsn, AioError)> {
        if !self.config.direct {
            return claim.blocks().try_for_each(|(from, upto)| {
                io.run(self.write_of(file, from, upto)).map(drop).map_err(|e| (from, e))
            });
        }
        let in_batch = io.in_batch();
        if !in_batch {
            io.begin_batch();
        }
        // I/O that was staged before may still be combined, but not these writes.
        io.submit();
        let combine_limit = io.set_combine_limit(0);
        let writes =
            claim.blocks().map(|(from, upto)| (from, io.start(self.write_of(file, from, upto))));
        let writes: Vec<_> = writes.collect();
        io.submit();
        io.set_combine_limit(combine_limit);
        if !in_batch {
            io.end_batch();
        }
        // Wait for all of them even if one fails: none may be in flight when the claim is reported.
        let results: Vec<_> =
            writes.into_iter().map(|(from, write)| (from, io.wait(write).check())).collect();
        results.into_iter().try_for_each(|(from, result)| result.map(drop).map_err(|e| (from, e)))
    }

    /// Makes everything before `upto` durable by a sync of one segment. It must be written, and
    /// earlier segments durable. An error ends the log.
    fn sync(&self, io: &mut IoBackend, upto: Lsn) -> Result<(), WalError> {
        forebay_aio::planted_bug!(io.aio(), WalFlushNotSynced, return Ok(()));
        let file = self.segment_file(self.config.segment_size.number_before(upto))?;
        let op = self.config.sync_method.sync_op().expect("a method with syncs");
        let sync = || Io::new(file.clone(), op.clone(), Target::File);
        let mut result = io.run(sync().account(IoObject::Wal, IoContext::Normal, IoOp::Fsync));
        forebay_aio::planted_bug!(
            io.aio(),
            WalFailedSyncRetried,
            while result.is_err() {
                result = io.run(sync());
            }
        );
        if let Err(e) = result {
            return Err(self.fail(file.path(), "sync", 0, 0, e));
        }
        WalCounters::add(&self.counters.syncs, 1);
        WalCounters::add(&self.counters.flushes, 1);
        Ok(())
    }

    /// The open segment `number`.
    fn segment_file(&self, number: u64) -> Result<File, WalError> {
        self.segments.file(number).ok_or_else(|| {
            let path = self.segments.path(number);
            let source = AioError::os("find open file", &path, Errno::BADF);
            self.fail(&path, "write", 0, 0, source)
        })
    }

    /// Ends the log: it is unknown what is on disk, or in the buffers.
    pub(crate) fn fail(
        &self,
        file: &Path,
        operation: &'static str,
        offset: u64,
        len: u64,
        source: AioError,
    ) -> WalError {
        let file = file.to_owned();
        let source = Arc::new(source);
        let fatal = FatalError { file, operation, offset, len, source };
        self.end_with(WalError::Fatal(Arc::new(fatal)))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use forebay_aio::{Aio, AioConfig, BackendType, MethodKind, PosixNamespace};
    use forebay_format::{
        SegmentSize,
        wal::{Rmgr, xlog},
    };

    use super::*;
    use crate::{Record, Resume, WalConfig};

    #[test]
    fn a_panic_of_the_pipeline_ends_the_log() {
        let dir = tempfile::tempdir().expect("directory");
        let names = Arc::new(PosixNamespace::new());
        let aio = Aio::new(names, MethodKind::Sync, AioConfig::default()).expect("aio");
        let mut io = aio.backend(BackendType::Standalone).expect("backend");
        let size = SegmentSize::new(1 << 20).expect("size");
        let config = WalConfig::new(dir.path().to_owned(), size, 1);
        let at = Resume { insert_at: Lsn(1 << 20), prev: Lsn(0), redo: Lsn(0), aborted: None };
        let wal = Wal::start(Arc::clone(&aio), &mut io, config, at).expect("log");
        let record = Record { rmgr: Rmgr::XLOG, info: xlog::NOOP, xid: 0, main: b"a", blocks: &[] };
        let end = wal.insert(&mut io, &record).expect("insert").end;
        let goal = Goal::Flushed(end);
        let Step::Write(claim) = wal.pipeline.step(goal, || end) else { panic!("no write") };
        let report = || Ok(wal.pipeline.wrote(&claim, goal, || end));
        assert!(matches!(wal.complete(claim.from, report), Ok(Step::Sync(_))));
        assert!(wal.poisoned().is_none());
        // No claim is written twice.
        let again = catch_unwind(AssertUnwindSafe(|| wal.complete(claim.from, report)));
        assert!(again.is_err() && wal.poisoned().is_some());
        wal.flush(&mut io, end).expect_err("the log has ended");
    }
}
