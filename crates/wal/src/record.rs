//! A record as its author describes it, and its assembly: which blocks go in as full-page images.

use forebay_format::{Lsn, PageBytes, PageTag, Xid};

/// How a block reference is logged. Combine with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockFlags(u8);

impl BlockFlags {
    /// An image if the page was not changed since the last checkpoint's redo pointer.
    pub const NONE: BlockFlags = BlockFlags(0);
    /// Always an image.
    pub const FORCE_IMAGE: BlockFlags = BlockFlags(1);
    /// Never an image.
    pub const NO_IMAGE: BlockFlags = BlockFlags(2);
    /// Redo makes the page anew; so there is no image either.
    pub const WILL_INIT: BlockFlags = BlockFlags(4 | 2);
    /// The page has the standard layout: the hole between `lower` and `upper` is left out of an image.
    pub const STANDARD: BlockFlags = BlockFlags(8);
    /// The block's data is logged even beside an image.
    pub const KEEP_DATA: BlockFlags = BlockFlags(16);

    /// True if all of `flags` are set.
    pub const fn has(self, flags: BlockFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl std::ops::BitOr for BlockFlags {
    type Output = BlockFlags;

    fn bitor(self, other: BlockFlags) -> BlockFlags {
        BlockFlags(self.0 | other.0)
    }
}

/// A page that a record changes.
#[derive(Debug, Clone, Copy)]
pub struct BlockRef<'a> {
    /// Number of the reference within the record, 0 to 32; ascending in [`Record::blocks`].
    pub id: u8,
    /// Which page.
    pub tag: PageTag,
    /// The page *after* the change, still with its old LSN, held exclusively locked by the caller. `None`
    /// only together with [`BlockFlags::NO_IMAGE`] or [`BlockFlags::WILL_INIT`].
    pub page: Option<&'a PageBytes>,
    /// How it is logged.
    pub flags: BlockFlags,
    /// The resource manager's data for this block. Left out when the image makes it superfluous.
    pub data: &'a [u8],
}

/// A record to insert.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Resource manager.
    pub rmgr: u8,
    /// The resource manager's four bits, and XLR_SPECIAL_REL_UPDATE.
    pub info: u8,
    /// Transaction, or 0.
    pub xid: Xid,
    /// Data that belongs to no block.
    pub main: &'a [u8],
    /// Pages that the record changes.
    pub blocks: &'a [BlockRef<'a>],
}

/// Where a record went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inserted {
    /// Its first byte. Never a page boundary: there it is behind the page's header.
    pub start: Lsn,
    /// The end of its last byte, rounded up to 8; a changed page gets this LSN, and a commit flushes up to it.
    pub end: Lsn,
}
