//! Pages of hash indexes, as far as redo changes them.
//!
//! ```text
//!   page header | line pointers -> |  hole  | <- index tuples | Opaque    bucket, overflow page
//!   page header | bits, 4096 bytes |  hole                    | Opaque    bitmap
//!   page header | meta, 4544 bytes |  hole                    | Opaque    block 0
//!
//!   Opaque:
//!   0      4      8        12      14        16
//!   +------+------+--------+-------+---------+
//!   | prev | next | bucket | flags | page id |
//!   +------+------+--------+-------+---------+
//!
//!   meta:
//!   0       4         8        16       18      20       22       24       28
//!   +-------+---------+--------+--------+-------+--------+--------+--------+------
//!   | magic | version | tuples | fill   | bytes | bitmap | log2   | last   | high
//!   |       |         | f64    | factor | u16   | bytes  | bits   | bucket | mask
//!   +-------+---------+--------+--------+-------+--------+--------+--------+------
//!   32     36      40      44       48     52           444              4540  4544
//!   -------+-------+-------+--------+------+------------+----------------+-----+
//!     low  | split | first | number | hash | 98 numbers | 1024 blocks of | pad |
//!     mask | point | free  | of maps| proc | of spares  | bitmaps        |     |
//!   -------+-------+-------+--------+------+------------+----------------+-----+
//! ```
//!
//! - prev: the page before an overflow page. In a bucket's first page, the last bucket that existed
//!   when the page was split.
//! - spares: overflow pages allocated before each split point
//! - bitmaps: a set bit is an overflow page in use

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{array_at, put, u16_field, u32_at, u32_field},
    ids::{BLOCK_SIZE, BlockNumber, INVALID_BLOCK, Oid},
    index_page::{IndexPageError, bounds, mask_contents, mask_hints, mask_kills},
    page::{HEADER_SIZE, Page, PageBytes, PageMut},
};

/// Bytes of the special space.
pub const OPAQUE_SIZE: usize = 16;
/// The page id of all pages.
pub const PAGE_ID: u16 = 0xff80;
/// No bucket.
pub const INVALID_BUCKET: u32 = u32::MAX;

/// Flag: an overflow page.
pub const OVERFLOW_PAGE: u16 = 1;
/// Flag: a bucket's first page.
pub const BUCKET_PAGE: u16 = 1 << 1;
/// Flag: a bitmap.
pub const BITMAP_PAGE: u16 = 1 << 2;
/// Flag: the meta page.
pub const META_PAGE: u16 = 1 << 3;
/// Flag: tuples have to be removed that a split has copied to another bucket.
pub const NEEDS_SPLIT_CLEANUP: u16 = 1 << 6;
/// Flag: some items are marked dead (a hint).
pub const HAS_DEAD_TUPLES: u16 = 1 << 7;
/// The flags that tell the kind of page; none of them is set in an unused page.
pub const PAGE_TYPE: u16 = OVERFLOW_PAGE | BUCKET_PAGE | BITMAP_PAGE | META_PAGE;

const MAGIC: u32 = 0x0644_0640;
const VERSION: u32 = 4;

/// Split points that a meta page has.
pub const MAX_SPLIT_POINTS: usize = 98;
/// Bitmaps that a meta page has.
pub const MAX_BITMAPS: usize = 1024;
/// Groups of split points that are not divided into phases.
const SINGLE_PHASE_GROUPS: u32 = 10;
/// Phases of any other group, as bits of a number.
const PHASE_BITS: u32 = 2;

const OPAQUE_AT: usize = BLOCK_SIZE - OPAQUE_SIZE;
const TUPLES_AT: usize = HEADER_SIZE + 8;
const FILL_FACTOR_AT: usize = HEADER_SIZE + 16;
const BITMAP_BYTES_AT: usize = HEADER_SIZE + 20;
const MAX_BUCKET_AT: usize = HEADER_SIZE + 24;
const HIGH_MASK_AT: usize = HEADER_SIZE + 28;
const LOW_MASK_AT: usize = HEADER_SIZE + 32;
const SPLIT_POINT_AT: usize = HEADER_SIZE + 36;
const FIRST_FREE_AT: usize = HEADER_SIZE + 40;
const MAPS_AT: usize = HEADER_SIZE + 44;
const PROC_AT: usize = HEADER_SIZE + 48;
const SPARES_AT: usize = HEADER_SIZE + 52;
const MAP_BLOCKS_AT: usize = SPARES_AT + 4 * MAX_SPLIT_POINTS;
const META_END: usize = (MAP_BLOCKS_AT + 4 * MAX_BITMAPS).next_multiple_of(8);
/// Bytes of a new index's bitmaps: the greatest power of two that fits a page.
const BITMAP_BYTES: u16 = 4096;

