//! Vacuum of an index.
//!
//! ```text
//!   all blocks in order ─▶ read stream ─▶ leaf: cleanup lock ─▶ items of dead rows go ─ empty ─▶
//!                                           pages are deleted (`pagedel`) ─▶ free-space map
//! ```
//!
//! Each leaf is locked for cleanup, even if nothing on it is dead: a scan that keeps a leaf pinned
//! may still be about to visit the rows that it found there. The rows' places may be used again
//! after the pass.
//!
//! A leaf that was split during the pass may have lost items to a page of lower number, which the
//! pass has seen already, as a free one. The cycle id tells; see `shared`. Then the right siblings
//! are looked at, too, as long as they have a lower number and the same id.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::ids::INVALID_XID;
use forebay_format::nbtree::{self as nb, DELETED, META_BLOCK, Meta, Opaque, SPLIT_END};
use forebay_format::wal::nbtree::{BtreeDelete, BtreeMeta, META_CLEANUP, VACUUM};
use forebay_format::{BlockNumber, Fork, FullXid, ItemPointer};
use forebay_storage::{
    Backend, BlockSource, PageWriteGuard, Pinned, ReadStream, Strategy, StreamFlags, StreamSettings,
};
use forebay_txn::RemovableTest;
use forebay_txn::locks::Interrupt;

use super::delete::add_item;
use super::free_pages::Reuse;
use super::inserter::Inserter;
use super::log::{CHANGED, block, made, set_lsn};
use super::pagedel::{Deleted, LeafEnd};
use super::relation::Index;
use super::search::Path;
use crate::error::AccessError;
use crate::heap::{Pace, PageCost, critical, wait_for_cleanup};

/// Deleted pages of a pass that are remembered: at its end they may be free already.
const MOST_PENDING: usize = 1 << 18;
/// A pass is worth it for deleted pages alone if they are more than one in so many.
const WORTH_A_PASS: u32 = 20;

/// How an index is vacuumed.
#[derive(Debug, Clone, Copy)]
pub struct IndexVacuumJob<'a> {
    /// How pages are read ahead.
    pub stream: StreamSettings,
    /// Which buffers it uses.
    pub strategy: Strategy,
    /// A request to it ends a wait for a page.
    pub interrupt: &'a Interrupt,
}

/// What vacuum has found and done in an index. One value goes through all passes of a vacuum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexVacuumStats {
    /// Whether there was a pass. If not, the other figures are unknown.
    pub scanned: bool,
    /// Pages of the index.
    pub pages: BlockNumber,
    /// Rows that stay, in the last pass.
    pub rows: u64,
    /// Whether that is an estimate: rows with equal keys were counted as one.
    pub estimated: bool,
    /// Rows removed, in all passes.
    pub removed: u64,
    /// Pages deleted, in all passes.
    pub newly_deleted: BlockNumber,
    /// Deleted pages that were found or made in the last pass.
    pub deleted: BlockNumber,
    /// Deleted pages that may be used again.
    pub free: BlockNumber,
}

/// The blocks of a pass, as far as the index's end is known.
struct Blocks {
    next: BlockNumber,
    end: BlockNumber,
}

impl BlockSource for Blocks {
    type Data = ();

    fn next_block(&mut self) -> Option<(BlockNumber, ())> {
        let block = self.next;
        (block < self.end).then(|| {
            self.next += 1;
            (block, ())
        })
    }
}

/// A pass.
struct Pass<'a> {
    index: &'a Index,
    job: &'a IndexVacuumJob<'a>,
    /// Which rows are dead. None: nothing is removed.
    dead: Option<&'a dyn Fn(ItemPointer) -> bool>,
    /// Its cycle id, or 0.
    cycle: u16,
    /// The next transaction's id when it began.
    began: FullXid,
    removable: RemovableTest,
    /// Pages that it deleted, in the order of their ids.
    pending: Vec<Deleted>,
    stats: &'a mut IndexVacuumStats,
}

/// What a page is to a pass.
enum Kind {
    Free,
    Deleted,
    HalfDead,
    Leaf,
    /// Nothing to do.
    Other,
}

/// What becomes of a leaf after its items were looked at.
#[derive(Default)]
struct Pruned {
    is_empty: bool,
    /// A page with lower number to which items have moved.
    back_to: Option<BlockNumber>,
}

