//! Runs the local halves of completions, and makes reports.

use super::IoBackend;
use super::local::LocalHalves;
use crate::completion::{IoReport, run_all};
use crate::handle::WaitRef;
use crate::io::Issuer;
use crate::table::Ended;

impl IoBackend {
    /// Takes back the handles of I/Os that have ended, and runs the local halves that are due.
    /// Never waits. For issuers that leave the rest to their completions.
    pub fn settle(&mut self) {
        self.take_back_finished();
        self.run_due();
    }

    /// Runs the local halves of an I/O whose handle was just given back; returns its report.
    pub(super) fn conclude(&mut self, r: WaitRef, ended: Ended) -> IoReport {
        if !self.locals.has(r.index) {
            return ended.report();
        }
        let halves = std::mem::take(self.locals.at(r.index));
        self.conclude_with(ended, halves)
    }

    /// Runs `halves`, the last registered first; returns the report.
    pub(super) fn conclude_with(&mut self, mut ended: Ended, halves: LocalHalves) -> IoReport {
        let nested = std::mem::replace(&mut self.locals.running, true);
        let outcome = {
            let mut done = ended.completed(self.slot);
            run_all(halves.into_iter().rev(), &mut done, |half, done| {
                let issuer: Option<&mut dyn Issuer> =
                    if self.locals.draining { None } else { Some(&mut *self) };
                half(issuer, done)
            })
        };
        self.locals.running = nested;
        ended.set_outcome(outcome);
        ended.report()
    }

    /// Runs the halves that are due now, unless one of them is the caller.
    pub(super) fn run_due(&mut self) {
        if self.locals.due.is_empty() || self.locals.running {
            return;
        }
        for _ in 0..self.locals.due.len() {
            if !self.run_oldest_due() {
                return; // a half has waited for another due I/O
            }
        }
    }

    fn run_oldest_due(&mut self) -> bool {
        let Some((r, ended, halves)) = self.locals.due.pop_front() else { return false };
        let detached = ended.detached;
        let report = self.conclude_with(ended, halves);
        self.keep(r, detached, report);
        true
    }

    /// Waits for all I/O, and runs every local half without the backend.
    pub(super) fn finish_all(&mut self) {
        let before = std::mem::replace(&mut self.locals.draining, true);
        self.submit();
        while let Some(&index) = self.in_use.front() {
            let r = self.aio.table().wait_ref(index);
            self.take_back(r);
        }
        while self.run_oldest_due() {}
        self.locals.draining = before;
    }

    /// Keeps a report if anyone may ask for it.
    pub(super) fn keep(&mut self, r: WaitRef, detached: bool, report: IoReport) {
        if !detached {
            self.reports.insert(r, report);
        } else if let Some(e) = &report.error {
            tracing::debug!("an I/O whose issuer did not wait failed: {e}");
        }
    }
}
