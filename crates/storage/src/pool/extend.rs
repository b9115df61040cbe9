//! New pages at a relation's end, and pages that recovery builds from nothing.
//!
//! The file grows first (allocated, not written: the pages' first write is the one with data in
//! it), then the zeroed buffers enter the page table, then the new size is published. So nobody
//! meets a block below the size that is neither in the file nor in the pool, and after an error
//! nothing is left behind.
//!
//! Backends that extend a fork at the same time line up (`smgr::line`), each with buffers that it
//! has found and zeroed before: one of them lets the file grow for all, so that their pins stay
//! their own and the file system is called once.

use super::desc::{IO_ERROR, READING, VALID};
use super::{BufferPool, Pinned, Ring, Strategy, table};
use crate::Backend;
use crate::error::StorageError;
use crate::smgr::{RelFork, Turn};
use forebay_aio::{self as aio, Errno, IoOp};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageTag, RelFileLocator};
use std::sync::Arc;

impl BufferPool {
    /// Appends up to `n` empty (all-zero) pages and returns them pinned, in order: at least one,
    /// fewer than `n` if buffers are scarce. They are valid and clean; whoever fills one marks it
    /// dirty.
    pub fn extend(
        self: &Arc<Self>,
        be: &mut Backend,
        rel: RelFileLocator,
        fork: Fork,
        n: u32,
        strategy: Strategy,
    ) -> Result<Vec<Pinned>, StorageError> {
        be.io.submit();
        let strategy = self.effective(strategy);
        let most = (self.config.buffers / 8).clamp(1, 1024) as u32;
        let mut grant = self.grant(be, n.clamp(1, most));
        let mut ring = be.take_ring(strategy);
        ring.prepare(strategy, self.config.buffers);
        let victims = self.zeroed_victims(&mut be.io, grant.left(), strategy, &mut ring);
        be.put_ring(strategy, ring);
        let victims = victims?;

        // Nothing of this thread's stays staged while it waits for another.
        be.io.submit();
        let entry = self.smgr.fork(rel, fork);
        let answer = match entry.line.enter(victims, || self.counters.extension_joined()) {
            Turn::Answer(answer) => Some(answer),
            Turn::Lead(mut lead) => {
                let lock = entry.extending.lock();
                let (of, requests) = (PageTag::new(rel, fork, 0), lead.gather());
                let answers = self.extend_for_all(&mut be.io, &entry, of, strategy, requests);
                drop(lock);
                lead.answer(answers)
            }
        };
        let pages = answer.unwrap_or(Err(StorageError::NoUnpinnedBuffers))?;
        Ok(pages.into_iter().map(|buf| Pinned::new(grant.take(), buf)).collect())
    }

    /// Extends a fork for all who want it now, under the extension lock: by one growth of the file,
    /// or if there is no room for all, for each as far as there is. Each request is zeroed buffers
    /// of its owner's, who gets them, or others, back as new pages.
    fn extend_for_all(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        of: PageTag,
        strategy: Strategy,
        requests: Vec<Vec<u32>>,
    ) -> Vec<Result<Vec<u32>, StorageError>> {
        let all = requests.iter().map(Vec::len).sum();
        match self.make_room(io, entry, of, strategy, all) {
            Ok(first) => self.hand_out(io, entry, PageTag { block: first, ..of }, requests),
            Err(error) if requests.len() == 1 => {
                requests.into_iter().flatten().for_each(|buf| self.core.unpin(buf));
                vec![Err(error)]
            }
            Err(_) => {
                let alone = |one| self.extend_for_all(io, entry, of, strategy, vec![one]);
                requests.into_iter().flat_map(alone).collect()
            }
        }
    }

