//! The switch to the next segment (`pg_switch_wal`): leaves the rest of the current segment unused,
//! so that it is complete and can be archived.
//!
//! ```text
//!   +----------+--------+----------------------------------+------------------+
//!   | records  | SWITCH | zeros, no page headers           | next segment ... |
//!   +----------+--------+----------------------------------+------------------+
//!                       ^ returned
//! ```
//!
//! A reader that reads the switch record continues in the next segment. It ignores the bytes behind
//! the record. They are zeros because those compress well in the archive; a recycled segment would
//! otherwise have old pages there.

use forebay_aio::IoBackend;
use forebay_format::{
    Lsn,
    wal::{Rmgr, xlog::SWITCH},
};

use crate::{
    error::WalError,
    insert::Switched,
    record::{Record, assemble},
    wal::Wal,
};

impl Wal {
    /// Switches to the next segment, and makes the current one durable. Returns the end of the
    /// switch record. If the current segment has no records, does nothing and returns its start.
    pub fn switch_segment(&self, io: &mut IoBackend) -> Result<Lsn, WalError> {
        let record = Record { rmgr: Rmgr::XLOG, info: SWITCH, xid: 0, main: &[], blocks: &[] };
        let mut assembled = assemble(&record, self.image_policy())?;
        match self.insert_switch(io, &mut assembled)? {
            Switched::Nothing(here) => Ok(here),
            Switched::Upto(end, inserted) => {
                self.flush(io, end)?;
                Ok(inserted.end)
            }
        }
    }
}
