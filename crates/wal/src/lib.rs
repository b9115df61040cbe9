//! The write-ahead log in PostgreSQL 18's format.
//!
//! - `config`: what a log is started with, and where it goes on
//! - `error`: the typed errors
//! - `position`: arithmetic between LSNs and positions without page headers
//! - `record`: a record as its author describes it; its assembly, with full-page images
//! - `ring`: WAL buffers between an inserting and a writing end
//! - `role`: one writer at a time, and those who wait for it
//! - `segments`: segment files: made ahead, recycled, removed
//! - `wal`: the log and where it stands; its parts are
//!   - `resume`: starting where recovery found the end
//!   - `insert`: reserving and copying
//!   - `flush`: gather writes, led by a committer
//!   - `checkpoint`: the redo pointer, old segments
//! - `reader`: reads records back, and finds the end of the log
//! - `stats`: counters
//!
//! Unsafe code: `ring` alone.

mod checkpoint;
mod config;
mod error;
mod flush;
mod insert;
pub mod position;
mod reader;
mod record;
mod resume;
mod ring;
mod role;
mod segments;
mod stats;
mod wal;

pub use checkpoint::{CheckpointKind, OldSegments};
pub use config::{AbortedRecord, Resume, SyncMethod, WalConfig};
pub use error::{FatalError, WalError, WalReadError};
pub use reader::{EndOfWal, EndReason, ReaderConfig, WalReader, WalRecord};
pub use record::{BlockFlags, BlockRef, Inserted, Record};
pub use stats::WalStats;
pub use wal::Wal;
