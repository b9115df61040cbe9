//! Building an index from sorted rows, from the leaves up.
//!
//! ```text
//!   push(row) ─▶ equal to the one before: joins its posting list
//!            ─▶ leaf under construction ─ full ─▶ written; a link to it ─▶ page above ─ full ─▶ …
//! ```
//!
//! Each level has one page under construction. When it is full its last item moves on to the next
//! page, and what tells that item from the one before is the high key. Blocks are given out in the
//! order in which pages are begun, so leaves lie in their order. Pages of an index in use are
//! logged whole, and go to a write stream; those of a new cluster stay in memory. The meta page
//! comes last: until then the index has no root.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Ordering;

use forebay_format::nbtree::{
    self as nb, LEAF, MAX_ITEM_SIZE, META_BLOCK, Meta, NO_SIBLING, NON_LEAF_FILL_FACTOR,
    OPAQUE_SIZE, Opaque, ROOT, Tuple,
};
use forebay_format::page::{HEADER_SIZE, ITEM_ID_SIZE};
use forebay_format::{BLOCK_SIZE, BlockNumber, ItemPointer, PageBytes};
use forebay_storage::Backend;

use super::build_pages::{BuildPages, MemoryPages, PooledPages};
use super::compare::{SearchKey, check_size, columns_to_separate, columns_to_tell_apart};
use super::inserter::aligned;
use super::relation::{Index, IndexShape};
use crate::error::AccessError;

/// The most bytes of a posting list: a tenth of a page, without its line pointer.
const MOST_POSTING: usize = ((BLOCK_SIZE * 10 / 100) & !7) - ITEM_ID_SIZE;

const _: () = assert!(MOST_POSTING < MAX_ITEM_SIZE);

/// A page under construction.
#[derive(Debug)]
struct Level {
    block: BlockNumber,
    prev: BlockNumber,
    /// The key of the link to it.
    low_key: Vec<u8>,
    /// Its items, one behind the other, and where each ends.
    items: Vec<u8>,
    ends: Vec<usize>,
    /// Space that its items take.
    used: usize,
    /// Bytes of the last item that a high key made of it would not have.
    last_extra: usize,
    /// Space that the fill factor leaves.
    kept_free: usize,
}

/// Rows with equal keys that become one item.
#[derive(Debug, Default)]
struct Pending {
    /// The first row's tuple.
    base: Vec<u8>,
    /// All of them; empty if there is none yet.
    rows: Vec<ItemPointer>,
}

/// An index under construction.
#[derive(Debug)]
pub struct TreeBuild<'a, P> {
    shape: &'a IndexShape,
    levels: Vec<Level>,
    pending: Pending,
    deduplicate: bool,
    pages: P,
}

/// An index under construction in the buffer pool.
pub type IndexBuild<'a> = TreeBuild<'a, PooledPages<'a>>;

impl IndexShape {
    /// Orders two index tuples of rows, to sort them for a build. With their heap TIDs no two are
    /// equal. Without, those are that have the same values: NULLs, too, which a unique index may
    /// have several times unless [`IndexShape::nulls_are_equal`].
    pub fn compare_rows(
        &self,
        a: &[u8],
        b: &[u8],
        with_tids: bool,
    ) -> Result<Ordering, AccessError> {
        let internal = |error: &dyn std::fmt::Display| AccessError::Internal(error.to_string());
        let [a, b] = [a, b].map(Tuple::new);
        let (a, b) = (a.map_err(|e| internal(&e))?, b.map_err(|e| internal(&e))?);
        let mut key = SearchKey::of_tuple(self, &a).map_err(|e| internal(&e))?;
        key.tid = a.heap_tid().filter(|_| with_tids);
        key.compare(self, &b).map_err(|e| internal(&e))
    }
}

impl Index {
    /// Begins to build the index, whose file is empty. As in PostgreSQL, rows of a `unique` index
    /// get a tuple each: those with equal keys are versions of one row, which soon go.
    pub fn build<'a>(
        &'a self,
        backend: &mut Backend,
        unique: bool,
    ) -> Result<IndexBuild<'a>, AccessError> {
        TreeBuild::begin(&self.shape, unique, PooledPages::new(self), backend)
    }
}

