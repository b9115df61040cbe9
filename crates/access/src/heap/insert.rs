//! Inserts tuples.
//!
//! One tuple goes into a page with room, as HEAP_INSERT. A batch fills page after page, each with a
//! HEAP2_MULTI_INSERT, and extends the relation by what it will need. A page that was empty is
//! logged as one that redo initializes, so it needs no full-page image.

use forebay_format::wal::{Rmgr, heap};
use forebay_format::{
    BlockNumber, CommandId, Fork, ItemPointer, OffsetNumber, Xid,
    ids::INVALID_XID,
    page::{HEADER_SIZE, MAX_HEAP_TUPLE_SIZE},
    tuple::{HEAP_XMIN_FROZEN, HeapTuple, HeapTupleMut},
    visibility_map::VALID_BITS,
};
use forebay_storage::{Backend, PageWriteGuard, Pinned, Strategy};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::batch::{TupleBatch, aligned, check_size};
use super::critical::critical;
use super::map_pin::{Cleared, MapPin};
use super::relation::Heap;
use super::space::EMPTY;
use crate::error::AccessError;
use crate::vm;

/// Most blocks by which a relation is extended at once.
const MOST_BLOCKS: usize = 64;
/// Number of blocks at a relation's end in which to look for room after a start.
const LOOK_BACK: u32 = 64;

/// The transaction and the command that make a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Author {
    /// Transaction.
    pub xid: Xid,
    /// Its command.
    pub command: CommandId,
}

/// What an attempt to fill a page did.
#[derive(Debug, Clone, Copy)]
struct Filled {
    tuples: usize,
    free: usize,
}

