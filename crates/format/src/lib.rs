//! PostgreSQL 18's bytes: everything that another program of that version may read or have written.
//!
//! No I/O and no state: functions from bytes to values and back. Whatever comes from a disk is
//! decoded without panics and ends in a typed error; whatever is encoded is equal, byte for byte,
//! to what PostgreSQL writes.
//!
//! - [`ids`]: object, transaction and block numbers, relation files, page tags
//! - [`lsn`]: WAL positions, segments and their names
//! - [`page`]: the 8 kB page: header, line pointers, items
//! - [`checksum`]: page checksums, by whatever vectors the processor has
//! - [`tuple`](mod@tuple): heap tuple headers, forming and deforming; [`varlena`]: variable-length
//!   values
//! - [`timeline`]: timelines and their history files; [`backup_label`]: where recovery of a base
//!   backup begins
//! - [`wal`]: WAL pages, records and the payloads of the resource managers
//! - [`control`]: `global/pg_control`; [`relmap`]: `pg_filenode.map`; [`slru`]: `pg_xact`
//! - CRC-32C: [`crc`]

pub mod backup_label;
mod bytes;
pub mod checksum;
pub mod control;
pub mod crc;
pub mod ids;
pub mod lsn;
pub mod page;
pub mod relmap;
pub mod slru;
pub mod timeline;
pub mod tuple;
pub mod varlena;
pub mod wal;

pub use ids::{
    BLOCK_SIZE, BlockNumber, CommandId, Fork, FullXid, ItemPointer, OffsetNumber, Oid, PageTag,
    RELSEG_BLOCKS, RelFileLocator, Xid,
};
pub use lsn::{Lsn, SegmentSize};
pub use page::{ItemId, Page, PageBytes, PageMut};
pub use tuple::{Align, AttrLayout, HeapTuple, HeapTupleMut, TupleError};
