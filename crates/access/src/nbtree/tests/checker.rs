//! Checks the structure of an index: what holds whenever nobody changes it.

use std::cmp::Ordering;

use forebay_format::nbtree::{self as nb, HIGH_KEY, META_BLOCK, Meta, NO_SIBLING, Opaque, Tuple};
use forebay_format::{BlockNumber, ItemPointer, Page, PageBytes};
use forebay_storage::Backend;

use super::*;
use crate::nbtree::compare::values_of;

/// A row of an index: the stored values of its columns, and where it leads.
pub(crate) type Entry = (Vec<Option<Vec<u8>>>, ItemPointer);

/// The pages of an index.
pub(crate) struct Pages {
    pub(crate) shape: IndexShape,
    pub(crate) pages: Vec<PageBytes>,
}

/// What a level looks like.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) pages: usize,
    pub(crate) items: usize,
    pub(crate) lists: usize,
    pub(crate) incomplete: usize,
}

/// Reads all pages of an index.
pub(crate) fn pages_of(index: &Index, backend: &mut Backend) -> Pages {
    let blocks = index.pool.nblocks(index.locator, Fork::Main).unwrap();
    let read = |block| *index.read(backend, block).unwrap().lock_shared().copy();
    Pages { shape: (*index.shape).clone(), pages: (0..blocks).map(read).collect() }
}

/// All rows of an index in its order, from the structure of its pages.
pub(crate) fn entries(index: &Index, backend: &mut Backend) -> Vec<Entry> {
    pages_of(index, backend).check().1
}

