//! Redo of the two steps in which a page leaves its tree.

use forebay_format::nbtree::{self, LEAF, NO_SIBLING, Opaque};
use forebay_format::wal::nbtree::{
    BtreeHalfDead, BtreeUnlink, PARENT_BLOCK, UNLINK_LEAF_BLOCK, UNLINK_LEFT_BLOCK,
    UNLINK_RIGHT_BLOCK,
};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use super::steps::change_opaque;
use crate::redo::pages::{change_page, make_page, payload, problem};

/// No parent leads to the leaf any more, nor to the pages above that lead only to it.
pub(super) fn mark_half_dead(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    let mark = payload(record, BtreeHalfDead::decode(record.record.main))?;
    change_page(ctx, record, PARENT_BLOCK, |page, _| {
        Opaque::of(page.page()).map_err(problem)?;
        nbtree::remove_child(page, mark.parent_item).map_err(problem)
    })?;
    make_page(ctx, record, 0, |page, _| {
        nbtree::init_half_dead(page, mark.left, mark.right, mark.top_parent);
        Ok(())
    })
}

/// A page leaves its level: the leaf, or one above it, which the leaf remembers.
pub(super) fn unlink(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let unlink = payload(record, BtreeUnlink::decode(record.record.main))?;
    let BtreeUnlink { left, right, level, safe_xid, .. } = unlink;
    let mut has_left = left != NO_SIBLING;
    forebay_aio::planted_bug!(ctx.backend.io.aio(), RedoForgetsLeftSibling, has_left = false);
    if has_left {
        change_page(ctx, record, UNLINK_LEFT_BLOCK, |page, _| {
            change_opaque(page, |opaque| opaque.next = right)
        })?;
    }
    make_page(ctx, record, 0, |page, _| {
        let flags = if level == 0 { LEAF } else { 0 };
        let opaque = Opaque { prev: left, next: right, level, flags, cycle_id: 0 };
        nbtree::init_deleted_page(page, opaque, safe_xid);
        Ok(())
    })?;
    change_page(ctx, record, UNLINK_RIGHT_BLOCK, |page, _| {
        change_opaque(page, |opaque| opaque.prev = left)
    })?;
    if record.record.block(UNLINK_LEAF_BLOCK).is_none() {
        return Ok(());
    }
    make_page(ctx, record, UNLINK_LEAF_BLOCK, |page, _| {
        let BtreeUnlink { leaf_left, leaf_right, leaf_top_parent, .. } = unlink;
        nbtree::init_half_dead(page, leaf_left, leaf_right, leaf_top_parent);
        Ok(())
    })
}
