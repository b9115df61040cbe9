//! How the pages of a B-tree hang together: levels, siblings, the parents' links to their children.
//!
//! ```text
//!   parent:    | -inf ▼ A | k1 ▼ B | k2 ▼ C |            k1 is the high key of A
//!   children:  A (high key k1) ⇄ B (high key k2) ⇄ C     all keys of B are greater than k1
//! ```
//!
//! A page without a link from a parent is the right half of an incomplete split, half-dead, or the
//! highest page of a branch that is being deleted.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashSet;

use forebay_format::nbtree::{HALF_DEAD, META_BLOCK, Meta, NO_SIBLING, Tuple};
use forebay_format::{BlockNumber, Fork, OffsetNumber};

use super::page::{Child, PageFacts, TreePage};
use super::shape::BtreeShape;
use crate::check::finding::{Finding, Report};

/// Bytes of a pivot that lead to its child; the others are its key.
const CHILD: usize = 4;

/// More pages than are being deleted beside each other.
const HALF_DEAD_IN_A_ROW: usize = 1000;

/// Checks the pages of an index. Returns whether all pages of the tree could be read.
pub(super) fn check_tree(
    shape: &BtreeShape,
    pages: &[PageFacts],
    sink: &mut dyn FnMut(Finding),
) -> bool {
    let leaving = pages.iter().filter_map(|page| match page {
        PageFacts::Tree(page) => page.top_parent,
        _ => None,
    });
    let leaving: HashSet<BlockNumber> = leaving.collect();
    let parents = vec![NO_SIBLING; pages.len()];
    let branches = HashSet::new();
    let mut check = TreeCheck { shape, pages, leaving, branches, parents, complete: true, sink };
    check.find_branches();
    for page in pages {
        check.complete &= !matches!(page, PageFacts::Unknown);
    }
    let meta = match pages.first() {
        Some(PageFacts::Meta(meta)) => meta,
        Some(PageFacts::Unknown) => return false,
        _ => {
            check.say(META_BLOCK, None, "index has no meta page".to_owned());
            return false;
        }
    };
    check.meta(meta);
    for (block, page) in check.numbered() {
        check.siblings(block, page);
    }
    for (block, page) in check.numbered() {
        check.children(block, page);
    }
    for (block, page) in check.numbered() {
        check.parent(block, page, meta);
    }
    check.complete
}

struct TreeCheck<'a, 's> {
    shape: &'a BtreeShape,
    pages: &'a [PageFacts],
    /// The highest pages of branches that are being deleted.
    leaving: HashSet<BlockNumber>,
    /// All pages above the leaves of such branches. Their keys went to the right.
    branches: HashSet<BlockNumber>,
    /// For each page the one that leads to it.
    parents: Vec<BlockNumber>,
    complete: bool,
    sink: &'s mut dyn FnMut(Finding),
}