    /// Lets the fork's files grow by `n` blocks; the first of them.
    fn make_room(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        of: PageTag,
        strategy: Strategy,
        n: usize,
    ) -> Result<BlockNumber, StorageError> {
        let first = self.smgr.size_locked(entry, of.rel, of.fork)?;
        self.smgr.grow_locked(io, entry, of.rel, of.fork, first, n as u32)?;
        let (who, bytes) = (io.backend_type(), (n * BLOCK_SIZE) as u64);
        self.aio.stats().count(who, self.object(), strategy.context(), IoOp::Extend, 1, bytes);
        Ok(first)
    }

    /// Makes the requests' buffers pages from `first` on, and publishes the size. Where there is a
    /// page already that can't be, nobody gets any from there on.
    fn hand_out(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        first: PageTag,
        requests: Vec<Vec<u32>>,
    ) -> Vec<Result<Vec<u32>, StorageError>> {
        let mut at = first.block;
        let mut failure = None;
        let mut install = |victims: Vec<u32>| {
            if let Some(error) = &failure {
                victims.into_iter().for_each(|buf| self.core.unpin(buf));
                return Err(StorageError::clone(error));
            }
            let n = victims.len() as u32;
            let installed = self.install_new_pages(io, PageTag { block: at, ..first }, victims);
            match &installed {
                Ok(_) => at += n,
                Err(error) => failure = Some(error.clone()),
            }
            installed
        };
        let answers = requests.into_iter().map(&mut install).collect();
        entry.set_size(u64::from(at));
        answers
    }

    /// Up to `n` buffers of the caller's own, zeroed; at least one.
    fn zeroed_victims(
        &self,
        io: &mut aio::Backend,
        n: u32,
        strategy: Strategy,
        ring: &mut Ring,
    ) -> Result<Vec<u32>, StorageError> {
        let mut victims = Vec::with_capacity(n as usize);
        while victims.len() < n as usize {
            match self.take_victim(io, strategy, ring, victims.is_empty()) {
                Ok(Some(buf)) => {
                    self.zero_owned(buf);
                    victims.push(buf);
                }
                Ok(None) if !victims.is_empty() => break,
                failed => {
                    victims.drain(..).for_each(|buf| self.core.unpin(buf));
                    return Err(failed.err().unwrap_or(StorageError::NoUnpinnedBuffers));
                }
            }
        }
        Ok(victims)
    }

    /// Puts zeroed buffers into the table as pages `first..`, past the published end of the file:
    /// the pinned pages.
    fn install_new_pages(
        &self,
        io: &mut aio::Backend,
        first: PageTag,
        victims: Vec<u32>,
    ) -> Result<Vec<u32>, StorageError> {
        let mut pages = Vec::with_capacity(victims.len());
        let mut failure = None;
        for (i, buf) in victims.into_iter().enumerate() {
            let tag = PageTag { block: first.block + i as u32, ..first };
            let Some((other, _)) = self.install(buf, &tag, table::hash_tag(&tag), VALID) else {
                pages.push(buf);
                continue;
            };
            // Left behind by a read past the end of the file.
            self.core.unpin(buf);
            pages.push(other);
            failure = failure.or(self.zero_leftover(io, other, &tag).err());
        }
        match failure {
            None => Ok(pages),
            Some(error) => {
                pages.into_iter().for_each(|buf| self.core.unpin(buf));
                Err(error)
            }
        }
    }

    fn zero_leftover(
        &self,
        io: &mut aio::Backend,
        buf: u32,
        tag: &PageTag,
    ) -> Result<(), StorageError> {
        let desc = self.desc(buf);
        loop {
            let state = desc.load();
            if state & VALID != 0 {
                // A page below a size that we did not know of, or a hole read as zeros: only the
                // latter may be used.
                let pin_is_empty = self.page_is_zero(buf);
                return if pin_is_empty {
                    Ok(())
                } else {
                    Err(StorageError::DataBeyondEnd {
                        relation: tag.rel.path(tag.fork),
                        block: tag.block,
                    })
                };
            }
            if state & READING != 0 {
                self.await_reader(io, buf, desc);
            } else if desc.start_reading() {
                self.zero_owned(buf);
                self.end_reading(buf, VALID);
                return Ok(());
            }
        }
    }

