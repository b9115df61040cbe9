//! Cleanup when a statement or a transaction ends, or after an error.
//!
//! The code that opens a handle or a batch must close it. If that is forgotten, other backends
//! could wait for I/O that is never submitted. So the ends of statements and transactions find such
//! leftovers, clean them up, and report them.

use super::IoBackend;
use crate::completion::Status;

/// What was cleaned up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "mistakes are to be warned of"]
pub struct Leftovers {
    /// A handle was acquired, and neither started nor released.
    pub leaked_handle: bool,
    /// How many I/Os were staged and not submitted.
    pub unsubmitted: usize,
    /// A batch was not ended.
    pub open_batch: bool,
    /// How many reports with an error were dropped. That is no mistake: a read-ahead may read what
    /// nobody needs.
    pub failed: usize,
}

impl Leftovers {
    /// PostgreSQL's warnings of these mistakes, in its order.
    pub fn warnings(self) -> impl Iterator<Item = &'static str> {
        let handle = self.leaked_handle.then_some("leaked AIO handle");
        let staged = std::iter::repeat_n("AIO handle was not submitted", self.unsubmitted);
        let batch = self.open_batch.then_some("open AIO batch at end of (sub-)transaction");
        handle.into_iter().chain(staged).chain(batch)
    }

    /// The sum of both.
    pub fn and(self, other: Leftovers) -> Leftovers {
        Leftovers {
            leaked_handle: self.leaked_handle | other.leaked_handle,
            unsubmitted: self.unsubmitted + other.unsubmitted,
            open_batch: self.open_batch | other.open_batch,
            failed: self.failed + other.failed,
        }
    }
}

impl IoBackend {
    /// Gives back a leaked handle, and submits what is staged. Waits for nothing: I/O may stay in
    /// flight from one statement to the next.
    pub fn end_of_statement(&mut self) -> Leftovers {
        let unsubmitted = self.staged.len();
        self.submit();
        Leftovers { leaked_handle: self.give_back(), unsubmitted, ..Leftovers::default() }
    }

    /// As [`IoBackend::end_of_statement`]; also ends an open batch, and drops reports that nobody
    /// asked for. Waits for nothing: I/O in flight goes on, and its report is dropped.
    pub fn end_of_transaction(&mut self) -> Leftovers {
        let open_batch = std::mem::take(&mut self.in_batch);
        let statement = self.end_of_statement();
        for &index in &self.in_use {
            self.aio.table().detach(index);
        }
        self.locals.detach_all_due();
        Leftovers { open_batch, failed: self.drop_reports(), ..statement }
    }

    /// As [`IoBackend::end_of_transaction`], and waits for all I/O of this backend, so that what a
    /// failed statement started is over before its locks are released. Local halves get no backend,
    /// so they start nothing new.
    pub fn drain(&mut self) -> Leftovers {
        let ended = self.end_of_subtransaction();
        Leftovers { failed: self.drop_reports(), ..ended }
    }

    /// As [`IoBackend::drain`], but keeps reports: for the rollback of a subtransaction, which
    /// scans of the transaction around it outlive.
    pub fn end_of_subtransaction(&mut self) -> Leftovers {
        let open_batch = std::mem::take(&mut self.in_batch);
        let statement = self.end_of_statement();
        self.finish_all();
        Leftovers { open_batch, ..statement }
    }

    fn drop_reports(&mut self) -> usize {
        self.reports.drain().filter(|(_, report)| report.outcome.status == Status::Error).count()
    }
}
