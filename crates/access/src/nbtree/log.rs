//! The records of an index, and the critical section that a change shares with its record.

use forebay_format::nbtree::Meta;
use forebay_format::wal::Rmgr;
use forebay_format::{Lsn, OffsetNumber, Xid};
use forebay_storage::{Backend, PageWriteGuard};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::relation::Index;
use crate::error::AccessError;

pub(super) const INSERT_LEAF: u8 = 0x00;
pub(super) const INSERT_UPPER: u8 = 0x10;
pub(super) const INSERT_META: u8 = 0x20;
pub(super) const SPLIT_L: u8 = 0x30;
pub(super) const SPLIT_R: u8 = 0x40;
pub(super) const INSERT_POST: u8 = 0x50;
pub(super) const DEDUP: u8 = 0x60;
pub(super) const DELETE: u8 = 0x70;
pub(super) const NEWROOT: u8 = 0xa0;

pub(super) fn meta_data(meta: &Meta) -> Vec<u8> {
    let mut out = Vec::new();
    for n in
        [meta.version, meta.root, meta.level, meta.fast_root, meta.fast_level, meta.deleted_pages]
    {
        out.extend_from_slice(&n.to_le_bytes());
    }
    out.extend_from_slice(&[u8::from(meta.all_equal_image), 0, 0, 0]);
    out
}

pub(super) fn split_main(
    level: u32,
    first_right: OffsetNumber,
    new: OffsetNumber,
    posting: u16,
) -> [u8; 10] {
    let mut out = [0; 10];
    out[..4].copy_from_slice(&level.to_le_bytes());
    out[4..6].copy_from_slice(&first_right.to_le_bytes());
    out[6..8].copy_from_slice(&new.to_le_bytes());
    out[8..].copy_from_slice(&posting.to_le_bytes());
    out
}

pub(super) fn new_root_main(block: u32, level: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&block.to_le_bytes());
    out[4..].copy_from_slice(&level.to_le_bytes());
    out
}

/// A page that a record changes.
pub(super) fn block<'a>(
    id: u8,
    page: &'a PageWriteGuard<'_>,
    flags: BlockFlags,
    data: &'a [u8],
) -> BlockRef<'a> {
    BlockRef { id, tag: page.tag(), page: Some(page), flags, data }
}

impl Index {
    /// Inserts a record, if the index is logged. Returns its end.
    pub(super) fn log(
        &self,
        backend: &mut Backend,
        xid: Xid,
        info: u8,
        main: &[u8],
        blocks: &[BlockRef<'_>],
    ) -> Result<Option<Lsn>, AccessError> {
        if !self.logged {
            return Ok(None);
        }
        let record = Record { rmgr: Rmgr::BTREE, info, xid, main, blocks };
        Ok(Some(self.wal.insert(&mut backend.io, &record)?.end))
    }
}

/// Sets the LSN of pages that a record changed.
pub(super) fn set_lsn<'g, 'p: 'g>(
    lsn: Option<Lsn>,
    pages: impl IntoIterator<Item = &'g mut PageWriteGuard<'p>>,
) {
    if let Some(lsn) = lsn {
        pages.into_iter().for_each(|page| page.set_lsn(lsn));
    }
}

/// The items of a page as they lie there, for a record that makes the page anew.
pub(super) fn items_of<'a>(page: &'a PageWriteGuard<'_>) -> &'a [u8] {
    let view = page.page();
    view.bytes(view.upper()..view.special()).expect("the items are on the page")
}

pub(super) fn delete_main(newest: Xid, deleted: u16, of_catalog: bool) -> [u8; 9] {
    let mut out = [0; 9];
    out[..4].copy_from_slice(&newest.to_le_bytes());
    out[4..6].copy_from_slice(&deleted.to_le_bytes());
    out[8] = u8::from(of_catalog);
    out
}
