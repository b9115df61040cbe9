//! Rows kept in order, to be read again from any place: what a cursor goes back to.
//!
//! The newest rows are in memory. When they take half of work_mem they become a chunk of a
//! temporary file, and one chunk at a time is read back. A file is finished when one of its chunks
//! is read; chunks written later go into another one. A cursor that only goes forward has one file.

use super::host::Host;
use super::row::{OwnedRow, Row};
use super::scan::{place_of, place_value};
use super::spill;
use crate::error::{Result, SqlError, state};
use forebay_engine::{TempFile, TempOptions, TempWriter};
use forebay_types::Datum;
use std::ops::Range;

/// Writes in flight, at most.
const WRITES: u32 = 4;
const BLOCK: usize = 8192;

/// Kept rows.
pub struct RowStore {
    /// How many columns a row has, the place with them.
    width: usize,
    /// Bytes that the rows in memory may take before they are written.
    most: usize,
    options: Option<TempOptions>,
    chunks: Vec<Chunk>,
    /// Finished files.
    files: Vec<TempFile>,
    /// The file after them.
    writer: Option<TempWriter>,
    /// Number of rows in files.
    written: u64,
    /// The rows after those, and the bytes they take.
    newest: Vec<OwnedRow>,
    bytes: usize,
    /// The chunk that was read last.
    read: Option<(usize, Vec<OwnedRow>)>,
    scratch: Vec<u8>,
}

/// Rows in a file.
struct Chunk {
    file: usize,
    bytes: Range<u64>,
    rows: Range<u64>,
}

impl RowStore {
    /// Without rows.
    pub fn new(host: &Host) -> RowStore {
        RowStore {
            width: 0,
            most: host.work_memory() / 2,
            options: None,
            chunks: Vec::new(),
            files: Vec::new(),
            writer: None,
            written: 0,
            newest: Vec::new(),
            bytes: 0,
            read: None,
            scratch: Vec::new(),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.written + self.newest.len() as u64
    }

    /// Adds a row.
    pub fn push(&mut self, Row { values, ctid }: Row<'_>, host: &mut Host) -> Result<()> {
        let mut row = OwnedRow::with_capacity(values.len() + 1);
        row.extend(values.iter().map(|value| value.clone().into_owned()));
        row.push(ctid.map_or(Datum::Null, place_value));
        self.width = row.len();
        self.bytes = self.bytes.saturating_add(spill::memory(&row));
        self.newest.push(row);
        if self.bytes > self.most { self.write(host) } else { Ok(()) }
    }

    /// Writes the rows in memory.
    fn write(&mut self, host: &mut Host) -> Result<()> {
        let options = self.options(host)?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(host.call(|session| session.temp_file(options))?),
        };
        let (start, before) = (writer.len(), self.written);
        for row in self.newest.drain(..) {
            host.step()?;
            spill::write(writer, &row, &mut self.scratch, host)?;
            self.written += 1;
        }
        self.bytes = 0;
        let (bytes, rows) = (start..writer.len(), before..self.written);
        self.chunks.push(Chunk { file: self.files.len(), bytes, rows });
        Ok(())
    }

    /// How its files are written and read: the buffers take no more memory than the rows.
    fn options(&mut self, host: &mut Host) -> Result<TempOptions> {
        if let Some(options) = self.options {
            return Ok(options);
        }
        let TempOptions { combine, depth } = host.temp_options()?;
        let depth = depth.min(WRITES);
        let blocks = self.most / (depth as usize + 1) / BLOCK;
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).clamp(1, combine.max(1));
        Ok(*self.options.insert(TempOptions { combine: blocks, depth }))
    }

    /// No more rows come, for now or ever: frees buffers for writing.
    pub fn finish(&mut self, host: &mut Host) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.files.push(host.io(|io| writer.finish(io))?);
        }
        Ok(())
    }

    /// The row of that number, from 0; None: there are not so many.
    pub fn get(&mut self, index: u64, host: &mut Host) -> Result<Option<Row<'_>>> {
        let row = match index.checked_sub(self.written) {
            Some(at) => usize::try_from(at).ok().and_then(|at| self.newest.get(at)),
            None => {
                let chunk = self.chunks.partition_point(|chunk| chunk.rows.end <= index);
                let first = self.chunks.get(chunk).map_or(0, |chunk| chunk.rows.start);
                self.load(chunk, host)?;
                let at = usize::try_from(index - first).ok();
                self.read.as_ref().and_then(|(_, rows)| at.and_then(|at| rows.get(at)))
            }
        };
        let Some((ctid, values)) = row.and_then(|row| row.split_last()) else { return Ok(None) };
        Ok(Some(Row { values, ctid: place_of(ctid) }))
    }

    /// Reads a chunk, unless it is the one that was read last.
    fn load(&mut self, chunk: usize, host: &mut Host) -> Result<()> {
        if self.read.as_ref().is_some_and(|(read, _)| *read == chunk) {
            return Ok(());
        }
        self.read = None;
        let options = self.options(host)?;
        if self.chunks.get(chunk).is_some_and(|chunk| chunk.file == self.files.len()) {
            self.finish(host)?;
        }
        let lost = || SqlError::new(state::INTERNAL_ERROR, "kept rows are in no temporary file");
        let Chunk { file, bytes, rows } = self.chunks.get(chunk).ok_or_else(lost)?;
        let file = self.files.get(*file).ok_or_else(lost)?;
        let mut reader = file.reader_of(bytes.clone(), options);
        let mut read = Vec::new();
        while let Some(row) = spill::read(&mut reader, self.width, &mut self.scratch, host)? {
            host.step()?;
            read.push(row);
        }
        if read.len() as u64 != rows.end - rows.start {
            return Err(lost());
        }
        self.read = Some((chunk, read));
        Ok(())
    }
}
