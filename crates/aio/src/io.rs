//! [`Io`]: one asynchronous I/O: file, operation, memory, target and completions.
//!
//! Each layer that an I/O passes on its way down may add a [`Completion`] with two halves:
//!
//! | | Shared half | Local half |
//! |---|---|---|
//! | Runs once | in the thread that finds the I/O finished | in the issuer, after that |
//! | May | update the shared object | start more I/O, update the issuer's own state |
//! | May not | block, start I/O, raise | |
//!
//! All shared halves run before any local one. Within a half the last registered completion runs
//! first, because it belongs to the lowest layer. Each sees the outcome so far and leaves its own.

use std::fmt;

use smallvec::SmallVec;

use crate::completion::{Completed, IoResult, Outcome, SharedCompletion};
use crate::error::AioError;
use crate::file::File;
use crate::handle::WaitRef;
use crate::memory::IoMemory;
use crate::op::{OpKind, Target};
use crate::stats::{Account, IoContext, IoObject, IoOp};
use crate::sync::Arc;

/// An operation with its memory.
#[derive(Clone, Debug)]
pub enum Op {
    /// Read into `memory` from `offset` on.
    Readv {
        /// First byte in the file.
        offset: u64,
        /// Where to read to.
        memory: IoMemory,
    },
    /// Write `memory` from `offset` on.
    Writev {
        /// First byte in the file.
        offset: u64,
        /// Where to write from.
        memory: IoMemory,
    },
    /// Make data and metadata durable.
    Fsync,
    /// Make data durable, and the metadata needed to find it.
    Fdatasync,
    /// Start the write-out of a range. It makes nothing durable; a sync must follow, and tells of
    /// errors of the write-out. EOPNOTSUPP if the system lacks it.
    SyncFileRange {
        /// First byte in the file.
        offset: u64,
        /// Bytes; 0 means up to the end of the file.
        len: u64,
    },
    /// Allocate the blocks of a range. The file grows to hold it, and new blocks read as zeros.
    /// EOPNOTSUPP if the system or the file system lacks it: the caller then writes zeros.
    Allocate {
        /// First byte in the file.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

impl Op {
    /// The kind of operation.
    pub fn kind(&self) -> OpKind {
        match self {
            Op::Readv { .. } => OpKind::Readv,
            Op::Writev { .. } => OpKind::Writev,
            Op::Fsync => OpKind::Fsync,
            Op::Fdatasync => OpKind::Fdatasync,
            Op::SyncFileRange { .. } => OpKind::SyncFileRange,
            Op::Allocate { .. } => OpKind::Allocate,
        }
    }
}

/// Properties of an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoFlags {
    /// The issuer waits at once, so its thread executes the I/O without a queue. Under a method
    /// that needs the issuer's thread for completions (io_uring), the method executes it.
    pub synchronous: bool,
    /// The memory is the issuer's own (temporary relations), as pg_aios shows.
    pub local_memory: bool,
    /// Nobody will ask for the report: completions do all that is needed.
    pub detached: bool,
}

/// What the local half of a completion can do with its backend.
pub trait Issuer {
    /// As [`IoBackend::start`](crate::Backend::start).
    fn start(&mut self, io: Io) -> WaitRef;
    /// As [`IoBackend::wait`](crate::Backend::wait).
    fn wait(&mut self, r: WaitRef) -> IoResult;
    /// As [`IoBackend::run`](crate::Backend::run).
    fn run(&mut self, io: Io) -> Result<usize, AioError>;
}

/// The local half of a completion. The issuer runs it when it takes the report, or gives up on it.
/// It gets the backend to start more I/O, unless the backend is being drained.
pub type LocalCompletion =
    Box<dyn FnOnce(Option<&mut dyn Issuer>, &Completed<'_>) -> Outcome + Send + Sync>;

/// One layer's completion: a shared half, a local half, or both.
#[derive(Default)]
pub struct Completion {
    pub(crate) shared: Option<Arc<dyn SharedCompletion>>,
    pub(crate) local: Option<LocalCompletion>,
}

impl Completion {
    /// The maximum number of completions of one I/O.
    pub const MAX: usize = 4;

    /// A completion with only a shared half.
    pub fn shared(half: Arc<dyn SharedCompletion>) -> Completion {
        Completion { shared: Some(half), local: None }
    }

    /// A completion with only a local half.
    pub fn local<F>(half: F) -> Completion
    where
        F: FnOnce(Option<&mut dyn Issuer>, &Completed<'_>) -> Outcome + Send + Sync + 'static,
    {
        Completion { shared: None, local: Some(Box::new(half)) }
    }

    /// Adds a local half.
    pub fn and_local<F>(self, half: F) -> Completion
    where
        F: FnOnce(Option<&mut dyn Issuer>, &Completed<'_>) -> Outcome + Send + Sync + 'static,
    {
        Completion { local: Some(Box::new(half)), ..self }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("shared", &self.shared.is_some())
            .field("local", &self.local.is_some())
            .finish()
    }
}

/// One asynchronous I/O, ready to be started.
pub struct Io {
    /// The open file; kept open until completion.
    pub file: File,
    /// The operation.
    pub op: Op,
    /// What the I/O is for, in messages.
    pub target: Target,
    /// The completions, at most [`Completion::MAX`]. They run in the opposite order.
    pub completions: SmallVec<[Completion; 1]>,
    /// Data for the completions, such as buffer numbers.
    pub data: SmallVec<[u32; 16]>,
    /// Properties.
    pub flags: IoFlags,
    /// Under what it counts in pg_stat_io; None: not at all.
    pub account: Option<Account>,
}

impl Io {
    /// An I/O without completions, flags or account.
    pub fn new(file: File, op: Op, target: Target) -> Io {
        Io {
            file,
            op,
            target,
            completions: SmallVec::new(),
            data: SmallVec::new(),
            flags: IoFlags::default(),
            account: None,
        }
    }

    /// A read.
    pub fn read(file: File, offset: u64, memory: IoMemory, target: Target) -> Io {
        Io::new(file, Op::Readv { offset, memory }, target)
    }

    /// A write.
    pub fn write(file: File, offset: u64, memory: IoMemory, target: Target) -> Io {
        Io::new(file, Op::Writev { offset, memory }, target)
    }

    /// Adds the shared half of a completion, and sets the data.
    pub fn completion(
        mut self,
        completion: Arc<dyn SharedCompletion>,
        data: SmallVec<[u32; 16]>,
    ) -> Io {
        self.data = data;
        self.also(Completion::shared(completion))
    }

    /// Adds a completion, which runs before those added so far. Asserts that there are at most
    /// [`Completion::MAX`].
    pub fn also(mut self, completion: Completion) -> Io {
        self.completions.push(completion);
        assert!(
            self.completions.len() <= Completion::MAX,
            "an I/O has at most {} completions",
            Completion::MAX
        );
        self
    }

    /// Sets the account.
    pub fn account(mut self, object: IoObject, context: IoContext, op: IoOp) -> Io {
        self.account = Some(Account { object, context, op });
        self
    }

    /// Sets the flags.
    pub fn flags(mut self, flags: IoFlags) -> Io {
        self.flags = flags;
        self
    }
}
