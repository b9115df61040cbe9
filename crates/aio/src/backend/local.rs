//! The local halves of completions: whose turn it is when.
//!
//! They are kept here, not in the handles: nobody but the issuer ever runs them. One runs when its
//! I/O has ended and its handle was given back, in three places:
//!
//! - in `wait` for that I/O, before the report is made;
//! - at the end of the next `start` or `wait`, if the handle was needed for something else before
//!   anyone waited (`due`); not in the midst of them, so that it finds the backend at rest, and can
//!   start I/O as if nobody else were about to;
//! - in `drain`, without the backend: nothing new begins there.
//!
//! One that starts or waits for I/O itself is not interrupted by others that are due; it runs only
//! the one it waits for. And each round runs only those that were due when it began, so that a
//! chain of I/Os, each started by the end of the one before, does not keep its issuer in a single
//! call for ever.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::Backend;
use crate::completion::{IoReport, LocalCompletion, run_all};
use crate::handle::WaitRef;
use crate::table::Ended;

/// The local halves of one I/O, in the order of registration.
pub(super) type Halves = SmallVec<[LocalCompletion; 1]>;

/// All that have not run.
pub(super) struct Locals {
    /// Of the I/Os in flight, by handle.
    of_handle: Box<[Halves]>,
    /// Of the I/Os that have ended, in the order in which their handles were taken back.
    due: VecDeque<(WaitRef, Ended, Halves)>,
    /// One is running.
    running: bool,
    /// No more I/O is to be started.
    draining: bool,
}

impl Locals {
    pub(super) fn new(handles: usize) -> Locals {
        let of_handle = (0..handles).map(|_| Halves::new()).collect();
        Locals { of_handle, due: VecDeque::new(), running: false, draining: false }
    }

    fn at(&mut self, index: u32) -> &mut Halves {
        let handles = self.of_handle.len();
        &mut self.of_handle[index as usize % handles]
    }

    /// Those of an I/O about to start.
    pub(super) fn put(&mut self, index: u32, halves: Halves) {
        if !halves.is_empty() {
            *self.at(index) = halves;
        }
    }

    pub(super) fn has(&mut self, index: u32) -> bool {
        !self.at(index).is_empty()
    }

    /// Keeps an I/O that has ended until its halves can run.
    pub(super) fn make_due(&mut self, r: WaitRef, ended: Ended) {
        let halves = std::mem::take(self.at(r.index));
        self.due.push_back((r, ended, halves));
    }

    /// Takes one out of turn; its halves are where those of its handle were.
    pub(super) fn take_due(&mut self, r: WaitRef) -> Option<(Ended, Halves)> {
        let at = self.due.iter().position(|(due, ..)| *due == r)?;
        self.due.remove(at).map(|(_, ended, halves)| (ended, halves))
    }

    /// Nobody will ask for any report.
    pub(super) fn detach_all_due(&mut self) {
        self.due.iter_mut().for_each(|(_, ended, _)| ended.detached = true);
    }

    /// Nobody will ask for the report.
    pub(super) fn detach_due(&mut self, r: WaitRef) {
        if let Some((_, ended, _)) = self.due.iter_mut().find(|(due, ..)| *due == r) {
            ended.detached = true;
        }
    }
}

impl Backend {
    /// Takes back the handles of own I/Os that have ended, and runs the local halves whose turn it
    /// is. Never waits. For those who start I/O and leave the rest to its completions.
    pub fn settle(&mut self) {
        self.take_back_finished();
        self.run_due();
    }

    /// The local halves of an I/O whose handle was just given back, then its report.
    pub(super) fn conclude(&mut self, r: WaitRef, ended: Ended) -> IoReport {
        if !self.locals.has(r.index) {
            return ended.report();
        }
        let halves = std::mem::take(self.locals.at(r.index));
        self.conclude_with(ended, halves)
    }

    /// Runs `halves`, last registered first; the report.
    pub(super) fn conclude_with(&mut self, mut ended: Ended, halves: Halves) -> IoReport {
        let nested = std::mem::replace(&mut self.locals.running, true);
        let outcome = {
            let mut done = ended.completed(self.slot);
            run_all(halves.into_iter().rev(), &mut done, |half, done| {
                let draining = self.locals.draining;
                half((!draining).then_some(&mut *self), done)
            })
        };
        self.locals.running = nested;
        ended.set_outcome(outcome);
        ended.report()
    }

    /// Runs those that are due now, unless this is called by one of them.
    pub(super) fn run_due(&mut self) {
        if self.locals.due.is_empty() || self.locals.running {
            return;
        }
        for _ in 0..self.locals.due.len() {
            // One of them may have waited for another.
            let Some((r, ended, halves)) = self.locals.due.pop_front() else { return };
            let detached = ended.detached;
            let report = self.conclude_with(ended, halves);
            self.keep(r, detached, report);
        }
    }

    /// Waits for everything, and runs every local half without the backend.
    pub(super) fn finish_all(&mut self) {
        let before = std::mem::replace(&mut self.locals.draining, true);
        self.submit();
        while let Some(&index) = self.in_use.front() {
            let r = self.aio.table().wait_ref(index);
            self.take_back(r);
        }
        while let Some((r, ended, halves)) = self.locals.due.pop_front() {
            let detached = ended.detached;
            let report = self.conclude_with(ended, halves);
            self.keep(r, detached, report);
        }
        self.locals.draining = before;
    }

    /// Keeps a report, if anyone may ask for it.
    pub(super) fn keep(&mut self, r: WaitRef, detached: bool, report: IoReport) {
        if !detached {
            self.reports.insert(r, report);
        } else if let Some(e) = &report.error {
            tracing::debug!("an I/O whose issuer did not wait failed: {e}");
        }
    }
}
