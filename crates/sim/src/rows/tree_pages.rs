//! Checks a B-tree on the disk: its levels, the links between its pages, and where its items lead.
//!
//! A crash may leave splits whose right half has no parent yet, and branches that have no parent
//! any more. The order of keys is not checked here.

use std::collections::BTreeSet;
use std::path::Path;

use forebay_format::nbtree::{self as nb, HALF_DEAD, HIGH_KEY, META_BLOCK, Meta, NO_SIBLING};
use forebay_format::nbtree::{DELETED, Opaque, Tuple};
use forebay_format::page::ItemState;
use forebay_format::{
    BLOCK_SIZE, BlockNumber, Fork, HeapTuple, ItemPointer, OffsetNumber, Page, PageBytes,
    RelFileLocator,
};

use crate::disk::SimDisk;

/// An index and its table.
struct Tree<'a> {
    pages: &'a [PageBytes],
    heap: &'a [PageBytes],
}

/// Checks the pages of an index of a table.
pub(super) fn check_tree(
    disk: &SimDisk,
    dir: &Path,
    index: RelFileLocator,
    table: RelFileLocator,
) -> Result<(), String> {
    let file = |rel: RelFileLocator| disk.bytes(&dir.join(rel.path(Fork::Main)));
    let [index, heap] = [index, table].map(|rel| file(rel).unwrap_or_default());
    let (pages, heap) = (index.as_chunks::<BLOCK_SIZE>().0, heap.as_chunks::<BLOCK_SIZE>().0);
    Tree { pages, heap }.check()
}

