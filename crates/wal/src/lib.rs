//! The write-ahead log in PostgreSQL 18's format.
//!
//! - `config`: what a log is started with, and where it goes on
//! - `error`: the typed errors
//! - `poison`: what ended a log
//! - `position`: arithmetic between LSNs and positions without page headers
//! - `record`: a record as its author describes it; its assembly, with full-page images
//! - `reserve`: the place of a record and its predecessor, by one compare-and-swap
//! - `slots`: who is inserting, and so how far the log has no gaps
//! - `ring`: WAL buffers that many fill and many write out
//! - `crowd`: those who wait for the log to have come as far as they want
//! - `flight`: who writes and syncs what, and those who wait for them
//! - `segments`: segment files: made ahead, recycled, removed, marked for the archive
//! - `probe`: which sync method is the fastest on a disk
//! - `wal`: the log and where it stands; its parts are
//!   - `resume`: starting where recovery found the end
//!   - `insert`: reserving, then copying in parallel
//!   - `flush`: gather writes, led by a committer; commits that don't wait
//!   - `checkpoint`: the redo pointer, old segments
//!   - `switch`: the rest of a segment left unused
//!   - `upkeep`: segments prepared ahead of need
//! - `branch`: where a timeline begins
//! - `reader`: reads records back, and finds the end of the log
//! - `stats`: counters
//!
//! Unsafe code: `ring` alone.

mod branch;
mod checkpoint;
mod company;
mod config;
mod crowd;
mod error;
mod flight;
mod flush;
mod insert;
mod poison;
pub mod position;
pub mod probe;
mod reader;
mod record;
mod reserve;
mod resume;
mod ring;
mod segments;
mod slots;
mod stats;
mod switch;
mod upkeep;
mod wal;

pub use branch::begin_timeline;
pub use checkpoint::{CheckpointKind, OldSegments};
pub use config::{AbortedRecord, Resume, SyncMethod, WalConfig};
pub use error::{FatalError, WalError, WalReadError};
pub use flush::WriterPace;
pub use reader::{
    EndOfWal, EndReason, Fetch, FetchFailure, LookAhead, ReaderConfig, WalReader, WalRecord,
    read_history,
};
pub use record::{BlockFlags, BlockRef, Inserted, Record};
pub use segments::{ArchiveFeed, SegmentPolicy, SegmentStats};
pub use stats::WalStats;
pub use wal::Wal;
