//! The contents of block 0.
//!
//! ```text
//!   0       4         8      12      16          20           24         28
//!   +-------+---------+------+-------+-----------+------------+----------+-----+
//!   | magic | version | root | level | fast root | fast level | deleted  | pad |
//!   +-------+---------+------+-------+-----------+------------+----------+-----+
//!   32                               40              41                       48
//!   +--------------------------------+---------------+------------------------+
//!   | heap tuples, f64, not used     | all equal u8  | pad                    |
//!   +--------------------------------+---------------+------------------------+
//! ```
//!
//! - root: 0 if the index is empty
//! - fast root: the highest page that is not alone on its level's path, where searches begin
//! - deleted: pages that the last vacuum left deleted and not yet reusable
//! - heap tuples: -1; used before PostgreSQL 14
//! - all equal: whether equal values of all columns look the same, so duplicates may share a key

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::{META, NbtreeError, Opaque, init_page};
use crate::{
    bytes::{field, put, u32_field},
    ids::BlockNumber,
    page::{HEADER_SIZE, Page, PageMut},
};

/// The meta page's magic number.
pub const MAGIC: u32 = 0x05_3162;
/// The version of new indexes.
pub const VERSION: u32 = 4;
/// The oldest version that is understood: without all fields.
pub const MIN_VERSION: u32 = 2;
/// The oldest version with all fields.
pub const NOVAC_VERSION: u32 = 3;

/// Bytes of [`Meta`] as stored.
pub const META_SIZE: usize = 48;
const HEAP_TUPLES_AT: usize = 32;
const ALL_EQUAL_AT: usize = 40;
const _: () = assert!(HEAP_TUPLES_AT == 7 * 4 + 4 && ALL_EQUAL_AT + 8 == META_SIZE);

/// The contents of block 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Meta {
    /// 2 to 4.
    pub version: u32,
    /// The root, 0 if there is none.
    pub root: BlockNumber,
    /// Its level.
    pub level: u32,
    /// Where searches begin.
    pub fast_root: BlockNumber,
    /// Its level.
    pub fast_level: u32,
    /// Pages that the last vacuum left deleted and not yet reusable.
    pub deleted_pages: u32,
    /// Number of rows at the last vacuum, before PostgreSQL 14; else -1.
    pub heap_tuples: f64,
    /// Whether duplicates may be put in posting lists.
    pub all_equal_image: bool,
}

impl Meta {
    /// That of an index.
    pub const fn new(root: BlockNumber, level: u32, all_equal_image: bool) -> Self {
        Self {
            version: VERSION,
            root,
            level,
            fast_root: root,
            fast_level: level,
            deleted_pages: 0,
            heap_tuples: -1.0,
            all_equal_image,
        }
    }

    /// Whether heap TIDs are part of the keys' order, as in all indexes since PostgreSQL 12.
    pub const fn is_heap_key_space(&self) -> bool {
        self.version > NOVAC_VERSION
    }

    /// Reads it from block 0.
    pub fn of(page: Page<'_>) -> Result<Self, NbtreeError> {
        let opaque = Opaque::of(page)?;
        let bytes = page.bytes(HEADER_SIZE..HEADER_SIZE + META_SIZE).expect("bytes of the page");
        let magic = u32_field(bytes, 0);
        if !opaque.has(META) || magic != MAGIC {
            return Err(NbtreeError::Magic(magic));
        }
        let version = u32_field(bytes, 4);
        if !(MIN_VERSION..=VERSION).contains(&version) {
            return Err(NbtreeError::Version(version));
        }
        let meta = Self {
            version,
            root: u32_field(bytes, 8),
            level: u32_field(bytes, 12),
            fast_root: u32_field(bytes, 16),
            fast_level: u32_field(bytes, 20),
            deleted_pages: u32_field(bytes, 24),
            heap_tuples: f64::from_le_bytes(field(bytes, HEAP_TUPLES_AT)),
            all_equal_image: field::<1>(bytes, ALL_EQUAL_AT) != [0],
        };
        if version < NOVAC_VERSION {
            return Ok(Self {
                deleted_pages: 0,
                heap_tuples: -1.0,
                all_equal_image: false,
                ..meta
            });
        }
        Ok(meta)
    }

    /// Makes the page of block 0.
    pub fn init_page(&self, page: &mut PageMut<'_>) {
        init_page(page, Opaque { flags: META, ..Opaque::default() });
        self.store(page);
        page.set_lower((HEADER_SIZE + META_SIZE) as u16);
    }

    /// Stores it in block 0, whose other bytes it leaves.
    pub fn store(&self, page: &mut PageMut<'_>) {
        let numbers = [
            MAGIC,
            self.version,
            self.root,
            self.level,
            self.fast_root,
            self.fast_level,
            self.deleted_pages,
        ];
        for (index, number) in numbers.into_iter().enumerate() {
            put(page.0, HEADER_SIZE + 4 * index, number.to_le_bytes());
        }
        put(page.0, HEADER_SIZE + HEAP_TUPLES_AT, self.heap_tuples.to_le_bytes());
        put(page.0, HEADER_SIZE + ALL_EQUAL_AT, [u8::from(self.all_equal_image)]);
    }
}
