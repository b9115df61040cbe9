//! Putting an item on a page, and all that follows from it: splits, up to a new root.
//!
//! ```text
//!   put ─ fits ─▶ one record
//!     └─ full ─▶ split: left half marked incomplete ─▶ put the right half's link on the parent,
//!                       in one record with the end of the mark; or make a new root
//! ```
//!
//! Pages are locked from left to right, then from a child to its parent. The left half stays locked
//! until its parent is, so nobody removes what leads to it. An inserter that ends between the two
//! records leaves the mark, and the next one that comes by completes the split.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::{
    self as nb, HIGH_KEY, INCOMPLETE_SPLIT, LEAF, META_BLOCK, Meta, Opaque, ROOT, Tuple,
};
use forebay_format::wal::nbtree::{
    BtreeInsert, BtreeMeta, BtreeNewRoot, CHILD_BLOCK, INSERT_LEAF, INSERT_META, INSERT_POST,
    INSERT_UPPER, META_BLOCK as META_REFERENCE, NEWROOT,
};
use forebay_format::{BlockNumber, OffsetNumber, Xid};
use forebay_storage::{Backend, PageWriteGuard};

use super::compare::SearchKey;
use super::log::{CHANGED, block, items_of, made, set_lsn};
use super::relation::Index;
use super::search::{Descent, Moves, Path, Reached, Step};
use crate::error::AccessError;
use crate::heap::critical;

/// A page locked for changes.
pub(super) type Locked = PageWriteGuard<'static>;

/// Trees below this level gain nothing from a remembered last leaf.
const WORTH_REMEMBERING: u32 = 2;

/// An insertion under way.
pub(super) struct Inserter<'w> {
    pub(super) index: &'w Index,
    pub(super) backend: &'w mut Backend,
    /// The transaction that inserts.
    pub(super) xid: Xid,
    /// The way to the page that is worked on. It may be out of date: pages move right.
    pub(super) path: Path,
}

/// An item to be put on a page.
#[derive(Debug)]
pub(super) struct NewItem {
    pub(super) bytes: Vec<u8>,
    /// The item before which it belongs.
    pub(super) n: OffsetNumber,
    /// The item before it is a posting list that the row belongs into.
    pub(super) posting: Option<PostingSplit>,
}

/// A posting list that takes a new row and gives up its last one, which the new item gets.
#[derive(Debug)]
pub(super) struct PostingSplit {
    /// Where the new row goes in the list.
    pub(super) index: u16,
    /// The list afterwards.
    pub(super) list: Vec<u8>,
    /// The new item as it was to be inserted, for the record.
    pub(super) original: Vec<u8>,
}

impl NewItem {
    /// A row that belongs into the posting list that is item `n`, before the row at `index`.
    pub(super) fn into_posting(
        posting: &Tuple<'_>,
        new: &Tuple<'_>,
        n: OffsetNumber,
        index: usize,
    ) -> Result<NewItem, nb::NbtreeError> {
        let (list, bytes) = nb::split_posting(posting, new, index)?;
        let original = new.bytes().to_vec();
        let posting = PostingSplit { index: index as u16, list, original };
        Ok(NewItem { bytes, n: n + 1, posting: Some(posting) })
    }
}

