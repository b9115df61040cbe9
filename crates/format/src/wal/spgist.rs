//! Records of SP-GiST indexes.
//!
//! ```text
//!   kind             main data         block references
//!   ADD_LEAF         SpgAddLeaf        0 leaf page | [1 parent]
//!   MOVE_LEAFS       SpgMoveLeafs      0 old leaf page | 1 new leaf page | 2 parent
//!   ADD_NODE         SpgAddNode        0 page | [1 page of the new tuple] | [2 parent]
//!   SPLIT_TUPLE      SpgSplitTuple     0 page of the prefix | [1 page of the postfix]
//!   PICKSPLIT        SpgPickSplit      [0 old leaf page] | [1 new leaf page] | 2 page of the new
//!                                      tuple | [3 parent]
//!   VACUUM_LEAF      SpgVacuumLeaf     0 leaf page
//!   VACUUM_ROOT      SpgVacuumRoot     0 root, which is a leaf page
//!   VACUUM_REDIRECT  SpgVacuumRedirect 0 page
//! ```
//!
//! Blocks have no data: tuples follow in the main data, without padding.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::Cursor,
    ids::{OffsetNumber, Xid},
    spgist::{split_inner, split_leaf},
    wal::error::{PayloadError, damaged},
};

/// A leaf tuple added.
pub const ADD_LEAF: u8 = 0x10;
/// The leaf tuples of a node moved to another page.
pub const MOVE_LEAFS: u8 = 0x20;
/// A node added to an inner tuple.
pub const ADD_NODE: u8 = 0x30;
/// An inner tuple split into its prefix and the rest.
pub const SPLIT_TUPLE: u8 = 0x40;
/// The leaf tuples of a node distributed by a new inner tuple.
pub const PICKSPLIT: u8 = 0x50;
/// Leaf tuples deleted by vacuum.
pub const VACUUM_LEAF: u8 = 0x60;
/// Leaf tuples of a root deleted by vacuum.
pub const VACUUM_ROOT: u8 = 0x70;
/// Redirects and placeholders removed.
pub const VACUUM_REDIRECT: u8 = 0x80;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        ADD_LEAF => "ADD_LEAF",
        MOVE_LEAFS => "MOVE_LEAFS",
        ADD_NODE => "ADD_NODE",
        SPLIT_TUPLE => "SPLIT_TUPLE",
        PICKSPLIT => "PICKSPLIT",
        VACUUM_LEAF => "VACUUM_LEAF",
        VACUUM_ROOT => "VACUUM_ROOT",
        VACUUM_REDIRECT => "VACUUM_REDIRECT",
        _ => "UNKNOWN",
    }
}

/// A node of an inner tuple that leads to what a record makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLink {
    /// The inner tuple, an item of the parent page.
    pub parent: OffsetNumber,
    /// The node's number, from 0.
    pub node: u16,
}

impl NodeLink {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self { parent: cursor.u16()?, node: cursor.u16()? })
    }
}

/// The transaction of redirects; none while the index is built, which needs no redirects.
fn read_state(cursor: &mut Cursor<'_>) -> Option<Option<Xid>> {
    let (xid, is_build) = (cursor.u32()?, cursor.u8()? != 0);
    cursor.take(3)?;
    Some((!is_build).then_some(xid))
}

fn read_bool(cursor: &mut Cursor<'_>) -> Option<bool> {
    Some(cursor.u8()? != 0)
}

/// Takes a tuple from the beginning of what is left.
fn take_tuple<'a>(
    cursor: &mut Cursor<'a>,
    split: impl Fn(&'a [u8]) -> Option<(&'a [u8], &'a [u8])>,
) -> Option<&'a [u8]> {
    let (tuple, _) = split(cursor.rest())?;
    cursor.take(tuple.len())
}

fn take_leaves<'a>(cursor: &mut Cursor<'a>, count: usize) -> Option<Vec<&'a [u8]>> {
    (0..count).map(|_| take_tuple(cursor, split_leaf)).collect()
}

