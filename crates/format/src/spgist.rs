//! Pages of SP-GiST indexes, as far as redo changes them.
//!
//! ```text
//!   page header | line pointers -> |  hole  | <- tuples | Opaque
//!
//!   Opaque:
//!   0       2           4             6         8
//!   +-------+-----------+-------------+---------+
//!   | flags | redirects | placeholders| page id |
//!   +-------+-----------+-------------+---------+
//!
//!   leaf tuple:                     dead tuple:
//!   0       4      6     12         0       4      6          12    16
//!   +-------+------+-----+-------   +-------+------+----------+-----+
//!   | state | next | row | value    | state | 0    | redirect | xid |
//!   +-------+------+-----+-------   +-------+------+----------+-----+
//!
//!   inner tuple:
//!   0               4      6     8
//!   +---------------+------+-----+--------+-------------------------------+
//!   | state, counts | size | pad | prefix | nodes: index tuples, which     |
//!   |               |      |     |        | lead to an item of any page   |
//!   +---------------+------+-----+--------+-------------------------------+
//! ```
//!
//! - state: in bits 0 and 1; of leaf and dead tuples the size in the others; of inner tuples all
//!   nodes alike in bit 2, number of nodes in bits 3 to 15, length of the prefix in bits 16 to 31
//! - next: the next leaf tuple of the same node, in bits 0 to 13
//!
//! Tuples are referred to by their numbers, which must not change. So one that is removed leaves a
//! dead tuple: a redirect to where it went, or a placeholder, whose place another tuple may take.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, put, u16_field, u32_at, u32_field},
    ids::{BLOCK_SIZE, INVALID_XID, ItemPointer, OffsetNumber, Xid},
    index_page::{
        IndexPageError, bounds, delete_item, delete_items, insert_item, item, mask_hints,
    },
    index_tuple,
    page::{Page, PageBytes, PageMut},
};

/// Bytes of the special space.
pub const OPAQUE_SIZE: usize = 8;
/// The page id of all pages.
pub const PAGE_ID: u16 = 0xff82;
/// Bytes of a dead tuple.
pub const DEAD_SIZE: usize = 16;

/// Flag: a page of leaf tuples.
pub const LEAF: u16 = 1 << 2;
/// Flag: a page of the tree of NULLs.
pub const NULLS: u16 = 1 << 3;

const OPAQUE_AT: usize = BLOCK_SIZE - OPAQUE_SIZE;
const STATE_MASK: u32 = 3;
const NEXT_AT: usize = 4;
const NEXT_MASK: u16 = 0x3fff;
const POINTER_AT: usize = 6;
const XID_AT: usize = 12;
const INNER_SIZE_AT: usize = 4;
const INNER_HEADER: usize = 8;

const _: () = assert!(POINTER_AT + ItemPointer::SIZE == XID_AT && XID_AT + 4 == DEAD_SIZE);

/// State of a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TupleState {
    /// A leaf or inner tuple.
    Live = 0,
    /// The tuple has moved.
    Redirect = 1,
    /// The tuple was removed, and its node still leads to it.
    Dead = 2,
    /// The place is free for another tuple.
    Placeholder = 3,
}

impl TupleState {
    const fn from_bits(bits: u32) -> Self {
        match bits & STATE_MASK {
            0 => Self::Live,
            1 => Self::Redirect,
            2 => Self::Dead,
            _ => Self::Placeholder,
        }
    }
}

/// The special space of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opaque {
    /// Flags.
    pub flags: u16,
    /// Number of redirects.
    pub redirects: u16,
    /// Number of placeholders.
    pub placeholders: u16,
}

impl Opaque {
    /// That of a page, which must be a page of an SP-GiST index.
    pub fn of(page: Page<'_>) -> Result<Self, IndexPageError> {
        bounds(page)?;
        let bytes = page.special_bytes();
        if bytes.len() != OPAQUE_SIZE || u16_field(bytes, 6) != PAGE_ID {
            return Err(IndexPageError::Kind("page of an SP-GiST index"));
        }
        let [flags, redirects, placeholders] = [0, 2, 4].map(|at| u16_field(bytes, at));
        Ok(Self { flags, redirects, placeholders })
    }

    /// Stores it in a page, whose special space must have this size.
    pub fn store(&self, page: &mut PageMut<'_>) {
        let numbers = [self.flags, self.redirects, self.placeholders, PAGE_ID];
        for (index, number) in numbers.into_iter().enumerate() {
            put(page.0, OPAQUE_AT + 2 * index, number.to_le_bytes());
        }
    }

