//! The free-space map in redo. It has no records: what redo finds is written into it as a hint, so
//! that a search after recovery does not begin with an old one.

use forebay_format::free_space_map::{self as fsm, MapPage};
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};
use forebay_storage::StorageError;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use crate::maps;

/// Notes the free space of a table's page, on the bottom page of the map alone.
pub(super) fn note(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    tag: PageTag,
    free: usize,
) -> Result<(), RedoError> {
    let (page, slot) = MapPage::of_block(tag.block);
    let map = PageTag::new(tag.rel, Fork::Fsm, page.block());
    let pin = maps::read_for_redo(ctx.pool, ctx.backend, map)
        .map_err(|source| RedoError::Storage { lsn: record.start, source })?;
    let mut guard = pin.lock_exclusive();
    let new = guard.page().is_new();
    if new {
        guard.page_mut().init(0);
    }
    if fsm::set(&mut guard.page_mut(), slot, fsm::category(free)) || new {
        guard.mark_dirty();
    }
    Ok(())
}

/// Clears what the map says of block `blocks` and all later ones, up to its root. Returns the
/// number of map pages to keep.
pub(super) fn truncate(
    ctx: &mut RedoContext<'_>,
    rel: RelFileLocator,
    blocks: BlockNumber,
) -> Result<BlockNumber, StorageError> {
    let (mut page, mut slots) = MapPage::of_block(blocks);
    let keep = page.block() + u32::from(slots > 0);
    let smgr = ctx.pool.smgr();
    let size = if smgr.exists(rel, Fork::Fsm)? { smgr.nblocks(rel, Fork::Fsm)? } else { 0 };
    // The greatest category of the page below, whose slot is the last one to keep.
    let mut below = 0;
    loop {
        if page.block() < size {
            let pin =
                maps::read(ctx.pool, ctx.backend, PageTag::new(rel, Fork::Fsm, page.block()))?;
            let mut guard = pin.lock_exclusive();
            if !guard.page().is_new() {
                guard.mark_dirty();
                let mut view = guard.page_mut();
                fsm::truncate(&mut view, slots);
                if page.level() > 0 {
                    fsm::set(&mut view, slots - 1, below);
                }
            }
            below = fsm::greatest(guard.page());
        }
        let Some((parent, slot)) = page.parent() else { return Ok(keep) };
        (page, slots) = (parent, slot + 1);
    }
}
