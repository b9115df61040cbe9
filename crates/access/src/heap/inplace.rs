//! Overwriting values of a catalog's row in place, without a newer version.
//!
//! What changes so is not transactional: everybody sees it at once, and an abort does not undo it.
//! Vacuum stores its results this way. Two such changes of a row exclude each other by the page's
//! lock, since each one reads the values under it. An ordinary update of the row must be excluded
//! by the caller: it would begin a newer version from values that it has read before.

use forebay_format::ids::INVALID_XID;
use forebay_format::tuple::HeapTuple;
use forebay_format::wal::Rmgr;
use forebay_format::wal::heap::{self, HeapInplace};
use forebay_format::{CommandId, ItemPointer, Oid};
use forebay_storage::{Backend, Strategy};
use forebay_txn::{Transaction, XactManager};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::changer::Changer;
use super::critical::critical;
use super::insert::Author;
use super::outcomes::RowSets;
use super::relation::Heap;
use super::status::{TupleStatus, tuple_status};
use crate::error::AccessError;

/// What the record of such a change tells beside the new values.
#[derive(Debug, Clone)]
pub struct Announcement {
    /// The database in which it is made, and its tablespace.
    pub database: (Oid, Oid),
    /// Whether PostgreSQL's file of cached relations is out of date.
    pub relcache_file: bool,
    /// Cache invalidations, as stored.
    pub invalidations: Vec<[u8; 16]>,
}

impl Heap {
    /// Overwrites values of the row at `tid`. `change` gets its bytes from the first value on, and
    /// returns whether it has changed them. Returns the same. The row may be one that the
    /// transaction has inserted.
    pub fn overwrite(
        &self,
        backend: &mut Backend,
        (xacts, tx): (&XactManager, &Transaction),
        tid: ItemPointer,
        announcement: Announcement,
        change: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool, AccessError> {
        self.ensure_log_room_to_delete(backend)?;
        let pin = self.pool.read(backend, self.tag(tid.block), Strategy::Normal)?;
        let mut guard = pin.lock_exclusive();
        let lost = || AccessError::Corrupt(format!("{}: row {} is gone", pin.tag(), tid.offset));
        let tuple = HeapTuple::new(guard.page().item(tid.offset).ok_or_else(lost)?)?;
        let sets = &mut RowSets::default();
        let author = Author { xid: INVALID_XID, command: CommandId::MAX };
        let mut observer = Changer { xacts, tx, author, sets, queues: None };
        match tuple_status(&mut backend.io, &mut observer, tuple)? {
            TupleStatus::Live | TupleStatus::Locked => {}
            status => {
                let what = format!("{}: row {} is {status:?}", pin.tag(), tid.offset);
                return Err(AccessError::Internal(what));
            }
        }
        let start = tuple.hoff();
        let mut values = tuple.bytes().get(start..).ok_or_else(lost)?.to_vec();
        if !change(&mut values) {
            return Ok(false);
        }
        let Announcement { database: (db, tablespace), relcache_file, invalidations } =
            announcement;
        let offset = tid.offset;
        let record = HeapInplace { offset, db, tablespace, relcache_file, invalidations };
        let main = record.encode();
        critical(self.failure.as_ref(), "could not overwrite a row", || {
            guard.mark_dirty();
            let mut page = guard.page_mut();
            let item = page.item_mut(offset).expect("the row was read under this lock");
            let stored = item.get_mut(start..).expect("its values were read");
            stored.copy_from_slice(&values);
            let (tag, flags) = (guard.tag(), BlockFlags::STANDARD);
            let block = BlockRef { id: 0, tag, page: Some(&guard), flags, data: &values };
            let (rmgr, info) = (Rmgr::HEAP, heap::INPLACE);
            let record = Record { rmgr, info, xid: INVALID_XID, main: &main, blocks: &[block] };
            let inserted = self.wal.insert(&mut backend.io, &record)?;
            guard.set_lsn(inserted.end);
            Ok(true)
        })
    }
}
