//! Reads the log before anything is changed: finds its end, and checks that redo can do all of it.
//!
//! A log that is damaged in the middle, lacks a segment, or has records of unknown kinds is refused
//! while the directory is as the crash left it. Then the missing part may be found, or another
//! server may recover the directory. Reading the log twice costs little compared with redo.

use forebay_access::redo::Registry;
use forebay_format::{Lsn, timeline::TimelineHistory};
use forebay_txn::redo::RedoRecord;
use forebay_wal::{EndOfWal, WalReader, WalRecord};

use super::timeline::Follower;
use crate::config::RecoveryStop;
use crate::error::EngineError;

/// What reading the log found.
pub(super) struct Scan {
    /// Where it ends.
    pub(super) end: EndOfWal,
    /// Number of records.
    pub(super) records: u64,
    /// The timeline at the end.
    pub(super) timeline: u32,
}

/// Reads the whole log. `needed` is a position that it must reach, and the reason.
pub(super) fn scan(
    io: &mut forebay_aio::IoBackend,
    mut reader: WalReader,
    registry: &Registry,
    history: &TimelineHistory,
    start_timeline: u32,
    needed: (Lsn, &str),
    stop: &RecoveryStop,
) -> Result<Scan, EngineError> {
    let mut follower = Follower::new(history, start_timeline);
    let mut records = 0;
    while let Some(record) = reader.next(io)? {
        stop.check()?;
        let decoded = decode(&record)?;
        let redo = RedoRecord { start: record.start, end: record.end, record: &decoded };
        registry.check(&redo)?;
        follower.follow(&redo)?;
        records += 1;
    }
    let end = end_of(&reader)?;
    reader.check_end(io).map_err(|error| {
        EngineError::corrupt(error.to_string()).with_hint(
            "Nothing was changed. Bring the segment back from an archive or a backup; or, to give \
             up all that was committed behind that position, move the later segments away.",
        )
    })?;
    let (lsn, why) = needed;
    if end.end < lsn {
        let message = format!("WAL ends at {} before {why} at {lsn}: {}", end.end, end.reason);
        return Err(EngineError::corrupt(message));
    }
    Ok(Scan { end, records, timeline: follower.timeline() })
}

/// Where a log ended that was read to its end.
pub(super) fn end_of(reader: &WalReader) -> Result<EndOfWal, EngineError> {
    reader.end().cloned().ok_or_else(|| EngineError::internal("the log has no end"))
}

/// Decodes a record.
pub(super) fn decode(
    record: &WalRecord,
) -> Result<forebay_format::wal::DecodedRecord<'_>, EngineError> {
    record
        .decode()
        .map_err(|error| EngineError::corrupt(format!("WAL record at {}: {error}", record.start)))
}