/// Buffers for the parts of a record, reused from page to page.
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
    /// Inserts a tuple. Returns its place.
    pub fn insert(
        &self,
        backend: &mut Backend,
        author: Author,
        tuple: &[u8],
    ) -> Result<ItemPointer, AccessError> {
        self.insert_one(backend, author, tuple, None)
    }

    /// Inserts a tuple, tentatively if it gets a token.
    pub(super) fn insert_one(
        &self,
        backend: &mut Backend,
        author: Author,
        tuple: &[u8],
        token: Option<u32>,
    ) -> Result<ItemPointer, AccessError> {
        check_size(tuple.len())?;
        loop {
            let pin =
                self.page_with_room(backend, aligned(tuple.len()), tuple.len(), Strategy::Normal)?;
            let placed = self.insert_on(backend, &pin, author, (tuple, token))?;
            let free = pin.lock_shared().page().heap_free_space();
            self.space.give(pin.tag().block, free);
            if let Some(place) = placed {
                return Ok(place);
            }
        }
    }

    /// Inserts all tuples of a batch. Adds their places to `places`, if the caller needs them.
    pub fn insert_batch(
        &self,
        backend: &mut Backend,
        author: Author,
        batch: &TupleBatch,
        strategy: Strategy,
        mut places: Option<&mut Vec<ItemPointer>>,
    ) -> Result<(), AccessError> {
        let mut scratch = Scratch::default();
        let mut done = 0;
        while done < batch.len() {
            let need = aligned(batch.get(done).len());
            let pin = self.page_with_room(backend, need, batch.bytes_from(done), strategy)?;
            let filled = self.fill(backend, &pin, author, batch, done, &mut scratch)?;
            self.space.give(pin.tag().block, filled.free);
            if let Some(places) = places.as_mut().filter(|_| filled.tuples > 0) {
                // Those of an empty page are numbered from 1 on.
                let (count, block) = (filled.tuples as OffsetNumber, pin.tag().block);
                let place = |offset| ItemPointer::new(block, offset);
                match scratch.offsets.is_empty() {
                    true => places.extend((1..=count).map(place)),
                    false => places.extend(scratch.offsets.iter().copied().map(place)),
                }
            }
            done += filled.tuples;
        }
        Ok(())
    }

    /// A page that no other backend fills, probably with `need` bytes of room. If the relation must
    /// be extended, it is extended for `remaining` bytes.
    pub(super) fn page_with_room(
        &self,
        backend: &mut Backend,
        need: usize,
        remaining: usize,
        strategy: Strategy,
    ) -> Result<Pinned, AccessError> {
        if self.space.first_look() {
            self.list_last_blocks(backend)?;
        }
        let room = (need + self.kept_free()).min(EMPTY);
        if let Some(block) = self.space.take(room) {
            return Ok(self.pool.read(backend, self.tag(block), strategy)?);
        }
        if let Some(pin) = self.page_by_map(backend, room, strategy)? {
            return Ok(pin);
        }
        let want = remaining.div_ceil(EMPTY).clamp(1, MOST_BLOCKS);
        let mut pins =
            self.pool.extend(backend, self.locator, Fork::Main, want as u32, strategy)?;
        // The list returns the last entry first: add the blocks so that they are taken in ascending
        // order.
        for pin in pins.drain(1..).rev() {
            self.space.give(pin.tag().block, EMPTY);
        }
        pins.pop()
            .ok_or_else(|| AccessError::Internal("a relation was extended by no block".to_owned()))
    }

    /// Lists the blocks at the relation's end that were never used, and the last used one.
    fn list_last_blocks(&self, backend: &mut Backend) -> Result<(), AccessError> {
        let blocks = self.pool.nblocks(self.locator, Fork::Main)?;
        for block in (blocks.saturating_sub(LOOK_BACK)..blocks).rev() {
            let pin = self.pool.read(backend, self.tag(block), Strategy::Normal)?;
            let guard = pin.lock_shared();
            if !guard.page().is_new() {
                self.space.give(block, guard.page().heap_free_space());
                break;
            }
            self.space.give(block, EMPTY);
        }
        Ok(())
    }

    /// Puts a tuple on a page, if it fits.
    fn insert_on(
        &self,
        backend: &mut Backend,
        pin: &Pinned,
        author: Author,
        (tuple, token): (&[u8], Option<u32>),
    ) -> Result<Option<ItemPointer>, AccessError> {
        self.ensure_log_room(backend)?;
        let mut map = MapPin::default();
        let mut guard = map.lock(self, backend, pin)?;
        check_header(&guard)?;
        if !self.takes(&guard, aligned(tuple.len())) {
            return Ok(None);
        }
        let opened = Opened::new(&guard, &map);
        let place = critical(self.failure.as_ref(), "could not insert into a page", || {
            self.insert_opened(backend, &mut guard, opened, author, (tuple, token))
        })?;
        Ok(Some(place))
    }

    /// The change itself, with its record.
    fn insert_opened(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        opened: Opened<'_>,
        author: Author,
        (tuple, token): (&[u8], Option<u32>),
    ) -> Result<ItemPointer, AccessError> {
        open_page(guard, &opened);
        let block = guard.tag().block;
        let Some(offset) = place(guard, block, author, tuple) else {
            return Err(AccessError::Corrupt(format!("{} takes no tuple", guard.tag())));
        };
        let mut flags = opened.flags();
        if let Some(token) = token {
            let mut page = guard.page_mut();
            let item = page.item_mut(offset).expect("the tuple was just added");
            HeapTupleMut::new(item)?.set_speculative_token(token);
            flags |= heap::INSERT_IS_SPECULATIVE;
        }
        let mut data = Vec::with_capacity(tuple.len());
        let stored = HeapTuple::new(guard.page().item(offset).expect("the tuple was just added"))?;
        data.extend_from_slice(&heap::HeapHeader::of(stored).encode());
        data.extend_from_slice(heap::tuple_data(stored));
        let main = heap::HeapInsert { offset, flags }.encode();
        let change = Change { rmgr: Rmgr::HEAP, info: heap::INSERT, main: &main, data: &data };
        self.log_change(backend, guard, author.xid, opened, change)?;
        Ok(ItemPointer::new(block, offset))
    }

    /// Puts as many tuples of a batch on a page as fit, from index `from` on.
    fn fill(
        &self,
        backend: &mut Backend,
        pin: &Pinned,
        author: Author,
        batch: &TupleBatch,
        from: usize,
        scratch: &mut Scratch,
    ) -> Result<Filled, AccessError> {
        self.ensure_log_room(backend)?;
        let mut map = MapPin::default();
        let visible = match batch.is_frozen() {
            true => Some(vm::pin_or_make(&self.pool, backend, self.locator, pin.tag().block)?),
            false => None,
        };
        let mut guard = map.lock(self, backend, pin)?;
        check_header(&guard)?;
        if !self.takes(&guard, aligned(batch.get(from).len())) {
            return Ok(Filled { tuples: 0, free: room_on(&guard) });
        }
        let opened = match batch.is_frozen() {
            true => Opened::frozen(&guard),
            false => Opened::new(&guard, &map),
        };
        let empty = opened.empty;
        let filled = critical(self.failure.as_ref(), "could not insert into a page", || {
            self.fill_opened(backend, &mut guard, opened, author, batch, from, scratch)
        })?;
        if let Some(visible) = visible.filter(|_| empty) {
            self.set_visible(backend, &mut guard, &visible, INVALID_XID, VALID_BITS)?;
        }
        Ok(filled)
    }

    /// The change itself, with its record.
    #[expect(clippy::too_many_arguments, reason = "one step of `fill`, which has them all at hand")]
    fn fill_opened(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        opened: Opened<'_>,
        author: Author,
        batch: &TupleBatch,
        from: usize,
        scratch: &mut Scratch,
    ) -> Result<Filled, AccessError> {
        open_page(guard, &opened);
        let block = guard.tag().block;
        let Scratch { main, offsets, data } = scratch;
        main.clear();
        offsets.clear();
        data.clear();
        let mut count = 0;
        while from + count < batch.len() {
            let tuple = batch.get(from + count);
            let kept = if count == 0 { 0 } else { self.kept_free() };
            if guard.page().heap_free_space() < aligned(tuple.len()) + kept {
                break;
            }
            let Some(offset) = place(guard, block, author, tuple) else { break };
            if batch.is_frozen() {
                freeze(guard, offset);
            }
            let item = guard.page().item(offset).expect("the tuple was just added");
            heap::HeapMultiInsert::push_tuple(HeapTuple::new(item)?, data);
            if !opened.empty {
                offsets.push(offset);
            }
            count += 1;
        }
        if count == 0 {
            // The page claims to have room. Without an error the caller would retry forever.
            return Err(AccessError::Corrupt(format!("{} takes no tuple", guard.tag())));
        }
        let last = if from + count == batch.len() { heap::INSERT_LAST_IN_MULTI } else { 0 };
        let frozen = batch.is_frozen() && opened.empty;
        if frozen {
            guard.page_mut().set_all_visible(true);
        }
        let all_frozen = if frozen { heap::INSERT_ALL_FROZEN_SET } else { 0 };
        let head = heap::HeapMultiInsert {
            flags: opened.flags() | last | all_frozen,
            count: count as u16,
            offsets: std::mem::take(offsets),
        };
        head.encode(main);
        *offsets = head.offsets;
        let change = Change { rmgr: Rmgr::HEAP2, info: heap::MULTI_INSERT, main, data };
        self.log_change(backend, guard, author.xid, opened, change)?;
        Ok(Filled { tuples: count, free: guard.page().heap_free_space() })
    }

    /// Whether a page takes a new row of `need` bytes: it has room beside what is left to updates,
    /// or has no rows. One with nothing but a line pointer must do too: the search for a page of
    /// so much room leads to it.
    pub(super) fn takes(&self, guard: &PageWriteGuard<'_>, need: usize) -> bool {
        let empty = guard.page().is_new() || guard.page().item_count() == 0;
        let beside = (need + self.kept_free()).min(MAX_HEAP_TUPLE_SIZE);
        room_on(guard) >= if empty { need } else { beside }
    }

    /// Logs the change, if the table is logged, and sets the page's LSN.
    fn log_change(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        xid: Xid,
        mut opened: Opened<'_>,
        change: Change<'_>,
    ) -> Result<(), AccessError> {
        if !self.logged {
            return Ok(());
        }
        forebay_aio::planted_bug!(
            backend.io.aio(),
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
        let both = [block, opened.cleared.block(heap::MAP_BLOCK).unwrap_or(block)];
        let record = Record {
            rmgr: change.rmgr,
            info: change.info | init,
            xid,
            main: change.main,
            blocks: if opened.cleared.changed() { &both[..] } else { &both[..1] },
        };
        let inserted = self.wal.insert(&mut backend.io, &record)?;
        guard.set_lsn(inserted.end);
        opened.cleared.set_lsn(inserted.end);
        Ok(())
    }
}

