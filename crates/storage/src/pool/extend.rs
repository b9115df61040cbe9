//! New pages at a relation's end, and pages that recovery makes from nothing.
//!
//! First the file grows: its space is allocated, since the first write of a page contains data
//! anyhow. Then the zeroed buffers enter the page table. Then the new size is published. So every
//! block below the size is in the file or in the pool, and an error leaves nothing behind.
//!
//! Backends that extend a fork at the same time queue, each with buffers that it has zeroed before
//! (`smgr::extension_queue`). One of them extends the file for all, with one system call. Each pins
//! only its own pages.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::desc::{IO_ERROR, READING, VALID};
use super::guard::Pinned;
use super::strategy::Strategy;
use super::table;
use super::trace_format::Manner;
use crate::error::StorageError;
use crate::smgr::{RelFork, Turn};
use forebay_aio::{self as aio, Errno, IoOp};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageTag, RelFileLocator};
use std::sync::Arc;

impl BufferPool {
    /// Appends up to `n` pages of zeros, and returns them pinned and in order. There is at least
    /// one; there are fewer than `n` if buffers are scarce. They are valid and clean: the caller
    /// marks those dirty that it fills.
    pub fn extend(
        self: &Arc<Self>,
        backend: &mut Backend,
        rel: RelFileLocator,
        fork: Fork,
        n: u32,
        strategy: Strategy,
    ) -> Result<Vec<Pinned>, StorageError> {
        backend.io.submit();
        let strategy = self.effective(strategy);
        let pool = self.buffers();
        let most = (pool / 8).min(strategy.most_pins(pool)).clamp(1, 1024) as u32;
        let mut grant = self.pin_grant(backend, n.clamp(1, most));
        let victims = self.zeroed_victims(backend, grant.left(), strategy)?;

        // This backend may wait for another one, so it leaves nothing staged.
        backend.io.submit();
        let entry = self.smgr.fork(rel, fork);
        let joined = || self.counters.extensions_joined.add(1);
        let pages = match entry.extension_queue.enter(victims, joined) {
            Turn::Answer(answer) => answer?,
            Turn::Lead(mut leader) => {
                let lock = entry.extending.lock();
                let answers =
                    self.extend_for_all(&mut backend.io, &entry, strategy, leader.gather());
                drop(lock);
                leader.answer(answers)?
            }
        };
        for &buf in &pages {
            self.trace(backend, self.desc(buf).tag(), strategy, Manner::Extend, false);
        }
        Ok(pages.into_iter().map(|buf| Pinned::new(grant.take(), buf)).collect())
    }

    /// Extends a fork for all queued requests, under the extension lock: by one growth of the file,
    /// or one request at a time if there is no space for all. A request is a list of zeroed
    /// buffers. Its answer is the buffers of the new pages, usually the same ones.
    fn extend_for_all(
        &self,
        io: &mut aio::IoBackend,
        entry: &RelFork,
        strategy: Strategy,
        requests: Vec<Vec<u32>>,
    ) -> Vec<Result<Vec<u32>, StorageError>> {
        let all: usize = requests.iter().map(Vec::len).sum();
        let grown = self.smgr.size_locked(entry).and_then(|first| {
            self.grow(io, entry, first, all as u32, strategy)?;
            Ok(first)
        });
        match grown {
            Ok(first) => self.hand_out(io, entry, first, requests),
            Err(error) if requests.len() == 1 => {
                requests.into_iter().flatten().for_each(|buf| self.core.unpin(buf));
                vec![Err(error)]
            }
            Err(_) => {
                let alone = |one| self.extend_for_all(io, entry, strategy, vec![one]);
                requests.into_iter().flat_map(alone).collect()
            }
        }
    }

    /// Grows the fork's files by blocks `first..first + n`. The caller publishes the new size.
    fn grow(
        &self,
        io: &mut aio::IoBackend,
        entry: &RelFork,
        first: BlockNumber,
        n: u32,
        strategy: Strategy,
    ) -> Result<(), StorageError> {
        self.smgr.grow_locked(io, entry, first, n)?;
        let (who, bytes) = (io.backend_type(), u64::from(n) * BLOCK_SIZE as u64);
        self.aio.stats().count(who, self.object(), strategy.context(), IoOp::Extend, 1, bytes);
        Ok(())
    }

