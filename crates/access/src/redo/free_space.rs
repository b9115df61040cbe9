//! The free-space map in redo. It has no records: what redo finds is written into it as a hint, so
//! that a search after recovery does not begin with an old one.

use forebay_format::free_space_map::{self as fsm, MapPage};
use forebay_format::{Fork, PageTag};
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
