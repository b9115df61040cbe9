//! A TOAST table, its index, and the rows in it.
//!
//! ```text
//!   table: chunk_id oid | chunk_seq int4 | chunk_data bytea, never compressed
//!   index: unique (chunk_id, chunk_seq)
//! ```
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::tuple::{Deform, HEAP_XMIN_FROZEN, HEAP_XMIN_INVALID, TupleBuilder};
use forebay_format::varlena::Varlena;
use forebay_format::{Align, AttrLayout, HeapTuple, Oid};
use forebay_storage::Backend;
use forebay_txn::locks::Interrupt;
use forebay_types::Datum;

use crate::error::AccessError;
use crate::heap::{Heap, ReadAhead};
use crate::nbtree::{BatchOptions, Condition, Direction, Index, IndexScan, Operator};

/// Bytes of a value in one row (TOAST_MAX_CHUNK_SIZE).
pub(crate) const CHUNK_SIZE: usize = 1996;

/// The columns of a TOAST table.
pub(crate) const LAYOUTS: [AttrLayout; 3] =
    [AttrLayout::INT4, AttrLayout::INT4, AttrLayout::plain_varlena(Align::Int)];

/// A TOAST table with what is needed to work on it.
#[derive(Debug, Clone)]
pub struct ToastTable {
    /// Its OID.
    pub oid: Oid,
    /// Its name, for messages.
    pub name: String,
    /// Its rows.
    pub heap: Heap,
    /// Its index, through which values are read.
    pub index: Index,
    /// Others that new chunks go to: those of a REINDEX CONCURRENTLY.
    pub others: Vec<Index>,
    /// How values are read ahead.
    pub ahead: ReadAhead,
    /// Ends a call with an error.
    pub interrupt: Interrupt,
}

/// A part of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) value: Oid,
    pub(super) number: i32,
    pub(super) data: Varlena<'a>,
}

impl<'a> Chunk<'a> {
    /// Reads a row. None if it is one that no reader of a value may see: what a speculative
    /// insertion has left.
    pub(super) fn read(tuple: HeapTuple<'a>) -> Result<Option<Chunk<'a>>, AccessError> {
        if !is_inserted(tuple) {
            return Ok(None);
        }
        let mut walk = Deform::new(tuple)?;
        let [value, number, data] = LAYOUTS.map(|layout| walk.next(layout));
        let word = |value: Option<Varlena<'_>>| match value {
            Some(Varlena::Plain(bytes)) => bytes.first_chunk().copied(),
            _ => None,
        };
        let missing = || AccessError::Corrupt("a chunk of a toast value has a NULL".to_owned());
        Ok(Some(Chunk {
            value: Oid::from_le_bytes(word(value?).ok_or_else(missing)?),
            number: i32::from_le_bytes(word(number?).ok_or_else(missing)?),
            data: data?.ok_or_else(missing)?,
        }))
    }

    /// Appends the row to `out`.
    pub(super) fn form(&self, out: &mut Vec<u8>) -> Result<(), AccessError> {
        let [value, number, data] = LAYOUTS;
        let mut tuple = TupleBuilder::new(LAYOUTS.len(), false, out)?;
        tuple.fixed(value, self.value.to_le_bytes())?;
        tuple.fixed(number, self.number.to_le_bytes())?;
        tuple.varlena(data, self.data)?;
        tuple.finish()?;
        Ok(())
    }
}

/// Whether a reader of a value may see a row: it is none that a speculative insertion has left.
pub(super) fn is_inserted(tuple: HeapTuple<'_>) -> bool {
    tuple.infomask() & HEAP_XMIN_FROZEN != HEAP_XMIN_INVALID && tuple.xmin() != 0
}

impl ToastTable {
    /// A scan of the entries of a value's chunks, from one number to another.
    pub(super) fn scan(
        &self,
        value: Oid,
        numbers: Option<(i32, i32)>,
    ) -> Result<IndexScan, AccessError> {
        let shape = &self.index.shape;
        let condition = |column, operator, value| Condition::new(shape, column, operator, &value);
        let mut conditions = vec![condition(0, Operator::Equal, Datum::Oid(value))?];
        if let Some((first, last)) = numbers {
            conditions.push(condition(1, Operator::GreaterOrEqual, Datum::Int4(first))?);
            conditions.push(condition(1, Operator::LessOrEqual, Datum::Int4(last))?);
        }
        let scan = self.index.scan(conditions, BatchOptions::default());
        Ok(scan.interruptible(self.interrupt.clone()))
    }

    /// Whether there are chunks of a value, seen or not.
    pub(super) fn has(&self, backend: &mut Backend, value: Oid) -> Result<bool, AccessError> {
        Ok(self.scan(value, None)?.first(backend, Direction::Forward)?.is_some())
    }
}
