//! Records of GIN indexes.
//!
//! ```text
//!   kind                   main data        block references, with their data
//!   CREATE_PTREE           size u32, lists  0 root of the posting tree
//!   INSERT                 GinInsert        0 page: GinEntry, GinPostingItem or changes of lists |
//!                                           [1 left child, whose split it completes]
//!   SPLIT                  GinSplit         0 left half | 1 right half | [2 root], with images |
//!                                           [3 left child]
//!   VACUUM_PAGE            none             0 leaf of the entries, with its image
//!   VACUUM_DATA_LEAF_PAGE  none             0 leaf of a posting tree: changes of lists
//!   DELETE_PAGE            GinDeletePage    0 page | 1 parent | 2 left sibling
//!   UPDATE_META_PAGE       GinUpdateMeta    0 meta page | [1 end of the pending list: tuples]
//!   INSERT_LISTPAGE        GinListPage      0 new page of the pending list: tuples
//!   DELETE_LISTPAGE        GinDeleteList    0 meta page | 1 and more: pages
//! ```
//!
//! How lists change is in [`gin::recompress`](crate::gin::recompress). Pages that redo makes anew
//! are a posting tree's first one, the meta page, and those of the pending list that come or go.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::Cursor,
    gin::{META_SIZE, POSTING_ITEM_SIZE},
    ids::{BlockNumber, INVALID_BLOCK, OffsetNumber, RelFileLocator, Xid},
    wal::error::{PayloadError, damaged},
};

/// A posting tree of one leaf made.
pub const CREATE_PTREE: u8 = 0x10;
/// Something inserted into a page of entries or of a posting tree.
pub const INSERT: u8 = 0x20;
/// A page split.
pub const SPLIT: u8 = 0x30;
/// A leaf of the entries vacuumed.
pub const VACUUM_PAGE: u8 = 0x40;
/// A page of a posting tree deleted.
pub const DELETE_PAGE: u8 = 0x50;
/// The meta page changed, and perhaps the last page of the pending list.
pub const UPDATE_META_PAGE: u8 = 0x60;
/// A page added to the pending list.
pub const INSERT_LISTPAGE: u8 = 0x70;
/// Pages removed from the pending list.
pub const DELETE_LISTPAGE: u8 = 0x80;
/// A leaf of a posting tree vacuumed.
pub const VACUUM_DATA_LEAF_PAGE: u8 = 0x90;

/// Block reference of [`INSERT`]: the left child.
pub const CHILD_BLOCK: u8 = 1;
/// Block reference of [`SPLIT`]: the root.
pub const SPLIT_ROOT_BLOCK: u8 = 2;
/// Block reference of [`SPLIT`]: the left child.
pub const SPLIT_CHILD_BLOCK: u8 = 3;

/// Flag: a page of a posting tree.
const IS_DATA: u16 = 1;
/// Flag: a leaf.
const IS_LEAF: u16 = 1 << 1;
/// Flag: the root.
const IS_ROOT: u16 = 1 << 2;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        CREATE_PTREE => "CREATE_PTREE",
        INSERT => "INSERT",
        SPLIT => "SPLIT",
        VACUUM_PAGE => "VACUUM_PAGE",
        DELETE_PAGE => "DELETE_PAGE",
        UPDATE_META_PAGE => "UPDATE_META_PAGE",
        INSERT_LISTPAGE => "INSERT_LISTPAGE",
        DELETE_LISTPAGE => "DELETE_LISTPAGE",
        VACUUM_DATA_LEAF_PAGE => "VACUUM_DATA_LEAF_PAGE",
        _ => "UNKNOWN",
    }
}

/// Decodes the main data of [`CREATE_PTREE`]: the lists of the leaf.
pub fn decode_posting_tree(main: &[u8]) -> Result<&[u8], PayloadError> {
    let mut cursor = Cursor::new(main);
    let size = cursor.u32().ok_or(damaged("CREATE_PTREE"))?;
    cursor.take(size as usize).ok_or(damaged("CREATE_PTREE"))
}

/// A block number whose high half comes first.
fn split_block(cursor: &mut Cursor<'_>) -> Option<BlockNumber> {
    Some(u32::from(cursor.u16()?) << 16 | u32::from(cursor.u16()?))
}

/// Main data of [`INSERT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GinInsert {
    /// Whether the page is one of a posting tree.
    pub is_data: bool,
    /// Above the leaves: the right half of the child whose split this completes.
    pub right_child: Option<BlockNumber>,
}

impl GinInsert {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let flags = cursor.u16()?;
            let right_child = match flags & IS_LEAF {
                0 => {
                    split_block(cursor)?;
                    Some(split_block(cursor)?)
                }
                _ => None,
            };
            Some(Self { is_data: flags & IS_DATA != 0, right_child })
        };
        read(&mut cursor).ok_or(damaged("INSERT"))
    }
}

