//! Updating rows.
//!
//! The new version goes to the page of the old one, if there is room: as a heap-only tuple (HOT) if
//! no indexed column changes. Otherwise the old version is locked, its page is released, and the
//! new one goes to a page from the space list. Two pages are locked in the order of their blocks.

use forebay_format::page::PD_PAGE_FULL;
use forebay_format::tuple::{
    AttrLayout, Deform, HEAP_HOT_UPDATED, HEAP_ONLY_TUPLE, HEAP_UPDATED, HeapTuple, HeapTupleMut,
    LockStrength,
};
use forebay_format::wal::{Rmgr, heap};
use forebay_format::{CommandId, ItemPointer, Lsn, Xid};
use forebay_storage::{Backend, PageWriteGuard, Pinned, Strategy};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::batch::{aligned, check_size};
use super::changer::{Attempt, Changer, Refusal};
use super::critical::critical;
use super::insert::{check_header, room_on};
use super::lock::Lock;
use super::map_pin::{Cleared, MapPin};
use super::relation::Heap;
use super::tuple_at::tuple_at;
use super::xmax::{NewXmax, status_of};
use crate::error::AccessError;

/// The columns of a table, as an update needs to know them.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// How their values lie in a row.
    pub layouts: &'a [AttrLayout],
    /// The columns that a foreign key may refer to, by number from 0, ascending.
    pub keys: &'a [usize],
    /// The columns that an index has, by number from 0, ascending.
    pub indexed: &'a [usize],
}

impl Columns<'_> {
    /// Whether a key column differs between two versions, and which indexed ones do, as far as
    /// their bytes tell.
    fn differ(
        &self,
        old: HeapTuple<'_>,
        new: HeapTuple<'_>,
    ) -> Result<(bool, Vec<usize>), AccessError> {
        let mut differ = (false, Vec::new());
        let last = self.keys.last().max(self.indexed.last());
        let Some(&last) = last else { return Ok(differ) };
        let (mut ours, mut theirs) = (Deform::new(old)?, Deform::new(new)?);
        for (column, layout) in self.layouts.iter().enumerate().take(last + 1) {
            // What the value of a column is that the old version lacks, only its definition knows.
            let lacks = column >= old.attribute_count();
            if ours.next(*layout)? != theirs.next(*layout)? || lacks {
                differ.0 |= self.keys.contains(&column);
                differ.1.extend(self.indexed.contains(&column).then_some(column));
            }
        }
        Ok(differ)
    }

    /// How a version must be locked to be replaced by a new one.
    pub fn strength(
        &self,
        old: HeapTuple<'_>,
        new: HeapTuple<'_>,
    ) -> Result<LockStrength, AccessError> {
        Ok(strength_of(self.differ(old, new)?.0))
    }
}

/// How a version is locked whose key columns change, or stay.
fn strength_of(keys_change: bool) -> LockStrength {
    if keys_change { LockStrength::Exclusive } else { LockStrength::NoKeyExclusive }
}

/// A new version of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVersion {
    /// Its place.
    pub place: ItemPointer,
    /// Whether it is reached through the old one (HOT). If not, indexes need entries for it.
    pub hot: bool,
    /// The indexed columns that differ from the old version, ascending.
    pub changed: Vec<usize>,
}

/// A pinned page with its part of the visibility map.
#[derive(Debug)]
struct Side {
    pin: Pinned,
    map: MapPin,
}

/// An update that no other transaction prevents.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    /// The old version.
    tid: ItemPointer,
    /// The new one.
    new: &'a [u8],
    /// How the old one is locked.
    strength: LockStrength,
}

/// What an update writes.
#[derive(Debug)]
struct Change {
    xid: Xid,
    old: ItemPointer,
    /// The new version, with its header but for its own position.
    tuple: Vec<u8>,
    /// xmax of the old version.
    xmax: NewXmax,
    /// The command, and whether it is a combined one.
    cmax: (CommandId, bool),
    hot: bool,
}

/// The pages of an update, locked. The bits of the map are cleared.
struct Pages<'p, 'g, 'm> {
    old: &'p mut PageWriteGuard<'g>,
    old_cleared: Cleared<'m>,
    /// The page of the new version, if it is another.
    new: Option<(&'p mut PageWriteGuard<'g>, Cleared<'m>)>,
}