const _: () = assert!(META_END == HEADER_SIZE + 4544 && META_END < OPAQUE_AT);
const _: () = assert!(HEADER_SIZE + BITMAP_BYTES as usize * 2 > OPAQUE_AT);

/// The special space of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opaque {
    /// The page before; see the module's description.
    pub prev: BlockNumber,
    /// The next overflow page.
    pub next: BlockNumber,
    /// The bucket.
    pub bucket: u32,
    /// Flags.
    pub flags: u16,
}

impl Opaque {
    /// That of a page with these flags, which belongs to nothing.
    pub const fn alone(flags: u16) -> Self {
        Self { prev: INVALID_BLOCK, next: INVALID_BLOCK, bucket: INVALID_BUCKET, flags }
    }

    /// That of a page, which must be a page of a hash index.
    pub fn of(page: Page<'_>) -> Result<Self, IndexPageError> {
        bounds(page)?;
        let bytes = page.special_bytes();
        if bytes.len() != OPAQUE_SIZE || u16_field(bytes, 14) != PAGE_ID {
            return Err(IndexPageError::Kind("page of a hash index"));
        }
        Ok(Self {
            prev: u32_field(bytes, 0),
            next: u32_field(bytes, 4),
            bucket: u32_field(bytes, 8),
            flags: u16_field(bytes, 12),
        })
    }

    /// Stores it in a page, whose special space must have this size.
    pub fn store(&self, page: &mut PageMut<'_>) {
        put(page.0, OPAQUE_AT, self.prev.to_le_bytes());
        put(page.0, OPAQUE_AT + 4, self.next.to_le_bytes());
        put(page.0, OPAQUE_AT + 8, self.bucket.to_le_bytes());
        put(page.0, OPAQUE_AT + 12, self.flags.to_le_bytes());
        put(page.0, OPAQUE_AT + 14, PAGE_ID.to_le_bytes());
    }
}

/// Changes the special space of a page.
pub fn change_opaque(
    page: &mut PageMut<'_>,
    change: impl FnOnce(&mut Opaque),
) -> Result<(), IndexPageError> {
    let mut opaque = Opaque::of(page.page())?;
    change(&mut opaque);
    opaque.store(page);
    Ok(())
}

/// Makes an empty page with this special space.
pub fn init_page(page: &mut PageMut<'_>, opaque: Opaque) {
    page.init(OPAQUE_SIZE);
    opaque.store(page);
}

/// Makes a bitmap of some bytes, with all bits set.
pub fn init_bitmap(page: &mut PageMut<'_>, bytes: u16) -> Result<(), IndexPageError> {
    init_page(page, Opaque::alone(BITMAP_PAGE));
    let end = HEADER_SIZE + usize::from(bytes);
    let bits = page.0.get_mut(HEADER_SIZE..end).filter(|_| end <= OPAQUE_AT);
    bits.ok_or(IndexPageError::Damaged("the bitmap does not fit a page"))?.fill(0xff);
    page.set_lower(end as u16);
    Ok(())
}

/// Sets or clears a bit of a bitmap.
pub fn set_bit(page: &mut PageMut<'_>, bit: u32, on: bool) -> Result<(), IndexPageError> {
    if Opaque::of(page.page())?.flags & PAGE_TYPE != BITMAP_PAGE {
        return Err(IndexPageError::Kind("bitmap of a hash index"));
    }
    let bits = page.0.get_mut(HEADER_SIZE..OPAQUE_AT).expect("a part of the page");
    let byte = bits.get_mut(bit as usize / 8);
    let byte = byte.ok_or(IndexPageError::Damaged("the bitmap has no such bit"))?;
    let mask = 1 << (bit % 8);
    *byte = if on { *byte | mask } else { *byte & !mask };
    Ok(())
}

/// The meta page, to change.
#[derive(Debug)]
pub struct Meta<'a>(&'a mut PageBytes);

impl<'a> Meta<'a> {
    /// Views block 0.
    pub fn of(page: &'a mut PageMut<'_>) -> Result<Self, IndexPageError> {
        let opaque = Opaque::of(page.page())?;
        let stored = (u32_at(page.0, HEADER_SIZE), u32_at(page.0, HEADER_SIZE + 4));
        if opaque.flags & PAGE_TYPE != META_PAGE || stored != (Some(MAGIC), Some(VERSION)) {
            return Err(IndexPageError::Kind("meta page of a hash index of version 4"));
        }
        Ok(Self(page.0))
    }

