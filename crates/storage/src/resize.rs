//! Changing the number of buffers while the pool is in use.
//!
//! ```text
//!   grow:    memory is provided, 2 MB at a time - registered - its buffers get places
//!   shrink:  the last buffers lose their places
//!            - from the end, 128 MB at a time: dirty pages are written, or move; clean ones move
//!              to the buffers of older ones, or leave; buffers are retired; memory is given back
//! ```
//!
//! Addresses for the pool's bound are reserved when it is made, so buffers never move. A shrink
//! waits for buffers in use as long as it is allowed to. If some remain, those before them come
//! back into use, and the pool has the size that was reached. An urgent one passes over them, and
//! leaves them in the tail. A later one gives up what it can of those without waiting, and a growth
//! gives them places again.

use crate::error::StorageError;
use crate::pool::desc::{DIRTY, refcount};
use crate::pool::{Backend, BufferPool, ShrinkMode};
use crate::stream::{WriteOptions, WriteStream};
use crate::tail::{Chunk, Tail};
use forebay_aio::sync::{Duration, Instant, thread};
use forebay_format::BLOCK_SIZE;
use std::ops::Range;

use ResizeStop::{Failed, InUse};

/// Buffers whose memory is given back together: 128 MB, which are registered as one piece.
const RELEASED: u32 = (128 << 20) / BLOCK_SIZE as u32;
/// Buffers whose memory is provided together: a huge page of them.
const PROVIDED: usize = (2 << 20) / BLOCK_SIZE;
/// How often a shrink that keeps dirty pages tries to move them before it writes them, which may
/// take long.
const MOVES: u32 = 3;

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

impl ResizeStop {
    /// Whether an error means that nothing may be written any more.
    fn is_fatal(&self) -> bool {
        matches!(self, Failed(error) if error.is_fatal())
    }
}

impl BufferPool {
    /// Gives the pool another number of buffers. A shrink waits for buffers in use, but no longer
    /// than `patience`, and keeps pages that are in demand. The caller holds no pins and no locks.
    pub fn resize(&self, backend: &mut Backend, buffers: usize, patience: Duration) -> Resized {
        self.resize_with(backend, buffers, (ShrinkMode::Orderly, patience))
    }

    /// The same, with a mode for a shrink.
    pub fn resize_with(
        &self,
        backend: &mut Backend,
        buffers: usize,
        (mode, patience): (ShrinkMode, Duration),
    ) -> Resized {
        backend.io.submit();
        let until = Instant::now() + patience;
        let mut tail = self.tail.lock();
        let from = self.buffers();
        let (least, most) = (self.min_buffers(), self.max_buffers());
        let to = buffers.clamp(least, most);
        let stopped = if to > from {
            self.enlarge(to, &mut tail, || true).err().map(Failed)
        } else {
            self.shrink(backend, to, (mode, until), &mut tail)
        };
        let first = self.config.buffers;
        let bounds = (to != buffers).then_some(ResizeStop::Bounds { first, least, most });
        Resized { from, buffers: self.buffers(), stopped: stopped.or(bounds) }
    }

    /// Gives the pool more buffers. Before each 2 MB it asks whether to go on: the system may need
    /// a while to provide memory, and others may need it meanwhile. If not, the pool has the size
    /// that was reached.
    pub fn grow_while(&self, buffers: usize, go_on: impl FnMut() -> bool) -> Resized {
        let mut tail = self.tail.lock();
        let from = self.buffers();
        let to = buffers.min(self.max_buffers());
        let stopped = self.enlarge(to, &mut tail, go_on).err().map(Failed);
        Resized { from, buffers: self.buffers(), stopped }
    }

