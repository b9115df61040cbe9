//! Pages and tuples of nbtree, PostgreSQL's B-tree indexes.
//!
//! ```text
//!   page header | line pointers -> |  hole  | <- index tuples | Opaque, 16 bytes
//!   page header | Meta, 48 bytes   |  hole                    | Opaque            block 0
//!   page header | safexid, 8 bytes |  hole                    | Opaque            deleted page
//! ```
//!
//! - `page`: the special space of each page, [`Opaque`]; making pages
//! - `meta`: the first block, [`Meta`]
//! - `tuple`: what index tuples mean here, [`Tuple`]; forming pivots and posting lists
//! - `change`: splitting, deduplication, deletion, as they are made first and repeated by redo
//! - `mask`: what differs between pages with the same contents
//!
//! Adding, replacing and removing items is in [`crate::index_page`].
//!
//! A page that is not the right-most one of its level begins with its high key, item 1: no key on
//! the page is greater. Data items follow, in the order of their keys. On a page above the leaves
//! each of them leads to a child; the first one has no values, as it counts as less than any key.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod change;
mod mask;
mod meta;
mod page;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
mod tuple;

pub use change::*;
pub use mask::mask;
pub use meta::*;
pub use page::*;
pub use tuple::*;

pub use crate::index_page::{
    MAX_ITEMS, delete_item, delete_items, empty_copy, insert_item, is_killed, item, kill,
    push_item, replace_item,
};

use crate::{
    bytes::max_align,
    ids::{BLOCK_SIZE, BlockNumber, ItemPointer, OffsetNumber},
    index_page::IndexPageError,
    index_tuple::IndexTupleError,
    page::{HEADER_SIZE, ITEM_ID_SIZE},
    tuple::TupleError,
};

/// The block of the meta page.
pub const META_BLOCK: BlockNumber = 0;
/// No sibling. Block 0 is never one.
pub const NO_SIBLING: BlockNumber = 0;
/// The item that holds the high key.
pub const HIGH_KEY: OffsetNumber = 1;
/// Bytes of the special space.
pub const OPAQUE_SIZE: usize = 16;

/// Largest leaf tuple: three of them fit a page, with a heap TID added to the high key.
pub const MAX_ITEM_SIZE: usize = MAX_ITEM_SIZE_NO_HEAP_TID - max_align(ItemPointer::SIZE);
/// Largest tuple: with a heap TID that was added to its key. In indexes of version 2 and 3 also the
/// largest leaf tuple.
pub const MAX_ITEM_SIZE_NO_HEAP_TID: usize =
    (BLOCK_SIZE - max_align(HEADER_SIZE + 3 * ITEM_ID_SIZE) - OPAQUE_SIZE) / 3 / 8 * 8;
/// More heap TIDs than a leaf page can have.
pub const MAX_TIDS_PER_PAGE: usize = (BLOCK_SIZE - HEADER_SIZE - OPAQUE_SIZE) / ItemPointer::SIZE;

const _: () = assert!(MAX_ITEM_SIZE == 2704 && MAX_ITEM_SIZE_NO_HEAP_TID == 2712);
const _: () = assert!(MAX_TIDS_PER_PAGE == 1358);

/// Least fill factor, in percent.
pub const MIN_FILL_FACTOR: usize = 10;
/// Default fill factor of leaves.
pub const DEFAULT_FILL_FACTOR: usize = 90;
/// Fill factor of pages above the leaves.
pub const NON_LEAF_FILL_FACTOR: usize = 70;
/// Fill factor where a page that is full of one value is split.
pub const SINGLE_VALUE_FILL_FACTOR: usize = 96;

/// Why a page or tuple of an index is not valid, or can't be changed as told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NbtreeError {
    /// The page was never initialized.
    #[error("index contains a page that was never initialized")]
    NewPage,
    /// The bounds in the page's header contradict each other.
    #[error("page header is damaged: lower {lower}, upper {upper}, special {special}")]
    Header {
        /// End of the line pointers.
        lower: usize,
        /// Start of the items.
        upper: usize,
        /// End of the items.
        special: usize,
    },
    /// The special space has the size of another kind of page.
    #[error("not a page of a B-tree: it has {len} bytes of special space")]
    SpecialSize {
        /// Its size.
        len: usize,
    },
    /// There are unknown flags.
    #[error("page has unknown B-tree flags {flags:#06x}")]
    Flags {
        /// All flags.
        flags: u16,
    },
    /// The meta page's magic number is wrong.
    #[error("not the first page of a B-tree: magic number {0:#x}")]
    Magic(u32),
    /// The index has a version that does not exist.
    #[error("B-tree version {0} is not supported; versions 2 to 4 are")]
    Version(u32),
    /// The page is not a deleted one.
    #[error("page is not deleted")]
    NotDeleted,
    /// An item does not exist, or does not fit.
    #[error(transparent)]
    Items(#[from] IndexPageError),
    /// The list of heap TIDs is not inside of its tuple.
    #[error("posting list of {count} at byte {offset} does not fit its tuple of {size} bytes")]
    PostingBounds {
        /// Number of heap TIDs.
        count: usize,
        /// Where it begins.
        offset: usize,
        /// Size of the tuple.
        size: usize,
    },
    /// The tuple has no posting list, or none with such a place.
    #[error("tuple has no heap TID {index} in a posting list")]
    NoPosting {
        /// Index of the heap TID, from 0.
        index: usize,
    },
    /// A tuple that should point to one row or to several does not.
    #[error("tuple is a pivot, which points to no row")]
    Pivot,
    /// The tuple's header is damaged.
    #[error(transparent)]
    Tuple(#[from] IndexTupleError),
}

impl From<TupleError> for NbtreeError {
    fn from(error: TupleError) -> Self {
        Self::Tuple(error.into())
    }
}
