//! The WAL: pages, records, and what each resource manager puts into its records.
//!
//! - [`page_header`]: the header of a WAL page
//! - [`record`]: the header of a record, its block references and images; [`record::decode_record`]
//! - [`build`]: putting a record together; [`RecordBuilder`]
//! - [`compress`]: compressed page images
//! - [`rmgr`]: resource managers and their info bits
//! - [`heap`], [`prune`], [`xact`], [`xlog`], [`smgr`], [`clog`], [`standby`]: payloads
//! - [`desc`]: records in words, for messages

pub mod build;
pub mod clog;
pub mod compress;
pub mod desc;
pub mod heap;
pub mod page_header;
pub mod prune;
pub mod record;
pub mod rmgr;
pub mod smgr;
pub mod standby;
pub mod xact;
pub mod xlog;

pub use build::{EncodedRecord, Image, RecordBuilder};
pub use compress::ImageCompression;
pub use page_header::{LongHeader, PageHeader, PageHeaderError};
pub use record::{
    BlockImage, BlockRef, DecodedRecord, RecordError, RecordHeader, decode_record, verify_crc,
};
pub use rmgr::Rmgr;

/// A payload that is shorter than its record's kind requires, or contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("payload of WAL record {record} is damaged")]
pub struct PayloadError {
    /// Kind of record, as `pg_waldump` names it.
    pub record: &'static str,
}

pub(crate) fn damaged(record: &'static str) -> PayloadError {
    PayloadError { record }
}
