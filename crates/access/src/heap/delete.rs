//! Marking a tuple deleted.

use forebay_format::wal::{Rmgr, heap};
use forebay_format::{
    CommandId, ItemPointer, Xid, tuple as ht,
    tuple::{HeapTupleMut, LockStrength},
};
use forebay_storage::{Backend, PageWriteGuard, Strategy};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::changer::{Attempt, Changer, Refusal};
use super::critical::critical;
use super::map_pin::{Cleared, MapPin};
use super::relation::Heap;
use super::tuple_at::tuple_at;
use super::xmax::{NewXmax, status_of};
use crate::error::AccessError;

/// What a deletion writes.
#[derive(Debug, Clone, Copy)]
struct Mark {
    xid: Xid,
    tid: ItemPointer,
    xmax: NewXmax,
    /// The command, and whether it is a combined one.
    cmax: (CommandId, bool),
}

impl Heap {
    /// Marks a tuple deleted.
    pub fn delete(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        tid: ItemPointer,
    ) -> Result<Attempt<()>, AccessError> {
        self.ensure_log_room_to_delete(backend)?;
        changer.sets.begin();
        let pin = self.pool.read(backend, self.tag(tid.block), Strategy::Normal)?;
        let mut map = MapPin::default();
        let mut guard = map.lock(self, backend, &pin)?;
        let Some(tuple) = tuple_at(guard.page(), guard.tag(), tid.offset)? else {
            return Ok(Attempt::Refused(Refusal::Invisible));
        };
        let strength = LockStrength::Exclusive;
        let refusal = changer.refusal(&mut backend.io, tuple, tid, strength);
        if let Some(refusal) = refusal.map_err(|error| self.located(tid, error))? {
            return Ok(Attempt::Refused(refusal));
        }
        let cmax = changer.cmax(tuple)?;
        let xmax = changer.new_xmax(&mut backend.io, tuple, status_of(strength, true))?;
        let cleared = map.clear(&guard);
        let mark = Mark { xid: changer.author.xid, tid, xmax, cmax };
        critical(self.failure.as_ref(), "could not delete from a page", || {
            self.mark(backend, &mut guard, cleared, mark)
        })?;
        Ok(Attempt::Done(()))
    }

    /// The change itself, with its record.
    fn mark(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        cleared: Cleared<'_>,
        mark: Mark,
    ) -> Result<(), AccessError> {
        let Mark { xid, tid, xmax, cmax: (cid, is_combo) } = mark;
        let infobits = xmax.infobits();
        guard.mark_dirty();
        let mut page = guard.page_mut();
        page.note_prunable(xid);
        if cleared.visible {
            page.set_all_visible(false);
        }
        let item = page.item_mut(tid.offset).expect("the tuple was read under this lock");
        let mut stored = HeapTupleMut::new(item)?;
        mark_deleted(&mut stored, xmax.xmax, infobits, tid);
        stored.set_cmax(cid, is_combo);

        if !self.logged {
            return Ok(());
        }
        let mut flags = if cleared.visible { heap::DELETE_ALL_VISIBLE_CLEARED } else { 0 };
        forebay_aio::planted_bug!(backend.io.aio(), DeletionKeepsAllVisible, flags = 0);
        let main = heap::HeapDelete { xmax: xmax.xmax, offset: tid.offset, infobits, flags };
        let kind = (Rmgr::HEAP, heap::DELETE);
        self.log_header_change(backend, guard, cleared, kind, xid, &main.encode())
    }

    /// Logs a change of a tuple's header, and sets the page's LSN.
    pub(super) fn log_header_change(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        mut cleared: Cleared<'_>,
        (rmgr, info): (Rmgr, u8),
        xid: Xid,
        main: &[u8],
    ) -> Result<(), AccessError> {
        let (tag, flags) = (guard.tag(), BlockFlags::STANDARD);
        let block = BlockRef { id: 0, tag, page: Some(guard), flags, data: &[] };
        let both = [block, cleared.block(heap::MAP_BLOCK).unwrap_or(block)];
        let blocks = if cleared.changed() { &both[..] } else { &both[..1] };
        let record = Record { rmgr, info, xid, main, blocks };
        let inserted = self.wal.insert(&mut backend.io, &record)?;
        guard.set_lsn(inserted.end);
        cleared.set_lsn(inserted.end);
        Ok(())
    }
}

/// Writes a deletion into a tuple's header, except for the command. Redo does the same.
pub(crate) fn mark_deleted(
    tuple: &mut HeapTupleMut<'_>,
    xmax: Xid,
    infobits: u8,
    place: ItemPointer,
) {
    let (set, set2) = heap::flags_of_infobits(infobits);
    let (mask, mask2) = (tuple.tuple().infomask(), tuple.tuple().infomask2());
    let old = ht::HEAP_XMAX_BITS | ht::HEAP_MOVED_OFF | ht::HEAP_MOVED_IN;
    tuple.set_infomask(mask & !old | set);
    tuple.set_infomask2(mask2 & !(ht::HEAP_HOT_UPDATED | ht::HEAP_KEYS_UPDATED) | set2);
    tuple.set_xmax(xmax);
    tuple.set_ctid(place);
}