impl Pages {
    pub(crate) fn page(&self, block: BlockNumber) -> Page<'_> {
        Page::new(&self.pages[block as usize])
    }

    pub(crate) fn opaque(&self, block: BlockNumber) -> Opaque {
        Opaque::of(self.page(block)).unwrap()
    }

    fn tuple(&self, block: BlockNumber, n: u16) -> Tuple<'_> {
        Tuple::new(nb::item(self.page(block), n).unwrap()).unwrap()
    }

    /// Checks all levels from the root down. Returns what they look like, the leaves last, and all
    /// rows in their order.
    pub(crate) fn check(&self) -> (Vec<Level>, Vec<Entry>) {
        let meta = Meta::of(self.page(META_BLOCK)).unwrap();
        let (mut levels, mut rows) = (Vec::new(), Vec::new());
        if meta.root == META_BLOCK {
            return (levels, rows);
        }
        assert!(self.opaque(meta.root).is_root());
        assert!(meta.fast_level <= meta.level);
        let mut first = meta.root;
        let mut wanted: Option<Vec<BlockNumber>> = Some(vec![meta.root]);
        for level in (0..=meta.level).rev() {
            let (found, blocks, children) = self.check_level(first, level);
            self.check_parents(&blocks, wanted.take());
            if level == meta.fast_level {
                assert_eq!(blocks, [meta.fast_root], "the fast root is alone on its level");
            }
            if level == 0 {
                blocks.iter().for_each(|&block| self.rows_of(block, &mut rows));
            } else {
                first = children[0];
                wanted = Some(children);
            }
            levels.push(found);
        }
        (levels, rows)
    }

    /// Every page of a level has a parent, but for the right halves of incomplete splits.
    fn check_parents(&self, blocks: &[BlockNumber], wanted: Option<Vec<BlockNumber>>) {
        let mut incomplete = false;
        let with_parent: Vec<BlockNumber> = blocks
            .iter()
            .copied()
            .filter(|&block| {
                let right_half = incomplete;
                incomplete = self.opaque(block).is_split_incomplete();
                !right_half
            })
            .collect();
        assert_eq!(Some(with_parent), wanted, "the parents' links");
    }

    /// Checks the pages of a level. Returns their blocks, and those that they lead to.
    fn check_level(
        &self,
        first: BlockNumber,
        level: u32,
    ) -> (Level, Vec<BlockNumber>, Vec<BlockNumber>) {
        let mut found = Level::default();
        let (mut blocks, mut children) = (Vec::new(), Vec::new());
        let (mut block, mut before) = (first, NO_SIBLING);
        loop {
            let opaque = self.opaque(block);
            assert_eq!((opaque.prev, opaque.level), (before, level), "block {block}");
            assert_eq!(opaque.is_leaf(), level == 0);
            assert!(!opaque.is_ignored());
            self.check_order(block);
            found.pages += 1;
            found.incomplete += usize::from(opaque.is_split_incomplete());
            for n in opaque.first_data_item()..=self.page(block).item_count() {
                let tuple = self.tuple(block, n);
                found.items += 1;
                found.lists += usize::from(tuple.is_posting());
                assert_eq!(tuple.is_pivot(), level > 0);
                if level > 0 {
                    children.push(tuple.down_link());
                    self.check_child(block, n);
                }
            }
            blocks.push(block);
            if opaque.is_rightmost() {
                return (found, blocks, children);
            }
            (before, block) = (block, opaque.next);
        }
    }

    /// The items of a page ascend, and its high key bounds them.
    fn check_order(&self, block: BlockNumber) {
        let opaque = self.opaque(block);
        let count = self.page(block).item_count();
        let first = opaque.first_data_item();
        if !opaque.is_leaf() {
            assert!(first <= count, "block {block} has no children");
            assert_eq!(self.tuple(block, first).column_count(self.shape.layouts.len()), 0);
        }
        let begin = if opaque.is_leaf() { first } else { first + 1 };
        for n in begin..=count {
            let tuple = self.tuple(block, n);
            assert!(tuple.heap_tids().is_sorted_by(|a, b| a < b));
            if n > begin {
                let before = self.tuple(block, n - 1);
                assert_eq!(self.order(&before, &tuple), Ordering::Less, "block {block} item {n}");
            }
            if !opaque.is_rightmost() {
                let high = self.order(&tuple, &self.tuple(block, HIGH_KEY));
                let bounded = if opaque.is_leaf() { high.is_le() } else { high.is_lt() };
                assert!(bounded, "block {block} item {n} and the high key");
            }
        }
    }

    /// The key of an item is less than all keys below it; the high key of its child is the key of
    /// the next item.
    fn check_child(&self, block: BlockNumber, n: u16) {
        let item = self.tuple(block, n);
        let child = item.down_link();
        let opaque = self.opaque(child);
        let (first, count) = (opaque.first_data_item(), self.page(child).item_count());
        let begin = if opaque.is_leaf() { first } else { first + 1 };
        if begin <= count && item.column_count(self.shape.layouts.len()) > 0 {
            let order = self.order(&item, &self.tuple(child, begin));
            assert_eq!(order, Ordering::Less, "item {n} of block {block} and its child");
        }
        if opaque.is_split_incomplete() || n == self.page(block).item_count() {
            return;
        }
        let (high, next) = (self.tuple(child, HIGH_KEY), self.tuple(block, n + 1));
        assert_eq!(high.bytes()[4..], next.bytes()[4..], "item {n} of block {block}");
    }

    /// Orders two tuples. What a pivot leaves out is less than any value.
    fn order(&self, a: &Tuple<'_>, b: &Tuple<'_>) -> Ordering {
        let keys = self.shape.keys.len();
        let [ours, theirs] = [a, b].map(|t| values_of(&self.shape.layouts, t, keys).unwrap());
        for (key, (ours, theirs)) in self.shape.keys.iter().zip(ours.iter().zip(&theirs)) {
            let order = key.compare(ours.as_deref(), theirs.as_deref()).unwrap();
            if order != Ordering::Equal {
                return order;
            }
        }
        let last = (ours.len(), a.max_heap_tid());
        last.cmp(&(theirs.len(), b.heap_tid()))
    }

    fn rows_of(&self, block: BlockNumber, rows: &mut Vec<Entry>) {
        let opaque = self.opaque(block);
        for n in opaque.first_data_item()..=self.page(block).item_count() {
            if nb::is_killed(self.page(block), n) {
                continue;
            }
            let tuple = self.tuple(block, n);
            let columns = self.shape.layouts.len();
            let values = values_of(&self.shape.layouts, &tuple, columns).unwrap();
            let values: Vec<_> =
                values.into_iter().map(|value| value.map(|bytes| bytes.into_owned())).collect();
            rows.extend(tuple.heap_tids().map(|tid| (values.clone(), tid)));
        }
    }
}