    /// Makes the meta page of an index for about `tuples` tuples, `fill_factor` for each bucket.
    pub fn init(
        page: &'a mut PageMut<'_>,
        tuples: f64,
        hash_proc: Oid,
        fill_factor: u16,
    ) -> Result<(), IndexPageError> {
        if fill_factor == 0 {
            return Err(IndexPageError::Damaged("a fill factor of 0"));
        }
        init_page(page, Opaque::alone(META_PAGE));
        page.set_lower(META_END as u16);
        let buckets = match tuples / f64::from(fill_factor) {
            few if few <= 2.0 => 2,
            many if many >= f64::from(1 << 30) => 1 << 30,
            // Behind the point, a bucket does not count.
            wanted => buckets_at(split_point(wanted as u32)),
        };
        let point = split_point(buckets);
        let high_mask = (buckets + 1).next_power_of_two() - 1;
        let numbers = [MAGIC, VERSION];
        let mut meta = Self(page.0);
        for (index, number) in numbers.into_iter().enumerate() {
            meta.set(HEADER_SIZE + 4 * index, number);
        }
        let shorts = [
            fill_factor,
            (OPAQUE_AT - HEADER_SIZE) as u16,
            BITMAP_BYTES,
            BITMAP_BYTES.ilog2() as u16 + 3,
        ];
        for (index, short) in shorts.into_iter().enumerate() {
            put(meta.0, FILL_FACTOR_AT + 2 * index, short.to_le_bytes());
        }
        meta.set(MAX_BUCKET_AT, buckets - 1);
        meta.set(HIGH_MASK_AT, high_mask);
        meta.set(LOW_MASK_AT, high_mask >> 1);
        meta.set(SPLIT_POINT_AT, point);
        meta.set(PROC_AT, hash_proc);
        meta.set_spares(point, 1)
    }

    fn get(&self, at: usize) -> u32 {
        u32_field(&self.0[..], at)
    }

    fn set(&mut self, at: usize, number: u32) {
        put(self.0, at, number.to_le_bytes());
    }

    /// Bytes of each bitmap.
    pub fn bitmap_bytes(&self) -> u16 {
        u16_field(&self.0[..], BITMAP_BYTES_AT)
    }

    /// Number of tuples.
    pub fn tuples(&self) -> f64 {
        array_at(&self.0[..], TUPLES_AT).map_or(0.0, f64::from_le_bytes)
    }

    /// Sets the number of tuples.
    pub fn set_tuples(&mut self, tuples: f64) {
        put(self.0, TUPLES_AT, tuples.to_le_bytes());
    }

    /// Notes that the index has one more bitmap.
    pub fn add_bitmap(&mut self, block: BlockNumber) -> Result<(), IndexPageError> {
        let count = self.get(MAPS_AT);
        if count as usize >= MAX_BITMAPS {
            return Err(IndexPageError::Damaged("the meta page has no room for a bitmap"));
        }
        self.set(MAP_BLOCKS_AT + 4 * count as usize, block);
        self.set(MAPS_AT, count + 1);
        Ok(())
    }

    /// The first bitmap's block in a new index: behind its buckets.
    pub fn first_bitmap(&self) -> BlockNumber {
        self.get(MAX_BUCKET_AT).wrapping_add(2)
    }

    /// Sets where to search a free overflow page.
    pub fn set_first_free(&mut self, bit: u32) {
        self.set(FIRST_FREE_AT, bit);
    }

    /// Counts overflow pages that were added at the present split point.
    pub fn add_spares(&mut self, count: u32) -> Result<(), IndexPageError> {
        let point = self.get(SPLIT_POINT_AT);
        let present = if (point as usize) < MAX_SPLIT_POINTS {
            self.get(SPARES_AT + 4 * point as usize)
        } else {
            0
        };
        self.set_spares(point, present.wrapping_add(count))
    }

    fn set_spares(&mut self, point: u32, pages: u32) -> Result<(), IndexPageError> {
        if point as usize >= MAX_SPLIT_POINTS {
            return Err(IndexPageError::Damaged("there is no such split point"));
        }
        self.set(SPARES_AT + 4 * point as usize, pages);
        Ok(())
    }

    /// Notes a new bucket, the last one.
    pub fn set_last_bucket(&mut self, bucket: u32) {
        self.set(MAX_BUCKET_AT, bucket);
    }

    /// Sets the masks by which a hash value becomes a bucket.
    pub fn set_masks(&mut self, low: u32, high: u32) {
        self.set(LOW_MASK_AT, low);
        self.set(HIGH_MASK_AT, high);
    }

