//! How an I/O ends: the shared completion, its small outcome, and the issuer's report.

use crate::error::{AioError, Errno};
use crate::file::File;
use crate::op::{OpKind, Target};

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

/// The small value a shared completion leaves for the issuer, who raises the error.
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

/// A finished transfer, as the shared completion sees it.
pub struct Completed<'a> {
    /// Bytes transferred (short only at the end of the file), or the error. 0 for all but transfers.
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
}

impl Completed<'_> {
    /// What the transfer itself says.
    pub fn transfer_outcome(&self) -> Outcome {
        Outcome::of_transfer(self.result, self.expected)
    }
}

/// Brings the shared object of an I/O (a buffer, a WAL position) to its state after it.
///
/// Runs exactly once, in any thread, so it must not block on another I/O or on a lock that anyone holds while waiting for I/O, and
/// it must not raise. A panic inside is caught and becomes [`Status::Error`].
pub trait SharedCompletion: Send + Sync {
    /// Completes.
    fn complete(&self, io: &Completed<'_>) -> Outcome;
}

impl<F: Fn(&Completed<'_>) -> Outcome + Send + Sync> SharedCompletion for F {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        self(io)
    }
}

/// The issuer's report on one of its I/Os.
#[derive(Debug)]
pub struct IoReport {
    /// Bytes transferred; 0 after an error.
    pub transferred: usize,
    /// Bytes asked for.
    pub expected: usize,
    /// The shared completion's outcome (or the transfer's, where there is none).
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
    /// Somebody else's I/O, or one whose report was handed out before: it is finished, and its shared object tells how.
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

    /// Raises the error of an own I/O; `Finished` counts as success with 0 bytes.
    pub fn check(self) -> Result<usize, AioError> {
        self.report().map_or(Ok(0), IoReport::check)
    }
}
