//! Errors of decoding records and payloads.

/// Why bytes are not a valid record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The length in the header is impossible, or differs from the number of bytes.
    #[error("invalid WAL record length {0}")]
    BadLength(u32),
    /// There is no such resource manager.
    #[error("invalid resource manager {0} in WAL record")]
    BadRmgr(u8),
    /// The checksum is wrong.
    #[error("incorrect checksum in WAL record: stored {stored:08X}, computed {computed:08X}")]
    BadCrc {
        /// The stored checksum.
        stored: u32,
        /// The computed checksum.
        computed: u32,
    },
    /// The block references are inconsistent, or do not match the length.
    #[error("invalid WAL record: {0}")]
    Malformed(&'static str),
}

/// A payload is shorter than its record's kind requires, or inconsistent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("payload of WAL record {record} is damaged")]
pub struct PayloadError {
    /// Kind of record, as `pg_waldump` names it.
    pub record: &'static str,
}

pub(crate) fn damaged(record: &'static str) -> PayloadError {
    PayloadError { record }
}
