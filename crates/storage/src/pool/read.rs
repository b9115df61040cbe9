//! Pinning a page, and starting and awaiting reads.
//!
//! A run of neighbouring blocks is pinned one by one. Blocks that are not in memory, and that
//! nobody else reads, are read together: one I/O for each stretch of them. The I/Os are *detached*:
//! their results are stored in the descriptors. So nobody has to collect a report, and every holder
//! of a pin sees why a page could not be read.
//!
//! If another backend reads a block, the caller joins that read through the wait reference in the
//! descriptor. If that read fails, the caller reads the block itself and returns its own error.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::complete::ReadCompletion;
use super::desc::{BadPages, Descriptor, IO_ERROR, IoFault, READING, VALID};
use super::guard::Pinned;
use super::strategy::Strategy;
use super::table;
use super::trace_format::Manner;
use super::usage::Use;
use crate::error::StorageError;
use forebay_aio::{self as aio, IoContext, IoFlags, IoMemory, IoOp, SharedCompletion, WaitRef};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageTag, RelFileLocator};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// How the page of a pinned block gets into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// It is in memory.
    Ready,
    /// By a read that the slot's owner started.
    Own(WaitRef),
    /// By a read of another backend.
    Foreign,
}

/// A pinned block whose page is in memory or will be.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) buf: u32,
    pub(crate) state: SlotState,
}

/// Neighbouring blocks to be read by one I/O.
struct Stretch {
    first: PageTag,
    bufs: SmallVec<[u32; 16]>,
    rounds: SmallVec<[u32; 16]>,
    /// The index of the first block's slot.
    slot: usize,
}

impl BufferPool {
    /// Pins a page, and reads it if necessary.
    pub fn read(
        self: &Arc<Self>,
        backend: &mut Backend,
        tag: PageTag,
        strategy: Strategy,
    ) -> Result<Pinned, StorageError> {
        let strategy = self.admit(backend, &tag, strategy);
        let permit = self.pin_permit(backend);
        let hash = table::hash_tag(&tag);
        let used = self.begin_use(backend, strategy);
        let (buf, valid) = match self.pin_cached(&tag, hash, Some(used)) {
            Some((buf, true)) => {
                backend.io.count(self.object(), strategy.context(), IoOp::Hit, 1);
                return Ok(Pinned::new(permit, buf));
            }
            Some(found) => found,
            None => {
                let pinned = self.pin_missing(backend, &tag, hash, strategy, used, true);
                pinned?.expect("a search that may wait finds a buffer")
            }
        };
        let pin = Pinned::new(permit, buf);
        if !valid {
            self.await_page(backend, buf, &tag, strategy.context())?;
        }
        Ok(pin)
    }

    /// Pins `n` neighbouring pages, and reads the missing ones with as few I/Os as possible. Pins
    /// fewer, but at least one, if the pool cannot spare so many pins now.
    pub fn read_many(
        self: &Arc<Self>,
        backend: &mut Backend,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        n: u32,
        strategy: Strategy,
    ) -> Result<Vec<Pinned>, StorageError> {
        let strategy = self.effective(strategy);
        let mut grant = self.pin_grant(backend, n);
        let end = first + n.min(grant.left());
        let mut slots = VecDeque::new();
        let mut started = Ok(0);
        let mut at = first;
        while at < end {
            let count = self.combinable(at).min(end - at);
            let tag = PageTag::new(rel, fork, at);
            let may_wait = slots.is_empty();
            started = self.start_read(backend, tag, count, strategy, &mut slots, may_wait);
            match started {
                Ok(got) if got > 0 => {
                    let pinned = slots.iter().rev().take(got as usize).rev();
                    self.trace_slots(backend, tag, pinned, strategy, Manner::Stream);
                    at += got;
                }
                _ => break,
            }
        }
        let pins: Vec<(Pinned, SlotState)> = slots
            .into_iter()
            .map(|slot| (Pinned::new(grant.take(), slot.buf), slot.state))
            .collect();
        drop(grant);
        started?;
        pins.into_iter()
            .map(|(pin, state)| {
                if let SlotState::Own(wait) = state {
                    backend.io.wait(wait);
                }
                self.await_slot(backend, pin.buffer(), state, strategy.context())?;
                Ok(pin)
            })
            .collect()
    }

    /// Returns the number of blocks from `block` on that one I/O may have.
    pub(crate) fn combinable(&self, block: BlockNumber) -> u32 {
        self.smgr.room_in_segment(block).min(self.config.combine_limit)
    }

