//! Where the pages of an index under construction go.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::NbtreeError;
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageBytes, PageMut};
use forebay_storage::{Backend, Strategy, WriteOptions, WriteStream};

use super::relation::Index;
use crate::error::AccessError;
use crate::heap::critical;

/// The pages of an index under construction.
pub trait BuildPages {
    /// The caller's means of writing them.
    type With;

    /// Adds a page of zeros behind the last one.
    fn add(&mut self, with: &mut Self::With) -> Result<BlockNumber, AccessError>;

    /// Fills a page.
    fn put(
        &mut self,
        with: &mut Self::With,
        number: BlockNumber,
        fill: impl FnOnce(&mut PageMut<'_>) -> Result<(), NbtreeError>,
    ) -> Result<(), AccessError>;

    /// All pages are filled.
    fn finish(self, with: &mut Self::With) -> Result<(), AccessError>;
}

/// So many pages of an index stay in the pool, where checkpoints find them. A write of them would
/// wait for the log, and so would every CREATE TABLE with a TOAST table or a key.
const FIRST_PAGES: u32 = 16;

/// Pages in the buffer pool. Each is logged whole, and those behind [`FIRST_PAGES`] go to a write
/// stream.
#[derive(Debug)]
pub struct PooledPages<'a> {
    index: &'a Index,
    filled: u32,
    written: WriteStream<'a>,
}

impl PooledPages<'_> {
    pub(super) fn new(index: &Index) -> PooledPages<'_> {
        let written = WriteStream::new(&index.pool, WriteOptions::cleaning(&index.pool));
        PooledPages { index, filled: 0, written }
    }
}

impl BuildPages for PooledPages<'_> {
    type With = Backend;

    fn add(&mut self, backend: &mut Backend) -> Result<BlockNumber, AccessError> {
        let Index { pool, locator, .. } = self.index;
        let pages = pool.extend(backend, *locator, Fork::Main, 1, Strategy::BulkWrite)?;
        let page = pages.first().map(|page| page.tag().block);
        page.ok_or_else(|| AccessError::Internal("an index was extended by no block".to_owned()))
    }

    fn put(
        &mut self,
        backend: &mut Backend,
        number: BlockNumber,
        fill: impl FnOnce(&mut PageMut<'_>) -> Result<(), NbtreeError>,
    ) -> Result<(), AccessError> {
        let index = self.index;
        index.ensure_log_room(backend)?;
        let pin = index.pool.read(backend, index.tag(number), Strategy::BulkWrite)?;
        let mut page = pin.lock_exclusive();
        critical(index.failure.as_ref(), "could not build an index", || {
            page.mark_dirty();
            fill(&mut page.page_mut()).map_err(|error| index.damaged(number, &error))?;
            index.log_image(backend, &mut page)
        })?;
        drop(page);
        self.filled += 1;
        if self.filled > FIRST_PAGES {
            self.written.push(backend, pin)?;
        }
        Ok(())
    }

    fn finish(self, backend: &mut Backend) -> Result<(), AccessError> {
        self.index.known.set_root(None);
        self.written.finish(backend)?;
        Ok(())
    }
}

/// Pages in memory, for a file that is written at once.
#[derive(Debug)]
pub struct MemoryPages<'a>(pub(super) &'a mut Vec<Box<PageBytes>>);

impl BuildPages for MemoryPages<'_> {
    type With = ();

    fn add(&mut self, (): &mut ()) -> Result<BlockNumber, AccessError> {
        self.0.push(Box::new([0; BLOCK_SIZE]));
        BlockNumber::try_from(self.0.len() - 1)
            .map_err(|_| AccessError::Internal("an index has too many pages".to_owned()))
    }

    fn put(
        &mut self,
        (): &mut (),
        number: BlockNumber,
        fill: impl FnOnce(&mut PageMut<'_>) -> Result<(), NbtreeError>,
    ) -> Result<(), AccessError> {
        let page = self.0.get_mut(number as usize).expect("a page that was added");
        fill(&mut PageMut::new(page)).map_err(|error| AccessError::Internal(error.to_string()))
    }

    fn finish(self, (): &mut ()) -> Result<(), AccessError> {
        Ok(())
    }
}
