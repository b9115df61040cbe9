//! The write-ahead log in PostgreSQL 18's format.
//!
//! - `config`: what a log is started with, and where it goes on
//! - `error`: the typed errors
//! - `position`: arithmetic between LSNs and positions without page headers
//! - `record`: a record as its author describes it; its assembly, with full-page images
//! - `wal`: the log: start, insertion, flush, checkpoints
//! - `reader`: reads records back, and finds the end of the log
//! - `stats`: counters

mod config;
mod error;
pub mod position;
mod reader;
mod record;
mod ring;
mod role;
mod segments;
mod stats;
mod wal;

pub use config::{AbortedRecord, Resume, SyncMethod, WalConfig};
pub use error::{FatalError, WalError, WalReadError};
pub use reader::{EndOfWal, EndReason, ReaderConfig, WalReader, WalRecord};
pub use record::{BlockFlags, BlockRef, Inserted, Record};
pub use stats::WalStats;
pub use wal::{CheckpointKind, OldSegments, Wal};
