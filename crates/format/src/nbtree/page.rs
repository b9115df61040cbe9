//! The special space of a page.
//!
//! ```text
//!   0      4      8       12      14         16
//!   +------+------+-------+-------+----------+
//!   | prev | next | level | flags | cycle id |
//!   +------+------+-------+-------+----------+
//! ```
//!
//! - prev, next: the siblings on this level; 0 at its ends
//! - level: 0 for leaves
//! - cycle id: of the vacuum that ran when the page was split last, or 0. So vacuum notices items
//!   that moved to a page that it has been to already.
//!
//! A page in its life:
//!
//! ```text
//!   leaf or inner page ── split ──▶ INCOMPLETE_SPLIT until the parent leads to the right half
//!   empty leaf ─▶ HALF_DEAD: no parent leads to it ─▶ DELETED: its siblings neither ─▶ reused
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::{HIGH_KEY, NO_SIBLING, NbtreeError};
use crate::{
    bytes::{array_at, put, u16_field, u32_field},
    ids::{BLOCK_SIZE, BlockNumber, FullXid, OffsetNumber},
    page::{HEADER_SIZE, Page, PageMut},
};

/// Bytes of the special space.
pub const OPAQUE_SIZE: usize = 16;

/// Flag: a leaf.
pub const LEAF: u16 = 1;
/// Flag: the root, which has no parent.
pub const ROOT: u16 = 1 << 1;
/// Flag: no longer part of the tree.
pub const DELETED: u16 = 1 << 2;
/// Flag: the meta page.
pub const META: u16 = 1 << 3;
/// Flag: empty, without a parent, but with siblings.
pub const HALF_DEAD: u16 = 1 << 4;
/// Flag: the last page of a group that was split while a vacuum ran.
pub const SPLIT_END: u16 = 1 << 5;
/// Flag: some items are marked dead (a hint).
pub const HAS_GARBAGE: u16 = 1 << 6;
/// Flag: the parent does not lead to the right sibling yet.
pub const INCOMPLETE_SPLIT: u16 = 1 << 7;
/// Flag: a deleted page that holds the id of 8 bytes; since PostgreSQL 14.
pub const HAS_FULL_XID: u16 = 1 << 8;
/// All valid flags.
pub const VALID_FLAGS: u16 = 0x1ff;

/// Greatest cycle id of a vacuum. Greater ones tell pages of other access methods.
pub const MAX_CYCLE_ID: u16 = 0xff7f;

const OPAQUE_AT: usize = BLOCK_SIZE - OPAQUE_SIZE;
const DELETED_SIZE: usize = 8;
const _: () = assert!(4 + 4 + 4 + 2 + 2 == OPAQUE_SIZE && OPAQUE_AT.is_multiple_of(8));

/// The special space of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Opaque {
    /// The left sibling, or [`NO_SIBLING`].
    pub prev: BlockNumber,
    /// The right sibling, or [`NO_SIBLING`].
    pub next: BlockNumber,
    /// Level above the leaves.
    pub level: u32,
    /// Flags.
    pub flags: u16,
    /// The vacuum during which the page was split.
    pub cycle_id: u16,
}

impl Opaque {
    /// Decodes it.
    pub fn decode(bytes: &[u8; OPAQUE_SIZE]) -> Self {
        Self {
            prev: u32_field(bytes, 0),
            next: u32_field(bytes, 4),
            level: u32_field(bytes, 8),
            flags: u16_field(bytes, 12),
            cycle_id: u16_field(bytes, 14),
        }
    }

    /// Encodes it.
    pub fn encode(&self) -> [u8; OPAQUE_SIZE] {
        let mut out = [0; OPAQUE_SIZE];
        put(&mut out, 0, self.prev.to_le_bytes());
        put(&mut out, 4, self.next.to_le_bytes());
        put(&mut out, 8, self.level.to_le_bytes());
        put(&mut out, 12, self.flags.to_le_bytes());
        put(&mut out, 14, self.cycle_id.to_le_bytes());
        out
    }

