//! Insertion.
//!
//! One tuple goes into a page with room, as HEAP_INSERT. A batch fills page after page, one
//! HEAP2_MULTI_INSERT each; it extends the relation by what it will need. A page that was empty is
//! logged as one that redo makes anew, so that no image of it is needed.

use forebay_format::wal::{Rmgr, heap};
use forebay_format::{
    BlockNumber, CommandId, Fork, ItemPointer, OffsetNumber, PageTag, Xid,
    tuple::{HeapTuple, HeapTupleMut},
};
use forebay_storage::{Backend, PageWriteGuard, Pinned, Strategy};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::batch::{TupleBatch, aligned, check_size};
use super::space::EMPTY;
use super::{Heap, vm};
use crate::EngineError;

/// Most blocks a relation is extended by at once.
const MOST_BLOCKS: usize = 64;
/// Blocks at a relation's end that are looked at after a start.
const LOOK_BACK: u32 = 64;
/// More than any record made here can take in the log: a page's tuples and its image.
pub(super) const RECORD_ROOM: u64 = 3 * 8192;

/// The transaction and command that a change is made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Author {
    /// Transaction.
    pub xid: Xid,
    /// Command of it.
    pub command: CommandId,
}

/// What became of an attempt to fill a page.
#[derive(Debug, Clone, Copy)]
struct Filled {
    tuples: usize,
    free: usize,
}

/// Parts of a record, kept between pages for their memory.
#[derive(Debug, Default)]
struct Scratch {
    main: Vec<u8>,
    offsets: Vec<OffsetNumber>,
    data: Vec<u8>,
}

/// The parts of a record that differ between insertions.
#[derive(Debug, Clone, Copy)]
struct Change<'a> {
    rmgr: Rmgr,
    info: u8,
    main: &'a [u8],
    data: &'a [u8],
}

impl Heap {
    /// Inserts one tuple; its place.
    pub fn insert(
        &self,
        be: &mut Backend,
        author: Author,
        tuple: &[u8],
    ) -> Result<ItemPointer, EngineError> {
        check_size(tuple.len())?;
        loop {
            let pin =
                self.page_with_room(be, aligned(tuple.len()), tuple.len(), Strategy::Normal)?;
            let placed = self.insert_on(be, &pin, author, tuple)?;
            let free = pin.lock_shared().page().heap_free_space();
            self.space.give(pin.tag().block, free);
            if let Some(place) = placed {
                return Ok(place);
            }
        }
    }

    /// Inserts all tuples of a batch.
    pub fn insert_batch(
        &self,
        be: &mut Backend,
        author: Author,
        batch: &TupleBatch,
        strategy: Strategy,
    ) -> Result<(), EngineError> {
        let mut scratch = Scratch::default();
        let mut done = 0;
        while done < batch.len() {
            let need = aligned(batch.get(done).len());
            let pin = self.page_with_room(be, need, batch.bytes_from(done), strategy)?;
            let filled = self.fill(be, &pin, author, batch, done, &mut scratch)?;
            self.space.give(pin.tag().block, filled.free);
            done += filled.tuples;
        }
        Ok(())
    }

    /// A block that nobody else is filling, with `need` bytes of room as far as is known.
    fn page_with_room(
        &self,
        be: &mut Backend,
        need: usize,
        remaining: usize,
        strategy: Strategy,
    ) -> Result<Pinned, EngineError> {
        if self.space.first_look() {
            self.look_at_end(be)?;
        }
        if let Some(block) = self.space.take(need) {
            return Ok(self.pool.read(be, self.tag(block), strategy)?);
        }
        let want = remaining.div_ceil(EMPTY).clamp(1, MOST_BLOCKS);
        let mut pins = self.pool.extend(be, self.locator, Fork::Main, want as u32, strategy)?;
        // The list hands out what came last first: put the blocks in so that they are taken in
        // ascending order.
        for pin in pins.drain(1..).rev() {
            self.space.give(pin.tag().block, EMPTY);
        }
        pins.pop().ok_or_else(|| EngineError::internal("a relation was extended by no block"))
    }

