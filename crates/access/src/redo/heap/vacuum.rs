//! Redo of pruning, of freezing, and of bits set in the visibility map.

use forebay_format::Fork;
use forebay_format::visibility_map as map;
use forebay_format::wal::heap::HeapVisible;
use forebay_format::wal::prune::HeapPrune;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use crate::redo::free_space;
use crate::redo::pages::{change_map_page, change_page, mark_page, payload, reference};

pub(super) fn prune(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let main = record.record.main;
    payload(record, HeapPrune::decode(main, None))?;
    let target = reference(record, 0)?;
    // Without the block's data, nobody knows whether space became free.
    let mut freed = true;
    let page = change_page(ctx, record, 0, |page, _| {
        let decoded = HeapPrune::decode(main, Some(target.data));
        let prune = decoded.map_err(|error| error.to_string())?;
        freed = !prune.redirected.is_empty() || !prune.dead.is_empty() || !prune.unused.is_empty();
        prune.apply(page).map_err(|error| error.to_string().into())
    })?;
    match page {
        Some(page) if freed => free_space::note(record, ctx, target.tag, page.free),
        _ => Ok(()),
    }
}

/// Block reference 0 is the map's page, block reference 1 the table's. A bit of the map is set only
/// on a page of a table that says the same, or else a later change would not clear it. The map's
/// bit is set even if the table's page is newer: a later record that clears it does so whatever
/// that page's LSN.
pub(super) fn set_visible(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    let visible = payload(record, HeapVisible::decode(record.record.main))?;
    let bits = visible.flags & map::VALID_BITS;
    let (map_tag, tag) = (reference(record, 0)?.tag, reference(record, 1)?.tag);
    let fits = map_tag.fork == Fork::Vm && map_tag.block == map::map_block(tag.block);
    if !fits || bits & map::ALL_VISIBLE == 0 {
        return Err(record.damaged(format!("bits {bits} of {tag} in {map_tag}")));
    }
    let page = mark_page(ctx, record, 1, |page| page.set_all_visible(true))?;
    if let Some(page) = page {
        free_space::note(record, ctx, tag, page.free)?;
    }
    change_map_page(ctx, record, 0, |page| {
        let differs = map::get(page.page(), tag.block) != bits;
        if differs {
            map::set(page, tag.block, bits);
        }
        differs
    })
}
