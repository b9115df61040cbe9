//! Redo of hash indexes.
//!
//! Nobody reads during redo, so no bucket is locked: the block reference that only serves to lock
//! one is not looked at.

use forebay_format::hash::{
    self, HAS_DEAD_TUPLES, Meta, NEEDS_SPLIT_CLEANUP, OVERFLOW_PAGE, Opaque,
};
use forebay_format::index_page::{IndexPageError, delete_items, insert_item};
use forebay_format::page::PageMut;
use forebay_format::wal::hash::{
    self as kinds, HashAddOverflow, HashDelete, HashInitMeta, HashMove, HashSplitAllocate,
    HashSplitComplete, HashSqueeze, HashVacuumPage,
};
use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{PayloadError, Rmgr};
use forebay_format::{IndexTuple, OffsetNumber};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use super::pages::{
    Problem, change_page, change_page_or_image, make_page, payload, problem, reference,
    require_image, restore_if_image,
};

/// Redoes changes of hash indexes.
pub(super) struct HashRedo;

impl ResourceManager for HashRedo {
    fn id(&self) -> Rmgr {
        Rmgr::HASH
    }

    fn knows(&self, info: u8) -> bool {
        kinds::name(info & INFO_RMGR_MASK) != "UNKNOWN"
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() {
            kinds::INIT_META_PAGE => init_meta(record, ctx),
            kinds::INIT_BITMAP_PAGE => init_bitmap(record, ctx),
            kinds::INSERT => insert(record, ctx),
            kinds::ADD_OVFL_PAGE => add_overflow(record, ctx),
            kinds::SPLIT_ALLOCATE_PAGE => split_allocate(record, ctx),
            kinds::SPLIT_PAGE => require_image(ctx, record, 0),
            kinds::SPLIT_COMPLETE => split_complete(record, ctx),
            kinds::MOVE_PAGE_CONTENTS => move_contents(record, ctx),
            kinds::SQUEEZE_PAGE => squeeze(record, ctx),
            kinds::DELETE => delete(record, ctx),
            kinds::SPLIT_CLEANUP => change_special(record, ctx, 0, |opaque| {
                opaque.flags &= !NEEDS_SPLIT_CLEANUP;
            }),
            kinds::UPDATE_META_PAGE => {
                let tuples = payload(record, kinds::decode_tuples(record.record.main))?;
                change_meta(record, ctx, 0, |meta| {
                    meta.set_tuples(tuples);
                    Ok(())
                })
            }
            kinds::VACUUM_ONE_PAGE => vacuum_page(record, ctx),
            _ => Err(record.unsupported()),
        }
    }
}