    /// Installs the requests' buffers as pages from `first` on, and publishes the size. After a
    /// page that cannot be installed, the remaining requests get its error.
    fn hand_out(
        &self,
        io: &mut aio::IoBackend,
        entry: &RelFork,
        first: BlockNumber,
        requests: Vec<Vec<u32>>,
    ) -> Vec<Result<Vec<u32>, StorageError>> {
        let mut at = first;
        let mut failure = None;
        let mut install = |victims: Vec<u32>| {
            if let Some(error) = &failure {
                victims.into_iter().for_each(|buf| self.core.unpin(buf));
                return Err(StorageError::clone(error));
            }
            let n = victims.len() as u32;
            let installed = self.install_new_pages(io, entry.page(at), victims);
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

    /// Finds and zeroes up to `n` victims, at least one.
    fn zeroed_victims(
        &self,
        backend: &mut Backend,
        n: u32,
        strategy: Strategy,
    ) -> Result<Vec<u32>, StorageError> {
        let mut victims = Vec::with_capacity(n as usize);
        while victims.len() < n as usize {
            self.begin_use(backend, strategy);
            // A new page has no ghost.
            let found = self.take_victim(backend, strategy, None, victims.is_empty());
            let found = found.inspect_err(|_| victims.drain(..).for_each(|b| self.core.unpin(b)));
            let Some(buf) = found? else { break };
            self.zero_owned(buf);
            victims.push(buf);
        }
        assert!(!victims.is_empty(), "a search that may wait finds a buffer");
        Ok(victims)
    }

    /// Adds zeroed buffers to the table as pages `first..`, beyond the published end of the file.
    /// Returns the buffers of the pages, pinned.
    fn install_new_pages(
        &self,
        io: &mut aio::IoBackend,
        first: PageTag,
        victims: Vec<u32>,
    ) -> Result<Vec<u32>, StorageError> {
        let mut pages = Vec::with_capacity(victims.len());
        let mut failure = None;
        for (i, buf) in victims.into_iter().enumerate() {
            let tag = PageTag { block: first.block + i as u32, ..first };
            let Some((other, _)) = self.install(buf, &tag, table::hash_tag(&tag), VALID, None)
            else {
                pages.push(buf);
                continue;
            };
            // A read beyond the end of the file has left the page there.
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

    /// Makes sure that a pinned page beyond the end is all zeros. A hole that was read as zeros may
    /// be used; a page with data is below a size that was not known.
    fn zero_leftover(
        &self,
        io: &mut aio::IoBackend,
        buf: u32,
        tag: &PageTag,
    ) -> Result<(), StorageError> {
        if self.zero_unless_valid(io, buf) && !self.page_is_zero(buf) {
            let relation = tag.rel.path(tag.fork);
            return Err(StorageError::DataBeyondEnd { relation, block: tag.block });
        }
        Ok(())
    }

    /// Fills a pinned page with zeros, unless it is in memory or another backend is reading it.
    /// Returns true if it is in memory then.
    fn zero_unless_valid(&self, io: &mut aio::IoBackend, buf: u32) -> bool {
        let desc = self.desc(buf);
        loop {
            let state = desc.load();
            if state & VALID != 0 {
                return true;
            }
            if state & READING != 0 {
                self.await_reader(io, buf, desc);
            } else if desc.start_reading() {
                self.zero_owned(buf);
                self.end_reading(buf, VALID);
                return false;
            }
        }
    }

    /// Pins a page for recovery and fills it with zeros. Creates or extends the file as necessary.
    /// The caller initialises the page and marks it dirty.
    pub fn zero_page(
        self: &Arc<Self>,
        backend: &mut Backend,
        tag: PageTag,
    ) -> Result<Pinned, StorageError> {
        self.make_room_for(backend, &tag)?;
        self.admit(backend, &tag, Strategy::Normal);
        let permit = self.pin_permit(backend);
        let pinned = self.pin_block(backend, &tag, Strategy::Normal, true)?;
        let (buf, _) = pinned.expect("a search that may wait finds a buffer");
        let pin = Pinned::new(permit, buf);
        if self.zero_unless_valid(&mut backend.io, buf) {
            pin.lock_exclusive().fill(0);
        }
        Ok(pin)
    }

    /// Extends the file, if necessary, so that it contains the block.
    fn make_room_for(&self, backend: &mut Backend, tag: &PageTag) -> Result<(), StorageError> {
        let entry = self.smgr.fork(tag.rel, tag.fork);
        if entry.known_size().is_some_and(|n| tag.block < n) {
            return Ok(());
        }
        backend.io.submit();
        match self.smgr.nblocks(tag.rel, tag.fork) {
            Err(StorageError::File { errno: Errno::NOENT, .. }) => {
                self.smgr.create(tag.rel, tag.fork, true)?
            }
            other => drop(other?),
        }
        let _lock = entry.extending.lock();
        let size = self.smgr.size_locked(&entry)?;
        if tag.block >= size {
            let Some(end) = tag.block.checked_add(1) else {
                return Err(StorageError::TooManyBlocks { relation: tag.rel.path(tag.fork) });
            };
            self.grow(&mut backend.io, &entry, size, end - size, Strategy::Normal)?;
            entry.set_size(u64::from(end));
        }
        Ok(())
    }

    /// Zeroes a page that no other thread can reach: in an owned buffer, or in one in which the
    /// caller has set READING.
    fn zero_owned(&self, buf: u32) {
        // SAFETY: the page's 8192 bytes lie in the region, and only the caller may access them.
        unsafe { self.core.page_ptr(buf).write_bytes(0, BLOCK_SIZE) };
    }

    fn page_is_zero(&self, buf: u32) -> bool {
        let desc = self.desc(buf);
        if !desc.try_shared() {
            return false;
        }
        // SAFETY: the caller's pin keeps the page, and the shared lock excludes changes.
        let zero = unsafe { self.core.page(buf) }.is_all_zeros();
        if desc.unlock_shared() {
            self.core.parking.wake(buf, desc);
        }
        zero && desc.load() & IO_ERROR == 0
    }
}
