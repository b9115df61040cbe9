//! Pages in memory: finding and pinning them, and giving a buffer a page.
//!
//! A hit searches the page table without a lock, pins the buffer, and compares the tag again. The
//! pin keeps the tag from changing.

use super::buffer_pool::BufferPool;
use super::desc::{TAG_VALID, VALID};
use super::guard::Pinned;
use super::table;
use super::usage::Use;
use forebay_aio::sync::atomic::Ordering;
use forebay_format::PageTag;
use std::sync::Arc;

impl BufferPool {
    /// Pins a page if it is in memory. For the replacement this is no use of the page.
    pub fn lookup(self: &Arc<Self>, tag: &PageTag) -> Option<Pinned> {
        let hash = table::hash_tag(tag);
        let (buf, valid) = self.pin_cached(tag, hash, None)?;
        let pin = Pinned::uncounted(&self.core, buf);
        valid.then_some(pin)
    }

    /// Pins a page that the table contains, and tells whether it is valid.
    pub(crate) fn pin_if_cached(&self, tag: &PageTag, used: Option<Use>) -> Option<(u32, bool)> {
        self.pin_cached(tag, table::hash_tag(tag), used)
    }

    /// As [`Self::pin_if_cached`], for a caller that has the hash.
    pub(super) fn pin_cached(
        &self,
        tag: &PageTag,
        hash: u64,
        used: Option<Use>,
    ) -> Option<(u32, bool)> {
        if let Some(buf) = self.table.hint(&self.core.descs, hash, tag) {
            let desc = self.desc(buf);
            if let Some(state) = desc.pin(used) {
                if desc.has_tag(tag) {
                    return Some((buf, state & VALID != 0));
                }
                self.core.unpin(buf);
            }
        }
        self.pin_known(tag, hash, used)
    }

    /// The same under the bucket's lock. A page that it does not find is not in memory.
    #[cold]
    fn pin_known(&self, tag: &PageTag, hash: u64, used: Option<Use>) -> Option<(u32, bool)> {
        let bucket = self.table.lock(&self.core.descs, hash);
        let buf = bucket.find(tag)?;
        let state = self.desc(buf).pin(used)?;
        Some((buf, state & VALID != 0))
    }

    /// Returns the buffer of a page. It may have another page by the time the caller looks.
    pub(crate) fn buffer_of(&self, tag: &PageTag) -> Option<u32> {
        self.table.lock(&self.core.descs, table::hash_tag(tag)).find(tag)
    }

    /// Pins a page wherever it is, with the certainty of the bucket's lock. This is no use of the
    /// page.
    pub(crate) fn pin_certainly(&self, tag: &PageTag) -> Option<u32> {
        self.pin_known(tag, table::hash_tag(tag), None).map(|(buf, _)| buf)
    }

    /// Pins a page's buffer if the table contains it and its state passes the test. This is no use
    /// of the page.
    pub(super) fn pin_cached_if(&self, tag: &PageTag, passes: impl Fn(u64) -> bool) -> Option<u32> {
        let buf = self.table.hint(&self.core.descs, table::hash_tag(tag), tag)?;
        let desc = self.desc(buf);
        let pinned = desc.pin_where(|s| s & TAG_VALID != 0 && passes(s));
        if pinned && !desc.has_tag(tag) {
            self.core.unpin(buf);
            return None;
        }
        pinned.then_some(buf)
    }

    /// Gives a victim a tag and adds it to the table, with `flags` set. If the table already
    /// contains the page, pins that buffer instead, and returns it and whether it is valid.
    pub(super) fn install(
        &self,
        victim: u32,
        tag: &PageTag,
        hash: u64,
        flags: u64,
        used: Option<Use>,
    ) -> Option<(u32, bool)> {
        let bucket = self.table.lock(&self.core.descs, hash);
        if let Some(buf) = bucket.find(tag)
            && let Some(state) = self.desc(buf).pin(used)
        {
            return Some((buf, state & VALID != 0));
        }
        let desc = self.desc(victim);
        desc.set_tag(tag);
        desc.state.fetch_or(TAG_VALID | flags, Ordering::SeqCst);
        bucket.insert(victim);
        None
    }
}
