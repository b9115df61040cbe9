//! The switch to the next segment: the rest of the one that is written stays unused, so that it is
//! complete and can be archived.
//!
//! ```text
//!   +----------+--------+----------------------------------+------------------+
//!   | records  | SWITCH | zeros, page headers too          | next segment ... |
//!   +----------+--------+----------------------------------+------------------+
//!                       ^ what the caller is told
//! ```
//!
//! A reader that finds the record goes on in the next segment, whatever is behind it. The zeros are
//! for the archive, where they compress well: without them a recycled segment would have old pages
//! there.

use forebay_aio::Backend;
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
    /// Leaves the rest of the segment unused, and makes all of it durable. The end of the record
    /// that says so; where nothing was inserted in the segment so far nothing happens, and it is
    /// the segment's begin.
    pub fn switch_segment(&self, io: &mut Backend) -> Result<Lsn, WalError> {
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
