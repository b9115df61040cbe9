//! Copying a relation's fork page by page, through the pool: for a new database, and for a relation
//! that gets another file.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_format::page::PageBytes;
use forebay_format::wal::{Rmgr, xlog};
use forebay_format::{BLOCK_SIZE, Fork, RelFileLocator};
use forebay_storage::{
    Backend, BufferPool, Pinned, ReadStream, Strategy, StreamFlags, StreamSettings, WriteOptions,
    WriteStream,
};
use forebay_wal::{BlockFlags, BlockRef, Record, Wal};

use super::critical::{PageFailure, critical};
use crate::error::AccessError;

/// Pages that are collected before the file grows.
const AT_ONCE: usize = 32;
/// Bytes of a record with a page.
const RECORD_ROOM: u64 = 2 * BLOCK_SIZE as u64;

/// What copies forks.
#[derive(Clone, Copy, Debug)]
pub struct ForkCopier<'a> {
    /// The pages.
    pub pool: &'a Arc<BufferPool>,
    /// The log of changes.
    pub wal: &'a Arc<Wal>,
    /// Stops the engine if a page was changed and the change could not be logged.
    pub failure: &'a Arc<dyn PageFailure>,
}

impl ForkCopier<'_> {
    /// Copies all pages of a fork into another relation's, which is empty and nobody else uses. If
    /// the new one is `logged`, each page is logged whole. `check` can end the copying.
    pub fn copy(
        &self,
        backend: &mut Backend,
        (from, to): (RelFileLocator, RelFileLocator),
        (fork, logged): (Fork, bool),
        settings: StreamSettings,
        check: &dyn Fn() -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        let blocks = self.pool.smgr().nblocks(from, fork)?;
        let mut all = 0..blocks;
        let flags = StreamFlags::SEQUENTIAL;
        let source = move || all.next();
        let strategy = Strategy::BulkRead;
        let mut pages = ReadStream::new(self.pool, from, fork, source, flags, strategy, settings);
        let mut written = WriteStream::new(self.pool, WriteOptions::cleaning(self.pool));
        let mut batch: Vec<Box<PageBytes>> = Vec::new();
        loop {
            let page = pages.next(backend)?;
            let ended = page.is_none();
            batch.extend(page.map(|pin| pin.lock_shared().copy()));
            if batch.len() == AT_ONCE || ended {
                check()?;
                self.append(backend, (to, fork, logged), &mut batch, &mut written)?;
            }
            if ended {
                written.finish(backend)?;
                return Ok(());
            }
        }
    }

    fn append(
        &self,
        backend: &mut Backend,
        (to, fork, logged): (RelFileLocator, Fork, bool),
        batch: &mut Vec<Box<PageBytes>>,
        written: &mut WriteStream<'_>,
    ) -> Result<(), AccessError> {
        let mut pages = batch.drain(..);
        while pages.len() > 0 {
            let wanted = pages.len() as u32;
            let pins = self.pool.extend(backend, to, fork, wanted, Strategy::BulkWrite)?;
            for (pin, page) in pins.into_iter().zip(pages.by_ref()) {
                self.put_copy(backend, &pin, &page, (fork, logged))?;
                written.push(backend, pin)?;
            }
        }
        Ok(())
    }

    fn put_copy(
        &self,
        backend: &mut Backend,
        pin: &Pinned,
        page: &PageBytes,
        (fork, logged): (Fork, bool),
    ) -> Result<(), AccessError> {
        if logged {
            self.wal.ensure_room(&mut backend.io, RECORD_ROOM)?;
        }
        let mut guard = pin.lock_exclusive();
        critical(self.failure.as_ref(), "could not copy a relation", || {
            guard.mark_dirty();
            *guard = *page;
            if !logged {
                return Ok(());
            }
            forebay_aio::planted_bug!(backend.io.aio(), CopiedPagesNotLogged, return Ok(()));
            let mut flags = BlockFlags::FORCE_IMAGE;
            // Both maps have their contents where other pages have free space.
            if fork == Fork::Main {
                flags = flags | BlockFlags::STANDARD;
            }
            let block = BlockRef { id: 0, tag: guard.tag(), page: Some(&guard), flags, data: &[] };
            let (rmgr, info) = (Rmgr::XLOG, xlog::FPI);
            let record = Record { rmgr, info, xid: 0, main: &[], blocks: &[block] };
            let inserted = self.wal.insert(&mut backend.io, &record)?;
            guard.set_lsn(inserted.end);
            Ok(())
        })
    }
}
