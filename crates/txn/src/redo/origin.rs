//! Positions of replication origins.

use forebay_format::wal::Rmgr;
use forebay_format::wal::origin::{DROP, OriginSet, SET, decode_drop, name};
use forebay_format::wal::rmgr::INFO_RMGR_MASK;

use super::context::RedoContext;
use super::error::RedoError;
use super::manager::ResourceManager;
use super::record::RedoRecord;

/// Redoes positions that were set, and origins that were dropped.
pub struct OriginRedo;

impl ResourceManager for OriginRedo {
    fn id(&self) -> Rmgr {
        Rmgr::ORIGIN
    }

    fn knows(&self, info: u8) -> bool {
        name(info & INFO_RMGR_MASK) != "UNKNOWN"
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        let (origins, main) = (&mut ctx.cluster.origins, record.record.main);
        match record.kind() {
            SET => {
                let set = OriginSet::decode(main).map_err(|e| record.damaged(e.to_string()))?;
                origins.advance(set.origin, set.remote, set.backward);
                Ok(())
            }
            DROP => {
                origins.forget(decode_drop(main).map_err(|e| record.damaged(e.to_string()))?);
                Ok(())
            }
            _ => Err(record.unsupported()),
        }
    }
}
