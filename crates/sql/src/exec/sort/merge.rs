//! Merging runs: a heap of runs, ordered by their next rows.

use crate::error::Result;
use crate::exec::host::Host;
use crate::exec::row::OwnedRow;
use crate::exec::spill;
use crate::plan::{Catalog, SortKey};
use forebay_engine::TempReader;
use forebay_types::{Datum, compare};
use std::cmp::Ordering;

/// Runs being merged.
pub(in crate::exec) struct Merge {
    keys: Vec<SortKey>,
    /// Runs that have rows left, as a binary heap.
    runs: Vec<Run>,
    /// How many columns a row has.
    columns: usize,
    scratch: Vec<u8>,
}

struct Run {
    reader: TempReader,
    /// Its next row.
    next: OwnedRow,
    /// Equal rows come out in the order of their runs.
    number: usize,
}

impl Merge {
    /// Merges runs that are given in the order in which their rows arrived.
    pub(super) fn new(
        keys: Vec<SortKey>,
        columns: usize,
        readers: Vec<TempReader>,
        host: &mut Host,
    ) -> Result<Merge> {
        let mut merge = Merge { keys, runs: Vec::new(), columns, scratch: Vec::new() };
        for (number, mut reader) in readers.into_iter().enumerate() {
            if let Some(next) = spill::read(&mut reader, columns, &mut merge.scratch, host)? {
                merge.runs.push(Run { reader, next, number });
            }
        }
        for at in (0..merge.runs.len() / 2).rev() {
            merge.sift(at)?;
        }
        Ok(merge)
    }

    /// The next row of all.
    pub(in crate::exec) fn next(&mut self, host: &mut Host) -> Result<Option<OwnedRow>> {
        host.step()?;
        let Some(first) = self.runs.first_mut() else { return Ok(None) };
        let row = match spill::read(&mut first.reader, self.columns, &mut self.scratch, host)? {
            Some(next) => std::mem::replace(&mut first.next, next),
            None => self.runs.swap_remove(0).next,
        };
        self.sift(0)?;
        Ok(Some(row))
    }

    /// Whether the next row of run `a` comes before that of run `b`; false if there is no such run.
    fn before(&self, a: usize, b: usize) -> Result<bool> {
        let (Some(a), Some(b)) = (self.runs.get(a), self.runs.get(b)) else { return Ok(false) };
        let order = order(&self.keys, &a.next, &b.next)?.then(a.number.cmp(&b.number));
        Ok(order == Ordering::Less)
    }

    /// Moves a run down to its place.
    fn sift(&mut self, mut at: usize) -> Result<()> {
        loop {
            let mut first = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if self.before(child, first)? {
                    first = child;
                }
            }
            if first == at {
                return Ok(());
            }
            self.runs.swap(at, first);
            at = first;
        }
    }
}

/// Which of two rows comes first.
///
/// # Panics
/// If a row has no column of a key.
pub(super) fn order(keys: &[SortKey], a: &[Datum<'_>], b: &[Datum<'_>]) -> Result<Ordering> {
    for key in keys {
        let (a, b) = (&a[key.column], &b[key.column]);
        let order = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if key.descending => compare(b, a)?,
            (false, false) => compare(a, b)?,
        };
        if order != Ordering::Equal {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}
