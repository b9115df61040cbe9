//! Redo of splits.

use forebay_format::nbtree::{self, INCOMPLETE_SPLIT, LEAF, NO_SIBLING, Opaque};
use forebay_format::wal::nbtree::{
    BtreeSplit, SPLIT_CHILD_BLOCK, SPLIT_NEXT_BLOCK, SPLIT_RIGHT_BLOCK,
};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use super::steps::{change_opaque, complete_split};
use crate::redo::pages::{change_page, make_page, payload, problem, reference};

pub(super) fn split(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    new_on_left: bool,
) -> Result<(), RedoError> {
    let split = payload(record, BtreeSplit::decode(record.record.main))?;
    let (left, right) = (reference(record, 0)?, reference(record, SPLIT_RIGHT_BLOCK)?);
    let next = record.record.block(SPLIT_NEXT_BLOCK).map(|block| block.tag.block);
    if split.level > 0 {
        complete_split(record, ctx, SPLIT_CHILD_BLOCK)?;
    }
    let leaf = if split.level == 0 { LEAF } else { 0 };
    make_page(ctx, record, SPLIT_RIGHT_BLOCK, |page, _| {
        let (prev, next) = (left.tag.block, next.unwrap_or(NO_SIBLING));
        let opaque = Opaque { prev, next, level: split.level, flags: leaf, cycle_id: 0 };
        nbtree::init_page(page, opaque);
        nbtree::restore_items(page, right.data).map_err(problem)
    })?;
    change_page(ctx, record, 0, |page, _| {
        let half = split.left_half(page.page(), left.data, new_on_left).map_err(problem)?;
        page.0.copy_from_slice(&half);
        change_opaque(page, |opaque| {
            opaque.flags = INCOMPLETE_SPLIT | leaf;
            opaque.next = right.tag.block;
            opaque.cycle_id = 0;
        })
    })?;
    if next.is_some() {
        change_page(ctx, record, SPLIT_NEXT_BLOCK, |page, _| {
            change_opaque(page, |opaque| opaque.prev = right.tag.block)
        })?;
    }
    Ok(())
}
