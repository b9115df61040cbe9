//! The one door to the disk: files, aligned memory, asynchronous I/O handles and the methods that
//! execute them.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`sync`] | where locks, atomics, condition variables, threads and clocks come from |
//! | [`memory`] | [`Region`] and [`AlignedBuf`]: memory that any file can do I/O on |
//! | [`file`](mod@file) | [`File`], [`OpenOptions`] |
//! | [`files`] | [`FileCache`], [`VirtualFile`]: files that are opened when wanted; how many stay open is bounded |
//! | [`namespace`] | the [`Namespace`] trait: open, rename, list, sync of files and directories; [`PosixNamespace`] |
//! | [`direct`] | [`IoDirect`]: the io_direct list; may this directory do direct I/O, and if not, why |
//! | [`op`] | [`Io`]: what one asynchronous I/O is: file, operation, memory, target, completion |
//! | [`completion`] | [`Completion`] with its two halves, [`Outcome`], [`IoResult`] |
//! | [`handle`] | the states of a handle, its generation, [`WaitRef`] |
//! | [`table`] | the fixed table of handles: what each I/O in flight is, and its steps |
//! | `merge` | staged neighbours leave as one I/O |
//! | [`execute`] | execution in the calling thread; short transfers continued |
//! | [`method`] | the [`Method`](method::Method) trait; `sync`, `worker` and `io_uring` |
//! | [`aio`](mod@crate::aio) | [`Aio`]: namespace + method + handle table + statistics |
//! | [`backend`] | [`Backend`]: one thread's stage, submit, wait |
//! | [`owned`] | asynchronous I/O for code without `unsafe`: a buffer that goes and comes back |
//! | [`fault`] | faults on purpose, for tests: errors, short transfers, delays |
//! | `planted` | bugs on purpose, to show that tests notice; not in the product |
//! | [`stats`] | [`IoStats`]: the matrix of pg_stat_io |
//! | [`counters`] | [`BackendStatsRow`]: what each backend's I/O does, with latencies: pg_stat_aio_backends |
//! | [`registration`] | what a method made known to the kernel: memory, open files |
//! | [`limits`] | descriptors and locked memory: the limits, what is in use, raising the soft one |
//! | [`error`] | [`AioError`], [`Errno`] |
//!
//! Nothing here is global: two [`Aio`] with two methods live in one process.

pub mod aio;
pub mod backend;
pub mod completion;
pub mod counters;
pub mod direct;
pub mod error;
pub mod execute;
pub mod fault;
pub mod file;
pub mod files;
pub mod handle;
pub mod limits;
pub mod memory;
mod merge;
pub mod method;
pub mod namespace;
pub mod op;
pub mod owned;
mod planted;
mod platform;
pub mod registration;
pub mod stats;
pub mod sync;
pub mod table;

pub use aio::{Aio, AioConfig, MethodKind};
pub use backend::{Acquired, Backend, Leftovers};
pub use completion::{
    Completed, Completion, IoReport, IoResult, LocalCompletion, Outcome, SharedCompletion, Status,
};
pub use counters::{BackendStatsRow, LATENCY_CLASSES};
pub use direct::{BadIoDirect, DirectAlignment, DirectRefusal, IoDirect, PROBE, probe_direct};
pub use error::{AioError, Errno};
pub use file::{File, FileFlags, OpenOptions};
pub use files::{FileCache, VirtualFile};
pub use handle::{HandleInfo, HandleState, WaitRef};
pub use limits::{Limits, descriptors_in_use, raise_descriptor_limit};
pub use memory::{AlignedBuf, HugePages, IO_ALIGN, IoMemory, IoSlice, Region};
pub use method::{
    Deferred, IoUringRefusal, RefusalCause, WorkerCounts, WorkerLimits, probe_io_uring,
};
pub use namespace::{DirEntry, FileKind, FileStat, Namespace, PosixNamespace};
pub use op::{Account, Io, IoFlags, Op, OpKind, Target};
pub use owned::OwnedIo;
pub use planted::{CAN_HAVE_BUGS, PlantedBug};
pub use registration::{Registration, RegistrationRefusal, RegistrationStats};
pub use stats::{BackendType, Counts, IoContext, IoObject, IoOp, IoStats, IoStatsRow};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
