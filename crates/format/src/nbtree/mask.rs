//! What may differ between two copies of a page with the same contents.

use super::{HAS_GARBAGE, META_BLOCK, Opaque, SPLIT_END};
use crate::{
    ids::{BlockNumber, INVALID_XID},
    lsn::Lsn,
    page::{ItemId, ItemState, PageBytes, PageMut},
};

/// Sets to zero what redo or hints may have left different: checksum, LSN, the page header's hints,
/// the hole, killed items, and what a page knows of vacuum. For tests and checks that compare
/// pages. A page that is not one of nbtree stays as it is.
pub fn mask(bytes: &mut PageBytes, block: BlockNumber) {
    let mut page = PageMut::new(bytes);
    let Ok(opaque) = Opaque::of(page.page()) else { return };
    page.set_checksum(0);
    page.set_lsn(Lsn(0));
    page.set_prune_xid(INVALID_XID);
    page.set_flags(0);
    let hole = page.page().lower()..page.page().upper();
    page.0.get_mut(hole).expect("the header is good").fill(0);
    if block != META_BLOCK && opaque.is_leaf() && !opaque.is_ignored() {
        for n in 1..=page.page().item_count() {
            let id = page.page().item_id(n).expect("a line pointer of the page");
            page.set_item_id(n, ItemId { state: ItemState::Unused, ..id });
        }
    }
    let flags = opaque.flags & !(HAS_GARBAGE | SPLIT_END);
    Opaque { flags, cycle_id: 0, ..opaque }.store(&mut page);
}
