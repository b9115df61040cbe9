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
const RESERVE: u32 = 8192;

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
            let main = xlog::encode_next_oid(state.next.wrapping_add(RESERVE));
            let record =
                Record { rmgr: Rmgr::XLOG, info: xlog::NEXTOID, xid: 0, main: &main, blocks: &[] };
            wal.insert(io, &record)?;
            state.reserved = RESERVE;
        }
        let oid = state.next;
        state.next = oid.wrapping_add(1);
        state.reserved -= 1;
        Ok(oid)
    }

    /// The value for a checkpoint: the first that is not reserved, or at a shutdown the next one.
    pub fn for_checkpoint(&self, shutdown: bool) -> Oid {
        let state = self.state.lock();
        if shutdown { state.next } else { state.next.wrapping_add(state.reserved) }
    }
}
