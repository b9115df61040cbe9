//! Keys: forming index tuples, and comparing a search key with them.
//!
//! A key is compared column by column, then by heap TID, which makes all tuples of an index
//! different. What a pivot leaves out counts as less than any value. A search key may leave out
//! columns at its end, and the heap TID: then it stands for all tuples with its values, and the
//! search decides whether it stops before or behind them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::cmp::Ordering;

use forebay_format::index_page::IndexPageError;
use forebay_format::nbtree::{self as nb, MAX_ITEM_SIZE, NbtreeError, Opaque, Tuple};
use forebay_format::tuple::Deform;
use forebay_format::varlena::{Varlena, decompress};
use forebay_format::{AttrLayout, ItemPointer, OffsetNumber, Page, TupleError, index_tuple};
use forebay_types::{Datum, Encoding, ValueError};

use super::relation::{IndexShape, KeyColumn};
use crate::codec;
use crate::error::AccessError;

/// A stored value: its fixed-length image, or the bytes after its length word. None: NULL.
pub(crate) type Stored<'a> = Option<Cow<'a, [u8]>>;

/// Why tuples could not be compared. The caller adds the page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// A tuple is damaged.
    #[error(transparent)]
    Tuple(#[from] NbtreeError),
    /// A value is damaged.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A value is compressed or stored elsewhere, in a way that no index has.
    #[error("value {column} of an index tuple cannot be read")]
    Unreadable {
        /// The column, from 0.
        column: usize,
    },
}

impl From<IndexPageError> for KeyError {
    fn from(error: IndexPageError) -> KeyError {
        KeyError::Tuple(error.into())
    }
}

impl From<TupleError> for KeyError {
    fn from(error: TupleError) -> KeyError {
        KeyError::Tuple(error.into())
    }
}

/// Forms the index tuple of a row: one value for each column of the index.
///
/// # Panics
/// If a value has no stored form.
pub fn form_index_tuple(
    shape: &IndexShape,
    values: &[Datum<'_>],
    tid: ItemPointer,
) -> Result<Vec<u8>, AccessError> {
    let layouts = &shape.layouts;
    if layouts.len() != values.len() {
        let (values, layouts) = (values.len(), layouts.len());
        return Err(TupleError::WrongCount { values, layouts }.into());
    }
    let mut out = Vec::new();
    let mut tuple = index_tuple::start(values.len(), values.iter().any(Datum::is_null), &mut out)?;
    for (layout, value) in layouts.iter().zip(values) {
        codec::append(&mut tuple, *layout, value, shape.encoding)?;
    }
    index_tuple::finish(tuple, tid)?;
    Ok(out)
}

/// The stored form of one value of a column.
pub(super) fn stored_value(
    (layout, encoding): (AttrLayout, Encoding),
    value: &Datum<'_>,
) -> Result<Option<Vec<u8>>, AccessError> {
    let mut bytes = Vec::new();
    let mut tuple = index_tuple::start(1, value.is_null(), &mut bytes)?;
    codec::append(&mut tuple, layout, value, encoding)?;
    index_tuple::finish(tuple, ItemPointer::INVALID)?;
    let internal = |error: KeyError| AccessError::Internal(error.to_string());
    let tuple = Tuple::new(&bytes).map_err(|error| internal(error.into()))?;
    let mut values = values_of(&[layout], &tuple, 1).map_err(internal)?;
    Ok(values.pop().flatten().map(Cow::into_owned))
}

/// Refuses a tuple of which not three fit a page.
pub(super) fn check_size(shape: &IndexShape, tuple: &Tuple<'_>) -> Result<(), AccessError> {
    let size = tuple.size();
    if size <= MAX_ITEM_SIZE {
        return Ok(());
    }
    let tid = tuple.heap_tid().unwrap_or(ItemPointer::INVALID);
    Err(AccessError::IndexRowTooBig { size, index: shape.name.clone(), tid })
}

/// The first values of an index tuple, at most `count`. Fewer, if it is a pivot that has fewer.
pub(crate) fn values_of<'a>(
    layouts: &[AttrLayout],
    tuple: &Tuple<'a>,
    count: usize,
) -> Result<Vec<Stored<'a>>, KeyError> {
    let count = count.min(tuple.column_count(layouts.len()));
    let mut values = tuple.values(layouts.len());
    let each = layouts.iter().take(count).enumerate();
    each.map(|(column, layout)| readable(values.next(*layout)?, column)).collect()
}

/// The values of an index tuple, one after the other.
#[derive(Debug)]
pub struct EntryValues<'s, 'a> {
    layouts: std::slice::Iter<'s, AttrLayout>,
    values: Deform<'a>,
    column: usize,
}

