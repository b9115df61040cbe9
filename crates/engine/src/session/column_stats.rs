//! What pg_stats shows: the rows of pg_statistic, with the names of their columns.

use std::borrow::Cow;
use std::collections::HashMap;

use forebay_catalog::{Reader, StatisticArray, StatisticRow};
use forebay_types::{Datum, Oid, Repr};

use super::parts::Part;
use super::state::Session;
use crate::error::EngineError;
use crate::views::ColumnStatsRow;

/// stakind: what a slot of a row is about.
mod kinds {
    pub(super) const COMMON_VALUES: i16 = 1;
    pub(super) const HISTOGRAM: i16 = 2;
    pub(super) const CORRELATION: i16 = 3;
    pub(super) const COMMON_ELEMENTS: i16 = 4;
    pub(super) const ELEMENT_COUNTS: i16 = 5;
    pub(super) const RANGE_LENGTHS: i16 = 6;
    pub(super) const RANGE_BOUNDS: i16 = 7;
}

impl Session {
    /// The rows of pg_stats.
    pub fn column_stats(&mut self) -> Result<Vec<ColumnStatsRow>, EngineError> {
        let tables = self.tables()?;
        let tables: HashMap<Oid, _> = tables.iter().map(|table| (table.oid, table)).collect();
        let rows = self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok::<_, EngineError>(reader.statistic_rows()?)
        })?;
        let mut shown = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(table) = tables.get(&row.relation) else { continue };
            let column = table.columns.iter().find(|column| column.attnum == row.number);
            let Some(column) = column.filter(|column| !column.dropped) else { continue };
            let names = [&table.schema, &table.name, &column.name].map(String::clone);
            shown.push(self.column_stats_row(names, &row)?);
        }
        Ok(shown)
    }

    fn column_stats_row(
        &mut self,
        [schema, table, column]: [String; 3],
        row: &StatisticRow,
    ) -> Result<ColumnStatsRow, EngineError> {
        let mut slot = |kind, of_values: bool| {
            let slot = row.slots.iter().find(|slot| slot.kind == kind);
            let array =
                slot.and_then(|slot| if of_values { &slot.values } else { &slot.numbers }.as_ref());
            array.map_or(Ok(Datum::Null), |array| self.stored_array(array))
        };
        let numbers = [
            kinds::COMMON_VALUES,
            kinds::CORRELATION,
            kinds::COMMON_ELEMENTS,
            kinds::ELEMENT_COUNTS,
            kinds::RANGE_LENGTHS,
        ];
        let [common_freqs, correlation, element_freqs, element_counts, empty_ranges] =
            numbers.map(|kind| slot(kind, false));
        let values = [
            kinds::COMMON_VALUES,
            kinds::HISTOGRAM,
            kinds::COMMON_ELEMENTS,
            kinds::RANGE_LENGTHS,
            kinds::RANGE_BOUNDS,
        ];
        let [common_values, histogram, common_elements, range_lengths, range_bounds] =
            values.map(|kind| slot(kind, true));
        Ok(ColumnStatsRow {
            schema,
            table,
            column,
            inherited: row.inherited,
            null_fraction: row.null_fraction,
            width: row.width,
            distinct: row.distinct,
            common_values: common_values?,
            common_freqs: common_freqs?,
            histogram: histogram?,
            correlation: first_number(&correlation?),
            common_elements: common_elements?,
            element_freqs: element_freqs?,
            element_counts: element_counts?,
            range_lengths: range_lengths?,
            empty_ranges: first_number(&empty_ranges?),
            range_bounds: range_bounds?,
        })
    }

    fn stored_array(&mut self, array: &StatisticArray) -> Result<Datum<'static>, EngineError> {
        let bytes = match array {
            StatisticArray::Here(bytes) => bytes.clone(),
            StatisticArray::Toasted(pointer) => {
                let pointer = Datum::Toasted(Cow::Owned(pointer.encode().to_vec()));
                match self.fetch_value(&pointer, Repr::Bytes, Part::Whole)? {
                    Datum::Bytes(bytes) => bytes.into_owned(),
                    other => {
                        let what = format!("a stored array was read as {other:?}");
                        return Err(EngineError::internal(&what));
                    }
                }
            }
        };
        let encoding = self.core.database.encoding;
        Ok(Repr::Array(0).decode(&bytes, encoding)?.into_owned())
    }
}

/// The first element of a stored array of float4.
fn first_number(array: &Datum<'_>) -> Option<f32> {
    /// Dimensions, offset of data after a bitmap, element type, length, lower bound.
    const HEADER: usize = 20;
    array.stored_bytes()?.get(HEADER..)?.first_chunk().copied().map(f32::from_le_bytes)
}
