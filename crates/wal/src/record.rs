//! A record as its author describes it, and its assembly, which decides on full-page images.

use forebay_format::{
    Lsn, Page, PageBytes, PageTag, Xid,
    wal::{EncodedRecord, Image, ImageCompression, RecordBuilder, Rmgr},
};

use crate::error::WalError;

/// How a block reference is logged. Combine with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockFlags(u8);

impl BlockFlags {
    /// An image if this is the page's first change since the redo pointer.
    pub const NONE: BlockFlags = BlockFlags(0);
    /// Always an image.
    pub const FORCE_IMAGE: BlockFlags = BlockFlags(1);
    /// Never an image.
    pub const NO_IMAGE: BlockFlags = BlockFlags(2);
    /// Redo initializes the page, so no image is needed.
    pub const WILL_INIT: BlockFlags = BlockFlags(4 | 2);
    /// The page has the standard layout: an image leaves out the hole between `lower` and `upper`.
    pub const STANDARD: BlockFlags = BlockFlags(8);
    /// The block's data is logged even with an image.
    pub const KEEP_DATA: BlockFlags = BlockFlags(16);

    /// Whether all of `flags` are set.
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
    /// The page *after* the change, still with its old LSN. The caller holds it exclusively locked.
    /// `None` only with [`BlockFlags::NO_IMAGE`] or [`BlockFlags::WILL_INIT`].
    pub page: Option<&'a PageBytes>,
    /// How it is logged.
    pub flags: BlockFlags,
    /// The resource manager's data for this block. Not logged with an image, unless
    /// [`BlockFlags::KEEP_DATA`] is set.
    pub data: &'a [u8],
}

/// A record to insert.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Resource manager.
    pub rmgr: Rmgr,
    /// The resource manager's four bits, and `XLR_SPECIAL_REL_UPDATE`.
    pub info: u8,
    /// Transaction id, or 0.
    pub xid: Xid,
    /// Data that belongs to no block.
    pub main: &'a [u8],
    /// The pages that the record changes.
    pub blocks: &'a [BlockRef<'a>],
}

/// Where a record was inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inserted {
    /// Its first byte. Never a page boundary: a page's first record starts behind the page header.
    pub start: Lsn,
    /// Behind its last byte, rounded up to a multiple of 8. Changed pages get this LSN, and a
    /// commit flushes up to it.
    pub end: Lsn,
}

/// Decides which pages are logged as images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImagePolicy {
    pub redo: Lsn,
    pub full_page_writes: bool,
    /// How images are compressed; `None`: not at all.
    pub compression: Option<ImageCompression>,
}

/// A record assembled under some policy: complete except for its prev link and CRC.
#[derive(Debug)]
pub(crate) struct Assembled<'a> {
    pub encoded: EncodedRecord<'a>,
    pub images: u64,
    /// The oldest LSN of the pages that may have an image but got none.
    oldest_without_image: Option<Lsn>,
}

impl Assembled<'_> {
    /// Whether a page without an image needs one under `policy`, because the redo pointer has moved
    /// past the page's LSN.
    pub fn is_outdated(&self, policy: ImagePolicy) -> bool {
        policy.full_page_writes && self.oldest_without_image.is_some_and(|lsn| lsn <= policy.redo)
    }
}

/// Assembles `record`, with the full-page images that `policy` and the block flags ask for.
#[inline]
pub(crate) fn assemble<'a>(
    record: &Record<'a>,
    policy: ImagePolicy,
) -> Result<Assembled<'a>, WalError> {
    let unbuildable = |reason: String| WalError::Record { rmgr: record.rmgr, reason };
    let mut builder = RecordBuilder::new(record.rmgr, record.info, record.xid).main(record.main);
    let mut images = 0;
    let mut oldest_without_image: Option<Lsn> = None;
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
                oldest_without_image =
                    Some(oldest_without_image.map_or(lsn, |oldest| oldest.min(lsn)));
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
    Ok(Assembled { encoded, images, oldest_without_image })
}