impl<'a> TreeCheck<'a, '_> {
    fn numbered(&self) -> impl Iterator<Item = (BlockNumber, &'a TreePage)> + use<'a> {
        (0..).zip(self.pages).filter_map(|(block, page)| match page {
            PageFacts::Tree(page) => Some((block, &**page)),
            _ => None,
        })
    }

    fn page(&self, block: BlockNumber) -> Option<&'a TreePage> {
        match self.pages.get(usize::try_from(block).ok()?)? {
            PageFacts::Tree(page) => Some(page),
            _ => None,
        }
    }

    /// Each page of a branch has one child, down to the half-dead leaf.
    fn find_branches(&mut self) {
        for &top in &self.leaving {
            let mut next = Some(top);
            while let Some(block) = next
                && let Some(page) = self.page(block)
                && !page.opaque.is_leaf()
                && self.branches.insert(block)
            {
                next = page.children.first().map(|child| child.block);
            }
        }
    }

    /// Whether a page has no keys of its own any more, as it is being deleted.
    fn has_lost_keys(&self, block: BlockNumber) -> bool {
        self.branches.contains(&block)
            || self.page(block).is_some_and(|page| page.opaque.has(HALF_DEAD))
    }

    /// Whether a page exists, but could not be read, so that nothing is known of it.
    fn is_unknown(&self, block: BlockNumber) -> bool {
        matches!(self.pages.get(block as usize), Some(PageFacts::Unknown))
    }

    fn say(&mut self, block: BlockNumber, item: Option<OffsetNumber>, message: String) {
        let mut report = Report::new(Fork::Main, block, self.sink);
        if let Some(item) = item {
            report.at(item);
        }
        report.say(message);
    }

    fn meta(&mut self, meta: &Meta) {
        if meta.root == NO_SIBLING {
            if self.numbered().next().is_some() {
                self.say(META_BLOCK, None, "index has pages but no root".to_owned());
            }
            return;
        }
        for (what, block, level, is_root) in [
            ("root", meta.root, meta.level, true),
            ("fast root", meta.fast_root, meta.fast_level, false),
        ] {
            if self.is_unknown(block) {
                continue;
            }
            let page = self.page(block).filter(|page| !page.opaque.is_ignored());
            let Some(page) = page else {
                self.complete = false;
                let message = format!("{what} block {block} is not a page of the tree");
                self.say(META_BLOCK, None, message);
                continue;
            };
            let found = page.opaque.level;
            if found != level {
                let message = format!("{what} block {block} has level {found} instead of {level}");
                self.say(META_BLOCK, None, message);
            }
            // Its split has not made a new root yet.
            if page.opaque.is_split_incomplete() {
                continue;
            }
            if is_root && !page.opaque.is_root() {
                self.say(META_BLOCK, None, format!("{what} block {block} is not marked as root"));
            }
            if !page.opaque.is_leftmost() || !page.opaque.is_rightmost() {
                self.say(META_BLOCK, None, format!("{what} block {block} has siblings"));
            }
        }
        if meta.fast_level > meta.level {
            self.say(META_BLOCK, None, "fast root lies above the root".to_owned());
        }
    }

    /// Checks the links of a page to its siblings, and that they have its level.
    fn siblings(&mut self, block: BlockNumber, page: &TreePage) {
        let links = [("left", page.opaque.prev), ("right", page.opaque.next)];
        for (side, other) in links.into_iter().filter(|(_, other)| *other != NO_SIBLING) {
            if self.is_unknown(other) {
                continue;
            }
            let Some(sibling) = self.page(other) else {
                self.complete = false;
                let what = "is not a page of the tree";
                self.say(block, None, format!("{side} link leads to block {other}, which {what}"));
                continue;
            };
            let opaque = &sibling.opaque;
            if opaque.level != page.opaque.level {
                self.say(
                    block,
                    None,
                    format!("{side} sibling, block {other}, has level {}", opaque.level),
                );
            }
            let back = if side == "left" { opaque.next } else { opaque.prev };
            if back != block {
                self.say(
                    block,
                    None,
                    format!(
                        "left link/right link pair in index not in agreement: the {side} sibling, \
                         block {other}, leads to block {back}"
                    ),
                );
            }
        }
        self.lower_bound(block, page);
    }

    /// The keys of a page are greater than the high key of the page to the left. One that is being
    /// deleted does not count: its keys belong to this one now, which may have got smaller ones
    /// since.
    fn lower_bound(&mut self, block: BlockNumber, page: &TreePage) {
        let Some((item, first)) = &page.first else { return };
        let mut left = page.opaque.prev;
        // There are few in a row.
        for _ in 0..HALF_DEAD_IN_A_ROW {
            match self.page(left) {
                Some(page) if self.has_lost_keys(left) => left = page.opaque.prev,
                _ => break,
            }
        }
        let Some(high) = self.page(left).and_then(|left| left.high.as_deref()) else { return };
        let (Ok(first), Ok(high)) = (Tuple::new(first), Tuple::new(high)) else { return };
        match self.shape.compare(&high, &first) {
            Ok(Some(order)) if order.is_ge() => self.say(
                block,
                Some(*item),
                format!(
                    "cross page item order invariant violated: not above the high key of block \
                     {left}"
                ),
            ),
            // Damaged values were told with their pages.
            _ => {}
        }
    }

    /// Checks the children of a page: what lies between two of them, and their high keys.
    fn children(&mut self, block: BlockNumber, page: &'a TreePage) {
        let right = self.page(page.opaque.next);
        let beyond = right.and_then(|page| page.children.first()).map(|child| child.block);
        let ends = page.children.iter().skip(1).map(|next| (Some(next.block), Some(&*next.key)));
        let ends = ends.chain([(beyond, page.high.as_deref())]);
        for (child, (next, key)) in page.children.iter().zip(ends) {
            if !self.child(block, page, child) {
                continue;
            }
            // The page to the right could not be read.
            if next.is_none() && !page.opaque.is_rightmost() {
                continue;
            }
            self.between((block, child), next, key);
        }
    }

    /// Checks where an item leads to. Returns whether that is known.
    fn child(&mut self, block: BlockNumber, page: &TreePage, child: &Child) -> bool {
        if self.is_unknown(child.block) {
            return false;
        }
        let at = Some(child.item);
        let Some(below) = self.page(child.block) else {
            self.complete = false;
            let message =
                format!("downlink leads to block {}, which is not a page of the tree", child.block);
            self.say(block, at, message);
            return false;
        };
        if below.opaque.level.checked_add(1) != Some(page.opaque.level) {
            let (level, own) = (below.opaque.level, page.opaque.level);
            self.say(
                block,
                at,
                format!(
                    "downlink leads to block {} of level {level} from level {own}",
                    child.block
                ),
            );
            return false;
        }
        let Some(parent) = self.parents.get_mut(child.block as usize) else { return false };
        let other = std::mem::replace(parent, block);
        if other != NO_SIBLING {
            self.say(
                block,
                at,
                format!(
                    "downlink leads to block {}, and so does another one, in block {other}",
                    child.block
                ),
            );
            return false;
        }
        true
    }

    /// Follows the right links from a child to the next one to which a parent leads. Pages between
    /// have no parent. The last high key before the next one is `key`.
    fn between(
        &mut self,
        (block, child): (BlockNumber, &Child),
        next: Option<BlockNumber>,
        key: Option<&[u8]>,
    ) {
        let at = Some(child.item);
        let mut current = child.block;
        let mut high = None;
        for _ in 0..=self.pages.len() {
            let Some(page) = self.page(current) else { return };
            let leaves = page.opaque.has(HALF_DEAD) || self.leaving.contains(&current);
            if !leaves || current == child.block {
                high = page.high.as_deref();
            }
            let right = page.opaque.next;
            if right == next.unwrap_or(NO_SIBLING) {
                let [high, key] = [high, key].map(|key| key.and_then(|key| key.get(CHILD..)));
                let dead = self.page(child.block).is_some_and(|page| page.opaque.has(HALF_DEAD));
                if high != key && !dead {
                    self.say(
                        block,
                        at,
                        format!(
                            "child high key is not equal to the next key of its parent: block {}",
                            child.block
                        ),
                    );
                }
                return;
            }
            let goes = |block| {
                self.leaving.contains(&block)
                    || self.page(block).is_none_or(|page| page.opaque.has(HALF_DEAD))
            };
            if right == NO_SIBLING || !(page.opaque.is_split_incomplete() || leaves || goes(right))
            {
                let wanted = next.map_or("none".to_owned(), |next| format!("block {next}"));
                self.say(
                    block,
                    at,
                    format!(
                        "right sibling of block {current} is block {right}, and the next child is \
                         {wanted}"
                    ),
                );
                return;
            }
            current = right;
        }
        self.say(block, at, format!("right links from block {} make a circle", child.block));
    }

    /// Checks that a page has a parent, or why it has none.
    fn parent(&mut self, block: BlockNumber, page: &TreePage, meta: &Meta) {
        let has_parent = self.parents.get(block as usize).is_some_and(|&own| own != NO_SIBLING);
        let is_right_half =
            self.page(page.opaque.prev).is_some_and(|left| left.opaque.is_split_incomplete());
        let is_free =
            block == meta.root || page.opaque.has(HALF_DEAD) || self.leaving.contains(&block);
        if has_parent || is_right_half || is_free {
            return;
        }
        // A damaged page may lead to it.
        if self.complete {
            self.say(block, None, "page has no downlink, and cannot be reached".to_owned());
        }
    }
}