    /// That of a page, which must be a page of an nbtree index.
    #[inline]
    pub fn of(page: Page<'_>) -> Result<Self, NbtreeError> {
        if page.is_new() {
            return Err(NbtreeError::NewPage);
        }
        let (lower, upper, special) = (page.lower(), page.upper(), page.special());
        if lower < HEADER_SIZE || !page.header_is_sane() {
            return Err(NbtreeError::Header { lower, upper, special });
        }
        let bytes = page.special_bytes();
        let bytes: &[u8; OPAQUE_SIZE] =
            bytes.try_into().map_err(|_| NbtreeError::SpecialSize { len: bytes.len() })?;
        let opaque = Self::decode(bytes);
        if opaque.flags & !VALID_FLAGS != 0 {
            return Err(NbtreeError::Flags { flags: opaque.flags });
        }
        Ok(opaque)
    }

    /// Stores it in a page, whose special space must have this size.
    pub fn store(&self, page: &mut PageMut<'_>) {
        assert_eq!(page.page().special(), OPAQUE_AT, "a page of an nbtree index");
        put(page.0, OPAQUE_AT, self.encode());
    }

    /// Whether all of some flags are set.
    #[inline]
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// Whether it is a leaf.
    #[inline]
    pub const fn is_leaf(&self) -> bool {
        self.has(LEAF)
    }

    /// Whether it is the root.
    #[inline]
    pub const fn is_root(&self) -> bool {
        self.has(ROOT)
    }

    /// Whether the parent does not lead to the right sibling yet.
    #[inline]
    pub const fn is_split_incomplete(&self) -> bool {
        self.has(INCOMPLETE_SPLIT)
    }

    /// Whether searches pass the page by: it is deleted or half-dead.
    #[inline]
    pub const fn is_ignored(&self) -> bool {
        self.flags & (DELETED | HALF_DEAD) != 0
    }

    /// Whether it is the first page of its level.
    #[inline]
    pub const fn is_leftmost(&self) -> bool {
        self.prev == NO_SIBLING
    }

    /// Whether it is the last page of its level, which has no high key.
    #[inline]
    pub const fn is_rightmost(&self) -> bool {
        self.next == NO_SIBLING
    }

    /// The first item behind the high key, if there is one.
    #[inline]
    pub const fn first_data_item(&self) -> OffsetNumber {
        if self.is_rightmost() { HIGH_KEY } else { HIGH_KEY + 1 }
    }
}

/// Makes an empty page with this special space.
pub fn init_page(page: &mut PageMut<'_>, opaque: Opaque) {
    page.init(OPAQUE_SIZE);
    opaque.store(page);
}

/// Makes a deleted page, which may be reused when no transaction is left that began before
/// `safe_xid`. `opaque` has its siblings and level, and the flag [`LEAF`] or none.
pub fn init_deleted_page(page: &mut PageMut<'_>, opaque: Opaque, safe_xid: FullXid) {
    let flags = opaque.flags & !HALF_DEAD | DELETED | HAS_FULL_XID;
    init_page(page, Opaque { flags, ..opaque });
    put(page.0, HEADER_SIZE, safe_xid.0.to_le_bytes());
    page.set_lower((HEADER_SIZE + DELETED_SIZE) as u16);
}

/// From when on a deleted page may be reused: see [`init_deleted_page`]. None if it was deleted by
/// PostgreSQL before 14, so at once.
pub fn safe_xid(page: Page<'_>) -> Result<Option<FullXid>, NbtreeError> {
    let opaque = Opaque::of(page)?;
    if !opaque.has(DELETED) {
        return Err(NbtreeError::NotDeleted);
    }
    if !opaque.has(HAS_FULL_XID) {
        return Ok(None);
    }
    let contents = page.bytes(HEADER_SIZE..page.lower()).unwrap_or_default();
    let (lower, upper, special) = (page.lower(), page.upper(), page.special());
    let xid = array_at(contents, 0).ok_or(NbtreeError::Header { lower, upper, special })?;
    Ok(Some(FullXid(u64::from_le_bytes(xid))))
}