    /// Fills the list from the relation's last blocks: those never used, and the last used one.
    fn look_at_end(&self, be: &mut Backend) -> Result<(), EngineError> {
        let blocks = self.pool.nblocks(self.locator, Fork::Main)?;
        for block in (blocks.saturating_sub(LOOK_BACK)..blocks).rev() {
            let pin = self.pool.read(be, self.tag(block), Strategy::Normal)?;
            let guard = pin.lock_shared();
            if !guard.page().is_new() {
                self.space.give(block, guard.page().heap_free_space());
                break;
            }
            self.space.give(block, EMPTY);
        }
        Ok(())
    }

    pub(super) fn tag(&self, block: BlockNumber) -> PageTag {
        PageTag::new(self.locator, Fork::Main, block)
    }

    /// Puts a tuple on a page, if it fits.
    fn insert_on(
        &self,
        be: &mut Backend,
        pin: &Pinned,
        author: Author,
        tuple: &[u8],
    ) -> Result<Option<ItemPointer>, EngineError> {
        self.ensure_log_room(be)?;
        let mut guard = pin.lock_exclusive();
        if room_on(&guard) < aligned(tuple.len()) {
            return Ok(None);
        }
        let opened = self.look_at_page(be, &guard)?;
        let place = self.fatal.critical("could not insert into a page", || {
            self.insert_opened(be, &mut guard, opened, author, tuple)
        })?;
        Ok(Some(place))
    }

    /// The change itself, with its record.
    fn insert_opened(
        &self,
        be: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        opened: Opened,
        author: Author,
        tuple: &[u8],
    ) -> Result<ItemPointer, EngineError> {
        open_page(guard, opened);
        let block = guard.tag().block;
        let Some(offset) = place(guard, block, author, tuple) else {
            return Err(EngineError::corrupt(format!("{} takes no tuple", guard.tag())));
        };
        let mut data = Vec::with_capacity(tuple.len());
        if let Some(item) = guard.page().item(offset) {
            let stored = HeapTuple::new(item)?;
            data.extend_from_slice(&heap::HeapHeader::of(stored).encode());
            data.extend_from_slice(heap::tuple_data(stored));
        }
        let main = heap::HeapInsert { offset, flags: opened.flags }.encode();
        let change = Change { rmgr: Rmgr::HEAP, info: heap::INSERT, main: &main, data: &data };
        self.log_change(be, guard, author.xid, opened, change)?;
        Ok(ItemPointer::new(block, offset))
    }

    /// Puts as many tuples of a batch on a page as fit, from index `from` on.
    fn fill(
        &self,
        be: &mut Backend,
        pin: &Pinned,
        author: Author,
        batch: &TupleBatch,
        from: usize,
        scratch: &mut Scratch,
    ) -> Result<Filled, EngineError> {
        self.ensure_log_room(be)?;
        let mut guard = pin.lock_exclusive();
        let free = room_on(&guard);
        if free < aligned(batch.get(from).len()) {
            return Ok(Filled { tuples: 0, free });
        }
        let opened = self.look_at_page(be, &guard)?;
        self.fatal.critical("could not insert into a page", || {
            self.fill_opened(be, &mut guard, opened, author, batch, from, scratch)
        })
    }

