//! Insertion: a record is assembled outside the lock, gets its place under it, and is copied to that place.
//!
//! Reserving and copying are separate steps, though both happen under the insertion lock. A record is written
//! into the ring piece by piece; at each page boundary the next page's header goes first. The end that
//! everything before is final (`copied`) is published at each page boundary and at the record's end.

use forebay_aio::{
    AioError, Backend, Errno,
    sync::{Arc, atomic::Ordering},
};
use forebay_format::{
    Lsn,
    wal::{
        PageHeader,
        page_header::{
            BACKUP_REMOVABLE, FIRST_IS_CONTINUATION, FIRST_IS_OVERWRITTEN_CONTINUATION, LONG_SIZE, LongHeader,
        },
    },
};

use crate::{
    error::{FatalError, WalError},
    position::{WAL_BLOCK, align_record},
    record::{Assembled, ImagePolicy, Inserted, Record, assemble},
    ring::InsertEnd,
    role::{Acquired, Goal},
    stats::WalCounters,
    wal::Wal,
};

/// What the insertion lock guards.
#[derive(Debug)]
pub(crate) struct InsertState {
    /// Byte position of the next record.
    pub pos: u64,
    /// Start of the record inserted last.
    pub prev: Lsn,
    /// The ring's inserting end.
    pub end: InsertEnd,
    /// The page whose header says that it takes the place of a continuation that was lost.
    pub overwrites_at: Option<Lsn>,
}

/// A place in the log.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    start: Lsn,
    end: Lsn,
    end_pos: u64,
}

/// Dropped while a record is in the ring in part only: by an error, which has ended the log already, or by a panic.
struct Halfway<'a>(&'a Wal);

impl Drop for Halfway<'_> {
    fn drop(&mut self) {
        let file = self.0.config.dir.clone();
        let source = Arc::new(AioError::os("finish a record in", &file, Errno::IO));
        let fatal = FatalError { file, operation: "insert into", offset: 0, len: 0, source };
        self.0.poison_with(Arc::new(fatal));
    }
}

impl Wal {
    /// Inserts a record. An error other than a fatal one means that nothing was inserted.
    ///
    /// Full-page images are decided here, from each page's LSN and the redo pointer. Callers that must not
    /// fail halfway call [`Wal::ensure_room`] before they change pages.
    pub fn insert(&self, io: &mut Backend, record: &Record<'_>) -> Result<Inserted, WalError> {
        loop {
            let mut assembled = assemble(record, self.image_policy())?;
            let mut state = self.insert.lock();
            self.check()?;
            // The redo pointer moves under this lock only.
            if assembled.is_outdated(self.image_policy()) {
                continue;
            }
            return self.insert_locked(io, &mut state, &mut assembled);
        }
    }

    /// Makes segments so that `bytes` more of WAL, and as much again from others as a segment holds, can be
    /// inserted without making a segment: what a caller needs before a critical section.
    ///
    /// So a segment's worth of the log is still free when the disk is full. It is for those that end transactions and
    /// for those that make room, which call [`Wal::ensure_room_of_the_spare`].
    pub fn ensure_room(&self, io: &mut Backend, bytes: u64) -> Result<(), WalError> {
        self.ensure_room_beside(io, bytes, self.config.segment_size.bytes())
    }

    /// Like [`Wal::ensure_room`], for changes that free space, such as the removal of a table: they may use up the
    /// segment that others leave, but for a quarter.
    pub fn ensure_room_of_the_spare(&self, io: &mut Backend, bytes: u64) -> Result<(), WalError> {
        self.ensure_room_beside(io, bytes, self.config.segment_size.bytes() / 4)
    }

    fn ensure_room_beside(&self, io: &mut Backend, bytes: u64, others: u64) -> Result<(), WalError> {
        self.check()?;
        let pos = self.insert_pos.load(Ordering::Acquire);
        let end = self.positions.end_lsn(pos + align_record(bytes)).add(others);
        self.ensure_segment(io, self.segments.number(end))
    }

    pub(crate) fn image_policy(&self) -> ImagePolicy {
        let full_page_writes = self.full_page_writes.load(Ordering::Acquire)
            && !self.segments.has_bug("wal: pages are logged without images");
        ImagePolicy { redo: self.redo_lsn(), full_page_writes }
    }

