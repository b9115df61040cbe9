//! The first WAL segment: a shutdown checkpoint.

use forebay_format::ids::INVALID_XID;
use forebay_format::lsn::WAL_BLOCK_SIZE;
use forebay_format::wal::page_header::{LONG_SIZE, LongHeader, PageHeader};
use forebay_format::wal::xlog::{self, CheckPoint};
use forebay_format::wal::{RecordBuilder, Rmgr};
use forebay_format::{Lsn, SegmentSize};

use crate::error::EngineError;

/// The timeline of a new directory.
pub(super) const TIMELINE: u32 = 1;

/// LSN of the first record: behind the first page header of segment 1. There is no segment 0, so
/// that no record has LSN 0.
pub(super) fn first_record(segments: SegmentSize) -> Lsn {
    segments.start(1).add(LONG_SIZE as u64)
}

/// The segment's name and its first page. The rest is zeros.
pub(super) fn first_segment(
    segments: SegmentSize,
    system_id: u64,
    checkpoint: &CheckPoint,
) -> Result<(String, Vec<u8>), EngineError> {
    let mut page = vec![0; WAL_BLOCK_SIZE];
    let long = LongHeader {
        system_id,
        segment_size: segments.get(),
        block_size: u32::try_from(WAL_BLOCK_SIZE).unwrap_or_default(),
    };
    let header = PageHeader {
        info: 0,
        timeline: TIMELINE,
        page_addr: segments.start(1),
        rem_len: 0,
        long: Some(long),
    };
    let start = header.encode(&mut page);
    let payload = checkpoint.encode();
    let mut record = RecordBuilder::new(Rmgr::XLOG, xlog::CHECKPOINT_SHUTDOWN, INVALID_XID)
        .main(&payload)
        .finish()
        .map_err(|e| EngineError::internal(e.to_string()))?;
    record.seal(Lsn::INVALID);
    let bytes = record.to_vec();
    page.get_mut(start..start + bytes.len())
        .ok_or_else(|| EngineError::internal("the first checkpoint does not fit its page"))?
        .copy_from_slice(&bytes);
    Ok((segments.file_name(TIMELINE, 1), page))
}
