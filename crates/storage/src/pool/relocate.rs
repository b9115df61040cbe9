//! Moving pages from buffers that a smaller pool gives up to those that it keeps.
//!
//! A page moves if one that was used longer ago gives way to it. It keeps its class and the epoch
//! of its last use. Only clean pages that nobody has pinned move. A lookup finds the page in one
//! buffer or the other: both change under the lock of the page's bucket.

use super::buffer_pool::BufferPool;
use super::desc::{DIRTY, READING, TAG_VALID, VALID, WRITING, refcount};
use super::newcomer::Newcomer;
use super::table;
use super::trace_format::AccessKind;
use super::usage::{Class, age, last_use};
use super::victim::Claim;
use forebay_aio::sync::atomic::Ordering;
use forebay_format::BLOCK_SIZE;
use std::ptr;

/// Pages that are looked at for one that gives way.
const TRIES: usize = 4;

impl BufferPool {
    /// Retires a buffer that has no place, and moves its page. Returns false if its page can't
    /// move, or should not.
    pub(crate) fn relocate(&self, buf: u32) -> bool {
        let desc = self.desc(buf);
        let state = desc.load();
        let idle = state & (DIRTY | READING | WRITING) == 0 && refcount(state) == 0;
        if state & VALID == 0 || !idle {
            return false;
        }
        let Some(to) = self.older_page(state) else { return false };
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
        let Some(state) = self.remove_from_bucket(&bucket, from, DIRTY) else { return false };
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
        let moved = self.desc(to);
        moved.expect(AccessKind::Normal, class, last_use(state));
        moved.set_tag(&tag);
        moved.state.fetch_or(TAG_VALID | VALID, Ordering::SeqCst);
        bucket.insert(to);
        true
    }
}
