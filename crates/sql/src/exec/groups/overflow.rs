//! Rows of groups that do not fit in memory, in files by a hash of their keys: all rows of a group
//! are in one file.

use crate::error::Result;
use crate::exec::host::Host;
use crate::exec::row::OwnedRow;
use crate::exec::spill;
use forebay_engine::{TempFile, TempOptions, TempWriter};
use forebay_types::Datum;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Bounds of the number of files.
const LEAST_FILES: usize = 4;
const MOST_FILES: usize = 32;
/// The buffers of all files take at most this part of work_mem, in addition to it.
const WRITING_SHARE: usize = 4;
const BLOCK: usize = 8192;

/// Rows that are written into files.
pub(super) struct Overflow {
    /// Each is created with its first row.
    files: Vec<Option<TempWriter>>,
    /// How often the rows were in files before; it changes the hash.
    level: u32,
    writing: TempOptions,
    scratch: Vec<u8>,
}

/// A file of rows to be grouped later.
pub(super) struct Waiting {
    file: TempFile,
    options: TempOptions,
}

impl Overflow {
    pub(super) fn new(level: u32, host: &mut Host) -> Result<Overflow> {
        let (memory, options) = (host.work_memory(), host.temp_options()?);
        let files = (memory / WRITING_SHARE / (4 * BLOCK)).clamp(LEAST_FILES, MOST_FILES);
        // Each file has a buffer that is filled and one that is written.
        let blocks = u32::try_from(memory / WRITING_SHARE / files / 2 / BLOCK).unwrap_or(u32::MAX);
        let writing = TempOptions {
            combine: blocks.clamp(1, options.combine.max(1)),
            depth: options.depth.min(1),
        };
        let files = (0..files).map(|_| None).collect();
        Ok(Overflow { files, level, writing, scratch: Vec::new() })
    }

    /// Takes a row; `key` is its packed keys.
    pub(super) fn add(&mut self, key: &[u8], values: &[Datum<'_>], host: &mut Host) -> Result<()> {
        host.step()?;
        let mut hasher = DefaultHasher::new();
        (self.level, key).hash(&mut hasher);
        let at = (hasher.finish() % self.files.len().max(1) as u64) as usize;
        let Some(slot) = self.files.get_mut(at) else { return Ok(()) };
        let writer = match slot {
            Some(writer) => writer,
            none => none.insert(host.call(|session| session.temp_file(self.writing))?),
        };
        spill::write(writer, values, &mut self.scratch, host)
    }

    /// The files, written.
    pub(super) fn finish(self, host: &mut Host) -> Result<Vec<Waiting>> {
        let options = host.temp_options()?;
        let mut waiting = Vec::new();
        for writer in self.files.into_iter().flatten() {
            let file = host.io(|io| writer.finish(io))?;
            waiting.push(Waiting {
                file,
                options: TempOptions { depth: options.depth.min(2), ..options },
            });
        }
        Ok(waiting)
    }
}

impl Waiting {
    /// Hands over its rows and removes it.
    pub(super) fn read(
        self,
        columns: usize,
        host: &mut Host,
        visit: &mut dyn FnMut(OwnedRow, &mut Host) -> Result<()>,
    ) -> Result<()> {
        let mut reader = self.file.reader(self.options);
        drop(self.file);
        let mut scratch = Vec::new();
        while let Some(row) = spill::read(&mut reader, columns, &mut scratch, host)? {
            host.step()?;
            visit(row, host)?;
        }
        Ok(())
    }
}
