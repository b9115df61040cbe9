//! B-tree records.
//!
//! ```text
//!   kind                main data      block references, with their data
//!   INSERT_LEAF         BtreeInsert    0 leaf: tuple
//!   INSERT_UPPER        BtreeInsert    0 page: tuple | 1 left child, whose split it completes
//!   INSERT_META         BtreeInsert    the same | 2 meta page: BtreeMeta
//!   INSERT_POST         BtreeInsert    0 leaf: place in the posting list u16, tuple
//!   SPLIT_L             BtreeSplit     0 left half: new tuple, high key | 1 right half: its
//!                                      tuples | [2 next page] | [3 left child]
//!   SPLIT_R             BtreeSplit     the same, the new tuple only if a posting list is split
//!   DEDUP               count u16      0 leaf: intervals
//!   VACUUM              counts u16     0 leaf: deleted u16 each | updated u16 each | for each of
//!                                      those: count u16, places in the posting list u16 each
//!   DELETE              horizon, as    the same
//!                       VACUUM, u8
//!   MARK_PAGE_HALFDEAD  BtreeHalfDead  0 leaf | 1 parent
//!   UNLINK_PAGE         BtreeUnlink    0 page | [1 left sibling] | 2 right one | [3 leaf]
//!   UNLINK_PAGE_META    BtreeUnlink    the same | 4 meta page: BtreeMeta
//!   NEWROOT             BtreeNewRoot   0 root: its tuples | [1 left child] | 2 meta page: the same
//!   REUSE_PAGE          BtreeReuse     none; for standbys
//!   META_CLEANUP        none           0 meta page: BtreeMeta
//! ```
//!
//! Pages that redo makes anew are the right half, a half-dead leaf, an unlinked page, a root, and
//! the meta page.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, array_at, max_align, push_u16s, put},
    ids::{BlockNumber, FullXid, INVALID_BLOCK, OffsetNumber, RelFileLocator, Xid},
    index_tuple::IndexTupleError,
    nbtree::{self, LeftHalf, Meta, NbtreeError, Tuple},
    page::{Page, PageBytes},
    wal::error::{PayloadError, damaged},
};

/// A leaf tuple inserted.
pub const INSERT_LEAF: u8 = 0x00;
/// A tuple inserted above the leaves.
pub const INSERT_UPPER: u8 = 0x10;
/// The same, and the fast root changes.
pub const INSERT_META: u8 = 0x20;
/// A page split, with the new tuple on the left.
pub const SPLIT_L: u8 = 0x30;
/// A page split, with the new tuple on the right.
pub const SPLIT_R: u8 = 0x40;
/// A leaf tuple inserted into the range of a posting list.
pub const INSERT_POST: u8 = 0x50;
/// Duplicates put in posting lists.
pub const DEDUP: u8 = 0x60;
/// Leaf tuples deleted by an insertion.
pub const DELETE: u8 = 0x70;
/// A page removed from its level.
pub const UNLINK_PAGE: u8 = 0x80;
/// The same, and the fast root changes.
pub const UNLINK_PAGE_META: u8 = 0x90;
/// A new root.
pub const NEWROOT: u8 = 0xa0;
/// A leaf, with the pages above that lead only to it, removed from its parent.
pub const MARK_PAGE_HALFDEAD: u8 = 0xb0;
/// Leaf tuples deleted by vacuum.
pub const VACUUM: u8 = 0xc0;
/// A deleted page is about to be reused.
pub const REUSE_PAGE: u8 = 0xd0;
/// The meta page's statistics changed.
pub const META_CLEANUP: u8 = 0xe0;

