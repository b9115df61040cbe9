//! Updating rows.
//!
//! The new version goes to the page of the old one, if there is room: as a heap-only tuple (HOT) if
//! no indexed column changes. Otherwise the old version is locked, its page is released, and the
//! new one goes to a page from the space list. Two pages are locked in the order of their blocks.

use forebay_format::tuple::{
    AttrLayout, HEAP_HOT_UPDATED, HEAP_ONLY_TUPLE, HEAP_UPDATED, HeapTuple, HeapTupleMut,
    LockStrength, deform,
};
use forebay_format::wal::{Rmgr, heap};
use forebay_format::{CommandId, ItemPointer, Xid, page};
use forebay_storage::{Backend, PageWriteGuard, Pinned, Strategy};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::batch::{aligned, check_size};
use super::changer::{Attempt, Changer, Refusal};
use super::critical::critical;
use super::insert::room_on;
use super::lock::Lock;
use super::map_pin::MapPin;
use super::relation::Heap;
use super::xmax::{NewXmax, status_of};
use crate::error::AccessError;

/// The columns of a table, as an update needs to know them.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// How their values lie in a row.
    pub layouts: &'a [AttrLayout],
    /// Those that a foreign key may refer to, by number from 0.
    pub keys: &'a [usize],
    /// Those that an index has, by number from 0.
    pub indexed: &'a [usize],
}

impl Columns<'_> {
    /// Whether one of some columns differs between two versions.
    fn differ(
        &self,
        which: &[usize],
        old: HeapTuple<'_>,
        new: HeapTuple<'_>,
    ) -> Result<bool, AccessError> {
        if which.is_empty() {
            return Ok(false);
        }
        let mut values = [vec![None; self.layouts.len()], vec![None; self.layouts.len()]];
        let [ours, theirs] = &mut values;
        deform(old, self.layouts, ours)?;
        deform(new, self.layouts, theirs)?;
        Ok(which.iter().any(|&column| ours.get(column) != theirs.get(column)))
    }
}

/// A pinned page with its part of the visibility map.
#[derive(Debug)]
struct Side {
    pin: Pinned,
    map: MapPin,
}

/// What an update is to do, once it is known that nobody stands in its way.
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
    /// Whether the pages were all-visible.
    old_visible: bool,
    new_visible: bool,
}

impl Heap {
    /// Replaces the version of a row at `tid` by the formed tuple `new`. Returns its place.
    pub fn update(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        tid: ItemPointer,
        new: &[u8],
        columns: &Columns<'_>,
    ) -> Result<Attempt<ItemPointer>, AccessError> {
        check_size(new.len())?;
        self.ensure_log_room(backend)?;
        changer.sets.begin();
        let pin = self.pool.read(backend, self.tag(tid.block), Strategy::Normal)?;
        let mut old = Side { pin, map: MapPin::default() };
        let mut guard = old.map.lock(self, backend, &old.pin)?;
        let Some(bytes) = guard.page().item(tid.offset) else {
            return Ok(Attempt::Refused(Refusal::Invisible));
        };
        let (tuple, version) = (HeapTuple::new(bytes)?, HeapTuple::new(new)?);
        let strength = match columns.differ(columns.keys, tuple, version)? {
            true => LockStrength::Exclusive,
            false => LockStrength::NoKeyExclusive,
        };
        let hot = !columns.differ(columns.indexed, tuple, version)?;
        if let Some(refusal) = changer.refusal(&mut backend.io, tuple, tid, strength)? {
            return Ok(Attempt::Refused(refusal));
        }
        let wanted = Wanted { tid, new, strength };
        if guard.page().heap_free_space() >= aligned(new.len()) {
            let prepared = self.prepare(backend, changer, tuple, wanted, false)?;
            let old_visible = old.map.clear(&guard);
            let change = Change { hot, old_visible, ..prepared };
            let place = self.write(backend, &mut guard, None, change)?;
            return Ok(Attempt::Done(place));
        }
        // Nobody may update it while the lock of the page is released.
        let xmax = changer.new_xmax(&mut backend.io, tuple, strength.locker())?;
        let lock = Lock { xid: changer.author.xid, tid, xmax, newer: false };
        self.mark_locked(backend, &mut guard, &old.map, lock)?;
        drop(guard);
        self.update_elsewhere(backend, changer, old, wanted)
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
            let prepared = self.prepare(backend, changer, tuple, wanted, true)?;
            let old_visible = old.map.clear(&guard);
            let new_visible = !target.page().is_new() && other.map.clear(&target);
            let change = Change { old_visible, new_visible, ..prepared };
            let place = self.write(backend, &mut guard, Some(&mut target), change)?;
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
        let (hot, old_visible, new_visible) = (false, false, false);
        Ok(Change { xid, old: tid, tuple: bytes, xmax, cmax, hot, old_visible, new_visible })
    }

