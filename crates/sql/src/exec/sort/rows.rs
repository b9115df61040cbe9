//! Rows in sorted runs.

use crate::error::{Result, SqlError};
use crate::exec::host::Host;
use crate::exec::row::OwnedRow;
use crate::exec::spill;
use crate::plan::SortKey;
use forebay_engine::{RunHost, RunItems, StorageError, TempOptions, TempReader, TempWriter};
use forebay_types::Datum;
use std::cmp::Ordering;

/// Rows by sort keys.
#[derive(Clone)]
pub(in crate::exec) struct SortedRows {
    keys: Vec<SortKey>,
    /// How many columns a row has.
    columns: usize,
    scratch: Vec<u8>,
}

impl SortedRows {
    pub(super) fn new(keys: Vec<SortKey>, columns: usize) -> SortedRows {
        SortedRows { keys, columns, scratch: Vec::new() }
    }
}

impl RunHost for Host {
    type Error = SqlError;

    fn run_io<T>(
        &mut self,
        body: impl FnOnce(&mut forebay_aio::IoBackend) -> Result<T, StorageError>,
    ) -> Result<T> {
        self.io(body)
    }

    fn run_file(&mut self, options: TempOptions) -> Result<TempWriter> {
        self.call(|session| session.temp_file(options))
    }

    fn step(&mut self) -> Result<()> {
        Host::step(self)
    }
}

impl RunItems<Host> for SortedRows {
    type Item = OwnedRow;

    fn order(&self, a: &OwnedRow, b: &OwnedRow) -> Result<Ordering> {
        order(&self.keys, a, b)
    }

    fn write(&mut self, row: &OwnedRow, writer: &mut TempWriter, host: &mut Host) -> Result<()> {
        spill::write(writer, row, &mut self.scratch, host)
    }

    fn read(&mut self, reader: &mut TempReader, host: &mut Host) -> Result<Option<OwnedRow>> {
        spill::read(reader, self.columns, &mut self.scratch, host)
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
            (false, false) if key.descending => key.order.compare(b, a)?,
            (false, false) => key.order.compare(a, b)?,
        };
        if order != Ordering::Equal {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}