/// Main data of [`ADD_LEAF`].
///
/// ```text
///   0          1       2      4      6        8      10
///   +----------+-------+------+------+--------+------+-------+
///   | new page | nulls | item | head | parent | node | tuple |
///   +----------+-------+------+------+--------+------+-------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpgAddLeaf<'a> {
    /// Whether redo initializes the page.
    pub new_page: bool,
    /// Whether the page is one of the tree of NULLs.
    pub nulls: bool,
    /// The item that the tuple becomes.
    pub item: OffsetNumber,
    /// The first tuple of the node, behind which it comes. 0 if it has none; the item itself if the
    /// tuple takes a dead one's place.
    pub head: OffsetNumber,
    /// The node, unless the parent is 0.
    pub link: NodeLink,
    /// The tuple.
    pub tuple: &'a [u8],
}

impl<'a> SpgAddLeaf<'a> {
    /// Decodes it.
    pub fn decode(main: &'a [u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'a>| {
            Some(Self {
                new_page: read_bool(cursor)?,
                nulls: read_bool(cursor)?,
                item: cursor.u16()?,
                head: cursor.u16()?,
                link: NodeLink::read(cursor)?,
                tuple: take_tuple(cursor, split_leaf)?,
            })
        };
        read(&mut cursor).ok_or(damaged("ADD_LEAF"))
    }
}

/// Main data of [`MOVE_LEAFS`].
///
/// ```text
///   0       2          3        4       6        8      10    12      20
///   +-------+----------+--------+-------+--------+------+-----+-------+------------------------+
///   | moved | new page | replace| nulls | parent | node | pad | state | moved items, new items,|
///   |       |          | dead   | + pad |        |      |     |       | tuples                 |
///   +-------+----------+--------+-------+--------+------+-----+-------+------------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpgMoveLeafs<'a> {
    /// Whether redo initializes the new page.
    pub new_page: bool,
    /// Whether the pages are those of the tree of NULLs.
    pub nulls: bool,
    /// The node.
    pub link: NodeLink,
    /// Who makes a redirect.
    pub redirect_xid: Option<Xid>,
    /// Items to remove from the old page.
    pub moved: Vec<OffsetNumber>,
    /// What the tuples become on the new page. The node leads to the last one.
    pub items: Vec<OffsetNumber>,
    /// Tuples for the new page: those that move, and a new one. If the old page has just a dead
    /// tuple, only the new one.
    pub tuples: Vec<&'a [u8]>,
}

impl<'a> SpgMoveLeafs<'a> {
    /// Decodes it.
    pub fn decode(main: &'a [u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'a>| {
            let (count, new_page) = (usize::from(cursor.u16()?), read_bool(cursor)?);
            let (replaces_dead, nulls) = (read_bool(cursor)?, read_bool(cursor)?);
            cursor.u8()?;
            let link = NodeLink::read(cursor)?;
            cursor.u16()?;
            let redirect_xid = read_state(cursor)?;
            let moved = cursor.u16s(count)?;
            let new = if replaces_dead { 1 } else { count + 1 };
            let items = cursor.u16s(new)?;
            let tuples = take_leaves(cursor, new)?;
            Some(Self { new_page, nulls, link, redirect_xid, moved, items, tuples })
        };
        read(&mut cursor).ok_or(damaged("MOVE_LEAFS"))
    }
}

/// The page with the inner tuple that leads to a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentPage {
    /// The tuple stays where it is: its parent does not change.
    None,
    /// The page of block reference 0.
    Old,
    /// The page of block reference 1.
    New,
    /// The page of block reference 2.
    Other,
}

/// Main data of [`ADD_NODE`].
///
/// ```text
///   0      2          4          5       6        8      10    12      20
///   +------+----------+----------+-------+--------+------+-----+-------+-------+
///   | item | new item | new page | which | parent | node | pad | state | tuple |
///   |      |          |          | parent|        |      |     |       |       |
///   +------+----------+----------+-------+--------+------+-----+-------+-------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpgAddNode<'a> {
    /// The tuple, an item of block 0.
    pub item: OffsetNumber,
    /// What it becomes on block 1, if it moves.
    pub new_item: OffsetNumber,
    /// Whether redo initializes block 1.
    pub new_page: bool,
    /// Which page has the parent.
    pub parent_page: ParentPage,
    /// The node that leads to the tuple.
    pub link: NodeLink,
    /// Who makes a redirect.
    pub redirect_xid: Option<Xid>,
    /// The tuple with the new node.
    pub tuple: &'a [u8],
}