impl IndexShape {
    /// The pages of an index with these rows, in any order, for a file that is written at once.
    pub fn build_pages(
        &self,
        unique: bool,
        mut tuples: Vec<Vec<u8>>,
    ) -> Result<Vec<Box<PageBytes>>, AccessError> {
        let mut failed = None;
        tuples.sort_by(|a, b| {
            self.compare_rows(a, b, true).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                Ordering::Equal
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let mut pages = Vec::new();
        let memory = MemoryPages(&mut pages);
        let mut build = TreeBuild::begin(self, unique, memory, &mut ())?;
        tuples.iter().try_for_each(|tuple| build.push(&mut (), tuple))?;
        build.finish(&mut ())?;
        Ok(pages)
    }
}

impl Level {
    fn new(level: usize, block: BlockNumber, fill_factor: usize) -> Level {
        let fill_factor = if level == 0 { fill_factor } else { NON_LEAF_FILL_FACTOR };
        Level {
            block,
            prev: NO_SIBLING,
            low_key: nb::minus_infinity(block).to_vec(),
            items: Vec::new(),
            ends: Vec::new(),
            used: 0,
            last_extra: 0,
            kept_free: BLOCK_SIZE * (100 - fill_factor) / 100,
        }
    }

    /// Space for one more item, beside a high key's line pointer.
    fn free(&self) -> usize {
        let fixed = HEADER_SIZE + OPAQUE_SIZE + 2 * ITEM_ID_SIZE;
        (BLOCK_SIZE - fixed).saturating_sub(self.used)
    }

    fn push(&mut self, item: &[u8], extra: usize) {
        self.items.extend_from_slice(item);
        self.ends.push(self.items.len());
        self.used += aligned(item.len()) + ITEM_ID_SIZE;
        self.last_extra = extra;
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| {
            self.items.get(start..end).expect("an item is where its end was noted")
        })
    }

    /// Removes the last item.
    fn pop(&mut self) -> Vec<u8> {
        self.ends.pop().expect("a full page has items");
        let item = self.items.split_off(self.ends.last().copied().unwrap_or(0));
        self.used -= aligned(item.len()) + ITEM_ID_SIZE;
        item
    }

    fn clear(&mut self) {
        self.items.clear();
        self.ends.clear();
        self.used = 0;
    }
}

impl<'a, P: BuildPages> TreeBuild<'a, P> {
    fn begin(
        shape: &'a IndexShape,
        unique: bool,
        pages: P,
        with: &mut P::With,
    ) -> Result<TreeBuild<'a, P>, AccessError> {
        let deduplicate = !unique && shape.deduplicate && shape.is_equal_image();
        let (levels, pending) = (Vec::new(), Pending::default());
        let mut build = TreeBuild { shape, levels, pending, deduplicate, pages };
        match build.pages.add(with)? {
            META_BLOCK => Ok(build),
            _ => Err(build.broken(&"it has pages already")),
        }
    }

    /// Adds a row, which comes behind all others in the index's order.
    pub fn push(&mut self, with: &mut P::With, tuple: &[u8]) -> Result<(), AccessError> {
        let new = Tuple::new(tuple).map_err(|error| self.broken(&error))?;
        check_size(self.shape, &new)?;
        if !self.deduplicate {
            return self.add(with, 0, tuple, 0);
        }
        let tid = new.heap_tid().ok_or_else(|| self.broken(&nb::NbtreeError::Pivot))?;
        if self.joins(&new)? {
            self.pending.rows.push(tid);
            return Ok(());
        }
        self.add_pending(with)?;
        let Pending { base, rows } = &mut self.pending;
        base.extend_from_slice(tuple);
        rows.push(tid);
        Ok(())
    }

    /// Whether a row goes to the posting list of the rows before.
    fn joins(&self, new: &Tuple<'_>) -> Result<bool, AccessError> {
        let pending = &self.pending;
        let size = pending.base.len() + (pending.rows.len() + 1) * ItemPointer::SIZE;
        if pending.rows.is_empty() || aligned(size) > MOST_POSTING {
            return Ok(false);
        }
        let base = Tuple::new(&pending.base).map_err(|error| self.broken(&error))?;
        let columns = columns_to_tell_apart(self.shape, &base, new);
        Ok(columns.map_err(|error| self.broken(&error))? > self.shape.keys.len())
    }

    /// Adds the item that rows with equal keys have become, if there are any.
    fn add_pending(&mut self, with: &mut P::With) -> Result<(), AccessError> {
        let Pending { mut base, mut rows } = std::mem::take(&mut self.pending);
        match rows.as_slice() {
            [] => {}
            [_] => self.add(with, 0, &base, 0)?,
            _ => {
                let first = Tuple::new(&base).map_err(|error| self.broken(&error))?;
                let item = nb::form_posting(&first, &rows).map_err(|error| self.broken(&error))?;
                self.add(with, 0, &item, item.len() - base.len())?;
            }
        }
        // Their memory is used again.
        base.clear();
        rows.clear();
        self.pending = Pending { base, rows };
        Ok(())
    }

