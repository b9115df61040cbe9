//! Putting values into a TOAST table.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;

use forebay_aio::planted_bug;
use forebay_format::ItemPointer;
use forebay_format::varlena::{HEADER_SIZE, ToastPointer, Varlena, compression_info};
use forebay_storage::{Backend, Strategy};
use forebay_types::{Datum, Oid};

use super::relation::{CHUNK_SIZE, Chunk, ToastTable};
use crate::error::AccessError;
use crate::heap::{Author, RowJudge, TupleBatch};
use crate::nbtree::{Insertion, NewRow, UniqueCheck, form_index_tuple};

/// Chunks that are inserted together: half a megabyte.
const CHUNKS_AT_ONCE: usize = 256;
/// A value of more chunks is stored as bulk work.
const MANY_CHUNKS: usize = 32;

/// Puts values into a TOAST table, in the name of a command.
#[derive(Debug)]
pub struct Storer<'a> {
    table: &'a ToastTable,
    author: Author,
    rows: RowJudge<'a>,
    /// Buffers, reused from value to value.
    batch: TupleBatch,
    places: Vec<ItemPointer>,
    stored: u64,
}

/// The bytes of a value as they are cut into chunks.
#[derive(Clone, Copy)]
pub(super) struct Body<'a> {
    /// The size and method of a compressed value.
    info: Option<(u32, [u8; 4])>,
    data: &'a [u8],
    method: u8,
}

impl<'a> Body<'a> {
    /// That of a value that is not stored yet.
    pub(super) fn new(value: Varlena<'a>) -> Result<Body<'a>, AccessError> {
        Ok(match value {
            Varlena::Plain(data) => Body { info: None, data, method: 0 },
            Varlena::Compressed { raw_size, method, data } => {
                let info = compression_info(raw_size, method).to_le_bytes();
                Body { info: Some((raw_size, info)), data, method }
            }
            Varlena::External(_) => {
                return Err(AccessError::Internal("the value is stored already".to_owned()));
            }
        })
    }

    fn info(&self) -> &[u8] {
        self.info.as_ref().map_or(&[], |(_, info)| info)
    }

    fn len(self) -> usize {
        self.info().len() + self.data.len()
    }

    pub(super) fn chunks(self) -> usize {
        self.len().div_ceil(CHUNK_SIZE)
    }

    /// The pointer to it.
    pub(super) fn pointer(self, toast_rel: Oid, value_id: Oid) -> ToastPointer {
        let size = self.info.map_or(self.data.len() as u32, |(raw_size, _)| raw_size);
        ToastPointer {
            raw_size: size + HEADER_SIZE as u32,
            ext_info: compression_info(self.len() as u32, self.method),
            value_id,
            toast_rel,
        }
    }

    /// Puts the bytes of a chunk in place of those in `out`.
    pub(super) fn chunk(self, number: usize, out: &mut Vec<u8>) {
        let from = number * CHUNK_SIZE;
        let bytes = self.info().iter().skip(from);
        out.clear();
        out.extend(bytes);
        let from = from.saturating_sub(self.info().len());
        let end = self.data.len().min(from + CHUNK_SIZE - out.len());
        out.extend_from_slice(self.data.get(from..end).unwrap_or_default());
    }
}

impl<'a> Storer<'a> {
    /// For a command. `rows` judges the rows of the TOAST table.
    pub fn new(table: &'a ToastTable, author: Author, rows: RowJudge<'a>) -> Storer<'a> {
        Storer { table, author, rows, batch: TupleBatch::new(), places: Vec::new(), stored: 0 }
    }

    /// How many chunks it has stored.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// Stores a value under a new id, which `next_id` proposes. Returns the pointer to it.
    pub fn store(
        &mut self,
        backend: &mut Backend,
        value: Varlena<'_>,
        next_id: &mut dyn FnMut(&mut Backend) -> Result<Oid, AccessError>,
    ) -> Result<ToastPointer, AccessError> {
        let body = Body::new(value)?;
        let value_id = loop {
            let id = next_id(backend)?;
            if !self.table.has(backend, id)? {
                break id;
            }
        };
        self.put(backend, value_id, body)?;
        Ok(body.pointer(self.table.oid, value_id))
    }

    fn put(
        &mut self,
        backend: &mut Backend,
        value: Oid,
        body: Body<'_>,
    ) -> Result<(), AccessError> {
        let chunks = body.chunks();
        let strategy = if chunks > MANY_CHUNKS { Strategy::BulkWrite } else { Strategy::Normal };
        let mut data = Vec::with_capacity(CHUNK_SIZE);
        let mut first = 0;
        while first < chunks {
            if let Some(kind) = self.table.interrupt.pending() {
                return Err(AccessError::Interrupted(kind));
            }
            let end = chunks.min(first + CHUNKS_AT_ONCE);
            self.batch.clear();
            for number in first..end {
                body.chunk(number, &mut data);
                let chunk = Chunk { value, number: number as i32, data: Varlena::Plain(&data) };
                self.batch.push_with(|out| chunk.form(out))?;
            }
            self.places.clear();
            let Storer { table, author, batch, places, .. } = self;
            let mut heap = Cow::Borrowed(&table.heap);
            planted_bug!(backend.io.aio(), ToastChunksNotLogged, heap.to_mut().logged = false);
            heap.insert_batch(backend, *author, batch, strategy, Some(places))?;
            self.stored += self.batch.len() as u64;
            self.add_entries(backend, value, first)?;
            first = end;
        }
        Ok(())
    }

    /// Adds the entries of the chunks that were inserted last, whose numbers begin with `first`.
    fn add_entries(
        &mut self,
        backend: &mut Backend,
        value: Oid,
        first: usize,
    ) -> Result<(), AccessError> {
        let ToastTable { index, others, .. } = self.table;
        for (number, &place) in (first..).zip(&self.places) {
            let key = [Datum::Oid(value), Datum::Int4(number as i32)];
            let tuple = form_index_tuple(&index.shape, &key, place)?;
            let row = NewRow {
                tuple: &tuple,
                xid: self.author.xid,
                unique: UniqueCheck::Yes,
                unchanged: false,
            };
            for index in std::iter::once(index).chain(others) {
                if index.insert(backend, &mut self.rows, row)? == Insertion::Done {
                    continue;
                }
                let name = &self.table.name;
                let problem = format!("chunk {number} of toast value {value} is in {name} already");
                return Err(AccessError::Corrupt(problem));
            }
        }
        Ok(())
    }
}
