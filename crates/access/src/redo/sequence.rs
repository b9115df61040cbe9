//! Redo of sequences.

use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{Rmgr, sequence};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use super::pages::{make_page, payload};

/// Redoes changes of sequences.
pub(super) struct SequenceRedo;

impl ResourceManager for SequenceRedo {
    fn id(&self) -> Rmgr {
        Rmgr::SEQ
    }

    fn knows(&self, info: u8) -> bool {
        info & INFO_RMGR_MASK == sequence::LOG
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        let log = payload(record, sequence::SequenceLog::decode(record.record.main))?;
        make_page(ctx, record, 0, |page, _| match log.init_page(page) {
            true => Ok(()),
            false => Err("the sequence's tuple does not fit a page".into()),
        })
    }
}
