//! How an I/O ends: what a shared completion sees, the outcome it leaves, and the issuer's report.
//!
//! [`Completion`](crate::Completion) tells when the halves of completions run. A completion that
//! panics leaves an error that later ones can't change.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{AioError, Errno};
use crate::file::File;
use crate::op::{OpKind, Target};

named_enum! {
    /// How an I/O ended.
    #[derive(Default)]
    Status {
        /// Not known yet.
        #[default]
        Unknown = "UNKNOWN",
        /// All bytes were transferred.
        Ok = "OK",
        /// Only a part was there.
        Partial = "PARTIAL",
        /// All bytes were transferred, and there is something to report.
        Warning = "WARNING",
        /// It failed.
        Error = "ERROR",
    }
}

/// What completions leave for the issuer, who raises the error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Detail of the completion's own: a block number, a count.
    pub detail: u64,
}

impl Outcome {
    /// Success.
    pub const OK: Outcome = Outcome { status: Status::Ok, detail: 0 };

    /// A completion panicked. No other completion changes this.
    pub const PANICKED: Outcome = Outcome { status: Status::Error, detail: u64::MAX };

    /// An outcome of these parts.
    pub fn new(status: Status, detail: u64) -> Outcome {
        Outcome { status, detail }
    }

    /// The outcome of the transfer itself, before any completion looked at the bytes.
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
    /// Bytes transferred, or the error. Short only at the end of the file; 0 for all but transfers.
    pub result: Result<usize, Errno>,
    /// Bytes asked for.
    pub expected: usize,
    /// The operation.
    pub op: OpKind,
    /// First byte in the file.
    pub offset: u64,
    /// The file.
    pub file: &'a File,
    /// What the I/O is for.
    pub target: &'a Target,
    /// The issuer's data.
    pub data: &'a [u32],
    /// The backend slot that issued it.
    pub issuer: u32,
    /// The outcome of the completions before this one; for the first, that of the transfer itself.
    pub outcome: Outcome,
}

impl Completed<'_> {
    /// The outcome of the transfer itself.
    pub fn transfer_outcome(&self) -> Outcome {
        Outcome::of_transfer(self.result, self.expected)
    }
}

/// The shared half of a completion: updates the state of the shared object of an I/O, such as a
/// buffer or a WAL position.
///
/// It runs exactly once, in any thread. So it must not raise, and must not block on another I/O, or
/// on a lock that a thread may hold while it waits for I/O. A panic in it is caught and becomes
/// [`Outcome::PANICKED`].
pub trait SharedCompletion: Send + Sync {
    /// Completes the I/O. The returned outcome replaces `io.outcome`.
    fn complete(&self, io: &Completed<'_>) -> Outcome;
}

impl<F: Fn(&Completed<'_>) -> Outcome + Send + Sync> SharedCompletion for F {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        self(io)
    }
}

/// Runs one half after the other; `halves` begins with the last registered.
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
    /// The outcome of the completions, or of the transfer if there are none.
    pub outcome: Outcome,
    /// Set if the status is Error or Partial. It names operation, target and path.
    pub error: Option<Box<AioError>>,
}

impl IoReport {
    /// The bytes transferred if the status is Ok or Warning.
    ///
    /// # Errors
    /// The status is Partial or Error.
    pub fn check(self) -> Result<usize, AioError> {
        match self.error {
            Some(e) => Err(*e),
            None => Ok(self.transferred),
        }
    }

    /// The error number of the transfer, if it failed.
    pub fn errno(&self) -> Option<Errno> {
        self.error.as_ref().and_then(|e| e.errno())
    }
}

/// The result of waiting for an I/O.
#[derive(Debug)]
pub enum IoResult {
    /// The waiter's own I/O. Its report is handed out once.
    Own(IoReport),
    /// Another backend's I/O, or one whose report was handed out before. It is finished, and its
    /// shared object tells how.
    Finished,
}

impl IoResult {
    /// The report, if this is the waiter's own I/O.
    pub fn report(self) -> Option<IoReport> {
        match self {
            IoResult::Own(r) => Some(r),
            IoResult::Finished => None,
        }
    }

    /// The report of the waiter's own I/O.
    ///
    /// # Errors
    /// There is no report, so nobody knows how the I/O ended.
    pub fn own(self) -> Result<IoReport, AioError> {
        self.report().ok_or_else(AioError::lost_report)
    }

    /// The bytes that the waiter's own I/O transferred.
    ///
    /// # Errors
    /// The I/O failed, or there is no report.
    pub fn check(self) -> Result<usize, AioError> {
        self.own()?.check()
    }
}