    /// Pins a page, gives it a buffer if it has none, and tells whether it is valid. None if no
    /// buffer is free and the caller must not wait.
    pub(crate) fn pin_block(
        &self,
        backend: &mut Backend,
        tag: &PageTag,
        strategy: Strategy,
        may_wait: bool,
    ) -> Result<Option<(u32, bool)>, StorageError> {
        let hash = table::hash_tag(tag);
        let used = self.begin_use(backend, strategy);
        if let Some((buf, valid)) = self.pin_cached(tag, hash, Some(used)) {
            if valid {
                backend.io.count(self.object(), strategy.context(), IoOp::Hit, 1);
            }
            return Ok(Some((buf, valid)));
        }
        self.pin_missing(backend, tag, hash, strategy, used, may_wait)
    }

    /// The same for a page that is not in the table.
    fn pin_missing(
        &self,
        backend: &mut Backend,
        tag: &PageTag,
        hash: u64,
        strategy: Strategy,
        used: Use,
        may_wait: bool,
    ) -> Result<Option<(u32, bool)>, StorageError> {
        let victim = self.take_victim(backend, strategy, Some(hash), may_wait)?;
        let Some(victim) = victim else { return Ok(None) };
        match self.install(victim, tag, hash, 0, Some(used)) {
            None => Ok(Some((victim, false))),
            Some((other, valid)) => {
                self.core.unpin(victim);
                Ok(Some((other, valid)))
            }
        }
    }

    /// Pins up to `n` blocks of one segment, at most the combine limit, and starts the necessary
    /// reads. Returns the number of pinned blocks: fewer than `n` if buffers are scarce, but at
    /// least one with `may_wait`.
    pub(crate) fn start_read(
        &self,
        backend: &mut Backend,
        first: PageTag,
        n: u32,
        strategy: Strategy,
        slots: &mut VecDeque<Slot>,
        may_wait: bool,
    ) -> Result<u32, StorageError> {
        let base = slots.len();
        let mut pinned = 0;
        while pinned < n {
            let tag = PageTag { block: first.block + pinned, ..first };
            match self.pin_block(backend, &tag, strategy, may_wait && pinned == 0) {
                Ok(Some((buf, valid))) => {
                    let state = if valid { SlotState::Ready } else { SlotState::Foreign };
                    slots.push_back(Slot { buf, state });
                    pinned += 1;
                }
                Ok(None) => break,
                Err(error) => {
                    self.unpin_slots(slots, base);
                    return Err(error);
                }
            }
        }
        if let Err(error) = self.start_missing(backend, first, strategy.context(), slots, base) {
            self.unpin_slots(slots, base);
            return Err(error);
        }
        Ok(pinned)
    }

    fn unpin_slots(&self, slots: &mut VecDeque<Slot>, keep: usize) {
        for slot in slots.drain(keep..) {
            self.core.unpin(slot.buf);
        }
    }

    /// Starts one I/O for each stretch of missing pages that nobody reads.
    fn start_missing(
        &self,
        backend: &mut Backend,
        first: PageTag,
        context: IoContext,
        slots: &mut VecDeque<Slot>,
        base: usize,
    ) -> Result<(), StorageError> {
        let mut stretch: Option<Stretch> = None;
        for i in base..slots.len() {
            let Slot { buf, state } = slots[i];
            let desc = self.desc(buf);
            if state == SlotState::Ready || !desc.start_reading() {
                if let Some(stretch) = stretch.take() {
                    self.start_stretch(backend, stretch, context, slots)?;
                }
                continue;
            }
            let stretch = stretch.get_or_insert_with(|| Stretch {
                first: PageTag { block: first.block + (i - base) as u32, ..first },
                bufs: SmallVec::new(),
                rounds: SmallVec::new(),
                slot: i,
            });
            stretch.bufs.push(buf);
            stretch.rounds.push(desc.io_round());
        }
        match stretch {
            Some(stretch) => self.start_stretch(backend, stretch, context, slots),
            None => Ok(()),
        }
    }

    fn start_stretch(
        &self,
        backend: &mut Backend,
        stretch: Stretch,
        context: IoContext,
        slots: &mut VecDeque<Slot>,
    ) -> Result<(), StorageError> {
        let Stretch { first, bufs, rounds, slot } = stretch;
        let count = bufs.len();
        let wait = self.start_transfer(backend, first, &bufs, &rounds, context)?;
        for slot in slots.range_mut(slot..slot + count) {
            slot.state = SlotState::Own(wait);
        }
        Ok(())
    }

