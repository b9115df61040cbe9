#![doc = include_str!("../README.md")]

mod branch;
mod checkpoint;
mod config;
mod error;
mod flush;
mod group_commit;
mod insert;
mod pipeline;
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
mod waiters;
mod wal;

pub use branch::begin_timeline;
pub use checkpoint::CheckpointKind;
pub use config::{AbortedRecord, Resume, SyncMethod, WalConfig};
pub use error::{FatalError, FetchFailure, WalError, WalReadError};
pub use flush::WriterPace;
pub use reader::{
    EndOfWal, EndReason, Fetch, LookAhead, ReaderConfig, WalReader, WalRecord, read_history,
};
pub use record::{BlockFlags, BlockRef, Inserted, Record};
pub use segments::{ArchiveFeed, GrowthWatcher, OldSegments, SegmentPolicy, SegmentStats};
pub use stats::WalStats;
pub use wal::Wal;
