//! Redo of SP-GiST indexes.
//!
//! A tuple is put at its new place before anything leads there. Nobody reads during redo, so the
//! pages of a record are changed one after the other.

use forebay_format::index_page::delete_items;
use forebay_format::page::PageMut;
use forebay_format::spgist::{self, LEAF, NULLS, Successor};
use forebay_format::wal::Rmgr;
use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::spgist::{
    self as kinds, NodeLink, ParentPage, SpgAddLeaf, SpgAddNode, SpgMoveLeafs, SpgPickSplit,
    SpgSplitTuple, SpgVacuumLeaf, SpgVacuumRedirect,
};
use forebay_format::{ItemPointer, Xid};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use super::pages::{Problem, change_page, payload, problem, reference};

/// Redoes changes of SP-GiST indexes.
pub(super) struct SpgistRedo;

impl ResourceManager for SpgistRedo {
    fn id(&self) -> Rmgr {
        Rmgr::SPGIST
    }

    fn knows(&self, info: u8) -> bool {
        kinds::name(info & INFO_RMGR_MASK) != "UNKNOWN"
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() {
            kinds::ADD_LEAF => add_leaf(record, ctx),
            kinds::MOVE_LEAFS => move_leafs(record, ctx),
            kinds::ADD_NODE => add_node(record, ctx),
            kinds::SPLIT_TUPLE => split_tuple(record, ctx),
            kinds::PICKSPLIT => pick_split(record, ctx),
            kinds::VACUUM_LEAF => vacuum_leaf(record, ctx),
            kinds::VACUUM_ROOT => vacuum_root(record, ctx),
            kinds::VACUUM_REDIRECT => vacuum_redirect(record, ctx),
            _ => Err(record.unsupported()),
        }
    }
}

/// Applies a record to a page, which is made anew first if `init` has flags for it.
fn change(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
    init: Option<u16>,
    change: impl FnOnce(&mut PageMut<'_>) -> Result<(), Problem>,
) -> Result<(), RedoError> {
    let page = change_page(ctx, record, id, |page, _| {
        if let Some(flags) = init {
            spgist::init_page(page, flags);
        }
        change(page)
    });
    page.map(drop)
}

/// The flags of a page that redo initializes.
const fn init(on: bool, nulls: bool, kind: u16) -> Option<u16> {
    match (on, nulls) {
        (false, _) => None,
        (true, true) => Some(kind | NULLS),
        (true, false) => Some(kind),
    }
}

/// Lets a node of a tuple on a page lead to another place.
fn set_link(page: &mut PageMut<'_>, link: NodeLink, to: ItemPointer) -> Result<(), Problem> {
    spgist::set_node_link(page, link.parent, link.node, to).map_err(problem)
}

fn change_link(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    id: u8,
    link: NodeLink,
    to: ItemPointer,
) -> Result<(), RedoError> {
    change(record, ctx, id, None, |page| set_link(page, link, to))
}

/// What remains of a tuple that moves: a redirect, but a placeholder while the index is built.
fn left_behind(xid: Option<Xid>, to: ItemPointer) -> Successor {
    xid.map_or(Successor::Placeholder, |xid| Successor::Redirect(to, xid))
}

fn add_leaf(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let add = payload(record, SpgAddLeaf::decode(record.record.main))?;
    let SpgAddLeaf { item, head, link, tuple, .. } = add;
    change(record, ctx, 0, init(add.new_page, add.nulls, LEAF), |page| {
        if item == head {
            return spgist::replace_tuple(page, item, tuple).map_err(problem);
        }
        spgist::add_tuple(page, item, tuple).map_err(problem)?;
        match head {
            0 => Ok(()),
            head => spgist::set_next(page, head, item).map_err(problem),
        }
    })?;
    if link.parent == 0 {
        return Ok(());
    }
    let to = ItemPointer::new(reference(record, 0)?.tag.block, item);
    change_link(record, ctx, 1, link, to)
}

fn move_leafs(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let moving = payload(record, SpgMoveLeafs::decode(record.record.main))?;
    let Some(&first) = moving.items.last() else {
        return Err(record.damaged("no tuple moves"));
    };
    let to = ItemPointer::new(reference(record, 1)?.tag.block, first);
    change(record, ctx, 1, init(moving.new_page, moving.nulls, LEAF), |page| {
        let mut tuples = moving.items.iter().zip(&moving.tuples);
        tuples.try_for_each(|(&item, tuple)| spgist::add_tuple(page, item, tuple).map_err(problem))
    })?;
    change(record, ctx, 0, None, |page| {
        let first = left_behind(moving.redirect_xid, to);
        spgist::remove_tuples(page, &moving.moved, first, Successor::Placeholder).map_err(problem)
    })?;
    change_link(record, ctx, 2, moving.link, to)
}

fn add_node(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let add = payload(record, SpgAddNode::decode(record.record.main))?;
    let SpgAddNode { item, new_item, parent_page, link, tuple, .. } = add;
    let Some(new) = record.record.block(1) else {
        return change(record, ctx, 0, None, |page| {
            spgist::replace_tuple(page, item, tuple).map_err(problem)
        });
    };
    let to = ItemPointer::new(new.tag.block, new_item);
    change(record, ctx, 1, init(add.new_page, false, 0), |page| {
        spgist::add_tuple(page, new_item, tuple).map_err(problem)?;
        if parent_page == ParentPage::New { set_link(page, link, to) } else { Ok(()) }
    })?;
    change(record, ctx, 0, None, |page| {
        spgist::supersede(page, item, left_behind(add.redirect_xid, to)).map_err(problem)?;
        if parent_page == ParentPage::Old { set_link(page, link, to) } else { Ok(()) }
    })?;
    match parent_page {
        ParentPage::Other => change_link(record, ctx, 2, link, to),
        _ => Ok(()),
    }
}

fn split_tuple(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let split = payload(record, SpgSplitTuple::decode(record.record.main))?;
    let add_postfix = |page: &mut PageMut<'_>| {
        spgist::add_tuple(page, split.postfix_item, split.postfix).map_err(problem)
    };
    if !split.same_page {
        change(record, ctx, 1, init(split.new_page, false, 0), add_postfix)?;
    }
    change(record, ctx, 0, None, |page| {
        spgist::replace_tuple(page, split.prefix_item, split.prefix).map_err(problem)?;
        if split.same_page { add_postfix(page) } else { Ok(()) }
    })
}

