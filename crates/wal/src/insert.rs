//! Insertion: a record is assembled first, gets its place by one compare-and-swap, and is copied
//! there beside others.
//!
//! ```text
//!   assemble ─▶ slot ─▶ still right? ─▶ reserve ─▶ back link, CRC ─▶ copy ─▶ leave the slot
//!      ▲                    │ no           │ no segment: leave the slot, make it, begin anew
//!      └────────────────────┘◀─────────────┘
//! ```
//!
//! What the record was assembled by (redo pointer, full_page_writes) changes only while the slots
//! are closed, so who is in one sees it as it will be until its record has a place. Each record
//! brings the headers of the pages that it is the first on, and the zeros up to the next one's
//! start. Who finds no free block writes out older ones; what it has copied counts as copied by
//! then, so nobody waits for who waits.

use forebay_aio::{
    AioError, Backend, Errno,
    sync::{Arc, atomic::Ordering},
};
use forebay_format::{
    Lsn,
    wal::{
        PageHeader,
        page_header::{
            BACKUP_REMOVABLE, FIRST_IS_CONTINUATION, FIRST_IS_OVERWRITTEN_CONTINUATION, LONG_SIZE,
            LongHeader,
        },
    },
};

use crate::{
    crowd::Goal,
    error::{FatalError, WalError},
    position::{WAL_BLOCK, align_record},
    record::{Assembled, ImagePolicy, Inserted, Record, assemble},
    reserve::Head,
    ring::Place,
    slots::Occupied,
    stats::WalCounters,
    wal::Wal,
};

/// A record's place in the log.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    /// Byte position of its start, and of the next record's.
    pos: u64,
    end_pos: u64,
    start: Lsn,
    end: Lsn,
    prev: Lsn,
}

/// What came of an attempt to reserve.
enum Attempt {
    Reserved(Reserved),
    /// The segment is not there yet.
    NoSegment(u64),
}

/// What came of a switch to the next segment.
pub(crate) enum Switched {
    /// Nothing was inserted in the segment that begins here.
    Nothing(Lsn),
    /// The log goes on at this segment's begin, behind this record and zeros.
    Upto(Lsn, Inserted),
}