/// The state of a page before its change.
#[derive(Debug)]
struct Opened<'a> {
    /// It has no tuples, and is initialized.
    empty: bool,
    /// Its bits in the visibility map, which are cleared.
    cleared: Cleared<'a>,
}

impl<'a> Opened<'a> {
    fn new(guard: &PageWriteGuard<'_>, map: &'a MapPin) -> Opened<'a> {
        let empty = guard.page().is_new() || guard.page().item_count() == 0;
        Opened { empty, cleared: map.clear(guard) }
    }

    /// For rows that everybody sees at once: an all-visible page stays so.
    fn frozen(guard: &PageWriteGuard<'_>) -> Opened<'a> {
        let empty = guard.page().is_new() || guard.page().item_count() == 0;
        Opened { empty, cleared: Cleared::default() }
    }

    /// Flags for the record.
    fn flags(&self) -> u8 {
        if self.cleared.visible { heap::INSERT_ALL_VISIBLE_CLEARED } else { 0 }
    }
}

/// Begins the change of a page: marks it dirty, and initializes it if it is empty.
fn open_page(guard: &mut PageWriteGuard<'_>, opened: &Opened<'_>) {
    guard.mark_dirty();
    if opened.empty {
        guard.page_mut().init(0);
    } else if opened.cleared.visible {
        guard.page_mut().set_all_visible(false);
    }
}