impl Heap {
    /// Replaces the version of a row at `tid` by the formed tuple `new`.
    pub fn update(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        tid: ItemPointer,
        new: &[u8],
        columns: &Columns<'_>,
    ) -> Result<Attempt<NewVersion>, AccessError> {
        self.replace(backend, changer, (tid, false), (new, new), columns)
    }

    /// The same for a version that the author has locked only for this, if `temporary` is true: the
    /// new one does not get that lock. `given` is the new version before its long values were
    /// compressed or moved elsewhere: values that were not changed are in it as the old one has
    /// them.
    pub fn replace(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        (tid, temporary): (ItemPointer, bool),
        (new, given): (&[u8], &[u8]),
        columns: &Columns<'_>,
    ) -> Result<Attempt<NewVersion>, AccessError> {
        check_size(new.len())?;
        self.ensure_log_room(backend)?;
        changer.sets.begin();
        let pin = self.pool.read(backend, self.tag(tid.block), Strategy::Normal)?;
        let mut old = Side { pin, map: MapPin::default() };
        let mut guard = old.map.lock(self, backend, &old.pin)?;
        check_header(&guard)?;
        let Some(tuple) = tuple_at(guard.page(), guard.tag(), tid.offset)? else {
            return Ok(Attempt::Refused(Refusal::Invisible));
        };
        let (keys_change, changed) = columns.differ(tuple, HeapTuple::new(given)?)?;
        let (strength, mut hot) = (strength_of(keys_change), changed.is_empty());
        forebay_aio::planted_bug!(backend.io.aio(), HotUpdateIgnoresIndexes, hot = true);
        let refusal = changer.refusal(&mut backend.io, tuple, tid, strength);
        if let Some(refusal) = refusal.map_err(|error| self.located(tid, error))? {
            return Ok(Attempt::Refused(refusal));
        }
        let wanted = Wanted { tid, new, strength };
        if guard.page().heap_free_space() >= aligned(new.len()) {
            let prepared = self.prepare(backend, changer, tuple, wanted, temporary)?;
            let old_cleared = old.map.clear(&guard);
            let pages = Pages { old: &mut guard, old_cleared, new: None };
            let place = self.write(backend, pages, Change { hot, ..prepared })?;
            return Ok(Attempt::Done(NewVersion { place, hot, changed }));
        }
        // Nobody may update it while the lock of the page is released.
        let xmax = changer.new_xmax(&mut backend.io, tuple, strength.locker())?;
        let lock = Lock { xid: changer.author.xid, tid, xmax, newer: false };
        self.mark_locked(backend, &mut guard, &old.map, lock)?;
        drop(guard);
        Ok(match self.update_elsewhere(backend, changer, old, wanted)? {
            Attempt::Done(place) => Attempt::Done(NewVersion { place, hot: false, changed }),
            Attempt::Refused(refusal) => Attempt::Refused(refusal),
        })
    }

    /// Puts the new version on another page. The old version is locked by the author.
    fn update_elsewhere(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        mut old: Side,
        wanted: Wanted<'_>,
    ) -> Result<Attempt<ItemPointer>, AccessError> {
        let Wanted { tid, new, strength } = wanted;
        let need = aligned(new.len());
        loop {
            self.ensure_log_room(backend)?;
            let pin = self.page_with_room(backend, need, new.len(), Strategy::Normal)?;
            let block = pin.tag().block;
            if block == tid.block {
                // Its place in the list was wrong: there was no room.
                continue;
            }
            let mut other = Side { pin, map: MapPin::default() };
            let maps = (&mut old.map, &mut other.map);
            let (mut guard, mut target) = self.lock_both(backend, &old.pin, &other.pin, maps)?;
            check_header(&target)?;
            if !self.takes(&target, need) {
                let free = room_on(&target);
                drop((guard, target));
                self.space.give(block, free);
                continue;
            }
            let bytes = guard.page().item(tid.offset).ok_or_else(|| self.lost(tid))?;
            let tuple = HeapTuple::new(bytes)?;
            if let Some(refusal) = changer.refusal(&mut backend.io, tuple, tid, strength)? {
                return Ok(Attempt::Refused(refusal));
            }
            let change = self.prepare(backend, changer, tuple, wanted, true)?;
            let (old_cleared, cleared) =
                MapPin::clear_both((&old.map, &guard), (&other.map, &target));
            let new = Some((&mut target, cleared));
            let place = self.write(backend, Pages { old: &mut guard, old_cleared, new }, change)?;
            let free = target.page().heap_free_space();
            drop((guard, target));
            self.space.give(block, free);
            return Ok(Attempt::Done(place));
        }
    }

