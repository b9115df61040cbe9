//! The WAL: pages, records, and the payloads of each resource manager.
//!
//! - [`page_header`]: the header of a WAL page
//! - [`record`]: the header of a record, block references and images; [`record::decode_record`]
//! - [`build`]: building a record; [`RecordBuilder`]
//! - [`compress`]: compressed page images
//! - [`rmgr`]: resource managers and their info bits
//! - [`heap`], [`heap_logical`], [`prune`], [`nbtree`], [`sequence`], [`xact`], [`xlog`], [`smgr`],
//!   [`database`], [`tablespace`], [`relation_map`], [`clog`], [`multixact`], [`standby`],
//!   [`invalidation`]: payloads
//! - [`desc`]: descriptions of records, for messages

pub mod build;
pub mod clog;
pub mod compress;
pub mod database;
pub mod desc;
mod error;
pub mod heap;
pub mod heap_logical;
pub mod invalidation;
pub mod multixact;
pub mod nbtree;
pub mod page_header;
pub mod prune;
pub mod record;
pub mod relation_map;
pub mod rmgr;
pub mod sequence;
pub mod smgr;
pub mod standby;
pub mod tablespace;
pub mod xact;
pub mod xlog;

pub use build::{EncodedRecord, Image, RecordBuilder};
pub use compress::ImageCompression;
pub use error::{PayloadError, RecordError};
pub use page_header::{LongHeader, PageHeader, PageHeaderError};
pub use record::{BlockImage, BlockRef, DecodedRecord, RecordHeader, decode_record, verify_crc};
pub use rmgr::Rmgr;