/// Block reference of insertions above the leaves, and of new roots: the left child.
pub const CHILD_BLOCK: u8 = 1;
/// Block reference of insertions and new roots: the meta page.
pub const META_BLOCK: u8 = 2;
/// Block reference of splits: the right half.
pub const SPLIT_RIGHT_BLOCK: u8 = 1;
/// Block reference of splits: the page that follows the right half.
pub const SPLIT_NEXT_BLOCK: u8 = 2;
/// Block reference of splits above the leaves: the left child.
pub const SPLIT_CHILD_BLOCK: u8 = 3;
/// Block reference of [`MARK_PAGE_HALFDEAD`]: the parent.
pub const PARENT_BLOCK: u8 = 1;
/// Block reference of unlinked pages: the left sibling.
pub const UNLINK_LEFT_BLOCK: u8 = 1;
/// Block reference of unlinked pages: the right sibling.
pub const UNLINK_RIGHT_BLOCK: u8 = 2;
/// Block reference of unlinked pages above the leaves: the half-dead leaf.
pub const UNLINK_LEAF_BLOCK: u8 = 3;
/// Block reference of unlinked pages: the meta page.
pub const UNLINK_META_BLOCK: u8 = 4;

/// Name of a record's kind.
pub fn name(info: u8) -> &'static str {
    match info {
        INSERT_LEAF => "INSERT_LEAF",
        INSERT_UPPER => "INSERT_UPPER",
        INSERT_META => "INSERT_META",
        SPLIT_L => "SPLIT_L",
        SPLIT_R => "SPLIT_R",
        INSERT_POST => "INSERT_POST",
        DEDUP => "DEDUP",
        DELETE => "DELETE",
        UNLINK_PAGE => "UNLINK_PAGE",
        UNLINK_PAGE_META => "UNLINK_PAGE_META",
        NEWROOT => "NEWROOT",
        MARK_PAGE_HALFDEAD => "MARK_PAGE_HALFDEAD",
        VACUUM => "VACUUM",
        REUSE_PAGE => "REUSE_PAGE",
        META_CLEANUP => "META_CLEANUP",
        _ => "UNKNOWN",
    }
}

/// Main data of all insertions: the item that the new tuple becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BtreeInsert {
    /// Number of the item.
    pub offset: OffsetNumber,
}

impl BtreeInsert {
    /// Encodes it.
    pub fn encode(&self) -> [u8; 2] {
        self.offset.to_le_bytes()
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let offset = array_at(main, 0).ok_or(damaged("INSERT"))?;
        Ok(Self { offset: u16::from_le_bytes(offset) })
    }

    /// Block 0's data of [`INSERT_POST`]: the place in the posting list, and the tuple as it was
    /// before it got the list's last heap TID.
    pub fn decode_posting(data: &[u8]) -> Result<(u16, &[u8]), PayloadError> {
        let mut cursor = Cursor::new(data);
        let place = cursor.u16().ok_or(damaged("INSERT_POST"))?;
        Ok((place, cursor.rest()))
    }
}

/// Main data of splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BtreeSplit {
    /// Level of the page.
    pub level: u32,
    /// The first item of the original page that goes to the right half.
    pub first_right: OffsetNumber,
    /// The item before which the new tuple goes.
    pub new_item: OffsetNumber,
    /// Where the new tuple belongs in the posting list before it; 0 if nowhere.
    pub posting: u16,
}

