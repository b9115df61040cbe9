//! An index with what is needed to work on it.

use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_format::nbtree::{META_BLOCK, Meta, NbtreeError, Opaque};
use forebay_format::varlena::Method;
use forebay_format::{AttrLayout, BLOCK_SIZE, BlockNumber, Fork, Page, PageTag, RelFileLocator};
use forebay_storage::{Backend, BufferPool, PageWriteGuard, Pinned, Prefetched, Strategy};
use forebay_types::Encoding;
use forebay_wal::Wal;

use super::order::KeyOrder;
use super::shared::SharedIndexes;
use crate::error::AccessError;
use crate::heap::PageFailure;

/// More than one insertion takes in the log: the split of a page on each of a few levels, with
/// images of all pages.
const RECORD_ROOM: u64 = 16 * BLOCK_SIZE as u64;

/// A key column of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// How its values are compared.
    pub order: KeyOrder,
    /// Greater values come first.
    pub descending: bool,
    /// NULLs come before all values; otherwise behind them.
    pub nulls_first: bool,
}

impl KeyColumn {
    /// A column with the default order: ascending, NULLs last.
    pub const fn ascending(order: KeyOrder) -> KeyColumn {
        KeyColumn { order, descending: false, nulls_first: false }
    }
}

/// What the catalogs say of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexShape {
    /// Its name, for messages.
    pub name: String,
    /// How the values of its columns lie in a tuple: first the key columns, then included ones.
    pub layouts: Vec<AttrLayout>,
    /// How long values of its columns are compressed. None, or too few: not at all.
    pub compression: Vec<Option<Method>>,
    /// The key columns.
    pub keys: Vec<KeyColumn>,
    /// Whether NULLs count as equal where keys must be unique (NULLS NOT DISTINCT).
    pub nulls_are_equal: bool,
    /// How full leaves are made, in percent (fillfactor).
    pub fill_factor: usize,
    /// Whether equal keys may share a tuple (deduplicate_items).
    pub deduplicate: bool,
    /// Whether its table is a catalog.
    pub of_catalog: bool,
    /// The encoding of its texts.
    pub encoding: Encoding,
}

/// An index with what is needed to work on it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Index {
    /// The relation.
    pub locator: RelFileLocator,
    /// What the catalogs say of it.
    pub shape: Arc<IndexShape>,
    /// Its pages.
    pub pool: Arc<BufferPool>,
    /// The log of changes.
    pub wal: Arc<Wal>,
    /// Whether changes are logged: not those of a temporary table's index.
    pub logged: bool,
    /// Places in its tree, shared by all users of the index.
    pub known: Arc<KnownTree>,
    /// What all indexes share.
    pub shared: Arc<SharedIndexes>,
    /// Stops the engine if a page was changed and the change could not be logged.
    pub failure: Arc<dyn PageFailure>,
}

/// Places in a tree: the root, as the meta page gave it, and the leaf that took the last row. Both
/// are checked against the page that they lead to.
#[derive(Debug, Default)]
pub struct KnownTree {
    /// See [`Root::pack`].
    root: AtomicU64,
    /// The right-most leaf, if the last insertion went there.
    last_leaf: AtomicU64,
}

/// Where searches begin, from the meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) block: BlockNumber,
    pub(super) level: u32,
    /// Whether equal keys may share a tuple.
    pub(super) all_equal_image: bool,
}

impl Root {
    const LEVEL_BITS: u32 = 31;

    fn pack(self) -> u64 {
        assert!(self.level < 1 << Self::LEVEL_BITS, "a tree of {} levels", self.level);
        let low = self.level << 1 | u32::from(self.all_equal_image);
        u64::from(self.block) << 32 | u64::from(low)
    }

    /// None for the meta page's own block.
    fn unpack(packed: u64) -> Option<Root> {
        let (block, low) = ((packed >> 32) as u32, packed as u32);
        (block != 0).then_some(Root { block, level: low >> 1, all_equal_image: low & 1 != 0 })
    }
}

impl KnownTree {
    pub(super) fn root(&self) -> Option<Root> {
        Root::unpack(self.root.load(Ordering::Relaxed))
    }

    pub(super) fn set_root(&self, root: Option<Root>) {
        self.root.store(root.map_or(0, Root::pack), Ordering::Relaxed);
    }

