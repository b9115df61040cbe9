//! Redo of changes that extensions make to pages of their own.

use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{Rmgr, generic};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use super::pages::{change_page, problem};

/// Redoes generic records.
pub(super) struct GenericRedo;

impl ResourceManager for GenericRedo {
    fn id(&self) -> Rmgr {
        Rmgr::GENERIC
    }

    fn knows(&self, info: u8) -> bool {
        info & INFO_RMGR_MASK == 0
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        for block in &record.record.blocks {
            change_page(ctx, record, block.id, |page, _| {
                generic::apply(page, block.data).map_err(problem)
            })?;
        }
        Ok(())
    }
}
