//! What only standbys need: nothing to redo.

use forebay_format::wal::{Rmgr, standby};

use super::{RedoContext, RedoError, RedoRecord, ResourceManager};

/// Running transactions, exclusive locks, invalidations.
pub(super) struct StandbyManager;

impl ResourceManager for StandbyManager {
    fn id(&self) -> Rmgr {
        Rmgr::STANDBY
    }

    fn redo(&self, record: &RedoRecord<'_>, _ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() {
            standby::LOCK | standby::RUNNING_XACTS | standby::INVALIDATIONS => Ok(()),
            _ => Err(record.unsupported()),
        }
    }
}
