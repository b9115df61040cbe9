//! What bitmap scans cost, by PostgreSQL's formulas.

use super::estimate::{Estimate, Estimator, table_width};
use super::expr::Expr;
use super::selectivity::Distribution;
use super::size::{TableSize, whole_rows};
use super::tree::{Bitmap, BitmapRead};
use crate::error::Result;

/// What a row costs that is put into a bitmap, and two bitmaps that are made one, in operators.
const ROW_OPERATORS: f64 = 0.1;
const MERGE_OPERATORS: f64 = 100.0;
/// Bytes of an entry of PostgreSQL's bitmaps, and their least number.
const ENTRY_SIZE: f64 = 64.0;
const LEAST_ENTRIES: f64 = 16.0;

/// What a bitmap costs, and which part of the table's rows it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BitmapEstimate {
    pub cost: f64,
    pub part: f64,
}

impl Estimator<'_> {
    /// What a bitmap costs. `rows`: those that the whole scan returns.
    pub(super) fn bitmap(
        &mut self,
        bitmap: &Bitmap,
        size: TableSize,
        rows: f64,
    ) -> Result<BitmapEstimate> {
        let operator = self.settings.cpu_operator_cost;
        Ok(match bitmap {
            Bitmap::Index(scan) => {
                let found = Distribution { table: &scan.read.table, rows: size.rows };
                let blocks = self.index_blocks(scan)?;
                let (_, cost) = self.index_cost(scan, &found, blocks);
                let cost = cost + ROW_OPERATORS * operator * rows;
                BitmapEstimate { cost, part: found.all(&scan.all_tests()) }
            }
            Bitmap::And(parts) => {
                let mut all = BitmapEstimate { cost: 0.0, part: 1.0 };
                for (n, part) in parts.iter().enumerate() {
                    let of = self.bitmap(part, size, rows)?;
                    let merged = if n > 0 { MERGE_OPERATORS * operator } else { 0.0 };
                    all.cost += of.cost + merged;
                    all.part *= of.part;
                }
                all
            }
            Bitmap::Or(parts) => {
                let mut all = BitmapEstimate { cost: 0.0, part: 0.0 };
                for (n, part) in parts.iter().enumerate() {
                    let of = self.bitmap(part, size, rows)?;
                    // An index adds its rows to the bitmap that is there.
                    let own = n > 0 && !matches!(part, Bitmap::Index(_));
                    let merged = if own { MERGE_OPERATORS * operator } else { 0.0 };
                    all.cost += of.cost + merged;
                    all.part = (all.part + of.part).min(1.0);
                }
                all
            }
        })
    }

    /// What a scan by a bitmap costs.
    pub(super) fn bitmap_scan(&mut self, scan: &BitmapRead) -> Result<Estimate> {
        let size = self.size(&scan.read)?;
        let settings = self.settings;
        let conditions: Vec<&Expr> = scan.conditions.iter().collect();
        let all = Distribution { table: &scan.read.table, rows: size.rows };
        let rows = whole_rows(size.rows * all.all(&conditions));
        let BitmapEstimate { cost, part } = self.bitmap(&scan.bitmap, size, rows)?;
        let mut fetched = whole_rows(part * size.rows);
        let table = size.pages.max(1.0);
        let touched = (2.0 * table * fetched / (2.0 * table + fetched)).min(table);
        let entries =
            (settings.work_mem * 1024.0 / ENTRY_SIZE).floor().clamp(LEAST_ENTRIES, f64::MAX);
        if entries < touched {
            // The rest of the pages are lossy: all of their rows are looked at.
            let lossy = (touched - entries / 2.0).max(0.0) / touched;
            fetched = whole_rows((part * (1.0 - lossy) + lossy) * size.rows);
        }
        let pages = if touched >= table { table } else { touched.ceil() };
        let random = settings.random_page_cost;
        let page = match pages >= 2.0 {
            // Pages that lie close together are read as if one after the other.
            true => random - (random - settings.seq_page_cost) * (pages / table).sqrt(),
            false => random,
        };
        let row = settings.cpu_tuple_cost + self.operators(conditions.iter().copied());
        let cost = cost + self.prepared(&conditions);
        Ok(Estimate {
            startup: cost,
            total: cost + pages * page + row * fetched,
            rows,
            width: table_width(&scan.read),
            disabled: u32::from(!settings.enable_bitmapscan),
        })
    }

    /// What a part of a scan's bitmap is shown to cost.
    pub(super) fn bitmap_shown(&mut self, part: &Bitmap, scan: &BitmapRead) -> Result<Estimate> {
        let size = self.size(&scan.read)?;
        let of_index = matches!(part, Bitmap::Index(_));
        let rows = if of_index { 0.0 } else { self.bitmap_scan(scan)?.rows };
        let BitmapEstimate { cost, part } = self.bitmap(part, size, rows)?;
        Ok(Estimate {
            startup: if of_index { 0.0 } else { cost },
            total: cost,
            rows: whole_rows(part * size.rows),
            width: 0,
            disabled: 0,
        })
    }
}