    /// Starts a read into buffers in which the caller has set READING. After an error READING is
    /// cleared.
    fn start_transfer(
        &self,
        backend: &mut Backend,
        first: PageTag,
        bufs: &[u32],
        rounds: &[u32],
        context: IoContext,
    ) -> Result<WaitRef, StorageError> {
        let mut memory = IoMemory::empty(Arc::clone(&self.core.region));
        for &buf in bufs {
            memory.push(buf as usize * BLOCK_SIZE, BLOCK_SIZE);
        }
        let read = match self.smgr.read_io(&first, memory) {
            Ok(read) => read,
            Err(error) => {
                for &buf in bufs {
                    self.end_reading(buf, IO_ERROR);
                }
                return Err(error);
            }
        };
        for &buf in bufs {
            self.desc(buf).pin_again();
        }
        let read = read
            .completion(self.on_read(backend), SmallVec::from_slice(bufs))
            .account(self.object(), context, IoOp::Read)
            .flags(IoFlags { detached: true, ..self.io_flags() });
        let wait = backend.io.start(read);
        for (&buf, &round) in bufs.iter().zip(rounds) {
            self.core.io_started(buf, round, wait);
        }
        Ok(wait)
    }

    /// Returns the completion for reads of this backend.
    fn on_read(&self, backend: &Backend) -> Arc<dyn SharedCompletion> {
        if backend.policy.is_strict() {
            return Arc::clone(&self.on_read);
        }
        Arc::new(ReadCompletion {
            core: Arc::clone(&self.core),
            policy: backend.policy,
            warnings: Some(Arc::clone(&backend.warnings)),
        })
    }

    /// Clears READING without an I/O.
    pub(super) fn end_reading(&self, buf: u32, set: u64) {
        let desc = self.desc(buf);
        if desc.end_io(READING, set, None) {
            self.core.parking.wake(buf, desc);
        }
    }

    /// Whether a pinned buffer's page is in memory.
    pub(crate) fn is_valid(&self, buf: u32) -> bool {
        self.desc(buf).load() & VALID != 0
    }

    /// Waits until a slot's page is in memory.
    pub(crate) fn await_slot(
        &self,
        backend: &mut Backend,
        buf: u32,
        state: SlotState,
        context: IoContext,
    ) -> Result<(), StorageError> {
        let desc = self.desc(buf);
        if let SlotState::Own(wait) = state {
            if desc.load() & VALID == 0 {
                backend.io.wait(wait);
            }
            if desc.load() & VALID != 0 {
                return Ok(());
            }
            if desc.load() & READING == 0
                && let Some(fault) = desc.fault()
            {
                return Err(self.read_error(&desc.tag(), fault));
            }
        }
        match state {
            SlotState::Ready => Ok(()),
            _ => self.await_page(backend, buf, &desc.tag(), context),
        }
    }

    /// Waits until a pinned page is in memory: for its reader, or by reading it.
    pub(super) fn await_page(
        &self,
        backend: &mut Backend,
        buf: u32,
        tag: &PageTag,
        context: IoContext,
    ) -> Result<(), StorageError> {
        let desc = self.desc(buf);
        let mut read = false;
        loop {
            let state = desc.load();
            if state & VALID != 0 {
                if !read {
                    // Another backend read it, so it counts as a hit here.
                    backend.io.count(self.object(), context, IoOp::Hit, 1);
                }
                return Ok(());
            }
            if state & READING != 0 {
                self.await_reader(&mut backend.io, buf, desc);
            } else if desc.start_reading() {
                read = true;
                let wait =
                    self.start_transfer(backend, *tag, &[buf], &[desc.io_round()], context)?;
                backend.io.wait(wait);
                if desc.load() & (VALID | READING) == 0
                    && let Some(fault) = desc.fault()
                {
                    return Err(self.read_error(tag, fault));
                }
            }
        }
    }

    /// Waits for another backend's read, by completing its I/O if there is one.
    pub(super) fn await_reader(&self, io: &mut aio::IoBackend, buf: u32, desc: &Descriptor) {
        match desc.io() {
            Some(wait) => {
                io.wait(wait);
            }
            None => {
                io.submit();
                self.core
                    .parking
                    .sleep_until(buf, desc, || desc.load() & READING == 0 || desc.io().is_some());
            }
        }
    }

    fn read_error(&self, tag: &PageTag, fault: IoFault) -> StorageError {
        let file = || self.smgr.file_name(tag);
        match fault {
            IoFault::Page(bad) if bad.others == 0 => {
                StorageError::InvalidPage { tag: *tag, owner: self.smgr.owner() }
            }
            IoFault::Page(BadPages { place, last, others, first }) => {
                let start = tag.block.saturating_sub(place);
                StorageError::InvalidPages {
                    rel: tag.rel,
                    fork: tag.fork,
                    owner: self.smgr.owner(),
                    blocks: start..=start + last,
                    invalid: others + 1,
                    first: start + first,
                }
            }
            IoFault::Short(got) => StorageError::ShortRead {
                file: file(),
                block: tag.block,
                got,
                wanted: BLOCK_SIZE as u32,
            },
            IoFault::Lost => StorageError::LostWrite { file: file(), block: tag.block },
            IoFault::Transfer(errno) => {
                StorageError::Read { file: file(), block: tag.block, errno }
            }
        }
    }
}
