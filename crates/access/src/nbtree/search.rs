//! The way from the root down to a leaf, as Lehman and Yao describe it.
//!
//! Each page is locked by itself, shared. A page may have been split since its parent was read:
//! then its high key tells that the key lies further right. A search moves right as long as it
//! does, and over pages that are being deleted.
//!
//! A search begins at the fast root, the highest page that has siblings below it. The meta page
//! names it. A remembered one still serves if it is the only page of its level.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::{self as nb, HIGH_KEY, META_BLOCK, Opaque, Tuple};
use forebay_format::{BlockNumber, Fork, OffsetNumber, Page};
use forebay_storage::{Backend, PageReadGuard, Pinned};

use super::compare::{KeyError, SearchKey};
use super::relation::{Index, Root};
use crate::error::AccessError;

/// Moves to the right after which siblings are checked for a circle.
const MANY_MOVES: u32 = 10_000;

/// A page on the way down, and the item that led on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) block: BlockNumber,
    pub(super) item: OffsetNumber,
}

/// The way down, from the root: a page's parent is at the end.
pub(super) type Path = Vec<Step>;

/// Where a search came to.
#[derive(Debug)]
pub(super) enum Reached<R> {
    /// The index has no pages.
    Empty,
    /// The page that was looked for, with what the visitor found there.
    Page(R),
    /// An inserter met a page whose parent does not lead to its right sibling yet. It must complete
    /// the split, and search again.
    Incomplete(BlockNumber),
}

/// Where the key of a search lies.
enum Place {
    Here,
    Right(BlockNumber),
    Incomplete,
}

/// What a search wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descent<'k, 'v> {
    /// Where it goes.
    pub(super) key: &'k SearchKey<'v>,
    /// The level of the page that it looks for: 0 for leaves.
    pub(super) level: u32,
    /// Whether it is on behalf of an insertion.
    pub(super) to_insert: bool,
}

/// Counts moves along sibling links.
#[derive(Debug, Default)]
pub(super) struct Moves(u32);

impl Moves {
    /// Refuses to move on if there cannot be so many siblings.
    pub(super) fn next(&mut self, index: &Index, block: BlockNumber) -> Result<(), AccessError> {
        self.0 += 1;
        if self.0 > MANY_MOVES && self.0 > index.pool.nblocks(index.locator, Fork::Main)? {
            return Err(index.damaged(block, &"sibling links form a circle"));
        }
        Ok(())
    }
}

impl Index {
    /// Searches the page of a level that a key belongs to, and calls `visit` with that page while
    /// it is locked. `path` becomes the way there.
    pub(super) fn descend<R>(
        &self,
        backend: &mut Backend,
        want: Descent<'_, '_>,
        path: &mut Path,
        visit: impl FnOnce(&Pinned, PageReadGuard<'_>, Opaque) -> Result<R, AccessError>,
    ) -> Result<Reached<R>, AccessError> {
        let mut moves = Moves::default();
        let mut remembered = true;
        'root: loop {
            path.clear();
            let Some(root) = self.root(backend, remembered)? else { return Ok(Reached::Empty) };
            let (mut block, mut level, mut check) = (root.block, root.level, remembered);
            if level < want.level {
                // Pages above the fast root have no siblings, but they are there.
                (block, level, check) = self.true_root(backend, want.level)?;
            }
            loop {
                let pin = self.read(backend, block)?;
                let guard = pin.lock_shared();
                let opaque = self.opaque(guard.page(), block)?;
                if std::mem::take(&mut check) && !is_fast_root(&opaque, level) {
                    remembered = false;
                    continue 'root;
                }
                match self.place(guard.page(), &opaque, block, want)? {
                    Place::Incomplete => return Ok(Reached::Incomplete(block)),
                    Place::Right(next) => {
                        moves.next(self, block)?;
                        block = next;
                        continue;
                    }
                    Place::Here => self.check_level(&opaque, block, level)?,
                }
                if level == want.level {
                    return visit(&pin, guard, opaque).map(Reached::Page);
                }
                let (item, child) = self.child(guard.page(), &opaque, block, want.key)?;
                path.push(Step { block, item });
                (block, level) = (child, level - 1);
            }
        }
    }

