//! A record with its place in the log.

use forebay_format::Lsn;
use forebay_format::wal::DecodedRecord;

use super::error::RedoError;

/// A record with its place in the log.
#[derive(Debug)]
pub struct RedoRecord<'a> {
    /// LSN of its first byte.
    pub start: Lsn,
    /// LSN behind its last byte: the LSN of the pages it changed.
    pub end: Lsn,
    /// Its contents.
    pub record: &'a DecodedRecord<'a>,
}

impl RedoRecord<'_> {
    /// An error: records of this kind cannot be redone.
    pub fn unsupported(&self) -> RedoError {
        let header = &self.record.header;
        RedoError::Unsupported { rmgr: header.rmgr, info: header.info, lsn: self.start }
    }

    /// An error: the record says something impossible.
    pub fn damaged(&self, problem: impl Into<String>) -> RedoError {
        RedoError::Damaged {
            rmgr: self.record.header.rmgr,
            lsn: self.start,
            problem: problem.into(),
        }
    }

    /// An error: something that redoing the record needs has failed.
    pub fn failed(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RedoError {
        RedoError::Failed { lsn: self.start, source: source.into() }
    }

    /// The record's kind: its info bits without those common to all records.
    pub fn kind(&self) -> u8 {
        self.record.kind()
    }
}
