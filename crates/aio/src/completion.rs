//! How an I/O ends: completions, their small outcome, and the issuer's report.
//!
//! Each layer that an I/O went down through may have a completion, with two halves:
//!
//! | Half | Runs | May |
//! |---|---|---|
//! | shared | once, in whichever thread finds the I/O finished | set the shared object's state; never block, start I/O, or raise |
//! | local | once, in the issuer's hands, after the handle was given back | start more I/O, keep books of the issuer's |
//!
//! All shared halves run before any local one. Within a half the last registered runs first, since
//! it belongs to the layer nearest to the bytes; each sees the outcome so far and leaves its own.
//! Who panics leaves an error that stays, whatever the others say.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::backend::Backend;
use crate::error::{AioError, Errno};
use crate::file::File;
use crate::op::{OpKind, Target};
use crate::sync::Arc;

/// What a completion made of an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Not known (yet).
    #[default]
    Unknown,
    /// All of it.
    Ok,
    /// Only a part was there.
    Partial,
    /// All of it, with something to tell.
    Warning,
    /// It failed.
    Error,
}

impl Status {
    /// The name pg_aios shows.
    pub fn name(self) -> &'static str {
        match self {
            Status::Unknown => "UNKNOWN",
            Status::Ok => "OK",
            Status::Partial => "PARTIAL",
            Status::Warning => "WARNING",
            Status::Error => "ERROR",
        }
    }
}

/// The small value completions leave for the issuer, who raises the error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The completion's own word on it: a block number, a count.
    pub detail: u64,
}

impl Outcome {
    /// All well.
    pub const OK: Outcome = Outcome { status: Status::Ok, detail: 0 };

    /// A completion panicked. No other completion changes that.
    pub const PANICKED: Outcome = Outcome { status: Status::Error, detail: u64::MAX };

    /// An outcome.
    pub fn new(status: Status, detail: u64) -> Outcome {
        Outcome { status, detail }
    }

    /// What the transfer itself says, before any completion looked at the bytes.
    pub fn of_transfer(result: Result<usize, Errno>, expected: usize) -> Outcome {
        match result {
            Err(e) => Outcome::new(Status::Error, e.0 as u64),
            Ok(n) if n < expected => Outcome::new(Status::Partial, n as u64),
            Ok(_) => Outcome::OK,
        }
    }
}

/// A finished I/O, as its completions see it.
pub struct Completed<'a> {
    /// Bytes transferred (short only at the end of the file), or the error. 0 for all but
    /// transfers.
    pub result: Result<usize, Errno>,
    /// Bytes asked for.
    pub expected: usize,
    /// What was done.
    pub op: OpKind,
    /// First byte in the file.
    pub offset: u64,
    /// The file.
    pub file: &'a File,
    /// What for.
    pub target: &'a Target,
    /// The issuer's words.
    pub data: &'a [u32],
    /// The backend slot that issued it.
    pub issuer: u32,
    /// What the completions before this one made of it; before the first, what the transfer itself
    /// says.
    pub outcome: Outcome,
}

impl Completed<'_> {
    /// What the transfer itself says.
    pub fn transfer_outcome(&self) -> Outcome {
        Outcome::of_transfer(self.result, self.expected)
    }
}

/// The shared half: brings the shared object of an I/O (a buffer, a WAL position) to its state
/// after it.
///
/// Runs exactly once, in any thread, so it must not block on another I/O or on a lock that anyone
/// holds while waiting for I/O, and it must not raise. A panic inside is caught and becomes
/// [`Outcome::PANICKED`].
pub trait SharedCompletion: Send + Sync {
    /// Completes; what is returned takes the place of `io.outcome`.
    fn complete(&self, io: &Completed<'_>) -> Outcome;
}

impl<F: Fn(&Completed<'_>) -> Outcome + Send + Sync> SharedCompletion for F {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        self(io)
    }
}

/// The local half: run by the issuer, when it takes the report or gives up on it. The backend comes
/// with it, to start more I/O (a read-ahead goes on from here), but not when it is being drained:
/// nothing new begins then.
pub type LocalCompletion =
    Box<dyn FnOnce(Option<&mut Backend>, &Completed<'_>) -> Outcome + Send + Sync>;

/// One layer's completion: a shared half, a local half, or both.
#[derive(Default)]
pub struct Completion {
    pub(crate) shared: Option<Arc<dyn SharedCompletion>>,
    pub(crate) local: Option<LocalCompletion>,
}

impl Completion {
    /// Most completions of one I/O.
    pub const MAX: usize = 4;

    /// Only a shared half.
    pub fn shared(half: Arc<dyn SharedCompletion>) -> Completion {
        Completion { shared: Some(half), local: None }
    }

    /// Only a local half.
    pub fn local(
        half: impl FnOnce(Option<&mut Backend>, &Completed<'_>) -> Outcome + Send + Sync + 'static,
    ) -> Completion {
        Completion { shared: None, local: Some(Box::new(half)) }
    }

    /// With this local half.
    pub fn and_local(
        self,
        half: impl FnOnce(Option<&mut Backend>, &Completed<'_>) -> Outcome + Send + Sync + 'static,
    ) -> Completion {
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

/// Runs one half after the other; `halves` has the last registered first.
pub(crate) fn run_all<H>(
    halves: impl Iterator<Item = H>,
    done: &mut Completed<'_>,
    mut run: impl FnMut(H, &Completed<'_>) -> Outcome,
) -> Outcome {
    for half in halves {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(half, done))).unwrap_or_else(|_| {
            let path = done.file.path().display();
            tracing::error!(target = %done.target, path = %path, "a completion panicked");
            Outcome::PANICKED
        });
        if done.outcome != Outcome::PANICKED {
            done.outcome = outcome;
        }
    }
    done.outcome
}

/// The issuer's report on one of its I/Os.
#[derive(Debug)]
pub struct IoReport {
    /// Bytes transferred; 0 after an error.
    pub transferred: usize,
    /// Bytes asked for.
    pub expected: usize,
    /// What the completions made of it (or the transfer itself, where there are none).
    pub outcome: Outcome,
    /// Set when status is Error or Partial: names operation, target and path.
    pub error: Option<Box<AioError>>,
}

impl IoReport {
    /// Raises: Ok with the bytes transferred for Ok and Warning, the error for Partial and Error.
    pub fn check(self) -> Result<usize, AioError> {
        match self.error {
            Some(e) => Err(*e),
            None => Ok(self.transferred),
        }
    }

    /// The system's error number of the transfer, where it failed.
    pub fn errno(&self) -> Option<Errno> {
        self.error.as_ref().and_then(|e| e.errno())
    }
}

/// What waiting yields.
#[derive(Debug)]
pub enum IoResult {
    /// The waiter's own I/O; its report is handed out once.
    Own(IoReport),
    /// Somebody else's I/O, or one whose report was handed out before: it is finished, and its
    /// shared object tells how.
    Finished,
}

impl IoResult {
    /// The report, where it was the waiter's own I/O.
    pub fn report(self) -> Option<IoReport> {
        match self {
            IoResult::Own(r) => Some(r),
            IoResult::Finished => None,
        }
    }

    /// The report of the waiter's own I/O. That there is none is an error: nobody knows how the I/O
    /// ended.
    pub fn own(self) -> Result<IoReport, AioError> {
        self.report().ok_or_else(AioError::lost_report)
    }

    /// Raises the error of an own I/O, also if its report is gone; its bytes transferred.
    pub fn check(self) -> Result<usize, AioError> {
        self.own()?.check()
    }
}
