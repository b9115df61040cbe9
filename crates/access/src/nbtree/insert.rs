//! Inserting a row.
//!
//! ```text
//!   last leaf remembered and the key belongs there ─┐
//!   search ─▶ lock the leaf ─▶ move right ──────────┴▶ unique? ─▶ the page for key and heap TID
//!     ─▶ full: remove items of rows that are gone, merge duplicates ─▶ put, or split (`inserter`)
//! ```
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Ordering;

use forebay_format::nbtree::{self as nb, Opaque, Tuple};
use forebay_format::{ItemPointer, OffsetNumber, Page, Xid};
use forebay_storage::Backend;

use super::compare::{SearchKey, check_size};
use super::inserter::{Inserter, Locked, NewItem, aligned};
use super::relation::Index;
use super::rows::TableRows;
use super::search::{Descent, Moves, Path, Reached};
use super::unique::{Checked, Insertion, UniqueCheck};
use crate::error::AccessError;

/// A row to be inserted.
#[derive(Debug, Clone, Copy)]
pub struct NewRow<'a> {
    /// Its index tuple; see [`form_index_tuple`](super::form_index_tuple).
    pub tuple: &'a [u8],
    /// The transaction that inserts it, for the log.
    pub xid: Xid,
    /// How rows with the same key are treated.
    pub unique: UniqueCheck,
    /// Whether it is a version of a row whose indexed values the update left as they were: older
    /// versions have equal entries, which may be gone.
    pub unchanged: bool,
}

/// Where an item goes.
enum Position {
    Before(OffsetNumber),
    /// Into the posting list of an item, before the row at an index.
    Into(OffsetNumber, usize),
    /// Into a posting list that is killed.
    IntoKilled,
}

impl Index {
    /// Inserts a row, unless another one with the same key is live or may be, and that is to be
    /// prevented.
    pub fn insert(
        &self,
        backend: &mut Backend,
        rows: &mut dyn TableRows,
        row: NewRow<'_>,
    ) -> Result<Insertion, AccessError> {
        let (new, tid, mut key) = self.begin(backend, &row)?;
        let check =
            row.unique != UniqueCheck::No && (self.shape.nulls_are_equal || !key.has_nulls());
        if !check {
            key.tid = Some(tid);
        }
        let mut inserter = Inserter { index: self, backend, xid: row.xid, path: Path::new() };
        let mut leaf = inserter.lock_leaf(&key, new.size())?;
        let (mut duplicates, mut done) = (false, Insertion::Done);
        if check {
            match inserter.check_unique(rows, &key, tid, &mut leaf)? {
                Checked::Unique { duplicates: found } => duplicates = found,
                Checked::Conflict(conflict) if row.unique == UniqueCheck::Yes => {
                    return Ok(conflict);
                }
                Checked::Conflict(_) => done = Insertion::Unchecked,
            }
            key.tid = Some(tid);
            leaf = inserter.move_right_coupled(leaf, &key, &mut duplicates)?;
        }
        if leaf.page().free_space() < aligned(new.size()) {
            let room =
                Room { new: &new, tid, checked: check, duplicates, unchanged: row.unchanged };
            inserter.make_room(&mut leaf, rows, &room)?;
        }
        let item = inserter.place(&mut leaf, rows, &key, &new, tid)?;
        inserter.put(leaf, None, &item, false)?;
        Ok(done)
    }

    /// Looks for another row with the same key that is live, or may be, than the given one, which
    /// need not be in the index. None if there is none.
    pub fn find_conflict(
        &self,
        backend: &mut Backend,
        rows: &mut dyn TableRows,
        row: NewRow<'_>,
    ) -> Result<Option<Insertion>, AccessError> {
        let (new, tid, key) = self.begin(backend, &row)?;
        if key.has_nulls() && !self.shape.nulls_are_equal {
            return Ok(None);
        }
        let mut inserter = Inserter { index: self, backend, xid: row.xid, path: Path::new() };
        let mut leaf = inserter.lock_leaf(&key, new.size())?;
        match inserter.check_unique(rows, &key, tid, &mut leaf)? {
            Checked::Conflict(conflict) => Ok(Some(conflict)),
            Checked::Unique { .. } => Ok(None),
        }
    }