impl IndexShape {
    /// The values of an index tuple that is no pivot.
    pub fn values<'a>(&self, tuple: Tuple<'a>) -> EntryValues<'_, 'a> {
        let values = tuple.values(self.layouts.len());
        EntryValues { layouts: self.layouts.iter(), values, column: 0 }
    }
}

impl<'a> EntryValues<'_, 'a> {
    /// The stored form of the next value. None: NULL.
    ///
    /// # Errors
    /// If it is damaged, or if there is none.
    pub fn next_value(&mut self) -> Result<Option<Cow<'a, [u8]>>, AccessError> {
        let column = self.column;
        self.column += 1;
        let layout = self.layouts.next().ok_or(KeyError::Unreadable { column });
        let value = layout.and_then(|layout| readable(self.values.next(*layout)?, column));
        value.map_err(|error| AccessError::CorruptIndex(error.to_string()))
    }
}

/// The bytes of a value that was found in a tuple.
#[inline]
pub(crate) fn readable(value: Option<Varlena<'_>>, column: usize) -> Result<Stored<'_>, KeyError> {
    Ok(match value {
        None => None,
        Some(Varlena::Plain(bytes)) => Some(Cow::Borrowed(bytes)),
        Some(Varlena::Compressed { raw_size, method, data }) => {
            let whole = decompress(raw_size, method, data);
            Some(Cow::Owned(whole.map_err(|_| KeyError::Unreadable { column })?))
        }
        Some(Varlena::External(_)) => return Err(KeyError::Unreadable { column }),
    })
}

impl KeyColumn {
    /// Orders two values as the column does, NULLs included.
    #[inline]
    pub(crate) fn compare(
        &self,
        a: Option<&[u8]>,
        b: Option<&[u8]>,
    ) -> Result<Ordering, ValueError> {
        let null = |first: bool| if first { Ordering::Less } else { Ordering::Greater };
        Ok(match (a, b) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => null(self.nulls_first),
            (Some(_), None) => null(!self.nulls_first),
            (Some(a), Some(b)) => match self.order.compare(a, b)? {
                order if self.descending => order.reverse(),
                order => order,
            },
        })
    }
}

/// What a search looks for.
#[derive(Debug, Clone)]
pub(super) struct SearchKey<'a> {
    /// Values of the first key columns.
    pub(super) values: Vec<Stored<'a>>,
    /// The heap TID, if the key stands for one tuple.
    pub(super) tid: Option<ItemPointer>,
    /// Find the first tuple that is greater than the key; otherwise the first that is not less.
    pub(super) after_equal: bool,
    /// Find the last tuple before that instead.
    pub(super) backward: bool,
}

impl<'a> SearchKey<'a> {
    /// The first tuple that has at least these values.
    pub(super) fn of_values(values: Vec<Stored<'a>>) -> SearchKey<'a> {
        SearchKey { values, tid: None, after_equal: false, backward: false }
    }

    /// For a tuple: its key columns, without a heap TID.
    pub(super) fn of_tuple(shape: &IndexShape, tuple: &Tuple<'a>) -> Result<Self, KeyError> {
        values_of(&shape.layouts, tuple, shape.keys.len()).map(SearchKey::of_values)
    }

    /// The same key with values of its own.
    pub(super) fn into_owned(self) -> SearchKey<'static> {
        let own = |value: Stored<'a>| value.map(|bytes| Cow::Owned(bytes.into_owned()));
        SearchKey { values: self.values.into_iter().map(own).collect(), ..self }
    }

    pub(super) fn has_nulls(&self) -> bool {
        self.values.iter().any(Option::is_none)
    }

    /// Orders the key and a tuple.
    pub(super) fn compare(
        &self,
        shape: &IndexShape,
        tuple: &Tuple<'_>,
    ) -> Result<Ordering, KeyError> {
        let columns = tuple.column_count(shape.layouts.len());
        let mut theirs = tuple.values(shape.layouts.len());
        let keys = shape.keys.iter().zip(&shape.layouts).zip(&self.values);
        for (column, ((key, layout), ours)) in keys.enumerate().take(columns) {
            let theirs = readable(theirs.next(*layout)?, column)?;
            match key.compare(ours.as_deref(), theirs.as_deref())? {
                Ordering::Equal => {}
                different => return Ok(different),
            }
        }
        if self.values.len() > columns {
            return Ok(Ordering::Greater);
        }
        Ok(self.compare_tid(columns, tuple))
    }

    /// Orders the key and a tuple whose values are equal, as far as it has them.
    fn compare_tid(&self, columns: usize, tuple: &Tuple<'_>) -> Ordering {
        match (self.tid, tuple.heap_tid()) {
            // A pivot without heap TID is less than all tuples that begin with its values. A search
            // that goes forward has nothing to look for to its left.
            (None, None) if !self.backward && self.values.len() == columns => Ordering::Greater,
            (None, _) => Ordering::Equal,
            (Some(_), None) => Ordering::Greater,
            (Some(ours), Some(first)) => {
                let last = tuple.max_heap_tid().unwrap_or(first);
                if ours < first {
                    Ordering::Less
                } else if ours > last {
                    Ordering::Greater
                } else {
                    Ordering::Equal
                }
            }
        }
    }