impl<'a> SpgAddNode<'a> {
    /// Decodes it.
    pub fn decode(main: &'a [u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'a>| {
            let (item, new_item, new_page) = (cursor.u16()?, cursor.u16()?, read_bool(cursor)?);
            let parent_page = match cursor.u8()? {
                0 => ParentPage::Old,
                1 => ParentPage::New,
                2 => ParentPage::Other,
                u8::MAX => ParentPage::None,
                _ => return None,
            };
            let link = NodeLink::read(cursor)?;
            cursor.u16()?;
            let redirect_xid = read_state(cursor)?;
            let tuple = take_tuple(cursor, split_inner)?;
            Some(Self { item, new_item, new_page, parent_page, link, redirect_xid, tuple })
        };
        read(&mut cursor).ok_or(damaged("ADD_NODE"))
    }
}

/// Main data of [`SPLIT_TUPLE`].
///
/// ```text
///   0             2              4          5          6
///   +-------------+--------------+----------+----------+------------------------+
///   | prefix item | postfix item | new page | same page| prefix, postfix tuples |
///   +-------------+--------------+----------+----------+------------------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpgSplitTuple<'a> {
    /// The item whose place the prefix takes.
    pub prefix_item: OffsetNumber,
    /// The item that the postfix becomes.
    pub postfix_item: OffsetNumber,
    /// Whether redo initializes the postfix's page.
    pub new_page: bool,
    /// Whether both are on block 0.
    pub same_page: bool,
    /// The prefix.
    pub prefix: &'a [u8],
    /// The postfix.
    pub postfix: &'a [u8],
}

impl<'a> SpgSplitTuple<'a> {
    /// Decodes it.
    pub fn decode(main: &'a [u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'a>| {
            Some(Self {
                prefix_item: cursor.u16()?,
                postfix_item: cursor.u16()?,
                new_page: read_bool(cursor)?,
                same_page: read_bool(cursor)?,
                prefix: take_tuple(cursor, split_inner)?,
                postfix: take_tuple(cursor, split_inner)?,
            })
        };
        read(&mut cursor).ok_or(damaged("SPLIT_TUPLE"))
    }
}

/// A leaf tuple that [`PICKSPLIT`] places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedLeaf<'a> {
    /// Whether it goes to block 1, or to block 0.
    pub on_new_page: bool,
    /// The item that it becomes.
    pub item: OffsetNumber,
    /// The tuple.
    pub tuple: &'a [u8],
}

/// Main data of [`PICKSPLIT`].
///
/// ```text
///   0         2         4         6        7        8       10        11
///   +---------+---------+---------+--------+--------+-------+---------+-------+
///   | root    | deleted | inserted| init 0 | init 1 | inner | init 2  | nulls |
///   | + pad   |         |         |        |        | item  |         |       |
///   +---------+---------+---------+--------+--------+-------+---------+-------+
///   12        14       16     18    20      28
///   +---------+--------+------+-----+-------+--------------------------------------+
///   | inner is| parent | node | pad | state | deleted items, inserted items, their |
///   | parent  |        |      |     |       | pages u8, inner tuple, leaf tuples   |
///   +---------+--------+------+-----+-------+--------------------------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpgPickSplit<'a> {
    /// Whether a root is split, which is block 2 then.
    pub is_root: bool,
    /// Whether redo initializes block 0.
    pub init_old: bool,
    /// Whether redo initializes block 1.
    pub init_new: bool,
    /// Whether redo initializes block 2.
    pub init_inner: bool,
    /// Whether the pages are those of the tree of NULLs.
    pub nulls: bool,
    /// Whether the parent is on block 2, too.
    pub inner_is_parent: bool,
    /// The node that leads to the new tuple.
    pub link: NodeLink,
    /// Who makes a redirect.
    pub redirect_xid: Option<Xid>,
    /// Items to remove from block 0.
    pub deleted: Vec<OffsetNumber>,
    /// The item that the new inner tuple becomes.
    pub inner_item: OffsetNumber,
    /// The new inner tuple.
    pub inner: &'a [u8],
    /// The leaf tuples.
    pub leaves: Vec<PlacedLeaf<'a>>,
}

