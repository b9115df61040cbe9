//! Bringing a record's page to where the record left it.
//!
//! | the record has | the page | what is done |
//! |---|---|---|
//! | an image | whatever it is, or missing | becomes the image |
//! | "made anew" | whatever it is, or missing | zeros, then the change |
//! | neither | missing, or never used | remembered as missing |
//! | neither | as new as the record, or newer | nothing |
//! | neither | older | the change |

use forebay_format::wal::BlockRef;
use forebay_format::{Lsn, PageTag, page::PageMut};
use forebay_storage::{Pinned, StorageError, Strategy};

use super::{RedoContext, RedoError, RedoRecord};

impl RedoContext<'_> {
    /// Applies a record to its page of reference `id`; `change` gets the page, which is zeros if
    /// the record makes it anew. If `change` fails the page counts as unchanged.
    pub(super) fn change_page(
        &mut self,
        record: &RedoRecord<'_>,
        id: u8,
        change: impl FnOnce(&mut PageMut<'_>, PageTag) -> Result<(), &'static str>,
    ) -> Result<(), RedoError> {
        let block = record.record.block(id);
        let block =
            block.ok_or_else(|| record.damaged(format!("there is no block reference {id}")))?;
        if block.image.is_some_and(|image| image.apply()) {
            return self.restore_image(record, block);
        }
        let tag = block.tag;
        let storage = |source: StorageError| RedoError::Storage { lsn: record.start, source };
        let pin = if block.will_init {
            self.zeroed(tag).map_err(storage)?
        } else {
            match self.existing(tag).map_err(storage)? {
                Some(pin) => pin,
                None => {
                    self.missing.insert(tag);
                    return Ok(());
                }
            }
        };
        let mut guard = pin.lock_exclusive();
        if !block.will_init {
            if guard.page().is_new() {
                self.missing.insert(tag);
                return Ok(());
            }
            let mut limit = record.end;
            forebay_aio::planted_bug!(self.be.io.aio(), RedoSkipsLastRecord, limit = record.start);
            forebay_aio::planted_bug!(self.be.io.aio(), RedoIgnoresPageLsn, limit = Lsn(u64::MAX));
            if guard.page().lsn() >= limit {
                return Ok(());
            }
        }
        change(&mut guard.page_mut(), tag).map_err(|problem| RedoError::Page {
            lsn: record.start,
            tag,
            problem,
        })?;
        let mut lsn = record.end;
        forebay_aio::planted_bug!(self.be.io.aio(), RedoKeepsOldPageLsn, lsn = guard.page().lsn());
        guard.set_lsn(lsn);
        guard.mark_dirty();
        Ok(())
    }

    /// Puts a record's image in place of its page.
    pub(super) fn restore_image(
        &mut self,
        record: &RedoRecord<'_>,
        block: &BlockRef<'_>,
    ) -> Result<(), RedoError> {
        let Some(image) = block.image else {
            return Err(record.damaged("there is no image"));
        };
        forebay_aio::planted_bug!(self.be.io.aio(), RedoIgnoresImages, return Ok(()));
        let mut bytes = Box::new([0; forebay_format::BLOCK_SIZE]);
        image.restore(&mut bytes).map_err(|error| record.damaged(error.to_string()))?;
        let pin = self
            .zeroed(block.tag)
            .map_err(|source| RedoError::Storage { lsn: record.start, source })?;
        let mut guard = pin.lock_exclusive();
        guard.copy_from_slice(&bytes[..]);
        if !guard.page().is_new() {
            guard.set_lsn(record.end);
        }
        guard.mark_dirty();
        Ok(())
    }

    /// The page, whose contents do not matter; file and page are made if they do not exist.
    fn zeroed(&mut self, tag: PageTag) -> Result<Pinned, StorageError> {
        self.missing.remove(&tag);
        self.pool.smgr().create(tag.rel, tag.fork, true)?;
        self.pool.zero_page(self.be, tag)
    }

    /// The page, if there is one.
    fn existing(&mut self, tag: PageTag) -> Result<Option<Pinned>, StorageError> {
        let smgr = self.pool.smgr();
        if !smgr.exists(tag.rel, tag.fork)? || tag.block >= smgr.nblocks(tag.rel, tag.fork)? {
            return Ok(None);
        }
        self.pool.read(self.be, tag, Strategy::Normal).map(Some)
    }
}
