//! Asynchronous direct I/O: files, aligned memory, I/O handles, and the methods that execute I/O.
//! All other crates reach files only through this one. Its README tells why and how.
//!
//! | Module | Contents, from the bottom up |
//! |---|---|
//! | [`sync`] | the source of locks, atomics, condition variables, threads and clocks |
//! | [`limits`] | limits on descriptors and locked memory |
//! | `errno`, `op`, `refusal` | [`Errno`], [`OpKind`], [`Target`], [`IoUringRefusal`] |
//! | `error` | [`AioError`] |
//! | `named` | a macro for enums with names |
//! | `config` | [`AioConfig`]: sizes and switches |
//! | `planted` | [`PlantedBug`]: bugs that tests plant |
//! | `registration` | numbers under which the kernel knows memory and open files |
//! | `file` | [`File`], [`OpenOptions`] |
//! | [`handle`] | states and generations of handles, [`WaitRef`] |
//! | `platform` | what differs between operating systems |
//! | `memory` | [`Region`] and [`AlignedBuf`]: memory that any file can do I/O on |
//! | [`direct`] | [`IoDirect`]: the io_direct list; whether a directory allows direct I/O |
//! | `namespace` | [`Namespace`]: open, rename, list, sync; [`PosixNamespace`], [`DirectIfPossible`] |
//! | `files` | [`FileCache`], [`VirtualFile`]: a bounded number of open files |
//! | [`stats`] | [`IoStats`]: the counters of pg_stat_io |
//! | `completion` | [`SharedCompletion`], [`Outcome`], [`IoReport`] |
//! | `io` | [`Io`]: one I/O with its [`Completion`]s |
//! | [`execute`] | execution in the calling thread; continuation of short transfers |
//! | `counters` | [`BackendStatsRow`]: the counters of pg_stat_aio_backends |
//! | `merge` | staged neighbours become one I/O |
//! | [`table`] | the table of handles, and the steps of each |
//! | `workers` | [`WorkerLimits`], [`WorkerCounts`] |
//! | [`method`] | the [`Method`](method::Method) trait |
//! | `methods` | its implementations: sync, worker, io_uring, posix_aio, [`Deferred`] |
//! | `aio` | [`Aio`]: namespace, method, table and statistics |
//! | `backend` | [`IoBackend`]: one thread's stage, submit and wait |
//! | `owned` | [`OwnedIo`]: I/O without `unsafe` |
//! | [`fault`] | fault injection for tests |
//!
//! Nothing is global: two [`Aio`]s with different methods can live in one process.

#[macro_use]
mod named;

mod aio;
mod backend;
mod completion;
mod config;
mod counters;
pub mod direct;
mod errno;
mod error;
pub mod execute;
pub mod fault;
mod file;
mod files;
pub mod handle;
mod io;
pub mod limits;
mod memory;
mod merge;
pub mod method;
mod methods;
mod namespace;
mod op;
mod owned;
mod planted;
mod platform;
mod refusal;
mod registration;
pub mod stats;
pub mod sync;
pub mod table;
mod workers;

pub use aio::Aio;
pub use backend::{Acquired, IoBackend, Leftovers};
pub use completion::{Completed, IoReport, IoResult, Outcome, SharedCompletion, Status};
pub use config::AioConfig;
pub use counters::{BackendStatsRow, LATENCY_CLASSES};
pub use direct::{BadIoDirect, DirectAlignment, IoDirect, PROBE, probe_direct};
pub use error::{AioError, Errno, IfFound};
pub use file::{File, FileFlags, OpenOptions};
pub use files::{FileCache, VirtualFile};
pub use handle::{HandleInfo, HandleState, WaitRef};
pub use io::{Completion, Io, IoFlags, Issuer, LocalCompletion, Op};
pub use limits::{Limits, SystemFile, descriptors_in_use, raise_descriptor_limit, system_text};
pub use memory::{AlignedBuf, HugePages, IO_ALIGN, IoMemory, IoSlice, Region};
pub use methods::{Deferred, MethodKind, probe_io_uring};
pub use namespace::{DirEntry, DirectIfPossible, FileKind, FileStat, Namespace, PosixNamespace};
pub use op::{OpKind, Target};
pub use owned::OwnedIo;
pub use planted::{CAN_HAVE_BUGS, PlantedBug};
pub use refusal::{DirectRefusal, IoUringRefusal, RefusalCause};
pub use registration::{Registration, RegistrationRefusal, RegistrationStats};
pub use stats::{
    Account, BackendType, Counts, IoContext, IoObject, IoOp, IoStats, IoStatsRow, Usage,
};
pub use workers::{WorkerCounts, WorkerLimits};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExample;
