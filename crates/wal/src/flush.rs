//! Flush: the committer leads. It writes everything that is copied as one gather write, beside
//! writes that are under way already, makes it durable, and wakes those whom that covers. Who does
//! what, and when, is [`flight`](crate::flight)'s.
//!
//! A commit need not wait (`synchronous_commit = off`): then the WAL writer's rounds make it
//! durable, the latest one within three rests.

use std::path::Path;

use forebay_aio::{
    AioError, Backend, Errno, File, Io, IoContext, IoObject, IoOp, Op, Target,
    sync::{Arc, Condvar, Duration, Instant, Mutex, atomic::Ordering, thread},
};
use forebay_format::Lsn;

use crate::{
    config::SyncMethod,
    crowd::Goal,
    error::{FatalError, WalError},
    flight::{Claim, Step},
    position::WAL_BLOCK,
    stats::WalCounters,
    wal::Wal,
};

/// How often the WAL writer flushes.
#[derive(Debug, Clone, Copy)]
pub struct WriterPace {
    /// Its rest between rounds (`wal_writer_delay`).
    pub delay: Duration,
    /// After so many bytes a round flushes whatever the time; before, it only writes
    /// (`wal_writer_flush_after`). 0: always.
    pub flush_after: u64,
    /// When it flushed last, if ever; kept up to date by [`Wal::write_behind`].
    pub last_flush: Option<Instant>,
}

/// A write or sync that was begun. Dropped by an error, which has ended the log already, or by a
/// panic.
struct Begun<'a>(&'a Wal, Lsn);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let size = self.0.config.segment_size;
        let path = self.0.segments.path(size.number(self.1));
        let source = AioError::os("finish writing", &path, Errno::IO);
        self.0.fail(&path, "write", size.offset(self.1), 0, source);
    }
}

impl Wal {
    /// Returns once everything up to `upto` is durable. One caller writes and syncs all that is
    /// inserted; the others wait for it.
    pub fn flush(&self, io: &mut Backend, upto: Lsn) -> Result<(), WalError> {
        self.check()?;
        if self.flushed_lsn() >= upto {
            return Ok(());
        }
        let upto = upto.min(self.checked_end(upto)?);
        self.wait_copied(upto);
        self.reach(io, Goal::Flushed(upto))
    }

    /// [`Wal::flush`] after `delay` (commit_delay), in which others may come along. Returns at once
    /// if it is durable by then.
    pub fn flush_after(
        &self,
        io: &mut Backend,
        upto: Lsn,
        delay: Duration,
    ) -> Result<(), WalError> {
        if !delay.is_zero() && self.flushed_lsn() < upto {
            let (lock, never) = (Mutex::new(()), Condvar::new());
            never.wait_for(&mut lock.lock(), delay);
        }
        self.flush(io, upto)
    }

    /// A commit that ends at `upto` does not wait for its durability: the WAL writer sees to it.
    pub fn leave_to_writer(&self, upto: Lsn) {
        self.unawaited.fetch_max(upto.0, Ordering::AcqRel);
    }

    /// Makes every commit durable that did not wait: who shows others that it happened (in
    /// pg_xact's files) calls this before.
    pub fn flush_unawaited(&self, io: &mut Backend) -> Result<(), WalError> {
        self.flush(io, Lsn(self.unawaited.load(Ordering::Acquire)))
    }

    /// Flushes everything inserted so far, and returns its end.
    pub fn flush_all(&self, io: &mut Backend) -> Result<Lsn, WalError> {
        let end = self.end_lsn();
        self.flush(io, end)?;
        Ok(end)
    }

    /// One round of the WAL writer: flushes full blocks, and prepares segments. True if there was
    /// something to do.
    pub fn step(&self, io: &mut Backend) -> Result<bool, WalError> {
        let mut pace = WriterPace { delay: Duration::ZERO, flush_after: 0, last_flush: None };
        let flushes = self.write_behind(io, &mut pace)?;
        // Last: the disk may have no room for segments.
        Ok(self.prepare_segments(io)? || flushes)
    }