/// Dropped while a record is in the ring in part only: by an error, which has ended the log
/// already, or by a panic.
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
    /// Full-page images are decided here, from each page's LSN and the redo pointer. Callers that
    /// must not fail halfway call [`Wal::ensure_room`] before they change pages.
    pub fn insert(&self, io: &mut Backend, record: &Record<'_>) -> Result<Inserted, WalError> {
        loop {
            let mut assembled = assemble(record, self.image_policy())?;
            if let Some(inserted) = self.insert_assembled(io, &mut assembled)? {
                return Ok(inserted);
            }
        }
    }

    /// Makes segments so that `bytes` more of WAL, and as much again from others as a segment
    /// holds, can be inserted without making a segment: what a caller needs before a critical
    /// section.
    ///
    /// So a segment's worth of the log is still free when the disk is full. It is for those that
    /// end transactions and for those that make room, which call [`Wal::ensure_room_of_the_spare`].
    pub fn ensure_room(&self, io: &mut Backend, bytes: u64) -> Result<(), WalError> {
        self.ensure_room_beside(io, bytes, self.config.segment_size.bytes())
    }

    /// Like [`Wal::ensure_room`], for changes that free space, such as the removal of a table: they
    /// may use up the segment that others leave, but for a quarter.
    pub fn ensure_room_of_the_spare(&self, io: &mut Backend, bytes: u64) -> Result<(), WalError> {
        self.ensure_room_beside(io, bytes, self.config.segment_size.bytes() / 4)
    }

    fn ensure_room_beside(
        &self,
        io: &mut Backend,
        bytes: u64,
        others: u64,
    ) -> Result<(), WalError> {
        self.check()?;
        let pos = self.reservations.head().pos;
        let end = self.positions.end_lsn(pos + align_record(bytes)).add(others);
        self.ensure_segment(io, self.segments.number(end))
    }

    pub(crate) fn image_policy(&self) -> ImagePolicy {
        let mut full_page_writes = self.full_page_writes.load(Ordering::Acquire);
        forebay_aio::planted_bug!(
            self.segments.aio(),
            WalPagesLoggedWithoutImages,
            full_page_writes = false
        );
        ImagePolicy { redo: self.redo_lsn(), full_page_writes, compression: self.compression() }
    }

    /// Inserts an assembled record; `None` if it has to be assembled anew.
    fn insert_assembled(
        &self,
        io: &mut Backend,
        assembled: &mut Assembled<'_>,
    ) -> Result<Option<Inserted>, WalError> {
        loop {
            let preferred = io.slot() as usize;
            let slot = self.slots.enter(preferred, || self.reservations.head().pos);
            self.check()?;
            if assembled.is_outdated(self.image_policy()) {
                return Ok(None);
            }
            match self.reserve(assembled.encoded.total_len() as u64) {
                Attempt::Reserved(place) => {
                    return self.fill(io, &slot, place, assembled).map(Some);
                }
                Attempt::NoSegment(number) => {
                    drop(slot);
                    self.ensure_segment(io, number)?;
                }
            }
        }
    }

    /// Inserts an assembled record; `moved` is called with its start while the slots are closed.
    /// They are closed for no more than that and the reservation: segments are made, and the record
    /// is copied, while others insert.
    pub(crate) fn insert_alone(
        &self,
        io: &mut Backend,
        assembled: &mut Assembled<'_>,
        moved: impl Fn(Lsn),
    ) -> Result<Inserted, WalError> {
        let (slot, place) = loop {
            let mut alone = self.slots.close();
            self.check()?;
            let slot = alone.enter(self.reservations.head().pos);
            match self.reserve(assembled.encoded.total_len() as u64) {
                Attempt::Reserved(place) => {
                    moved(place.start);
                    break (slot, place);
                }
                Attempt::NoSegment(number) => {
                    drop((slot, alone));
                    self.ensure_segment(io, number)?;
                }
            }
        };
        self.fill(io, &slot, place, assembled)
    }

    /// Inserts the record of a switch, and zeros to the end of the segment that it ends in, page
    /// headers too. The slots are closed for the reservation alone.
    pub(crate) fn insert_switch(
        &self,
        io: &mut Backend,
        assembled: &mut Assembled<'_>,
    ) -> Result<Switched, WalError> {
        let size = self.config.segment_size;
        let (slot, place, end) = loop {
            let mut alone = self.slots.close();
            self.check()?;
            let here = self.end_lsn();
            if size.offset(here) == 0 {
                return Ok(Switched::Nothing(here));
            }
            let head = self.reservations.head();
            let slot = alone.enter(head.pos);
            let place = self.place_at(head, assembled.encoded.total_len() as u64);
            let segment = size.number_before(place.end);
            if segment >= self.segments.ready() {
                drop((slot, alone));
                self.ensure_segment(io, segment)?;
                continue;
            }
            let end = size.start(segment + 1);
            let end_pos = self.positions.byte_pos(end).unwrap_or(place.end_pos);
            // Alone: nobody is faster.
            let taken = self.reservations.take(head, end_pos - head.pos);
            debug_assert!(taken, "somebody reserved while the slots were closed");
            break (slot, place, end);
        };
        let inserted = self.fill(io, &slot, place, assembled)?;
        self.fill_with_zeros(io, &slot, place.end, end)?;
        Ok(Switched::Upto(end, inserted))
    }

    /// Zeros from `from` to `upto`, reserved together with the record before them.
    fn fill_with_zeros(
        &self,
        io: &mut Backend,
        slot: &Occupied<'_>,
        from: Lsn,
        upto: Lsn,
    ) -> Result<(), WalError> {
        let halfway = Halfway(self);
        // SAFETY: the bytes were reserved with the record before them, whose place is gone. As for
        // the slot, see `copy`.
        let mut place = unsafe { self.ring.place(from, upto) };
        let mut at = from;
        while at < upto {
            // Zeros don't leave room for headers: what is copied ends at the page's start, or
            // before it.
            let pos = self.positions.byte_pos(at).unwrap_or_default();
            self.make_space(io, slot, at, pos)?;
            let len = WAL_BLOCK as usize - at.page_offset();
            place.put(at, &[0; WAL_BLOCK as usize][..len]);
            at = at.add(len as u64);
        }
        std::mem::forget(halfway);
        Ok(())
    }

    /// Reserves the place of a record of `len` bytes. The caller has a slot.
    fn reserve(&self, len: u64) -> Attempt {
        loop {
            let head = self.reservations.head();
            let place = self.place_at(head, len);
            // No segment, no record: so want of room is found out before anything is inserted.
            let segment = self.config.segment_size.number_before(place.end);
            if segment >= self.segments.ready() {
                return Attempt::NoSegment(segment);
            }
            if self.reservations.take(head, place.end_pos - place.pos) {
                return Attempt::Reserved(place);
            }
        }
    }

    fn place_at(&self, head: Head, len: u64) -> Reserved {
        let end_pos = head.pos + align_record(len);
        Reserved {
            pos: head.pos,
            end_pos,
            start: self.positions.start_lsn(head.pos),
            end: self.positions.end_lsn(end_pos),
            prev: self.prev_lsn(head.prev),
        }
    }

    /// Fills a place that was reserved.
    fn fill(
        &self,
        io: &mut Backend,
        slot: &Occupied<'_>,
        place: Reserved,
        assembled: &mut Assembled<'_>,
    ) -> Result<Inserted, WalError> {
        let halfway = Halfway(self);
        slot.begin_at(place.pos);
        assembled.encoded.seal(place.prev);
        let len = assembled.encoded.total_len() as u64;
        self.copy(io, slot, place, len, assembled.encoded.parts())?;
        std::mem::forget(halfway);
        slot.count(len, assembled.images);
        Ok(Inserted { start: place.start, end: place.end })
    }

    /// Copies a record of `len` bytes to its place. Fails only if the log is lost.
    fn copy<'p>(
        &self,
        io: &mut Backend,
        slot: &Occupied<'_>,
        reserved: Reserved,
        len: u64,
        parts: impl Iterator<Item = &'p [u8]>,
    ) -> Result<(), WalError> {
        let start = reserved.start;
        let opens = start.page_offset() as u64 == self.positions.header_len(start);
        let first = if opens { start.page_start() } else { start };
        // SAFETY: the bytes were reserved for this record alone, with the headers of the pages that
        // it is the first on. The slot holds back what counts as copied; it is left, or comes
        // further, only behind what has been put.
        let mut place = unsafe { self.ring.place(first, reserved.end) };
        let (mut at, mut left) = (start, len);
        self.make_space(io, slot, start, reserved.pos)?;
        if opens {
            self.open_page(&mut place, first, 0);
        }
        for mut part in parts {
            while !part.is_empty() {
                if at.page_offset() == 0 {
                    self.make_space(io, slot, at, reserved.pos + align_record(len - left))?;
                    at = self.open_page(&mut place, at, left);
                }
                let room = WAL_BLOCK as usize - at.page_offset();
                let (piece, rest) = part.split_at(part.len().min(room));
                place.put(at, piece);
                at = at.add(piece.len() as u64);
                left -= piece.len() as u64;
                part = rest;
            }
        }
        // Within the page: its size is a multiple of 8.
        if align_record(len) > len {
            place.put(at, &[0; 8][..(align_record(len) - len) as usize]);
        }
        Ok(())
    }

    /// Starts the page at `page`, on which `rem_len` bytes of a record go on. Returns where its
    /// data begins.
    fn open_page(&self, place: &mut Place<'_>, page: Lsn, rem_len: u64) -> Lsn {
        let mut info = BACKUP_REMOVABLE;
        if rem_len > 0 {
            info |= FIRST_IS_CONTINUATION;
        }
        if self.overwrites_at.load(Ordering::Acquire) == page.0 {
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
        place.put(page, &bytes[..len]);
        page.add(len as u64)
    }

    /// Makes the place of the block at `at` free, by writing out older blocks if need be. `pos` is
    /// where copying has come to.
    fn make_space(
        &self,
        io: &mut Backend,
        slot: &Occupied<'_>,
        at: Lsn,
        pos: u64,
    ) -> Result<(), WalError> {
        let need = self.ring.needs_written(at);
        if self.ring.written() >= need {
            return Ok(());
        }
        WalCounters::add(&self.counters.buffers_full, 1);
        slot.come_to(pos);
        self.wait_copied(need);
        self.reach(io, Goal::Written(need))
    }
}
