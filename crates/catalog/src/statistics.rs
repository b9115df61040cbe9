//! The planner's statistics of columns. `statistic_rows.rs` reads and writes their rows.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::AttrLayout;
use forebay_format::page::MAX_HEAP_TUPLE_SIZE;
use forebay_format::varlena::{HEADER_SIZE as LENGTH_WORD, long_header};

/// Bytes of a row of pg_statistic up to its numbers: header, bitmap, columns.
const FIXED_PART: usize = 112;
/// Bytes of an array up to its elements, and of the padding before it.
const ARRAY_HEADER: usize = 24 + 8;

/// The statistics of a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStatistics {
    /// stanullfrac: the part of the rows in which it is NULL.
    pub null_fraction: f32,
    /// stawidth: bytes of a value, on average.
    pub width: i32,
    /// stadistinct: the number of different values; below 0, their part of the number of rows; 0:
    /// not known.
    pub distinct: f32,
    /// The most common values as they are stored, with the part of the rows that has them.
    pub common: Vec<(Vec<u8>, f32)>,
    /// Bounds between parts of equal size of the other values, as they are stored.
    pub histogram: Vec<Vec<u8>>,
    /// Between the order of the values and that of the rows, from -1 to 1.
    pub correlation: Option<f32>,
}

impl ColumnStatistics {
    /// Whether its row fits on a page.
    pub fn fits(&self, layout: AttrLayout) -> bool {
        let values = |list: &mut dyn Iterator<Item = &Vec<u8>>| -> usize {
            list.map(|value| element(layout, value).len()).sum::<usize>() + ARRAY_HEADER
        };
        let common = values(&mut self.common.iter().map(|(value, _)| value));
        let numbers = self.common.len() * size_of::<f32>() + ARRAY_HEADER;
        let histogram = values(&mut self.histogram.iter());
        let correlation = size_of::<f32>() + ARRAY_HEADER;
        FIXED_PART + common + numbers + histogram + correlation <= MAX_HEAP_TUPLE_SIZE
    }
}

/// The statistics of a table's columns, in the order of the columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableStatistics(pub Vec<Option<ColumnStatistics>>);

impl TableStatistics {
    /// The statistics of a column, by its index.
    pub fn column(&self, index: usize) -> Option<&ColumnStatistics> {
        self.0.get(index)?.as_ref()
    }
}

/// A value as an element of an array: with a length word if its length varies, and padding.
pub(crate) fn element(layout: AttrLayout, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + LENGTH_WORD + layout.align as usize);
    if layout.len == -1 {
        bytes.extend(long_header(value.len()));
    }
    bytes.extend_from_slice(value);
    bytes.resize(layout.align.up(bytes.len()), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_that_do_not_fit_on_a_page_are_known() {
        let of = |len: usize| ColumnStatistics {
            histogram: vec![vec![b'x'; len]; 101],
            ..ColumnStatistics::default()
        };
        assert!(of(70).fits(AttrLayout::VARLENA));
        assert!(!of(80).fits(AttrLayout::VARLENA));
    }
}
