#![doc = include_str!("../README.md")]

pub mod backup_label;
pub mod brin;
mod bytes;
pub mod checksum;
pub mod commit_ts;
pub mod control;
pub mod crc;
pub mod expand;
pub mod free_space_map;
pub mod gin;
pub mod gist;
pub mod hash;
pub mod ids;
pub mod index_page;
pub mod index_tuple;
pub mod line_pointers;
pub mod lsn;
pub mod multixact;
pub mod nbtree;
pub mod origins;
pub mod page;
pub mod pglz;
pub mod relmap;
pub mod sequence;
pub mod slru;
pub mod spgist;
pub mod subtrans;
pub mod syscache;
pub mod timeline;
pub mod tuple;
pub mod varlena;
pub mod visibility_map;
pub mod wal;

pub use ids::{
    BLOCK_SIZE, BlockNumber, CommandId, Fork, FullXid, ItemPointer, OffsetNumber, Oid, PageTag,
    RELSEG_BLOCKS, RelFileLocator, Xid, database_path,
};
pub use index_tuple::{IndexTuple, IndexTupleError};
pub use lsn::{Lsn, SegmentSize};
pub use page::{ItemId, Page, PageBytes, PageMut};
pub use tuple::{Align, AttrLayout, HeapTuple, HeapTupleMut, TupleError};
