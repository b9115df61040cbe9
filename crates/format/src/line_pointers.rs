//! Line pointers of a heap page: checking, pruning, compaction, truncation of their array.
//!
//! ```text
//!   before:  1 normal | 2 dead | 3 redirect to 4 | 4 normal | 5 unused      hole   4   -   1
//!   after:   the same line pointers without 5                          hole   hole   4   1
//! ```
//!
//! Indexes refer to line pointers, so a line pointer keeps its number. Only unused ones at the end
//! of the array go away. Items move to the end of the page, in the order of their line pointers.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::max_align,
    ids::{BLOCK_SIZE, OffsetNumber},
    page::{HEADER_SIZE, ITEM_ID_SIZE, ItemId, ItemState, PD_HAS_FREE_LINES, Page, PageMut},
};

/// Why a page's line pointers are not valid, or can't be changed as told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinePointerError {
    /// The bounds in the page's header contradict each other.
    #[error("page header is damaged: lower {lower}, upper {upper}, special {special}")]
    Header {
        /// End of the line pointers.
        lower: usize,
        /// Start of the items.
        upper: usize,
        /// End of the items.
        special: usize,
    },
    /// A line pointer points out of the page's items, to a misaligned or an empty item; or an
    /// unused one or a redirect has a length.
    #[error("line pointer {item} is damaged: {len} bytes at {offset}")]
    Damaged {
        /// The line pointer.
        item: OffsetNumber,
        /// Where it points to.
        offset: u16,
        /// Its length.
        len: u16,
    },
    /// Two items share bytes.
    #[error("items of line pointers {item} and {other} overlap at {offset}")]
    Overlap {
        /// A line pointer.
        item: OffsetNumber,
        /// Another one.
        other: OffsetNumber,
        /// Where the second one's item begins.
        offset: u16,
    },
    /// A redirect leads to a line pointer without an item.
    #[error("line pointer {item} redirects to {target}, which has no item")]
    Redirect {
        /// The redirect.
        item: OffsetNumber,
        /// Where it leads.
        target: OffsetNumber,
    },
    /// A line pointer to be changed does not exist, is unused, or is to be changed twice.
    #[error("line pointer {item} is not there to be pruned")]
    NotPrunable {
        /// The line pointer.
        item: OffsetNumber,
    },
    /// A line pointer has no heap tuple.
    #[error("line pointer {item} has no tuple")]
    NoTuple {
        /// The line pointer.
        item: OffsetNumber,
    },
}

/// Line pointers to be changed by pruning.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changes<'a> {
    /// These become redirects: from, to.
    pub redirected: &'a [(OffsetNumber, OffsetNumber)],
    /// These become dead, without an item.
    pub dead: &'a [OffsetNumber],
    /// These become unused.
    pub unused: &'a [OffsetNumber],
}

/// Checks all line pointers of a page.
pub fn check(page: Page<'_>) -> Result<(), LinePointerError> {
    check_items(page, &read(page)?)
}

/// Changes line pointers, truncates their array, and compacts the items, which needs a cleanup
/// lock. On an error, the page is as before.
pub fn prune(page: &mut PageMut<'_>, changes: Changes<'_>) -> Result<(), LinePointerError> {
    let items = changed(page.page(), changes)?;
    rewrite(page, &items);
    Ok(())
}

/// Changes line pointers and truncates their array, but leaves items where they are. An exclusive
/// lock is enough, as others may hold references to items. Vacuum's second pass makes dead line
/// pointers unused this way. On an error, the page is as before.
pub fn prune_in_place(
    page: &mut PageMut<'_>,
    changes: Changes<'_>,
) -> Result<(), LinePointerError> {
    let items = changed(page.page(), changes)?;
    store(page, &items);
    truncate(page);
    Ok(())
}

/// Moves all items to the end of the page, without gaps, and truncates the array. On an error, the
/// page is as before.
pub fn compact(page: &mut PageMut<'_>) -> Result<(), LinePointerError> {
    prune(page, Changes::default())
}

/// Removes unused line pointers at the end of the array, but not the first, and sets or clears the
/// hint that others are unused.
pub fn truncate(page: &mut PageMut<'_>) {
    let view = page.page();
    let unused = |n| view.item_id(n).is_some_and(ItemId::is_unused);
    let count = view.item_count();
    let kept = (2..=count).rev().find(|&n| !unused(n)).unwrap_or(count.min(1));
    let free = (1..=kept).any(unused);
    set_count(page, kept, free);
}