    pub(super) fn last_leaf(&self) -> Option<BlockNumber> {
        Some(self.last_leaf.load(Ordering::Relaxed) as BlockNumber).filter(|&block| block != 0)
    }

    pub(super) fn set_last_leaf(&self, block: Option<BlockNumber>) {
        self.last_leaf.store(u64::from(block.unwrap_or(0)), Ordering::Relaxed);
    }
}

impl Index {
    pub(super) fn tag(&self, block: BlockNumber) -> PageTag {
        PageTag::new(self.locator, Fork::Main, block)
    }

    /// Pins a page.
    pub(super) fn read(
        &self,
        backend: &mut Backend,
        block: BlockNumber,
    ) -> Result<Pinned, AccessError> {
        Ok(self.pool.read(backend, self.tag(block), Strategy::Normal)?)
    }

    /// Whether a page is in memory.
    pub(crate) fn is_cached(&self, block: BlockNumber) -> bool {
        self.pool.lookup(&self.tag(block)).is_some()
    }

    /// Starts to read a page that will be needed soon.
    pub(crate) fn prefetch(
        &self,
        backend: &mut Backend,
        block: BlockNumber,
    ) -> Result<Prefetched, AccessError> {
        Ok(self.pool.prefetch(backend, self.tag(block), Strategy::Normal)?)
    }

    /// Pins a page and locks it for changes.
    pub(super) fn lock(
        &self,
        backend: &mut Backend,
        block: BlockNumber,
    ) -> Result<PageWriteGuard<'static>, AccessError> {
        Ok(self.read(backend, block)?.into_exclusive())
    }

    /// Makes sure, before a page is locked, that the log has room for a new row.
    pub(super) fn ensure_log_room(&self, backend: &mut Backend) -> Result<(), AccessError> {
        if self.logged {
            self.wal.ensure_room(&mut backend.io, RECORD_ROOM)?;
        }
        Ok(())
    }

    /// Whether items may be killed, which no record tells of. A crash must not leave a row whose
    /// deletion was lost without its entry, so all commits must be durable.
    pub(super) fn may_kill(&self) -> bool {
        !self.logged || !self.wal.has_async_commits()
    }

    /// The special space of a page of the tree.
    pub(super) fn opaque(&self, page: Page<'_>, block: BlockNumber) -> Result<Opaque, AccessError> {
        let opaque = Opaque::of(page).map_err(|error| match error {
            NbtreeError::NewPage => self.zero_page(block),
            error => self.damaged(block, &error),
        })?;
        // A sibling is locked while the page is.
        if block != META_BLOCK && (opaque.next == block || opaque.prev == block) {
            return Err(self.damaged(block, &"it is its own sibling"));
        }
        Ok(opaque)
    }

    /// The contents of the meta page. Indexes that PostgreSQL made before version 12 are refused.
    pub(super) fn meta(&self, page: Page<'_>) -> Result<Meta, AccessError> {
        let name = &self.shape.name;
        let meta = Meta::of(page).map_err(|error| match error {
            NbtreeError::Magic(_) | NbtreeError::SpecialSize { .. } => {
                AccessError::CorruptIndex(format!("index \"{name}\" is not a btree"))
            }
            error => self.damaged(META_BLOCK, &error),
        })?;
        if meta.fast_level > meta.level || meta.level >= 1 << Root::LEVEL_BITS {
            return Err(self.damaged(META_BLOCK, &"its levels contradict each other"));
        }
        if !meta.is_heap_key_space() {
            return Err(AccessError::CorruptIndex(format!(
                "version mismatch in index \"{name}\": file version {}, current version 4, \
                 minimal supported version 4",
                meta.version
            )));
        }
        Ok(meta)
    }

    /// The error for a page that is not as it should be.
    #[cold]
    pub(super) fn damaged(
        &self,
        block: BlockNumber,
        problem: &dyn std::fmt::Display,
    ) -> AccessError {
        let name = &self.shape.name;
        AccessError::CorruptIndex(format!(
            "index \"{name}\" contains corrupted page at block {block}: {problem}"
        ))
    }

    /// The error for a page that was never initialized.
    #[cold]
    pub(super) fn zero_page(&self, block: BlockNumber) -> AccessError {
        let name = &self.shape.name;
        AccessError::CorruptIndex(format!(
            "index \"{name}\" contains unexpected zero page at block {block}"
        ))
    }
}
