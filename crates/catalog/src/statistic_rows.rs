//! Statistics of columns: rows of pg_statistic.
//!
//! A row has five slots, each with a kind, an operator, a collation, numbers and values. Three
//! kinds are written and read: the most common values with their frequencies (1), bounds of a
//! histogram (2), and the correlation between the order of values and that of rows (3). Values are
//! those of the column as they are stored, in an array of its type.
//!
//! A row is not larger than a page: nothing is moved to pg_statistic's TOAST table. See
//! [`ColumnStatistics::fits`]. Values that PostgreSQL has moved there are not read.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;

use forebay_format::AttrLayout;
use forebay_format::tuple::HeapTuple;
use forebay_format::varlena::{HEADER_SIZE as LENGTH_WORD, ToastPointer, Varlena, decompress};
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid, oids};

use crate::arrays::{array_of, array_of_stored};
use crate::catalog_oids::STATISTICS;
use crate::database::Database;
use crate::error::CatalogError;
use crate::reader::{Reader, Rows};
use crate::row::{Row, value_at};
use crate::schema::{
    BTREE_AM, PG_AMOP, PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, PG_OPCLASS, PG_STATISTIC,
    PG_STATISTIC_RELID_ATT_INH_INDEX,
};
use crate::statistics::{ColumnStatistics, TableStatistics, element};
use crate::table::{Column, Table};
use crate::writer::Writer;

/// Slots of a row.
const SLOTS: usize = 5;
const KIND: usize = PG_STATISTIC.place("stakind1");
const NUMBERS: usize = PG_STATISTIC.place("stanumbers1");
const VALUES: usize = PG_STATISTIC.place("stavalues1");

/// stakind: the most common values, a histogram, the correlation.
const COMMON_VALUES: i16 = 1;
const HISTOGRAM: i16 = 2;
const CORRELATION: i16 = 3;

/// Strategies of B-tree operator classes.
const LESS: i16 = 1;
const EQUAL: i16 = 3;

/// What the catalogs say of a column whose statistics are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnTarget {
    /// attstattarget. None: as the setting default_statistics_target says.
    pub target: Option<i16>,
    /// attcollation
    collation: Oid,
    /// What its type's values are compared with: equality and order.
    operators: Option<(Oid, Oid)>,
}

impl ColumnTarget {
    /// Whether its values can be compared.
    pub fn is_ordered(&self) -> bool {
        self.operators.is_some()
    }
}

/// The type whose operators compare values of a type.
fn compared_as(type_oid: Oid) -> Oid {
    match type_oid {
        oids::VARCHAR => oids::TEXT,
        oids::REGPROC | oids::REGCLASS | oids::REGTYPE => oids::OID,
        other => other,
    }
}

fn values_array(column: &Column, values: impl Iterator<Item = Vec<u8>>) -> Datum<'static> {
    let elements: Vec<Vec<u8>> = values.map(|value| element(column.layout, &value)).collect();
    array_of_stored(column.type_oid, elements.into_iter())
}

fn numbers_array(numbers: impl Iterator<Item = f32>) -> Datum<'static> {
    let elements: Vec<Vec<u8>> = numbers.map(|number| number.to_le_bytes().to_vec()).collect();
    array_of(oids::FLOAT4_ARRAY, oids::FLOAT4, elements.into_iter())
}

/// A slot: kind, operator, collation, numbers, values.
type Slot = (i16, Oid, Oid, Datum<'static>, Datum<'static>);

fn slots(column: &Column, of: &ColumnTarget, stats: &ColumnStatistics) -> Vec<Slot> {
    let mut slots = Vec::with_capacity(SLOTS);
    let Some((equal, less)) = of.operators else { return slots };
    if !stats.common.is_empty() {
        let numbers = numbers_array(stats.common.iter().map(|(_, frequency)| *frequency));
        let values = values_array(column, stats.common.iter().map(|(value, _)| value.clone()));
        slots.push((COMMON_VALUES, equal, of.collation, numbers, values));
    }
    if !stats.histogram.is_empty() {
        let values = values_array(column, stats.histogram.iter().cloned());
        slots.push((HISTOGRAM, less, of.collation, Datum::Null, values));
    }
    if let Some(correlation) = stats.correlation {
        let numbers = numbers_array([correlation].into_iter());
        slots.push((CORRELATION, less, of.collation, numbers, Datum::Null));
    }
    slots
}

