//! What may differ between two copies of a page with the same contents.

use super::{HAS_GARBAGE, META_BLOCK, Opaque, SPLIT_END};
use crate::{
    ids::BlockNumber,
    index_page::{mask_hints, mask_kills},
    page::{PageBytes, PageMut},
};

/// Sets to zero what redo or hints may have left different: checksum, LSN, the page header's hints,
/// the hole, killed items, and what a page knows of vacuum. For tests and checks that compare
/// pages. A page that is not one of nbtree stays as it is.
pub fn mask(bytes: &mut PageBytes, block: BlockNumber) {
    let mut page = PageMut::new(bytes);
    let Ok(opaque) = Opaque::of(page.page()) else { return };
    mask_hints(&mut page);
    if block != META_BLOCK && opaque.is_leaf() && !opaque.is_ignored() {
        mask_kills(&mut page);
    }
    let flags = opaque.flags & !(HAS_GARBAGE | SPLIT_END);
    Opaque { flags, cycle_id: 0, ..opaque }.store(&mut page);
}
