//! What is put right when a statement or a transaction ends, or after an error.
//!
//! Handles and batches are to be closed by who opened them. Where that was forgotten, others could
//! wait for I/O that was never submitted; so the ends of statements and transactions look, put it
//! right, and say so.

use super::Backend;
use crate::completion::Status;

/// What was put right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "mistakes are to be warned of"]
pub struct Leftovers {
    /// A handle had been acquired, and neither started nor released.
    pub leaked_handle: bool,
    /// I/Os had been staged, and not submitted.
    pub unsubmitted: usize,
    /// A batch had not been ended.
    pub open_batch: bool,
    /// Reports dropped that told of an error. No mistake in itself: who reads ahead need not come
    /// to need it all.
    pub failed: usize,
}

impl Leftovers {
    /// PostgreSQL's warnings of the mistakes, in its order.
    pub fn warnings(self) -> impl Iterator<Item = &'static str> {
        let handle = self.leaked_handle.then_some("leaked AIO handle");
        let staged = std::iter::repeat_n("AIO handle was not submitted", self.unsubmitted);
        let batch = self.open_batch.then_some("open AIO batch at end of (sub-)transaction");
        handle.into_iter().chain(staged).chain(batch)
    }

    /// Both.
    pub fn and(self, other: Leftovers) -> Leftovers {
        Leftovers {
            leaked_handle: self.leaked_handle | other.leaked_handle,
            unsubmitted: self.unsubmitted + other.unsubmitted,
            open_batch: self.open_batch | other.open_batch,
            failed: self.failed + other.failed,
        }
    }
}

impl Backend {
    /// Gives back a leaked handle, and submits what is staged. Waits for nothing: I/O may be in
    /// flight from one statement to the next.
    pub fn end_of_statement(&mut self) -> Leftovers {
        let unsubmitted = self.staged.len();
        self.submit();
        Leftovers { leaked_handle: self.give_back(), unsubmitted, ..Leftovers::default() }
    }

    /// As at the end of a statement; ends an open batch as well, and drops the reports nobody asked
    /// for. Waits for nothing: I/O in flight goes on without anyone to report to.
    pub fn end_of_transaction(&mut self) -> Leftovers {
        let open_batch = std::mem::take(&mut self.in_batch);
        let statement = self.end_of_statement();
        for &index in &self.in_use {
            self.aio.table().detach(index);
        }
        self.locals.detach_all_due();
        Leftovers { open_batch, failed: self.drop_reports(), ..statement }
    }

    /// As at the end of a transaction, and waits for all own I/O: what a failed statement left
    /// behind is over before its locks go. Local halves run without the backend, so that nothing
    /// new begins.
    pub fn drain(&mut self) -> Leftovers {
        let open_batch = std::mem::take(&mut self.in_batch);
        let statement = self.end_of_statement();
        self.finish_all();
        Leftovers { open_batch, failed: self.drop_reports(), ..statement }
    }

    fn drop_reports(&mut self) -> usize {
        self.reports.drain().filter(|(_, report)| report.outcome.status == Status::Error).count()
    }
}
