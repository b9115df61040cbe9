//! What the catalogs say of a B-tree; comparing and hashing its tuples.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};

use forebay_format::AttrLayout;
use forebay_format::nbtree::Tuple;

use crate::nbtree::{KeyColumn, KeyError, values_of};

/// What the catalogs say of a B-tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BtreeShape {
    /// How the values of its columns lie in a tuple: first the key columns, then included ones.
    pub layouts: Vec<AttrLayout>,
    /// Number of key columns.
    pub keys: usize,
    /// The first key columns, as far as the order of their values is known.
    pub ordered: Vec<KeyColumn>,
    /// Whether keys must be unique.
    pub unique: bool,
    /// Whether NULLs count as equal where keys must be unique.
    pub nulls_are_equal: bool,
}

impl BtreeShape {
    /// Whether the order of all key columns is known.
    pub fn is_ordered(&self) -> bool {
        self.ordered.len() == self.keys
    }

    /// Orders two tuples; what a pivot leaves out is less than any value. `None`: that depends on
    /// columns whose order is not known.
    pub(super) fn compare(
        &self,
        a: &Tuple<'_>,
        b: &Tuple<'_>,
    ) -> Result<Option<Ordering>, KeyError> {
        let [ours, theirs] = [a, b].map(|tuple| tuple.column_count(self.keys).min(self.keys));
        let [left, right] = [a, b].map(|tuple| self.ordered_values(tuple));
        for (key, (left, right)) in self.ordered.iter().zip(left?.iter().zip(&right?)) {
            match key.compare(left.as_deref(), right.as_deref())? {
                Ordering::Equal => {}
                different => return Ok(Some(different)),
            }
        }
        if !self.is_ordered() && ours.min(theirs) > self.ordered.len() {
            return Ok(None);
        }
        let first = (ours, a.max_heap_tid());
        Ok(Some(first.cmp(&(theirs, b.heap_tid()))))
    }

    /// Whether two tuples of leaves have equal keys. Where the order of a column is not known,
    /// values are equal if their bytes are.
    pub(super) fn have_equal_keys(&self, a: &Tuple<'_>, b: &Tuple<'_>) -> Result<bool, KeyError> {
        let [left, right] = [a, b].map(|tuple| values_of(&self.layouts, tuple, self.keys));
        for (column, (left, right)) in left?.iter().zip(&right?).enumerate() {
            let equal = match self.ordered.get(column) {
                Some(key) => key.compare(left.as_deref(), right.as_deref())?.is_eq(),
                None => left == right,
            };
            if !equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn ordered_values<'a>(
        &self,
        tuple: &Tuple<'a>,
    ) -> Result<Vec<crate::nbtree::Stored<'a>>, KeyError> {
        values_of(&self.layouts, tuple, self.ordered.len())
    }

    /// Hashes of the key columns and of all columns of a leaf's tuple. The first one is `None` if
    /// the key may be there several times because of its NULLs.
    pub(super) fn hashes(&self, tuple: &Tuple<'_>) -> Result<(Option<u64>, u32), KeyError> {
        let values = values_of(&self.layouts, tuple, self.layouts.len())?;
        let mut hash = RowHash::default();
        let mut key = None;
        let mut may_repeat = false;
        for (column, value) in values.iter().enumerate() {
            hash.add(value.as_deref());
            may_repeat |= column < self.keys && value.is_none() && !self.nulls_are_equal;
            if column + 1 == self.keys {
                key = Some(hash.key()).filter(|_| !may_repeat);
            }
        }
        Ok((key, hash.row()))
    }
}

/// Hashes the values of a row, as an index has them.
#[derive(Default)]
pub(super) struct RowHash(DefaultHasher);

impl RowHash {
    pub(super) fn add(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.0.write_u64(u64::MAX),
            Some(bytes) => {
                self.0.write_u64(bytes.len() as u64);
                self.0.write(bytes);
            }
        }
    }

    fn key(&self) -> u64 {
        self.0.finish()
    }

    pub(super) fn row(&self) -> u32 {
        self.0.finish() as u32
    }
}
