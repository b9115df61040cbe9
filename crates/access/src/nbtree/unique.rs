//! Whether a key exists already.
//!
//! The page on which the key belongs first is locked while its duplicates are looked at, and until
//! the new item is in: so of several who insert one key, one is the first. Duplicates may go on to
//! further pages, which are locked one after the other.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Ordering;

use forebay_format::nbtree::{self as nb, HAS_GARBAGE, HIGH_KEY, Opaque};
use forebay_format::{BlockNumber, ItemPointer, OffsetNumber, Page, Xid};

use super::compare::SearchKey;
use super::inserter::{Inserter, Locked};
use super::rows::TableRows;
use super::search::Moves;
use crate::error::AccessError;
use crate::heap::RowFate;

/// What an insertion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    /// The row is in the index.
    Done,
    /// A live row has the same key: its live version.
    Duplicate(ItemPointer),
    /// Whether a row with the same key is live depends on a transaction that runs. The caller waits
    /// for it, and tries again.
    Wait {
        /// The row.
        tid: ItemPointer,
        /// The transaction.
        xid: Xid,
        /// The row's token, if the transaction will say soon whether the row stays.
        token: Option<u32>,
    },
    /// The row is in the index. Another row with the same key may be live:
    /// [`Index::find_conflict`] tells, now or later.
    Unchecked,
}

/// What an insertion does about rows with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UniqueCheck {
    /// Nothing: the index may have equal keys.
    No,
    /// If one is live, or may be, nothing is inserted.
    Yes,
    /// The row is inserted. The result tells whether one may be live.
    Partial,
}

impl UniqueCheck {
    /// What an ordinary insertion does.
    pub const fn of(unique: bool) -> UniqueCheck {
        if unique { UniqueCheck::Yes } else { UniqueCheck::No }
    }
}

/// What a check found.
pub(super) enum Checked {
    /// No live row has the key.
    Unique {
        /// Whether dead ones have.
        duplicates: bool,
    },
    Conflict(Insertion),
}

/// What the rows of an item tell.
enum Item {
    NoConflict { gone: bool },
    Conflict(Insertion),
}

impl Inserter<'_> {
    /// Looks for live rows with a key, whose first page is locked, other than the row `own`.
    pub(super) fn check_unique(
        &mut self,
        rows: &mut dyn TableRows,
        key: &SearchKey<'_>,
        own: ItemPointer,
        first: &mut Locked,
    ) -> Result<Checked, AccessError> {
        let mut duplicates = false;
        let mut moves = Moves::default();
        let mut other: Option<Locked> = None;
        let mut begin = None;
        loop {
            let page = other.as_mut().unwrap_or(&mut *first);
            let tag = page.tag().block;
            let opaque = self.index.opaque(page.page(), tag)?;
            let from = match begin {
                Some(from) => from,
                None => key
                    .first_not_behind(&self.index.shape, page.page(), &opaque)
                    .map_err(self.index.at(tag))?,
            };
            for n in from..=page.page().item_count() {
                if nb::is_killed(page.page(), n) {
                    continue;
                }
                if !self.is_equal(page.page(), tag, n, key)? {
                    return Ok(Checked::Unique { duplicates });
                }
                duplicates = true;
                match self.rows_of_item(rows, page.page(), tag, n, own)? {
                    Item::Conflict(conflict) => return Ok(Checked::Conflict(conflict)),
                    Item::NoConflict { gone: true } if self.index.may_kill() => kill(page, n),
                    Item::NoConflict { .. } => {}
                }
            }
            if opaque.is_rightmost() || !self.is_equal(page.page(), tag, HIGH_KEY, key)? {
                return Ok(Checked::Unique { duplicates });
            }
            let (next, opaque) = self.next_page(opaque.next, first.tag().block, &mut moves)?;
            begin = Some(opaque.first_data_item());
            other = Some(next);
        }
    }

    /// The next page that is not being deleted, locked. The page before, if it is not the first one
    /// of the check, may be locked until then.
    fn next_page(
        &mut self,
        mut next: BlockNumber,
        first: BlockNumber,
        moves: &mut Moves,
    ) -> Result<(Locked, Opaque), AccessError> {
        loop {
            moves.next(self.index, next)?;
            if next == first {
                return Err(self.index.damaged(next, &"sibling links form a circle"));
            }
            let page = self.index.lock(self.backend, next)?;
            let opaque = self.index.opaque(page.page(), next)?;
            if !opaque.is_ignored() {
                return Ok((page, opaque));
            }
            if opaque.is_rightmost() {
                return Err(self.index.fell_off());
            }
            next = opaque.next;
        }
    }

    /// Whether an item has the key's values. A high key that lacks columns is greater.
    fn is_equal(
        &self,
        page: Page<'_>,
        tag: BlockNumber,
        n: OffsetNumber,
        key: &SearchKey<'_>,
    ) -> Result<bool, AccessError> {
        let tuple = self.index.tuple(page, tag, n)?;
        let order = key.compare(&self.index.shape, &tuple).map_err(self.index.at(tag))?;
        Ok(order != Ordering::Less)
    }

    /// What became of the rows of an item with the key, but for the row `own`.
    fn rows_of_item(
        &mut self,
        rows: &mut dyn TableRows,
        page: Page<'_>,
        tag: BlockNumber,
        n: OffsetNumber,
        own: ItemPointer,
    ) -> Result<Item, AccessError> {
        let mut gone = true;
        for tid in self.index.tuple(page, tag, n)?.heap_tids() {
            if tid == own {
                gone = false;
                continue;
            }
            let wait = |xid, token| Item::Conflict(Insertion::Wait { tid, xid, token });
            match rows.fate(self.backend, tid)? {
                RowFate::Live(version) => {
                    return Ok(Item::Conflict(Insertion::Duplicate(version)));
                }
                RowFate::InDoubt(xid) => return Ok(wait(xid, None)),
                RowFate::Speculative(xid, token) => return Ok(wait(xid, Some(token))),
                RowFate::Dead => gone = false,
                RowFate::Gone => {}
            }
        }
        Ok(Item::NoConflict { gone })
    }
}

/// Marks an item as killed: a hint that is lost if the page is not written for another reason.
/// Writing it for the hint alone would need an image in the log.
fn kill(page: &mut Locked, n: OffsetNumber) {
    if !page.is_dirty() {
        return;
    }
    nb::kill(&mut page.page_mut(), n).expect("the item was read under this lock");
    let opaque = Opaque::of(page.page()).expect("the page was checked under this lock");
    let flags = opaque.flags | HAS_GARBAGE;
    Opaque { flags, ..opaque }.store(&mut page.page_mut());
}