    /// Pins a page for recovery with all bytes zero, whatever it was; creates or extends the file
    /// as needed. The caller initialises the page and marks it dirty.
    pub fn zero_page(
        self: &Arc<Self>,
        be: &mut Backend,
        tag: PageTag,
    ) -> Result<Pinned, StorageError> {
        self.make_room_for(be, &tag)?;
        let visit = self.visit(be);
        let pinned =
            self.pin_block(&mut be.io, &tag, Strategy::Normal, &mut Ring::default(), true)?;
        let Some((buf, _)) = pinned else { return Err(StorageError::NoUnpinnedBuffers) };
        let pin = Pinned::new(visit, buf);
        let desc = self.desc(buf);
        loop {
            let state = desc.load();
            if state & VALID != 0 {
                pin.lock_exclusive().fill(0);
                return Ok(pin);
            }
            if state & READING != 0 {
                self.await_reader(&mut be.io, buf, desc);
            } else if desc.start_reading() {
                self.zero_owned(buf);
                self.end_reading(buf, VALID);
                return Ok(pin);
            }
        }
    }

    /// Reads a page for recovery; a file that is too short, or missing, is extended with zeros
    /// first.
    pub fn read_for_redo(
        self: &Arc<Self>,
        be: &mut Backend,
        tag: PageTag,
    ) -> Result<Pinned, StorageError> {
        self.make_room_for(be, &tag)?;
        self.read(be, tag, Strategy::Normal)
    }

    /// Sees to it that the file has the block.
    fn make_room_for(&self, be: &mut Backend, tag: &PageTag) -> Result<(), StorageError> {
        let entry = self.smgr.fork(tag.rel, tag.fork);
        if entry.known_size().is_some_and(|n| tag.block < n) {
            return Ok(());
        }
        be.io.submit();
        match self.smgr.nblocks(tag.rel, tag.fork) {
            Err(StorageError::File { errno: Errno::NOENT, .. }) => {
                self.smgr.create(tag.rel, tag.fork, true)?
            }
            other => drop(other?),
        }
        let _lock = entry.extending.lock();
        let size = self.smgr.size_locked(&entry, tag.rel, tag.fork)?;
        if tag.block >= size {
            self.grow_to(be, &entry, tag, size)?;
        }
        Ok(())
    }

    fn grow_to(
        &self,
        be: &mut Backend,
        entry: &RelFork,
        tag: &PageTag,
        size: BlockNumber,
    ) -> Result<(), StorageError> {
        let Some(end) = tag.block.checked_add(1) else {
            return Err(StorageError::TooManyBlocks { relation: tag.rel.path(tag.fork) });
        };
        let count = end - size;
        self.smgr.grow_locked(&mut be.io, entry, tag.rel, tag.fork, size, count)?;
        entry.set_size(u64::from(end));
        let bytes = u64::from(count) * BLOCK_SIZE as u64;
        let (who, context) = (be.io.backend_type(), Strategy::Normal.context());
        self.aio.stats().count(who, self.object(), context, IoOp::Extend, 1, bytes);
        Ok(())
    }

    /// Zeroes a page that nobody else can reach: an owned buffer, or one that the caller set
    /// READING.
    fn zero_owned(&self, buf: u32) {
        // SAFETY: the page's 8192 bytes lie in the region, and the caller is the only one who may
        // touch them.
        unsafe { self.core.page_ptr(buf).write_bytes(0, BLOCK_SIZE) };
    }

    fn page_is_zero(&self, buf: u32) -> bool {
        let desc = self.desc(buf);
        if !desc.try_shared() {
            return false;
        }
        // SAFETY: the caller's pin keeps the page, and the shared lock excludes writers.
        let zero = unsafe { self.core.page(buf) }.is_all_zeros();
        if desc.unlock_shared() {
            self.core.parking.wake(buf, desc);
        }
        zero && desc.load() & IO_ERROR == 0
    }
}