impl<'a> SpgPickSplit<'a> {
    /// Decodes it.
    pub fn decode(main: &'a [u8]) -> Result<Self, PayloadError> {
        Self::read(&mut Cursor::new(main)).ok_or(damaged("PICKSPLIT"))
    }

    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        let is_root = read_bool(cursor)?;
        cursor.u8()?;
        let (deleted, inserted) = (usize::from(cursor.u16()?), usize::from(cursor.u16()?));
        let (init_old, init_new, inner_item) =
            (read_bool(cursor)?, read_bool(cursor)?, cursor.u16()?);
        let (init_inner, nulls) = (read_bool(cursor)?, read_bool(cursor)?);
        let inner_is_parent = read_bool(cursor)?;
        cursor.u8()?;
        let link = NodeLink::read(cursor)?;
        cursor.u16()?;
        let redirect_xid = read_state(cursor)?;
        let deleted = cursor.u16s(deleted)?;
        let items = cursor.u16s(inserted)?;
        let pages = cursor.take(inserted)?;
        let inner = take_tuple(cursor, split_inner)?;
        let tuples = take_leaves(cursor, inserted)?;
        let places = items.into_iter().zip(pages).zip(tuples);
        let leaves =
            places.map(|((item, &page), tuple)| PlacedLeaf { on_new_page: page != 0, item, tuple });
        Some(Self {
            is_root,
            init_old,
            init_new,
            init_inner,
            nulls,
            inner_is_parent,
            link,
            redirect_xid,
            deleted,
            inner_item,
            inner,
            leaves: leaves.collect(),
        })
    }
}

/// Main data of [`VACUUM_LEAF`]: four counts u16, state, then the items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpgVacuumLeaf {
    /// Items that dead tuples replace.
    pub dead: Vec<OffsetNumber>,
    /// Items that placeholders replace.
    pub placeholders: Vec<OffsetNumber>,
    /// Tuples that move from one item to another; a placeholder stays where they were.
    pub moves: Vec<(OffsetNumber, OffsetNumber)>,
    /// Tuples, and what follows them.
    pub chains: Vec<(OffsetNumber, OffsetNumber)>,
}

impl SpgVacuumLeaf {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let mut counts = [0; 4];
            for count in &mut counts {
                *count = usize::from(cursor.u16()?);
            }
            read_state(cursor)?;
            let [dead, placeholders, moves, chains] = counts;
            let (dead, placeholders) = (cursor.u16s(dead)?, cursor.u16s(placeholders)?);
            let moves = cursor.u16s(moves)?.into_iter().zip(cursor.u16s(moves)?).collect();
            let chains = cursor.u16s(chains)?.into_iter().zip(cursor.u16s(chains)?).collect();
            Some(Self { dead, placeholders, moves, chains })
        };
        read(&mut cursor).ok_or(damaged("VACUUM_LEAF"))
    }
}

/// Decodes the main data of [`VACUUM_ROOT`]: a count u16, padding, state, then the items to delete.
pub fn decode_vacuum_root(main: &[u8]) -> Result<Vec<OffsetNumber>, PayloadError> {
    let mut cursor = Cursor::new(main);
    let read = |cursor: &mut Cursor<'_>| {
        let count = usize::from(cursor.u16()?);
        cursor.u16()?;
        read_state(cursor)?;
        cursor.u16s(count)
    };
    read(&mut cursor).ok_or(damaged("VACUUM_ROOT"))
}

/// Main data of [`VACUUM_REDIRECT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpgVacuumRedirect {
    /// Standbys cancel queries with older snapshots.
    pub conflict_horizon: Xid,
    /// Redirects that become placeholders.
    pub redirects: Vec<OffsetNumber>,
    /// The first placeholder of those at the end of the page, which are removed; 0 if none.
    pub first_removed: OffsetNumber,
}

impl SpgVacuumRedirect {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (count, first_removed) = (usize::from(cursor.u16()?), cursor.u16()?);
            let conflict_horizon = cursor.u32()?;
            // Whether the table is a catalog, and padding.
            cursor.u16()?;
            Some(Self { conflict_horizon, redirects: cursor.u16s(count)?, first_removed })
        };
        read(&mut cursor).ok_or(damaged("VACUUM_REDIRECT"))
    }
}