/// The row of pg_statistic.
fn row(
    table: Oid,
    column: &Column,
    of: &ColumnTarget,
    stats: &ColumnStatistics,
) -> Vec<Datum<'static>> {
    let mut slots = slots(column, of, stats);
    slots.resize(SLOTS, (0, 0, 0, Datum::Null, Datum::Null));
    let mut row = vec![
        Datum::Oid(table),
        Datum::Int2(column.attnum),
        Datum::Bool(false), // stainherit
        Datum::Float4(stats.null_fraction),
        Datum::Int4(stats.width),
        Datum::Float4(stats.distinct),
    ];
    row.extend(slots.iter().map(|slot| Datum::Int2(slot.0)));
    row.extend(slots.iter().map(|slot| Datum::Oid(slot.1)));
    row.extend(slots.iter().map(|slot| Datum::Oid(slot.2)));
    row.extend(slots.iter().map(|slot| slot.3.clone()));
    row.extend(slots.into_iter().map(|slot| slot.4));
    row
}

/// Stores statistics of columns of a table, which are given by their index. Those of other columns
/// stay. The caller's lock on the table excludes others who do the same.
pub fn store_statistics(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    all: &[(usize, ColumnTarget, ColumnStatistics)],
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut before =
        writer.rows((&PG_STATISTIC_RELID_ATT_INH_INDEX, &[Datum::Oid(table.oid)]), 3)?;
    before.retain(|found| found.values.get(2) == Some(&Datum::Bool(false)));
    for (index, target, stats) in all {
        let Some(column) = table.columns.get(*index) else { continue };
        let row = row(table.oid, column, target, stats);
        let number = Datum::Int2(column.attnum);
        match before.iter().find(|found| found.values.get(1) == Some(&number)) {
            Some(found) => writer.update(STATISTICS, found.tid, &row)?,
            None => writer.insert(STATISTICS, &row)?,
        }
    }
    writer.next_command()
}

impl Reader<'_> {
    /// How statistics of the columns of a table are made.
    pub fn column_targets(&mut self, table: &Table) -> Result<Vec<ColumnTarget>, CatalogError> {
        const COLLATION: usize = PG_ATTRIBUTE.place("attcollation");
        const TARGET: usize = PG_ATTRIBUTE.place("attstattarget");
        let mut of_number = HashMap::new();
        let key = [Datum::Oid(table.oid)];
        let rows = Rows::Of((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key));
        self.read(rows, TARGET + 1, &mut |_, row, _| {
            let values = Row(row, PG_ATTRIBUTE.name);
            let target = match row.get(TARGET) {
                Some(Datum::Int2(target)) => Some(*target),
                _ => None,
            };
            of_number.insert(values.int2(4)?, (values.oid(COLLATION)?, target));
            Ok(true)
        })?;
        let operators = self.operators()?;
        let lost = || CatalogError::corrupt(format!("columns of \"{}\" are gone", table.name));
        let of = |column: &Column| {
            let (collation, target) = of_number.get(&column.attnum).copied().ok_or_else(lost)?;
            let operators = operators.get(&compared_as(column.type_oid)).copied();
            Ok(ColumnTarget { target, collation, operators })
        };
        table.columns.iter().map(of).collect()
    }

    /// The operators for equality and order of the types that have a default B-tree operator class,
    /// by type.
    fn operators(&mut self) -> Result<HashMap<Oid, (Oid, Oid)>, CatalogError> {
        let mut families = HashMap::new();
        self.read(Rows::All(&PG_OPCLASS), PG_OPCLASS.columns.len(), &mut |_, row, _| {
            let row = Row(row, PG_OPCLASS.name);
            if row.oid(1)? == BTREE_AM && row.bool(7)? {
                families.insert(row.oid(6)?, row.oid(5)?);
            }
            Ok(true)
        })?;
        let mut operators: HashMap<Oid, (Oid, Oid)> = HashMap::new();
        self.read(Rows::All(&PG_AMOP), PG_AMOP.columns.len(), &mut |_, row, _| {
            let row = Row(row, PG_AMOP.name);
            let (family, left, right) = (row.oid(1)?, row.oid(2)?, row.oid(3)?);
            if left == right && families.get(&left) == Some(&family) {
                let of_type = operators.entry(left).or_default();
                match row.int2(4)? {
                    EQUAL => of_type.0 = row.oid(6)?,
                    LESS => of_type.1 = row.oid(6)?,
                    _ => {}
                }
            }
            Ok(true)
        })?;
        operators.retain(|_, (equal, less)| *equal != 0 && *less != 0);
        Ok(operators)
    }

    /// The statistics of a table's columns. A column whose row is damaged has no statistics:
    /// they only help to plan. `damaged` is told of it.
    pub fn statistics(
        &mut self,
        table: &Table,
        damaged: &mut dyn FnMut(&Column, CatalogError),
    ) -> Result<TableStatistics, CatalogError> {
        let mut found = TableStatistics(vec![None; table.columns.len()]);
        let key = [Datum::Oid(table.oid)];
        let rows = Rows::Of((&PG_STATISTIC_RELID_ATT_INH_INDEX, &key));
        self.read(rows, NUMBERS, &mut |_, values, tuple| {
            let row = Row(values, PG_STATISTIC.name);
            let (number, inherits) = (row.int2(1)?, row.bool(2)?);
            let places = table.columns.iter().zip(&mut found.0);
            let place = places.into_iter().find(|(column, _)| column.attnum == number);
            if let Some((column, place)) = place.filter(|_| !inherits) {
                match read(column, &row, tuple) {
                    Ok(known) => *place = Some(known),
                    Err(error) => damaged(column, error),
                }
            }
            Ok(true)
        })?;
        Ok(found)
    }
}

