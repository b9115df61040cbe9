//! A finished temporary file: its name, its size and its removal.

use super::options::TempOptions;
use super::reader::TempReader;
use super::stored::Stored;
use forebay_aio::sync::Arc;
use std::ops::Range;

/// A temporary file whose writer has finished. It is removed when it and all its readers are
/// dropped.
#[derive(Debug, Clone)]
pub struct TempFile {
    stored: Arc<Stored>,
    len: u64,
}

impl TempFile {
    pub(super) fn new(stored: Arc<Stored>, len: u64) -> TempFile {
        TempFile { stored, len }
    }

    /// Returns the number of bytes written into it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns its name, relative to the data directory.
    pub fn name(&self) -> &str {
        &self.stored.name
    }

    /// Makes a reader of the whole file.
    pub fn reader(&self, options: TempOptions) -> TempReader {
        self.reader_of(0..self.len, options)
    }

    /// Makes a reader of a part of the file, cut off at the file's end.
    pub fn reader_of(&self, part: Range<u64>, options: TempOptions) -> TempReader {
        let end = part.end.min(self.len);
        TempReader::new(Arc::clone(&self.stored), part.start.min(end)..end, options)
    }
}
