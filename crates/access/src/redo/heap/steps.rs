//! Steps that redo of several heap records has in common.

use forebay_format::page::PageMut;
use forebay_format::tuple::{self as ht, HeapTupleMut, XmaxBits};
use forebay_format::visibility_map as map;
use forebay_format::wal::heap;
use forebay_format::{BLOCK_SIZE, Fork, OffsetNumber, PageTag, Xid};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord};

use crate::redo::free_space;
use crate::redo::pages::{Problem, Redone, change_map_page};
use crate::vm;

/// Clears bits of the visibility map for the pages of `cleared`, which are of one table. The LSNs
/// of those pages do not matter: the map's page may be older. Since 18.6 PostgreSQL's records refer
/// to that page, so that it has an image and an LSN; older ones only say that bits were cleared.
pub(super) fn clear_map(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    cleared: &[PageTag],
    bits: u8,
) -> Result<(), RedoError> {
    forebay_aio::planted_bug!(ctx.backend.io.aio(), RedoKeepsVisibilityMap, return Ok(()));
    let map_tag = |tag: &PageTag| PageTag::new(tag.rel, Fork::Vm, map::map_block(tag.block));
    let mut maps: Vec<_> = cleared.iter().map(map_tag).collect();
    maps.dedup();
    for map_page in maps {
        let mut here = cleared.iter().filter(|tag| map_tag(tag) == map_page);
        match record.record.blocks.iter().find(|block| block.tag == map_page) {
            Some(page) => change_map_page(ctx, record, page.id, |page| {
                here.fold(false, |changed, tag| map::clear(page, tag.block, bits) | changed)
            })?,
            None => here.try_for_each(|tag| {
                let clear = vm::clear_bits(ctx.pool, ctx.backend, tag.rel, tag.block, bits);
                clear.map_err(|error| record.failed(error))
            })?,
        }
    }
    Ok(())
}

/// Clears both bits for a page, if the record says so.
pub(super) fn clear_visible(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    tag: PageTag,
    cleared: bool,
) -> Result<(), RedoError> {
    clear_map(record, ctx, cleared.then_some(tag).as_slice(), map::VALID_BITS)
}

/// Tells the free-space map of a page that was filled by more than four fifths.
pub(super) fn note_filled(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    tag: PageTag,
    page: Option<Redone>,
) -> Result<(), RedoError> {
    match page {
        Some(Redone { changed: true, free }) if free < BLOCK_SIZE / 5 => {
            free_space::note(record, ctx, tag, free)
        }
        _ => Ok(()),
    }
}

/// Adds a tuple at its place.
pub(super) fn put(
    page: &mut PageMut<'_>,
    tuple: &[u8],
    offset: OffsetNumber,
) -> Result<(), Problem> {
    match page.add_item(tuple, Some(offset)) {
        Some(_) => Ok(()),
        None => Err("the tuple's place is taken or there is no room".into()),
    }
}

/// A tuple of the page.
pub(super) fn tuple_at<'a>(
    page: &'a mut PageMut<'_>,
    offset: OffsetNumber,
) -> Result<HeapTupleMut<'a>, Problem> {
    let item = page.item_mut(offset).ok_or("there is no such tuple")?;
    HeapTupleMut::new(item).map_err(|_| "the tuple is damaged".into())
}

/// Sets xmax with its flags, which the record stores as `infobits`.
pub(super) fn set_xmax(tuple: &mut HeapTupleMut<'_>, xmax: Xid, infobits: u8) {
    let (infomask, infomask2) = heap::flags_of_infobits(infobits);
    tuple.set_xmax_bits(XmaxBits { infomask, infomask2 });
    tuple.set_xmax(xmax);
}

pub(super) fn set_hot_updated(tuple: &mut HeapTupleMut<'_>, on: bool) {
    let mask = tuple.tuple().infomask2() & !ht::HEAP_HOT_UPDATED;
    tuple.set_infomask2(if on { mask | ht::HEAP_HOT_UPDATED } else { mask });
}
