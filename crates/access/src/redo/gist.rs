//! Redo of GiST indexes.
//!
//! Left behind where a crash interrupted a split: a page with the flag to follow its right sibling.
//! The next insertion that meets it completes the split.

use forebay_format::gist::{
    self, FOLLOW_RIGHT, HAS_GARBAGE, LEAF, Opaque, ROOT_BLOCK, TUPLES_DELETED,
};
use forebay_format::ids::INVALID_BLOCK;
use forebay_format::index_page::{delete_item, delete_items, push_tuples, replace_item};
use forebay_format::page::PageMut;
use forebay_format::wal::Rmgr;
use forebay_format::wal::gist::{
    self as kinds, GistDelete, GistPageDelete, GistSplit, GistUpdate, PARENT_BLOCK,
    SPLIT_CHILD_BLOCK, UPDATE_CHILD_BLOCK,
};
use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use super::pages::{
    Problem, change_page, change_page_or_image, make_page, payload, problem, reference,
};

/// Redoes changes of GiST indexes.
pub(super) struct GistRedo;

impl ResourceManager for GistRedo {
    fn id(&self) -> Rmgr {
        Rmgr::GIST
    }

    fn knows(&self, info: u8) -> bool {
        kinds::name(info & INFO_RMGR_MASK) != "UNKNOWN"
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() {
            kinds::PAGE_UPDATE => update(record, ctx),
            kinds::DELETE => delete(record, ctx),
            kinds::PAGE_SPLIT => split(record, ctx),
            kinds::PAGE_DELETE => delete_page(record, ctx),
            // For standbys; a position only.
            kinds::PAGE_REUSE | kinds::ASSIGN_LSN => Ok(()),
            _ => Err(record.unsupported()),
        }
    }
}

/// Notes on a child that its parent leads to its right sibling now. Its image, if there is one,
/// shows it as it was before.
fn complete_split(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
) -> Result<(), RedoError> {
    if record.record.block(id).is_none() {
        return Ok(());
    }
    let page = change_page_or_image(ctx, record, id, |page, _| {
        let change = |opaque: &mut Opaque| {
            opaque.nsn = record.end;
            opaque.flags &= !FOLLOW_RIGHT;
        };
        gist::change_opaque(page, change).map_err(problem)
    });
    page.map(drop)
}

fn update(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let update = payload(record, GistUpdate::decode(record.record.main))?;
    let target = reference(record, 0)?;
    change_page(ctx, record, 0, |page, _| {
        let mut opaque = Opaque::of(page.page()).map_err(problem)?;
        let (deleted, tuples) = update.decode_page(target.data).map_err(problem)?;
        if let (&[item], 1) = (&deleted[..], update.inserted) {
            return replace_item(page, item, tuples).map_err(problem);
        }
        if !deleted.is_empty() {
            delete_items(page, &deleted).map_err(problem)?;
            if opaque.is_leaf() {
                opaque.flags |= TUPLES_DELETED;
                opaque.store(page);
            }
        }
        add_tuples(page, tuples, usize::from(update.inserted))
    })?;
    complete_split(record, ctx, UPDATE_CHILD_BLOCK)
}

fn add_tuples(page: &mut PageMut<'_>, tuples: &[u8], count: usize) -> Result<(), Problem> {
    match push_tuples(page, tuples).map_err(problem)? {
        found if found == count => Ok(()),
        found => Err(format!("{found} tuples instead of {count}").into()),
    }
}

fn delete(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let delete = payload(record, GistDelete::decode(record.record.main))?;
    let page = change_page(ctx, record, 0, |page, _| {
        delete_items(page, &delete.items).map_err(problem)?;
        let change =
            |opaque: &mut Opaque| opaque.flags = opaque.flags & !HAS_GARBAGE | TUPLES_DELETED;
        gist::change_opaque(page, change).map_err(problem)
    });
    page.map(drop)
}

/// Each page leads to the next one. The root stays where it is, and leads to all new ones.
fn split(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let split = payload(record, GistSplit::decode(record.record.main))?;
    let pages = u8::try_from(split.pages);
    let pages = pages.map_err(|_| record.damaged(format!("{} pages", split.pages)))?;
    let splits_root = reference(record, 1)?.tag.block == ROOT_BLOCK;
    for id in 1..=pages {
        let target = reference(record, id)?;
        let is_root = target.tag.block == ROOT_BLOCK;
        let next = match id < pages {
            _ if is_root => INVALID_BLOCK,
            true => reference(record, id + 1)?.tag.block,
            false => split.right,
        };
        let mut flags = if split.is_leaf && !is_root { LEAF } else { 0 };
        if id < pages && !splits_root && split.incomplete {
            flags |= FOLLOW_RIGHT;
        }
        make_page(ctx, record, id, |page, _| {
            gist::init_page(page, Opaque { nsn: split.nsn, right: next, flags });
            let (count, tuples) = GistSplit::decode_page(target.data).map_err(problem)?;
            add_tuples(page, tuples, count)
        })?;
    }
    complete_split(record, ctx, SPLIT_CHILD_BLOCK)
}

fn delete_page(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let delete = payload(record, GistPageDelete::decode(record.record.main))?;
    change_page(ctx, record, 0, |page, _| gist::set_deleted(page, delete.xid).map_err(problem))?;
    let page = change_page(ctx, record, PARENT_BLOCK, |page, _| {
        Opaque::of(page.page()).map_err(problem)?;
        delete_item(page, delete.parent_item).map_err(problem)
    });
    page.map(drop)
}