/// An array in a row of pg_statistic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatisticArray {
    /// Its bytes, without a length word.
    Here(Vec<u8>),
    /// In pg_statistic's TOAST table.
    Toasted(ToastPointer),
}

/// A slot of a row of pg_statistic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatisticSlot {
    /// stakind
    pub kind: i16,
    /// stanumbers
    pub numbers: Option<StatisticArray>,
    /// stavalues
    pub values: Option<StatisticArray>,
}

/// A row of pg_statistic, whatever it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct StatisticRow {
    /// starelid
    pub relation: Oid,
    /// staattnum
    pub number: i16,
    /// stainherit
    pub inherited: bool,
    /// stanullfrac
    pub null_fraction: f32,
    /// stawidth
    pub width: i32,
    /// stadistinct
    pub distinct: f32,
    /// Those in use.
    pub slots: Vec<StatisticSlot>,
}

impl Reader<'_> {
    /// All rows of pg_statistic.
    pub fn statistic_rows(&mut self) -> Result<Vec<StatisticRow>, CatalogError> {
        let mut found = Vec::new();
        self.read(Rows::All(&PG_STATISTIC), NUMBERS, &mut |_, values, tuple| {
            let row = Row(values, PG_STATISTIC.name);
            let array = |place| {
                Ok::<_, CatalogError>(match value_at(tuple, &PG_STATISTIC, place)? {
                    Some(Varlena::External(pointer)) => Some(StatisticArray::Toasted(pointer)),
                    _ => array_at(tuple, place)?.map(StatisticArray::Here),
                })
            };
            let mut slots = Vec::new();
            for slot in 0..SLOTS {
                let kind = row.int2(KIND + slot)?;
                if kind != 0 {
                    let (numbers, values) = (array(NUMBERS + slot)?, array(VALUES + slot)?);
                    slots.push(StatisticSlot { kind, numbers, values });
                }
            }
            found.push(StatisticRow {
                relation: row.oid(0)?,
                number: row.int2(1)?,
                inherited: row.bool(2)?,
                null_fraction: row.float4(3)?,
                width: row.int4(4)?,
                distinct: row.float4(5)?,
                slots,
            });
            Ok(true)
        })?;
        Ok(found)
    }
}

/// The statistics in a row.
fn read(
    column: &Column,
    row: &Row<'_, '_>,
    tuple: HeapTuple<'_>,
) -> Result<ColumnStatistics, CatalogError> {
    let mut stats = ColumnStatistics {
        null_fraction: row.float4(3)?,
        width: row.int4(4)?,
        distinct: row.float4(5)?,
        ..ColumnStatistics::default()
    };
    for slot in 0..SLOTS {
        let numbers = || array_at(tuple, NUMBERS + slot);
        let values = || array_at(tuple, VALUES + slot);
        match row.int2(KIND + slot)? {
            COMMON_VALUES => {
                let (Some(numbers), Some(values)) = (numbers()?, values()?) else { continue };
                let values = elements(column.type_oid, column.layout, &values)?;
                stats.common = values.into_iter().zip(floats(&numbers)?).collect();
            }
            HISTOGRAM => {
                let Some(values) = values()? else { continue };
                stats.histogram = elements(column.type_oid, column.layout, &values)?;
            }
            CORRELATION => {
                let Some(numbers) = numbers()? else { continue };
                stats.correlation = floats(&numbers)?.first().copied();
            }
            _ => {}
        }
    }
    Ok(stats)
}

