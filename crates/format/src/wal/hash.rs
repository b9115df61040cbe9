//! Records of hash indexes.
//!
//! ```text
//!   kind                 main data          block references, with their data
//!   INIT_META_PAGE       HashInitMeta       0 meta page
//!   INIT_BITMAP_PAGE     bytes u16          0 bitmap | 1 meta page
//!   INSERT               item u16           0 page: tuple | 1 meta page
//!   ADD_OVFL_PAGE        HashAddOverflow    0 overflow page: bucket u32 | 1 page before |
//!                                           [2 bitmap: bit u32] | [3 new bitmap] |
//!                                           4 meta page: first free u32
//!   SPLIT_ALLOCATE_PAGE  HashSplitAllocate  0 old bucket | 1 new bucket | 2 meta page:
//!                                           [masks: low u32, high u32],
//!                                           [split point u32, overflow pages before it u32]
//!   SPLIT_PAGE           none               0 page, with its image
//!   SPLIT_COMPLETE       HashSplitComplete  0 old bucket | 1 new bucket
//!   MOVE_PAGE_CONTENTS   HashMove           [0 bucket] | 1 page to fill: items u16 each, tuples |
//!                                           2 page to empty: items u16 each
//!   SQUEEZE_PAGE         HashSqueeze        [0 bucket] | [1 page to fill: as before] | 2 overflow
//!                                           page that goes | [3 page before it] | [4 page behind
//!                                           it] | 5 bitmap: bit u32 | [6 meta page: first free
//!                                           u32]
//!   DELETE               HashDelete         [0 bucket] | 1 page: items u16 each
//!   SPLIT_CLEANUP        none               0 bucket
//!   UPDATE_META_PAGE     tuples f64         0 meta page
//!   VACUUM_ONE_PAGE      HashVacuumPage     0 page | 1 meta page
//! ```
//!
//! The bucket's page in block reference 0 is only locked.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, array_at},
    ids::{BlockNumber, OffsetNumber, Oid, Xid},
    wal::error::{PayloadError, damaged},
};

/// The meta page of a new index.
pub const INIT_META_PAGE: u8 = 0x00;
/// The first bitmap of a new index.
pub const INIT_BITMAP_PAGE: u8 = 0x10;
/// A tuple inserted.
pub const INSERT: u8 = 0x20;
/// An overflow page added to a bucket.
pub const ADD_OVFL_PAGE: u8 = 0x30;
/// A bucket's split begins.
pub const SPLIT_ALLOCATE_PAGE: u8 = 0x40;
/// A page of the new bucket filled.
pub const SPLIT_PAGE: u8 = 0x50;
/// A bucket's split ends.
pub const SPLIT_COMPLETE: u8 = 0x60;
/// Tuples moved from an overflow page to an earlier page.
pub const MOVE_PAGE_CONTENTS: u8 = 0x70;
/// An overflow page freed, whose last tuples move to an earlier page.
pub const SQUEEZE_PAGE: u8 = 0x80;
/// Tuples deleted by vacuum, or by the end of a split.
pub const DELETE: u8 = 0x90;
/// The tuples are removed that a split had copied.
pub const SPLIT_CLEANUP: u8 = 0xa0;
/// The number of tuples counted by vacuum.
pub const UPDATE_META_PAGE: u8 = 0xb0;
/// Dead tuples deleted by an insertion.
pub const VACUUM_ONE_PAGE: u8 = 0xc0;