fn set_count(page: &mut PageMut<'_>, count: OffsetNumber, free: bool) {
    page.set_lower((HEADER_SIZE + ITEM_ID_SIZE * usize::from(count)) as u16);
    page.set_flag(PD_HAS_FREE_LINES, free);
}

fn read(page: Page<'_>) -> Result<Vec<ItemId>, LinePointerError> {
    if page.lower() < HEADER_SIZE || !page.header_is_sane() {
        let (lower, upper, special) = (page.lower(), page.upper(), page.special());
        return Err(LinePointerError::Header { lower, upper, special });
    }
    let stored = page.line_pointers().iter();
    Ok(stored.map(|&bits| ItemId::from_bits(u32::from_le_bytes(bits))).collect())
}

/// The line pointers after the changes, checked.
fn changed(page: Page<'_>, changes: Changes<'_>) -> Result<Vec<ItemId>, LinePointerError> {
    let mut items = read(page)?;
    let mut seen = [false; BLOCK_SIZE / ITEM_ID_SIZE];
    let redirected = changes.redirected.iter().map(|&(from, to)| (from, ItemState::Redirect, to));
    let dead = changes.dead.iter().map(|&n| (n, ItemState::Dead, 0));
    let unused = changes.unused.iter().map(|&n| (n, ItemState::Unused, 0));
    for (n, state, offset) in redirected.chain(dead).chain(unused) {
        let index = usize::from(n).wrapping_sub(1);
        let place = items.get_mut(index).filter(|id| !id.is_unused()).zip(seen.get_mut(index));
        match place {
            Some((id, seen)) if !*seen => (*id, *seen) = (ItemId { offset, state, len: 0 }, true),
            _ => return Err(LinePointerError::NotPrunable { item: n }),
        }
    }
    check_items(page, &items)?;
    Ok(items)
}

fn numbered(items: &[ItemId]) -> impl Iterator<Item = (OffsetNumber, ItemId)> + Clone {
    (1..).zip(items.iter().copied())
}

/// Checks that items are inside of the page and apart, and that redirects lead to items.
fn check_items(page: Page<'_>, items: &[ItemId]) -> Result<(), LinePointerError> {
    let (upper, special) = (page.upper(), page.special());
    for (n, id) in numbered(items) {
        let (start, len) = (usize::from(id.offset), usize::from(id.len));
        let inside =
            len > 0 && start >= upper && start % 8 == 0 && start + max_align(len) <= special;
        let good = match id.state {
            ItemState::Normal => inside,
            ItemState::Dead => len == 0 || inside,
            ItemState::Redirect | ItemState::Unused => len == 0,
        };
        if !good {
            return Err(LinePointerError::Damaged { item: n, offset: id.offset, len: id.len });
        }
        let target = usize::from(id.offset).wrapping_sub(1);
        if id.state == ItemState::Redirect && !items.get(target).is_some_and(|id| id.is_normal()) {
            return Err(LinePointerError::Redirect { item: n, target: id.offset });
        }
    }
    check_apart(items)
}

fn check_apart(items: &[ItemId]) -> Result<(), LinePointerError> {
    let apart = |upper: &ItemId, lower: &ItemId| lower.offset + lower.len <= upper.offset;
    let stored = numbered(items).filter(|(_, id)| id.len > 0);
    // Mostly they are in descending order already.
    if stored.clone().map(|(_, id)| id).is_sorted_by(apart) {
        return Ok(());
    }
    let mut stored: Vec<_> = stored.collect();
    stored.sort_by_key(|(_, id)| std::cmp::Reverse(id.offset));
    for pair in stored.windows(2) {
        let &[(other, upper), (item, lower)] = pair else { unreachable!("windows of two") };
        if !apart(&upper, &lower) {
            return Err(LinePointerError::Overlap { item, other, offset: upper.offset });
        }
    }
    Ok(())
}

fn store(page: &mut PageMut<'_>, items: &[ItemId]) {
    for (n, id) in numbered(items) {
        let exists = page.set_item_id(n, id);
        assert!(exists, "line pointer {n} was read from this page");
    }
}

