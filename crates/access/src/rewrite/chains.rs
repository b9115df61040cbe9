//! Update chains while a table is rewritten.
//!
//! A version that was updated leads to the next one, whose new place may not be known yet, or may
//! be known before:
//!
//! ```text
//!   old file:   A ──▶ B        A first:  A waits until B has its place
//!                              B first:  B's place waits for A
//! ```
//!
//! Only versions that someone may still see have a next one, so few wait.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use forebay_format::{ItemPointer, Xid};

/// A version: its inserter and its place in the old file. The place may have been used again.
pub(super) type Version = (Xid, ItemPointer);

/// The links that are not complete.
#[derive(Debug)]
pub(super) struct Chains<T> {
    /// Rows, with their own versions, that wait for the place of the next version.
    waiting: BTreeMap<Version, (Version, T)>,
    /// Versions that are in the new file, where the version before has not come by yet.
    placed: BTreeMap<Version, ItemPointer>,
}

/// What becomes of a version that was updated.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    /// It leads to this place, and can be put into the new file.
    Known(T, ItemPointer),
    /// It waits.
    Waits,
}

impl<T> Chains<T> {
    pub(super) fn new() -> Chains<T> {
        Chains { waiting: BTreeMap::new(), placed: BTreeMap::new() }
    }

    /// A version that was replaced by `next`.
    pub(super) fn replaced(&mut self, version: Version, next: Version, row: T) -> Next<T> {
        match self.placed.remove(&next) {
            Some(place) => Next::Known(row, place),
            None => {
                self.waiting.insert(next, (version, row));
                Next::Waits
            }
        }
    }

    /// A version is at a place of the new file. Returns the one before, if it waits for that.
    pub(super) fn placed(&mut self, version: Version, place: ItemPointer) -> Option<(Version, T)> {
        let before = self.waiting.remove(&version);
        if before.is_none() {
            self.placed.insert(version, place);
        }
        before
    }

    /// Nobody sees a version. If one waits for it, that is dead, too, and is returned.
    pub(super) fn dead(&mut self, version: Version) -> Option<T> {
        self.waiting.remove(&version).map(|(_, row)| row)
    }

    /// The rows that still wait: what they wait for was not in the table.
    pub(super) fn left(self) -> impl Iterator<Item = T> {
        self.waiting.into_values().map(|(_, row)| row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u16) -> ItemPointer {
        ItemPointer::new(0, offset)
    }

    #[test]
    fn a_chain_is_linked_from_its_end_whatever_the_order() {
        let [a, b, c] = [(10, at(1)), (11, at(2)), (12, at(3))];
        let mut chains = Chains::new();
        assert_eq!(chains.replaced(a, b, "a"), Next::Waits);
        assert_eq!(chains.replaced(b, c, "b"), Next::Waits);
        assert_eq!(chains.placed(c, at(7)), Some((b, "b")));
        assert_eq!(chains.placed(b, at(8)), Some((a, "a")));
        assert_eq!(chains.placed(a, at(9)), None);

        let mut chains = Chains::new();
        assert_eq!(chains.placed(c, at(1)), None);
        assert_eq!(chains.replaced(b, c, "b"), Next::Known("b", at(1)));
        assert_eq!(chains.placed(b, at(2)), None);
        assert_eq!(chains.replaced(a, b, "a"), Next::Known("a", at(2)));
        assert_eq!(chains.left().count(), 0);
    }

    #[test]
    fn what_leads_to_a_dead_version_is_dead() {
        let mut chains = Chains::new();
        assert_eq!(chains.replaced((10, at(1)), (11, at(2)), "a"), Next::Waits);
        assert_eq!(chains.dead((12, at(2))), None, "its place was used again");
        assert_eq!(chains.dead((11, at(2))), Some("a"));
        assert_eq!(chains.replaced((10, at(1)), (11, at(2)), "a"), Next::Waits);
        assert_eq!(chains.left().collect::<Vec<_>>(), ["a"]);
    }
}