    /// Counts dead tuples that came or went.
    fn count(&mut self, state: TupleState, come: bool) -> Result<(), IndexPageError> {
        let count = match state {
            TupleState::Redirect => &mut self.redirects,
            TupleState::Placeholder => &mut self.placeholders,
            _ => return Ok(()),
        };
        let counted = if come { count.checked_add(1) } else { count.checked_sub(1) };
        *count = counted.ok_or(IndexPageError::Damaged("dead tuples are counted wrongly"))?;
        Ok(())
    }
}

/// Makes an empty page with these flags.
pub fn init_page(page: &mut PageMut<'_>, flags: u16) {
    page.init(OPAQUE_SIZE);
    Opaque { flags, redirects: 0, placeholders: 0 }.store(page);
}

/// The leaf tuple at the beginning of some bytes, and the bytes behind it.
pub fn split_leaf(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let size = (u32_at(bytes, 0)? >> 2) as usize;
    bytes.split_at_checked(size).filter(|_| size >= XID_AT)
}

/// The inner tuple at the beginning of some bytes, and the bytes behind it.
pub fn split_inner(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut header = Cursor::new(bytes);
    header.take(INNER_SIZE_AT)?;
    let size = usize::from(header.u16()?);
    bytes.split_at_checked(size).filter(|_| size >= INNER_HEADER)
}

fn state_of(page: Page<'_>, n: OffsetNumber) -> Result<TupleState, IndexPageError> {
    let bits = u32_at(item(page, n)?, 0).ok_or(IndexPageError::Item { item: n })?;
    Ok(TupleState::from_bits(bits))
}

/// What takes the place of tuples that are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Successor {
    /// A redirect to a place, made by a transaction.
    Redirect(ItemPointer, Xid),
    /// A dead tuple.
    Dead,
    /// A placeholder.
    Placeholder,
}

impl Successor {
    const fn state(self) -> TupleState {
        match self {
            Self::Redirect(..) => TupleState::Redirect,
            Self::Dead => TupleState::Dead,
            Self::Placeholder => TupleState::Placeholder,
        }
    }

    fn form(self) -> [u8; DEAD_SIZE] {
        let (pointer, xid) = match self {
            Self::Redirect(to, xid) => (to, xid),
            _ => (ItemPointer::INVALID, INVALID_XID),
        };
        let mut tuple = [0; DEAD_SIZE];
        let bits = (DEAD_SIZE as u32) << 2 | self.state() as u32;
        put(&mut tuple, 0, bits.to_le_bytes());
        put(&mut tuple, POINTER_AT, pointer.encode());
        put(&mut tuple, XID_AT, xid.to_le_bytes());
        tuple
    }
}

/// Adds a tuple as item `n`: behind the last one, or in the place of a placeholder.
pub fn add_tuple(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    tuple: &[u8],
) -> Result<(), IndexPageError> {
    let mut opaque = Opaque::of(page.page())?;
    if n > page.page().item_count() {
        return insert_item(page, n, tuple);
    }
    if state_of(page.page(), n)? != TupleState::Placeholder {
        return Err(IndexPageError::Damaged("the place of a tuple is taken"));
    }
    opaque.count(TupleState::Placeholder, false)?;
    opaque.store(page);
    replace_tuple(page, n, tuple)
}

/// Puts a tuple in the place of another one.
pub fn replace_tuple(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    tuple: &[u8],
) -> Result<(), IndexPageError> {
    Opaque::of(page.page())?;
    delete_item(page, n)?;
    insert_item(page, n, tuple)
}

/// Removes a tuple, whose place `successor` takes.
pub fn supersede(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    successor: Successor,
) -> Result<(), IndexPageError> {
    replace_tuple(page, n, &successor.form())?;
    let mut opaque = Opaque::of(page.page())?;
    opaque.count(successor.state(), true)?;
    opaque.store(page);
    Ok(())
}

/// Removes tuples, whose numbers need not ascend. `first` takes the place of the first one that is
/// listed, `rest` those of the others.
pub fn remove_tuples(
    page: &mut PageMut<'_>,
    numbers: &[OffsetNumber],
    first: Successor,
    rest: Successor,
) -> Result<(), IndexPageError> {
    let mut opaque = Opaque::of(page.page())?;
    let Some(&listed_first) = numbers.first() else { return Ok(()) };
    let mut ascending = numbers.to_vec();
    ascending.sort_unstable();
    delete_items(page, &ascending)?;
    for &n in &ascending {
        let successor = if n == listed_first { first } else { rest };
        insert_item(page, n, &successor.form())?;
        opaque.count(successor.state(), true)?;
    }
    opaque.store(page);
    Ok(())
}

