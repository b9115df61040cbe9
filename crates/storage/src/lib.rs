#![doc = include_str!("../README.md")]

mod cleaner;
mod error;
mod evict;
mod pool;
mod prewarm;
pub mod progress;
mod resize;
mod runs;
mod smgr;
mod stream;
mod tail;
mod temp_relations;
mod tempfile;
mod write_pass;

pub use cleaner::{CleanReport, Cleaner, CleanerOptions};
pub use error::{StorageError, WalFailure, sqlstate_of};
pub use evict::{Dirtied, DirtyReport, EvictReport, Evicted};
pub use pool::{
    AccessKind, Backend, BufferInfo, BufferPage, BufferPool, ChecksumFailures, CleanupRequest,
    Latch, Manner, MemoryChecksums, PageHoldGuard, PageReadGuard, PageReference, PageTrace,
    PageWriteGuard, Pinned, PoolConfig, PoolStats, PoolSummary, Prefetched, READ_BACK_FILES,
    ReadPolicy, ReadWarning, ShrinkMode, Strategy, TraceReader, UsageCount, WalFlush,
};
pub use prewarm::{KernelCached, PrewarmMode, kernel_cached_pages, load_blocks, prewarm};
pub use resize::{ResizeStop, Resized};
pub use runs::{Merge, RunHost, RunItems, Runs};
pub use smgr::{
    ExtendMethod, Smgr, SmgrConfig, SyncReport, Transfer, database_dirs, remove_temp_relations,
};
pub use stream::{
    BlockSource, Locked, ReadStream, StreamFlags, StreamSettings, StreamStats, WithData,
    WriteOptions, WriteReport, WriteStream, Written,
};
pub use temp_relations::TempRelations;
pub use tempfile::{
    LeftoverReport, TempFile, TempFiles, TempOptions, TempReader, TempSpace, TempStats, TempWriter,
};
pub use write_pass::{FullSpeed, Pace, WriteScope};
