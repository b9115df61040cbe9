//! Redo of GIN indexes.
//!
//! Left behind where a crash interrupted a split: a page that its parent does not lead to. The next
//! insertion that meets it completes the split.

use forebay_format::gin::{
    self, DELETED, INCOMPLETE_SPLIT, LIST, LIST_FULL_ROW, META_SIZE, Opaque,
};
use forebay_format::ids::INVALID_BLOCK;
use forebay_format::index_page::push_tuples;
use forebay_format::page::PageMut;
use forebay_format::wal::Rmgr;
use forebay_format::wal::gin::{
    self as kinds, CHILD_BLOCK, GinDeleteList, GinDeletePage, GinEntry, GinInsert, GinListPage,
    GinPostingItem, GinSplit, GinTail, GinUpdateMeta, SPLIT_CHILD_BLOCK, SPLIT_ROOT_BLOCK,
};
use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use super::pages::{Problem, change_page, make_page, payload, problem, reference, require_image};

/// Redoes changes of GIN indexes.
pub(super) struct GinRedo;

impl ResourceManager for GinRedo {
    fn id(&self) -> Rmgr {
        Rmgr::GIN
    }

    fn knows(&self, info: u8) -> bool {
        kinds::name(info & INFO_RMGR_MASK) != "UNKNOWN"
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() {
            kinds::CREATE_PTREE => create_posting_tree(record, ctx),
            kinds::INSERT => insert(record, ctx),
            kinds::SPLIT => split(record, ctx),
            kinds::VACUUM_PAGE => require_image(ctx, record, 0),
            kinds::VACUUM_DATA_LEAF_PAGE => {
                let target = reference(record, 0)?;
                let page = change_page(ctx, record, 0, |page, _| {
                    gin::recompress(page, target.data).map_err(problem)
                });
                page.map(drop)
            }
            kinds::DELETE_PAGE => delete_page(record, ctx),
            kinds::UPDATE_META_PAGE => update_meta(record, ctx),
            kinds::INSERT_LISTPAGE => insert_list_page(record, ctx),
            kinds::DELETE_LISTPAGE => delete_list_pages(record, ctx),
            _ => Err(record.unsupported()),
        }
    }
}

fn create_posting_tree(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
) -> Result<(), RedoError> {
    let lists = payload(record, kinds::decode_posting_tree(record.record.main))?;
    make_page(ctx, record, 0, |page, _| gin::init_posting_tree(page, lists).map_err(problem))
}

/// Notes on a child that its parent leads to its right sibling now.
fn complete_split(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
) -> Result<(), RedoError> {
    let page = change_page(ctx, record, id, |page, _| {
        gin::change_opaque(page, |opaque| opaque.flags &= !INCOMPLETE_SPLIT).map_err(problem)
    });
    page.map(drop)
}

fn insert(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let insert = payload(record, GinInsert::decode(record.record.main))?;
    let target = reference(record, 0)?;
    if insert.right_child.is_some() {
        complete_split(record, ctx, CHILD_BLOCK)?;
    }
    let page = change_page(ctx, record, 0, |page, _| match (insert.is_data, insert.right_child) {
        (true, None) => gin::recompress(page, target.data).map_err(problem),
        (true, Some(right)) => {
            let GinPostingItem { item, new } =
                GinPostingItem::decode(target.data).map_err(problem)?;
            gin::insert_posting_item(page, item, new, right).map_err(problem)
        }
        (false, right) => {
            let entry = GinEntry::decode(target.data).map_err(problem)?;
            gin::insert_entry(page, entry.item, entry.tuple, entry.replaces, right).map_err(problem)
        }
    });
    page.map(drop)
}

/// All pages have images.
fn split(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let split = payload(record, GinSplit::decode(record.record.main))?;
    if !split.is_leaf {
        complete_split(record, ctx, SPLIT_CHILD_BLOCK)?;
    }
    require_image(ctx, record, 0)?;
    require_image(ctx, record, 1)?;
    if split.is_root { require_image(ctx, record, SPLIT_ROOT_BLOCK) } else { Ok(()) }
}

/// A page of a posting tree that vacuum found empty.
fn delete_page(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let delete = payload(record, GinDeletePage::decode(record.record.main))?;
    change_page(ctx, record, 2, |page, _| {
        gin::set_data_right(page, delete.right).map_err(problem)
    })?;
    change_page(ctx, record, 0, |page, _| gin::set_deleted(page, delete.xid).map_err(problem))?;
    let page = change_page(ctx, record, 1, |page, _| {
        gin::delete_posting_item(page, delete.parent_item).map_err(problem)
    });
    page.map(drop)
}

fn make_meta(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    contents: &[u8; META_SIZE],
) -> Result<(), RedoError> {
    make_page(ctx, record, 0, |page, tag| match tag.block {
        0 => {
            gin::init_meta(page, contents);
            Ok(())
        }
        _ => Err("it is no meta page".into()),
    })
}

fn update_meta(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let update = payload(record, GinUpdateMeta::decode(record.record.main))?;
    make_meta(record, ctx, &update.meta)?;
    let page = match update.tail {
        GinTail::Nothing => return Ok(()),
        GinTail::Next(next) => change_page(ctx, record, 1, |page, _| {
            gin::change_opaque(page, |opaque| opaque.right = next).map_err(problem)
        }),
        GinTail::Tuples(count) => {
            let target = reference(record, 1)?;
            change_page(ctx, record, 1, |page, _| {
                let mut opaque = Opaque::of(page.page()).map_err(problem)?;
                add_tuples(page, target.data, count)?;
                // One more row of the table.
                opaque.count = opaque.count.wrapping_add(1);
                opaque.store(page);
                Ok(())
            })
        }
    };
    page.map(drop)
}

/// Adds tuples to a page of the pending list.
fn add_tuples(page: &mut PageMut<'_>, tuples: &[u8], count: usize) -> Result<(), Problem> {
    match push_tuples(page, tuples).map_err(problem)? {
        found if found == count => Ok(()),
        found => Err(format!("{found} tuples instead of {count}").into()),
    }
}

fn insert_list_page(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let list = payload(record, GinListPage::decode(record.record.main))?;
    let target = reference(record, 0)?;
    make_page(ctx, record, 0, |page, _| {
        // Only the last page of those that are added together ends with a row.
        let (flags, count) = match list.right {
            INVALID_BLOCK => (LIST | LIST_FULL_ROW, 1),
            _ => (LIST, 0),
        };
        gin::init_page(page, Opaque { right: list.right, count, flags });
        add_tuples(page, target.data, list.tuples)
    })
}

fn delete_list_pages(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let delete = payload(record, GinDeleteList::decode(record.record.main))?;
    make_meta(record, ctx, &delete.meta)?;
    for id in 1..=delete.pages {
        make_page(ctx, record, id, |page, _| {
            gin::init_page(page, Opaque::new(DELETED));
            Ok(())
        })?;
    }
    Ok(())
}
