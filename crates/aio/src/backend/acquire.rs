//! Takes handles, and takes back those whose I/O has ended.

use smallvec::SmallVec;

use super::IoBackend;
use crate::counters::Own;
use crate::error::AioError;
use crate::handle::WaitRef;
use crate::io::Io;

/// A handle taken before its I/O is known, so that starting the I/O waits for nothing.
/// [`IoBackend::start_acquired`] starts it and [`IoBackend::release`] gives it back. One that is
/// only dropped stays taken until [`IoBackend::end_of_statement`] finds it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "start it or release it"]
pub struct Acquired(WaitRef);

impl Acquired {
    /// A reference by which any thread can wait for the coming I/O. If the handle is released, the
    /// reference counts as finished.
    pub fn wait_ref(&self) -> WaitRef {
        self.0
    }
}

impl IoBackend {
    /// Takes a handle; if none is idle, waits for the oldest I/O.
    ///
    /// # Errors
    /// Another handle is acquired and neither started nor released. Two backends that each hold
    /// several handles and wait for more could wait forever.
    pub fn acquire(&mut self) -> Result<Acquired, AioError> {
        self.check_none_handed_out()?;
        let index = self.take_handle();
        Ok(self.hand(index))
    }

    /// Takes a handle if it need not wait for one.
    ///
    /// # Errors
    /// As [`IoBackend::acquire`].
    pub fn try_acquire(&mut self) -> Result<Option<Acquired>, AioError> {
        self.check_none_handed_out()?;
        if self.idle.is_empty() {
            self.submit();
            self.take_back_finished();
        }
        if self.idle.is_empty() {
            return Ok(None);
        }
        let index = self.take_handle();
        Ok(Some(self.hand(index)))
    }

    /// Gives back an acquired handle that is not needed.
    ///
    /// # Errors
    /// The end of a statement has already taken it back.
    pub fn release(&mut self, handle: Acquired) -> Result<(), AioError> {
        self.check_handed_out(&handle, "release in unexpected state")?;
        self.give_back();
        Ok(())
    }

    /// Starts an I/O on an acquired handle; otherwise as [`IoBackend::start`].
    ///
    /// # Errors
    /// The end of a statement has already taken the handle back.
    pub fn start_acquired(&mut self, handle: Acquired, io: Io) -> Result<WaitRef, AioError> {
        self.check_handed_out(
            &handle,
            "API violation: the I/O handle was given back before its start",
        )?;
        let prepared = self.prepare(io);
        self.handed_out = None;
        let r = self.launch(handle.0.index, prepared);
        self.run_due();
        Ok(r)
    }

    fn hand(&mut self, index: u32) -> Acquired {
        let r = self.aio.table().wait_ref(index);
        self.handed_out = Some(r);
        Acquired(r)
    }

    fn check_none_handed_out(&self) -> Result<(), AioError> {
        match self.handed_out {
            Some(_) => Err(AioError::Misuse("API violation: Only one IO can be handed out")),
            None => Ok(()),
        }
    }

    fn check_handed_out(&self, handle: &Acquired, otherwise: &'static str) -> Result<(), AioError> {
        if self.handed_out == Some(handle.0) { Ok(()) } else { Err(AioError::Misuse(otherwise)) }
    }

    /// Gives back the acquired handle, if there is one; returns whether there was.
    pub(super) fn give_back(&mut self) -> bool {
        let Some(r) = self.handed_out.take() else { return false };
        self.aio.table().release(r.index);
        self.idle.push(r.index);
        true
    }

    /// Takes an idle handle; if none is idle, waits for the oldest I/O.
    pub(super) fn take_handle(&mut self) -> u32 {
        self.tally(Own::Acquired, 1);
        if self.idle.is_empty() {
            self.submit();
            self.take_back_finished();
        }
        if self.idle.is_empty() {
            self.take_back_oldest();
        }
        let index = self.idle.pop().expect("a finished I/O gives its handle back");
        self.aio.table().hand_out(index);
        index
    }

    /// Takes back the handles of I/Os that have ended.
    pub(super) fn take_back_finished(&mut self) {
        let Some(&oldest) = self.in_use.front() else { return };
        let table = self.aio.table();
        self.aio.is_done(table.wait_ref(oldest));
        let finished: SmallVec<[WaitRef; 64]> =
            self.in_use.iter().map(|&i| table.wait_ref(i)).filter(|&r| table.is_done(r)).collect();
        for r in finished {
            self.take_back(r);
        }
    }

    fn take_back_oldest(&mut self) {
        match self.in_use.front() {
            Some(&oldest) => {
                self.tally(Own::AcquireWaits, 1);
                let oldest = self.aio.table().wait_ref(oldest);
                self.take_back(oldest);
            }
            // The only handle is acquired. Its holder is told when it starts it.
            None => {
                let given = self.give_back();
                assert!(given, "a handle is idle, in use, or handed out");
                tracing::warn!(backend = self.id, "leaked AIO handle");
            }
        }
    }

    /// Waits for an I/O and takes back its handle. Its local halves run later, when the backend is
    /// not starting anything; its report is kept if anyone may ask for it.
    pub(super) fn take_back(&mut self, r: WaitRef) {
        let ended = self.finish(r);
        if self.locals.has(r.index) {
            self.locals.make_due(r, ended);
        } else {
            self.keep(r, ended.detached, ended.report());
        }
    }
}
