//! The free-space map: where a table has room. `format` has its pages.
//!
//! It is a hint and has no log. So an upper page may say more or less than those below, a block may
//! be full by now, or lie behind the end of the table. Whoever finds that corrects what was wrong,
//! and searches again. Vacuum brings all levels up to date.

use std::ops::Range;
use std::sync::Arc;

use forebay_format::free_space_map::{self as map, MapPage};
use forebay_format::{BlockNumber, Fork, Page, PageTag, RelFileLocator};
use forebay_storage::{Backend, BufferPool, PageWriteGuard, Pinned, StorageError};

use crate::maps;

/// Searches from the root before one gives up.
const MOST_RESTARTS: u32 = 10_000;

/// The free-space map of a relation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FreeSpaceMap<'a> {
    pub(crate) pool: &'a Arc<BufferPool>,
    pub(crate) rel: RelFileLocator,
}

/// What a search finds on a page.
enum Found {
    Slot(u16),
    /// There is none; with the greatest category of the page.
    Nothing(u8),
}

impl FreeSpaceMap<'_> {
    /// Whether there is one.
    pub(crate) fn exists(&self) -> Result<bool, StorageError> {
        self.pool.smgr().exists(self.rel, Fork::Fsm)
    }

    /// Notes the free space of a block, on the bottom page alone.
    pub(crate) fn record(
        &self,
        backend: &mut Backend,
        block: BlockNumber,
        free: usize,
    ) -> Result<(), StorageError> {
        let (page, slot) = MapPage::of_block(block);
        self.set(backend, page, slot, map::category(free))
    }

    /// A block that has `need` bytes of room, as far as it is known.
    pub(crate) fn find(
        &self,
        backend: &mut Backend,
        need: usize,
    ) -> Result<Option<BlockNumber>, StorageError> {
        match map::needed_category(need) {
            Some(least) => self.search(backend, least),
            None => Ok(None),
        }
    }

    /// Notes the free space of a block that was found and had less, and finds another one: if
    /// possible near by.
    pub(crate) fn record_and_find(
        &self,
        backend: &mut Backend,
        (block, free): (BlockNumber, usize),
        need: usize,
    ) -> Result<Option<BlockNumber>, StorageError> {
        self.record(backend, block, free)?;
        let Some(least) = map::needed_category(need) else { return Ok(None) };
        let (page, _) = MapPage::of_block(block);
        if let Some(pin) = self.pin(backend, page)?
            && let Found::Slot(slot) = find_on(&pin, page, least)
            && let Some(near) = page.heap_block(slot)
            && near < self.pool.nblocks(self.rel, Fork::Main)?
        {
            return Ok(Some(near));
        }
        self.search(backend, least)
    }

    fn search(
        &self,
        backend: &mut Backend,
        least: u8,
    ) -> Result<Option<BlockNumber>, StorageError> {
        let mut page = MapPage::ROOT;
        let mut restarts = 0;
        while restarts < MOST_RESTARTS {
            let found = match self.pin(backend, page)? {
                Some(pin) => find_on(&pin, page, least),
                None => Found::Nothing(0),
            };
            match found {
                Found::Slot(slot) if page.level() > 0 => match page.child(slot) {
                    Some(child) => {
                        page = child;
                        continue;
                    }
                    None => self.set(backend, page, slot, 0)?,
                },
                Found::Slot(slot) => {
                    let blocks = self.pool.nblocks(self.rel, Fork::Main)?;
                    match page.heap_block(slot).filter(|block| *block < blocks) {
                        Some(block) => return Ok(Some(block)),
                        None => self.set(backend, page, slot, 0)?,
                    }
                }
                Found::Nothing(greatest) => match page.parent() {
                    Some((parent, slot)) => self.set(backend, parent, slot, greatest)?,
                    None => return Ok(None),
                },
            }
            (page, restarts) = (MapPage::ROOT, restarts + 1);
        }
        Ok(None)
    }

    /// Brings the upper levels up to date for blocks of the relation, which are not empty. `check`
    /// may end it with an error.
    pub(crate) fn vacuum<E: From<StorageError>>(
        &self,
        backend: &mut Backend,
        blocks: Range<BlockNumber>,
        check: &mut dyn FnMut(&mut Backend) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(!blocks.is_empty(), "a range of blocks");
        self.vacuum_page(backend, MapPage::ROOT, &blocks, check).map(drop)
    }

    /// The greatest category of a page, after those below it were brought up to date. None if the
    /// map does not have that page.
    fn vacuum_page<E: From<StorageError>>(
        &self,
        backend: &mut Backend,
        page: MapPage,
        blocks: &Range<BlockNumber>,
        check: &mut dyn FnMut(&mut Backend) -> Result<(), E>,
    ) -> Result<Option<u8>, E> {
        let Some(pin) = self.pin(backend, page)? else { return Ok(None) };
        let mut behind_end = false;
        for slot in slots_of(page, blocks) {
            check(backend)?;
            let below = match page.child(slot) {
                Some(child) if !behind_end => self.vacuum_page(backend, child, blocks, check)?,
                _ => None,
            };
            behind_end |= below.is_none();
            let below = below.unwrap_or(0);
            if map::get(pin.lock_shared().page(), slot) != below {
                let mut guard = pin.lock_exclusive();
                open_page(&mut guard);
                map::set(&mut guard.page_mut(), slot, below);
            }
        }
        let (greatest, next) = {
            let guard = pin.lock_shared();
            (map::greatest(guard.page()), map::next_slot(guard.page()))
        };
        // Blocks at the beginning are filled first, so that the end may become empty.
        if next != 0 {
            let mut guard = pin.lock_exclusive();
            guard.mark_dirty();
            map::set_next_slot(&mut guard.page_mut(), 0);
        }
        Ok(Some(greatest))
    }

    /// Clears what the map says of block `blocks` and all later ones, up to its root. Returns the
    /// number of map pages to keep.
    pub(crate) fn clear_from(
        &self,
        backend: &mut Backend,
        blocks: BlockNumber,
    ) -> Result<BlockNumber, StorageError> {
        let (mut page, mut slots) = MapPage::of_block(blocks);
        let keep = page.block() + u32::from(slots > 0);
        // The greatest category of the page below, whose slot is the last one to keep.
        let mut below = 0;
        loop {
            if let Some(pin) = self.pin(backend, page)? {
                let mut guard = pin.lock_exclusive();
                if !guard.page().is_new() {
                    guard.mark_dirty();
                    let mut view = guard.page_mut();
                    map::truncate(&mut view, slots);
                    if page.level() > 0 {
                        map::set(&mut view, slots - 1, below);
                    }
                }
                below = map::greatest(guard.page());
            }
            let Some((parent, slot)) = page.parent() else { return Ok(keep) };
            (page, slots) = (parent, slot + 1);
        }
    }

    /// Sets a slot. Makes the page if there is none.
    fn set(
        &self,
        backend: &mut Backend,
        page: MapPage,
        slot: u16,
        category: u8,
    ) -> Result<(), StorageError> {
        let tag = PageTag::new(self.rel, Fork::Fsm, page.block());
        let pin = maps::read_or_make(self.pool, backend, tag)?;
        let is_so = |page: Page<'_>| !page.is_new() && map::get(page, slot) == category;
        if is_so(pin.lock_shared().page()) {
            return Ok(());
        }
        let mut guard = pin.lock_exclusive();
        open_page(&mut guard);
        map::set(&mut guard.page_mut(), slot, category);
        Ok(())
    }

    /// Pins a page, if the map has it.
    fn pin(&self, backend: &mut Backend, page: MapPage) -> Result<Option<Pinned>, StorageError> {
        if !self.exists()? || page.block() >= self.pool.nblocks(self.rel, Fork::Fsm)? {
            return Ok(None);
        }
        let tag = PageTag::new(self.rel, Fork::Fsm, page.block());
        maps::read(self.pool, backend, tag).map(Some)
    }
}