impl Inserter<'_> {
    /// Puts an item on a page, which is split if it is full. `child` is the left half of the split
    /// for which the item is inserted; `only_page`: it was alone on its level before.
    pub(super) fn put(
        &mut self,
        mut page: Locked,
        child: Option<Locked>,
        item: &NewItem,
        only_page: bool,
    ) -> Result<(), AccessError> {
        let tag = page.tag().block;
        let opaque = self.index.opaque(page.page(), tag)?;
        if opaque.is_split_incomplete() || opaque.is_ignored() {
            let name = &self.index.shape.name;
            return Err(AccessError::Internal(format!(
                "cannot insert to block {tag} of index \"{name}\", which has flags {:#x}",
                opaque.flags
            )));
        }
        if page.page().free_space() < aligned(item.bytes.len()) {
            let right = self.split(&mut page, child, item)?;
            let was_alone = opaque.is_leftmost() && opaque.is_rightmost();
            return self.insert_parent(page, right, opaque.is_root(), was_alone);
        }
        self.put_in_room(&mut page, &opaque, child, item, only_page)?;
        if opaque.is_leaf() {
            let deep = self.index.known.root().is_some_and(|r| r.level >= WORTH_REMEMBERING);
            let is_last = opaque.is_rightmost() && !opaque.is_root() && deep;
            self.index.known.set_last_leaf(is_last.then_some(tag));
        }
        Ok(())
    }

    /// Puts an item on a page that has room for it.
    fn put_in_room(
        &mut self,
        page: &mut Locked,
        opaque: &Opaque,
        mut child: Option<Locked>,
        item: &NewItem,
        only_page: bool,
    ) -> Result<(), AccessError> {
        let index = self.index;
        let tag = page.tag().block;
        // A page that gets a sibling becomes the fast root.
        let mut meta = match only_page && !opaque.is_leaf() {
            true => self.lock_meta()?.filter(|(_, meta)| meta.fast_level < opaque.level),
            false => None,
        };
        if let Some((_, meta)) = &mut meta {
            (meta.fast_root, meta.fast_level) = (tag, opaque.level);
        }
        critical(index.failure.as_ref(), "could not insert into an index", || {
            page.mark_dirty();
            let added = match &item.posting {
                Some(PostingSplit { index: at, original, .. }) => nb::insert_and_split_posting(
                    &mut page.page_mut(),
                    item.n,
                    original,
                    usize::from(*at),
                ),
                None => nb::insert_item(&mut page.page_mut(), item.n, &item.bytes)
                    .map_err(nb::NbtreeError::from),
            };
            added.map_err(|error| index.damaged(tag, &error))?;
            child.as_mut().map(complete);
            if let Some((guard, meta)) = &mut meta {
                guard.mark_dirty();
                meta.store(&mut guard.page_mut());
            }
            self.log_item(page, child, meta, item)
        })
    }

    /// Logs that an item was put on a page.
    fn log_item(
        &mut self,
        page: &mut Locked,
        mut child: Option<Locked>,
        meta: Option<(Locked, Meta)>,
        item: &NewItem,
    ) -> Result<(), AccessError> {
        let mut data = Vec::new();
        let mut posting = item.posting.as_ref();
        let aio = self.backend.io.aio();
        forebay_aio::planted_bug!(aio, PostingSplitNotLogged, posting = None);
        let (info, tuple) = match (posting, &child, &meta) {
            (Some(split), ..) => {
                data.extend_from_slice(&split.index.to_le_bytes());
                (INSERT_POST, &split.original)
            }
            (None, None, _) => (INSERT_LEAF, &item.bytes),
            (None, Some(_), None) => (INSERT_UPPER, &item.bytes),
            (None, Some(_), Some(_)) => (INSERT_META, &item.bytes),
        };
        data.extend_from_slice(tuple);
        let main = BtreeInsert { offset: item.n }.encode();
        let new_meta = meta.as_ref().map(|(_, meta)| BtreeMeta(*meta).encode());
        let mut meta = meta.map(|(guard, _)| guard);
        let mut blocks = vec![block(0, page, CHANGED, &data)];
        blocks.extend(child.as_ref().map(|child| block(CHILD_BLOCK, child, CHANGED, &[])));
        let of_meta = meta.as_ref().zip(new_meta.as_ref());
        blocks.extend(of_meta.map(|(guard, data)| block(META_REFERENCE, guard, made(), data)));
        let lsn = self.index.log(self.backend, self.xid, info, &main, &blocks)?;
        set_lsn(lsn, std::iter::once(page).chain(&mut child).chain(&mut meta));
        Ok(())
    }

    /// Puts a link to the right half of a split on the parent, and unlocks both halves.
    fn insert_parent(
        &mut self,
        left: Locked,
        right: Locked,
        is_root: bool,
        was_alone: bool,
    ) -> Result<(), AccessError> {
        if is_root {
            return self.new_root(left, right);
        }
        let (left_block, right_block) = (left.tag().block, right.tag().block);
        let high_key = self.index.tuple(left.page(), left_block, HIGH_KEY)?;
        let mut bytes = high_key.bytes().to_vec();
        nb::set_down_link(&mut bytes, right_block);
        let level = self.index.opaque(left.page(), left_block)?.level + 1;
        let step = match self.path.pop() {
            Some(step) => step,
            None => self.leftmost_of(level)?,
        };
        let found = self.find_parent(step, left_block)?;
        // Unlocked only here: a vacuum that comes by must not find it without a parent and without
        // the mark of an incomplete split to its left.
        drop(right);
        let Some((parent, n)) = found else {
            let name = &self.index.shape.name;
            return Err(AccessError::CorruptIndex(format!(
                "failed to re-find parent key in index \"{name}\" for split pages \
                 {left_block}/{right_block}"
            )));
        };
        let item = NewItem { bytes, n: n + 1, posting: None };
        self.put(parent, Some(left), &item, was_alone)
    }

    /// The first page of a level. The path becomes the way there. For a split whose page was the
    /// root when the insertion came by, or whose page was found without a way.
    pub(super) fn leftmost_of(&mut self, level: u32) -> Result<Step, AccessError> {
        let key = SearchKey::of_values(Vec::new());
        let want = Descent { key: &key, level, to_insert: false };
        let path = &mut self.path;
        match self.index.descend(self.backend, want, path, |pin, _, _| Ok(pin.tag().block))? {
            Reached::Page(block) => Ok(Step { block, item: 0 }),
            Reached::Empty | Reached::Incomplete(_) => Err(self.index.fell_off()),
        }
    }

    /// Locks the page that leads to a child, and says by which item. It is at `step` or further
    /// right. None if there is none.
    pub(super) fn find_parent(
        &mut self,
        step: Step,
        child: BlockNumber,
    ) -> Result<Option<(Locked, OffsetNumber)>, AccessError> {
        let (mut at, mut start) = (step.block, step.item);
        let mut moves = Moves::default();
        loop {
            let page = self.index.lock(self.backend, at)?;
            let opaque = self.index.opaque(page.page(), at)?;
            if opaque.is_split_incomplete() {
                let path = self.path.clone();
                self.finish_split(page)?;
                self.path = path;
                continue;
            }
            if !opaque.is_ignored() {
                let (first, count) = (opaque.first_data_item(), page.page().item_count());
                let start = start.max(first).min(count + 1);
                for n in (start..=count).chain((first..start).rev()) {
                    if self.index.tuple(page.page(), at, n)?.down_link() == child {
                        return Ok(Some((page, n)));
                    }
                }
            }
            if opaque.is_rightmost() {
                return Ok(None);
            }
            moves.next(self.index, at)?;
            (at, start) = (opaque.next, 0);
        }
    }

    /// Completes a split that another insertion has begun. Unlocks the page.
    pub(super) fn finish_split(&mut self, left: Locked) -> Result<(), AccessError> {
        let block = left.tag().block;
        let opaque = self.index.opaque(left.page(), block)?;
        if !opaque.is_split_incomplete() {
            return Ok(());
        }
        if opaque.is_rightmost() {
            return Err(self.index.damaged(block, &"the right half of its split is missing"));
        }
        let right = self.index.lock(self.backend, opaque.next)?;
        let right_opaque = self.index.opaque(right.page(), opaque.next)?;
        let was_root =
            self.path.is_empty() && self.lock_meta()?.is_some_and(|(_, meta)| meta.root == block);
        let was_alone = opaque.is_leftmost() && right_opaque.is_rightmost();
        self.insert_parent(left, right, was_root, was_alone)
    }

    /// Makes a new root above the two halves of the old one. Unlocks both.
    fn new_root(&mut self, mut left: Locked, right: Locked) -> Result<(), AccessError> {
        let index = self.index;
        let (left_block, right_block) = (left.tag().block, right.tag().block);
        let level = index.opaque(left.page(), left_block)?.level + 1;
        let mut high_key = index.tuple(left.page(), left_block, HIGH_KEY)?.bytes().to_vec();
        nb::set_down_link(&mut high_key, right_block);
        let mut root = index.new_page(self.backend)?;
        let Some((mut meta_page, mut meta)) = self.lock_meta()? else {
            return Err(index.damaged(META_BLOCK, &"the tree has no root"));
        };
        let block_number = root.tag().block;
        (meta.root, meta.level) = (block_number, level);
        (meta.fast_root, meta.fast_level) = (block_number, level);
        let first = nb::minus_infinity(left_block);
        critical(index.failure.as_ref(), "could not make a new root of an index", || {
            root.mark_dirty();
            meta_page.mark_dirty();
            let opaque = Opaque { level, flags: ROOT, ..Opaque::default() };
            nb::init_page(&mut root.page_mut(), opaque);
            for item in [&first[..], &high_key] {
                nb::push_item(&mut root.page_mut(), item)
                    .map_err(|error| index.damaged(block_number, &error))?;
            }
            meta.store(&mut meta_page.page_mut());
            complete(&mut left);
            let main = BtreeNewRoot { root: block_number, level }.encode();
            let data = BtreeMeta(meta).encode();
            let blocks = [
                block(0, &root, made(), items_of(&root)),
                block(CHILD_BLOCK, &left, CHANGED, &[]),
                block(META_REFERENCE, &meta_page, made(), &data),
            ];
            let lsn = index.log(self.backend, self.xid, NEWROOT, &main, &blocks)?;
            set_lsn(lsn, [&mut root, &mut left, &mut meta_page]);
            Ok(())
        })?;
        index.known.set_root(None);
        Ok(())
    }

    /// Makes the first leaf of an empty index, unless another backend has made it meanwhile.
    pub(super) fn first_leaf(&mut self) -> Result<(), AccessError> {
        let index = self.index;
        let mut meta_page = index.lock(self.backend, META_BLOCK)?;
        let mut meta = index.meta(meta_page.page())?;
        if meta.root != META_BLOCK {
            return Ok(());
        }
        let mut root = index.new_page(self.backend)?;
        let block_number = root.tag().block;
        (meta.root, meta.level) = (block_number, 0);
        (meta.fast_root, meta.fast_level) = (block_number, 0);
        critical(index.failure.as_ref(), "could not make the root of an index", || {
            root.mark_dirty();
            meta_page.mark_dirty();
            let opaque = Opaque { flags: LEAF | ROOT, ..Opaque::default() };
            nb::init_page(&mut root.page_mut(), opaque);
            meta.store(&mut meta_page.page_mut());
            let main = BtreeNewRoot { root: block_number, level: 0 }.encode();
            let data = BtreeMeta(meta).encode();
            let meta_block = block(META_REFERENCE, &meta_page, made(), &data);
            let blocks = [block(0, &root, made(), &[]), meta_block];
            let lsn = index.log(self.backend, self.xid, NEWROOT, &main, &blocks)?;
            set_lsn(lsn, [&mut root, &mut meta_page]);
            Ok(())
        })
    }

    /// Locks the meta page. None if the index has no root.
    pub(super) fn lock_meta(&mut self) -> Result<Option<(Locked, Meta)>, AccessError> {
        let page = self.index.lock(self.backend, META_BLOCK)?;
        let meta = self.index.meta(page.page())?;
        Ok((meta.root != META_BLOCK).then_some((page, meta)))
    }
}

/// Notes on the left half of a split that its parent leads to the right half.
pub(super) fn complete(left: &mut Locked) {
    left.mark_dirty();
    let opaque = Opaque::of(left.page()).expect("the page was checked under this lock");
    assert!(opaque.is_split_incomplete(), "the split of {} is complete", left.tag());
    let flags = opaque.flags & !INCOMPLETE_SPLIT;
    Opaque { flags, ..opaque }.store(&mut left.page_mut());
}

pub(super) const fn aligned(size: usize) -> usize {
    (size + 7) & !7
}