impl BtreeSplit {
    /// Bytes of its stored form.
    pub const SIZE: usize = 10;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.level.to_le_bytes());
        put(&mut out, 4, self.first_right.to_le_bytes());
        put(&mut out, 6, self.new_item.to_le_bytes());
        put(&mut out, 8, self.posting.to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (level, first_right) = (cursor.u32()?, cursor.u16()?);
            Some(Self { level, first_right, new_item: cursor.u16()?, posting: cursor.u16()? })
        };
        read(&mut cursor).ok_or(damaged("SPLIT"))
    }

    /// Builds the left half from the original page. `data` is block 0's: the new tuple, if it goes
    /// to the left or a posting list is split for it, and the high key.
    pub fn left_half(
        &self,
        page: Page<'_>,
        data: &[u8],
        new_on_left: bool,
    ) -> Result<PageBytes, NbtreeError> {
        let (mut new, mut high_key) = (None, data);
        if new_on_left || self.posting != 0 {
            let tuple = Tuple::new(data)?;
            high_key = data.get(max_align(tuple.size())..).unwrap_or_default();
            new = Some(tuple.bytes().to_vec());
        }
        let (size, len) = (Tuple::new(high_key)?.size(), high_key.len());
        if size != len {
            return Err(IndexTupleError::BadSize { size, len }.into());
        }
        let mut replaced = None;
        if let (Some(tuple), true) = (&mut new, self.posting != 0) {
            let before = self.new_item.wrapping_sub(1);
            let list = Tuple::new(nbtree::item(page, before)?)?;
            let index = usize::from(self.posting);
            let (list, changed) = nbtree::split_posting(&list, &Tuple::new(tuple)?, index)?;
            (replaced, *tuple) = (Some((before, list)), changed);
        }
        let half = LeftHalf {
            first_right: self.first_right,
            high_key,
            new: new.as_deref().filter(|_| new_on_left).map(|tuple| (self.new_item, tuple)),
            replaced: replaced.as_ref().map(|(item, list)| (*item, &list[..])),
        };
        half.build(page)
    }
}

/// Consecutive items that become one posting list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DedupInterval {
    /// The first of them, counted before the change.
    pub base: OffsetNumber,
    /// Number of them.
    pub items: u16,
}

/// Contents of [`DEDUP`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BtreeDedup {
    /// In ascending order.
    pub intervals: Vec<DedupInterval>,
}

impl BtreeDedup {
    /// The main data; appends block 0's data to `data`.
    pub fn encode(&self, data: &mut Vec<u8>) -> [u8; 2] {
        let numbers = self.intervals.iter().flat_map(|interval| [interval.base, interval.items]);
        push_u16s(data, numbers);
        (self.intervals.len() as u16).to_le_bytes()
    }

    /// Decodes main data and block 0's data.
    pub fn decode(main: &[u8], data: &[u8]) -> Result<Self, PayloadError> {
        let read = || {
            let count = usize::from(Cursor::new(main).u16()?);
            let mut data = Cursor::new(data);
            let numbers = data.u16s(count * 2)?;
            let (pairs, _) = numbers.as_chunks::<2>();
            let intervals = pairs.iter().map(|&[base, items]| DedupInterval { base, items });
            (data.remaining() == 0).then(|| Self { intervals: intervals.collect() })
        };
        read().ok_or(damaged("DEDUP"))
    }
}

/// Rows that a posting list loses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostingUpdate {
    /// The item.
    pub offset: OffsetNumber,
    /// Indexes of the heap TIDs in its list, ascending.
    pub deleted: Vec<u16>,
}

/// Contents of [`VACUUM`] and [`DELETE`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BtreeDelete {
    /// Items to remove, ascending.
    pub deleted: Vec<OffsetNumber>,
    /// Posting lists that get shorter.
    pub updated: Vec<PostingUpdate>,
}

impl BtreeDelete {
    /// Appends block 0's data to `data`. Returns the main data of [`VACUUM`].
    pub fn encode_vacuum(&self, data: &mut Vec<u8>) -> [u8; 4] {
        push_u16s(data, self.deleted.iter().copied());
        push_u16s(data, self.updated.iter().map(|update| update.offset));
        for update in &self.updated {
            push_u16s(data, [update.deleted.len() as u16]);
            push_u16s(data, update.deleted.iter().copied());
        }
        let mut main = [0; 4];
        put(&mut main, 0, (self.deleted.len() as u16).to_le_bytes());
        put(&mut main, 2, (self.updated.len() as u16).to_le_bytes());
        main
    }

