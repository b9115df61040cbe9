//! ORDER BY: in memory up to work_mem, beyond that as sorted runs in temporary files that are
//! merged.
//!
//! - `order.rs`: which of two rows comes first
//! - `runs.rs`: sorted runs in files, and how few of them are made out of many
//! - `merge.rs`: one order out of several runs
//!
//! ```text
//!   push() --> rows in memory --(more than work_mem: sorted)--> runs --> merge --> next()
//! ```
//!
//! Rows that are equal come out in the order in which they came in, spilled or not.

mod merge;
mod order;
mod runs;

use super::host::Host;
use super::row::OwnedRow;
use super::spill;
use crate::error::Result;
use crate::plan::SortKey;
use merge::Merge;
use order::order;
use runs::Runs;
use std::cmp::Ordering;

/// Takes rows in.
pub(super) struct Sorter {
    keys: Vec<SortKey>,
    /// Only so many rows are wanted, the first.
    keep: Option<usize>,
    rows: Vec<OwnedRow>,
    bytes: usize,
    /// Bytes that the rows may take.
    most: usize,
    runs: Option<Runs>,
}

/// Gives sorted rows out.
pub(super) enum Sorted {
    Memory(std::vec::IntoIter<OwnedRow>),
    Merged(Box<Merge>),
}

impl Sorter {
    /// For rows to be sorted by these keys; by none, they stay as they come.
    pub(super) fn new(keys: &[SortKey], keep: Option<u64>, host: &mut Host) -> Sorter {
        // Without an engine there are no files to go to.
        let most = host.session_if_any().map_or(usize::MAX, |session| session.work_memory());
        Sorter {
            keys: keys.to_vec(),
            keep: keep.and_then(|n| usize::try_from(n).ok()),
            rows: Vec::new(),
            bytes: 0,
            most,
            runs: None,
        }
    }

    /// Takes a row.
    pub(super) fn push(&mut self, row: OwnedRow, host: &mut Host) -> Result<()> {
        self.bytes = self.bytes.saturating_add(spill::memory(&row));
        self.rows.push(row);
        let full = self.bytes > self.most;
        if let Some(keep) = self.keep
            && self.rows.len() > keep
            && (full || self.rows.len() >= keep.saturating_mul(2).saturating_add(1024))
        {
            // What cannot come out is dropped from time to time.
            self.sort()?;
            self.bytes = self.rows.iter().map(spill::memory).sum();
            // Nearly full, it would soon be so again, for a few rows each time.
            if self.bytes <= self.most / 2 {
                return Ok(());
            }
        }
        if full { self.spill(host) } else { Ok(()) }
    }

    /// Sorts what is in memory, and drops what is not wanted of it.
    fn sort(&mut self) -> Result<()> {
        if !self.keys.is_empty() {
            let (keys, mut failed) = (&self.keys, Ok(()));
            // After an error the order means nothing: it is returned instead of the rows.
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

    /// Puts what is in memory into a run.
    fn spill(&mut self, host: &mut Host) -> Result<()> {
        self.sort()?;
        let runs = match &mut self.runs {
            Some(runs) => runs,
            none => none.insert(Runs::new(self.keys.clone(), host)?),
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