    /// Locks both pages in the order of their blocks, with their parts of the map pinned.
    fn lock_both<'a>(
        &self,
        backend: &mut Backend,
        old: &'a Pinned,
        new: &'a Pinned,
        (old_map, new_map): (&mut MapPin, &mut MapPin),
    ) -> Result<(PageWriteGuard<'a>, PageWriteGuard<'a>), AccessError> {
        loop {
            let (guard, target) = if old.tag().block < new.tag().block {
                let guard = old.lock_exclusive();
                (guard, new.lock_exclusive())
            } else {
                let target = new.lock_exclusive();
                (old.lock_exclusive(), target)
            };
            let enough = (old_map.is_enough(&guard), new_map.is_enough(&target));
            if enough == (true, true) {
                return Ok((guard, target));
            }
            drop((guard, target));
            if !enough.0 {
                old_map.look(self, backend, old.tag().block)?;
            }
            if !enough.1 {
                new_map.look(self, backend, new.tag().block)?;
            }
        }
    }

    /// Does all that can fail before the pages are changed. `temporary`: the author has locked the
    /// old version only for this.
    fn prepare(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        tuple: HeapTuple<'_>,
        wanted: Wanted<'_>,
        temporary: bool,
    ) -> Result<Change, AccessError> {
        let Wanted { tid, new, strength } = wanted;
        let io = &mut backend.io;
        let cmax = changer.cmax(tuple)?;
        let kept = changer.kept_lockers(io, tuple, temporary)?;
        let xmax = changer.new_xmax(io, tuple, status_of(strength, true))?;
        let mut bytes = new.to_vec();
        let mut version = HeapTupleMut::new(&mut bytes)?;
        version.stamp_insert(changer.author.xid, changer.author.command);
        version.set_infomask(version.tuple().infomask() | HEAP_UPDATED);
        if let Some(kept) = kept {
            kept.store(&mut version);
        }
        let xid = changer.author.xid;
        Ok(Change { xid, old: tid, tuple: bytes, xmax, cmax, hot: false })
    }

    /// Changes the page of the old version, and that of the new one if it is another.
    fn write(
        &self,
        backend: &mut Backend,
        mut pages: Pages<'_, '_, '_>,
        mut change: Change,
    ) -> Result<ItemPointer, AccessError> {
        critical(self.failure.as_ref(), "could not update a row", || {
            let (place, empty) = add_version(&mut pages, &mut change)?;
            end_version(&mut pages, &change, place)?;
            if self.logged {
                self.log_update(backend, &mut pages, &change, place, empty)?;
            }
            Ok(place)
        })
    }

    /// Logs an update, and sets the pages' LSNs.
    fn log_update(
        &self,
        backend: &mut Backend,
        pages: &mut Pages<'_, '_, '_>,
        change: &Change,
        place: ItemPointer,
        empty: bool,
    ) -> Result<(), AccessError> {
        let version = HeapTuple::new(&change.tuple)?;
        // Redo may not find the old version if it is on another page.
        let base = match &pages.new {
            Some(_) => None,
            None => pages.old.page().item(change.old.offset).map(HeapTuple::new).transpose()?,
        };
        let mut data = Vec::with_capacity(change.tuple.len());
        let mut flags = heap::UpdatedTuple::encode_new(version, base, &mut data);
        if pages.old_cleared.visible {
            flags |= heap::UPDATE_OLD_ALL_VISIBLE_CLEARED;
        }
        if pages.new.as_ref().is_some_and(|(_, cleared)| cleared.visible) {
            flags |= heap::UPDATE_NEW_ALL_VISIBLE_CLEARED;
        }
        let main = heap::HeapUpdate {
            old_xmax: change.xmax.xmax,
            old_offset: change.old.offset,
            old_infobits: change.xmax.infobits(),
            flags,
            new_xmax: version.xmax(),
            new_offset: place.offset,
        };
        let (main, init) = (main.encode(), if empty { heap::INIT_PAGE } else { 0 });
        let info = init | if change.hot { heap::HOT_UPDATE } else { heap::UPDATE };
        let mut blocks: Vec<BlockRef<'_>> =
            pages.blocks(empty, &data).into_iter().flatten().collect();
        forebay_aio::planted_bug!(
            backend.io.aio(),
            UpdateOldPageNotLogged,
            blocks.retain(|block| block.id != heap::UPDATE_OLD_BLOCK)
        );
        let (rmgr, xid) = (Rmgr::HEAP, change.xid);
        let record = Record { rmgr, info, xid, main: &main, blocks: &blocks };
        let inserted = self.wal.insert(&mut backend.io, &record)?;
        pages.set_lsn(inserted.end);
        Ok(())
    }

    /// A row that was locked and is gone.
    fn lost(&self, tid: ItemPointer) -> AccessError {
        AccessError::Corrupt(format!("the locked row {tid} of {} is gone", self.locator))
    }
}