/// Flag of [`HashSplitAllocate`]: block 2 has masks.
pub const SPLIT_UPDATE_MASKS: u8 = 1;
/// Flag of [`HashSplitAllocate`]: block 2 has a split point.
pub const SPLIT_UPDATE_SPLIT_POINT: u8 = 1 << 1;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        INIT_META_PAGE => "INIT_META_PAGE",
        INIT_BITMAP_PAGE => "INIT_BITMAP_PAGE",
        INSERT => "INSERT",
        ADD_OVFL_PAGE => "ADD_OVFL_PAGE",
        SPLIT_ALLOCATE_PAGE => "SPLIT_ALLOCATE_PAGE",
        SPLIT_PAGE => "SPLIT_PAGE",
        SPLIT_COMPLETE => "SPLIT_COMPLETE",
        MOVE_PAGE_CONTENTS => "MOVE_PAGE_CONTENTS",
        SQUEEZE_PAGE => "SQUEEZE_PAGE",
        DELETE => "DELETE",
        SPLIT_CLEANUP => "SPLIT_CLEANUP",
        UPDATE_META_PAGE => "UPDATE_META_PAGE",
        VACUUM_ONE_PAGE => "VACUUM_ONE_PAGE",
        _ => "UNKNOWN",
    }
}

/// Main data of [`INIT_META_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HashInitMeta {
    /// Number of tuples to expect.
    pub tuples: f64,
    /// The hash function.
    pub hash_proc: Oid,
    /// Tuples of a bucket.
    pub fill_factor: u16,
}

impl HashInitMeta {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self {
                tuples: f64::from_le_bytes(cursor.array()?),
                hash_proc: cursor.u32()?,
                fill_factor: cursor.u16()?,
            })
        };
        read(&mut cursor).ok_or(damaged("INIT_META_PAGE"))
    }
}

/// Decodes main data that is a number of two bytes: of [`INIT_BITMAP_PAGE`], [`INSERT`].
pub fn decode_number(kind: u8, main: &[u8]) -> Result<u16, PayloadError> {
    array_at(main, 0).map(u16::from_le_bytes).ok_or(damaged(name(kind)))
}

/// Decodes the main data of [`UPDATE_META_PAGE`].
pub fn decode_tuples(main: &[u8]) -> Result<f64, PayloadError> {
    array_at(main, 0).map(f64::from_le_bytes).ok_or(damaged("UPDATE_META_PAGE"))
}

/// Decodes a block's data that is a number of four bytes: a bucket, a bit, the first free page.
pub fn decode_block_number(kind: u8, data: &[u8]) -> Result<u32, PayloadError> {
    array_at(data, 0).map(u32::from_le_bytes).ok_or(damaged(name(kind)))
}

/// Decodes a block's data that lists items.
pub fn decode_items(kind: u8, data: &[u8]) -> Result<Vec<OffsetNumber>, PayloadError> {
    Cursor::new(data).u16s(data.len() / 2).ok_or(damaged(name(kind)))
}

/// Main data of [`ADD_OVFL_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashAddOverflow {
    /// Bytes of a bitmap.
    pub bitmap_bytes: u16,
    /// Whether a free page is used again.
    pub reused: bool,
}

impl HashAddOverflow {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self { bitmap_bytes: cursor.u16()?, reused: cursor.u8()? != 0 })
        };
        read(&mut cursor).ok_or(damaged("ADD_OVFL_PAGE"))
    }
}

/// Main data of [`SPLIT_ALLOCATE_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashSplitAllocate {
    /// The new bucket.
    pub new_bucket: u32,
    /// Flags of the old bucket's first page.
    pub old_flags: u16,
    /// Flags of the new bucket's first page.
    pub new_flags: u16,
    /// `SPLIT_UPDATE_` flags.
    pub flags: u8,
}

impl HashSplitAllocate {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self {
                new_bucket: cursor.u32()?,
                old_flags: cursor.u16()?,
                new_flags: cursor.u16()?,
                flags: cursor.u8()?,
            })
        };
        read(&mut cursor).ok_or(damaged("SPLIT_ALLOCATE_PAGE"))
    }

    /// Decodes block 2's data.
    pub fn decode_meta(&self, data: &[u8]) -> Result<HashSplitMeta, PayloadError> {
        let mut cursor = Cursor::new(data);
        let mut pair = |flag: u8| match self.flags & flag {
            0 => Some(None),
            _ => Some(Some((cursor.u32()?, cursor.u32()?))),
        };
        let masks = pair(SPLIT_UPDATE_MASKS);
        let split_point = pair(SPLIT_UPDATE_SPLIT_POINT);
        let meta = masks.zip(split_point);
        meta.map(|(masks, split_point)| HashSplitMeta { masks, split_point })
            .ok_or(damaged("SPLIT_ALLOCATE_PAGE"))
    }
}

