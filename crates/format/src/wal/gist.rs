//! Records of GiST indexes.
//!
//! ```text
//!   kind         main data        block references, with their data
//!   PAGE_UPDATE  GistUpdate       0 page: items to delete u16 each, tuples |
//!                                 [1 left half of a child, whose split it completes]
//!   DELETE       GistDelete       0 leaf
//!   PAGE_REUSE   GistReuse        none; for standbys
//!   PAGE_SPLIT   GistSplit        [0 left half of a child] | 1 and more: pages: number i32, tuples
//!   PAGE_DELETE  GistPageDelete   0 page | 1 parent
//!   ASSIGN_LSN   u32              none; it only has a position
//! ```
//!
//! The pages of a split are made anew.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::Cursor,
    ids::{BlockNumber, FullXid, OffsetNumber, RelFileLocator, Xid},
    lsn::Lsn,
    wal::error::{PayloadError, damaged},
};

/// Tuples deleted and inserted.
pub const PAGE_UPDATE: u8 = 0x00;
/// Dead tuples deleted by an insertion.
pub const DELETE: u8 = 0x10;
/// A deleted page is about to be reused.
pub const PAGE_REUSE: u8 = 0x20;
/// A page split into several.
pub const PAGE_SPLIT: u8 = 0x30;
/// An empty page deleted.
pub const PAGE_DELETE: u8 = 0x60;
/// A position in the log for an index that is not logged.
pub const ASSIGN_LSN: u8 = 0x70;

/// Block reference of [`PAGE_UPDATE`]: the left half of a child.
pub const UPDATE_CHILD_BLOCK: u8 = 1;
/// Block reference of [`PAGE_SPLIT`]: the left half of a child.
pub const SPLIT_CHILD_BLOCK: u8 = 0;
/// Block reference of [`PAGE_DELETE`]: the parent.
pub const PARENT_BLOCK: u8 = 1;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        PAGE_UPDATE => "PAGE_UPDATE",
        DELETE => "DELETE",
        PAGE_REUSE => "PAGE_REUSE",
        PAGE_SPLIT => "PAGE_SPLIT",
        PAGE_DELETE => "PAGE_DELETE",
        ASSIGN_LSN => "ASSIGN_LSN",
        _ => "UNKNOWN",
    }
}

/// Main data of [`PAGE_UPDATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GistUpdate {
    /// Number of items to delete.
    pub deleted: u16,
    /// Number of tuples to insert. If one item is deleted and one inserted, that takes its place.
    pub inserted: u16,
}

impl GistUpdate {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self { deleted: cursor.u16()?, inserted: cursor.u16()? })
        };
        read(&mut cursor).ok_or(damaged("PAGE_UPDATE"))
    }

    /// Decodes block 0's data: the items to delete, and the tuples, one behind the other.
    pub fn decode_page<'a>(
        &self,
        data: &'a [u8],
    ) -> Result<(Vec<OffsetNumber>, &'a [u8]), PayloadError> {
        let mut cursor = Cursor::new(data);
        let items = cursor.u16s(usize::from(self.deleted)).ok_or(damaged("PAGE_UPDATE"))?;
        Ok((items, cursor.rest()))
    }
}

/// Main data of [`DELETE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GistDelete {
    /// Standbys cancel queries with older snapshots.
    pub conflict_horizon: Xid,
    /// The items to delete.
    pub items: Vec<OffsetNumber>,
}

impl GistDelete {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (conflict_horizon, count) = (cursor.u32()?, usize::from(cursor.u16()?));
            // Whether the table is a catalog, and padding.
            cursor.u16()?;
            Some(Self { conflict_horizon, items: cursor.u16s(count)? })
        };
        read(&mut cursor).ok_or(damaged("DELETE"))
    }
}

/// Main data of [`PAGE_SPLIT`].
///
/// ```text
///   0       4     8     16     17    18      20          21    24
///   +-------+-----+-----+------+-----+-------+-----------+-----+
///   | right | pad | nsn | leaf | pad | pages | unfinished| pad |
///   +-------+-----+-----+------+-----+-------+-----------+-----+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GistSplit {
    /// The right sibling of the last page.
    pub right: BlockNumber,
    /// When the page was split before.
    pub nsn: Lsn,
    /// Whether the page was a leaf.
    pub is_leaf: bool,
    /// Number of pages, in block references 1 and more.
    pub pages: u16,
    /// Whether the parent does not lead to the new pages yet.
    pub incomplete: bool,
}

impl GistSplit {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let right = cursor.u32()?;
            cursor.u32()?;
            let (nsn, is_leaf) = (Lsn(cursor.u64()?), cursor.u8()? != 0);
            cursor.u8()?;
            let (pages, incomplete) = (cursor.u16()?, cursor.u8()? != 0);
            Some(Self { right, nsn, is_leaf, pages, incomplete })
        };
        read(&mut cursor).ok_or(damaged("PAGE_SPLIT"))
    }

    /// Decodes a page's data: number of tuples, and the tuples, one behind the other.
    pub fn decode_page(data: &[u8]) -> Result<(usize, &[u8]), PayloadError> {
        let mut cursor = Cursor::new(data);
        let count = cursor.count().ok_or(damaged("PAGE_SPLIT"))?;
        Ok((count, cursor.rest()))
    }
}

/// Main data of [`PAGE_DELETE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GistPageDelete {
    /// The page may be reused when no transaction is left that began before.
    pub xid: FullXid,
    /// The parent's item for the page.
    pub parent_item: OffsetNumber,
}

impl GistPageDelete {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self { xid: FullXid(cursor.u64()?), parent_item: cursor.u16()? })
        };
        read(&mut cursor).ok_or(damaged("PAGE_DELETE"))
    }
}

/// Main data of [`PAGE_REUSE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GistReuse {
    /// The index.
    pub rel: RelFileLocator,
    /// The page.
    pub block: BlockNumber,
    /// Standbys cancel queries with older snapshots.
    pub conflict_horizon: FullXid,
}

impl GistReuse {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let rel = RelFileLocator::decode(cursor.array()?);
            let (block, conflict_horizon) = (cursor.u32()?, FullXid(cursor.u64()?));
            cursor.u8()?;
            Some(Self { rel, block, conflict_horizon })
        };
        read(&mut cursor).ok_or(damaged("PAGE_REUSE"))
    }
}
