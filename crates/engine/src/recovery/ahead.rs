//! Reads ahead of redo: records, and the pages that they change.
//!
//! ```text
//!   WalReader --> queue: up to wal_decode_buffer_size --> next() --> redo
//!                   |
//!                   +--> existing pages, without an image, of no other record in the queue
//!                        --> BufferPool::prefetch
//! ```
//!
//! A page is not read ahead
//!
//! - if the record has an image of it or initializes it: redo does not read it either;
//! - if another record in the queue changes it: that record may have an image, and the page on the
//!   disk may be torn;
//! - after a record in the queue that creates, cuts or removes files, until that is redone;
//! - if it does not exist: redo reports that;
//! - while as many reads are in flight as maintenance_io_concurrency allows. The records after it
//!   then wait in the log.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use forebay_aio::WaitRef;
use forebay_format::PageTag;
use forebay_format::wal::{BlockRef, rmgr::INFO_SPECIAL_REL_UPDATE};
use forebay_storage::{Backend, BufferPool, Prefetched, Strategy};
use forebay_wal::{EndOfWal, WalReader, WalRecord};

use super::scan::{decode, end_of};
use crate::config::{PrefetchStats, RecoverySettings};
use crate::error::EngineError;

/// A record in the queue.
struct Queued {
    record: WalRecord,
    tags: Vec<PageTag>,
    changes_files: bool,
}

/// Records read ahead of redo.
pub(super) struct ReadAhead<'a> {
    reader: WalReader,
    pool: &'a Arc<BufferPool>,
    settings: RecoverySettings,
    queue: VecDeque<Queued>,
    /// Bytes of the records in the queue.
    bytes: usize,
    /// Number of records in the queue that change a page.
    wanted: HashMap<PageTag, u32>,
    /// The last record of the queue changes files.
    barrier: bool,
    ended: bool,
    under_way: VecDeque<WaitRef>,
    stats: PrefetchStats,
}

impl<'a> ReadAhead<'a> {
    pub(super) fn new(
        reader: WalReader,
        pool: &'a Arc<BufferPool>,
        settings: RecoverySettings,
    ) -> ReadAhead<'a> {
        ReadAhead {
            reader,
            pool,
            settings,
            queue: VecDeque::new(),
            bytes: 0,
            wanted: HashMap::new(),
            barrier: false,
            ended: false,
            under_way: VecDeque::new(),
            stats: PrefetchStats::default(),
        }
    }

    /// The next record; None at the end of the log.
    pub(super) fn next(&mut self, backend: &mut Backend) -> Result<Option<WalRecord>, EngineError> {
        if self.queue.is_empty() || self.bytes < self.settings.decode_buffer / 2 {
            self.fill(backend)?;
        }
        let Some(Queued { record, tags, changes_files }) = self.queue.pop_front() else {
            return Ok(None);
        };
        self.bytes -= record.bytes.len();
        self.barrier &= !changes_files || !self.queue.is_empty();
        for tag in tags {
            if let Some(left) = self.wanted.get_mut(&tag) {
                *left -= 1;
                if *left == 0 {
                    self.wanted.remove(&tag);
                }
            }
        }
        Ok(Some(record))
    }

    /// Where the log ended, once there are no more records.
    pub(super) fn end(&self) -> Result<EndOfWal, EngineError> {
        end_of(&self.reader)
    }

    /// Where the log ended, once there are no more records. Fails if the log is damaged there or
    /// lacks a segment.
    pub(super) fn check_end(&mut self, backend: &mut Backend) -> Result<EndOfWal, EngineError> {
        let end = self.end()?;
        self.reader.check_end(&mut backend.io).map_err(|error| match error.is_damage() {
            true => EngineError::corrupt(error.to_string()).with_hint(
                "Bring the segment back from an archive or a backup, and begin again; or recover \
                 to a target before it.",
            ),
            false => error.into(),
        })?;
        Ok(end)
    }

    pub(super) fn stats(&self) -> PrefetchStats {
        self.stats
    }

    /// Reads records until the queue is full or must wait. Submits the reads of their pages
    /// together, neighbours as one.
    fn fill(&mut self, backend: &mut Backend) -> Result<(), EngineError> {
        backend.io.begin_batch();
        let filled = self.fill_staged(backend);
        backend.io.end_batch();
        filled
    }

    fn fill_staged(&mut self, backend: &mut Backend) -> Result<(), EngineError> {
        let looks_ahead = self.settings.prefetch && self.settings.io_concurrency > 0;
        loop {
            if self.ended || self.barrier || self.bytes >= self.settings.decode_buffer {
                return Ok(());
            }
            let wanted_now = self.queue.is_empty();
            if !wanted_now && (!looks_ahead || !self.may_read(backend)) {
                return Ok(());
            }
            let Some(record) = self.reader.next(&mut backend.io)? else {
                self.ended = true;
                return Ok(());
            };
            self.take(backend, record, looks_ahead)?;
        }
    }

    /// Whether more reads may start.
    fn may_read(&mut self, backend: &mut Backend) -> bool {
        if self.under_way.len() >= self.settings.io_concurrency {
            self.under_way.retain(|&read| !backend.io.is_done(read));
        }
        self.under_way.len() < self.settings.io_concurrency
    }

    /// Puts a record into the queue, and starts to read its pages.
    fn take(
        &mut self,
        backend: &mut Backend,
        record: WalRecord,
        looks_ahead: bool,
    ) -> Result<(), EngineError> {
        let mut tags = Vec::new();
        let mut changes_files = false;
        if looks_ahead {
            let decoded = decode(&record)?;
            changes_files = decoded.header.info & INFO_SPECIAL_REL_UPDATE != 0;
            tags.reserve(decoded.blocks.len());
            for block in &decoded.blocks {
                self.consider(backend, block)?;
                *self.wanted.entry(block.tag).or_insert(0) += 1;
                tags.push(block.tag);
            }
        }
        self.barrier = changes_files;
        self.bytes += record.bytes.len();
        self.queue.push_back(Queued { record, tags, changes_files });
        Ok(())
    }

    /// Starts to read a page if redo will read it.
    fn consider(&mut self, backend: &mut Backend, block: &BlockRef<'_>) -> Result<(), EngineError> {
        let count = if block.image.is_some_and(|image| image.apply()) {
            &mut self.stats.skip_fpw
        } else if block.will_init {
            &mut self.stats.skip_init
        } else if self.wanted.contains_key(&block.tag) {
            &mut self.stats.skip_rep
        } else {
            let (tag, smgr) = (block.tag, self.pool.smgr());
            if !smgr.exists(tag.rel, tag.fork)? || tag.block >= smgr.nblocks(tag.rel, tag.fork)? {
                &mut self.stats.skip_new
            } else {
                match self.pool.prefetch(backend, tag, Strategy::Normal)? {
                    Prefetched::Started(read) => {
                        self.under_way.push_back(read);
                        &mut self.stats.prefetch
                    }
                    Prefetched::Cached => &mut self.stats.hit,
                    // Redo waits for one of them.
                    Prefetched::NoBuffer => return Ok(()),
                }
            }
        };
        *count += 1;
        Ok(())
    }
}
