//! Relation files, the buffer pool and streams.
//!
//! | module | what it holds |
//! |---|---|
//! | [`error`] | [`StorageError`]: what can go wrong, with file and block |
//! | [`backend`] | [`Backend`]: one thread's context, passed down as `&mut` |
//! | [`local`] | [`LocalPool`]: temporary relations of one session |
//! | [`smgr`] | [`Smgr`]: relation forks as files of 1 GB segments; sizes, open files, pending syncs |
//! | [`pool`] | [`BufferPool`]: shared pages, pins, content locks, reading, extending, writing out |
//! | [`stream`] | [`ReadStream`]: reads ahead of a scan, combining neighbours |
//! | [`tempfile`] | [`TempFiles`]: spill files of sorts, written and read as streams of bytes |
//! | [`write_stream`] | [`WriteStream`]: dirty pages in any order, out as combined writes |
//! | [`pace`] | [`Pace`]: how fast a checkpoint goes |
//! | [`prewarm`](mod@prewarm) | bringing a relation into memory; what the kernel caches |
//!
//! # Which way a page goes
//!
//! ```text
//!   ReadStream --> BufferPool::start_read --> Smgr (segment file, offset) --> aio
//!                        ^                                                     |
//!                        +---- ReadCompletion: verify, VALID, wake <-----------+   (any thread)
//!
//!   WriteStream (checkpoint, cleaner), a dirty victim, a ring --> share-exclusive lock, WAL flush, checksum --> aio
//!                        ^                                                     |
//!                        +---- WriteCompletion: sync request, clean, unlock <--+   (any thread)
//! ```
//!
//! # Waiting
//!
//! A thread that holds staged, unsubmitted I/O never waits for another thread. A thread that waits
//! for a buffer whose I/O someone else started completes that I/O itself through its wait
//! reference. Both together exclude that two threads wait for each other's I/O.

pub mod backend;
pub mod error;
pub mod local;
pub mod pace;
pub mod pool;
pub mod prewarm;
pub mod smgr;
pub mod stream;
pub mod tempfile;
pub mod write_stream;

pub use backend::Backend;
pub use error::{StorageError, WalFailure, sqlstate_of};
pub use local::LocalPool;
pub use pace::{FullSpeed, Pace};
pub use pool::{
    BufferInfo, BufferPage, BufferPool, ChecksumFailures, CleanReport, Cleaner, CleanerOptions,
    Dirtied, DirtyReport, EvictReport, Evicted, KernelCached, MemoryChecksums, PageHoldGuard,
    PageReadGuard, PageWriteGuard, Pinned, PoolConfig, PoolStats, PoolSummary, Prefetched,
    READ_BACK_FILES, ReadPolicy, ReadWarning, Strategy, UsageCount, WalFlush, WriteReport,
    WriteScope,
};
pub use prewarm::{PrewarmMode, kernel_cached_pages, prewarm};
pub use smgr::{
    ExtendMethod, Smgr, SmgrConfig, SyncReport, Transfer, database_dirs, remove_private_files,
};
pub use stream::{BlockSource, ReadStream, StreamFlags, StreamSettings, WithData};
pub use tempfile::{
    LeftoverReport, TempFile, TempFiles, TempOptions, TempReader, TempSpace, TempStats, TempWriter,
};
pub use write_stream::{Locked, WriteOptions, WriteStream, Written};
