//! One page of a B-tree: its header, its special space, its items and their order.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Ordering;

use forebay_format::nbtree::{
    self as nb, DELETED, HALF_DEAD, HIGH_KEY, INCOMPLETE_SPLIT, LEAF, MAX_ITEM_SIZE,
    MAX_ITEM_SIZE_NO_HEAP_TID, META, META_BLOCK, Meta, Opaque, ROOT, Tuple,
};
use forebay_format::{BlockNumber, ItemPointer, OffsetNumber, Page};

use super::entries::{Candidate, Entry};
use super::shape::BtreeShape;
use crate::check::finding::Report;

/// What the check remembers of a page until it has read all of them.
#[derive(Clone, Debug, Default)]
pub(super) enum PageFacts {
    /// It was not read, or is damaged.
    #[default]
    Unknown,
    /// It was never used, or is deleted.
    Unused,
    Meta(Meta),
    Tree(Box<TreePage>),
}

/// A page of the tree, half-dead ones included.
#[derive(Clone, Debug)]
pub(super) struct TreePage {
    pub opaque: Opaque,
    /// The high key, if there is one with columns.
    pub high: Option<Box<[u8]>>,
    /// The first item with columns.
    pub first: Option<(OffsetNumber, Box<[u8]>)>,
    /// Above the leaves: the children, with the keys that bound them from below.
    pub children: Vec<Child>,
    /// Of a half-dead leaf: the highest page of the branch that is being deleted.
    pub top_parent: Option<BlockNumber>,
}

#[derive(Clone, Debug)]
pub(super) struct Child {
    pub item: OffsetNumber,
    pub block: BlockNumber,
    pub key: Box<[u8]>,
}

/// What of a leaf concerns the rows of the table.
#[derive(Default)]
pub(super) struct LeafRows {
    pub entries: Vec<Entry>,
    pub candidates: Vec<Candidate>,
}

/// Checks pages of one index.
pub(super) struct PageCheck<'a, 's> {
    pub shape: &'a BtreeShape,
    pub block: BlockNumber,
    pub page: Page<'a>,
    pub report: &'a mut Report<'s>,
}