/// Refuses a locked page to which no row can be added because its header is damaged. The check of
/// pages that are read lets `pd_lower` point into the header, and such a page would look empty.
pub(super) fn check_header(guard: &PageWriteGuard<'_>) -> Result<(), AccessError> {
    let page = guard.page();
    let (lower, upper, special) = (page.lower(), page.upper(), page.special());
    if page.is_new() || lower >= HEADER_SIZE && page.header_is_sane() {
        return Ok(());
    }
    Err(AccessError::Corrupt(format!(
        "corrupted page pointers in {}: lower = {lower}, upper = {upper}, special = {special}",
        guard.tag()
    )))
}

/// Room for another tuple. A page that was never used counts as empty.
pub(super) fn room_on(guard: &PageWriteGuard<'_>) -> usize {
    let page = guard.page();
    if page.is_new() { EMPTY } else { page.heap_free_space() }
}

/// Adds a tuple to a page and sets its author. Returns its line pointer's number.
fn place(
    guard: &mut PageWriteGuard<'_>,
    block: BlockNumber,
    author: Author,
    tuple: &[u8],
) -> Option<OffsetNumber> {
    let mut page = guard.page_mut();
    let offset = page.add_item(tuple, None)?;
    let mut stored = HeapTupleMut::new(page.item_mut(offset)?).expect("a tuple was formed");
    stored.stamp_insert(author.xid, author.command);
    stored.set_ctid(ItemPointer::new(block, offset));
    Some(offset)
}

/// Freezes a tuple that was just added.
fn freeze(guard: &mut PageWriteGuard<'_>, offset: OffsetNumber) {
    let mut page = guard.page_mut();
    let item = page.item_mut(offset).expect("the tuple was just added");
    let mut stored = HeapTupleMut::new(item).expect("a tuple was formed");
    stored.set_infomask(stored.tuple().infomask() | HEAP_XMIN_FROZEN);
}
