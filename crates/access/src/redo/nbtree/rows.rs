//! Redo of what becomes of a leaf's items: deduplicated, deleted.

use forebay_format::nbtree;
use forebay_format::page::PageMut;
use forebay_format::wal::nbtree::{BtreeDedup, BtreeDelete};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use super::steps::change_opaque;
use crate::redo::pages::{Problem, change_page, problem, reference};

pub(super) fn dedup(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let target = reference(record, 0)?;
    let page = change_page(ctx, record, 0, |page, _| {
        let dedup = BtreeDedup::decode(record.record.main, target.data).map_err(problem)?;
        let intervals = dedup.intervals.iter().map(|interval| (interval.base, interval.items));
        let built = nbtree::dedup(page.page(), intervals).map_err(problem)?;
        page.0.copy_from_slice(&built);
        Ok(())
    });
    page.map(drop)
}

pub(super) fn vacuum(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let target = reference(record, 0)?;
    let page = change_page(ctx, record, 0, |page, _| {
        let contents = BtreeDelete::decode_vacuum(record.record.main, target.data);
        remove(page, &contents.map_err(problem)?)?;
        // No vacuum runs that has still to come to this page.
        change_opaque(page, |opaque| opaque.cycle_id = 0)
    });
    page.map(drop)
}

pub(super) fn delete(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let target = reference(record, 0)?;
    let page = change_page(ctx, record, 0, |page, _| {
        let contents = BtreeDelete::decode_delete(record.record.main, target.data);
        let (_, contents) = contents.map_err(problem)?;
        remove(page, &contents)
    });
    page.map(drop)
}

fn remove(page: &mut PageMut<'_>, contents: &BtreeDelete) -> Result<(), Problem> {
    let updated = contents.updated.iter().map(|update| (update.offset, &update.deleted[..]));
    nbtree::delete_rows(page, &contents.deleted, updated).map_err(problem)
}