    /// Orders the key and an item. The first item of a page above the leaves is less than any key.
    pub(super) fn compare_item(
        &self,
        shape: &IndexShape,
        page: Page<'_>,
        opaque: &Opaque,
        n: OffsetNumber,
    ) -> Result<Ordering, KeyError> {
        if !opaque.is_leaf() && n == opaque.first_data_item() {
            return Ok(Ordering::Greater);
        }
        self.compare(shape, &Tuple::new(nb::item(page, n)?)?)
    }

    /// Whether the search goes on behind a tuple that compares to the key like this.
    #[inline]
    pub(super) fn is_behind(&self, order: Ordering) -> bool {
        if self.after_equal { order != Ordering::Less } else { order == Ordering::Greater }
    }

    /// The first data item behind which the search does not go on, or the number behind the last.
    pub(super) fn first_not_behind(
        &self,
        shape: &IndexShape,
        page: Page<'_>,
        opaque: &Opaque,
    ) -> Result<OffsetNumber, KeyError> {
        let all = (opaque.first_data_item(), page.item_count() + 1);
        self.first_not_behind_of(shape, page, opaque, all)
    }

    /// The same among the items from one number to before another one. The latter if there is none.
    fn first_not_behind_of(
        &self,
        shape: &IndexShape,
        page: Page<'_>,
        opaque: &Opaque,
        (mut low, mut high): (OffsetNumber, OffsetNumber),
    ) -> Result<OffsetNumber, KeyError> {
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_behind(self.compare_item(shape, page, opaque, middle)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The first item of a leaf at which a scan goes on that has come to item `n`. What it looks
    /// for is mostly near. One number beyond the page's items if they all lie before the key.
    pub(super) fn seek(
        &self,
        shape: &IndexShape,
        page: Page<'_>,
        opaque: &Opaque,
        n: OffsetNumber,
    ) -> Result<OffsetNumber, KeyError> {
        let (first, end) = (opaque.first_data_item(), page.item_count() + 1);
        let (mut low, mut high) = (first, end);
        let (mut at, mut step) = (n, 1);
        while (first..end).contains(&at) {
            let behind = self.is_behind(self.compare_item(shape, page, opaque, at)?);
            if behind {
                low = at + 1;
            } else {
                high = at;
            }
            if behind == self.backward {
                break;
            }
            at = if self.backward { at.saturating_sub(step) } else { at.saturating_add(step) };
            step = step.saturating_mul(2);
        }
        let found = self.first_not_behind_of(shape, page, opaque, (low, high))?;
        Ok(if self.backward { found - 1 } else { found })
    }
}

/// Number of columns that a pivot between two neighbouring tuples needs: up to the first one that
/// differs. One more than the key columns if none does, so that a heap TID is needed.
pub(super) fn columns_to_separate(
    shape: &IndexShape,
    left: &Tuple<'_>,
    right: &Tuple<'_>,
) -> Result<usize, KeyError> {
    first_difference(shape, left, right, |key, a, b| Ok(key.compare(a, b)?.is_ne()))
}

/// The same as far as the bytes of the values tell: a good guess, and exact for values that are
/// equal only if their bytes are.
pub(super) fn columns_to_tell_apart(
    shape: &IndexShape,
    left: &Tuple<'_>,
    right: &Tuple<'_>,
) -> Result<usize, KeyError> {
    first_difference(shape, left, right, |_, a, b| Ok(a != b))
}

/// The first key column, counted from 1, in which two tuples differ; one more than the columns that
/// both have if they do not.
fn first_difference(
    shape: &IndexShape,
    left: &Tuple<'_>,
    right: &Tuple<'_>,
    differ: impl Fn(&KeyColumn, Option<&[u8]>, Option<&[u8]>) -> Result<bool, KeyError>,
) -> Result<usize, KeyError> {
    let columns = shape.layouts.len();
    let count = shape.keys.len().min(left.column_count(columns)).min(right.column_count(columns));
    let (mut left, mut right) = (left.values(columns), right.values(columns));
    let keys = shape.keys.iter().zip(&shape.layouts).take(count).enumerate();
    for (column, (key, layout)) in keys {
        let a = readable(left.next(*layout)?, column)?;
        let b = readable(right.next(*layout)?, column)?;
        if differ(key, a.as_deref(), b.as_deref())? {
            return Ok(column + 1);
        }
    }
    Ok(count + 1)
}