/// Block 0's data of an insertion into a page of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GinEntry<'a> {
    /// The item before which the tuple goes, or whose place it takes.
    pub item: OffsetNumber,
    /// Whether it takes that item's place.
    pub replaces: bool,
    /// The tuple.
    pub tuple: &'a [u8],
}

impl<'a> GinEntry<'a> {
    /// Decodes it.
    pub fn decode(data: &'a [u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(data);
        let read = |cursor: &mut Cursor<'a>| {
            let (item, replaces) = (cursor.u16()?, cursor.u8()? != 0);
            cursor.u8()?;
            Some(Self { item, replaces, tuple: cursor.rest() })
        };
        read(&mut cursor).ok_or(damaged("INSERT"))
    }
}

/// Block 0's data of an insertion above the leaves of a posting tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GinPostingItem {
    /// The item before which it goes.
    pub item: OffsetNumber,
    /// The new item, as stored.
    pub new: [u8; POSTING_ITEM_SIZE],
}

impl GinPostingItem {
    /// Decodes it.
    pub fn decode(data: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(data);
        let read =
            |cursor: &mut Cursor<'_>| Some(Self { item: cursor.u16()?, new: cursor.array()? });
        read(&mut cursor).ok_or(damaged("INSERT"))
    }
}

/// Main data of [`SPLIT`]. The pages have images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GinSplit {
    /// Whether the page is a leaf.
    pub is_leaf: bool,
    /// Whether the root is split, whose contents move to two new pages.
    pub is_root: bool,
}

impl GinSplit {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            // Which index, the right sibling, both children.
            cursor.take(RelFileLocator::SIZE + 3 * 4)?;
            let flags = cursor.u16()?;
            Some(Self { is_leaf: flags & IS_LEAF != 0, is_root: flags & IS_ROOT != 0 })
        };
        read(&mut cursor).ok_or(damaged("SPLIT"))
    }
}

/// Main data of [`DELETE_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GinDeletePage {
    /// The parent's item for the page.
    pub parent_item: OffsetNumber,
    /// The page's right sibling.
    pub right: BlockNumber,
    /// The page may be reused when no transaction is left that began before.
    pub xid: Xid,
}

impl GinDeletePage {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let parent_item = cursor.u16()?;
            cursor.u16()?;
            Some(Self { parent_item, right: cursor.u32()?, xid: cursor.u32()? })
        };
        read(&mut cursor).ok_or(damaged("DELETE_PAGE"))
    }
}

/// What [`UPDATE_META_PAGE`] changes beside the meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GinTail {
    /// Nothing: the pending list was empty.
    Nothing,
    /// So many tuples are added to the last page.
    Tuples(usize),
    /// The page that was the last one has this right sibling now.
    Next(BlockNumber),
}

/// Main data of [`UPDATE_META_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GinUpdateMeta {
    /// The contents of the meta page, as stored.
    pub meta: [u8; META_SIZE],
    /// What happens to the last page of the pending list.
    pub tail: GinTail,
}

impl GinUpdateMeta {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            // Which index, and padding.
            cursor.take(RelFileLocator::SIZE + 4)?;
            let meta = cursor.array()?;
            let (last, next) = (cursor.u32()?, cursor.u32()?);
            let tail = match cursor.count()? {
                0 if last == INVALID_BLOCK => GinTail::Nothing,
                0 => GinTail::Next(next),
                tuples => GinTail::Tuples(tuples),
            };
            Some(Self { meta, tail })
        };
        read(&mut cursor).ok_or(damaged("UPDATE_META_PAGE"))
    }
}

/// Main data of [`INSERT_LISTPAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GinListPage {
    /// The right sibling.
    pub right: BlockNumber,
    /// Number of tuples.
    pub tuples: usize,
}

impl GinListPage {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read =
            |cursor: &mut Cursor<'_>| Some(Self { right: cursor.u32()?, tuples: cursor.count()? });
        read(&mut cursor).ok_or(damaged("INSERT_LISTPAGE"))
    }
}

/// Main data of [`DELETE_LISTPAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GinDeleteList {
    /// The contents of the meta page, as stored.
    pub meta: [u8; META_SIZE],
    /// Number of pages, in block references 1 and more.
    pub pages: u8,
}

impl GinDeleteList {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let meta = cursor.array()?;
            Some(Self { meta, pages: u8::try_from(cursor.u32()?).ok()? })
        };
        read(&mut cursor).ok_or(damaged("DELETE_LISTPAGE"))
    }
}
