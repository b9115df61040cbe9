//! Where a full page is split.
//!
//! All places between two items are candidates, the new item counted in. They are ordered by how
//! far the free space is from its ideal: the same on both sides, or a left page filled to the fill
//! factor where keys only grow. Among the first few, the one whose pivot is smallest wins.
//!
//! | leaf | free space | candidates |
//! |---|---|---|
//! | usual | the same on both sides | those near the best |
//! | right-most, or keys grow within a group | fill factor on the left | those near the best |
//! | many duplicates where the page would be split | the same | all that need no heap TID |
//! | nothing but duplicates, and more will come | left almost full | the best one |
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::{
    self as nb, HIGH_KEY, NON_LEAF_FILL_FACTOR, NbtreeError, OPAQUE_SIZE, Opaque,
    SINGLE_VALUE_FILL_FACTOR, Tuple,
};
use forebay_format::page::{HEADER_SIZE, ITEM_ID_SIZE};
use forebay_format::{BLOCK_SIZE, ItemPointer, OffsetNumber, Page, index_tuple};

use super::compare::{KeyError, columns_to_tell_apart};
use super::relation::IndexShape;

/// How far candidates near the best may be from it, as a share of the page's items.
const LEAF_DISTANCE: f64 = 0.050;
const INNER_DISTANCE: f64 = 0.075;
/// New items so close behind a group of duplicates do not make it split there again.
const CLOSE_BEHIND: OffsetNumber = 9;
/// Space that a heap TID takes in a pivot.
const TID_SPACE: i32 = aligned(ItemPointer::SIZE) as i32;
/// Posting lists in smaller tuples do not count.
const LARGE_TUPLE: i32 = 64;

/// Where a page is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SplitPoint {
    /// The first item of the page that moves to the right.
    pub(super) first_right: OffsetNumber,
    /// Whether the new item goes to the left, if it belongs just there.
    pub(super) new_on_left: bool,
}

/// A place to split, and what it leaves free.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: SplitPoint,
    left_free: i32,
    right_free: i32,
    delta: i32,
}

/// How candidates are looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Default,
    ManyDuplicates,
    SingleValue,
}

/// A full page, and the item that does not fit.
pub(super) struct FullPage<'a> {
    pub(super) shape: &'a IndexShape,
    pub(super) page: Page<'a>,
    pub(super) opaque: Opaque,
    pub(super) new: Tuple<'a>,
    /// The item before which it belongs.
    pub(super) n: OffsetNumber,
}

struct Candidates {
    all: Vec<Candidate>,
    /// The smallest first item of a right page.
    least_first_right: i32,
    /// Space of all old items.
    old_items: i32,
}

