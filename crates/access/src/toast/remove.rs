//! Deleting the chunks of a value.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::varlena::ToastPointer;
use forebay_format::{ItemPointer, Xid};
use forebay_storage::Backend;

use super::relation::ToastTable;
use crate::error::AccessError;
use crate::heap::{Attempt, Changer, Refusal};
use crate::nbtree::Direction;

impl ToastTable {
    /// Deletes the chunks of a value, whose row the transaction has deleted or updated. Chunks that
    /// are missing are no error. Returns the number of chunks.
    pub fn remove(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        pointer: ToastPointer,
    ) -> Result<u64, AccessError> {
        forebay_aio::planted_bug!(backend.io.aio(), ToastDeletionSkipped, return Ok(0));
        self.each_chunk(backend, pointer, &mut |backend, tid| {
            let deleted = self.heap.delete(backend, changer, tid)?;
            let Attempt::Refused(refusal) = deleted else { return Ok(()) };
            if refusal == Refusal::Invisible && self.heap.any_version(backend, tid)?.is_none() {
                return Ok(());
            }
            let (value, name) = (pointer.value_id, &self.name);
            Err(AccessError::Corrupt(format!(
                "a chunk of toast value {value} in {name}, at {tid}, cannot be deleted: {refusal:?}"
            )))
        })
    }

    /// Takes the chunks of a value back that the transaction `xid` has stored for a row that it did
    /// not insert after all. Returns their number.
    pub fn take_back(
        &self,
        backend: &mut Backend,
        xid: Xid,
        pointer: ToastPointer,
    ) -> Result<u64, AccessError> {
        self.each_chunk(backend, pointer, &mut |backend, tid| {
            self.heap.take_back_chunk(backend, xid, tid)
        })
    }

    fn each_chunk(
        &self,
        backend: &mut Backend,
        pointer: ToastPointer,
        visit: &mut dyn FnMut(&mut Backend, ItemPointer) -> Result<(), AccessError>,
    ) -> Result<u64, AccessError> {
        let mut visited = 0;
        let scan = self.scan(pointer.value_id, None)?;
        let mut next = scan.first(backend, Direction::Forward)?;
        while let Some(batch) = next {
            for item in batch.items() {
                visit(backend, item.tid)?;
                visited += 1;
            }
            next = scan.next(backend, &batch, Direction::Forward)?;
        }
        Ok(visited)
    }
}