/// What a split changes in the meta page beside the last bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashSplitMeta {
    /// Low and high mask.
    pub masks: Option<(u32, u32)>,
    /// A split point, and the number of overflow pages before it.
    pub split_point: Option<(u32, u32)>,
}

/// Main data of [`SPLIT_COMPLETE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashSplitComplete {
    /// Flags of the old bucket's first page.
    pub old_flags: u16,
    /// Flags of the new bucket's first page.
    pub new_flags: u16,
}

impl HashSplitComplete {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self { old_flags: cursor.u16()?, new_flags: cursor.u16()? })
        };
        read(&mut cursor).ok_or(damaged("SPLIT_COMPLETE"))
    }
}

/// Main data of [`MOVE_PAGE_CONTENTS`], and a part of that of [`SQUEEZE_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashMove {
    /// Number of tuples that move.
    pub tuples: u16,
}

impl HashMove {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let tuples = cursor.u16()?;
            // Whether block 1 is the bucket's first page.
            cursor.u8()?;
            Some(Self { tuples })
        };
        read(&mut cursor).ok_or(damaged("MOVE_PAGE_CONTENTS"))
    }

    /// Decodes block 1's data: the items that the tuples become, and the tuples, one behind the
    /// other.
    pub fn decode_tuples<'a>(
        &self,
        data: &'a [u8],
    ) -> Result<(Vec<OffsetNumber>, &'a [u8]), PayloadError> {
        let mut cursor = Cursor::new(data);
        let items = cursor.u16s(usize::from(self.tuples)).ok_or(damaged("MOVE_PAGE_CONTENTS"))?;
        Ok((items, cursor.rest()))
    }
}

/// Main data of [`SQUEEZE_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashSqueeze {
    /// The page before the one that goes.
    pub prev: BlockNumber,
    /// The page behind it.
    pub next: BlockNumber,
    /// The tuples that move.
    pub moved: HashMove,
    /// Whether block 1 is the page before the one that goes.
    pub fills_prev: bool,
}

impl HashSqueeze {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (prev, next, tuples) = (cursor.u32()?, cursor.u32()?, cursor.u16()?);
            // Whether block 1 is the bucket's first page.
            cursor.u8()?;
            let fills_prev = cursor.u8()? != 0;
            Some(Self { prev, next, moved: HashMove { tuples }, fills_prev })
        };
        read(&mut cursor).ok_or(damaged("SQUEEZE_PAGE"))
    }
}

/// Main data of [`DELETE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashDelete {
    /// Whether the page has no dead items any more.
    pub clears_dead: bool,
}

impl HashDelete {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let clears_dead = cursor.u8()? != 0;
            // Whether block 1 is the bucket's first page.
            cursor.u8()?;
            Some(Self { clears_dead })
        };
        read(&mut cursor).ok_or(damaged("DELETE"))
    }
}

/// Main data of [`VACUUM_ONE_PAGE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashVacuumPage {
    /// Standbys cancel queries with older snapshots.
    pub conflict_horizon: Xid,
    /// The items to delete.
    pub items: Vec<OffsetNumber>,
}

impl HashVacuumPage {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (conflict_horizon, count) = (cursor.u32()?, usize::from(cursor.u16()?));
            // Whether the table is a catalog, and padding.
            cursor.u16()?;
            Some(Self { conflict_horizon, items: cursor.u16s(count)? })
        };
        read(&mut cursor).ok_or(damaged("VACUUM_ONE_PAGE"))
    }
}