impl<'a> PageCheck<'a, '_> {
    /// Checks the page. Its rows go to `rows`, if they are wanted.
    pub(super) fn run(&mut self, rows: Option<&mut LeafRows>) -> PageFacts {
        let opaque = match Opaque::of(self.page) {
            Ok(opaque) => opaque,
            Err(error) => return self.unknown(&error),
        };
        if (self.block == META_BLOCK) != opaque.has(META) {
            return self.unknown(&"only block 0 can be a meta page, and it must be one");
        }
        if opaque.has(META) {
            return match Meta::of(self.page) {
                Ok(meta) => PageFacts::Meta(meta),
                Err(error) => self.unknown(&error),
            };
        }
        if opaque.has(DELETED) {
            if let Err(error) = nb::safe_xid(self.page) {
                self.report.say(error.to_string());
            }
            return PageFacts::Unused;
        }
        if opaque.is_leaf() != (opaque.level == 0) {
            let kind = if opaque.is_leaf() { "leaf" } else { "internal" };
            return self.unknown(&format_args!("{kind} page has level {}", opaque.level));
        }
        if opaque.next == self.block || opaque.prev == self.block {
            return self.unknown(&"page is its own sibling");
        }
        if opaque.cycle_id > nb::MAX_CYCLE_ID {
            self.report.say(format!("page has invalid vacuum cycle id {}", opaque.cycle_id));
        }
        if opaque.has(HALF_DEAD) {
            return self.half_dead(opaque);
        }
        self.tree_page(opaque, rows)
    }

    fn unknown(&mut self, why: &dyn std::fmt::Display) -> PageFacts {
        self.report.say(why.to_string());
        PageFacts::Unknown
    }

    fn half_dead(&mut self, opaque: Opaque) -> PageFacts {
        if opaque.flags & (LEAF | ROOT | INCOMPLETE_SPLIT) != LEAF {
            self.report.say(format!("half-dead page has flags {:#06x}", opaque.flags));
        }
        if opaque.is_rightmost() {
            self.report.say("half-dead page is the last one of its level");
        }
        if self.page.item_count() != HIGH_KEY {
            let items = self.page.item_count();
            self.report.say(format!("half-dead page has {items} items instead of its high key"));
        }
        let top_parent = self.tuple(HIGH_KEY).and_then(|high| high.top_parent());
        let (high, first, children) = (None, None, Vec::new());
        PageFacts::Tree(Box::new(TreePage { opaque, high, first, children, top_parent }))
    }

    fn tree_page(&mut self, opaque: Opaque, mut rows: Option<&mut LeafRows>) -> PageFacts {
        let (count, first) = (self.page.item_count(), opaque.first_data_item());
        let mut facts =
            TreePage { opaque, high: None, first: None, children: Vec::new(), top_parent: None };
        if opaque.has(ROOT) && !(opaque.is_leftmost() && opaque.is_rightmost()) {
            self.report.say("root page has siblings");
        }
        if usize::from(count) > nb::MAX_ITEMS {
            return self.unknown(&format_args!("page has {count} items"));
        }
        let mut high = None;
        if !opaque.is_rightmost() {
            high = self.high_key(count);
        }
        if !opaque.is_leaf() && count < first {
            self.report.say("internal page leads to no child");
        }
        facts.high = high.map(|tuple| tuple.bytes().into());
        let mut before: Option<Tuple<'_>> = None;
        let mut last_key = None;
        for n in first..=count {
            let Some(tuple) = self.tuple(n) else {
                before = None;
                continue;
            };
            if !self.has_right_columns(&opaque, n, &tuple) {
                before = None;
                continue;
            }
            let has_key = opaque.is_leaf() || n > first;
            if has_key {
                self.order(n, (before.as_ref(), &tuple), high.as_ref(), opaque.is_leaf());
                if facts.first.is_none() {
                    facts.first = key_of(&tuple).map(|key| (n, key));
                }
            }
            if !opaque.is_leaf() {
                let (block, key) = (tuple.down_link(), tuple.bytes().into());
                facts.children.push(Child { item: n, block, key });
            } else if let Some(rows) = rows.as_deref_mut() {
                let is_end = n == first || n == count;
                last_key = self.leaf_rows(n, (before.as_ref(), &tuple), last_key, is_end, rows);
            }
            before = has_key.then_some(tuple);
        }
        PageFacts::Tree(Box::new(facts))
    }

    fn high_key(&mut self, count: OffsetNumber) -> Option<Tuple<'a>> {
        if count < HIGH_KEY {
            self.report.say("page has a right sibling but no high key");
            return None;
        }
        let high = self.tuple(HIGH_KEY)?;
        let columns = high.column_count(self.shape.keys);
        if high.is_pivot() && (1..=self.shape.keys).contains(&columns) {
            return Some(high);
        }
        self.report.at(HIGH_KEY);
        self.report.say(format!("high key has {columns} columns, or points to rows"));
        None
    }

    /// An item, if it can be read.
    fn tuple(&mut self, n: OffsetNumber) -> Option<Tuple<'a>> {
        self.report.at(n);
        let read = nb::item(self.page, n).map_err(nb::NbtreeError::from);
        let read = read.and_then(|bytes| Ok((bytes.len(), Tuple::new(bytes)?)));
        let (len, tuple) = match read {
            Ok(read) => read,
            Err(error) => {
                self.report.say(error.to_string());
                return None;
            }
        };
        if tuple.size() != len {
            let size = tuple.size();
            self.report.say(format!(
                "index tuple size does not equal lp_len: tuple size {size}, lp_len {len}"
            ));
        }
        let most = if tuple.is_pivot() { MAX_ITEM_SIZE_NO_HEAP_TID } else { MAX_ITEM_SIZE };
        if tuple.size() > most {
            let size = tuple.size();
            self.report.say(format!("index row size {size} exceeds maximum {most}"));
        }
        Some(tuple)
    }

    /// Whether a data item has the columns that it must have.
    fn has_right_columns(&mut self, opaque: &Opaque, n: OffsetNumber, tuple: &Tuple<'_>) -> bool {
        let columns = tuple.column_count(self.shape.keys);
        let least = usize::from(n != opaque.first_data_item());
        let right = if opaque.is_leaf() {
            !tuple.is_pivot()
        } else {
            let most = self.shape.keys * least;
            tuple.is_pivot() && (least..=most).contains(&columns)
        };
        if !right {
            let kind = if opaque.is_leaf() { "leaf" } else { "internal" };
            self.report.say(format!(
                "wrong number of index tuple attributes: {columns} on {kind} page, pivot: {}",
                tuple.is_pivot()
            ));
            return false;
        }
        if opaque.is_leaf() {
            let mut tids = tuple.heap_tids();
            if tuple.heap_tids().any(|tid| tid.offset == 0) {
                self.report.say("index tuple has an invalid heap TID");
            }
            if !tids.by_ref().is_sorted_by(|a, b| a < b) {
                self.report.say("posting list contains misplaced TID");
            }
        }
        true
    }

    /// Compares an item with the one before it and with the high key.
    fn order(
        &mut self,
        n: OffsetNumber,
        (before, tuple): (Option<&Tuple<'_>>, &Tuple<'_>),
        high: Option<&Tuple<'_>>,
        is_leaf: bool,
    ) {
        let mut compare = |a: &Tuple<'_>, b: &Tuple<'_>| match self.shape.compare(a, b) {
            Ok(order) => order,
            Err(error) => {
                self.report.say(error.to_string());
                None
            }
        };
        let order = before.and_then(|before| compare(before, tuple));
        let bound = high.and_then(|high| compare(tuple, high));
        if order.is_some_and(|order| order != Ordering::Less) {
            self.report.say(format!("item order invariant violated: not above item {}", n - 1));
        }
        let is_beyond = match bound {
            Some(Ordering::Greater) => true,
            Some(Ordering::Equal) => !is_leaf,
            _ => false,
        };
        if is_beyond {
            self.report.say("high key invariant violated: the item is not below the high key");
        }
    }

    /// Notes the rows of an item, and whether its key may be there several times. `last_key` is
    /// that of the item before; returns that of this one.
    fn leaf_rows(
        &mut self,
        n: OffsetNumber,
        (before, tuple): (Option<&Tuple<'_>>, &Tuple<'_>),
        last_key: Option<u64>,
        is_end: bool,
        rows: &mut LeafRows,
    ) -> Option<u64> {
        let (key, hash) = match self.shape.hashes(tuple) {
            Ok(hashes) => hashes,
            Err(error) => {
                self.report.say(error.to_string());
                return None;
            }
        };
        let block = self.block;
        rows.entries.extend(tuple.heap_tids().map(|tid| Entry::new(tid, block, n, hash)));
        let key = key.filter(|_| self.shape.unique)?;
        let mut add = |key: u64, tids: &mut dyn Iterator<Item = ItemPointer>| {
            rows.candidates.extend(tids.map(|tid| Candidate { key, tid, block, item: n }));
        };
        let repeated = before.is_some_and(|before| {
            last_key.is_some() && self.shape.have_equal_keys(before, tuple).unwrap_or(false)
        });
        // Equal values may differ in their bytes.
        let key = last_key.filter(|_| repeated).unwrap_or(key);
        if let (true, Some(before)) = (repeated, before) {
            add(key, &mut before.heap_tids());
        }
        if repeated || is_end || tuple.is_posting() {
            add(key, &mut tuple.heap_tids());
        }
        Some(key)
    }
}

/// A tuple of the tree without all heap TIDs but the first.
fn key_of(tuple: &Tuple<'_>) -> Option<Box<[u8]>> {
    if !tuple.is_posting() {
        return Some(tuple.bytes().into());
    }
    let first = tuple.heap_tid()?;
    Some(nb::form_posting(tuple, &[first]).ok()?.into())
}