    /// Changes the page of the old version, and that of the new one if it is another.
    fn write<'g>(
        &self,
        backend: &mut Backend,
        old: &mut PageWriteGuard<'g>,
        new: Option<&mut PageWriteGuard<'g>>,
        change: Change,
    ) -> Result<ItemPointer, AccessError> {
        critical(self.failure.as_ref(), "could not update a row", || {
            self.write_opened(backend, old, new, change)
        })
    }

    /// The change itself, with its record.
    fn write_opened<'g>(
        &self,
        backend: &mut Backend,
        old: &mut PageWriteGuard<'g>,
        mut new: Option<&mut PageWriteGuard<'g>>,
        mut change: Change,
    ) -> Result<ItemPointer, AccessError> {
        old.mark_dirty();
        let target = match &mut new {
            Some(new) => &mut **new,
            None => &mut *old,
        };
        target.mark_dirty();
        let empty = target.page().is_new() || target.page().item_count() == 0;
        if empty {
            target.page_mut().init(0);
        }
        if change.new_visible {
            target.page_mut().set_all_visible(false);
        }
        let (tag, tuple) = (target.tag(), &mut change.tuple);
        let mut version = HeapTupleMut::new(tuple)?;
        if change.hot {
            version.set_infomask2(version.tuple().infomask2() | HEAP_ONLY_TUPLE);
        }
        let Some(offset) = target.page_mut().add_item(tuple, None) else {
            return Err(AccessError::Corrupt(format!("{tag} takes no tuple")));
        };
        let place = ItemPointer::new(tag.block, offset);
        let mut page = target.page_mut();
        let item = page.item_mut(offset).expect("the tuple was just added");
        HeapTupleMut::new(item)?.set_ctid(place);

        let elsewhere = new.is_some();
        let mut page = old.page_mut();
        page.note_prunable(change.xid);
        if change.old_visible {
            page.set_all_visible(false);
        }
        if elsewhere {
            page.set_flag(page::PD_PAGE_FULL, true);
        }
        let item = page.item_mut(change.old.offset).expect("the tuple was read under this lock");
        let mut replaced = HeapTupleMut::new(item)?;
        change.xmax.store(&mut replaced);
        replaced.set_cmax(change.cmax.0, change.cmax.1);
        let others = replaced.tuple().infomask2() & !HEAP_HOT_UPDATED;
        replaced.set_infomask2(if change.hot { others | HEAP_HOT_UPDATED } else { others });
        replaced.set_ctid(place);
        if self.logged {
            self.log_update(backend, old, new, &change, place, empty)?;
        }
        Ok(place)
    }

    /// Logs an update, and sets the pages' LSNs.
    fn log_update(
        &self,
        backend: &mut Backend,
        old: &mut PageWriteGuard<'_>,
        new: Option<&mut PageWriteGuard<'_>>,
        change: &Change,
        place: ItemPointer,
        empty: bool,
    ) -> Result<(), AccessError> {
        let version = HeapTuple::new(&change.tuple)?;
        // Redo may not find the old version if it is on another page.
        let base = match &new {
            Some(_) => None,
            None => old.page().item(change.old.offset).map(HeapTuple::new).transpose()?,
        };
        let mut data = Vec::with_capacity(change.tuple.len());
        let mut flags = heap::UpdatedTuple::encode_new(version, base, &mut data);
        if change.old_visible {
            flags |= heap::UPDATE_OLD_ALL_VISIBLE_CLEARED;
        }
        if change.new_visible {
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
        let main = main.encode();
        let (init, will_init) = match empty {
            true => (heap::INIT_PAGE, BlockFlags::WILL_INIT),
            false => (0, BlockFlags::NONE),
        };
        let kind = if change.hot { heap::HOT_UPDATE } else { heap::UPDATE };
        let target = new.as_deref().unwrap_or(old);
        let first = BlockRef {
            id: 0,
            tag: target.tag(),
            page: Some(target),
            flags: BlockFlags::STANDARD | will_init,
            data: &data,
        };
        let second = BlockRef {
            id: 1,
            tag: old.tag(),
            page: Some(old),
            flags: BlockFlags::STANDARD,
            data: &[],
        };
        let both = [first, second];
        let blocks = if new.is_some() { &both[..] } else { &both[..1] };
        let (rmgr, info) = (Rmgr::HEAP, kind | init);
        let record = Record { rmgr, info, xid: change.xid, main: &main, blocks };
        let inserted = self.wal.insert(&mut backend.io, &record)?;
        old.set_lsn(inserted.end);
        if let Some(new) = new {
            new.set_lsn(inserted.end);
        }
        Ok(())
    }

    /// A row that was locked and is gone.
    fn lost(&self, tid: ItemPointer) -> AccessError {
        AccessError::Corrupt(format!("the locked row {tid} of {} is gone", self.locator))
    }
}