impl Index {
    /// One pass over all pages, in physical order: removes the items of dead rows, deletes pages
    /// that become empty, and enters those that may be used again in the free-space map. The
    /// caller's lock on the table excludes other vacuums. `pace` is called between pages.
    pub fn bulk_delete(
        &self,
        backend: &mut Backend,
        job: &IndexVacuumJob<'_>,
        dead: &dyn Fn(ItemPointer) -> bool,
        pace: Pace<'_>,
        stats: &mut IndexVacuumStats,
    ) -> Result<(), AccessError> {
        let cycle = self.shared.begin_vacuum(self.locator, &self.shape.name)?;
        self.pass(backend, job, Some(dead), cycle.id, pace, stats)
    }

    /// Ends a vacuum. If it has removed no rows, so that there was no pass, there is one now if
    /// enough deleted pages wait for being used again.
    pub fn vacuum_cleanup(
        &self,
        backend: &mut Backend,
        job: &IndexVacuumJob<'_>,
        pace: Pace<'_>,
        stats: &mut IndexVacuumStats,
    ) -> Result<(), AccessError> {
        if !stats.scanned {
            if !self.is_worth_a_pass(backend)? {
                return Ok(());
            }
            self.pass(backend, job, None, 0, pace, stats)?;
            stats.estimated = true;
        }
        // A page that the pass deleted, and found free at its end, may have been used before that.
        self.note_deleted_pages(backend, stats.deleted.saturating_sub(stats.free))
    }

    fn pass(
        &self,
        backend: &mut Backend,
        job: &IndexVacuumJob<'_>,
        dead: Option<&dyn Fn(ItemPointer) -> bool>,
        cycle: u16,
        pace: Pace<'_>,
        stats: &mut IndexVacuumStats,
    ) -> Result<(), AccessError> {
        let IndexVacuumStats { removed, newly_deleted, .. } = *stats;
        *stats = IndexVacuumStats {
            scanned: true,
            removed,
            newly_deleted,
            ..IndexVacuumStats::default()
        };
        let began = self.shared.xacts.next_xid();
        let (removable, pending) = (self.removable_test(), Vec::new());
        let mut pass = Pass { index: self, job, dead, cycle, began, removable, pending, stats };
        let blocks = Blocks { next: META_BLOCK + 1, end: 0 };
        let flags = StreamFlags { sequential: true, ..StreamFlags::MAINTENANCE };
        let (fork, strategy) = (Fork::Main, job.strategy);
        let mut stream =
            ReadStream::new(&self.pool, self.locator, fork, blocks, flags, strategy, job.stream);
        // Leaves that are added meanwhile must be seen, too.
        loop {
            let end = self.pool.nblocks(self.locator, fork)?;
            if stream.source_mut().next >= end {
                pass.stats.pages = end;
                break;
            }
            stream.source_mut().end = end;
            stream.resume();
            while let Some(pin) = stream.next(backend)? {
                pass.visit(backend, pin, pace)?;
            }
        }
        pass.note_pending(backend)?;
        let IndexVacuumStats { pages, free, .. } = *pass.stats;
        if free > 0 {
            let mut check = |backend: &mut Backend| pace(backend, PageCost::default());
            self.free_pages().vacuum(backend, 0..pages, &mut check)?;
        }
        Ok(())
    }

    /// Whether the last vacuum left many deleted pages that were not free yet.
    fn is_worth_a_pass(&self, backend: &mut Backend) -> Result<bool, AccessError> {
        let page = self.read(backend, META_BLOCK)?;
        let deleted = self.meta(page.lock_shared().page())?.deleted_pages;
        Ok(deleted > self.pool.nblocks(self.locator, Fork::Main)? / WORTH_A_PASS)
    }

    /// Notes on the meta page how many pages are deleted and not free yet.
    fn note_deleted_pages(
        &self,
        backend: &mut Backend,
        deleted_pages: BlockNumber,
    ) -> Result<(), AccessError> {
        self.ensure_log_room(backend)?;
        let page = self.read(backend, META_BLOCK)?;
        let known = self.meta(page.lock_shared().page())?.deleted_pages;
        if known == deleted_pages {
            return Ok(());
        }
        let mut page = page.into_exclusive();
        let meta = self.meta(page.page())?;
        let meta = Meta { deleted_pages, heap_tuples: -1.0, ..meta };
        critical(self.failure.as_ref(), "could not note the deleted pages of an index", || {
            page.mark_dirty();
            meta.store(&mut page.page_mut());
            let data = BtreeMeta(meta).encode();
            let blocks = [block(0, &page, made(), &data)];
            let lsn = self.log(backend, INVALID_XID, META_CLEANUP, &[], &blocks)?;
            set_lsn(lsn, [&mut page]);
            Ok(())
        })
    }
}