impl FullPage<'_> {
    /// Chooses where to split. None if the items fit in no way.
    pub(super) fn split_point(&self) -> Result<Option<SplitPoint>, KeyError> {
        let mut found = self.candidates()?;
        let (Some(&leftmost), Some(&rightmost)) = (found.all.first(), found.all.last()) else {
            return Ok(None);
        };
        let mut fill = None;
        if !self.opaque.is_leaf() {
            fill = self.opaque.is_rightmost().then_some(NON_LEAF_FILL_FACTOR);
        } else if self.opaque.is_rightmost() {
            fill = Some(self.shape.fill_factor);
        } else if let Some(use_fill) = self.grows_in_group(&found)? {
            let exact = SplitPoint { first_right: self.n, new_on_left: true };
            if use_fill {
                fill = Some(self.shape.fill_factor);
            } else if found.all.iter().any(|candidate| candidate.at == exact) {
                return Ok(Some(exact));
            }
        }
        sort(&mut found.all, fill);
        let mut near = self.near_the_best(&found);
        let (strategy, perfect) = self.strategy(&found, near, leftmost, rightmost)?;
        match strategy {
            Strategy::Default => {}
            Strategy::ManyDuplicates => near = found.all.len(),
            Strategy::SingleValue => {
                sort(&mut found.all, Some(SINGLE_VALUE_FILL_FACTOR));
                near = 1;
            }
        }
        self.best(&found, near, perfect, strategy).map(Some)
    }

    /// All places at which both sides have room.
    fn candidates(&self) -> Result<Candidates, KeyError> {
        let left_space = (BLOCK_SIZE - HEADER_SIZE - OPAQUE_SIZE) as i32;
        let mut right_space = left_space;
        if !self.opaque.is_rightmost() {
            right_space -= self.space_of(HIGH_KEY)?;
        }
        let old_items = right_space - self.page.hole_len() as i32;
        let mut found = Candidates { all: Vec::new(), least_first_right: i32::MAX, old_items };
        let mut before = 0;
        let count = self.page.item_count();
        for n in self.opaque.first_data_item()..=count {
            let space = self.space_of(n)?;
            for new_on_left in [false, true] {
                let possible = if new_on_left { n >= self.n } else { n <= self.n };
                if possible {
                    let at = SplitPoint { first_right: n, new_on_left };
                    self.consider(&mut found, at, before, space, (left_space, right_space))?;
                }
            }
            before += space;
        }
        if self.n > count {
            let at = SplitPoint { first_right: self.n, new_on_left: false };
            self.consider(&mut found, at, before, 0, (left_space, right_space))?;
        }
        Ok(found)
    }

    /// Adds a candidate, if both sides have room. `before`: space of the old items before it;
    /// `first`: of the old item behind it.
    fn consider(
        &self,
        found: &mut Candidates,
        at: SplitPoint,
        before: i32,
        first: i32,
        (left_space, right_space): (i32, i32),
    ) -> Result<(), KeyError> {
        let new = self.new_space();
        let (mut first, mut posting) = (first, 0);
        if at.first_right == self.n && !at.new_on_left {
            first = new;
        } else if self.opaque.is_leaf() && first > LARGE_TUPLE {
            let tuple = self.tuple(at.first_right)?;
            posting = (tuple.size() - tuple.key_size()) as i32;
        }
        // The pivot becomes the left page's high key. It may need a heap TID, and has no list.
        let high_key = if self.opaque.is_leaf() { first + TID_SPACE - posting } else { first };
        let mut left_free = left_space - before - high_key;
        let mut right_free = right_space - (found.old_items - before);
        match at.new_on_left {
            true => left_free -= new,
            false => right_free -= new,
        }
        if !self.opaque.is_leaf() {
            // The first item of the right page loses its values.
            right_free += first - (index_tuple::HEADER_SIZE + ITEM_ID_SIZE) as i32;
        }
        if left_free >= 0 && right_free >= 0 && (before > 0 || at.new_on_left) {
            found.least_first_right = found.least_first_right.min(first);
            found.all.push(Candidate { at, left_free, right_free, delta: 0 });
        }
        Ok(())
    }

    /// Whether the new item continues a group of equal first columns in which keys grow. Then the
    /// page is split behind it; or at the fill factor, if the value is true.
    fn grows_in_group(&self, found: &Candidates) -> Result<Option<bool>, KeyError> {
        let keys = self.shape.keys.len();
        let (new, count) = (self.new_space(), self.page.item_count());
        // Tuples of one size, of at most two numbers of 8 bytes.
        let of_one_size = new == found.least_first_right
            && new * (i32::from(count) - 1) == found.old_items
            && new <= (aligned(index_tuple::HEADER_SIZE + 16) + ITEM_ID_SIZE) as i32;
        if keys == 1 || self.n <= self.opaque.first_data_item() || !of_one_size {
            return Ok(None);
        }
        let before = self.tuple(self.n - 1)?;
        let at_end = self.n > count;
        if !at_end && !self.is_adjacent(&before) {
            return Ok(None);
        }
        let columns = columns_to_tell_apart(self.shape, &before, &self.new)?;
        let in_group = columns > 1 && columns <= keys;
        let share = f64::from(self.n) / (f64::from(count) + 1.0);
        Ok(in_group.then_some(at_end || share > self.shape.fill_factor as f64 / 100.0))
    }

    /// Whether the new item's row was probably inserted just behind that of another tuple.
    fn is_adjacent(&self, before: &Tuple<'_>) -> bool {
        let tids = before.heap_tid().zip(self.new.heap_tid());
        tids.is_some_and(|(low, high)| {
            low.block == high.block
                || low.block.checked_add(1) == Some(high.block) && high.offset == 1
        })
    }

    /// Number of candidates near the best one. They are sorted.
    fn near_the_best(&self, found: &Candidates) -> usize {
        let distance = if self.opaque.is_leaf() { LEAF_DISTANCE } else { INNER_DISTANCE };
        let tolerance = (f64::from(found.old_items) * distance) as i32;
        let Some(best) = found.all.first() else { return 0 };
        let near = |free: i32, ideal: i32| (free - ideal).abs() <= tolerance;
        let is_near = |candidate: &&Candidate| {
            near(candidate.left_free, best.left_free) && near(candidate.right_free, best.right_free)
        };
        found.all.iter().take_while(is_near).count()
    }

    /// How to look through the candidates, and the penalty that is as good as any.
    fn strategy(
        &self,
        found: &Candidates,
        near: usize,
        leftmost: Candidate,
        rightmost: Candidate,
    ) -> Result<(Strategy, i32), KeyError> {
        if !self.opaque.is_leaf() {
            return Ok((Strategy::Default, found.least_first_right));
        }
        let keys = self.shape.keys.len();
        let (first, last) = self.edges(found, near);
        let columns = self.columns_between(first, last)?;
        if columns <= keys {
            return Ok((Strategy::Default, columns as i32));
        }
        if self.columns_between(leftmost.at, rightmost.at)? <= keys {
            return Ok((Strategy::ManyDuplicates, keys as i32));
        }
        if self.opaque.is_rightmost() {
            return Ok((Strategy::SingleValue, columns as i32));
        }
        let high_key = self.tuple(HIGH_KEY)?;
        let columns = columns_to_tell_apart(self.shape, &high_key, &self.new)?;
        // Otherwise the duplicates go on to the right, and new ones mostly belong there.
        let is_last = columns <= keys;
        let strategy = if is_last { Strategy::SingleValue } else { Strategy::Default };
        Ok((strategy, columns as i32))
    }

    /// The first and the last of the best candidates, in the page's order.
    fn edges(&self, found: &Candidates, near: usize) -> (SplitPoint, SplitPoint) {
        let place = |at: &SplitPoint| {
            let new_is_left = at.first_right > self.n || at.new_on_left;
            (at.first_right, new_is_left)
        };
        let best = || found.all.iter().take(near.max(1)).map(|candidate| candidate.at);
        let first = best().min_by_key(place).expect("there are candidates");
        (first, best().max_by_key(place).expect("there are candidates"))
    }

    /// The best of the first `near` candidates.
    fn best(
        &self,
        found: &Candidates,
        near: usize,
        perfect: i32,
        strategy: Strategy,
    ) -> Result<SplitPoint, KeyError> {
        let first = found.all.first().expect("there are candidates").at;
        let (mut best, mut least) = (first, i32::MAX);
        for candidate in found.all.iter().take(near.max(1)) {
            let penalty = self.penalty(candidate.at)?;
            if penalty < least {
                (best, least) = (candidate.at, penalty);
            }
            if penalty <= perfect {
                break;
            }
        }
        // Keys that shrink towards a group of duplicates would split the page there each time.
        let repeats = strategy == Strategy::ManyDuplicates
            && !self.opaque.is_rightmost()
            && !best.new_on_left
            && (self.n..self.n + CLOSE_BEHIND).contains(&best.first_right);
        Ok(if repeats { first } else { best })
    }

    /// What a pivot there costs: columns in a leaf's, bytes in another page's.
    fn penalty(&self, at: SplitPoint) -> Result<i32, KeyError> {
        if self.opaque.is_leaf() {
            return Ok(self.columns_between(at, at)? as i32);
        }
        let is_new = at.first_right == self.n && !at.new_on_left;
        if is_new { Ok(self.new_space()) } else { self.space_of(at.first_right) }
    }

    /// Columns that tell the last item before one place from the first behind another.
    fn columns_between(&self, left: SplitPoint, right: SplitPoint) -> Result<usize, KeyError> {
        let last_left = match left.new_on_left && left.first_right == self.n {
            true => self.new,
            false => self.tuple(left.first_right - 1)?,
        };
        let first_right = match !right.new_on_left && right.first_right == self.n {
            true => self.new,
            false => self.tuple(right.first_right)?,
        };
        columns_to_tell_apart(self.shape, &last_left, &first_right)
    }

    fn tuple(&self, n: OffsetNumber) -> Result<Tuple<'_>, NbtreeError> {
        Tuple::new(nb::item(self.page, n)?)
    }

    /// Space that an item takes, with its line pointer.
    fn space_of(&self, n: OffsetNumber) -> Result<i32, KeyError> {
        let space = aligned(nb::item(self.page, n)?.len()) + ITEM_ID_SIZE;
        Ok(space as i32)
    }

    fn new_space(&self) -> i32 {
        (aligned(self.new.size()) + ITEM_ID_SIZE) as i32
    }
}

/// Sorts candidates by how far they are from the ideal.
fn sort(candidates: &mut [Candidate], fill: Option<usize>) {
    for candidate in &mut *candidates {
        let (left, right) = (candidate.left_free, candidate.right_free);
        candidate.delta = match fill {
            None => left - right,
            Some(percent) => {
                let share = percent as f64 / 100.0;
                (share * f64::from(left) - (1.0 - share) * f64::from(right)) as i32
            }
        };
        candidate.delta = candidate.delta.abs();
    }
    candidates.sort_by_key(|candidate| candidate.delta);
}

const fn aligned(size: usize) -> usize {
    (size + 7) & !7
}
