//! Records of BRIN indexes.
//!
//! ```text
//!   kind             main data         block references, with their data
//!   CREATE_INDEX     BrinCreate        0 meta page
//!   INSERT           BrinInsert        0 page: summary | 1 page of the map
//!   UPDATE           BrinUpdate        the same | 2 page of the old summary
//!   SAMEPAGE_UPDATE  item u16          0 page: summary
//!   REVMAP_EXTEND    block u32         0 meta page | 1 new page of the map
//!   DESUMMARIZE      BrinDesummarize   0 page of the map | 1 page of the summary
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, array_at},
    ids::{BlockNumber, OffsetNumber},
    wal::error::{PayloadError, damaged},
};

/// A new index.
pub const CREATE_INDEX: u8 = 0x00;
/// A summary inserted.
pub const INSERT: u8 = 0x10;
/// A summary replaced by one on another page.
pub const UPDATE: u8 = 0x20;
/// A summary replaced in its place.
pub const SAMEPAGE_UPDATE: u8 = 0x30;
/// A page added to the map.
pub const REVMAP_EXTEND: u8 = 0x40;
/// A summary removed.
pub const DESUMMARIZE: u8 = 0x50;
/// The bits of info that hold the kind.
pub const OPMASK: u8 = 0x70;
/// Info flag: redo initializes the page of the new summary.
pub const INIT_PAGE: u8 = 0x80;

/// Block reference of [`INSERT`] and [`UPDATE`]: the page of the map.
pub const MAP_BLOCK: u8 = 1;
/// Block reference of [`UPDATE`]: the page of the old summary.
pub const OLD_BLOCK: u8 = 2;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        CREATE_INDEX => "CREATE_INDEX",
        INSERT => "INSERT",
        UPDATE => "UPDATE",
        SAMEPAGE_UPDATE => "SAMEPAGE_UPDATE",
        REVMAP_EXTEND => "REVMAP_EXTEND",
        DESUMMARIZE => "DESUMMARIZE",
        _ if kind == INSERT | INIT_PAGE => "INSERT+INIT",
        _ if kind == UPDATE | INIT_PAGE => "UPDATE+INIT",
        _ => "UNKNOWN",
    }
}

/// Main data of [`CREATE_INDEX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrinCreate {
    /// Blocks of a range.
    pub pages_per_range: u32,
    /// The index's version.
    pub version: u16,
}

impl BrinCreate {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self { pages_per_range: cursor.u32()?, version: cursor.u16()? })
        };
        read(&mut cursor).ok_or(damaged("CREATE_INDEX"))
    }
}

/// Main data of [`INSERT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrinInsert {
    /// The first block of the range.
    pub heap_block: BlockNumber,
    /// Blocks of a range.
    pub pages_per_range: u32,
    /// The item that the summary becomes.
    pub item: OffsetNumber,
}

impl BrinInsert {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        Self::read(&mut Cursor::new(main)).ok_or(damaged("INSERT"))
    }

    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let (heap_block, pages_per_range) = (cursor.u32()?, cursor.u32()?);
        Some(Self { heap_block, pages_per_range, item: cursor.u16()? })
    }
}

/// Main data of [`UPDATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrinUpdate {
    /// The old summary's item.
    pub old_item: OffsetNumber,
    /// The new summary.
    pub insert: BrinInsert,
}

impl BrinUpdate {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let old_item = cursor.u16()?;
            cursor.u16()?;
            Some(Self { old_item, insert: BrinInsert::read(cursor)? })
        };
        read(&mut cursor).ok_or(damaged("UPDATE"))
    }
}

/// Decodes the main data of [`SAMEPAGE_UPDATE`]: the item.
pub fn decode_item(main: &[u8]) -> Result<OffsetNumber, PayloadError> {
    array_at(main, 0).map(u16::from_le_bytes).ok_or(damaged("SAMEPAGE_UPDATE"))
}

/// Decodes the main data of [`REVMAP_EXTEND`]: the new page of the map.
pub fn decode_map_block(main: &[u8]) -> Result<BlockNumber, PayloadError> {
    array_at(main, 0).map(u32::from_le_bytes).ok_or(damaged("REVMAP_EXTEND"))
}

/// Main data of [`DESUMMARIZE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrinDesummarize {
    /// Blocks of a range.
    pub pages_per_range: u32,
    /// The first block of the range.
    pub heap_block: BlockNumber,
    /// The summary's item.
    pub item: OffsetNumber,
}

impl BrinDesummarize {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let (pages_per_range, heap_block) = (cursor.u32()?, cursor.u32()?);
            Some(Self { pages_per_range, heap_block, item: cursor.u16()? })
        };
        read(&mut cursor).ok_or(damaged("DESUMMARIZE"))
    }
}
