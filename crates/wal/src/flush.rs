//! Flush: the committer leads. It writes everything that is final as one gather write, makes it durable, and
//! wakes those whom that covers; one whom it does not cover leads the next flush.
//!
//! There is one writer at a time (see [`role`](crate::role)), so no block is ever in two writes at once, and
//! segments are completed in order: a segment is durable before the first byte of the next one is written.
//! So what a crash can leave behind the end of the log lies in one segment; `resume` relies on that.

use std::path::Path;

use forebay_aio::{
    AioError, Backend, Errno, File, Io, IoContext, IoObject, IoOp, Op, Target, sync::Arc,
    sync::atomic::Ordering,
};
use forebay_format::Lsn;

use crate::{
    config::SyncMethod,
    error::{FatalError, WalError},
    position::WAL_BLOCK,
    ring::WriteEnd,
    role::{Acquired, Goal, Held},
    stats::WalCounters,
    wal::Wal,
};

/// What only the writer of the moment may use.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The ring's writing end.
    pub end: WriteEnd,
    /// The segment written last.
    pub current: Option<(u64, File)>,
}

impl Wal {
    /// Returns once everything up to `upto` is durable. One caller writes and syncs all that is inserted;
    /// the others wait for it.
    pub fn flush(&self, io: &mut Backend, upto: Lsn) -> Result<(), WalError> {
        self.check()?;
        if self.flushed_lsn() >= upto {
            return Ok(());
        }
        let upto = upto.min(self.checked_end(upto)?);
        let goal = Goal::Flushed(upto);
        loop {
            if self.flushed_lsn() >= upto {
                return Ok(());
            }
            self.check()?;
            match self.writer.acquire(goal, |goal| self.is_reached(goal)) {
                Acquired::Woken => {}
                Acquired::Held(held) => self.lead(io, held, self.ring.copied(), true)?,
            }
        }
    }

    /// Flushes everything inserted so far, and returns its end.
    pub fn flush_all(&self, io: &mut Backend) -> Result<Lsn, WalError> {
        let end = self.end_lsn();
        self.flush(io, end)?;
        Ok(end)
    }

    /// One round of the WAL writer: prepares the next segment, and flushes full blocks. True if there was
    /// something to do.
    pub fn step(&self, io: &mut Backend) -> Result<bool, WalError> {
        self.check()?;
        let next = self.segments.number(self.insert_lsn()) + 1;
        let prepares = next >= self.segments.ready();
        self.ensure_segment(io, next)?;
        let full = self.end_lsn().page_start();
        let flushes = self.flushed_lsn() < full;
        if flushes {
            self.flush(io, full)?;
        }
        Ok(prepares || flushes)
    }

    /// The end of the log, unless `requested` lies beyond even the place of the next record.
    fn checked_end(&self, requested: Lsn) -> Result<Lsn, WalError> {
        let end = self.end_lsn();
        if requested > end && requested > self.insert_lsn() {
            return Err(WalError::BeyondEnd { requested, end });
        }
        Ok(end)
    }

    /// Whether a waiter has nothing more to wait for.
    pub(crate) fn is_reached(&self, goal: Goal) -> bool {
        self.poison.get().is_some()
            || match goal {
                Goal::Flushed(lsn) => self.flushed_lsn() >= lsn,
                Goal::Written(lsn) => self.ring.written() >= lsn,
            }
    }

    /// Writes up to `upto`, makes it durable if `sync`, and gives the role up. An error has poisoned the log.
    pub(crate) fn lead(
        &self,
        io: &mut Backend,
        mut held: Held<'_, Writer>,
        upto: Lsn,
        sync: bool,
    ) -> Result<(), WalError> {
        let done = match self.check() {
            Ok(()) => self.write_upto(io, held.tool(), upto, sync),
            poisoned => poisoned,
        };
        held.release(|goal| self.is_reached(goal));
        done
    }

    fn write_upto(
        &self,
        io: &mut Backend,
        writer: &mut Writer,
        upto: Lsn,
        sync: bool,
    ) -> Result<(), WalError> {
        let size = self.config.segment_size;
        while self.ring.written() < upto {
            let number = size.number(self.ring.written());
            let segment_end = size.start(number + 1);
            let end = upto.min(segment_end);
            let file = self.writer_file(writer, number)?;
            self.write_piece(io, writer, &file, end)?;
            if self.config.sync_method.opens_synchronous() {
                self.advance_flushed(end);
            } else if end == segment_end {
                self.sync_segment(io, &file)?;
                self.advance_flushed(end);
            }
            self.writer.wake_reached(|goal| self.is_reached(goal));
        }
        if sync && self.flushed_lsn() < upto {
            let file = self.writer_file(writer, size.number_before(upto))?;
            self.sync_segment(io, &file)?;
            self.advance_flushed(upto);
        }
        if sync {
            WalCounters::add(&self.counters.flushes, 1);
        }
        Ok(())
    }

    /// One gather write of everything up to `end`, which is in the segment of the first unwritten byte.
    fn write_piece(
        &self,
        io: &mut Backend,
        writer: &mut Writer,
        file: &File,
        end: Lsn,
    ) -> Result<(), WalError> {
        let gathered = writer.end.gather(end);
        let offset = self.config.segment_size.offset(gathered.from);
        let len = gathered.memory.len() as u64;
        debug_assert!(offset.is_multiple_of(WAL_BLOCK) && len.is_multiple_of(WAL_BLOCK));
        let target = Target::Wal { start: gathered.from.0, end: gathered.from.0 + len };
        let write = Io::write(file.clone(), offset, gathered.memory, target);
        io.run(write.account(IoObject::Wal, IoContext::Normal, IoOp::Write))
            .map_err(|e| self.fail(file.path(), "write", offset, len, e))?;
        WalCounters::add(&self.counters.writes, 1);
        writer.end.release(end);
        Ok(())
    }

    fn sync_segment(&self, io: &mut Backend, file: &File) -> Result<(), WalError> {
        let op = match self.config.sync_method {
            SyncMethod::Fsync => Op::Fsync,
            _ => Op::Fdatasync,
        };
        if io.aio().has_bug("wal: a flush does not sync") {
            return Ok(());
        }
        let sync = Io::new(file.clone(), op, Target::File);
        match io.run(sync.account(IoObject::Wal, IoContext::Normal, IoOp::Fsync)) {
            Err(_) if io.aio().has_bug("wal: a failed sync is tried again") => self.sync_segment(io, file),
            Err(e) => Err(self.fail(file.path(), "sync", 0, 0, e)),
            Ok(_) => Ok(()),
        }
    }

    /// The segment `number`, kept open from one write to the next.
    fn writer_file(&self, writer: &mut Writer, number: u64) -> Result<File, WalError> {
        match &writer.current {
            Some((current, file)) if *current == number => Ok(file.clone()),
            _ => {
                let file = self.segments.file(number).ok_or_else(|| {
                    let path = self.segments.path(number);
                    let source = AioError::os("find open file", &path, Errno::BADF);
                    self.fail(&path, "write", 0, 0, source)
                })?;
                self.segments.close_before(number);
                writer.current = Some((number, file.clone()));
                Ok(file)
            }
        }
    }

    /// Only the writer calls this, so the value only grows.
    fn advance_flushed(&self, to: Lsn) {
        let before = self.flushed.swap(to.0, Ordering::AcqRel);
        debug_assert!(before <= to.0);
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
        self.poison_with(Arc::new(FatalError { file, operation, offset, len, source: Arc::new(source) }))
    }
}
