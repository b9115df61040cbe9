//! Moving pages from buffers that a smaller pool gives up to those that it keeps.
//!
//! A page takes the buffer of a clean one, which leaves. It keeps its class, the epoch of its last
//! use, and stays dirty if it is. Only pages that nobody has pinned move. A lookup finds the page
//! in one buffer or the other: both change under the lock of the page's bucket. Whoever looks
//! through the buffers and must not miss a page holds [`BufferPool::moves`] meanwhile.

use super::buffer_pool::BufferPool;
use super::desc::{DIRTY, IO_ERROR, READING, TAG_VALID, VALID, WRITING, refcount};
use super::newcomer::Newcomer;
use super::places::WINDOW;
use super::table;
use super::trace_format::AccessKind;
use super::usage::{Class, age, last_use};
use super::victim::Claim;
use forebay_aio::sync::atomic::Ordering;
use forebay_format::BLOCK_SIZE;
use std::ptr;

/// Pages that are looked at for one that gives way.
const TRIES: usize = 4;
/// The same for a clean one, which takes several looks if many pages are dirty.
const CLEAN_TRIES: usize = 32;

/// How a pool gives up buffers with pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShrinkMode {
    /// Pages that are in demand are kept: clean ones move if others were used longer ago. Dirty
    /// pages are written first.
    Orderly,
    /// Only dirty pages move, to the buffers of clean ones. Nothing is written while there are
    /// such, and buffers in use are passed over, so memory is given back fast.
    Urgent,
}

impl BufferPool {
    /// Retires buffers that have no place, and moves their pages. Those whose pages can't move, or
    /// should not, stay in the list.
    pub(crate) fn relocate_all(&self, buffers: &mut Vec<u32>, mode: ShrinkMode) {
        let _moves = self.moves.write();
        buffers.retain(|&buf| !self.relocate(buf, mode));
    }

    fn relocate(&self, buf: u32, mode: ShrinkMode) -> bool {
        let desc = self.desc(buf);
        let state = desc.load();
        let idle = state & (READING | WRITING | IO_ERROR) == 0 && refcount(state) == 0;
        if state & VALID == 0 || !idle {
            return false;
        }
        let found = match (mode, state & DIRTY != 0) {
            (ShrinkMode::Orderly, false) => self.older_page(state),
            (ShrinkMode::Urgent, true) => self.clean_page(),
            _ => None,
        };
        let Some(to) = found else { return false };
        if desc.claim(state) {
            if self.move_page(buf, to) {
                self.core.unpin(to);
                return true;
            }
            self.core.unpin(buf);
        }
        self.core.unpin(to);
        false
    }

    /// Empties a buffer with a clean page. The caller has it pinned.
    fn clean_page(&self) -> Option<u32> {
        let now = self.time.epoch();
        for _ in 0..CLEAN_TRIES {
            let hand = self.places.hand();
            let found = self.look(hand, now, |state| state & DIRTY == 0);
            self.places.move_hand(found.map_or(hand + WINDOW, |look| look.hand + 1));
            let Some(look) = found else { continue };
            if self.desc(look.buf).claim(look.state) {
                if let Claim::Evicted | Claim::Empty = self.evict(look.buf) {
                    return Some(look.buf);
                }
                self.core.unpin(look.buf);
            }
        }
        None
    }

    /// Empties a buffer whose page gives way to one in this state. The caller has it pinned.
    fn older_page(&self, state: u64) -> Option<u32> {
        let now = self.time.epoch();
        let access = match Class::of(state) {
            Class::Valued => AccessKind::Normal,
            Class::Unused | Class::Reused | Class::Queued(_) => AccessKind::BulkRead,
        };
        let newcomer = Newcomer::again(access, age(state, now), now);
        for _ in 0..TRIES {
            let buf = self.place_for(&newcomer)?.buf;
            // A dirty page is not written for this.
            if self.desc(buf).load() & DIRTY == 0
                && let Claim::Evicted | Claim::Empty = self.evict(buf)
            {
                return Some(buf);
            }
            self.core.unpin(buf);
        }
        None
    }

    /// Moves the page of a buffer to an empty one. The caller has pinned both, and has the second
    /// alone. Returns false if another thread wants the page.
    fn move_page(&self, from: u32, to: u32) -> bool {
        let desc = self.desc(from);
        let tag = desc.tag();
        let bucket = self.table.lock(&self.core.descs, table::hash_tag(&tag));
        let Some(state) = self.remove_from_bucket(&bucket, from, 0) else { return false };
        // SAFETY: the pages' bytes lie in the region and don't overlap. Nobody else may access
        // them: without a tag, both buffers belong to the caller.
        unsafe {
            let (from, to) = (self.core.page_ptr(from), self.core.page_ptr(to));
            ptr::copy_nonoverlapping(from, to, BLOCK_SIZE);
        }
        let class = match Class::of(state) {
            Class::Queued(_) => Class::Unused,
            class => class,
        };
        let mut dirty = state & DIRTY;
        forebay_aio::planted_bug!(self.aio, MovedPagesBecomeClean, dirty = 0);
        let moved = self.desc(to);
        moved.expect(AccessKind::Normal, class, last_use(state));
        moved.set_tag(&tag);
        moved.state.fetch_or(TAG_VALID | VALID | dirty, Ordering::SeqCst);
        bucket.insert(to);
        true
    }
}