impl<'g> Pages<'_, 'g, '_> {
    /// The page of the new version.
    fn target(&mut self) -> &mut PageWriteGuard<'g> {
        match &mut self.new {
            Some((new, _)) => new,
            None => self.old,
        }
    }

    /// The references of the record: the new version's page, the old one's if it is another, and
    /// those of the map. `data` is the new version, which goes to an `empty` page.
    fn blocks<'a>(&'a self, empty: bool, data: &'a [u8]) -> [Option<BlockRef<'a>>; 4] {
        let will_init = if empty { BlockFlags::WILL_INIT } else { BlockFlags::NONE };
        let block = |id, guard: &'a PageWriteGuard<'g>, flags, data| {
            let flags = BlockFlags::STANDARD | flags;
            Some(BlockRef { id, tag: guard.tag(), page: Some(guard), flags, data })
        };
        let (target, old, new_map) = match &self.new {
            Some((new, cleared)) => (
                &**new,
                block(heap::UPDATE_OLD_BLOCK, self.old, BlockFlags::NONE, &[]),
                cleared.block(heap::UPDATE_NEW_MAP_BLOCK),
            ),
            None => (&*self.old, None, None),
        };
        [
            block(0, target, will_init, data),
            old,
            new_map,
            self.old_cleared.block(heap::UPDATE_OLD_MAP_BLOCK),
        ]
    }

    fn set_lsn(&mut self, lsn: Lsn) {
        self.old.set_lsn(lsn);
        self.old_cleared.set_lsn(lsn);
        if let Some((new, cleared)) = &mut self.new {
            new.set_lsn(lsn);
            cleared.set_lsn(lsn);
        }
    }
}

/// Adds the new version. Returns its place, and whether its page had no rows.
fn add_version(
    pages: &mut Pages<'_, '_, '_>,
    change: &mut Change,
) -> Result<(ItemPointer, bool), AccessError> {
    let was_visible = pages.new.as_ref().is_some_and(|(_, cleared)| cleared.visible);
    let target = pages.target();
    target.mark_dirty();
    let tag = target.tag();
    let empty = target.page().is_new() || target.page().item_count() == 0;
    let mut page = target.page_mut();
    if empty {
        page.init(0);
    }
    if was_visible {
        page.set_all_visible(false);
    }
    if change.hot {
        let mut version = HeapTupleMut::new(&mut change.tuple)?;
        version.set_infomask2(version.tuple().infomask2() | HEAP_ONLY_TUPLE);
    }
    let Some(offset) = page.add_item(&change.tuple, None) else {
        return Err(AccessError::Corrupt(format!("{tag} takes no tuple")));
    };
    let place = ItemPointer::new(tag.block, offset);
    let item = page.item_mut(offset).expect("the tuple was just added");
    HeapTupleMut::new(item)?.set_ctid(place);
    Ok((place, empty))
}

/// Ends the old version, whose newer one is at `place`.
fn end_version(
    pages: &mut Pages<'_, '_, '_>,
    change: &Change,
    place: ItemPointer,
) -> Result<(), AccessError> {
    pages.old.mark_dirty();
    let mut page = pages.old.page_mut();
    page.note_prunable(change.xid);
    if pages.old_cleared.visible {
        page.set_all_visible(false);
    }
    if pages.new.is_some() {
        page.set_flag(PD_PAGE_FULL, true);
    }
    let item = page.item_mut(change.old.offset).expect("the tuple was read under this lock");
    let mut replaced = HeapTupleMut::new(item)?;
    change.xmax.store(&mut replaced);
    replaced.set_cmax(change.cmax.0, change.cmax.1);
    let others = replaced.tuple().infomask2() & !HEAP_HOT_UPDATED;
    replaced.set_infomask2(if change.hot { others | HEAP_HOT_UPDATED } else { others });
    replaced.set_ctid(place);
    Ok(())
}
