//! Redo of heap records: insertions and deletions. Records of updates, locks, pruning and the
//! visibility map are not supported.

use forebay_format::ids::ItemPointer;
use forebay_format::page::PageMut;
use forebay_format::tuple::{self as ht, HeapTupleMut};
use forebay_format::wal::{PayloadError, Rmgr, heap};
use forebay_format::{OffsetNumber, PageTag, Xid};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use super::pages::change_page;
use crate::heap::mark_deleted;
use crate::vm;

/// Redoes changes of single tuples.
pub(super) struct HeapRedo;
/// Redoes insertions of many tuples at once.
pub(super) struct Heap2Redo;

impl ResourceManager for HeapRedo {
    fn id(&self) -> Rmgr {
        Rmgr::HEAP
    }

    fn knows(&self, info: u8) -> bool {
        matches!(info & heap::OPMASK, heap::INSERT | heap::DELETE | heap::TRUNCATE)
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() & heap::OPMASK {
            heap::INSERT => insert(record, ctx),
            heap::DELETE => delete(record, ctx),
            // For logical decoding only: other records truncate the files.
            heap::TRUNCATE => Ok(()),
            _ => Err(record.unsupported()),
        }
    }
}

impl ResourceManager for Heap2Redo {
    fn id(&self) -> Rmgr {
        Rmgr::HEAP2
    }

    fn knows(&self, info: u8) -> bool {
        matches!(info & heap::OPMASK, heap::MULTI_INSERT | heap::NEW_CID)
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() & heap::OPMASK {
            heap::MULTI_INSERT => multi_insert(record, ctx),
            // For logical decoding only.
            heap::NEW_CID => Ok(()),
            _ => Err(record.unsupported()),
        }
    }
}

fn payload<T>(record: &RedoRecord<'_>, decoded: Result<T, PayloadError>) -> Result<T, RedoError> {
    decoded.map_err(|error| record.damaged(error.to_string()))
}

/// The page of block reference 0.
fn page_of(record: &RedoRecord<'_>) -> Result<PageTag, RedoError> {
    let block = record.record.block(0);
    block.map(|block| block.tag).ok_or_else(|| record.damaged("there is no block reference 0"))
}

/// Clears the visibility map's bits for the record's page, if the record says so. The LSN of the
/// record's page does not matter: the map's page may be older.
fn clear_map(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    tag: PageTag,
    cleared: bool,
) -> Result<(), RedoError> {
    if !cleared {
        return Ok(());
    }
    vm::clear(ctx.pool, ctx.backend, tag.rel, tag.block).map_err(|error| record.failed(error))
}

/// Adds a tuple at its place.
fn put(page: &mut PageMut<'_>, tuple: &[u8], offset: OffsetNumber) -> Result<(), &'static str> {
    match page.add_item(tuple, Some(offset)) {
        Some(_) => Ok(()),
        None => Err("the tuple's place is taken or there is no room"),
    }
}

/// Sets the page's flags as the flags of an insertion say.
fn set_page_flags(page: &mut PageMut<'_>, flags: u8) {
    if flags & heap::INSERT_ALL_VISIBLE_CLEARED != 0 {
        page.set_all_visible(false);
    }
    if flags & heap::INSERT_ALL_FROZEN_SET != 0 {
        page.set_all_visible(true);
    }
}

fn insert(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let header = &record.record.header;
    let insert = payload(record, heap::HeapInsert::decode(record.record.main))?;
    let tag = page_of(record)?;
    clear_map(record, ctx, tag, insert.flags & heap::INSERT_ALL_VISIBLE_CLEARED != 0)?;
    let data = record.record.block(0).map_or(&[][..], |block| block.data);
    let init = header.info & heap::INIT_PAGE != 0;
    change_page(ctx, record, 0, |page, tag| {
        if init {
            page.init(0);
        }
        let (fields, bytes) = heap::HeapHeader::decode(data).map_err(|_| "the tuple is damaged")?;
        let mut tuple = Vec::new();
        fields.rebuild(bytes, header.xid, ItemPointer::new(tag.block, insert.offset), &mut tuple);
        put(page, &tuple, insert.offset)?;
        set_page_flags(page, insert.flags);
        Ok(())
    })
}

fn multi_insert(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let header = &record.record.header;
    let insert = payload(record, heap::HeapMultiInsert::decode(header.info, record.record.main))?;
    let tag = page_of(record)?;
    clear_map(record, ctx, tag, insert.flags & heap::INSERT_ALL_VISIBLE_CLEARED != 0)?;
    let data = record.record.block(0).map_or(&[][..], |block| block.data);
    let init = header.info & heap::INIT_PAGE != 0;
    change_page(ctx, record, 0, |page, tag| {
        if init {
            page.init(0);
        }
        let mut tuple = Vec::new();
        for (index, stored) in (0..).zip(insert.tuples(data)) {
            let (fields, bytes) = stored.map_err(|_| "the tuples are damaged")?;
            let offset = insert.offset(index).ok_or("the line pointers are damaged")?;
            fields.rebuild(bytes, header.xid, ItemPointer::new(tag.block, offset), &mut tuple);
            put(page, &tuple, offset)?;
        }
        set_page_flags(page, insert.flags);
        Ok(())
    })
}

fn delete(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let xid = record.record.header.xid;
    let delete = payload(record, heap::HeapDelete::decode(record.record.main))?;
    let tag = page_of(record)?;
    clear_map(record, ctx, tag, delete.flags & heap::DELETE_ALL_VISIBLE_CLEARED != 0)?;
    if delete.flags & heap::DELETE_IS_PARTITION_MOVE != 0 {
        return Err(record.unsupported());
    }
    change_page(ctx, record, 0, |page, tag| {
        let item = page.item_mut(delete.offset).ok_or("there is no such tuple")?;
        let mut tuple = HeapTupleMut::new(item).map_err(|_| "the tuple is damaged")?;
        apply_delete(&mut tuple, &delete, ItemPointer::new(tag.block, delete.offset));
        page.note_prunable(xid);
        if delete.flags & heap::DELETE_ALL_VISIBLE_CLEARED != 0 {
            page.set_all_visible(false);
        }
        Ok(())
    })
}

fn apply_delete(tuple: &mut HeapTupleMut<'_>, delete: &heap::HeapDelete, place: ItemPointer) {
    let xmax: Xid = tuple.tuple().xmax();
    mark_deleted(tuple, delete.xmax, delete.infobits, place);
    if delete.flags & heap::DELETE_IS_SUPER != 0 {
        tuple.set_xmax(xmax);
        tuple.set_xmin(0);
    }
    tuple.set_cid(0);
    let mask = tuple.tuple().infomask() & !ht::HEAP_COMBOCID;
    tuple.set_infomask(mask);
}