/// Exchanges the places of two tuples.
pub fn swap_tuples(
    page: &mut PageMut<'_>,
    a: OffsetNumber,
    b: OffsetNumber,
) -> Result<(), IndexPageError> {
    let view = page.page();
    let missing = |item| IndexPageError::Item { item };
    let (id_a, id_b) = view
        .item_id(a)
        .ok_or(missing(a))
        .and_then(|id| view.item_id(b).ok_or(missing(b)).map(|other| (id, other)))?;
    page.set_item_id(a, id_b);
    page.set_item_id(b, id_a);
    Ok(())
}

/// Sets the leaf tuple that follows another one.
pub fn set_next(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    next: OffsetNumber,
) -> Result<(), IndexPageError> {
    Opaque::of(page.page())?;
    let tuple = tuple_mut(page, n, XID_AT)?;
    let bits = u16_field(tuple, NEXT_AT) & !NEXT_MASK | next & NEXT_MASK;
    put(tuple, NEXT_AT, bits.to_le_bytes());
    Ok(())
}

/// A tuple, to change, of at least `least` bytes.
fn tuple_mut<'a>(
    page: &'a mut PageMut<'_>,
    n: OffsetNumber,
    least: usize,
) -> Result<&'a mut [u8], IndexPageError> {
    item(page.page(), n)?;
    let tuple = page.item_mut(n).filter(|tuple| tuple.len() >= least);
    tuple.ok_or(IndexPageError::Item { item: n })
}

/// Sets where a node of an inner tuple leads to. Nodes are counted from 0.
pub fn set_node_link(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    node: u16,
    to: ItemPointer,
) -> Result<(), IndexPageError> {
    Opaque::of(page.page())?;
    let tuple = tuple_mut(page, n, INNER_HEADER)?;
    let bits = u32_field(tuple, 0);
    let (nodes, prefix) = (bits >> 3 & 0x1fff, (bits >> 16) as usize);
    let no_node = IndexPageError::Damaged("an inner tuple has no such node");
    let mut rest = tuple.get_mut(INNER_HEADER + prefix..).ok_or(no_node.clone())?;
    if u32::from(node) >= nodes {
        return Err(no_node);
    }
    for _ in 0..node {
        let size = node_size(rest)?;
        rest = rest.get_mut(size..).ok_or(no_node.clone())?;
    }
    node_size(rest)?;
    index_tuple::set_tid(rest, to);
    Ok(())
}

/// The size of the node at the beginning of some bytes. A node is an index tuple whose flag for
/// NULLs announces no bitmap.
fn node_size(bytes: &[u8]) -> Result<usize, IndexPageError> {
    let damaged = IndexPageError::Damaged("a node of an inner tuple is damaged");
    if bytes.len() < index_tuple::HEADER_SIZE {
        return Err(damaged);
    }
    let size = usize::from(u16_field(bytes, ItemPointer::SIZE) & index_tuple::INDEX_SIZE_MASK);
    match (index_tuple::HEADER_SIZE..=bytes.len()).contains(&size) {
        true => Ok(size),
        false => Err(damaged),
    }
}

/// Turns redirects into placeholders, then removes all items from `first_removed` on, if it is not
/// 0: they must be placeholders.
pub fn vacuum_redirects(
    page: &mut PageMut<'_>,
    redirects: &[OffsetNumber],
    first_removed: OffsetNumber,
) -> Result<(), IndexPageError> {
    let mut opaque = Opaque::of(page.page())?;
    for &n in redirects {
        if state_of(page.page(), n)? != TupleState::Redirect {
            return Err(IndexPageError::Damaged("a tuple is no redirect"));
        }
        let tuple = tuple_mut(page, n, DEAD_SIZE)?;
        let bits = u32_field(tuple, 0) | TupleState::Placeholder as u32;
        put(tuple, 0, bits.to_le_bytes());
        put(tuple, POINTER_AT, ItemPointer::INVALID.encode());
        opaque.count(TupleState::Redirect, false)?;
        opaque.count(TupleState::Placeholder, true)?;
    }
    if first_removed != 0 {
        let removed: Vec<_> = (first_removed..=page.page().item_count()).collect();
        for &n in &removed {
            if state_of(page.page(), n)? != TupleState::Placeholder {
                return Err(IndexPageError::Damaged("a tuple is no placeholder"));
            }
            opaque.count(TupleState::Placeholder, false)?;
        }
        delete_items(page, &removed)?;
    }
    opaque.store(page);
    Ok(())
}