impl Pass<'_> {
    /// Vacuums a page, and those of lower number to which its items have moved.
    fn visit(
        &mut self,
        backend: &mut Backend,
        pin: Pinned,
        pace: Pace<'_>,
    ) -> Result<(), AccessError> {
        let scanned = pin.tag().block;
        let mut next = Some(pin);
        while let Some(pin) = next.take() {
            let was_dirty = pin.is_dirty();
            let pruned = self.page(backend, &pin, scanned)?;
            let dirtied = pin.is_dirty() && !was_dirty;
            pace(backend, PageCost { dirtied })?;
            if pruned.is_empty && pin.tag().block == scanned {
                self.delete(backend, pin, pace)?;
            }
            if let Some(block) = pruned.back_to {
                let tag = self.index.tag(block);
                next = Some(self.index.pool.read(backend, tag, self.job.strategy)?);
            }
        }
        Ok(())
    }

    /// Looks at a page; prunes it if it is a leaf.
    fn page(
        &mut self,
        backend: &mut Backend,
        pin: &Pinned,
        scanned: BlockNumber,
    ) -> Result<Pruned, AccessError> {
        let block = pin.tag().block;
        match self.kind(pin, block != scanned)? {
            Kind::Free => {
                self.index.note_free(backend, block)?;
                self.stats.deleted += 1;
                self.stats.free += 1;
            }
            Kind::Deleted => self.stats.deleted += 1,
            Kind::HalfDead => return Ok(Pruned { is_empty: true, back_to: None }),
            Kind::Leaf => {
                self.index.ensure_log_room(backend)?;
                let mut guard = match pin.try_lock_cleanup() {
                    Some(guard) => guard,
                    None => wait_for_cleanup(backend, pin, self.job.interrupt)?,
                };
                return self.prune(backend, &mut guard, scanned);
            }
            Kind::Other => {}
        }
        Ok(Pruned::default())
    }

    /// What a page is. On the way back, only leaves matter that were split during this pass: others
    /// were seen as they are, and so was a page that this pass has deleted.
    fn kind(&mut self, pin: &Pinned, back: bool) -> Result<Kind, AccessError> {
        let (index, block) = (self.index, pin.tag().block);
        let guard = pin.lock_shared();
        if back {
            let opaque = index.opaque(guard.page(), block)?;
            let is_new = opaque.cycle_id == self.cycle && !opaque.has(DELETED);
            return match is_new {
                true if !opaque.is_leaf() || opaque.is_ignored() => {
                    Err(index.damaged(block, &"leaves lead to it, and it is none"))
                }
                true => Ok(Kind::Leaf),
                false => Ok(Kind::Other),
            };
        }
        match index.reuse(guard.page(), block)? {
            Reuse::AtOnce => return Ok(Kind::Free),
            // The end of the pass looks at the pages that it deleted itself.
            Reuse::After(xid) if xid < self.began => {
                let procs = index.shared.xacts.procs();
                let is_free = self.removable.is_over_for_all(procs, xid);
                return Ok(if is_free { Kind::Free } else { Kind::Deleted });
            }
            Reuse::After(_) => return Ok(Kind::Deleted),
            Reuse::No => {}
        }
        let opaque = index.opaque(guard.page(), block)?;
        Ok(match opaque {
            _ if !opaque.is_leaf() => Kind::Other,
            _ if opaque.is_ignored() => Kind::HalfDead,
            _ => Kind::Leaf,
        })
    }

    /// Removes the items of dead rows from a leaf under the cleanup lock.
    fn prune(
        &mut self,
        backend: &mut Backend,
        page: &mut PageWriteGuard<'_>,
        scanned: BlockNumber,
    ) -> Result<Pruned, AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        let opaque = index.opaque(page.page(), tag)?;
        if !opaque.is_leaf() || opaque.is_ignored() {
            return Err(index.damaged(tag, &"it changed while it was being vacuumed"));
        }
        let was_split = self.cycle != 0 && opaque.cycle_id == self.cycle;
        let moved =
            was_split && !opaque.has(SPLIT_END) && !opaque.is_rightmost() && opaque.next < scanned;
        let mut removal = self.dead_items(page, &opaque)?;
        let aio = backend.io.aio();
        forebay_aio::planted_bug!(aio, IndexVacuumForgetsLists, removal.updated.clear());
        if !removal.deleted.is_empty() || !removal.updated.is_empty() {
            self.remove(backend, page, &opaque, &removal)?;
        } else if was_split && page.is_dirty() {
            // A hint without a record, which need not be written.
            Opaque { cycle_id: 0, ..opaque }.store(&mut page.page_mut());
        }
        let is_empty = opaque.first_data_item() > page.page().item_count();
        Ok(Pruned { is_empty, back_to: moved.then_some(opaque.next) })
    }

    /// The items of dead rows. Counts the others.
    fn dead_items(
        &mut self,
        page: &PageWriteGuard<'_>,
        opaque: &Opaque,
    ) -> Result<BtreeDelete, AccessError> {
        let mut removal = BtreeDelete::default();
        let items = opaque.first_data_item()..=page.page().item_count();
        let Some(dead) = self.dead else {
            self.stats.rows += items.len() as u64;
            return Ok(removal);
        };
        for n in items {
            let tuple = self.index.tuple(page.page(), page.tag().block, n)?;
            let count = tuple.heap_tid_count();
            let places = (0..).zip(tuple.heap_tids());
            let gone: Vec<u16> = places.filter(|(_, tid)| dead(*tid)).map(|(at, _)| at).collect();
            self.stats.removed += gone.len() as u64;
            self.stats.rows += (count - gone.len()) as u64;
            add_item(&mut removal, n, count, gone);
        }
        Ok(removal)
    }

    /// Removes items from a leaf.
    fn remove(
        &mut self,
        backend: &mut Backend,
        page: &mut PageWriteGuard<'_>,
        opaque: &Opaque,
        removal: &BtreeDelete,
    ) -> Result<(), AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        critical(index.failure.as_ref(), "could not vacuum a page of an index", || {
            page.mark_dirty();
            let updated = removal.updated.iter().map(|list| (list.offset, &list.deleted[..]));
            nb::delete_rows(&mut page.page_mut(), &removal.deleted, updated)
                .map_err(|error| index.damaged(tag, &error))?;
            // The pass has been here.
            let flags = opaque.flags & !nb::HAS_GARBAGE;
            Opaque { cycle_id: 0, flags, ..*opaque }.store(&mut page.page_mut());
            let mut data = Vec::new();
            let main = removal.encode_vacuum(&mut data);
            let blocks = [block(0, page, CHANGED, &data)];
            let lsn = index.log(backend, INVALID_XID, VACUUM, &main, &blocks)?;
            set_lsn(lsn, [page]);
            Ok(())
        })
    }

    /// Deletes an empty leaf, and those to its right that can go once it is gone.
    fn delete(
        &mut self,
        backend: &mut Backend,
        leaf: Pinned,
        pace: Pace<'_>,
    ) -> Result<(), AccessError> {
        let index = self.index;
        let scanned = leaf.tag().block;
        let mut path = None;
        let mut leaf = leaf;
        loop {
            index.ensure_log_room(backend)?;
            let mut deleted = Vec::new();
            let xid = INVALID_XID;
            let mut inserter = Inserter { index, backend, xid, path: Path::new() };
            let end = inserter.delete_leaf(&leaf, &mut path, &mut deleted)?;
            for (block, safe_xid) in deleted {
                self.stats.newly_deleted += 1;
                // The pass comes to the others later, and counts them then.
                self.stats.deleted += u32::from(block <= scanned);
                if self.pending.len() < MOST_PENDING {
                    self.pending.push((block, safe_xid));
                }
            }
            let LeafEnd::NextIsEmpty(next) = end else { return Ok(()) };
            pace(backend, PageCost { dirtied: true })?;
            leaf = index.pool.read(backend, index.tag(next), self.job.strategy)?;
        }
    }

    /// Enters pages that the pass has deleted in the free-space map, if they are free already:
    /// other transactions have begun and ended meanwhile.
    fn note_pending(&mut self, backend: &mut Backend) -> Result<(), AccessError> {
        let mut removable = self.index.removable_test();
        for (block, safe_xid) in std::mem::take(&mut self.pending) {
            if !removable.is_over_for_all(self.index.shared.xacts.procs(), safe_xid) {
                break;
            }
            self.index.note_free(backend, block)?;
            self.stats.free += 1;
        }
        Ok(())
    }
}