    fn enlarge(
        &self,
        to: usize,
        tail: &mut Tail,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<(), StorageError> {
        self.regain(to, tail, &mut go_on)?;
        let (from, region) = (self.buffers(), &self.core.region);
        let mut size = from;
        while tail.0.is_empty() && size < to && go_on() {
            let next = (size / PROVIDED * PROVIDED + PROVIDED).min(to);
            if let Err(error) = self.aio.occupy_memory(region, next * BLOCK_SIZE) {
                region.vacate(from * BLOCK_SIZE);
                return Err(error.into());
            }
            size = next;
        }
        if size > from {
            self.aio.memory_resized(region, size * BLOCK_SIZE);
            self.add_buffers(size);
        }
        Ok(())
    }

    /// Gives the first buffers of the tail their places again.
    fn regain(
        &self,
        to: usize,
        tail: &mut Tail,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<(), StorageError> {
        let region = &self.core.region;
        let (first, mut end, mut retired) = (self.buffers(), self.buffers(), Vec::new());
        let mut failed = None;
        while failed.is_none() && end < to && go_on() {
            let Some(mut chunk) = tail.take_first(to as u32) else { break };
            let provided = match chunk.has_holes() {
                true => region.provide(bytes_of(&chunk.buffers)),
                false => Ok(()),
            };
            if let Err(error) = provided {
                failed = Some(error);
                chunk.give_back_again();
                tail.0.push_front(chunk);
            } else {
                end = chunk.buffers.end as usize;
                retired.extend(chunk.retired());
            }
        }
        if end > first {
            self.aio.memory_resized(region, end * BLOCK_SIZE);
            self.follow_size(end);
            self.give_places(first as u32..end as u32, &retired);
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn shrink(
        &self,
        backend: &mut Backend,
        to: usize,
        (mode, until): (ShrinkMode, Instant),
        tail: &mut Tail,
    ) -> Option<ResizeStop> {
        let from = self.buffers();
        if to == from && tail.0.is_empty() {
            return None;
        }
        if to < from {
            self.take_places(to as u32);
            tail.extend_down(to as u32..from as u32);
        }
        let (mut stopped, mut reached, mut begun) = (None, to, u32::MAX);
        for at in (0..tail.0.len()).rev() {
            let mut written: Result<(), ResizeStop> = Ok(());
            let part = |chunk: &Chunk| chunk.buffers.start / RELEASED * RELEASED;
            if let Some(part) = tail.0.get(at).map(part).filter(|part| *part < begun) {
                let next = part.max(to as u32)..begun.min(self.core.size() as u32);
                begun = part;
                self.give_back(to, tail);
                if mode == ShrinkMode::Orderly {
                    written = self.write_idle(backend, next);
                }
            }
            // Retired ones may have left with those after them.
            let Some(chunk) = tail.0.get_mut(at) else { continue };
            // What an earlier shrink has left is passed over as in a hurry.
            let passes = mode == ShrinkMode::Urgent || chunk.buffers.start as usize >= from;
            let retired = self.retire_all(backend, &mut chunk.in_use, (mode, until, passes));
            let written = written.err().filter(|stop| retired.is_err() || stop.is_fatal());
            let Some(stop) = written.or(retired.err()) else { continue };
            if !passes || stop.is_fatal() {
                if mode == ShrinkMode::Orderly {
                    reached = from.min(chunk.buffers.end as usize);
                }
                stopped = Some(stop);
                break;
            }
            stopped = stopped.or(Some(stop).filter(|stop| matches!(stop, Failed(_))));
        }
        self.give_back(to, tail);
        self.follow_size(to);
        self.core.budget.look_again();
        let regained = self.regain(reached, tail, || true).err().map(Failed);
        let in_use = (!tail.0.is_empty()).then(|| InUse { buffers: tail.in_use() });
        stopped.or(regained).or(in_use)
    }

    /// Gives back the memory of the tail's retired buffers. Those in use go on without its
    /// registration: only what is not registered can be given back.
    fn give_back(&self, placed: usize, tail: &mut Tail) {
        let region = &self.core.region;
        let size = tail.drop_retired().map_or(placed, |end| end as usize);
        self.core.set_size(size);
        self.aio.memory_resized(region, placed * BLOCK_SIZE);
        if size * BLOCK_SIZE < region.occupied() {
            region.vacate(size * BLOCK_SIZE);
        }
        for run in tail.0.iter_mut().flat_map(Chunk::take_retired_runs) {
            region.suspend(bytes_of(&run));
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

    /// Retires all of these buffers, which have no places. Those that can't be remain in the list.
    /// If they are to be passed over, it does not wait for their pins.
    fn retire_all(
        &self,
        backend: &mut Backend,
        left: &mut Vec<u32>,
        (mode, until, passes): (ShrinkMode, Instant, bool),
    ) -> Result<(), ResizeStop> {
        for attempt in 1.. {
            self.relocate_all(left, mode);
            left.retain(|&buf| !self.retire(buf));
            let Some(&first) = left.first() else { break };
            let in_use = Err(InUse { buffers: left.len() });
            if Instant::now() >= until {
                return in_use;
            }
            let dirty: Vec<u32> =
                left.iter().copied().filter(|&buf| self.is_idle_dirty(buf)).collect();
            if dirty.is_empty() {
                if passes || !self.await_idle(&mut backend.io, first, until) {
                    return in_use;
                }
            } else if mode == ShrinkMode::Orderly || attempt >= MOVES {
                self.write_out(backend, &dirty)?;
            }
            thread::yield_now();
        }
        Ok(())
    }
}

/// Where the pages of buffers are in the pool's memory.
fn bytes_of(buffers: &Range<u32>) -> Range<usize> {
    buffers.start as usize * BLOCK_SIZE..buffers.end as usize * BLOCK_SIZE
}
