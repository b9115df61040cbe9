//! Steps that redo of several B-tree records has in common.

use forebay_format::nbtree::{INCOMPLETE_SPLIT, META_BLOCK, NOVAC_VERSION, Opaque, VERSION};
use forebay_format::page::PageMut;
use forebay_format::wal::nbtree::BtreeMeta;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use crate::redo::pages::{Problem, change_page, make_page, problem, reference};

/// Changes the special space of a page.
pub(super) fn change_opaque(
    page: &mut PageMut<'_>,
    change: impl FnOnce(&mut Opaque),
) -> Result<(), Problem> {
    let mut opaque = Opaque::of(page.page()).map_err(problem)?;
    change(&mut opaque);
    opaque.store(page);
    Ok(())
}

/// Notes on a child that its parent leads to its right sibling now.
pub(super) fn complete_split(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
) -> Result<(), RedoError> {
    let mut flag = INCOMPLETE_SPLIT;
    forebay_aio::planted_bug!(ctx.backend.io.aio(), RedoKeepsIncompleteSplits, flag = 0);
    let page = change_page(ctx, record, id, |page, _| {
        let mut opaque = Opaque::of(page.page()).map_err(problem)?;
        if !opaque.is_split_incomplete() {
            return Err("its split is complete already".into());
        }
        opaque.flags &= !flag;
        opaque.store(page);
        Ok(())
    });
    page.map(drop)
}

/// Makes the meta page anew.
pub(super) fn make_meta(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
) -> Result<(), RedoError> {
    let block = reference(record, id)?;
    make_page(ctx, record, id, |page, tag| {
        let BtreeMeta(meta) = BtreeMeta::decode(block.data).map_err(problem)?;
        if tag.block != META_BLOCK || !(NOVAC_VERSION..=VERSION).contains(&meta.version) {
            return Err(format!("it is no meta page of version {}", meta.version).into());
        }
        meta.init_page(page);
        Ok(())
    })
}