    /// The change itself, with its record.
    #[expect(clippy::too_many_arguments, reason = "one step of `fill`, which has them all at hand")]
    fn fill_opened(
        &self,
        be: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        opened: Opened,
        author: Author,
        batch: &TupleBatch,
        from: usize,
        scratch: &mut Scratch,
    ) -> Result<Filled, EngineError> {
        open_page(guard, opened);
        let block = guard.tag().block;
        let Scratch { main, offsets, data } = scratch;
        main.clear();
        offsets.clear();
        data.clear();
        let mut count = 0;
        while from + count < batch.len() {
            let tuple = batch.get(from + count);
            if guard.page().heap_free_space() < aligned(tuple.len()) {
                break;
            }
            let Some(offset) = place(guard, block, author, tuple) else { break };
            if let Some(item) = guard.page().item(offset) {
                heap::HeapMultiInsert::push_tuple(HeapTuple::new(item)?, data);
            }
            if !opened.empty {
                offsets.push(offset);
            }
            count += 1;
        }
        if count == 0 {
            // It had said that it has room: else this would be tried for ever.
            return Err(EngineError::corrupt(format!("{} takes no tuple", guard.tag())));
        }
        let last = if from + count == batch.len() { heap::INSERT_LAST_IN_MULTI } else { 0 };
        let head = heap::HeapMultiInsert {
            flags: opened.flags | last,
            count: count as u16,
            offsets: std::mem::take(offsets),
        };
        head.encode(main);
        *offsets = head.offsets;
        let change = Change { rmgr: Rmgr::HEAP2, info: heap::MULTI_INSERT, main, data };
        self.log_change(be, guard, author.xid, opened, change)?;
        Ok(Filled { tuples: count, free: guard.page().heap_free_space() })
    }

    /// What the change of a page has to see to, and all of it that can fail: the map's promise that
    /// everyone sees the whole page is taken back.
    fn look_at_page(
        &self,
        be: &mut Backend,
        guard: &PageWriteGuard<'_>,
    ) -> Result<Opened, EngineError> {
        let page = guard.page();
        let empty = page.is_new() || page.item_count() == 0;
        let visible = !page.is_new() && page.is_all_visible();
        if visible {
            vm::clear(&self.pool, be, self.locator, guard.tag().block)?;
        }
        Ok(Opened { empty, flags: if visible { heap::INSERT_ALL_VISIBLE_CLEARED } else { 0 } })
    }

    /// Logs the change, if this table's are, and gives the page its LSN.
    fn log_change(
        &self,
        be: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        xid: Xid,
        opened: Opened,
        change: Change<'_>,
    ) -> Result<(), EngineError> {
        if !self.logged {
            return Ok(());
        }
        forebay_aio::planted_bug!(
            be.io.aio(),
            HeapChangeNotLogged,
            if !opened.empty {
                return Ok(());
            }
        );
        let (init, will_init) = if opened.empty {
            (heap::INIT_PAGE, BlockFlags::WILL_INIT)
        } else {
            (0, BlockFlags::NONE)
        };
        let block = BlockRef {
            id: 0,
            tag: guard.tag(),
            page: Some(guard),
            flags: BlockFlags::STANDARD | will_init,
            data: change.data,
        };
        let record = Record {
            rmgr: change.rmgr,
            info: change.info | init,
            xid,
            main: change.main,
            blocks: &[block],
        };
        let inserted = self.wal.insert(&mut be.io, &record)?;
        guard.set_lsn(inserted.end);
        Ok(())
    }
}

/// How a page was found when its change began.
#[derive(Debug, Clone, Copy)]
struct Opened {
    /// It has no tuples, and is to be initialised.
    empty: bool,
    /// Flags for the record: whether everyone could see all of it.
    flags: u8,
}

/// Begins the change of a page: marks it dirty, and initialises it if it is empty.
fn open_page(guard: &mut PageWriteGuard<'_>, opened: Opened) {
    guard.mark_dirty();
    if opened.empty {
        guard.page_mut().init(0);
    } else if opened.flags & heap::INSERT_ALL_VISIBLE_CLEARED != 0 {
        guard.page_mut().set_all_visible(false);
    }
}

/// Room for one more tuple; a page never used counts as empty.
fn room_on(guard: &PageWriteGuard<'_>) -> usize {
    let page = guard.page();
    if page.is_new() { EMPTY } else { page.heap_free_space() }
}

/// Adds a tuple to a page and stamps it; its number.
fn place(
    guard: &mut PageWriteGuard<'_>,
    block: BlockNumber,
    author: Author,
    tuple: &[u8],
) -> Option<OffsetNumber> {
    let mut page = guard.page_mut();
    let offset = page.add_item(tuple, None)?;
    let mut stored = HeapTupleMut::new(page.item_mut(offset)?).ok()?;
    stored.stamp_insert(author.xid, author.command);
    stored.set_ctid(ItemPointer::new(block, offset));
    Some(offset)
}
