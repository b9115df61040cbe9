//! Redo of changes to one tuple that leave it in its place: mostly to its header.

use forebay_format::ItemPointer;
use forebay_format::tuple::HeapTupleMut;
use forebay_format::visibility_map::ALL_FROZEN;
use forebay_format::wal::heap;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use super::steps::{clear_map, clear_visible, set_hot_updated, set_xmax, tuple_at};
use crate::heap::mark_deleted;
use crate::redo::pages::{change_page, payload, reference};

pub(super) fn delete(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let xid = record.record.header.xid;
    let delete = payload(record, heap::HeapDelete::decode(record.record.main))?;
    let cleared = delete.flags & heap::DELETE_ALL_VISIBLE_CLEARED != 0;
    clear_visible(record, ctx, reference(record, 0)?.tag, cleared)?;
    change_page(ctx, record, 0, |page, tag| {
        let mut tuple = tuple_at(page, delete.offset)?;
        apply_delete(&mut tuple, &delete, ItemPointer::new(tag.block, delete.offset));
        page.note_prunable(xid);
        if cleared {
            page.set_all_visible(false);
        }
        Ok(())
    })?;
    Ok(())
}

fn apply_delete(tuple: &mut HeapTupleMut<'_>, delete: &heap::HeapDelete, place: ItemPointer) {
    let xmax = tuple.tuple().xmax();
    mark_deleted(tuple, delete.xmax, delete.infobits, place);
    // A speculative insertion was undone: it never happened.
    if delete.flags & heap::DELETE_IS_SUPER != 0 {
        tuple.set_xmax(xmax);
        tuple.set_xmin(0);
    }
    if delete.flags & heap::DELETE_IS_PARTITION_MOVE != 0 {
        tuple.set_moved_partitions();
    }
    tuple.set_cmax(0, false);
}

/// The contents of a lock record, after the map was told.
fn decode_lock(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<heap::HeapDelete, RedoError> {
    let lock = payload(record, heap::HeapDelete::decode(record.record.main))?;
    let cleared = lock.flags & heap::LOCK_ALL_FROZEN_CLEARED != 0;
    let tag = reference(record, 0)?.tag;
    clear_map(record, ctx, cleared.then_some(tag).as_slice(), ALL_FROZEN)?;
    Ok(lock)
}

pub(super) fn lock(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let lock = decode_lock(record, ctx)?;
    change_page(ctx, record, 0, |page, tag| {
        let mut tuple = tuple_at(page, lock.offset)?;
        set_xmax(&mut tuple, lock.xmax, lock.infobits);
        if tuple.tuple().xmax_is_locked_only() {
            // An update that was there has aborted.
            set_hot_updated(&mut tuple, false);
            tuple.set_ctid(ItemPointer::new(tag.block, lock.offset));
        }
        tuple.set_cmax(0, false);
        Ok(())
    })?;
    Ok(())
}

/// A lock of a newer version of a row, which may have been updated again.
pub(super) fn lock_updated(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    let lock = decode_lock(record, ctx)?;
    change_page(ctx, record, 0, |page, _| {
        set_xmax(&mut tuple_at(page, lock.offset)?, lock.xmax, lock.infobits);
        Ok(())
    })?;
    Ok(())
}

/// A speculative insertion that was confirmed.
pub(super) fn confirm(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let offset = payload(record, heap::decode_confirm(record.record.main))?;
    change_page(ctx, record, 0, |page, tag| {
        tuple_at(page, offset)?.set_ctid(ItemPointer::new(tag.block, offset));
        Ok(())
    })?;
    Ok(())
}

/// New values in the place of those of the same length. The invalidations of the record matter to
/// caches only, which are empty in recovery; PostgreSQL removes the files of its caches at a start.
pub(super) fn overwrite(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    let inplace = payload(record, heap::HeapInplace::decode(record.record.main))?;
    let data = reference(record, 0)?.data;
    change_page(ctx, record, 0, |page, _| {
        let hoff = tuple_at(page, inplace.offset)?.tuple().hoff();
        let item = page.item_mut(inplace.offset).and_then(|item| item.get_mut(hoff..));
        let values = item.filter(|values| values.len() == data.len());
        values.ok_or("the tuple has another length")?.copy_from_slice(data);
        Ok(())
    })?;
    Ok(())
}
