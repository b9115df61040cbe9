//! Messages to logical decoding.

use forebay_format::wal::Rmgr;
use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

/// Passes over messages.
pub(super) struct LogicalMessageRedo;

impl ResourceManager for LogicalMessageRedo {
    fn id(&self) -> Rmgr {
        Rmgr::LOGICAL_MESSAGE
    }

    fn knows(&self, info: u8) -> bool {
        info & INFO_RMGR_MASK == 0
    }

    fn redo(&self, _: &RedoRecord<'_>, _: &mut RedoContext<'_>) -> Result<(), RedoError> {
        Ok(())
    }
}
