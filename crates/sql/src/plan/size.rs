//! How large a table is, and how wide its columns are.

use forebay_engine::{Column, Table};
use forebay_types::{SqlType, oids};

/// Bytes of a row beside its values, and of a page beside its rows.
const ROW_OVERHEAD: i64 = 28;
const PAGE_ROOM: i64 = 8168;
/// Pages that a table is taken to have at least that was never vacuumed.
const FEWEST_PAGES: u32 = 10;
/// Bytes of a value of variable length.
const VARIABLE_WIDTH: i64 = 32;

/// How large a table is taken to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TableSize {
    pub pages: f64,
    pub rows: f64,
    /// The part of its pages that everybody sees.
    pub visible: f64,
}

/// Bytes of the values of a table's column, on average. None if it has no such column.
pub(super) fn column_width(table: &Table, index: usize) -> Option<i64> {
    let column = table.columns.get(index)?;
    let known = table.statistics.get().and_then(|statistics| statistics.column(index));
    match known.map_or(0, |known| known.width) {
        width if width > 0 => Some(width.into()),
        _ => Some(width_by_type(column)),
    }
}

/// The same, if no more is known than the column's type.
fn width_by_type(column: &Column) -> i64 {
    let most = i64::from(column.typmod) - 4;
    match (column.layout.len, column.type_oid) {
        (len, _) if len > 0 => i64::from(len),
        (_, oids::BPCHAR) if most > 0 => most * 4 + 4,
        (_, oids::VARCHAR) if most > 0 => match most * 4 + 4 {
            most if most <= 32 => most,
            most if most < 1000 => 32 + (most - 32) / 2,
            _ => 32 + (1000 - 32) / 2,
        },
        _ => VARIABLE_WIDTH,
    }
}

/// Bytes of a value of a type, on average.
pub(super) fn type_width(ty: SqlType) -> i64 {
    match ty.info().len {
        len if len > 0 => i64::from(len),
        _ => VARIABLE_WIDTH,
    }
}

/// At least one row, and no fraction of one.
pub(super) fn whole_rows(rows: f64) -> f64 {
    rows.round_ties_even().max(1.0)
}

impl TableSize {
    /// The size of a table that has so many blocks now.
    pub(super) fn of(table: &Table, blocks: u32) -> TableSize {
        let known = table.figures;
        let pages = if known.rows < 0.0 { blocks.max(FEWEST_PAGES) } else { blocks };
        if pages == 0 {
            return TableSize { pages: 0.0, rows: 0.0, visible: 0.0 };
        }
        let density = if known.rows >= 0.0 && known.pages > 0 {
            f64::from(known.rows) / f64::from(known.pages)
        } else {
            let live = (0..table.columns.len()).filter(|index| !table.columns[*index].dropped);
            let widths = live.filter_map(|index| column_width(table, index));
            let width = widths.sum::<i64>() + ROW_OVERHEAD;
            let room = PAGE_ROOM * i64::from(table.fill_factor) / 100;
            whole_rows((room / width) as f64)
        };
        let visible = match known.all_visible {
            some if some <= 0 => 0.0,
            some => (f64::from(some) / f64::from(pages)).min(1.0),
        };
        let pages = f64::from(pages);
        TableSize { pages, rows: (density * pages).round_ties_even(), visible }
    }
}
