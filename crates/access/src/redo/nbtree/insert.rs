//! Redo of insertions into a page, and of new roots.

use forebay_format::nbtree::{self, LEAF, Opaque, ROOT};
use forebay_format::wal::nbtree::{BtreeInsert, BtreeNewRoot, CHILD_BLOCK, META_BLOCK};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use super::steps::{complete_split, make_meta};
use crate::redo::pages::{change_page, make_page, payload, problem, reference};

pub(super) fn insert_leaf(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    let insert = payload(record, BtreeInsert::decode(record.record.main))?;
    let target = reference(record, 0)?;
    let page = change_page(ctx, record, 0, |page, _| {
        Opaque::of(page.page()).map_err(problem)?;
        nbtree::insert_item(page, insert.offset, target.data).map_err(problem)
    });
    page.map(drop)
}

/// Above the leaves, an insertion completes the split of a child.
pub(super) fn insert_upper(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    complete_split(record, ctx, CHILD_BLOCK)?;
    insert_leaf(record, ctx)
}

pub(super) fn insert_into_posting(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    let insert = payload(record, BtreeInsert::decode(record.record.main))?;
    let target = reference(record, 0)?;
    let page = change_page(ctx, record, 0, |page, _| {
        Opaque::of(page.page()).map_err(problem)?;
        let (index, tuple) = BtreeInsert::decode_posting(target.data).map_err(problem)?;
        nbtree::insert_and_split_posting(page, insert.offset, tuple, usize::from(index))
            .map_err(problem)
    });
    page.map(drop)
}

pub(super) fn new_root(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    let root = payload(record, BtreeNewRoot::decode(record.record.main))?;
    let target = reference(record, 0)?;
    make_page(ctx, record, 0, |page, _| {
        let flags = if root.level == 0 { ROOT | LEAF } else { ROOT };
        nbtree::init_page(page, Opaque { level: root.level, flags, ..Opaque::default() });
        nbtree::restore_items(page, target.data).map_err(problem)
    })?;
    if root.level > 0 {
        complete_split(record, ctx, CHILD_BLOCK)?;
    }
    make_meta(record, ctx, META_BLOCK)
}