fn change_meta(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
    change: impl FnOnce(&mut Meta<'_>) -> Result<(), IndexPageError>,
) -> Result<(), RedoError> {
    let page = change_page(ctx, record, id, |page, _| {
        Meta::of(page).and_then(|mut meta| change(&mut meta)).map_err(problem)
    });
    page.map(drop)
}

fn change_special(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
    change: impl FnOnce(&mut Opaque),
) -> Result<(), RedoError> {
    let page =
        change_page(ctx, record, id, |page, _| hash::change_opaque(page, change).map_err(problem));
    page.map(drop)
}

/// Sets flags whether the page has an image or not: that shows it as it was before.
fn set_bucket(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
    change: impl FnOnce(&mut Opaque),
) -> Result<(), RedoError> {
    let page = change_page_or_image(ctx, record, id, |page, _| {
        hash::change_opaque(page, change).map_err(problem)
    });
    page.map(drop)
}

/// The number in a block's data.
fn number_of(record: &RedoRecord<'_>, id: u8) -> Result<u32, PayloadError> {
    let data = record.record.block(id).map_or(&[][..], |block| block.data);
    kinds::decode_block_number(record.kind(), data)
}

fn init_meta(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let init = payload(record, HashInitMeta::decode(record.record.main))?;
    make_page(ctx, record, 0, |page, _| {
        Meta::init(page, init.tuples, init.hash_proc, init.fill_factor).map_err(problem)
    })
}

fn init_bitmap(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let bytes = payload(record, kinds::decode_number(record.kind(), record.record.main))?;
    make_page(ctx, record, 0, |page, _| hash::init_bitmap(page, bytes).map_err(problem))?;
    change_meta(record, ctx, 1, |meta| meta.add_bitmap(meta.first_bitmap()))
}

fn insert(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let item = payload(record, kinds::decode_number(record.kind(), record.record.main))?;
    let target = reference(record, 0)?;
    change_page(ctx, record, 0, |page, _| {
        Opaque::of(page.page()).map_err(problem)?;
        insert_item(page, item, target.data).map_err(problem)
    })?;
    change_meta(record, ctx, 1, |meta| {
        meta.set_tuples(meta.tuples() + 1.0);
        Ok(())
    })
}

fn add_overflow(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let add = payload(record, HashAddOverflow::decode(record.record.main))?;
    let bucket = payload(record, number_of(record, 0))?;
    let (new, before) = (reference(record, 0)?.tag.block, reference(record, 1)?.tag.block);
    make_page(ctx, record, 0, |page, _| {
        let opaque = Opaque { prev: before, bucket, ..Opaque::alone(OVERFLOW_PAGE) };
        hash::init_page(page, opaque);
        Ok(())
    })?;
    change_special(record, ctx, 1, |opaque| opaque.next = new)?;
    if record.record.block(2).is_some() {
        change_bit(record, ctx, 2, true)?;
    }
    let new_bitmap = record.record.block(3).map(|block| block.tag.block);
    if new_bitmap.is_some() {
        make_page(ctx, record, 3, |page, _| {
            hash::init_bitmap(page, add.bitmap_bytes).map_err(problem)
        })?;
    }
    change_meta(record, ctx, 4, |meta| {
        meta.set_first_free(number_of(record, 4).map_err(|_| BAD_DATA)?);
        if add.reused {
            return Ok(());
        }
        meta.add_spares(1)?;
        if let Some(block) = new_bitmap {
            meta.add_bitmap(block)?;
            meta.add_spares(1)?;
        }
        Ok(())
    })
}

const BAD_DATA: IndexPageError = IndexPageError::Damaged("a block's data is damaged");

/// Sets or clears a bit of a bitmap.
fn change_bit(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
    on: bool,
) -> Result<(), RedoError> {
    let page = change_page(ctx, record, id, |page, _| {
        let bit = number_of(record, id).map_err(problem)?;
        hash::set_bit(page, bit, on).map_err(problem)
    });
    page.map(drop)
}

fn split_allocate(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let split = payload(record, HashSplitAllocate::decode(record.record.main))?;
    set_bucket(record, ctx, 0, |opaque| {
        (opaque.flags, opaque.prev) = (split.old_flags, split.new_bucket);
    })?;
    make_page(ctx, record, 1, |page, _| {
        let bucket = split.new_bucket;
        let opaque = Opaque { prev: bucket, bucket, ..Opaque::alone(split.new_flags) };
        hash::init_page(page, opaque);
        Ok(())
    })?;
    let target = reference(record, 2)?;
    change_meta(record, ctx, 2, |meta| {
        let changes = split.decode_meta(target.data).map_err(|_| BAD_DATA)?;
        meta.set_last_bucket(split.new_bucket);
        if let Some((low, high)) = changes.masks {
            meta.set_masks(low, high);
        }
        match changes.split_point {
            Some((point, pages)) => meta.begin_split_point(point, pages),
            None => Ok(()),
        }
    })
}

fn split_complete(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let split = payload(record, HashSplitComplete::decode(record.record.main))?;
    set_bucket(record, ctx, 0, |opaque| opaque.flags = split.old_flags)?;
    set_bucket(record, ctx, 1, |opaque| opaque.flags = split.new_flags)
}

/// Adds the tuples in a block's data to its page.
fn add_tuples(page: &mut PageMut<'_>, moved: HashMove, data: &[u8]) -> Result<(), Problem> {
    Opaque::of(page.page()).map_err(problem)?;
    let (items, mut tuples) = moved.decode_tuples(data).map_err(problem)?;
    for item in items {
        // They lie one behind the other, each with a size that is a multiple of 8.
        let size = IndexTuple::new(tuples).map_err(problem)?.size().next_multiple_of(8);
        let (tuple, rest) = tuples.split_at_checked(size).ok_or("a tuple is cut off")?;
        insert_item(page, item, tuple).map_err(problem)?;
        tuples = rest;
    }
    if tuples.is_empty() { Ok(()) } else { Err("there are more tuples than items".into()) }
}

fn move_contents(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let moved = payload(record, HashMove::decode(record.record.main))?;
    let target = reference(record, 1)?;
    change_page(ctx, record, 1, |page, _| add_tuples(page, moved, target.data))?;
    delete_listed(record, ctx, 2, false)
}

/// Deletes the items that a block's data lists.
fn delete_listed(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
    clears_dead: bool,
) -> Result<(), RedoError> {
    let target = reference(record, id)?;
    let page = change_page(ctx, record, id, |page, _| {
        let items = kinds::decode_items(record.kind(), target.data).map_err(problem)?;
        delete_from(page, &items, clears_dead)
    });
    page.map(drop)
}

fn delete_from(
    page: &mut PageMut<'_>,
    items: &[OffsetNumber],
    clears_dead: bool,
) -> Result<(), Problem> {
    let mut opaque = Opaque::of(page.page()).map_err(problem)?;
    delete_items(page, items).map_err(problem)?;
    if clears_dead {
        opaque.flags &= !HAS_DEAD_TUPLES;
        opaque.store(page);
    }
    Ok(())
}

fn squeeze(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let squeeze = payload(record, HashSqueeze::decode(record.record.main))?;
    let HashSqueeze { prev, next, moved, fills_prev } = squeeze;
    if moved.tuples > 0 || fills_prev {
        let target = reference(record, 1)?;
        change_page(ctx, record, 1, |page, _| {
            if moved.tuples > 0 {
                add_tuples(page, moved, target.data)?;
            }
            let change = |opaque: &mut Opaque| {
                if fills_prev {
                    opaque.next = next;
                }
            };
            hash::change_opaque(page, change).map_err(problem)
        })?;
    } else {
        restore_if_image(ctx, record, 1)?;
    }
    change_page(ctx, record, 2, |page, _| {
        hash::init_page(page, Opaque::alone(0));
        Ok(())
    })?;
    if !fills_prev {
        change_special(record, ctx, 3, |opaque| opaque.next = next)?;
    }
    if record.record.block(4).is_some() {
        change_special(record, ctx, 4, |opaque| opaque.prev = prev)?;
    }
    change_bit(record, ctx, 5, false)?;
    if record.record.block(6).is_some() {
        change_meta(record, ctx, 6, |meta| {
            meta.set_first_free(number_of(record, 6).map_err(|_| BAD_DATA)?);
            Ok(())
        })?;
    }
    Ok(())
}

fn delete(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let delete = payload(record, HashDelete::decode(record.record.main))?;
    delete_listed(record, ctx, 1, delete.clears_dead)
}

fn vacuum_page(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let vacuum = payload(record, HashVacuumPage::decode(record.record.main))?;
    change_page(ctx, record, 0, |page, _| delete_from(page, &vacuum.items, true))?;
    change_meta(record, ctx, 1, |meta| {
        meta.set_tuples(meta.tuples() - vacuum.items.len() as f64);
        Ok(())
    })
}