    /// Appends block 0's data to `data`. Returns the main data of [`DELETE`]. Standbys cancel
    /// queries with snapshots older than `horizon`.
    pub fn encode_delete(&self, horizon: Xid, is_catalog: bool, data: &mut Vec<u8>) -> [u8; 9] {
        let mut main = [0; 9];
        put(&mut main, 0, horizon.to_le_bytes());
        put(&mut main, 4, self.encode_vacuum(data));
        put(&mut main, 8, [u8::from(is_catalog)]);
        main
    }

    /// Decodes main data and block 0's data of a record of kind [`VACUUM`].
    pub fn decode_vacuum(main: &[u8], data: &[u8]) -> Result<Self, PayloadError> {
        Self::read(&mut Cursor::new(main), &mut Cursor::new(data)).ok_or(damaged("VACUUM"))
    }

    /// Decodes main data and block 0's data of a record of kind [`DELETE`]. Returns the horizon,
    /// too.
    pub fn decode_delete(main: &[u8], data: &[u8]) -> Result<(Xid, Self), PayloadError> {
        let read = || {
            let mut main = Cursor::new(main);
            let horizon = main.u32()?;
            let contents = Self::read(&mut main, &mut Cursor::new(data))?;
            main.u8()?;
            Some((horizon, contents))
        };
        read().ok_or(damaged("DELETE"))
    }

    fn read(main: &mut Cursor<'_>, data: &mut Cursor<'_>) -> Option<Self> {
        let (deleted, updated) = (usize::from(main.u16()?), usize::from(main.u16()?));
        let deleted = data.u16s(deleted)?;
        let offsets = data.u16s(updated)?;
        let mut updated = Vec::with_capacity(offsets.len());
        for offset in offsets {
            let count = usize::from(data.u16()?);
            updated.push(PostingUpdate { offset, deleted: data.u16s(count)? });
        }
        (data.remaining() == 0).then_some(Self { deleted, updated })
    }
}

/// Main data of [`REUSE_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BtreeReuse {
    /// The index.
    pub rel: RelFileLocator,
    /// The page.
    pub block: BlockNumber,
    /// Standbys cancel queries with older snapshots.
    pub conflict_horizon: FullXid,
    /// Whether the table is a catalog.
    pub is_catalog: bool,
}

impl BtreeReuse {
    /// Bytes of its stored form.
    pub const SIZE: usize = 25;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.rel.encode());
        put(&mut out, 12, self.block.to_le_bytes());
        put(&mut out, 16, self.conflict_horizon.0.to_le_bytes());
        put(&mut out, 24, [u8::from(self.is_catalog)]);
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let rel = RelFileLocator::decode(cursor.array()?);
            let (block, horizon) = (cursor.u32()?, FullXid(cursor.u64()?));
            let is_catalog = cursor.u8()? != 0;
            Some(Self { rel, block, conflict_horizon: horizon, is_catalog })
        };
        read(&mut cursor).ok_or(damaged("REUSE_PAGE"))
    }
}

/// Main data of [`MARK_PAGE_HALFDEAD`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BtreeHalfDead {
    /// The parent's item for the branch. It then leads where the next one led, which is removed.
    pub parent_item: OffsetNumber,
    /// The leaf.
    pub leaf: BlockNumber,
    /// The leaf's left sibling, 0 if none.
    pub left: BlockNumber,
    /// The leaf's right sibling.
    pub right: BlockNumber,
    /// The highest page of the branch, if that is not the leaf.
    pub top_parent: Option<BlockNumber>,
}

impl BtreeHalfDead {
    /// Bytes of its stored form.
    pub const SIZE: usize = 20;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.parent_item.to_le_bytes());
        put(&mut out, 4, self.leaf.to_le_bytes());
        put(&mut out, 8, self.left.to_le_bytes());
        put(&mut out, 12, self.right.to_le_bytes());
        put(&mut out, 16, self.top_parent.unwrap_or(INVALID_BLOCK).to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (parent_item, _) = (cursor.u16()?, cursor.u16()?);
            let (leaf, left, right) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
            Some(Self { parent_item, leaf, left, right, top_parent: block(cursor.u32()?) })
        };
        read(&mut cursor).ok_or(damaged("MARK_PAGE_HALFDEAD"))
    }
}

