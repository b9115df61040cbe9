//! Rows of a table at the places that a bitmap has.

use super::eval::Params;
use super::host::Host;
use super::index_scan::evaluated;
use super::measure::{BitmapStats, Moment};
use super::row::{Flow, Row, Visit};
use super::scan::{Sieve, decode};
use crate::error::Result;
use crate::plan::{Bitmap, BitmapRead};
use forebay_engine::{BitmapRows, IndexBitmap};
use forebay_types::Datum;

/// A scan of a table by a bitmap.
pub(super) struct BitmapScan {
    rows: BitmapRows,
    /// Rows that did not satisfy what the bitmap stands for.
    removed: u64,
}

impl BitmapScan {
    /// Makes the bitmap, and starts the scan.
    pub(super) fn open(
        scan: &BitmapRead,
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<BitmapScan> {
        let bitmap = made(&scan.bitmap, params, host)?;
        let rows = host.call(|session| session.bitmap_scan(bitmap))?;
        Ok(BitmapScan { rows, removed: 0 })
    }

    /// What it has read.
    pub(super) fn stats(&self) -> BitmapStats {
        let (pages, stream) = (self.rows.pages(), self.rows.stats());
        BitmapStats { pages, removed: self.removed, stream }
    }

    /// Hands on the rows that pass the sieve, or all if there is none. The frames of operators
    /// above it need no room for this.
    #[inline(never)]
    pub(super) fn run(
        &mut self,
        scan: &BitmapRead,
        sieve: Option<&Sieve<'_>>,
        params: Params<'_>,
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        let BitmapScan { rows, removed } = self;
        let recheck = scan.recheck.as_ref().map(|condition| Sieve::new(condition, params));
        loop {
            let Some((row, is_candidate)) = host.call(|session| rows.next(session))? else {
                return Ok(Flow::Continue);
            };
            let mut values: Vec<Datum<'_>> = Vec::with_capacity(scan.read.decode.len());
            if is_candidate
                && let Some(recheck) = &recheck
                && !recheck.passes(&row, &scan.read, &mut values, host)?
            {
                *removed += 1;
                continue;
            }
            if let Some(sieve) = sieve
                && !sieve.passes(&row, &scan.read, &mut values, host)?
            {
                continue;
            }
            decode(&row, &scan.read, &mut values, host)?;
            let ctid = Some(row.place());
            if visit(Row { values: &values, ctid }, host)? == Flow::Rest {
                return Ok(Flow::Rest);
            }
        }
    }
}

/// Makes a bitmap. Of several by AND, none is made behind one without rows.
fn made(bitmap: &Bitmap, params: Params<'_>, host: &mut Host) -> Result<IndexBitmap> {
    let start = host.measures.is_some().then(|| Moment::now(host.page_usage()));
    let (rows, found) = match bitmap {
        Bitmap::Index(scan) => {
            let mut conditions = Vec::with_capacity(scan.conditions.len());
            for condition in &scan.conditions {
                conditions.extend(evaluated(condition, &scan.index, params, host)?);
            }
            let (table, index) = (&scan.read.table, &scan.index);
            let rows = host.call(|session| session.index_bitmap(table, index, conditions))?;
            let found = Some((rows.found(), rows.stats()));
            (rows, found)
        }
        Bitmap::And(parts) | Bitmap::Or(parts) => {
            let (first, rest) = parts.split_first().expect("a bitmap is made of some");
            let and = matches!(bitmap, Bitmap::And(_));
            let mut rows = made(first, params, host)?;
            for part in rest {
                match and {
                    true if rows.is_empty() => break,
                    true => rows.and(&made(part, params, host)?),
                    false => rows.or(&made(part, params, host)?),
                }
            }
            (rows, None)
        }
    };
    let spent = start.map(|start| start.spent(host.page_usage()));
    if let (Some(spent), Some(measures)) = (spent, &mut host.measures) {
        measures.made(bitmap, found, &spent);
    }
    Ok(rows)
}
