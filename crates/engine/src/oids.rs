//! Object identifiers: a counter, reserved in the log a few thousand at a time.
//!
//! A crash may lose the last reservation together with everything that would have used it, but not
//! files that were made under it: who makes a file checks that its name is free.

use forebay_aio as aio;
use forebay_aio::sync::Mutex;
use forebay_format::ids::FIRST_NORMAL_OID;
use forebay_format::wal::{Rmgr, xlog};
use forebay_wal::{Record, Wal};

use crate::error::EngineError;
use crate::types::Oid;

/// Identifiers reserved by one record.
const RESERVE: u32 = 8192;

#[derive(Debug)]
struct State {
    next: Oid,
    /// How many from `next` on the log knows to be taken.
    reserved: u32,
}

/// The counter.
#[derive(Debug)]
pub(crate) struct OidCounter {
    state: Mutex<State>,
}

impl OidCounter {
    /// Goes on at `next`.
    pub(crate) fn new(next: Oid) -> OidCounter {
        OidCounter { state: Mutex::new(State { next, reserved: 0 }) }
    }

    /// The next identifier. After the last one it starts again with the first that is not
    /// PostgreSQL's own.
    pub(crate) fn allocate(&self, io: &mut aio::Backend, wal: &Wal) -> Result<Oid, EngineError> {
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

    /// What a checkpoint notes: beyond everything reserved, or exactly the next if nothing else
    /// will be handed out.
    pub(crate) fn for_checkpoint(&self, shutdown: bool) -> Oid {
        let state = self.state.lock();
        if shutdown { state.next } else { state.next.wrapping_add(state.reserved) }
    }
}
