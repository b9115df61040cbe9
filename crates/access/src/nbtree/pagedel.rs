//! Deletion of empty leaves, and of the pages above that lead to nothing else.
//!
//! ```text
//!        parent ── item for the top page: leads to its right sibling now; the next item goes
//!          │                                                                        (record 1)
//!   ◀─▶ top page ◀─▶       the branch: each page has one child
//!          │               unlinked from the top down, each by a record: its siblings lead past
//!   ◀─▶  leaf    ◀─▶       it, it is deleted, the leaf remembers the next one below (records 2…)
//! ```
//!
//! Between the records the leaf is half-dead: no parent leads to it, searches and insertions pass
//! it by, and it names the topmost page that is left of the branch. A vacuum that finds such a leaf
//! goes on from there.
//!
//! The keys of a deleted page go to its right sibling. So a page that is the last child of its
//! parent stays, unless the parent has no other child and can go itself; and the last page of a
//! level stays. Pages whose split is incomplete stay, too, on both sides of the split.
//!
//! Locks are taken as by insertions: on a level from left to right, then from child to parent. The
//! leaf is locked while pages above it are looked at, so nothing comes to hang below them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::{self as nb, DELETED, HALF_DEAD, HIGH_KEY, LEAF, Meta, NO_SIBLING};
use forebay_format::nbtree::{Opaque, Tuple};
use forebay_format::wal::nbtree::{
    BtreeHalfDead, BtreeMeta, BtreeUnlink, MARK_PAGE_HALFDEAD, PARENT_BLOCK, UNLINK_LEAF_BLOCK,
    UNLINK_LEFT_BLOCK, UNLINK_META_BLOCK, UNLINK_PAGE, UNLINK_PAGE_META, UNLINK_RIGHT_BLOCK,
};
use forebay_format::{BlockNumber, FullXid, OffsetNumber};
use forebay_storage::Pinned;

use super::compare::SearchKey;
use super::inserter::{Inserter, Locked};
use super::log::{CHANGED, block, made, set_lsn};
use super::search::{Descent, Moves, Path, Reached, Step};
use crate::error::AccessError;
use crate::heap::critical;

/// A deleted page, and from when on it may be used again.
pub(super) type Deleted = (BlockNumber, FullXid);

/// What became of an empty leaf.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LeafEnd {
    Stays,
    Gone,
    /// It is gone, and its right sibling is empty. That may have been the last child of its parent,
    /// and be the only one now.
    NextIsEmpty(BlockNumber),
}

/// The parent of a branch that can be deleted.
struct Branch {
    parent: Locked,
    /// Its item for the branch.
    n: OffsetNumber,
    /// The highest page of the branch, and its right sibling.
    top: BlockNumber,
    right: BlockNumber,
}

/// Pages that change when one is unlinked.
struct Unlinking {
    page: Locked,
    left: Option<Locked>,
    right: Locked,
    /// The half-dead leaf, if it is not the page itself.
    leaf: Option<Locked>,
    meta: Option<(Locked, Meta)>,
    record: BtreeUnlink,
}