impl<'a> Tree<'a> {
    fn page(&self, block: BlockNumber) -> Result<Page<'a>, String> {
        let page = self.pages.get(block as usize).map(Page::new);
        page.ok_or_else(|| format!("there is no block {block}"))
    }

    fn opaque(&self, block: BlockNumber) -> Result<Opaque, String> {
        Opaque::of(self.page(block)?).map_err(|error| format!("block {block}: {error}"))
    }

    fn tuple(&self, block: BlockNumber, n: OffsetNumber) -> Result<Tuple<'a>, String> {
        let item = nb::item(self.page(block)?, n).map_err(nb::NbtreeError::from);
        let tuple = item.and_then(Tuple::new);
        tuple.map_err(|error| format!("block {block}, item {n}: {error}"))
    }

    /// The items of a page without its high key.
    fn items(&self, block: BlockNumber) -> Result<Vec<Tuple<'a>>, String> {
        let (first, last) = (self.opaque(block)?.first_data_item(), self.page(block)?.item_count());
        (first..=last).map(|n| self.tuple(block, n)).collect()
    }

    fn check(&self) -> Result<(), String> {
        let meta = Meta::of(self.page(META_BLOCK)?).map_err(|error| error.to_string())?;
        let mut used = BTreeSet::from([META_BLOCK]);
        if meta.root != META_BLOCK {
            let without_parent = self.without_parent()?;
            let mut children = vec![meta.root];
            for level in (0..=meta.level).rev() {
                let blocks = self.level(children[0], level)?;
                if level == meta.fast_level && blocks[0] != meta.fast_root {
                    let root = meta.fast_root;
                    return Err(format!(
                        "the fast root, block {root}, is not the first of {blocks:?}"
                    ));
                }
                self.check_parents(&blocks, &children, &without_parent)?;
                if level == 0 {
                    self.check_rows(&blocks)?;
                } else {
                    children = self.children(&blocks)?;
                }
                used.extend(blocks);
            }
        }
        for block in (0..self.pages.len() as BlockNumber).filter(|block| !used.contains(block)) {
            if !self.page(block)?.is_new() && !self.opaque(block)?.has(DELETED) {
                return Err(format!("nothing leads to block {block}"));
            }
        }
        Ok(())
    }

    /// The highest pages of branches that are being deleted.
    fn without_parent(&self) -> Result<BTreeSet<BlockNumber>, String> {
        let mut found = BTreeSet::new();
        for block in 1..self.pages.len() as BlockNumber {
            if !self.page(block)?.is_new() && self.opaque(block)?.has(HALF_DEAD) {
                found.insert(self.tuple(block, HIGH_KEY)?.top_parent().unwrap_or(block));
            }
        }
        Ok(found)
    }

    /// The blocks of a level from left to right. `known` is one of them.
    fn level(&self, known: BlockNumber, level: u32) -> Result<Vec<BlockNumber>, String> {
        let mut block = known;
        let mut steps = 0;
        while !self.opaque(block)?.is_leftmost() && steps < self.pages.len() {
            (block, steps) = (self.opaque(block)?.prev, steps + 1);
        }
        let (mut blocks, mut before) = (Vec::new(), NO_SIBLING);
        while blocks.len() < self.pages.len() {
            let opaque = self.opaque(block)?;
            let found = (opaque.prev, opaque.level, opaque.is_leaf(), opaque.has(DELETED));
            if found != (before, level, level == 0, false) {
                return Err(format!("block {block} on level {level}, behind {before}: {opaque:?}"));
            }
            blocks.push(block);
            if opaque.is_rightmost() {
                return Ok(blocks);
            }
            (before, block) = (block, opaque.next);
        }
        Err(format!("level {level} has a circle: {blocks:?}"))
    }

    fn children(&self, blocks: &[BlockNumber]) -> Result<Vec<BlockNumber>, String> {
        let mut children = Vec::new();
        for &block in blocks {
            let items = self.items(block)?;
            if items.is_empty() {
                return Err(format!("block {block} has no children"));
            }
            children.extend(items.iter().map(Tuple::down_link));
        }
        Ok(children)
    }

    /// Every page of a level has a parent, but for right halves of incomplete splits and branches
    /// that are being deleted.
    fn check_parents(
        &self,
        blocks: &[BlockNumber],
        children: &[BlockNumber],
        without_parent: &BTreeSet<BlockNumber>,
    ) -> Result<(), String> {
        let mut expected = Vec::new();
        let mut is_right_half = false;
        for &block in blocks {
            if !is_right_half && !without_parent.contains(&block) {
                expected.push(block);
            }
            is_right_half = self.opaque(block)?.is_split_incomplete();
        }
        match expected == children {
            true => Ok(()),
            false => Err(format!("the parents of {expected:?} lead to {children:?}")),
        }
    }

    /// No two items of the leaves lead to one row, equal ones are in the order of their rows, and
    /// each of them leads to the beginning of a chain of versions.
    fn check_rows(&self, leaves: &[BlockNumber]) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        let mut last: Option<(&[u8], ItemPointer)> = None;
        for &block in leaves {
            if self.opaque(block)?.has(HALF_DEAD) {
                continue;
            }
            for tuple in self.items(block)? {
                let key = tuple.bytes().get(8..tuple.key_size()).unwrap_or_default();
                for tid in tuple.heap_tids() {
                    if !seen.insert(tid) {
                        return Err(format!("block {block}: {tid} is there twice"));
                    }
                    if let Some((_, before)) = last.filter(|last| last.0 == key && last.1 > tid) {
                        return Err(format!("block {block}: {before} before {tid}"));
                    }
                    if !self.is_row(tid) {
                        return Err(format!("block {block}: there is no row at {tid}"));
                    }
                    last = Some((key, tid));
                }
            }
        }
        Ok(())
    }

    /// Whether a line pointer of the table is in use, and not by a heap-only tuple.
    fn is_row(&self, tid: ItemPointer) -> bool {
        let Some(page) = self.heap.get(tid.block as usize).map(Page::new) else { return false };
        match page.item_id(tid.offset).map(|id| id.state) {
            None | Some(ItemState::Unused) => false,
            Some(ItemState::Normal) => {
                let tuple = page.item(tid.offset).and_then(|bytes| HeapTuple::new(bytes).ok());
                tuple.is_some_and(|tuple| !tuple.is_heap_only())
            }
            Some(_) => true,
        }
    }
}
