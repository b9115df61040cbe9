//! Redo of updates.

use forebay_format::ItemPointer;
use forebay_format::page::PageMut;
use forebay_format::tuple::HeapTuple;
use forebay_format::visibility_map::VALID_BITS;
use forebay_format::wal::heap::{self, HeapUpdate, UpdatedTuple};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use super::steps::{clear_map, note_filled, put, set_hot_updated, set_xmax, tuple_at};
use crate::redo::pages::{Problem, change_page, payload, reference};

/// Block reference 0 is the new version's page; the old version's is block reference 1, or the
/// same.
pub(super) fn update(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    hot: bool,
) -> Result<(), RedoError> {
    let update = payload(record, HeapUpdate::decode(record.record.main))?;
    let target = reference(record, 0)?;
    let old = record.record.block(heap::UPDATE_OLD_BLOCK);
    let cleared: Vec<_> = [
        (heap::UPDATE_OLD_ALL_VISIBLE_CLEARED, old.unwrap_or(target).tag),
        (heap::UPDATE_NEW_ALL_VISIBLE_CLEARED, target.tag),
    ]
    .into_iter()
    .filter_map(|(flag, tag)| (update.flags & flag != 0).then_some(tag))
    .collect();
    clear_map(record, ctx, &cleared, VALID_BITS)?;
    let mut marked_hot = hot;
    forebay_aio::planted_bug!(ctx.backend.io.aio(), RedoForgetsHotUpdates, marked_hot = false);
    let change = Change { record, update, hot: marked_hot, data: target.data };
    let at = ItemPointer::new(target.tag.block, update.new_offset);
    let page = match old {
        None => change_page(ctx, record, 0, |page, _| {
            change.end_old(page, at)?;
            change.put_new(page, at, true)
        })?,
        Some(_) => {
            change_page(ctx, record, heap::UPDATE_OLD_BLOCK, |page, _| change.end_old(page, at))?;
            change_page(ctx, record, 0, |page, _| change.put_new(page, at, false))?
        }
    };
    // A page that an update stays on has room again once the old version is pruned.
    if hot { Ok(()) } else { note_filled(record, ctx, target.tag, page) }
}

/// What an update does to its pages.
struct Change<'a> {
    record: &'a RedoRecord<'a>,
    update: HeapUpdate,
    hot: bool,
    /// The new version, as stored.
    data: &'a [u8],
}

impl Change<'_> {
    /// Ends the old version, whose newer one is `at`.
    fn end_old(&self, page: &mut PageMut<'_>, at: ItemPointer) -> Result<(), Problem> {
        let update = &self.update;
        let mut tuple = tuple_at(page, update.old_offset)?;
        set_xmax(&mut tuple, update.old_xmax, update.old_infobits);
        set_hot_updated(&mut tuple, self.hot);
        tuple.set_cmax(0, false);
        tuple.set_ctid(at);
        page.note_prunable(self.record.record.header.xid);
        if update.flags & heap::UPDATE_OLD_ALL_VISIBLE_CLEARED != 0 {
            page.set_all_visible(false);
        }
        Ok(())
    }

    /// Adds the new version. It may share bytes with the old one only if that is on the same page.
    fn put_new(
        &self,
        page: &mut PageMut<'_>,
        at: ItemPointer,
        same_page: bool,
    ) -> Result<(), Problem> {
        let (header, update) = (&self.record.record.header, &self.update);
        if header.info & heap::INIT_PAGE != 0 {
            page.init(0);
        }
        let damaged = |_| "the tuple is damaged";
        let new = UpdatedTuple::decode(update.flags, self.data).map_err(damaged)?;
        let mut tuple = Vec::new();
        let old = page.page().item(update.old_offset).filter(|_| same_page);
        let old = old.and_then(|bytes| HeapTuple::new(bytes).ok());
        new.rebuild(old, update, header.xid, at, &mut tuple).map_err(damaged)?;
        put(page, &tuple, update.new_offset)?;
        if update.flags & heap::UPDATE_NEW_ALL_VISIBLE_CLEARED != 0 {
            page.set_all_visible(false);
        }
        Ok(())
    }
}
