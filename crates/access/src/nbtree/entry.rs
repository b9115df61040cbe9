//! Index tuples of rows as they are stored.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::tuple::deform;
use forebay_format::varlena::{HEADER_SIZE, Method, Varlena, compress};
use forebay_format::{AttrLayout, HeapTuple, ItemPointer, TupleError, index_tuple};
use smallvec::{SmallVec, smallvec};

use super::relation::IndexShape;
use crate::error::AccessError;
use crate::index_expressions::{ComputedEntries, StoredValues, entry_values};

/// Longer values are compressed, if their column allows it (TOAST_INDEX_TARGET).
const COMPRESS_ABOVE: usize = 510;

/// The stored values of a row's first columns.
#[derive(Debug, Clone)]
pub struct RowValues<'a>(SmallVec<[Option<&'a [u8]>; 16]>);

impl<'a> RowValues<'a> {
    /// The values of the columns that have these layouts. None of them may be compressed or stored
    /// elsewhere.
    pub fn new(tuple: &'a [u8], layouts: &[AttrLayout]) -> Result<RowValues<'a>, AccessError> {
        let mut values = smallvec![None; layouts.len()];
        deform(HeapTuple::new(tuple)?, layouts, &mut values)?;
        Ok(RowValues(values))
    }

    /// The value of a column, by number from 0. None: NULL.
    pub fn get(&self, column: usize) -> Option<&'a [u8]> {
        self.0.get(column).copied().flatten()
    }

    /// Puts the index tuple of the row at `tid` into `out`, in place of what it holds. `columns`
    /// are those of the index.
    pub fn form_entry(
        &self,
        shape: &IndexShape,
        columns: impl Iterator<Item = usize> + Clone,
        tid: ItemPointer,
        out: &mut Vec<u8>,
    ) -> Result<(), AccessError> {
        out.clear();
        append_entry(shape, columns.map(|column| self.get(column)), tid, out)
    }

    /// The same for an index with expressions or a predicate. Returns the values of the
    /// expressions. None, and there is no tuple, if the predicate is not true.
    pub fn form_computed(
        &self,
        shape: &IndexShape,
        entries: &ComputedEntries,
        tid: ItemPointer,
        out: &mut Vec<u8>,
    ) -> Result<Option<StoredValues>, AccessError> {
        out.clear();
        let computed = entries.expressions.evaluate(&|column| self.get(column))?;
        let Some(computed) = computed else { return Ok(None) };
        let values = entry_values(&entries.sources, |column| self.get(column), &computed);
        append_entry(shape, values, tid, out)?;
        Ok(Some(computed))
    }
}

/// Appends the index tuple of a row at `tid` to a buffer, whose length is a multiple of 8. The
/// values are those of the table's columns, as stored there.
pub(crate) fn append_entry<'v>(
    shape: &IndexShape,
    values: impl Iterator<Item = Option<&'v [u8]>> + Clone,
    tid: ItemPointer,
    out: &mut Vec<u8>,
) -> Result<(), AccessError> {
    let layouts = &shape.layouts;
    let has_null = values.clone().any(|value| value.is_none());
    let mut tuple = index_tuple::start(layouts.len(), has_null, out)?;
    let mut formed = 0;
    for (layout, value) in layouts.iter().zip(values) {
        let method = shape.compression.get(formed).copied().flatten();
        formed += 1;
        match value {
            None => tuple.null(),
            // A name that an index keeps without the zeros that fill it.
            Some(name) if layout.len == AttrLayout::CSTRING.len => {
                let text = name.split(|&byte| byte == 0).next().unwrap_or_default();
                tuple.value(*layout, text)?;
            }
            Some(value) => match compressed(value, method) {
                Some((method, data)) => {
                    let (raw_size, method) = (value.len() as u32, method as u8);
                    tuple
                        .varlena(*layout, Varlena::Compressed { raw_size, method, data: &data })?;
                }
                None => tuple.value(*layout, value)?,
            },
        }
    }
    if formed != layouts.len() {
        let layouts = layouts.len();
        return Err(TupleError::WrongCount { values: formed, layouts }.into());
    }
    index_tuple::finish(tuple, tid)?;
    Ok(())
}

/// A value as an index has it, if it is long enough to be compressed.
#[inline]
fn compressed(value: &[u8], method: Option<Method>) -> Option<(Method, Vec<u8>)> {
    if value.len() + HEADER_SIZE <= COMPRESS_ABOVE {
        return None;
    }
    Some((method?, compress(value, method?)?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]
mod tests {
    use forebay_types::{Datum, Encoding, oids};

    use super::*;
    use crate::codec::{form_row, layout_of};
    use crate::nbtree::{KeyColumn, KeyOrder, form_index_tuple};

    #[test]
    fn an_entry_of_a_stored_row_is_that_of_its_values() {
        let types = [oids::INT8, oids::TEXT, oids::NAME, oids::BOOL];
        let table: Vec<AttrLayout> = types.iter().map(|&oid| layout_of(oid).unwrap()).collect();
        let rows = [
            [Datum::Int8(7), Datum::text("abc"), Datum::text("a name"), Datum::Bool(true)],
            [Datum::Null, Datum::text("x"), Datum::text(""), Datum::Null],
        ];
        // The index keeps the name as a C string.
        let columns = [2, 3, 0, 1];
        let layouts: Vec<AttrLayout> = columns.iter().map(|&c| table[c]).collect();
        let shape = IndexShape {
            name: "i".to_owned(),
            layouts: [&[AttrLayout::CSTRING], &layouts[1..]].concat(),
            compression: Vec::new(),
            keys: vec![KeyColumn::ascending(KeyOrder::Bytes)],
            nulls_are_equal: false,
            fill_factor: 90,
            deduplicate: true,
            of_catalog: false,
            encoding: Encoding::Utf8,
        };
        let (tid, mut entry) = (ItemPointer::new(3, 9), b"what was there".to_vec());
        for row in rows {
            let mut tuple = Vec::new();
            form_row(&table, &row, Encoding::Utf8, &mut tuple).unwrap();
            let values = RowValues::new(&tuple, &table).unwrap();
            values.form_entry(&shape, columns.into_iter(), tid, &mut entry).unwrap();
            let of_index: Vec<_> = columns.iter().map(|&c| row[c].reborrow()).collect();
            assert_eq!(entry, form_index_tuple(&shape, &of_index, tid).unwrap());
            let few = values.form_entry(&shape, [0].into_iter(), tid, &mut entry);
            assert!(few.is_err(), "a column is missing");
        }
    }

    #[test]
    fn long_values_are_compressed() {
        let shape = crate::nbtree::tests::shape(&[oids::TEXT, oids::BYTEA]);
        let shape = IndexShape { compression: vec![Some(Method::Pglz)], ..shape };
        let tid = ItemPointer::new(3, 9);
        for (len, size) in [(506, 1100), (507, 600), (4000, 4100)] {
            let value = vec![b'a'; len];
            let mut entry = Vec::new();
            append_entry(&shape, [Some(&value[..]); 2].into_iter(), tid, &mut entry).unwrap();
            assert!(entry.len() <= size, "{len}: {}", entry.len());
            let mut values = shape.values(forebay_format::nbtree::Tuple::new(&entry).unwrap());
            for _ in 0..2 {
                assert_eq!(values.next_value().unwrap().as_deref(), Some(&value[..]));
            }
        }
    }
}