/// Sets to zero what redo or hints may have left different, as PostgreSQL does where it compares
/// pages. A page that is not one of an SP-GiST index stays as it is.
pub fn mask(bytes: &mut PageBytes) {
    let mut page = PageMut::new(bytes);
    if Opaque::of(page.page()).is_ok() {
        mask_hints(&mut page);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn leaf_tuple(size: u32, next: u16) -> Vec<u8> {
        let mut tuple = vec![7; size as usize];
        put(&mut tuple, 0, (size << 2).to_le_bytes());
        put(&mut tuple, NEXT_AT, (0x8000 | next).to_le_bytes());
        tuple
    }

    fn leaf_page(count: u16) -> PageBytes {
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        init_page(&mut page, LEAF);
        (1..=count).for_each(|n| add_tuple(&mut page, n, &leaf_tuple(24, n)).unwrap());
        bytes
    }

    #[test]
    fn tuples_leave_dead_ones_behind() {
        let mut bytes = leaf_page(5);
        let mut page = PageMut::new(&mut bytes);
        let to = ItemPointer::new(9, 2);
        let redirect = Successor::Redirect(to, 77);
        remove_tuples(&mut page, &[4, 2, 5], redirect, Successor::Placeholder).unwrap();
        let states: Vec<_> = (1..=5).map(|n| state_of(page.page(), n).unwrap()).collect();
        use TupleState::{Live, Placeholder, Redirect};
        assert_eq!(states, [Live, Placeholder, Live, Redirect, Placeholder]);
        let expected = [0x41, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 0, 77, 0, 0, 0];
        assert_eq!(item(page.page(), 4), Ok(&expected[..]));
        let opaque = Opaque::of(page.page()).unwrap();
        assert_eq!((opaque.redirects, opaque.placeholders), (1, 2));
        assert!(add_tuple(&mut page, 4, &leaf_tuple(24, 0)).is_err());
        add_tuple(&mut page, 2, &leaf_tuple(32, 0)).unwrap();
        assert!(vacuum_redirects(&mut page, &[], 3).is_err());
        vacuum_redirects(&mut page, &[4], 4).unwrap();
        let opaque = Opaque::of(page.page()).unwrap();
        assert_eq!((opaque.redirects, opaque.placeholders, page.page().item_count()), (0, 0, 3));
        assert!(remove_tuples(&mut page, &[1, 1], redirect, redirect).is_err());
    }

    #[test]
    fn the_chain_of_a_node() {
        let mut bytes = leaf_page(2);
        let mut page = PageMut::new(&mut bytes);
        set_next(&mut page, 1, 2).unwrap();
        swap_tuples(&mut page, 1, 2).unwrap();
        assert_eq!(item(page.page(), 2).unwrap()[NEXT_AT..6], [2, 0x80]);
        assert!(set_next(&mut page, 3, 1).is_err() && swap_tuples(&mut page, 1, 3).is_err());
    }

    #[test]
    fn nodes_of_an_inner_tuple() {
        let mut tuple = vec![0; 8 + 16 + 3 * 16];
        let size = tuple.len() as u16;
        put(&mut tuple, 0, (16_u32 << 16 | 3 << 3).to_le_bytes());
        put(&mut tuple, INNER_SIZE_AT, size.to_le_bytes());
        for node in 0..3 {
            put(&mut tuple, 24 + 16 * node + 6, (0x8000_u16 | 16).to_le_bytes());
        }
        assert_eq!(split_inner(&tuple), Some((&tuple[..], &[][..])));
        assert_eq!(split_inner(&tuple[..70]), None);
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        init_page(&mut page, 0);
        add_tuple(&mut page, 1, &tuple).unwrap();
        set_node_link(&mut page, 1, 2, ItemPointer::new(5, 6)).unwrap();
        assert_eq!(item(page.page(), 1).unwrap()[56..62], [0, 0, 5, 0, 6, 0]);
        assert!(set_node_link(&mut page, 1, 3, ItemPointer::new(5, 6)).is_err());
        page.item_mut(1).unwrap()[24 + 6] = 3;
        assert!(set_node_link(&mut page, 1, 1, ItemPointer::new(5, 6)).is_err());
    }

    #[test]
    fn leaf_tuples_one_behind_the_other() {
        let tuples = [leaf_tuple(24, 1), leaf_tuple(16, 2)].concat();
        let (first, rest) = split_leaf(&tuples).unwrap();
        assert_eq!((first.len(), rest.len()), (24, 16));
        assert_eq!(split_leaf(&rest[..15]), None);
        assert_eq!(split_leaf(&[4, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
