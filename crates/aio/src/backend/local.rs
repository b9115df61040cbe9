//! The local halves of completions that have not run.
//!
//! They are kept here and not in the handles, because only the issuer runs them. A local half runs
//! after its I/O has ended and its handle was given back, in one of three places:
//!
//! - in `wait` for that I/O, before its report is made;
//! - at the end of the next `start`, `wait` or `settle`, if the handle was needed before anyone
//!   waited. The I/O is then *due*. The half runs at the end so that it can start I/O;
//! - in `drain`, without the backend, so that it can't start I/O.
//!
//! While a half runs, no other half runs except those of an I/O that it waits for. Each round runs
//! only the halves that were due when it began: a chain of I/Os, each started by the end of the one
//! before, does not keep its issuer in one call forever.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::handle::WaitRef;
use crate::io::LocalCompletion;
use crate::table::Ended;

/// The local halves of one I/O, in the order of registration.
pub(super) type LocalHalves = SmallVec<[LocalCompletion; 1]>;

/// All local halves that have not run.
pub(super) struct Locals {
    /// Of I/Os in flight, by handle.
    of_handle: Box<[LocalHalves]>,
    /// Of I/Os that have ended, in the order in which their handles were taken back.
    pub(super) due: VecDeque<(WaitRef, Ended, LocalHalves)>,
    /// A local half is running.
    pub(super) running: bool,
    /// No more I/O may be started.
    pub(super) draining: bool,
}

impl Locals {
    pub(super) fn new(handles: usize) -> Locals {
        let of_handle = (0..handles).map(|_| LocalHalves::new()).collect();
        Locals { of_handle, due: VecDeque::new(), running: false, draining: false }
    }

    pub(super) fn at(&mut self, index: u32) -> &mut LocalHalves {
        let handles = self.of_handle.len();
        &mut self.of_handle[index as usize % handles]
    }

    /// Keeps the halves of an I/O that is about to start.
    pub(super) fn put(&mut self, index: u32, halves: LocalHalves) {
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

    /// Takes a due I/O out of its turn.
    pub(super) fn take_due(&mut self, r: WaitRef) -> Option<(Ended, LocalHalves)> {
        let at = self.due.iter().position(|(due, ..)| *due == r)?;
        self.due.remove(at).map(|(_, ended, halves)| (ended, halves))
    }

    /// Nobody will ask for the reports of due I/Os.
    pub(super) fn detach_all_due(&mut self) {
        self.due.iter_mut().for_each(|(_, ended, _)| ended.detached = true);
    }

    /// Nobody will ask for the report of this due I/O.
    pub(super) fn detach_due(&mut self, r: WaitRef) {
        if let Some((_, ended, _)) = self.due.iter_mut().find(|(due, ..)| *due == r) {
            ended.detached = true;
        }
    }
}