    /// Checks a row's tuple. Returns it, its heap TID, and its key without that.
    fn begin<'r>(
        &self,
        backend: &mut Backend,
        row: &NewRow<'r>,
    ) -> Result<(Tuple<'r>, ItemPointer, SearchKey<'r>), AccessError> {
        self.ensure_log_room(backend)?;
        let broken = |error: nb::NbtreeError| AccessError::Internal(error.to_string());
        let new = Tuple::new(row.tuple).map_err(broken)?;
        check_size(&self.shape, &new)?;
        let tid = new.heap_tid().ok_or_else(|| broken(nb::NbtreeError::Pivot))?;
        let key = SearchKey::of_tuple(&self.shape, &new);
        Ok((new, tid, key.map_err(|error| AccessError::Internal(error.to_string()))?))
    }
}

/// What room is needed for, on a full leaf.
struct Room<'a> {
    new: &'a Tuple<'a>,
    tid: ItemPointer,
    /// Whether rows with the same key were looked for, and found.
    checked: bool,
    duplicates: bool,
    unchanged: bool,
}

impl Inserter<'_> {
    /// Locks the first leaf on which a key may be.
    fn lock_leaf(&mut self, key: &SearchKey<'_>, size: usize) -> Result<Locked, AccessError> {
        if let Some(leaf) = self.last_leaf(key, size)? {
            return Ok(leaf);
        }
        'search: loop {
            let want = Descent { key, level: 0, to_insert: true };
            let path = &mut self.path;
            let found =
                self.index.descend(self.backend, want, path, |pin, _, _| Ok(pin.clone()))?;
            let mut page = match found {
                Reached::Page(pin) => pin.into_exclusive(),
                Reached::Empty => {
                    self.first_leaf()?;
                    continue;
                }
                Reached::Incomplete(block) => {
                    let page = self.index.lock(self.backend, block)?;
                    self.finish_split(page)?;
                    continue;
                }
            };
            // It may have been split before it was locked.
            let mut moves = Moves::default();
            loop {
                let tag = page.tag().block;
                let opaque = self.index.opaque(page.page(), tag)?;
                if opaque.is_split_incomplete() {
                    self.finish_split(page)?;
                    continue 'search;
                }
                if !self.index.is_right_of(page.page(), &opaque, tag, key)? {
                    return Ok(page);
                }
                moves.next(self.index, tag)?;
                drop(page);
                page = self.index.lock(self.backend, opaque.next)?;
            }
        }
    }

    /// The remembered last leaf, locked: if nobody has it locked, the key belongs there, and the
    /// page has room, so that no way to it is needed.
    fn last_leaf(
        &mut self,
        key: &SearchKey<'_>,
        size: usize,
    ) -> Result<Option<Locked>, AccessError> {
        let Some(block) = self.index.known.last_leaf() else { return Ok(None) };
        let Some(page) = self.index.read(self.backend, block)?.try_into_exclusive() else {
            return Ok(None);
        };
        let opaque = self.index.opaque(page.page(), block)?;
        let first = opaque.first_data_item();
        let serves = opaque.is_rightmost()
            && opaque.is_leaf()
            && !opaque.is_ignored()
            && page.page().free_space() > aligned(size)
            && first <= page.page().item_count();
        let belongs = serves && {
            let order = key.compare_item(&self.index.shape, page.page(), &opaque, first);
            order.map_err(self.index.at(block))? == Ordering::Greater
        };
        if !belongs {
            self.index.known.set_last_leaf(None);
        }
        Ok(belongs.then_some(page))
    }

    /// Moves right to the page that a key with its heap TID belongs to. A page stays locked until
    /// the next one is: others who check the same key wait behind it.
    fn move_right_coupled(
        &mut self,
        mut page: Locked,
        key: &SearchKey<'_>,
        moved: &mut bool,
    ) -> Result<Locked, AccessError> {
        let mut moves = Moves::default();
        loop {
            let tag = page.tag().block;
            let opaque = self.index.opaque(page.page(), tag)?;
            if !self.index.is_right_of(page.page(), &opaque, tag, key)? {
                return Ok(page);
            }
            *moved = true;
            page = self.step_right(page, &opaque, &mut moves)?;
        }
    }

    fn step_right(
        &mut self,
        page: Locked,
        opaque: &Opaque,
        moves: &mut Moves,
    ) -> Result<Locked, AccessError> {
        let mut next = opaque.next;
        loop {
            moves.next(self.index, next)?;
            let right = self.index.lock(self.backend, next)?;
            let opaque = self.index.opaque(right.page(), next)?;
            if opaque.is_split_incomplete() {
                let path = self.path.clone();
                self.finish_split(right)?;
                self.path = path;
                continue;
            }
            if !opaque.is_ignored() {
                drop(page);
                return Ok(right);
            }
            if opaque.is_rightmost() {
                return Err(self.index.fell_off());
            }
            next = opaque.next;
        }
    }

    /// Makes room on a leaf. If the removal of killed items is not enough: where the keys are
    /// unique, duplicates are versions of rows, so nothing else helps if the new row has none.
    fn make_room(
        &mut self,
        page: &mut Locked,
        rows: &mut dyn TableRows,
        room: &Room<'_>,
    ) -> Result<(), AccessError> {
        let size = room.new.size();
        self.delete_killed(page, rows, room.tid)?;
        let is_full = page.page().free_space() < aligned(size);
        if !is_full || room.checked && !room.duplicates {
            return Ok(());
        }
        let versions = room.unchanged || room.duplicates && room.checked;
        if versions && self.delete_bottom_up(page, rows, size)? {
            return Ok(());
        }
        if self.index.may_deduplicate(self.backend)? {
            self.deduplicate(page, room.new, versions)?;
        }
        Ok(())
    }

    /// Finds the place of a new item on its page.
    fn place(
        &mut self,
        page: &mut Locked,
        rows: &mut dyn TableRows,
        key: &SearchKey<'_>,
        new: &Tuple<'_>,
        tid: ItemPointer,
    ) -> Result<NewItem, AccessError> {
        let tag = page.tag().block;
        let plain = |n| NewItem { bytes: new.bytes().to_vec(), n, posting: None };
        if let Position::IntoKilled = self.position(page, key, tid)? {
            self.delete_killed(page, rows, tid)?;
        }
        match self.position(page, key, tid)? {
            Position::Before(n) => Ok(plain(n)),
            Position::Into(n, index) => {
                let posting = self.index.tuple(page.page(), tag, n)?;
                NewItem::into_posting(&posting, new, n, index)
                    .map_err(|error| self.index.damaged(tag, &error))
            }
            Position::IntoKilled => Err(self.index.damaged(tag, &"killed items stay")),
        }
    }

    fn position(
        &self,
        page: &Locked,
        key: &SearchKey<'_>,
        tid: ItemPointer,
    ) -> Result<Position, AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        let view: Page<'_> = page.page();
        let opaque = index.opaque(view, tag)?;
        let n = key.first_not_behind(&index.shape, view, &opaque).map_err(index.at(tag))?;
        if n > view.item_count() {
            return Ok(Position::Before(n));
        }
        let tuple = index.tuple(view, tag, n)?;
        let order = key.compare(&index.shape, &tuple).map_err(index.at(tag))?;
        if order != Ordering::Equal {
            return Ok(Position::Before(n));
        }
        if nb::is_killed(view, n) {
            return Ok(Position::IntoKilled);
        }
        // The row lies between those of a posting list.
        if let Some(at) = tuple.heap_tids().position(|listed| listed >= tid)
            && tuple.heap_tids().nth(at) != Some(tid)
        {
            return Ok(Position::Into(n, at));
        }
        let name = &index.shape.name;
        Err(AccessError::CorruptIndex(format!(
            "table tid from new index tuple ({},{}) overlaps with invalid duplicate tuple at \
             offset {n} of block {tag} in index \"{name}\"",
            tid.block, tid.offset
        )))
    }
}
