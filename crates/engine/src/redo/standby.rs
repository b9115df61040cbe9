//! What only standbys need: nothing to redo.

use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{Rmgr, standby};

use super::{RedoContext, RedoError, RedoRecord, ResourceManager};

/// Running transactions, exclusive locks, invalidations.
pub(super) struct StandbyManager;

impl ResourceManager for StandbyManager {
    fn id(&self) -> Rmgr {
        Rmgr::STANDBY
    }

    fn knows(&self, info: u8) -> bool {
        matches!(
            info & INFO_RMGR_MASK,
            standby::LOCK | standby::RUNNING_XACTS | standby::INVALIDATIONS
        )
    }

    fn redo(&self, record: &RedoRecord<'_>, _ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() {
            standby::LOCK | standby::RUNNING_XACTS | standby::INVALIDATIONS => Ok(()),
            _ => Err(record.unsupported()),
        }
    }
}
