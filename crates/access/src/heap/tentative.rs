//! Tentative insertions: a row that others must not take for a conflict until its entries are in
//! the unique indexes.
//!
//! ```text
//! insert_tentatively ─ entries added ─┬─ no other row has the keys ──▶ confirm
//!                                     └─ another one may have them ──▶ take_back
//! ```
//!
//! The tuple's ctid holds a token instead of its place. Whoever meets it waits for the word of the
//! inserter, not for the end of its transaction.

use forebay_format::tuple::{self as ht, HeapTuple, HeapTupleMut, Xmax};
use forebay_format::wal::{Rmgr, heap};
use forebay_format::{ItemPointer, Xid};
use forebay_storage::{Backend, PageWriteGuard, Strategy};

use super::critical::critical;
use super::insert::Author;
use super::map_pin::Cleared;
use super::relation::Heap;
use super::tuple_at::tuple_at;
use crate::error::AccessError;

impl Heap {
    /// Inserts a tuple that has this token until it is confirmed. Returns its place.
    pub fn insert_tentatively(
        &self,
        backend: &mut Backend,
        author: Author,
        token: u32,
        tuple: &[u8],
    ) -> Result<ItemPointer, AccessError> {
        self.insert_one(backend, author, tuple, Some(token))
    }

    /// The tentative row of the transaction `xid` at `tid` stays.
    pub fn confirm(
        &self,
        backend: &mut Backend,
        xid: Xid,
        tid: ItemPointer,
    ) -> Result<(), AccessError> {
        self.settle(backend, (xid, true), tid, |guard| {
            store(guard, tid, |tuple| tuple.set_ctid(tid))?;
            Ok((heap::CONFIRM, heap::encode_confirm(tid.offset).to_vec()))
        })
    }

    /// The tentative row of the transaction `xid` at `tid` was never inserted.
    pub fn take_back(
        &self,
        backend: &mut Backend,
        xid: Xid,
        tid: ItemPointer,
    ) -> Result<(), AccessError> {
        self.revoke(backend, (xid, true), tid)
    }

    /// The chunk of a long value that the transaction `xid` has stored at `tid` was never inserted.
    pub fn take_back_chunk(
        &self,
        backend: &mut Backend,
        xid: Xid,
        tid: ItemPointer,
    ) -> Result<(), AccessError> {
        self.revoke(backend, (xid, false), tid)
    }

    fn revoke(
        &self,
        backend: &mut Backend,
        (xid, tentative): (Xid, bool),
        tid: ItemPointer,
    ) -> Result<(), AccessError> {
        self.settle(backend, (xid, tentative), tid, |guard| {
            guard.page_mut().note_prunable(xid);
            store(guard, tid, |tuple| {
                let old = ht::HEAP_XMAX_BITS | ht::HEAP_MOVED_OFF | ht::HEAP_MOVED_IN;
                tuple.set_infomask(tuple.tuple().infomask() & !old);
                tuple.set_infomask2(tuple.tuple().infomask2() & !ht::HEAP_KEYS_UPDATED);
                // No transaction has inserted it.
                tuple.set_xmin(0);
                tuple.set_ctid(tid);
            })?;
            let (xmax, offset, flags) = (xid, tid.offset, heap::DELETE_IS_SUPER);
            let delete = heap::HeapDelete { xmax, offset, infobits: 0, flags };
            Ok((heap::DELETE, delete.encode().to_vec()))
        })
    }

    /// Changes the header of a row, with a record of the kind and contents that `change` returns.
    /// `tentative`: the row must be.
    fn settle(
        &self,
        backend: &mut Backend,
        (xid, tentative): (Xid, bool),
        tid: ItemPointer,
        change: impl FnOnce(&mut PageWriteGuard<'_>) -> Result<(u8, Vec<u8>), AccessError>,
    ) -> Result<(), AccessError> {
        self.ensure_log_room(backend)?;
        let pin = self.pool.read(backend, self.tag(tid.block), Strategy::Normal)?;
        let mut guard = pin.lock_exclusive();
        let tuple = tuple_at(guard.page(), guard.tag(), tid.offset)?;
        let fits = |t: HeapTuple<'_>| match t.speculative_token() {
            Some(_) => true,
            None => !tentative && t.xmax_kind() == Xmax::None,
        };
        let own = tuple.is_some_and(|t| t.xmin() == xid && fits(t));
        if !own {
            let problem = format!("there is no tentative row of transaction {xid}");
            return Err(self.located(tid, AccessError::Corrupt(problem)));
        }
        critical(self.failure.as_ref(), "could not settle an insertion", || {
            guard.mark_dirty();
            let (kind, main) = change(&mut guard)?;
            if !self.logged {
                return Ok(());
            }
            let kind = (Rmgr::HEAP, kind);
            self.log_header_change(backend, &mut guard, Cleared::default(), kind, xid, &main)
        })
    }
}

/// Changes the header of a tuple that was read under the page's lock.
fn store(
    guard: &mut PageWriteGuard<'_>,
    tid: ItemPointer,
    change: impl FnOnce(&mut HeapTupleMut<'_>),
) -> Result<(), AccessError> {
    let mut page = guard.page_mut();
    let item = page.item_mut(tid.offset).expect("the tuple was read under this lock");
    change(&mut HeapTupleMut::new(item)?);
    Ok(())
}