/// Finds a slot, and lets the next search on the page begin there, or on a bottom page behind it.
fn find_on(pin: &Pinned, page: MapPage, least: u8) -> Found {
    {
        let guard = pin.lock_shared();
        match map::search(guard.page(), least) {
            Ok(None) => return Found::Nothing(map::greatest(guard.page())),
            Ok(Some(slot)) if page.level() > 0 && map::next_slot(guard.page()) == slot => {
                return Found::Slot(slot);
            }
            Ok(Some(_)) | Err(_) => {}
        }
    }
    let mut guard = pin.lock_exclusive();
    open_page(&mut guard);
    let mut found = map::search(guard.page(), least);
    if found.is_err() {
        map::rebuild(&mut guard.page_mut());
        found = map::search(guard.page(), least);
    }
    match found {
        Ok(Some(slot)) => {
            map::set_next_slot(&mut guard.page_mut(), slot + u16::from(page.level() == 0));
            Found::Slot(slot)
        }
        _ => Found::Nothing(map::greatest(guard.page())),
    }
}

/// Begins a change of a page.
fn open_page(guard: &mut PageWriteGuard<'_>) {
    if guard.page().is_new() {
        guard.page_mut().init(0);
    }
    guard.mark_dirty();
}

/// The slots of an upper page that stand for some blocks. None of a bottom page.
fn slots_of(page: MapPage, blocks: &Range<BlockNumber>) -> Range<u16> {
    let mut ends = [MapPage::of_block(blocks.start), MapPage::of_block(blocks.end - 1)];
    if page.level() == 0 {
        return 0..0;
    }
    while ends[0].0.level() < page.level() {
        ends = ends.map(|(below, _)| below.parent().expect("a page below another has a parent"));
    }
    let [(first_page, first), (last_page, last)] = ends;
    let before = |a: MapPage, b: MapPage| a.block() < b.block();
    let first = if before(first_page, page) { 0 } else { first };
    let end = if before(page, last_page) { map::SLOTS } else { last + 1 };
    first..end
}