    /// Begins a split point with so many overflow pages before it.
    pub fn begin_split_point(&mut self, point: u32, pages: u32) -> Result<(), IndexPageError> {
        self.set_spares(point, pages)?;
        self.set(SPLIT_POINT_AT, point);
        Ok(())
    }
}

/// The split point at which an index gets a number of buckets, from 1 to 2^31. Split points double
/// the buckets; from 512 buckets on, in four steps.
fn split_point(buckets: u32) -> u32 {
    let group = buckets.next_power_of_two().ilog2();
    if group < SINGLE_PHASE_GROUPS {
        return group;
    }
    let before = SINGLE_PHASE_GROUPS + ((group - SINGLE_PHASE_GROUPS) << PHASE_BITS);
    let phase = (buckets - 1) >> (group - (PHASE_BITS + 1)) & ((1 << PHASE_BITS) - 1);
    before + phase
}

/// Number of buckets with a split point, which must exist, and those before.
fn buckets_at(point: u32) -> u32 {
    if point < SINGLE_PHASE_GROUPS {
        return 1 << point;
    }
    let (steps, base) = (point - SINGLE_PHASE_GROUPS, SINGLE_PHASE_GROUPS - 1);
    let before = 1 << (base + (steps >> PHASE_BITS));
    before + (before >> PHASE_BITS) * ((steps & ((1 << PHASE_BITS) - 1)) + 1)
}

/// Sets to zero what redo or hints may have left different, as PostgreSQL does where it compares
/// pages. A page that is not one of a hash index stays as it is.
pub fn mask(bytes: &mut PageBytes) {
    let mut page = PageMut::new(bytes);
    let Ok(opaque) = Opaque::of(page.page()) else { return };
    mask_hints(&mut page);
    match opaque.flags & PAGE_TYPE {
        0 => mask_contents(&mut page),
        BUCKET_PAGE | OVERFLOW_PAGE => {
            mask_kills(&mut page);
            Opaque { flags: opaque.flags & !HAS_DEAD_TUPLES, ..opaque }.store(&mut page);
        }
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn split_points_and_their_buckets() {
        // Up to 512 buckets they double; then four steps lead to the next power of two.
        for (point, buckets) in
            [(0, 1), (1, 2), (9, 512), (10, 640), (11, 768), (12, 896), (13, 1024), (14, 1280)]
        {
            assert_eq!((split_point(buckets), buckets_at(point)), (point, buckets));
        }
        assert_eq!((split_point(3), split_point(513), split_point(641)), (2, 10, 11));
        assert_eq!(split_point(1 << 30), 93);
        for point in 0..90 {
            assert_eq!(split_point(buckets_at(point)), point);
        }
    }

    #[test]
    fn a_new_index() {
        let mut bytes = [0xaa; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        Meta::init(&mut page, 0.0, 400, 307).unwrap();
        let mut meta = Meta::of(&mut page).unwrap();
        assert_eq!((meta.first_bitmap(), meta.bitmap_bytes()), (3, 4096));
        meta.add_bitmap(3).unwrap();
        assert_eq!((meta.get(HIGH_MASK_AT), meta.get(LOW_MASK_AT)), (3, 1));
        assert_eq!((meta.get(SPARES_AT + 4), meta.get(MAP_BLOCKS_AT)), (1, 3));
        (1..MAX_BITMAPS as u32).for_each(|block| meta.add_bitmap(block).unwrap());
        assert!(meta.add_bitmap(7).is_err());
        assert!(meta.begin_split_point(98, 1).is_err());
        meta.begin_split_point(97, 5).unwrap();
        meta.add_spares(2).unwrap();
        assert_eq!(meta.get(SPARES_AT + 4 * 97), 7);
        for tuples in [f64::NAN, f64::INFINITY, -1.0, 1e30] {
            Meta::init(&mut page, tuples, 400, 1).unwrap();
        }
        assert!(Meta::init(&mut page, 1.0, 400, 0).is_err());
    }

    #[test]
    fn bits() {
        let mut bytes = [0xaa; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        assert!(init_bitmap(&mut page, 8200).is_err());
        init_bitmap(&mut page, 4096).unwrap();
        set_bit(&mut page, 35, false).unwrap();
        assert_eq!(
            page.page().bytes(HEADER_SIZE..HEADER_SIZE + 6),
            Some(&[255, 255, 255, 255, 0xf7, 255][..])
        );
        set_bit(&mut page, 35, true).unwrap();
        assert!(set_bit(&mut page, 1 << 20, true).is_err());
        init_page(&mut page, Opaque::alone(BUCKET_PAGE));
        assert!(set_bit(&mut page, 1, true).is_err());
        assert!(Meta::of(&mut page).is_err());
    }
}
