//! Records that only standbys need.

use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{Rmgr, standby};

use super::context::RedoContext;
use super::error::RedoError;
use super::manager::ResourceManager;
use super::record::RedoRecord;

/// Redoes nothing: running transactions, exclusive locks, invalidations.
pub struct StandbyRedo;

impl ResourceManager for StandbyRedo {
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
