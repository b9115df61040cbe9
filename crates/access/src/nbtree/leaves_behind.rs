//! The leaves that come behind one, as the pages above the leaves name them.
//!
//! This is a guess for reading ahead: leaves may be split or deleted meanwhile. A scan finds its
//! way by the leaves' own links.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::{BlockNumber, OffsetNumber};
use forebay_storage::Backend;

use super::relation::Index;
use super::wanted::Direction;
use crate::error::AccessError;

/// Pages above the leaves that are looked at.
const PAGES: usize = 3;

impl Index {
    /// Up to `count` leaves behind one in a direction, and the page that has that leaf. `above` is
    /// that page, or one before it. Fewer, or none, if the pages above have changed.
    pub(crate) fn leaves_behind(
        &self,
        backend: &mut Backend,
        above: BlockNumber,
        leaf: BlockNumber,
        direction: Direction,
        count: usize,
    ) -> Result<(BlockNumber, Vec<BlockNumber>), AccessError> {
        let (mut block, mut found_on, mut leaves) = (above, None, Vec::new());
        for _ in 0..PAGES {
            let pin = self.read(backend, block)?;
            let guard = pin.lock_shared();
            let opaque = self.opaque(guard.page(), block)?;
            if opaque.level != 1 || opaque.is_ignored() {
                break;
            }
            let (first, last) = (opaque.first_data_item(), guard.page().item_count());
            let nth = |n: OffsetNumber| match direction {
                Direction::Forward => first + n,
                Direction::Backward => last - n,
            };
            for n in 0..(last + 1).saturating_sub(first) {
                let child = self.tuple(guard.page(), block, nth(n))?.down_link();
                if found_on.is_some() {
                    leaves.push(child);
                } else if child == leaf {
                    found_on = Some(block);
                }
                if leaves.len() == count {
                    return Ok((found_on.unwrap_or(above), leaves));
                }
            }
            let (at_end, next) = match direction {
                Direction::Forward => (opaque.is_rightmost(), opaque.next),
                Direction::Backward => (opaque.is_leftmost(), opaque.prev),
            };
            if at_end {
                break;
            }
            block = next;
        }
        Ok((found_on.unwrap_or(above), leaves))
    }
}
