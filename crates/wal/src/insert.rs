//! Insertion: assembles a record, reserves its bytes by one compare-and-swap, and copies it into
//! the WAL buffers while others do the same.
//!
//! ```text
//!   assemble ─▶ take a slot ─▶ outdated? ─▶ reserve ─▶ prev link, CRC ─▶ copy ─▶ free the slot
//!      ▲                          │ yes        │ no segment: free the slot, make the segment
//!      └──────────────────────────┘◀───────────┘
//! ```
//!
//! The image policy by which a record is assembled (redo pointer, `full_page_writes`) changes only
//! while the slots are closed. So an inserter that holds a slot sees the policy that applies until
//! its record is reserved. An inserter also writes the header of each page on which its record is
//! the first, and zeros up to the next multiple of 8.
//!
//! An inserter that finds no free buffer writes out older ones. Before it waits for that, it
//! reports what it has copied, so that no two inserters wait for each other.

use forebay_aio::{AioError, Errno, IoBackend, sync::atomic::Ordering};
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
    error::WalError,
    position::{WAL_BLOCK, align_record},
    record::{Assembled, ImagePolicy, Inserted, Record, assemble},
    reserve::Head,
    ring::ReservedBytes,
    slots::InsertSlot,
    stats::WalCounters,
    waiters::Goal,
    wal::Wal,
};

/// A record's reserved range of the log.
#[derive(Debug, Clone, Copy)]
struct Reservation {
    /// Byte position of the record's start.
    pos: u64,
    /// Byte position of the next record's start.
    end_pos: u64,
    start: Lsn,
    end: Lsn,
    prev: Lsn,
}

/// The outcome of an attempt to reserve.
enum Attempt {
    Reserved(Reservation),
    /// This segment, in which the record would end, does not exist yet.
    NoSegment(u64),
}

/// The outcome of a switch to the next segment.
pub(crate) enum Switched {
    /// The segment that starts here has no records, so there was nothing to do.
    Nothing(Lsn),
    /// The log continues at this start of a segment, behind the switch record and zeros.
    Upto(Lsn, Inserted),
}

/// Ends the log if it is dropped: a record is only partly in the buffers. That happens after an
/// error, which has ended the log already, or in a panic.
struct UnfinishedInsert<'a>(&'a Wal);

impl Drop for UnfinishedInsert<'_> {
    fn drop(&mut self) {
        let dir = &self.0.config.dir;
        let source = AioError::os("finish a record in", dir, Errno::IO);
        self.0.fail(dir, "insert into", 0, 0, source);
    }
}

impl Wal {
    /// Inserts a record. If an error is returned that is not fatal, nothing was inserted.
    ///
    /// Decides which pages get a full-page image, by each page's LSN and the redo pointer. A caller
    /// that changes pages in a critical section calls [`Wal::ensure_room`] before it.
    pub fn insert(&self, io: &mut IoBackend, record: &Record<'_>) -> Result<Inserted, WalError> {
        loop {
            let mut assembled = assemble(record, self.image_policy())?;
            if let Some(inserted) = self.insert_assembled(io, &mut assembled)? {
                return Ok(inserted);
            }
        }
    }

    /// Makes segments so that the caller can insert `bytes` of WAL without making a segment, even
    /// if others insert a whole segment's worth first. To be called before a critical section.
    ///
    /// When the disk is full, a segment's worth of the log is therefore still free. It serves to
    /// end transactions, and to free space; see [`Wal::ensure_room_to_free_space`].
    pub fn ensure_room(&self, io: &mut IoBackend, bytes: u64) -> Result<(), WalError> {
        self.ensure_room_beside(io, bytes, self.config.segment_size.bytes())
    }

    /// Like [`Wal::ensure_room`], for changes that free space, such as dropping a table: these may
    /// use three quarters of the segment that is kept free.
    pub fn ensure_room_to_free_space(
        &self,
        io: &mut IoBackend,
        bytes: u64,
    ) -> Result<(), WalError> {
        self.ensure_room_beside(io, bytes, self.config.segment_size.bytes() / 4)
    }