fn block(stored: BlockNumber) -> Option<BlockNumber> {
    (stored != INVALID_BLOCK).then_some(stored)
}

/// Main data of [`UNLINK_PAGE`] and [`UNLINK_PAGE_META`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BtreeUnlink {
    /// The page's left sibling, 0 if none.
    pub left: BlockNumber,
    /// The page's right sibling.
    pub right: BlockNumber,
    /// The page's level.
    pub level: u32,
    /// The page may be reused when no transaction is left that began before.
    pub safe_xid: FullXid,
    /// The leaf's left sibling, if the page is above it.
    pub leaf_left: BlockNumber,
    /// The leaf's right sibling.
    pub leaf_right: BlockNumber,
    /// The next page of the branch to remove, if that is not the leaf.
    pub leaf_top_parent: Option<BlockNumber>,
}

impl BtreeUnlink {
    /// Bytes of its stored form.
    pub const SIZE: usize = 36;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, self.left.to_le_bytes());
        put(&mut out, 4, self.right.to_le_bytes());
        put(&mut out, 8, self.level.to_le_bytes());
        put(&mut out, 16, self.safe_xid.0.to_le_bytes());
        put(&mut out, 24, self.leaf_left.to_le_bytes());
        put(&mut out, 28, self.leaf_right.to_le_bytes());
        put(&mut out, 32, self.leaf_top_parent.unwrap_or(INVALID_BLOCK).to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (left, right, level) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
            cursor.u32()?;
            let safe_xid = FullXid(cursor.u64()?);
            let (leaf_left, leaf_right) = (cursor.u32()?, cursor.u32()?);
            let leaf_top_parent = block(cursor.u32()?);
            Some(Self { left, right, level, safe_xid, leaf_left, leaf_right, leaf_top_parent })
        };
        read(&mut cursor).ok_or(damaged("UNLINK_PAGE"))
    }
}

/// Main data of [`NEWROOT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BtreeNewRoot {
    /// The root.
    pub root: BlockNumber,
    /// Its level. A leaf is empty.
    pub level: u32,
}

impl BtreeNewRoot {
    /// Encodes it.
    pub fn encode(&self) -> [u8; 8] {
        let mut out = [0; 8];
        put(&mut out, 0, self.root.to_le_bytes());
        put(&mut out, 4, self.level.to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read =
            |cursor: &mut Cursor<'_>| Some(Self { root: cursor.u32()?, level: cursor.u32()? });
        read(&mut cursor).ok_or(damaged("NEWROOT"))
    }
}

/// The meta page in block data. Its number of rows is not stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BtreeMeta(pub Meta);

impl BtreeMeta {
    /// Bytes of its stored form.
    pub const SIZE: usize = 28;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let meta = &self.0;
        let numbers = [
            meta.version,
            meta.root,
            meta.level,
            meta.fast_root,
            meta.fast_level,
            meta.deleted_pages,
        ];
        let mut out = [0; Self::SIZE];
        for (index, number) in numbers.into_iter().enumerate() {
            put(&mut out, 4 * index, number.to_le_bytes());
        }
        put(&mut out, 24, [u8::from(meta.all_equal_image)]);
        out
    }

    /// Decodes it.
    pub fn decode(data: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(data);
        let read = |cursor: &mut Cursor<'_>| {
            let (version, root, level) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
            let (fast_root, fast_level) = (cursor.u32()?, cursor.u32()?);
            let (deleted_pages, all_equal_image) = (cursor.u32()?, cursor.u8()? != 0);
            let meta = Meta::new(root, level, all_equal_image);
            Some(Self(Meta { version, fast_root, fast_level, deleted_pages, ..meta }))
        };
        read(&mut cursor).ok_or(damaged("B-tree metadata"))
    }
}
