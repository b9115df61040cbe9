//! The values of a column in a sample.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::cmp::Ordering;

use forebay_access::heap::{Sample, SampledRow};
use forebay_access::nbtree::KeyOrder;
use forebay_catalog::{Column, Table};
use forebay_format::HeapTuple;
use forebay_format::tuple::Deform;
use forebay_format::varlena::{self, MAX_SHORT_PAYLOAD, SHORT_HEADER_SIZE, Varlena, decompress};

use crate::error::EngineError;

/// Bytes of a value beyond which it is not looked at: it is not likely to be there twice, and would
/// need much room.
const WIDE: usize = 1024;
/// Bytes of a pointer to a value that is stored out of line.
const POINTER: usize = 18;

/// The values of a column in a sample.
#[derive(Debug, Default)]
pub(super) struct ColumnValues {
    /// Rows of the sample.
    pub(super) rows: usize,
    /// Rows in which the column is NULL.
    pub(super) nulls: usize,
    /// Values that are too wide to be looked at.
    pub(super) wide: usize,
    /// Bytes of a value, on average.
    pub(super) width: i32,
    /// The other values in order, with their numbers in the order of their rows; equal ones too.
    /// None if the type has no order.
    pub(super) sorted: Option<Vec<(usize, Vec<u8>)>>,
    /// Where groups of equal values begin in them, and how many they are.
    pub(super) groups: Vec<(usize, usize)>,
}

/// A stored value with its size there.
struct Stored<'t> {
    size: usize,
    /// None: it is too wide.
    bytes: Option<Cow<'t, [u8]>>,
}

impl ColumnValues {
    /// Reads the values of a column, and sorts them if they have an order.
    pub(super) fn read(
        table: &Table,
        index: usize,
        order: Option<&KeyOrder>,
        sample: &Sample,
    ) -> Result<ColumnValues, EngineError> {
        let lost = || EngineError::internal("a column is gone");
        let column = table.columns.get(index).ok_or_else(lost)?;
        let mut values = ColumnValues { rows: sample.rows.len(), ..ColumnValues::default() };
        let (mut found, mut size) = (Vec::new(), 0_usize);
        for row in &sample.rows {
            let unreadable = |error: &dyn std::fmt::Display| {
                let (place, name) = (row.place, &table.name);
                EngineError::corrupt(format!("row {place} of relation \"{name}\": {error}"))
            };
            let stored = stored(table, column, index, row).map_err(|error| unreadable(&error))?;
            match stored {
                None => values.nulls += 1,
                Some(Stored { size: own, bytes }) => {
                    size += own;
                    match bytes {
                        None => values.wide += 1,
                        Some(bytes) => found.push((found.len(), bytes.into_owned())),
                    }
                }
            }
        }
        let present = values.rows - values.nulls;
        values.width = match (i32::from(column.layout.len), present) {
            (fixed, _) if fixed >= 0 => fixed,
            (_, 0) => 0,
            _ => (size as f64 / present as f64) as i32,
        };
        if let Some(order) = order {
            // A damaged value cannot be compared with itself either.
            for (_, value) in &found {
                order.compare(value, value)?;
            }
            values.sort(found, order);
        }
        Ok(values)
    }

    fn sort(&mut self, mut values: Vec<(usize, Vec<u8>)>, order: &KeyOrder) {
        let compare = |a: &[u8], b: &[u8]| order.compare(a, b).expect("comparable with themselves");
        values.sort_by(|(m, a), (n, b)| compare(a, b).then(m.cmp(n)));
        for (at, (_, value)) in values.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| values.get(before));
            let same = before.is_some_and(|(_, b)| compare(b, value) == Ordering::Equal);
            match self.groups.last_mut() {
                Some((_, count)) if same => *count += 1,
                _ => self.groups.push((at, 1)),
            }
        }
        self.sorted = Some(values);
    }
}

/// The value of a column in a row. None: NULL.
fn stored<'t>(
    table: &'t Table,
    column: &'t Column,
    index: usize,
    row: &'t SampledRow,
) -> Result<Option<Stored<'t>>, Box<dyn std::error::Error>> {
    let tuple = HeapTuple::new(&row.tuple)?;
    if index >= tuple.attribute_count() {
        // The row is older than the column.
        return Ok(column.missing.as_deref().map(|bytes| plain(column, bytes)));
    }
    let mut fields = Deform::new(tuple)?;
    let mut field = None;
    for layout in table.layouts.iter().take(index + 1) {
        field = fields.next(*layout)?;
    }
    Ok(match field {
        None => None,
        Some(Varlena::Plain(bytes)) => Some(plain(column, bytes)),
        Some(Varlena::Compressed { raw_size, method, data }) => {
            let size = varlena::HEADER_SIZE + size_of::<u32>() + data.len();
            let bytes = match is_wide(raw_size as usize) {
                true => None,
                false => Some(Cow::Owned(decompress(raw_size, method, data)?)),
            };
            Some(Stored { size, bytes })
        }
        // A value that is moved out is hardly ever as short as those that are looked at.
        Some(Varlena::External { .. }) => Some(Stored { size: POINTER, bytes: None }),
    })
}

fn is_wide(len: usize) -> bool {
    len + varlena::HEADER_SIZE > WIDE
}

/// A value that is stored as it is.
fn plain<'t>(column: &Column, bytes: &'t [u8]) -> Stored<'t> {
    if column.layout.len != -1 {
        return Stored { size: bytes.len(), bytes: Some(bytes.into()) };
    }
    let short = bytes.len() <= MAX_SHORT_PAYLOAD && !column.layout.plain;
    let header = if short { SHORT_HEADER_SIZE } else { varlena::HEADER_SIZE };
    let kept = (!is_wide(bytes.len())).then_some(bytes.into());
    Stored { size: header + bytes.len(), bytes: kept }
}
