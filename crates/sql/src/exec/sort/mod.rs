//! ORDER BY: in memory up to work_mem, beyond that as sorted runs in temporary files that are
//! merged.
//!
//! - `rows.rs`: rows in runs, and their order
//!
//! ```text
//!   push() --> rows in memory --(more than work_mem: sorted)--> runs --> merge --> next()
//! ```
//!
//! The sort is stable, spilled or not.

mod rows;

use super::host::Host;
use super::row::OwnedRow;
use super::spill;
use crate::error::Result;
use crate::plan::SortKey;
use forebay_engine::{Merge, Runs};
use forebay_types::Datum;
use rows::{SortedRows, order};
use std::cmp::Ordering;
use std::mem::discriminant;

/// Takes rows in.
pub(super) struct Sorter {
    keys: Vec<SortKey>,
    /// Only the first rows are wanted, so many of them.
    keep: Option<usize>,
    rows: Vec<OwnedRow>,
    /// The first value of each key that is not NULL.
    samples: Vec<Option<Datum<'static>>>,
    bytes: usize,
    /// Bytes that the rows may take.
    most: usize,
    runs: Option<Runs<SortedRows>>,
}

/// Gives sorted rows out.
pub(super) enum Sorted {
    Memory(std::vec::IntoIter<OwnedRow>),
    Merged(Box<Merge<SortedRows, OwnedRow>>),
}

impl Sorter {
    /// A sort by these keys; without keys, rows keep their order.
    pub(super) fn new(keys: &[SortKey], keep: Option<u64>, host: &mut Host) -> Sorter {
        Sorter {
            keys: keys.to_vec(),
            keep: keep.and_then(|n| usize::try_from(n).ok()),
            rows: Vec::new(),
            samples: vec![None; keys.len()],
            bytes: 0,
            most: host.work_memory(),
            runs: None,
        }
    }

    /// Takes a row.
    pub(super) fn push(&mut self, row: OwnedRow, host: &mut Host) -> Result<()> {
        self.check(&row)?;
        self.bytes = self.bytes.saturating_add(spill::memory(&row));
        self.rows.push(row);
        let full = self.bytes > self.most;
        if let Some(keep) = self.keep
            && self.rows.len() > keep
            && (full || self.rows.len() >= keep.saturating_mul(2).saturating_add(1024))
        {
            // From time to time, the rows that can't be among the first are dropped.
            self.sort()?;
            self.bytes = self.rows.iter().map(spill::memory).sum();
            // If memory is still more than half full, dropping rows is not worth its cost.
            if self.bytes <= self.most / 2 {
                return Ok(());
            }
        }
        if full { self.spill(host) } else { Ok(()) }
    }

    /// Refuses a row whose keys can't be compared with those of the rows before it: a sort needs a
    /// total order.
    fn check(&mut self, row: &[Datum<'static>]) -> Result<()> {
        for (key, sample) in self.keys.iter().zip(&mut self.samples) {
            let value = &row[key.column];
            match sample {
                _ if value.is_null() => {}
                Some(sample) if discriminant(sample) == discriminant(value) => {}
                Some(sample) => key.order.compare(sample, value).map(drop)?,
                None => {
                    key.order.compare(value, value)?;
                    *sample = Some(value.clone());
                }
            }
        }
        Ok(())
    }

    /// Sorts the rows in memory, and drops those that are not wanted.
    fn sort(&mut self) -> Result<()> {
        if !self.keys.is_empty() {
            let (keys, mut failed) = (&self.keys, Ok(()));
            self.rows.sort_by(|a, b| {
                order(keys, a, b).unwrap_or_else(|error| {
                    failed = Err(error);
                    Ordering::Equal
                })
            });
            failed?;
        }
        if let Some(keep) = self.keep {
            self.rows.truncate(keep);
        }
        Ok(())
    }

    /// Writes the rows in memory as a run.
    fn spill(&mut self, host: &mut Host) -> Result<()> {
        let columns = self.rows.first().expect("there are rows to write").len();
        self.sort()?;
        let runs = match &mut self.runs {
            Some(runs) => runs,
            none => {
                let (rows, options) =
                    (SortedRows::new(self.keys.clone(), columns), host.temp_options()?);
                none.insert(Runs::new(rows, host.work_memory(), options))
            }
        };
        runs.add(self.rows.drain(..), host)?;
        self.bytes = 0;
        Ok(())
    }

    /// No more rows come.
    pub(super) fn finish(mut self, host: &mut Host) -> Result<Sorted> {
        if self.runs.is_some() && !self.rows.is_empty() {
            self.spill(host)?;
        }
        match self.runs.take() {
            Some(runs) => Ok(Sorted::Merged(Box::new(runs.merge(host)?))),
            None => {
                self.sort()?;
                Ok(Sorted::Memory(self.rows.into_iter()))
            }
        }
    }
}

impl Sorted {
    /// The next row.
    pub(super) fn next(&mut self, host: &mut Host) -> Result<Option<OwnedRow>> {
        match self {
            Sorted::Memory(rows) => Ok(rows.next()),
            Sorted::Merged(merge) => merge.next(host),
        }
    }
}
