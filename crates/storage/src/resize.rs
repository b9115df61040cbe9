//! Changing the number of buffers while the pool is in use.
//!
//! ```text
//!   grow:    memory is provided - registered - its buffers get places
//!   shrink:  the last buffers lose their places
//!            - from the end, 128 MB at a time: dirty pages are written, or move; clean ones move
//!              to the buffers of older ones, or leave; buffers are retired; memory is given back
//! ```
//!
//! Addresses for the pool's bound are reserved when it is made, so buffers never move. A shrink
//! waits for buffers in use as long as it is allowed to. If some remain, those before them come
//! back into use, and the pool has the size that was reached.

use crate::error::StorageError;
use crate::pool::desc::{DIRTY, refcount};
use crate::pool::{Backend, BufferPool, Keeping};
use crate::stream::{WriteOptions, WriteStream};
use forebay_aio::sync::{Duration, Instant, thread};
use forebay_format::BLOCK_SIZE;
use std::ops::Range;

/// Buffers that are retired together: 4 MB of them.
const CHUNK: usize = 512;
/// Buffers whose memory is given back together: 128 MB, which are registered as one piece.
const RELEASED: usize = 32 * CHUNK;

/// What came of a change of the pool's size.
#[derive(Debug, Clone)]
pub struct Resized {
    /// The number of buffers before.
    pub from: usize,
    /// The number of buffers now.
    pub buffers: usize,
    /// Why this is not the number that was asked for.
    pub stopped: Option<ResizeStop>,
}

/// Why a pool did not get the size that it was to have.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResizeStop {
    /// It is outside the pool's bounds.
    #[error("a pool that was made with {first} buffers can have {least} to {most} of them")]
    Bounds {
        /// The number of buffers with which the pool was made.
        first: usize,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// Buffers were in use for too long.
    #[error("{buffers} buffers stayed in use")]
    InUse {
        /// The number of buffers in the part that was to be given up next.
        buffers: usize,
    },
    /// There is no memory, or a page could not be written.
    #[error("{0}")]
    Failed(#[from] StorageError),
}

impl BufferPool {
    /// Gives the pool another number of buffers. A shrink waits for buffers in use, but no longer
    /// than `patience`, and keeps pages that are in demand. The caller holds no pins and no locks.
    pub fn resize(&self, backend: &mut Backend, buffers: usize, patience: Duration) -> Resized {
        self.resize_keeping(backend, buffers, (Keeping::InDemand, patience))
    }

    /// The same. Says what a shrink does with pages.
    pub fn resize_keeping(
        &self,
        backend: &mut Backend,
        buffers: usize,
        (keeping, patience): (Keeping, Duration),
    ) -> Resized {
        backend.io.submit();
        let until = Instant::now() + patience;
        let _resizing = self.resizing.lock();
        let from = self.buffers();
        let (least, most) = (self.min_buffers(), self.max_buffers());
        let to = buffers.clamp(least, most);
        let stopped = if to < from {
            self.shrink(backend, to, (keeping, until))
        } else {
            self.enlarge(to).err().map(ResizeStop::Failed)
        };
        let first = self.config.buffers;
        let bounds = (to != buffers).then_some(ResizeStop::Bounds { first, least, most });
        Resized { from, buffers: self.buffers(), stopped: stopped.or(bounds) }
    }

    fn enlarge(&self, to: usize) -> Result<(), StorageError> {
        if to > self.buffers() {
            let region = &self.core.region;
            self.aio.occupy_memory(region, to * BLOCK_SIZE)?;
            self.aio.memory_resized(region, to * BLOCK_SIZE);
            self.add_buffers(to);
        }
        Ok(())
    }

    fn shrink(
        &self,
        backend: &mut Backend,
        to: usize,
        (keeping, until): (Keeping, Instant),
    ) -> Option<ResizeStop> {
        let from = self.buffers();
        self.take_places(to as u32);
        let (mut size, mut stopped) = (from, None);
        let mut retired = Vec::new();
        while stopped.is_none() && size > to {
            let part = ((size - 1) / RELEASED * RELEASED).max(to);
            if keeping == Keeping::InDemand {
                stopped = self.write_idle(backend, part as u32..size as u32).err();
            }
            while stopped.is_none() && size > part {
                let first = size.saturating_sub(CHUNK).max(part);
                let chunk = first as u32..size as u32;
                stopped = self.retire_all(backend, chunk, (keeping, until), &mut retired);
                if stopped.is_none() {
                    retired.clear();
                    size = first;
                    self.core.set_size(size);
                }
            }
            self.release(size);
        }
        self.follow_size(size);
        if size > to {
            self.give_places(to as u32..size as u32, &retired);
        }
        stopped
    }

    /// Gives back the memory beyond so many buffers.
    fn release(&self, buffers: usize) {
        let (region, bytes) = (&self.core.region, buffers * BLOCK_SIZE);
        if bytes < region.occupied() {
            self.aio.memory_resized(region, bytes);
            region.vacate(bytes);
        }
    }

    /// Writes the dirty ones of these buffers that are not in use.
    fn write_idle(&self, backend: &mut Backend, buffers: Range<u32>) -> Result<(), ResizeStop> {
        let dirty: Vec<u32> = buffers.filter(|&buf| self.is_idle_dirty(buf)).collect();
        Ok(self.write_out(backend, &dirty)?)
    }

    fn is_idle_dirty(&self, buf: u32) -> bool {
        let state = self.desc(buf).load();
        state & DIRTY != 0 && refcount(state) == 0
    }

    /// Writes these pages if they are dirty and not locked.
    fn write_out(&self, backend: &mut Backend, buffers: &[u32]) -> Result<(), StorageError> {
        let mut pages: Vec<_> = buffers.iter().map(|&buf| (self.desc(buf).tag(), buf)).collect();
        pages.sort_unstable();
        let mut stream = WriteStream::new(self, WriteOptions::cleaning(self));
        for (tag, buf) in pages {
            if let Err(error) = stream.push_buffer(backend, tag, buf) {
                return stream.abandon(backend, error).map(drop);
            }
        }
        stream.finish(backend).map(drop)
    }

    /// Retires all of these buffers, which have no places, and lists those that are retired.
    fn retire_all(
        &self,
        backend: &mut Backend,
        buffers: Range<u32>,
        (keeping, until): (Keeping, Instant),
        retired: &mut Vec<u32>,
    ) -> Option<ResizeStop> {
        let mut left: Vec<u32> = buffers.collect();
        loop {
            self.relocate_all(&mut left, keeping, retired);
            left.retain(|&buf| {
                let done = self.retire(buf);
                if done {
                    retired.push(buf);
                }
                !done
            });
            let &first = left.first()?;
            let dirty: Vec<u32> =
                left.iter().copied().filter(|&buf| self.is_idle_dirty(buf)).collect();
            let late = Instant::now() >= until;
            if !late && !dirty.is_empty() {
                if let Err(error) = self.write_out(backend, &dirty) {
                    return Some(ResizeStop::Failed(error));
                }
            } else if late || !self.await_idle(&mut backend.io, first, until) {
                return Some(ResizeStop::InUse { buffers: left.len() });
            }
            thread::yield_now();
        }
    }
}