    /// Adds an item to the page of a level. `extra`: how much shorter a high key made of it is.
    fn add(
        &mut self,
        with: &mut P::With,
        level: usize,
        item: &[u8],
        extra: usize,
    ) -> Result<(), AccessError> {
        if level == self.levels.len() {
            let block = self.pages.add(with)?;
            self.levels.push(Level::new(level, block, self.shape.fill_factor));
        }
        let page = self.levels.get(level).expect("the level was begun");
        let high_key_room = if level == 0 { aligned(ItemPointer::SIZE) } else { 0 };
        let full = page.free() < aligned(item.len()) + high_key_room
            || page.free() + page.last_extra < page.kept_free && page.ends.len() > 1;
        if full {
            self.next_page(with, level)?;
        }
        let page = self.levels.get_mut(level).expect("the level was begun");
        if level > 0 && page.ends.is_empty() {
            let child = Tuple::new(item).map(|tuple| tuple.down_link());
            let child = child.map_err(|error| AccessError::Internal(error.to_string()))?;
            page.push(&nb::minus_infinity(child), 0);
        } else {
            page.push(item, extra);
        }
        Ok(())
    }

    /// Writes the full page of a level, and begins the next one with its last item.
    fn next_page(&mut self, with: &mut P::With, level: usize) -> Result<(), AccessError> {
        let next = self.pages.add(with)?;
        let page = self.levels.get_mut(level).expect("a full page's level");
        let last = page.pop();
        let page = self.levels.get(level).expect("a full page's level");
        let high_key = match level {
            0 => self.high_key(page.all().last().unwrap_or_default(), &last)?,
            _ => last.clone(),
        };
        self.write(with, level, Some(&high_key), next)?;
        let page = self.levels.get_mut(level).expect("a full page's level");
        let written = std::mem::replace(&mut page.block, next);
        page.prev = written;
        let mut link = std::mem::replace(&mut page.low_key, high_key);
        page.clear();
        nb::set_down_link(&mut link, written);
        self.add(with, level + 1, &link, 0)?;
        let page = self.levels.get_mut(level).expect("a full page's level");
        match Tuple::new(&last) {
            Ok(tuple) if level > 0 => page.push(&nb::minus_infinity(tuple.down_link()), 0),
            _ => page.push(&last, page.last_extra),
        }
        Ok(())
    }

    /// The pivot between the last item of a leaf and the first of the next one.
    fn high_key(&self, left: &[u8], right: &[u8]) -> Result<Vec<u8>, AccessError> {
        let shape = self.shape;
        let [left, right] = [left, right].map(Tuple::new);
        let (left, right) =
            (left.map_err(|e| self.broken(&e))?, right.map_err(|e| self.broken(&e))?);
        let columns = columns_to_separate(shape, &left, &right).map_err(|e| self.broken(&e))?;
        let tid = left.max_heap_tid().filter(|_| columns > shape.keys.len());
        nb::form_pivot(&right, &shape.layouts, columns.min(shape.keys.len()), tid)
            .map_err(|error| self.broken(&error))
    }

    /// Writes what is left, and the meta page. Then the index can be used.
    pub fn finish(mut self, with: &mut P::With) -> Result<(), AccessError> {
        self.add_pending(with)?;
        let mut level = 0;
        while let Some(page) = self.levels.get_mut(level) {
            let mut link = std::mem::take(&mut page.low_key);
            nb::set_down_link(&mut link, page.block);
            if page.prev != NO_SIBLING {
                self.add(with, level + 1, &link, 0)?;
            }
            self.write(with, level, None, NO_SIBLING)?;
            level += 1;
        }
        let root = self.levels.last().map_or(META_BLOCK, |page| page.block);
        let level = self.levels.len().saturating_sub(1) as u32;
        let meta = Meta::new(root, level, self.shape.is_equal_image());
        self.pages.put(with, META_BLOCK, |page| {
            meta.init_page(page);
            Ok(())
        })?;
        self.pages.finish(with)
    }

    /// Writes the page of a level. The highest level's is the root.
    fn write(
        &mut self,
        with: &mut P::With,
        level: usize,
        high_key: Option<&[u8]>,
        next: BlockNumber,
    ) -> Result<(), AccessError> {
        let TreeBuild { levels, pages, .. } = self;
        let page = levels.get(level).expect("a level under construction");
        let is_root = high_key.is_none() && page.prev == NO_SIBLING;
        let flag = |on, flag| if on { flag } else { 0 };
        let flags = flag(level == 0, LEAF) | flag(is_root, ROOT);
        let opaque = Opaque { prev: page.prev, next, level: level as u32, flags, cycle_id: 0 };
        let mut items = high_key.into_iter().chain(page.all());
        pages.put(with, page.block, |page| {
            nb::init_page(page, opaque);
            Ok(items.try_for_each(|item| nb::push_item(page, item))?)
        })
    }

    #[cold]
    fn broken(&self, problem: &dyn std::fmt::Display) -> AccessError {
        AccessError::Internal(format!("index \"{}\": {problem}", self.shape.name))
    }
}
