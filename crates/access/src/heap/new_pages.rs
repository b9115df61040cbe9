//! The pages of a table's new file, which nobody else sees yet.
//!
//! ```text
//!   add(tuple) ─▶ page in memory ─ full ─▶ batch ─ full ─▶ pool, each page logged whole ─▶ written
//! ```
//!
//! Blocks are numbered as they come, so a tuple's place is known before its page has a buffer.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::page::{PageBytes, PageMut};
use forebay_format::tuple::HeapTupleMut;
use forebay_format::wal::{Rmgr, xlog};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, ItemPointer};
use forebay_storage::{Backend, PageWriteGuard, Pinned, Strategy, WriteOptions, WriteStream};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::batch::{aligned, check_size};
use super::critical::critical;
use super::relation::Heap;
use crate::error::AccessError;

/// Pages that are collected before the file grows.
const AT_ONCE: usize = 32;

/// Fills a table's new file.
#[derive(Debug)]
pub(crate) struct NewPages<'a> {
    heap: &'a Heap,
    /// Full pages, then the one under construction.
    pages: Vec<Box<PageBytes>>,
    /// The block of the first of them.
    first: BlockNumber,
    written: WriteStream<'a>,
}

impl Heap {
    /// Begins to fill the table, whose file is empty and new.
    pub(crate) fn new_pages(&self) -> NewPages<'_> {
        let written = WriteStream::new(&self.pool, WriteOptions::cleaning(&self.pool));
        NewPages { heap: self, pages: Vec::new(), first: 0, written }
    }
}

impl NewPages<'_> {
    /// Adds a tuple as it is, but for its ctid: the place of a newer version, or its own. Returns
    /// its own.
    pub(crate) fn add(
        &mut self,
        backend: &mut Backend,
        tuple: &[u8],
        newer: Option<ItemPointer>,
    ) -> Result<ItemPointer, AccessError> {
        check_size(tuple.len())?;
        let need = aligned(tuple.len()) + self.heap.kept_free();
        let has_room = self
            .pages
            .last_mut()
            .is_some_and(|page| PageMut::new(page).page().heap_free_space() >= need);
        if !has_room {
            if self.pages.len() == AT_ONCE {
                self.flush(backend)?;
            }
            let mut page = Box::new([0; BLOCK_SIZE]);
            PageMut::new(&mut page).init(0);
            self.pages.push(page);
        }
        let full = || AccessError::Internal("a new page takes no tuple".to_owned());
        let at = self.pages.len().checked_sub(1).ok_or_else(full)?;
        let block = u32::try_from(at).ok().and_then(|at| self.first.checked_add(at));
        let block = block.ok_or_else(full)?;
        let mut page = PageMut::new(self.pages.last_mut().ok_or_else(full)?);
        let offset = page.add_item(tuple, None).ok_or_else(full)?;
        let place = ItemPointer::new(block, offset);
        let item = page.item_mut(offset).ok_or_else(full)?;
        HeapTupleMut::new(item)?.set_ctid(newer.unwrap_or(place));
        Ok(place)
    }

    /// Ends the file. Returns the number of its blocks.
    pub(crate) fn finish(mut self, backend: &mut Backend) -> Result<BlockNumber, AccessError> {
        self.flush(backend)?;
        self.written.finish(backend)?;
        Ok(self.first)
    }

    /// Moves the pages to the pool.
    fn flush(&mut self, backend: &mut Backend) -> Result<(), AccessError> {
        let heap = self.heap;
        let mut pages = std::mem::take(&mut self.pages).into_iter();
        while pages.len() > 0 {
            let (wanted, strategy) = (pages.len() as u32, Strategy::BulkWrite);
            let pins = heap.pool.extend(backend, heap.locator, Fork::Main, wanted, strategy)?;
            for (pin, page) in pins.into_iter().zip(pages.by_ref()) {
                let found = pin.tag().block;
                assert_eq!(found, self.first, "somebody extends {:?}", heap.locator);
                heap.put_new(backend, &pin, &page)?;
                self.written.push(backend, pin)?;
                self.first += 1;
            }
        }
        Ok(())
    }
}

impl Heap {
    /// Fills a page of a new file, and logs it whole.
    fn put_new(
        &self,
        backend: &mut Backend,
        pin: &Pinned,
        page: &PageBytes,
    ) -> Result<(), AccessError> {
        self.ensure_log_room(backend)?;
        let mut guard = pin.lock_exclusive();
        critical(self.failure.as_ref(), "could not rewrite a table", || {
            guard.mark_dirty();
            *guard = *page;
            self.log_image(backend, &mut guard)
        })
    }

    /// Logs a page whole, if the table is logged, and sets its LSN.
    fn log_image(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
    ) -> Result<(), AccessError> {
        if !self.logged {
            return Ok(());
        }
        forebay_aio::planted_bug!(backend.io.aio(), RewriteNotLogged, return Ok(()));
        let flags = BlockFlags::FORCE_IMAGE | BlockFlags::STANDARD;
        let block = BlockRef { id: 0, tag: guard.tag(), page: Some(guard), flags, data: &[] };
        let (rmgr, info) = (Rmgr::XLOG, xlog::FPI);
        let record = Record { rmgr, info, xid: 0, main: &[], blocks: &[block] };
        let inserted = self.wal.insert(&mut backend.io, &record)?;
        guard.set_lsn(inserted.end);
        Ok(())
    }
}