    /// Searches the leaf on which a scan begins. `path` becomes the way there.
    pub(super) fn find_leaf<R>(
        &self,
        backend: &mut Backend,
        key: &SearchKey<'_>,
        path: &mut Path,
        visit: impl FnOnce(&Pinned, PageReadGuard<'_>, Opaque) -> Result<R, AccessError>,
    ) -> Result<Option<R>, AccessError> {
        let want = Descent { key, level: 0, to_insert: false };
        match self.descend(backend, want, path, visit)? {
            Reached::Page(found) => Ok(Some(found)),
            Reached::Empty => Ok(None),
            Reached::Incomplete(_) => unreachable!("only insertions stop there"),
        }
    }

    /// Whether a key lies on a page or further right.
    fn place(
        &self,
        page: Page<'_>,
        opaque: &Opaque,
        block: BlockNumber,
        want: Descent<'_, '_>,
    ) -> Result<Place, AccessError> {
        if want.to_insert && opaque.is_split_incomplete() {
            return Ok(Place::Incomplete);
        }
        match self.is_right_of(page, opaque, block, want.key)? {
            true => Ok(Place::Right(opaque.next)),
            false => Ok(Place::Here),
        }
    }

    /// Whether a key lies to the right of a page.
    pub(super) fn is_right_of(
        &self,
        page: Page<'_>,
        opaque: &Opaque,
        block: BlockNumber,
        key: &SearchKey<'_>,
    ) -> Result<bool, AccessError> {
        match (opaque.is_rightmost(), opaque.is_ignored()) {
            (true, true) => Err(self.fell_off()),
            (true, false) => Ok(false),
            (false, true) => Ok(true),
            (false, false) => {
                let high_key = self.tuple(page, block, HIGH_KEY)?;
                let order = key.compare(&self.shape, &high_key).map_err(self.at(block))?;
                Ok(key.is_behind(order))
            }
        }
    }

    /// The item of a page above the leaves that leads to a key, and where it leads.
    fn child(
        &self,
        page: Page<'_>,
        opaque: &Opaque,
        block: BlockNumber,
        key: &SearchKey<'_>,
    ) -> Result<(OffsetNumber, BlockNumber), AccessError> {
        let next = key.first_not_behind(&self.shape, page, opaque).map_err(self.at(block))?;
        if next <= opaque.first_data_item() {
            return Err(self.damaged(block, &"it has no children"));
        }
        let child = self.tuple(page, block, next - 1)?.down_link();
        if child == META_BLOCK {
            return Err(self.damaged(block, &format_args!("item {} leads nowhere", next - 1)));
        }
        Ok((next - 1, child))
    }

    /// The root itself, to find a page of a level. It need not be the only page of its level any
    /// more.
    fn true_root(
        &self,
        backend: &mut Backend,
        level: u32,
    ) -> Result<(BlockNumber, u32, bool), AccessError> {
        let pin = self.read(backend, META_BLOCK)?;
        let guard = pin.lock_shared();
        let meta = self.meta(guard.page())?;
        if meta.level < level {
            return Err(self.level_missing(level));
        }
        Ok((meta.root, meta.level, false))
    }

    /// Where searches begin: as remembered, if that is wanted, else as the meta page says. None if
    /// the index is empty.
    fn root(&self, backend: &mut Backend, remembered: bool) -> Result<Option<Root>, AccessError> {
        if let Some(root) = self.known.root().filter(|_| remembered) {
            return Ok(Some(root));
        }
        let meta = {
            let pin = self.read(backend, META_BLOCK)?;
            let guard = pin.lock_shared();
            self.meta(guard.page())?
        };
        let root = (meta.root != META_BLOCK).then_some(Root {
            block: meta.fast_root,
            level: meta.fast_level,
            all_equal_image: meta.all_equal_image,
        });
        self.known.set_root(root);
        Ok(root)
    }

    /// Whether equal keys of the index may share a tuple. Its meta page was read before.
    pub(super) fn may_deduplicate(&self, backend: &mut Backend) -> Result<bool, AccessError> {
        let root = self.root(backend, true)?;
        Ok(self.shape.deduplicate && root.is_some_and(|root| root.all_equal_image))
    }

    /// An item's tuple.
    pub(super) fn tuple<'a>(
        &self,
        page: Page<'a>,
        block: BlockNumber,
        n: OffsetNumber,
    ) -> Result<Tuple<'a>, AccessError> {
        let item = nb::item(page, n).map_err(nb::NbtreeError::from);
        item.and_then(Tuple::new).map_err(|error| self.damaged(block, &error))
    }

    /// Makes an error of what is wrong on a page.
    pub(super) fn at(&self, block: BlockNumber) -> impl Fn(KeyError) -> AccessError + '_ {
        move |error| self.damaged(block, &error)
    }

    fn check_level(
        &self,
        opaque: &Opaque,
        block: BlockNumber,
        level: u32,
    ) -> Result<(), AccessError> {
        if opaque.level == level && opaque.is_leaf() == (level == 0) {
            return Ok(());
        }
        let found = opaque.level;
        Err(self.damaged(block, &format_args!("it has level {found} instead of {level}")))
    }

    #[cold]
    pub(super) fn fell_off(&self) -> AccessError {
        AccessError::CorruptIndex(format!("fell off the end of index \"{}\"", self.shape.name))
    }

    #[cold]
    fn level_missing(&self, level: u32) -> AccessError {
        let name = &self.shape.name;
        AccessError::CorruptIndex(format!("btree level {level} not found in index \"{name}\""))
    }
}

/// Whether a page still is a place to begin.
fn is_fast_root(opaque: &Opaque, level: u32) -> bool {
    !opaque.is_ignored() && opaque.level == level && opaque.is_leftmost() && opaque.is_rightmost()
}
