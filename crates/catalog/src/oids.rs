//! New object identifiers, from a counter. The log reserves a few thousand of them at a time.
//!
//! A crash may lose the last reservation, and with it all that used it except files. So a file is
//! created only after a check that its name is free.

use forebay_aio as aio;
use forebay_aio::sync::Mutex;
use forebay_format::ids::FIRST_NORMAL_OID;
use forebay_format::wal::{Rmgr, xlog};
use forebay_types::Oid;
use forebay_wal::{Record, Wal, WalError};

/// Number of identifiers that a record reserves.
pub const RESERVED_OIDS: u32 = 8192;

#[derive(Debug)]
struct State {
    next: Oid,
    /// Number of identifiers, from `next` on, that the log has reserved.
    reserved: u32,
}

/// The counter of object identifiers.
#[derive(Debug)]
pub struct OidCounter {
    state: Mutex<State>,
}

impl OidCounter {
    /// A counter at `next`.
    pub fn new(next: Oid) -> OidCounter {
        OidCounter { state: Mutex::new(State { next, reserved: 0 }) }
    }

    /// The next identifier. After the last one it starts again with the first that is not reserved
    /// for the system.
    pub fn allocate(&self, io: &mut aio::IoBackend, wal: &Wal) -> Result<Oid, WalError> {
        let mut state = self.state.lock();
        if state.next < FIRST_NORMAL_OID {
            *state = State { next: FIRST_NORMAL_OID, reserved: 0 };
        }
        if state.reserved == 0 {
            state.reserve(io, wal)?;
        }
        let oid = state.next;
        state.next = oid.wrapping_add(1);
        state.reserved -= 1;
        Ok(oid)
    }

    /// The next identifier, which nothing has yet. A checkpoint asks for it before it moves its
    /// redo pointer, and then calls [`OidCounter::reserve_anew`].
    pub fn next(&self) -> Oid {
        self.state.lock().next
    }

    /// From now on a crash does not lose what is handed out, although recovery begins behind the
    /// records so far, with `first` as the next identifier.
    ///
    /// PostgreSQL's checkpoint has the first identifier that is not reserved. With the next one
    /// instead, a recovery knows which identifiers were handed out since its redo pointer, up to a
    /// few in between: a file that has one of these for its name is new.
    pub fn reserve_anew(
        &self,
        io: &mut aio::IoBackend,
        wal: &Wal,
        first: Oid,
    ) -> Result<(), WalError> {
        let mut state = self.state.lock();
        state.reserved = 0;
        // The record of those may lie before the redo pointer.
        if state.next != first { state.reserve(io, wal) } else { Ok(()) }
    }
}

impl State {
    fn reserve(&mut self, io: &mut aio::IoBackend, wal: &Wal) -> Result<(), WalError> {
        let main = xlog::encode_next_oid(self.next.wrapping_add(RESERVED_OIDS));
        let record =
            Record { rmgr: Rmgr::XLOG, info: xlog::NEXTOID, xid: 0, main: &main, blocks: &[] };
        wal.insert(io, &record)?;
        self.reserved = RESERVED_OIDS;
        Ok(())
    }
}