/// Stores line pointers that were checked, with their items at the end of the page.
fn rewrite(page: &mut PageMut<'_>, items: &[ItemId]) {
    let special = page.page().special();
    let before = *page.0;
    let mut upper = special;
    let (mut used, mut unused) = (0, 0);
    for (n, mut id) in numbered(items) {
        if id.is_unused() {
            unused += 1;
            id = ItemId::UNUSED;
        } else {
            used = n;
        }
        if id.len > 0 {
            let (start, len) = (usize::from(id.offset), max_align(usize::from(id.len)));
            upper -= len;
            if start != upper {
                let item = before.get(start..start + len).expect("the item was checked");
                page.0.get_mut(upper..upper + len).expect("items fit").copy_from_slice(item);
                id.offset = upper as u16;
            }
        }
        page.set_item_id(n, id);
    }
    page.set_upper(upper as u16);
    let behind = items.len() - usize::from(used);
    set_count(page, used, unused > behind);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::page::PageBytes;
    use proptest::prelude::*;

    /// A page with items of some lengths, each filled with its number.
    fn page(lens: &[usize]) -> PageBytes {
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut(&mut bytes);
        page.init(0);
        for (n, &len) in (1..).zip(lens) {
            assert_eq!(page.add_item(&vec![n as u8; len], None), Some(n));
        }
        bytes
    }

    fn set(bytes: &mut PageBytes, n: OffsetNumber, offset: u16, state: ItemState, len: u16) {
        assert!(PageMut(bytes).set_item_id(n, ItemId { offset, state, len }));
    }

    #[test]
    fn pruning_moves_items_and_keeps_numbers() {
        let mut bytes = page(&[10, 20, 30, 40, 50, 60]);
        let mut view = PageMut(&mut bytes);
        let changes = Changes { redirected: &[(1, 3)], dead: &[2], unused: &[4, 6] };
        prune(&mut view, changes).unwrap();
        let page = view.page();
        assert_eq!((page.item_count(), page.flags()), (5, PD_HAS_FREE_LINES));
        assert_eq!((page.upper(), page.lower()), (8192 - 32 - 56, 24 + 5 * 4));
        assert_eq!((page.item(3), page.item(5)), (Some(&[3; 30][..]), Some(&[5; 50][..])));
        let states: Vec<_> = (1..=5).map(|n| page.item_id(n).unwrap().state).collect();
        use ItemState::{Dead, Normal, Redirect, Unused};
        assert_eq!(states, [Redirect, Dead, Normal, Unused, Normal]);
        assert_eq!(page.item_id(1).unwrap().offset, 3);
        assert_eq!(check(page), Ok(()));
        assert_eq!(view.add_item(&[9; 5], None), Some(4));
        assert_eq!(check(view.page()), Ok(()));
    }

    #[test]
    fn nothing_left_leaves_an_empty_page() {
        let mut bytes = page(&[10, 20]);
        let mut view = PageMut(&mut bytes);
        prune(&mut view, Changes { unused: &[1, 2], ..Changes::default() }).unwrap();
        let page = view.page();
        assert_eq!((page.lower(), page.upper(), page.flags()), (24, 8192, 0));
    }

    #[test]
    fn pruning_in_place_leaves_items_and_one_line_pointer() {
        let mut bytes = page(&[10, 20, 30]);
        (1..=3).for_each(|n| set(&mut bytes, n, 0, ItemState::Dead, 0));
        let upper = Page::new(&bytes).upper();
        let mut view = PageMut(&mut bytes);
        prune_in_place(&mut view, Changes { unused: &[3, 2], ..Changes::default() }).unwrap();
        assert_eq!((view.page().item_count(), view.page().flags()), (1, 0));
        prune_in_place(&mut view, Changes { unused: &[1], ..Changes::default() }).unwrap();
        assert_eq!((view.page().item_count(), view.page().flags()), (1, PD_HAS_FREE_LINES));
        assert_eq!(view.page().upper(), upper);
    }

    #[test]
    fn impossible_changes_are_refused_and_change_nothing() {
        let before = page(&[10, 20, 30]);
        let refuse = |changes: Changes<'_>| {
            let mut bytes = before;
            let error = prune(&mut PageMut(&mut bytes), changes).unwrap_err();
            assert_eq!(bytes, before);
            error
        };
        let changes = Changes::default();
        for item in [0, 4, u16::MAX] {
            let error = refuse(Changes { dead: &[item], ..changes });
            assert_eq!(error, LinePointerError::NotPrunable { item });
        }
        assert_eq!(
            refuse(Changes { dead: &[1], unused: &[1], ..changes }),
            LinePointerError::NotPrunable { item: 1 }
        );
        for target in [0, 1, 2, 4] {
            assert_eq!(
                refuse(Changes { redirected: &[(1, target)], dead: &[2], ..changes }),
                LinePointerError::Redirect { item: 1, target }
            );
        }
    }

    #[test]
    fn malformed_line_pointers_are_named() {
        use ItemState::{Dead, Normal, Redirect, Unused};
        let good = page(&[10, 20, 30]);
        let damaged = |item, offset, len| LinePointerError::Damaged { item, offset, len };
        let cases = [
            ((2, 8190, Normal, 4), damaged(2, 8190, 4)),
            ((2, 8184, Normal, 16), damaged(2, 8184, 16)),
            ((2, 32, Normal, 16), damaged(2, 32, 16)),
            ((2, 8177, Normal, 4), damaged(2, 8177, 4)),
            ((2, 8176, Normal, 0), damaged(2, 8176, 0)),
            ((2, 0x7fff, Dead, 0x7fff), damaged(2, 0x7fff, 0x7fff)),
            ((2, 3, Redirect, 1), damaged(2, 3, 1)),
            ((2, 0, Unused, 1), damaged(2, 0, 1)),
            ((2, 2, Redirect, 0), LinePointerError::Redirect { item: 2, target: 2 }),
            ((2, 8176, Normal, 16), LinePointerError::Overlap { item: 2, other: 1, offset: 8176 }),
            ((2, 8120, Normal, 40), LinePointerError::Overlap { item: 3, other: 2, offset: 8120 }),
        ];
        for ((n, offset, state, len), error) in cases {
            let mut bytes = good;
            set(&mut bytes, n, offset, state, len);
            assert_eq!(check(Page::new(&bytes)), Err(error));
            let before = bytes;
            assert_eq!(compact(&mut PageMut(&mut bytes)), Err(error));
            assert_eq!(bytes, before);
        }
        let mut bytes = good;
        PageMut(&mut bytes).set_lower(8190);
        assert!(matches!(check(Page::new(&bytes)), Err(LinePointerError::Header { .. })));
    }

    proptest! {
        #[test]
        fn items_survive_in_any_order(
            lens in proptest::collection::vec(1_usize..120, 1..60),
            fates in proptest::collection::vec(0_u8..4, 60),
            shuffle: u64,
        ) {
            let mut bytes = page(&lens);
            // Exchange two line pointers, so that items are not in the order of their numbers.
            let count = lens.len() as u16;
            let (a, b) = (1 + (shuffle % u64::from(count)) as u16, 1);
            let mut view = PageMut(&mut bytes);
            let (x, y) = (view.page().item_id(a).unwrap(), view.page().item_id(b).unwrap());
            view.set_item_id(a, y);
            view.set_item_id(b, x);
            let with = |fate: u8| -> Vec<u16> {
                (1..=count).filter(|&n| fates[usize::from(n) - 1] == fate).collect()
            };
            let (dead, unused) = (with(1), with(2));
            let kept = |n: &u16| !dead.contains(n) && !unused.contains(n);
            let before: Vec<_> = (1..=count)
                .filter(kept)
                .map(|n| (n, view.page().item(n).unwrap().to_vec()))
                .collect();
            prune(&mut view, Changes { redirected: &[], dead: &dead, unused: &unused }).unwrap();
            let after: Vec<_> =
                view.page().items().map(|(n, item)| (n, item.to_vec())).collect();
            prop_assert_eq!(&after, &before);
            prop_assert_eq!(check(view.page()), Ok(()));
            let total: usize = before.iter().map(|(_, item)| max_align(item.len())).sum();
            prop_assert_eq!(view.page().upper(), BLOCK_SIZE - total);
            let free = view.page().flags() & PD_HAS_FREE_LINES != 0;
            let last = view.page().item_count();
            prop_assert_eq!(free, unused.iter().any(|&n| n <= last));
        }
    }
}
