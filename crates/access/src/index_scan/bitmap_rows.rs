//! The rows of a bitmap, page by page in the order of their blocks.
//!
//! The pages come from a read stream, which reads them ahead and combines neighbours. Of each
//! entry's chain the version that the snapshot sees is returned, or of each chain of a lossy page.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::Fork;
use forebay_storage::{
    Backend, BlockSource, ReadStream, Strategy, StreamFlags, StreamSettings, StreamStats,
};
use forebay_txn::locks::Interrupt;

use super::rows::RowRef;
use super::tid_bitmap::{BitmapPage, BitmapPages, TidBitmap};
use crate::error::AccessError;
use crate::heap::{Heap, PageRows, ReadAhead, RowReader};

/// Gives a stream the pages of a bitmap.
#[derive(Debug)]
struct Pages(BitmapPages);

impl BlockSource for Pages {
    type Data = BitmapPage;

    fn next_block(&mut self) -> Option<(u32, BitmapPage)> {
        self.0.next().map(|page| (page.block, page))
    }
}

/// A scan of the rows of a bitmap.
#[derive(Debug)]
pub struct BitmapRows {
    stream: ReadStream<Pages>,
    reader: RowReader,
    interrupt: Interrupt,
    rows: PageRows,
    /// Index of the row that is returned next.
    next: usize,
    recheck: bool,
    /// Exact and lossy pages that were read.
    pages: (u64, u64),
}

impl BitmapRows {
    /// Begins a scan of the rows that `reader` sees. A request to `interrupt` ends it with an
    /// error.
    pub fn new(
        heap: &Heap,
        bitmap: TidBitmap,
        reader: RowReader,
        ahead: ReadAhead,
        interrupt: Interrupt,
    ) -> BitmapRows {
        let stream = ReadStream::new(
            &heap.pool,
            heap.locator,
            Fork::Main,
            Pages(bitmap.into_pages()),
            StreamFlags::DEFAULT,
            Strategy::Normal,
            StreamSettings::new(ahead.io_concurrency, ahead.combine_limit),
        );
        let (rows, next, recheck) = (PageRows::default(), 0, false);
        BitmapRows { stream, reader, interrupt, rows, next, recheck, pages: (0, 0) }
    }

    /// The next row, and whether it must be checked that it satisfies the condition.
    pub fn next(
        &mut self,
        backend: &mut Backend,
    ) -> Result<Option<(RowRef<'_>, bool)>, AccessError> {
        while self.next >= self.rows.rows().len() {
            if let Some(kind) = self.interrupt.pending() {
                return Err(AccessError::Interrupted(kind));
            }
            self.rows.clear();
            self.next = 0;
            let Some((pin, page)) = self.stream.next_with_data(backend)? else { return Ok(None) };
            self.recheck = page.recheck;
            match &page.offsets {
                Some(offsets) => {
                    self.pages.0 += 1;
                    self.reader.read(backend, &pin, offsets, &mut self.rows)?;
                }
                None => {
                    self.pages.1 += 1;
                    self.reader.read_all(backend, &pin, &mut self.rows)?;
                }
            }
        }
        let row = self.rows.rows().get(self.next);
        self.next += 1;
        Ok(row.map(|row| (RowRef { tid: row.tid, tuple: self.rows.tuple(row) }, self.recheck)))
    }

    /// Exact and lossy pages that were read.
    pub fn pages(&self) -> (u64, u64) {
        self.pages
    }

    /// What its read stream has done.
    pub fn stats(&self) -> StreamStats {
        self.stream.stats()
    }
}
