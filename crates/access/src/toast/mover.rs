//! Moves the values of a table that is rewritten to a new file of its TOAST table.
//!
//! The chunks belong to the transaction that rewrites the table. Values keep their ids, so that the
//! pointers of two versions that share a value stay equal. The index is built when all are there.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashSet;

use forebay_format::tuple::HeapTupleMut;
use forebay_format::varlena::{ToastPointer, Varlena};
use forebay_format::{BlockNumber, Oid};
use forebay_storage::Backend;

use super::relation::{Chunk, ToastTable};
use super::store::Body;
use crate::error::AccessError;
use crate::heap::{Author, NewPages};

/// Proposes ids for values.
pub(crate) type NextId<'a> = &'a mut dyn FnMut(&mut Backend) -> Result<Oid, AccessError>;

/// Moves values of a TOAST table.
#[derive(Debug)]
pub(crate) struct Mover<'a> {
    /// The table as it was.
    pub(crate) old: &'a ToastTable,
    pages: NewPages<'a>,
    author: Author,
    /// Ids in the new file that another version may have, too, and new ones.
    moved: HashSet<Oid>,
    /// Chunks in the new file.
    pub(crate) chunks: u64,
    /// Buffers, reused from chunk to chunk.
    data: Vec<u8>,
    tuple: Vec<u8>,
}

impl<'a> Mover<'a> {
    /// To an empty file.
    pub(crate) fn new(old: &'a ToastTable, pages: NewPages<'a>, author: Author) -> Mover<'a> {
        let (moved, data, tuple) = (HashSet::new(), Vec::new(), Vec::new());
        Mover { old, pages, author, moved, chunks: 0, data, tuple }
    }

    /// Puts a value into the new file, unless it is there. `old` leads to it in the old file, if it
    /// was stored out of line; `shared` says that another version may have the same value.
    pub(crate) fn store(
        &mut self,
        backend: &mut Backend,
        value: Varlena<'_>,
        (old, shared): (Option<ToastPointer>, bool),
        next_id: NextId<'_>,
    ) -> Result<ToastPointer, AccessError> {
        let body = Body::new(value)?;
        let id = match old {
            Some(old) => old.value_id,
            None => self.new_id(backend, next_id)?,
        };
        let pointer = body.pointer(self.old.oid, id);
        let is_new = if shared || old.is_none() { self.moved.insert(id) } else { true };
        if is_new {
            for number in 0..body.chunks() {
                self.put(backend, id, body, number)?;
            }
        }
        Ok(pointer)
    }

    /// An id that no value has, in the old file or in the new one.
    fn new_id(&self, backend: &mut Backend, next_id: NextId<'_>) -> Result<Oid, AccessError> {
        loop {
            let id = next_id(backend)?;
            if !self.moved.contains(&id) && !self.old.has(backend, id)? {
                return Ok(id);
            }
        }
    }

    fn put(
        &mut self,
        backend: &mut Backend,
        value: Oid,
        body: Body<'_>,
        number: usize,
    ) -> Result<(), AccessError> {
        if let Some(kind) = self.old.interrupt.pending() {
            return Err(AccessError::Interrupted(kind));
        }
        body.chunk(number, &mut self.data);
        self.tuple.clear();
        let chunk = Chunk { value, number: number as i32, data: Varlena::Plain(&self.data) };
        chunk.form(&mut self.tuple)?;
        let Author { xid, command } = self.author;
        HeapTupleMut::new(&mut self.tuple)?.stamp_insert(xid, command);
        self.pages.add(backend, &self.tuple, None)?;
        self.chunks += 1;
        Ok(())
    }

    /// Ends the new file. Returns the number of its blocks.
    pub(crate) fn finish(self, backend: &mut Backend) -> Result<BlockNumber, AccessError> {
        self.pages.finish(backend)
    }
}