/// An array in a row. None if it is NULL or stored out of line.
fn array_at(tuple: HeapTuple<'_>, index: usize) -> Result<Option<Vec<u8>>, CatalogError> {
    Ok(match value_at(tuple, &PG_STATISTIC, index)? {
        Some(Varlena::Plain(bytes)) => Some(bytes.to_vec()),
        Some(Varlena::Compressed { raw_size, method, data }) => {
            let raw = decompress(raw_size, method, data);
            Some(raw.map_err(|error| CatalogError::corrupt(format!("pg_statistic: {error}")))?)
        }
        Some(Varlena::External { .. }) | None => None,
    })
}

fn floats(array: &[u8]) -> Result<Vec<f32>, CatalogError> {
    let values = elements(oids::FLOAT4, AttrLayout::INT4, array)?;
    let number = |bytes: &Vec<u8>| bytes.first_chunk().map(|bytes| f32::from_le_bytes(*bytes));
    Ok(values.iter().filter_map(number).collect())
}

/// The elements of a stored array of one dimension without NULLs; none of an array of another type,
/// which the column may have had.
fn elements(of: Oid, layout: AttrLayout, array: &[u8]) -> Result<Vec<Vec<u8>>, CatalogError> {
    /// Dimensions, offset of data after a null bitmap, element type, length, lower bound.
    const HEADER: usize = 20;
    let damaged = || CatalogError::corrupt("an array in pg_statistic is damaged".to_owned());
    let word = |at: usize| {
        array.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u32::from_le_bytes(*bytes))
    };
    let (Some(1), Some(0), Some(element), Some(count)) = (word(0), word(4), word(8), word(12))
    else {
        return Err(damaged());
    };
    if element != of {
        return Ok(Vec::new());
    }
    let (mut found, mut at) = (Vec::new(), HEADER);
    for _ in 0..count {
        // Offsets are aligned from the length word before the array on.
        at = layout.align.up(at + LENGTH_WORD) - LENGTH_WORD;
        let (start, len) = match usize::try_from(layout.len) {
            Ok(len) => (at, len),
            Err(_) if layout.len == -1 => {
                let len = word(at).filter(|len| len & 3 == 0).ok_or_else(damaged)?;
                let len = (len >> 2) as usize;
                (at + LENGTH_WORD, len.checked_sub(LENGTH_WORD).ok_or_else(damaged)?)
            }
            Err(_) => return Err(damaged()),
        };
        found.push(array.get(start..start + len).ok_or_else(damaged)?.to_vec());
        at = start + len;
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use forebay_format::Align;

    fn stored(array: &Datum<'_>) -> Vec<u8> {
        match array {
            Datum::Carried(_, array) => array.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arrays_are_read_as_they_are_written() {
        let texts = [b"".to_vec(), b"a".to_vec(), b"four".to_vec(), b"eight by".to_vec()];
        let shorts = [vec![1, 0], vec![2, 0], vec![3, 0]];
        let longs = [vec![1; 8], vec![2; 8]];
        let tids = [vec![1; 6], vec![2; 6]];
        for (layout, values) in [
            (AttrLayout::VARLENA, &texts[..]),
            (AttrLayout::INT2, &shorts),
            (AttrLayout::INT8, &longs),
            (AttrLayout::fixed(6, Align::Short, false), &tids),
        ] {
            let all = values.iter().map(|value| element(layout, value)).collect::<Vec<_>>();
            let array = stored(&array_of_stored(77, all.into_iter()));
            assert_eq!(elements(77, layout, &array).unwrap(), values);
            assert!(elements(78, layout, &array).unwrap().is_empty(), "of another type");
            for len in 0..array.len() - layout.align as usize {
                assert!(elements(77, layout, &array[..len]).is_err(), "{len} bytes");
            }
        }
    }
}
