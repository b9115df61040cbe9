//! The write-ahead log, as far as the pool needs it.

use crate::error::WalFailure;
use forebay_aio as aio;
use forebay_format::Lsn;
use std::sync::Arc;

/// What the pool needs of the write-ahead log.
pub trait WalFlush: Send + Sync {
    /// Makes the log durable up to `upto`.
    fn flush(&self, io: &mut aio::IoBackend, upto: Lsn) -> Result<(), WalFailure>;
    /// Returns the position up to which the log is known to be durable.
    fn flushed(&self) -> Lsn;
    /// Whether the log accepts no more records. A page's last change may then lack a record, so no
    /// page is written any more, whatever its LSN.
    fn has_ended(&self) -> bool {
        false
    }
}

impl WalFlush for forebay_wal::Wal {
    fn flush(&self, io: &mut aio::IoBackend, upto: Lsn) -> Result<(), WalFailure> {
        forebay_wal::Wal::flush(self, io, upto).map_err(|e| Arc::new(e) as WalFailure)
    }

    fn flushed(&self) -> Lsn {
        self.flushed_lsn()
    }

    fn has_ended(&self) -> bool {
        self.poisoned().is_some()
    }
}
