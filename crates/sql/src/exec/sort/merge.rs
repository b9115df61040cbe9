//! One order out of several runs: a heap of the runs by their next rows.

use super::row::{self, PREFIX};
use super::{OwnedRow, order};
use crate::error::{Result, SqlError, state};
use crate::exec::host::Host;
use crate::plan::SortKey;
use forebay_engine::{EngineError, TempReader};
use std::cmp::Ordering;

/// Runs being merged.
pub(in crate::exec) struct Merge {
    keys: Vec<SortKey>,
    /// Those that have a row left, as a heap: none comes before the one half-way to it.
    runs: Vec<Run>,
    scratch: Vec<u8>,
    /// Rows given out.
    given: usize,
}

struct Run {
    reader: TempReader,
    /// Its next row.
    next: OwnedRow,
    /// Among equal rows those of earlier runs come first.
    number: usize,
}

impl Merge {
    /// Of runs in the order in which their rows came in.
    pub(super) fn new(keys: Vec<SortKey>, readers: Vec<TempReader>, host: &mut Host) -> Result<Merge> {
        let mut merge = Merge { keys, runs: Vec::new(), scratch: Vec::new(), given: 0 };
        for (number, mut reader) in readers.into_iter().enumerate() {
            if let Some(next) = read(&mut reader, &mut merge.scratch, 0, host)? {
                merge.runs.push(Run { reader, next, number });
            }
        }
        for at in (0..merge.runs.len() / 2).rev() {
            merge.sift(at);
        }
        Ok(merge)
    }

    /// The next row of all.
    pub(in crate::exec) fn next(&mut self, host: &mut Host) -> Result<Option<OwnedRow>> {
        self.given += 1;
        if self.given.is_multiple_of(super::CANCEL_INTERVAL) {
            host.check_cancel()?;
        }
        let Some(first) = self.runs.first_mut() else { return Ok(None) };
        let columns = first.next.len();
        let row = match read(&mut first.reader, &mut self.scratch, columns, host)? {
            Some(next) => std::mem::replace(&mut first.next, next),
            None => self.runs.swap_remove(0).next,
        };
        self.sift(0);
        Ok(Some(row))
    }

    fn before(&self, a: usize, b: usize) -> bool {
        let (Some(a), Some(b)) = (self.runs.get(a), self.runs.get(b)) else { return false };
        order(&self.keys, &a.next, &b.next).then(a.number.cmp(&b.number)) == Ordering::Less
    }

    /// Moves a run down to its place.
    fn sift(&mut self, mut at: usize) {
        loop {
            let mut first = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if self.before(child, first) {
                    first = child;
                }
            }
            if first == at {
                return;
            }
            self.runs.swap(at, first);
            at = first;
        }
    }
}

/// The next row of a run; None at its end.
fn read(
    reader: &mut TempReader,
    scratch: &mut Vec<u8>,
    columns: usize,
    host: &mut Host,
) -> Result<Option<OwnedRow>> {
    if reader.left() == 0 {
        return Ok(None);
    }
    let io = host.session()?.io();
    let bytes = reader.fill(io).map_err(EngineError::from)?;
    // Where it lies in memory in one piece, it need not be copied first.
    let here = bytes.split_first_chunk::<PREFIX>().and_then(|(len, rest)| rest.get(..row::length(*len)));
    if let Some(payload) = here {
        let (row, taken) = (row::decode(payload, columns), PREFIX + payload.len());
        reader.consume(taken);
        return row.ok_or_else(damaged).map(Some);
    }
    let mut prefix = [0; PREFIX];
    reader.read_exact(io, &mut prefix).map_err(EngineError::from)?;
    let len = row::length(prefix);
    if len as u64 > reader.left() {
        return Err(damaged());
    }
    scratch.resize(len, 0);
    reader.read_exact(io, scratch).map_err(EngineError::from)?;
    row::decode(scratch, columns).ok_or_else(damaged).map(Some)
}

fn damaged() -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, "a temporary file does not hold what was written into it")
}