    fn ensure_room_beside(
        &self,
        io: &mut IoBackend,
        bytes: u64,
        others: u64,
    ) -> Result<(), WalError> {
        self.check()?;
        let pos = self.reservations.head().pos;
        let end = self.positions.end_lsn(pos + align_record(bytes)).add(others);
        self.ensure_segment(io, self.config.segment_size.number(end))
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

    /// Inserts an assembled record. Returns `None` if it must be assembled again.
    fn insert_assembled(
        &self,
        io: &mut IoBackend,
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
                Attempt::Reserved(reserved) => {
                    return self.fill(io, &slot, reserved, assembled).map(Some);
                }
                Attempt::NoSegment(number) => {
                    drop(slot);
                    self.ensure_segment(io, number)?;
                }
            }
        }
    }

    /// Inserts an assembled record, and calls `at_start` with its start while the slots are closed.
    /// They are closed only for that call and the reservation: others can insert while segments are
    /// made and while the record is copied.
    pub(crate) fn insert_alone(
        &self,
        io: &mut IoBackend,
        assembled: &mut Assembled<'_>,
        at_start: impl Fn(Lsn),
    ) -> Result<Inserted, WalError> {
        let (slot, reserved) = loop {
            let mut alone = self.slots.close();
            self.check()?;
            let slot = alone.enter(self.reservations.head().pos);
            match self.reserve(assembled.encoded.total_len() as u64) {
                Attempt::Reserved(reserved) => {
                    at_start(reserved.start);
                    break (slot, reserved);
                }
                Attempt::NoSegment(number) => {
                    drop((slot, alone));
                    self.ensure_segment(io, number)?;
                }
            }
        };
        self.fill(io, &slot, reserved, assembled)
    }

    /// Inserts a switch record, and zeros from there to the end of its segment, also in place of
    /// page headers. The slots are closed only for the reservation.
    pub(crate) fn insert_switch(
        &self,
        io: &mut IoBackend,
        assembled: &mut Assembled<'_>,
    ) -> Result<Switched, WalError> {
        let size = self.config.segment_size;
        let (slot, reserved, end) = loop {
            let mut alone = self.slots.close();
            self.check()?;
            let here = self.end_lsn();
            if size.offset(here) == 0 {
                return Ok(Switched::Nothing(here));
            }
            let head = self.reservations.head();
            let slot = alone.enter(head.pos);
            let reserved = self.reservation_at(head, assembled.encoded.total_len() as u64);
            let segment = size.number_before(reserved.end);
            if segment >= self.segments.ready() {
                drop((slot, alone));
                self.ensure_segment(io, segment)?;
                continue;
            }
            let end = size.start(segment + 1);
            let end_pos = self.positions.byte_pos(end).expect("a boundary is in no page header");
            let taken = self.reservations.take(head, end_pos - head.pos);
            assert!(taken, "another thread reserved while the slots were closed");
            break (slot, reserved, end);
        };
        let inserted = self.fill(io, &slot, reserved, assembled)?;
        self.fill_with_zeros(io, &slot, reserved.end, end)?;
        Ok(Switched::Upto(end, inserted))
    }

    /// Fills the bytes from `from` to `upto` with zeros. They were reserved with the record before.
    fn fill_with_zeros(
        &self,
        io: &mut IoBackend,
        slot: &InsertSlot<'_>,
        from: Lsn,
        upto: Lsn,
    ) -> Result<(), WalError> {
        let unfinished = UnfinishedInsert(self);
        // SAFETY: the bytes were reserved with the record before them, whose `ReservedBytes` is
        // gone. For the slot, see `copy`.
        let mut bytes = unsafe { self.ring.reserved_bytes(from, upto) };
        let mut at = from;
        while at < upto {
            // The end of a record or the start of a page.
            let pos = self.positions.byte_pos(at).expect("zeros start in no page header");
            self.make_space(io, slot, at, pos)?;
            let len = WAL_BLOCK as usize - at.page_offset();
            bytes.put(at, &[0; WAL_BLOCK as usize][..len]);
            at = at.add(len as u64);
        }
        std::mem::forget(unfinished);
        Ok(())
    }

    /// Reserves the bytes for a record of length `len`. The caller must hold a slot.
    fn reserve(&self, len: u64) -> Attempt {
        loop {
            let head = self.reservations.head();
            let reserved = self.reservation_at(head, len);
            // Nothing is reserved in a segment that does not exist: a full disk shows before
            // anything is inserted.
            let segment = self.config.segment_size.number_before(reserved.end);
            if segment >= self.segments.ready() {
                return Attempt::NoSegment(segment);
            }
            if self.reservations.take(head, reserved.end_pos - reserved.pos) {
                return Attempt::Reserved(reserved);
            }
        }
    }

    fn reservation_at(&self, head: Head, len: u64) -> Reservation {
        let end_pos = head.pos + align_record(len);
        Reservation {
            pos: head.pos,
            end_pos,
            start: self.positions.start_lsn(head.pos),
            end: self.positions.end_lsn(end_pos),
            prev: self.prev_lsn(head.prev),
        }
    }

    /// Completes a record and copies it to the bytes that were reserved for it.
    fn fill(
        &self,
        io: &mut IoBackend,
        slot: &InsertSlot<'_>,
        reserved: Reservation,
        assembled: &mut Assembled<'_>,
    ) -> Result<Inserted, WalError> {
        let unfinished = UnfinishedInsert(self);
        slot.starts_at(reserved.pos);
        assembled.encoded.seal(reserved.prev);
        let len = assembled.encoded.total_len() as u64;
        self.copy(io, slot, reserved, len, assembled.encoded.parts())?;
        std::mem::forget(unfinished);
        slot.count(len, assembled.images);
        Ok(Inserted { start: reserved.start, end: reserved.end })
    }

    /// Copies a record of `len` bytes to the buffers. Fails only if the log has ended.
    fn copy<'p>(
        &self,
        io: &mut IoBackend,
        slot: &InsertSlot<'_>,
        reserved: Reservation,
        len: u64,
        parts: impl Iterator<Item = &'p [u8]>,
    ) -> Result<(), WalError> {
        let start = reserved.start;
        let opens = start.page_offset() as u64 == self.positions.header_len(start);
        let first = if opens { start.page_start() } else { start };
        // SAFETY: the bytes were reserved for this record alone, with the headers of the pages on
        // which it is the first. No byte of them counts as copied before the slot is freed or moved
        // on, which happens only behind bytes that were put.
        let mut bytes = unsafe { self.ring.reserved_bytes(first, reserved.end) };
        let (mut at, mut left) = (start, len);
        self.make_space(io, slot, start, reserved.pos)?;
        if opens {
            self.start_page(&mut bytes, first, 0);
        }
        for mut part in parts {
            while !part.is_empty() {
                if at.page_offset() == 0 {
                    self.make_space(io, slot, at, reserved.pos + align_record(len - left))?;
                    at = self.start_page(&mut bytes, at, left);
                }
                let room = WAL_BLOCK as usize - at.page_offset();
                let (piece, rest) = part.split_at(part.len().min(room));
                bytes.put(at, piece);
                at = at.add(piece.len() as u64);
                left -= piece.len() as u64;
                part = rest;
            }
        }
        // The padding is on the same page, whose size is a multiple of 8.
        if align_record(len) > len {
            bytes.put(at, &[0; 8][..(align_record(len) - len) as usize]);
        }
        Ok(())
    }

    /// Writes the header of the page at `page`, on which `rem_len` bytes of a record continue.
    /// Returns where the page's data starts.
    fn start_page(&self, bytes: &mut ReservedBytes<'_>, page: Lsn, rem_len: u64) -> Lsn {
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
        // A record has at most 1020 MB, so `rem_len` fits.
        let header = PageHeader { info, timeline, page_addr: page, rem_len: rem_len as u32, long };
        let mut encoded = [0; LONG_SIZE];
        let len = header.encode(&mut encoded);
        bytes.put(page, &encoded[..len]);
        page.add(len as u64)
    }

    /// Makes sure that the buffer of the block at `at` is free, by writing out older blocks if need
    /// be. `pos` is the byte position up to which the caller has copied.
    fn make_space(
        &self,
        io: &mut IoBackend,
        slot: &InsertSlot<'_>,
        at: Lsn,
        pos: u64,
    ) -> Result<(), WalError> {
        let need = self.ring.needs_written(at);
        if self.ring.written() >= need {
            return Ok(());
        }
        WalCounters::add(&self.counters.buffers_full, 1);
        slot.copied_upto(pos);
        self.wait_copied(need);
        self.reach(io, Goal::Written(need))
    }
}