impl Inserter<'_> {
    /// Deletes an empty leaf with the branch above it, or goes on with a deletion that was begun.
    /// Pages are added to `deleted` one by one. `path` is the way to a leaf from which this one was
    /// reached to the right: that leaf was deleted. The caller has no lock.
    pub(super) fn delete_leaf(
        &mut self,
        leaf: &Pinned,
        path: &mut Option<Path>,
        deleted: &mut Vec<Deleted>,
    ) -> Result<LeafEnd, AccessError> {
        let block = leaf.tag().block;
        loop {
            let mut page = leaf.clone().into_exclusive();
            let opaque = self.index.opaque(page.page(), block)?;
            let has_items = opaque.first_data_item() <= page.page().item_count();
            let stays = !opaque.is_leaf()
                || opaque.is_root()
                || opaque.is_rightmost()
                || opaque.has(DELETED)
                || opaque.is_split_incomplete();
            if stays || has_items {
                return Ok(LeafEnd::Stays);
            }
            if opaque.has(HALF_DEAD) {
                break;
            }
            let Some(path) = path else {
                let high_key = self.index.tuple(page.page(), block, HIGH_KEY)?.bytes().to_vec();
                drop(page);
                if self.is_right_half(opaque.prev, block)? {
                    return Ok(LeafEnd::Stays);
                }
                *path = Some(self.way_to(block, &high_key)?);
                continue;
            };
            if !self.mark_half_dead(&mut page, opaque, path)? {
                return Ok(LeafEnd::Stays);
            }
            break;
        }
        loop {
            let (page, next_is_empty) = self.unlink(leaf)?;
            deleted.push(page);
            if page.0 == block {
                let next = self.index.opaque(leaf.lock_shared().page(), block)?.next;
                let next_is_empty = next_is_empty.then_some(next);
                return Ok(next_is_empty.map_or(LeafEnd::Gone, LeafEnd::NextIsEmpty));
            }
        }
    }

    /// Whether a page has no parent yet, as it is the right half of an incomplete split.
    fn is_right_half(
        &mut self,
        left: BlockNumber,
        block: BlockNumber,
    ) -> Result<bool, AccessError> {
        if left == NO_SIBLING {
            return Ok(false);
        }
        let page = self.index.read(self.backend, left)?;
        let opaque = self.index.opaque(page.lock_shared().page(), left)?;
        Ok(opaque.next == block && opaque.is_split_incomplete())
    }

    /// The way to a leaf with a high key.
    fn way_to(&mut self, block: BlockNumber, high_key: &[u8]) -> Result<Path, AccessError> {
        let index = self.index;
        let tuple = Tuple::new(high_key).map_err(|error| index.damaged(block, &error))?;
        let key = SearchKey::of_tuple(&index.shape, &tuple).map_err(index.at(block))?;
        // The leaf to the left of what begins with the key.
        let key = SearchKey { tid: tuple.heap_tid(), backward: true, ..key };
        let want = Descent { key: &key, level: 0, to_insert: false };
        let mut path = Path::new();
        match index.descend(self.backend, want, &mut path, |_, _, _| Ok(()))? {
            Reached::Page(()) => Ok(path),
            Reached::Empty | Reached::Incomplete(_) => Err(index.fell_off()),
        }
    }

    /// Removes the way to a leaf, with the branch above it, from the parent. False if that is not
    /// allowed.
    fn mark_half_dead(
        &mut self,
        leaf: &mut Locked,
        opaque: Opaque,
        path: &mut Path,
    ) -> Result<bool, AccessError> {
        let index = self.index;
        let leaf_block = leaf.tag().block;
        // A half-dead sibling is no child of the parent, which is to lead to it.
        let right = index.read(self.backend, opaque.next)?;
        if index.opaque(right.lock_shared().page(), opaque.next)?.has(HALF_DEAD) {
            return Ok(false);
        }
        drop(right);
        let Some(branch) = self.lock_branch(leaf_block, opaque.next, path)? else {
            return Ok(false);
        };
        let Branch { mut parent, n, top, right } = branch;
        let parent_block = parent.tag().block;
        let next_child = index.tuple(parent.page(), parent_block, n + 1)?.down_link();
        if next_child != right {
            let name = &index.shape.name;
            return Err(AccessError::CorruptIndex(format!(
                "right sibling {right} of block {top} is not next child {next_child} of block \
                 {parent_block} in index \"{name}\""
            )));
        }
        let mut mark = BtreeHalfDead {
            parent_item: n,
            leaf: leaf_block,
            left: opaque.prev,
            right: opaque.next,
            top_parent: (top != leaf_block).then_some(top),
        };
        let aio = self.backend.io.aio();
        forebay_aio::planted_bug!(aio, BranchForgotten, mark.top_parent = None);
        critical(index.failure.as_ref(), "could not begin to delete a page of an index", || {
            parent.mark_dirty();
            leaf.mark_dirty();
            nb::remove_child(&mut parent.page_mut(), n)
                .map_err(|error| index.damaged(parent_block, &error))?;
            nb::init_half_dead(&mut leaf.page_mut(), mark.left, mark.right, mark.top_parent);
            let blocks = [block(0, leaf, made(), &[]), block(PARENT_BLOCK, &parent, CHANGED, &[])];
            let info = MARK_PAGE_HALFDEAD;
            let lsn = index.log(self.backend, self.xid, info, &mark.encode(), &blocks)?;
            set_lsn(lsn, [leaf, &mut parent]);
            Ok(())
        })?;
        Ok(true)
    }

    /// Locks the parent of the branch that is to go with a leaf, which is locked. None if the leaf
    /// has to stay. `path` becomes the present way.
    fn lock_branch(
        &mut self,
        leaf: BlockNumber,
        right: BlockNumber,
        path: &mut Path,
    ) -> Result<Option<Branch>, AccessError> {
        let (mut top, mut top_right) = (leaf, right);
        for level in 1.. {
            let at = path.len().checked_sub(level);
            let step = match at.and_then(|at| path.get(at).copied()) {
                Some(step) => step,
                // The tree has grown meanwhile.
                None => self.leftmost_of(level as u32)?,
            };
            self.path = path.get(..at.unwrap_or(0)).unwrap_or_default().to_vec();
            let Some((parent, n)) = self.find_parent(step, top)? else {
                let name = &self.index.shape.name;
                return Err(AccessError::CorruptIndex(format!(
                    "failed to re-find parent key in index \"{name}\" for deletion target page \
                     {top}"
                )));
            };
            let parent_block = parent.tag().block;
            if let Some(found) = at.and_then(|at| path.get_mut(at)) {
                *found = Step { block: parent_block, item: n };
            }
            if n < parent.page().item_count() {
                return Ok(Some(Branch { parent, n, top, right: top_right }));
            }
            let opaque = self.index.opaque(parent.page(), parent_block)?;
            drop(parent);
            let is_only_child = n == opaque.first_data_item();
            if !is_only_child
                || opaque.is_rightmost()
                || self.is_right_half(opaque.prev, parent_block)?
            {
                return Ok(None);
            }
            (top, top_right) = (parent_block, opaque.next);
        }
        unreachable!("the last page of each level stays");
    }

    /// Unlinks the topmost page that is left of the branch of a half-dead leaf. Returns it, and
    /// whether its right sibling is empty.
    fn unlink(&mut self, leaf: &Pinned) -> Result<(Deleted, bool), AccessError> {
        let index = self.index;
        let mut pages = self.lock_to_unlink(leaf)?;
        let target = pages.page.tag().block;
        let right = index.opaque(pages.right.page(), pages.record.right)?;
        let next_is_empty = right.first_data_item() > pages.right.page().item_count();
        let BtreeUnlink { left, level, .. } = pages.record;
        if left == NO_SIBLING && right.is_rightmost() {
            // The right sibling will be alone on its level.
            let meta = self.lock_meta()?.filter(|(_, meta)| meta.fast_level <= level + 1);
            pages.meta = meta.map(|(page, meta)| {
                (page, Meta { fast_root: pages.record.right, fast_level: level, ..meta })
            });
        }
        let changes_meta = pages.meta.is_some();
        let what = "could not delete a page of an index";
        let safe_xid =
            critical(index.failure.as_ref(), what, || self.change_to_unlink(pages, right))?;
        if changes_meta {
            index.known.set_root(None);
        }
        Ok(((target, safe_xid), next_is_empty))
    }

    /// Locks the topmost page of a branch with its siblings.
    fn lock_to_unlink(&mut self, leaf: &Pinned) -> Result<Unlinking, AccessError> {
        let index = self.index;
        let leaf_block = leaf.tag().block;
        let (leaf_opaque, top) = {
            let page = leaf.lock_shared();
            let opaque = index.opaque(page.page(), leaf_block)?;
            (opaque, index.tuple(page.page(), leaf_block, HIGH_KEY)?.top_parent())
        };
        let (target, opaque) = match top {
            None => (leaf.clone(), leaf_opaque),
            Some(top) => {
                let page = index.read(self.backend, top)?;
                let opaque = index.opaque(page.lock_shared().page(), top)?;
                (page, opaque)
            }
        };
        let block = target.tag().block;
        let leaf = top.map(|_| leaf.clone().into_exclusive());
        let left = self.left_sibling(opaque.prev, block)?;
        let left_block = left.as_ref().map_or(NO_SIBLING, |page| page.tag().block);
        let page = target.into_exclusive();
        let opaque = index.opaque(page.page(), block)?;
        let is_leaf = top.is_none();
        let children = (page.page().item_count() + 1).checked_sub(opaque.first_data_item());
        if opaque.is_rightmost()
            || opaque.is_root()
            || opaque.has(DELETED)
            || opaque.prev != left_block
            || opaque.is_leaf() != is_leaf
            || opaque.has(HALF_DEAD) != is_leaf
            || children != Some(u16::from(!is_leaf))
        {
            return Err(index.damaged(block, &"it changed while it was being deleted"));
        }
        let next_top = match is_leaf {
            true => None,
            false => Some(index.tuple(page.page(), block, opaque.first_data_item())?.down_link()),
        };
        let right = index.lock(self.backend, opaque.next)?;
        let found = index.opaque(right.page(), opaque.next)?.prev;
        if found != block {
            let name = &index.shape.name;
            return Err(AccessError::CorruptIndex(format!(
                "right sibling's left-link doesn't match: block {} links to {found} instead of \
                 expected {block} in index \"{name}\"",
                opaque.next
            )));
        }
        let record = BtreeUnlink {
            left: left_block,
            right: opaque.next,
            level: opaque.level,
            // Known when the siblings no longer lead to the page.
            safe_xid: FullXid(0),
            leaf_left: leaf_opaque.prev,
            leaf_right: leaf_opaque.next,
            leaf_top_parent: next_top.filter(|&next| next != leaf_block),
        };
        Ok(Unlinking { page, left, right, leaf, meta: None, record })
    }

    /// Locks the page whose right link leads to another one: `left`, or what was split off it.
    fn left_sibling(
        &mut self,
        mut left: BlockNumber,
        block: BlockNumber,
    ) -> Result<Option<Locked>, AccessError> {
        let mut moves = Moves::default();
        while left != NO_SIBLING {
            let page = self.index.lock(self.backend, left)?;
            let opaque = self.index.opaque(page.page(), left)?;
            if opaque.next == block && !opaque.has(DELETED) {
                return Ok(Some(page));
            }
            if opaque.is_rightmost() || opaque.has(DELETED) {
                let problem = format_args!("its left sibling {left} does not lead to it");
                return Err(self.index.damaged(block, &problem));
            }
            moves.next(self.index, left)?;
            left = opaque.next;
        }
        Ok(None)
    }

    /// Changes the pages, in a critical section.
    fn change_to_unlink(
        &mut self,
        pages: Unlinking,
        right_opaque: Opaque,
    ) -> Result<FullXid, AccessError> {
        let Unlinking { mut page, mut left, mut right, mut leaf, mut meta, mut record } = pages;
        right.mark_dirty();
        Opaque { prev: record.left, ..right_opaque }.store(&mut right.page_mut());
        if let Some(left) = &mut left {
            left.mark_dirty();
            let opaque = self.index.opaque(left.page(), record.left)?;
            Opaque { next: record.right, ..opaque }.store(&mut left.page_mut());
        }
        // Whoever has a link to the page has a snapshot from before this id.
        record.safe_xid = self.index.shared.xacts.next_xid();
        let aio = self.backend.io.aio();
        forebay_aio::planted_bug!(aio, DeletedPageWithoutSafeXid, record.safe_xid = FullXid(3));
        page.mark_dirty();
        let BtreeUnlink { left: prev, right: next, level, safe_xid, .. } = record;
        let flags = if level == 0 { LEAF } else { 0 };
        let opaque = Opaque { prev, next, level, flags, cycle_id: 0 };
        nb::init_deleted_page(&mut page.page_mut(), opaque, safe_xid);
        if let Some(leaf) = &mut leaf {
            leaf.mark_dirty();
            let BtreeUnlink { leaf_left, leaf_right, leaf_top_parent, .. } = record;
            nb::init_half_dead(&mut leaf.page_mut(), leaf_left, leaf_right, leaf_top_parent);
        }
        if let Some((guard, meta)) = &mut meta {
            guard.mark_dirty();
            meta.store(&mut guard.page_mut());
        }
        let new_meta = meta.as_ref().map(|(_, meta)| BtreeMeta(*meta).encode());
        let mut meta = meta.map(|(guard, _)| guard);
        let mut blocks = vec![block(0, &page, made(), &[])];
        blocks.extend(left.as_ref().map(|left| block(UNLINK_LEFT_BLOCK, left, CHANGED, &[])));
        blocks.push(block(UNLINK_RIGHT_BLOCK, &right, CHANGED, &[]));
        blocks.extend(leaf.as_ref().map(|leaf| block(UNLINK_LEAF_BLOCK, leaf, made(), &[])));
        let of_meta = meta.as_ref().zip(new_meta.as_ref());
        blocks.extend(of_meta.map(|(guard, data)| block(UNLINK_META_BLOCK, guard, made(), data)));
        let info = if meta.is_some() { UNLINK_PAGE_META } else { UNLINK_PAGE };
        let lsn = self.index.log(self.backend, self.xid, info, &record.encode(), &blocks)?;
        let changed = [&mut page, &mut right].into_iter();
        set_lsn(lsn, changed.chain(&mut left).chain(&mut leaf).chain(&mut meta));
        Ok(safe_xid)
    }
}
