//! The log through a session's eyes: where it stands, and the switch to its next segment.

use forebay_format::Lsn;
use forebay_format::wal::xlog::{RESTORE_POINT, RestorePoint};

use super::state::Session;
use crate::clock;
use crate::error::EngineError;

impl Session {
    /// Leaves the rest of the log's segment unused. The end of the record that says so; where
    /// nothing was logged in the segment so far nothing happens, and it is the segment's begin.
    pub fn switch_wal(&mut self) -> Result<Lsn, EngineError> {
        self.call(|session, core| Ok(core.wal.switch_segment(&mut session.backend.io)?))
    }

    /// Puts a named point into the log, at which recovery from an archive may stop. The end of its
    /// record, which is durable with the next commit.
    pub fn create_restore_point(&mut self, name: &str) -> Result<Lsn, EngineError> {
        let main = RestorePoint { time: clock::now(), name: name.into() }.encode();
        let inserted =
            self.call(|session, core| core.log(&mut session.backend.io, RESTORE_POINT, &main))?;
        tracing::info!("restore point \"{name}\" created at {}", inserted.end);
        Ok(inserted.end)
    }

    /// Where the next record of the log will start.
    pub fn wal_insert_lsn(&self) -> Lsn {
        self.core.wal.insert_lsn()
    }

    /// Up to where the log is written.
    pub fn wal_written_lsn(&self) -> Lsn {
        self.core.wal.written_lsn()
    }

    /// Up to where the log is durable.
    pub fn wal_flushed_lsn(&self) -> Lsn {
        self.core.wal.flushed_lsn()
    }

    /// The name of the file that holds the byte at a position of the log.
    pub fn wal_file_name(&self, lsn: Lsn) -> String {
        let config = self.core.wal.config();
        config.segment_size.file_name(config.timeline, config.segment_size.number(lsn))
    }
}
