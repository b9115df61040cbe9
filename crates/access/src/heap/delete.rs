//! Marking a tuple deleted.

use forebay_aio as aio;
use forebay_format::wal::{Rmgr, heap};
use forebay_format::{
    CommandId, ItemPointer, Xid, tuple as ht,
    tuple::{HeapTuple, HeapTupleMut},
};
use forebay_storage::{Backend, PageWriteGuard, Strategy};
use forebay_txn::{ComboCommands, Outcome, XactManager};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::critical::critical;
use super::insert::Author;
use super::relation::Heap;
use super::status::{Fate, Observer, Role, TupleStatus, commands, tuple_status};
use crate::error::AccessError;
use crate::vm;

/// What an attempt to delete did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The tuple is marked deleted.
    Deleted,
    /// This command sees no such tuple.
    Invisible,
    /// This command or a later one of the same transaction has already deleted it.
    DeletedBySelf,
    /// Another transaction, which still runs, has deleted or locked it.
    BeingDeleted(Xid),
    /// Another transaction has deleted or updated it and has committed.
    Gone,
}

/// What a deletion writes.
#[derive(Debug, Clone, Copy)]
struct Mark {
    author: Author,
    tid: ItemPointer,
    infobits: u8,
    cid: CommandId,
    /// The bit that says that `cid` is a combined command id, or 0.
    combo: u16,
    /// Whether the page was all-visible.
    visible: bool,
}

impl Heap {
    /// Marks a tuple deleted by `author`, whose combined command ids are `combos`.
    pub fn delete(
        &self,
        backend: &mut Backend,
        xacts: &XactManager,
        author: Author,
        combos: &ComboCommands,
        tid: ItemPointer,
    ) -> Result<DeleteOutcome, AccessError> {
        self.ensure_log_room_to_delete(backend)?;
        let pin = self.pool.read(backend, self.tag(tid.block), Strategy::Normal)?;
        let mut guard = pin.lock_exclusive();
        let Some(bytes) = guard.page().item(tid.offset) else {
            return Ok(DeleteOutcome::Invisible);
        };
        let tuple = HeapTuple::new(bytes)?;
        let mut now = Now { xacts, author, combos };
        let status = tuple_status(&mut backend.io, &mut now, tuple)?;
        if let Some(refusal) = now.refusal(status)? {
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
            vm::clear(&self.pool, backend, self.locator, tid.block)?;
        }

        let mark = Mark { author, tid, infobits, cid, combo, visible };
        critical(self.failure.as_ref(), "could not delete from a page", || {
            self.mark(backend, &mut guard, mark)
        })?;
        Ok(DeleteOutcome::Deleted)
    }

    /// The change itself, with its record.
    fn mark(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        mark: Mark,
    ) -> Result<(), AccessError> {
        let Mark { author, tid, infobits, cid, combo, visible } = mark;
        guard.mark_dirty();
        let mut page = guard.page_mut();
        page.note_prunable(author.xid);
        if visible {
            page.set_all_visible(false);
        }
        let item = page.item_mut(tid.offset).expect("the tuple was read under this lock");
        let mut stored = HeapTupleMut::new(item)?;
        mark_deleted(&mut stored, author.xid, infobits, tid);
        stored.set_cid(cid);
        let mask = stored.tuple().infomask() & !ht::HEAP_COMBOCID;
        stored.set_infomask(mask | combo);

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
        let inserted = self.wal.insert(&mut backend.io, &record)?;
        guard.set_lsn(inserted.end);
        Ok(())
    }
}

/// A transaction that wants to change a tuple now.
struct Now<'a> {
    xacts: &'a XactManager,
    author: Author,
    combos: &'a ComboCommands,
}

impl Observer for Now<'_> {
    fn is_own(&self, xid: Xid) -> bool {
        self.author.xid == xid
    }

    fn command(&self) -> CommandId {
        self.author.command
    }

    fn combos(&self) -> &ComboCommands {
        self.combos
    }

    fn fate(
        &mut self,
        io: &mut aio::IoBackend,
        role: Role,
        xid: Xid,
        hinted: bool,
    ) -> Result<Fate, AccessError> {
        if role == Role::Inserter && hinted {
            return Ok(Fate::Committed);
        }
        // In this order: a transaction leaves the running ones after its outcome is in pg_xact.
        if self.xacts.procs().is_running(xid) {
            return Ok(Fate::Running);
        }
        let committed = self.xacts.clog().status(io, xid)? == Outcome::Committed;
        Ok(if committed { Fate::Committed } else { Fate::Aborted })
    }
}

impl Now<'_> {
    /// Why a tuple of this status cannot be deleted; None if it can.
    fn refusal(&self, status: TupleStatus) -> Result<Option<DeleteOutcome>, AccessError> {
        Ok(match status {
            TupleStatus::NotInserted => Some(DeleteOutcome::Invisible),
            TupleStatus::Live => None,
            TupleStatus::Locked { multi: true, .. } => {
                return Err(AccessError::Unsupported("multixacts"));
            }
            TupleStatus::Locked { by, .. } => {
                let other = by != self.author.xid && self.xacts.procs().is_running(by);
                other.then_some(DeleteOutcome::BeingDeleted(by))
            }
            TupleStatus::DeletedByOwn(cmax) if cmax < self.author.command => {
                Some(DeleteOutcome::Invisible)
            }
            TupleStatus::DeletedByOwn(_) => Some(DeleteOutcome::DeletedBySelf),
            TupleStatus::BeingDeleted(by) => Some(DeleteOutcome::BeingDeleted(by)),
            TupleStatus::Deleted => Some(DeleteOutcome::Gone),
        })
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
