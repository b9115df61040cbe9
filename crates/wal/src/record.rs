//! A record as its author describes it, and its assembly: which blocks go in as full-page images.

use forebay_format::{
    Lsn, Page, PageBytes, PageTag, Xid,
    wal::{EncodedRecord, Image, ImageCompression, RecordBuilder, Rmgr},
};

use crate::error::WalError;

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
    /// The page has the standard layout: the hole between `lower` and `upper` is left out of an
    /// image.
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
    /// The page *after* the change, still with its old LSN, held exclusively locked by the caller.
    /// `None` only together with [`BlockFlags::NO_IMAGE`] or [`BlockFlags::WILL_INIT`].
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
    pub rmgr: Rmgr,
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
    /// The end of its last byte, rounded up to 8; a changed page gets this LSN, and a commit
    /// flushes up to it.
    pub end: Lsn,
}

/// By what it is decided whether a page goes in as an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImagePolicy {
    pub redo: Lsn,
    pub full_page_writes: bool,
    /// How images are compressed, if at all.
    pub compression: Option<ImageCompression>,
}

/// A record assembled under some policy: all of it but its place.
#[derive(Debug)]
pub(crate) struct Assembled<'a> {
    pub encoded: EncodedRecord<'a>,
    pub images: u64,
    /// The oldest LSN among the pages that could have had an image and got none.
    oldest_without: Option<Lsn>,
}

impl Assembled<'_> {
    /// True if a page without an image would need one under `policy`: the redo pointer moved past
    /// it.
    pub fn is_outdated(&self, policy: ImagePolicy) -> bool {
        policy.full_page_writes && self.oldest_without.is_some_and(|lsn| lsn <= policy.redo)
    }
}

/// Puts `record` together, with the full-page images that `policy` asks for.
pub(crate) fn assemble<'a>(
    record: &Record<'a>,
    policy: ImagePolicy,
) -> Result<Assembled<'a>, WalError> {
    let unbuildable = |reason: String| WalError::Record { rmgr: record.rmgr, reason };
    let mut builder = RecordBuilder::new(record.rmgr, record.info, record.xid).main(record.main);
    let mut images = 0;
    let mut oldest_without: Option<Lsn> = None;
    for block in record.blocks {
        let mut image = None;
        if !block.flags.has(BlockFlags::NO_IMAGE) {
            let page = block
                .page
                .ok_or_else(|| unbuildable(format!("{} comes without its page", block.tag)))?;
            let lsn = Page::new(page).lsn();
            let due = policy.full_page_writes && lsn <= policy.redo;
            if due || block.flags.has(BlockFlags::FORCE_IMAGE) {
                image = Some(Image {
                    page,
                    standard: block.flags.has(BlockFlags::STANDARD),
                    apply: true,
                });
                images += 1;
            } else {
                oldest_without = Some(oldest_without.map_or(lsn, |oldest| oldest.min(lsn)));
            }
        }
        let keeps_data = image.is_none() || block.flags.has(BlockFlags::KEEP_DATA);
        builder = builder.block(block.id, block.tag, block.flags.has(BlockFlags::WILL_INIT), image);
        if let Some(method) = policy.compression {
            builder = builder.compress(method);
        }
        if keeps_data {
            builder = builder.data(block.data);
        }
    }
    let encoded = builder.finish().map_err(|e| unbuildable(e.to_string()))?;
    Ok(Assembled { encoded, images, oldest_without })
}
