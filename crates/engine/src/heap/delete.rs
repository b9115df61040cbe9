//! Marking a tuple deleted.

use forebay_aio as aio;
use forebay_format::wal::{Rmgr, heap};
use forebay_format::{
    CommandId, ItemPointer, Xid, tuple as ht,
    tuple::{HeapTuple, HeapTupleMut},
};
use forebay_storage::{Backend, PageWriteGuard, Strategy};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::insert::Author;
use super::{Heap, vm};
use crate::EngineError;
use crate::xact::{ComboCommands, Outcome, XactManager};

/// What became of an attempt to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is marked.
    Deleted,
    /// There is no such tuple that this command could see.
    Invisible,
    /// This command or a later one of the same transaction has deleted it already.
    DeletedBySelf,
    /// Another transaction that still runs has marked it.
    BeingDeleted(Xid),
    /// Another transaction has deleted or updated it, and committed.
    Gone,
}

/// What a deletion writes.
#[derive(Debug, Clone, Copy)]
struct Mark {
    author: Author,
    tid: ItemPointer,
    infobits: u8,
    cid: CommandId,
    /// The bit that says that `cid` stands for two.
    combo: u16,
    /// Everyone could see all of the page.
    visible: bool,
}

impl Heap {
    /// Marks a tuple deleted by `author`, whose pairs of commands are `combos`.
    pub fn delete(
        &self,
        be: &mut Backend,
        xacts: &XactManager,
        author: Author,
        combos: &ComboCommands,
        tid: ItemPointer,
    ) -> Result<DeleteOutcome, EngineError> {
        self.ensure_log_room_to_delete(be)?;
        let pin = self.pool.read(be, self.tag(tid.block), Strategy::Normal)?;
        let mut guard = pin.lock_exclusive();
        let Some(bytes) = guard.page().item(tid.offset) else {
            return Ok(DeleteOutcome::Invisible);
        };
        let tuple = HeapTuple::new(bytes)?;
        let refusal = self.deletable(&mut be.io, xacts, author, combos, tuple)?;
        if refusal != DeleteOutcome::Deleted {
            return Ok(refusal);
        }
        let (cid, combo) = if tuple.xmin() == author.xid && !tuple.xmin_committed() {
            let (cmin, _) = commands(combos, tuple)?;
            (combos.combine(cmin, author.command), ht::HEAP_COMBOCID)
        } else {
            (author.command, 0)
        };
        let infobits = heap::infobits(0, ht::HEAP_KEYS_UPDATED);
        let visible = guard.page().is_all_visible();
        if visible {
            vm::clear(&self.pool, be, self.locator, tid.block)?;
        }

        let mark = Mark { author, tid, infobits, cid, combo, visible };
        self.fatal.critical("could not delete from a page", || self.mark(be, &mut guard, mark))?;
        Ok(DeleteOutcome::Deleted)
    }

    /// The change itself, with its record.
    fn mark(
        &self,
        be: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        mark: Mark,
    ) -> Result<(), EngineError> {
        let Mark { author, tid, infobits, cid, combo, visible } = mark;
        guard.mark_dirty();
        let mut page = guard.page_mut();
        page.note_prunable(author.xid);
        if visible {
            page.set_all_visible(false);
        }
        if let Some(item) = page.item_mut(tid.offset) {
            let mut stored = HeapTupleMut::new(item)?;
            mark_deleted(&mut stored, author.xid, infobits, tid);
            stored.set_cid(cid);
            let mask = stored.tuple().infomask() & !ht::HEAP_COMBOCID;
            stored.set_infomask(mask | combo);
        }

        if !self.logged {
            return Ok(());
        }
        let flags = if visible { heap::DELETE_ALL_VISIBLE_CLEARED } else { 0 };
        let main =
            heap::HeapDelete { xmax: author.xid, offset: tid.offset, infobits, flags }.encode();
        let block = BlockRef {
            id: 0,
            tag: guard.tag(),
            page: Some(guard),
            flags: BlockFlags::STANDARD,
            data: &[],
        };
        let record = Record {
            rmgr: Rmgr::HEAP,
            info: heap::DELETE,
            xid: author.xid,
            main: &main,
            blocks: &[block],
        };
        let inserted = self.wal.insert(&mut be.io, &record)?;
        guard.set_lsn(inserted.end);
        Ok(())
    }

    /// Whether `author` may delete a tuple now; `Deleted` stands for yes.
    fn deletable(
        &self,
        io: &mut aio::Backend,
        xacts: &XactManager,
        author: Author,
        combos: &ComboCommands,
        tuple: HeapTuple<'_>,
    ) -> Result<DeleteOutcome, EngineError> {
        let (mask, xmin, xmax) = (tuple.infomask(), tuple.xmin(), tuple.xmax());
        if tuple.xmin_invalid() {
            return Ok(DeleteOutcome::Invisible);
        }
        if !tuple.xmin_committed() {
            if xmin == author.xid {
                if commands(combos, tuple)?.0 >= author.command {
                    return Ok(DeleteOutcome::Invisible);
                }
            } else if xacts.procs().is_running(xmin)
                || self.clog.status(io, xmin)? != Outcome::Committed
            {
                return Ok(DeleteOutcome::Invisible);
            }
        }
        if mask & ht::HEAP_XMAX_INVALID != 0 {
            return Ok(DeleteOutcome::Deleted);
        }
        if mask & ht::HEAP_XMAX_IS_MULTI != 0 {
            return Err(EngineError::statement("0A000", "multixacts are not supported"));
        }
        if xmax == author.xid {
            if tuple.xmax_is_locked_only() {
                return Ok(DeleteOutcome::Deleted);
            }
            let deleted_before = commands(combos, tuple)?.1 < author.command;
            return Ok(if deleted_before {
                DeleteOutcome::Invisible
            } else {
                DeleteOutcome::DeletedBySelf
            });
        }
        if xacts.procs().is_running(xmax) {
            return Ok(DeleteOutcome::BeingDeleted(xmax));
        }
        let over = tuple.xmax_is_locked_only() || self.clog.status(io, xmax)? != Outcome::Committed;
        Ok(if over { DeleteOutcome::Deleted } else { DeleteOutcome::Gone })
    }
}

/// The inserting and the deleting command of a tuple of the own transaction.
fn commands(combos: &ComboCommands, tuple: HeapTuple<'_>) -> Result<(u32, u32), EngineError> {
    if tuple.infomask() & ht::HEAP_COMBOCID == 0 {
        return Ok((tuple.cid(), tuple.cid()));
    }
    let cid = tuple.cid();
    combos.resolve(cid).ok_or_else(|| {
        EngineError::internal(format!("tuple has unknown combined command id {cid}"))
    })
}

/// What a deletion writes into a tuple's header, but for the command; redo does the same.
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
