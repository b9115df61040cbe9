//! Redo of insertions.

use forebay_format::ItemPointer;
use forebay_format::page::PageMut;
use forebay_format::wal::heap;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use super::steps::{clear_visible, note_filled, put};
use crate::redo::pages::{change_page, payload, reference};

/// Sets the page's flags as the flags of an insertion say.
fn set_page_flags(page: &mut PageMut<'_>, flags: u8) {
    if flags & heap::INSERT_ALL_VISIBLE_CLEARED != 0 {
        page.set_all_visible(false);
    }
    if flags & heap::INSERT_ALL_FROZEN_SET != 0 {
        page.set_all_visible(true);
    }
}

pub(super) fn insert(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let header = &record.record.header;
    let insert = payload(record, heap::HeapInsert::decode(record.record.main))?;
    let target = reference(record, 0)?;
    clear_visible(record, ctx, target.tag, insert.flags & heap::INSERT_ALL_VISIBLE_CLEARED != 0)?;
    let init = header.info & heap::INIT_PAGE != 0;
    let page = change_page(ctx, record, 0, |page, tag| {
        if init {
            page.init(0);
        }
        let decoded = heap::HeapHeader::decode(target.data);
        let (fields, bytes) = decoded.map_err(|_| "the tuple is damaged")?;
        let mut tuple = Vec::new();
        fields.rebuild(bytes, header.xid, ItemPointer::new(tag.block, insert.offset), &mut tuple);
        put(page, &tuple, insert.offset)?;
        set_page_flags(page, insert.flags);
        Ok(())
    })?;
    note_filled(record, ctx, target.tag, page)
}

pub(super) fn multi_insert(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    let header = &record.record.header;
    let insert = payload(record, heap::HeapMultiInsert::decode(header.info, record.record.main))?;
    let target = reference(record, 0)?;
    clear_visible(record, ctx, target.tag, insert.flags & heap::INSERT_ALL_VISIBLE_CLEARED != 0)?;
    let init = header.info & heap::INIT_PAGE != 0;
    let page = change_page(ctx, record, 0, |page, tag| {
        if init {
            page.init(0);
        }
        let mut tuple = Vec::new();
        for (index, stored) in (0..).zip(insert.tuples(target.data)) {
            let (fields, bytes) = stored.map_err(|_| "the tuples are damaged")?;
            let offset = insert.offset(index).ok_or("the line pointers are damaged")?;
            fields.rebuild(bytes, header.xid, ItemPointer::new(tag.block, offset), &mut tuple);
            put(page, &tuple, offset)?;
        }
        set_page_flags(page, insert.flags);
        Ok(())
    })?;
    note_filled(record, ctx, target.tag, page)
}