    /// A round of a WAL writer that leaves segments to somebody else: flushes full blocks, and
    /// where they are flushed already, commits that did not wait. True if there was something to
    /// flush.
    pub fn write_behind(&self, io: &mut Backend, pace: &mut WriterPace) -> Result<bool, WalError> {
        self.check()?;
        let flushed = self.flushed_lsn();
        let full = self.end_lsn().page_start();
        let upto = if full > flushed { full } else { Lsn(self.unawaited.load(Ordering::Acquire)) };
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

    /// The end of the log, unless `requested` lies beyond even the place of the next record.
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

    /// Waits until all insertions before `upto`, which is not beyond the log's end, have been
    /// copied.
    pub(crate) fn wait_copied(&self, upto: Lsn) {
        let pos = self.positions.byte_pos(upto);
        // Inside a page's header, of a page that somebody has begun: then wait for what is behind
        // that.
        let behind = || self.positions.byte_pos(upto.page_start()).map_or(0, |pos| pos + 8);
        self.slots.wait_copied(pos.unwrap_or_else(behind));
    }

    /// Does, or waits for, what is to be done until `goal` is reached. Everything before it has
    /// been copied.
    pub(crate) fn reach(&self, io: &mut Backend, goal: Goal) -> Result<(), WalError> {
        let mut step = self.flight.step(goal, || self.copied());
        loop {
            step = match step {
                // A goal that is reached is reached, even if the log has failed since.
                Step::Done => return if self.is_reached(goal) { Ok(()) } else { self.check() },
                Step::Wait(bell) => {
                    bell.wait();
                    // Most are woken because it is, all at once: they had better not meet at the
                    // lock.
                    if self.is_reached(goal) {
                        return Ok(());
                    }
                    self.flight.step(goal, || self.copied())
                }
                Step::Linger => {
                    thread::yield_now();
                    self.flight.lingered(goal, || self.copied())
                }
                Step::Write(claim) => {
                    self.write(io, &claim)?;
                    let next = self.flight.wrote(&claim, goal, || self.copied());
                    self.segments.note_flushed(self.flushed_lsn());
                    next
                }
                Step::Sync(upto) => {
                    self.sync(io, upto)?;
                    let next = self.flight.synced(upto, goal, || self.copied());
                    self.segments.note_flushed(self.flushed_lsn());
                    next
                }
            };
        }
    }

    fn is_reached(&self, goal: Goal) -> bool {
        match goal {
            Goal::Flushed(lsn) => self.flushed_lsn() >= lsn,
            Goal::Written(lsn) => self.written_lsn() >= lsn,
        }
    }

    /// Writes a piece that was claimed: by one gather write, or, for comparison, each of its blocks
    /// by itself. An error has ended the log.
    fn write(&self, io: &mut Backend, claim: &Claim) -> Result<(), WalError> {
        let size = self.config.segment_size;
        let begun = Begun(self, claim.from);
        let file = self.segment_file(size.number(claim.from))?;
        if size.offset(claim.from) == 0 {
            // Those before are complete and durable: else this piece would not have been claimed.
            self.segments.enter(size.number(claim.from));
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
        std::mem::forget(begun);
        let counters = &self.counters;
        WalCounters::add(&counters.writes, writes);
        WalCounters::add(&counters.written_bytes, len);
        WalCounters::add(&counters.in_flight, writes * claim.in_flight as u64);
        if self.config.sync_method.opens_synchronous() {
            WalCounters::add(&counters.flushes, 1);
        }
        Ok(())
    }

    /// One write of everything from `from` to `upto`, which lie in a piece that was claimed.
    fn write_of(&self, file: &File, from: Lsn, upto: Lsn) -> Io {
        // SAFETY: a piece is claimed from what is copied. `written` passes it only once it has been
        // reported as written, and two pieces with partial blocks are not on their way at once.
        let gathered = unsafe { self.ring.gather(from, upto) };
        let offset = self.config.segment_size.offset(gathered.from);
        let len = gathered.memory.len() as u64;
        debug_assert!(offset.is_multiple_of(WAL_BLOCK) && len.is_multiple_of(WAL_BLOCK));
        let target = Target::Wal { start: gathered.from.0, end: gathered.from.0 + len };
        let write = Io::write(file.clone(), offset, gathered.memory, target);
        write.account(IoObject::Wal, IoContext::Normal, IoOp::Write)
    }

    /// Writes each block of a piece by itself: all of them at once, but through the kernel's cache
    /// one after the other (see [`flight`](crate::flight) for why). An error comes with its block.
    fn write_blocks(
        &self,
        io: &mut Backend,
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
        // What was staged before is merged as ever; these are not.
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
        // All are waited for, whatever becomes of the first: none may be on its way when the piece
        // is reported.
        let results: Vec<_> =
            writes.into_iter().map(|(from, write)| (from, io.wait(write).check())).collect();
        results.into_iter().try_for_each(|(from, result)| result.map(drop).map_err(|e| (from, e)))
    }

    /// Makes everything before `upto` that was written durable, all of it in one segment. An error
    /// has ended the log.
    fn sync(&self, io: &mut Backend, upto: Lsn) -> Result<(), WalError> {
        forebay_aio::planted_bug!(io.aio(), WalFlushNotSynced, return Ok(()));
        let begun = Begun(self, Lsn(upto.0 - 1));
        let file = self.segment_file(self.config.segment_size.number_before(upto))?;
        let op = match self.config.sync_method {
            SyncMethod::Fsync => Op::Fsync,
            _ => Op::Fdatasync,
        };
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
        std::mem::forget(begun);
        WalCounters::add(&self.counters.syncs, 1);
        WalCounters::add(&self.counters.flushes, 1);
        Ok(())
    }

    /// The segment `number`, open.
    fn segment_file(&self, number: u64) -> Result<File, WalError> {
        self.segments.file(number).ok_or_else(|| {
            let path = self.segments.path(number);
            let source = AioError::os("find open file", &path, Errno::BADF);
            self.fail(&path, "write", 0, 0, source)
        })
    }

    /// Ends the log: what is on disk is no longer known.
    fn fail(
        &self,
        file: &Path,
        operation: &'static str,
        offset: u64,
        len: u64,
        source: AioError,
    ) -> WalError {
        let file = file.to_owned();
        self.poison_with(Arc::new(FatalError {
            file,
            operation,
            offset,
            len,
            source: Arc::new(source),
        }))
    }
}