fn pick_split(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let split = payload(record, SpgPickSplit::decode(record.record.main))?;
    let inner = ItemPointer::new(reference(record, 2)?.tag.block, split.inner_item);
    let place = |page: &mut PageMut<'_>, on_new_page: bool| {
        let mut here = split.leaves.iter().filter(|leaf| leaf.on_new_page == on_new_page);
        here.try_for_each(|leaf| spgist::add_tuple(page, leaf.item, leaf.tuple).map_err(problem))
    };
    if !split.is_root {
        change(record, ctx, 0, init(split.init_old, split.nulls, LEAF), |page| {
            if !split.init_old {
                let first = left_behind(split.redirect_xid, inner);
                spgist::remove_tuples(page, &split.deleted, first, Successor::Placeholder)
                    .map_err(problem)?;
            }
            place(page, false)
        })?;
    }
    if record.record.block(1).is_some() {
        let init = init(split.init_new, split.nulls, LEAF);
        change(record, ctx, 1, init, |page| place(page, true))?;
    }
    change(record, ctx, 2, init(split.init_inner, split.nulls, 0), |page| {
        spgist::add_tuple(page, split.inner_item, split.inner).map_err(problem)?;
        if split.inner_is_parent { set_link(page, split.link, inner) } else { Ok(()) }
    })?;
    match record.record.block(3) {
        Some(_) => change_link(record, ctx, 3, split.link, inner),
        None => Ok(()),
    }
}

fn vacuum_leaf(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let vacuum = payload(record, SpgVacuumLeaf::decode(record.record.main))?;
    change(record, ctx, 0, None, |page| {
        let mut remove = |items: &[u16], successor| {
            spgist::remove_tuples(page, items, successor, successor).map_err(problem)
        };
        remove(&vacuum.dead, Successor::Dead)?;
        remove(&vacuum.placeholders, Successor::Placeholder)?;
        for &(from, to) in &vacuum.moves {
            spgist::swap_tuples(page, from, to).map_err(problem)?;
        }
        let moved: Vec<_> = vacuum.moves.iter().map(|&(from, _)| from).collect();
        let placeholder = Successor::Placeholder;
        spgist::remove_tuples(page, &moved, placeholder, placeholder).map_err(problem)?;
        vacuum
            .chains
            .iter()
            .try_for_each(|&(item, next)| spgist::set_next(page, item, next).map_err(problem))
    })
}

fn vacuum_root(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let items = payload(record, kinds::decode_vacuum_root(record.record.main))?;
    change(record, ctx, 0, None, |page| {
        spgist::Opaque::of(page.page()).map_err(problem)?;
        delete_items(page, &items).map_err(problem)
    })
}

fn vacuum_redirect(record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
    let vacuum = payload(record, SpgVacuumRedirect::decode(record.record.main))?;
    change(record, ctx, 0, None, |page| {
        spgist::vacuum_redirects(page, &vacuum.redirects, vacuum.first_removed).map_err(problem)
    })
}