    /// Inserts an assembled record: the insertion lock is held.
    pub(crate) fn insert_locked(
        &self,
        io: &mut Backend,
        state: &mut InsertState,
        assembled: &mut Assembled<'_>,
    ) -> Result<Inserted, WalError> {
        let len = assembled.encoded.total_len() as u64;
        let place = self.reserve(state, len);
        // No segment, no record: so want of room is found out before anything is inserted.
        self.ensure_segment(io, self.config.segment_size.number_before(place.end))?;
        assembled.encoded.seal(state.prev);
        let halfway = Halfway(self);
        self.copy(io, state, place.start, len, assembled.encoded.parts())?;
        state.pos = place.end_pos;
        state.prev = place.start;
        state.end.publish(place.end);
        self.insert_pos.store(state.pos, Ordering::Release);
        self.last_record.store(state.prev.0, Ordering::Release);
        std::mem::forget(halfway);
        WalCounters::add(&self.counters.records, 1);
        WalCounters::add(&self.counters.bytes, len);
        WalCounters::add(&self.counters.full_page_images, assembled.images);
        Ok(Inserted { start: place.start, end: place.end })
    }

    /// The place of a record of `len` bytes.
    fn reserve(&self, state: &InsertState, len: u64) -> Reserved {
        let end_pos = state.pos + align_record(len);
        Reserved { start: self.positions.start_lsn(state.pos), end: self.positions.end_lsn(end_pos), end_pos }
    }

    /// Copies a record of `len` bytes to `start`. Fails only if the log is lost.
    fn copy<'p>(
        &self,
        io: &mut Backend,
        state: &mut InsertState,
        start: Lsn,
        len: u64,
        parts: impl Iterator<Item = &'p [u8]>,
    ) -> Result<(), WalError> {
        if start.page_offset() as u64 == self.positions.header_len(start) {
            self.open_page(io, state, start.page_start(), 0)?;
        }
        let (mut at, mut left) = (start, len);
        for mut part in parts {
            while !part.is_empty() {
                if at.page_offset() == 0 {
                    at = self.open_page(io, state, at, left)?;
                }
                let room = WAL_BLOCK as usize - at.page_offset();
                let (piece, rest) = part.split_at(part.len().min(room));
                state.end.put(at, piece);
                at = at.add(piece.len() as u64);
                left -= piece.len() as u64;
                part = rest;
            }
        }
        Ok(())
    }

    /// Starts the page at `page`, on which `rem_len` bytes of a record go on. Returns where its data begins.
    fn open_page(
        &self,
        io: &mut Backend,
        state: &mut InsertState,
        page: Lsn,
        rem_len: u64,
    ) -> Result<Lsn, WalError> {
        state.end.publish(page);
        self.make_space(io, page)?;
        let mut info = BACKUP_REMOVABLE;
        if rem_len > 0 {
            info |= FIRST_IS_CONTINUATION;
        }
        if state.overwrites_at == Some(page) {
            info |= FIRST_IS_OVERWRITTEN_CONTINUATION;
        }
        let size = self.config.segment_size;
        let long = (size.offset(page) == 0).then(|| LongHeader {
            system_id: self.config.system_id,
            segment_size: size.get(),
            block_size: WAL_BLOCK as u32,
        });
        let timeline = self.config.timeline;
        // A record has at most 1020 MB, so what is left of one always fits.
        let header = PageHeader { info, timeline, page_addr: page, rem_len: rem_len as u32, long };
        let mut bytes = [0; LONG_SIZE];
        let len = header.encode(&mut bytes);
        state.end.open_block(page, &bytes[..len]);
        Ok(page.add(len as u64))
    }

    /// Makes the slot of the block at `page` free, by writing out older blocks if need be.
    fn make_space(&self, io: &mut Backend, page: Lsn) -> Result<(), WalError> {
        let need = self.ring.needs_written(page);
        if self.ring.written() >= need {
            return Ok(());
        }
        WalCounters::add(&self.counters.buffers_full, 1);
        let goal = Goal::Written(need);
        loop {
            self.check()?;
            match self.writer.acquire(goal, |goal| self.is_reached(goal)) {
                Acquired::Woken if self.ring.written() >= need => return Ok(()),
                Acquired::Woken => {}
                // Whole blocks only: `page` is where copying has come to.
                Acquired::Held(held) => self.lead(io, held, page, false)?,
            }
        }
    }
}
