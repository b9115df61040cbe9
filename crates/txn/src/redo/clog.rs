//! Pages of `pg_xact`.

use forebay_format::slru;
use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{Rmgr, clog};

use super::context::RedoContext;
use super::error::RedoError;
use super::manager::ResourceManager;
use super::record::RedoRecord;

/// Redoes new pages of `pg_xact`. Their removal is not supported.
pub struct ClogRedo;

impl ResourceManager for ClogRedo {
    fn id(&self) -> Rmgr {
        Rmgr::CLOG
    }

    fn knows(&self, info: u8) -> bool {
        info & INFO_RMGR_MASK == clog::ZEROPAGE
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() {
            clog::ZEROPAGE => {
                let page = clog::decode_zero_page(record.record.main)
                    .map_err(|error| record.damaged(error.to_string()))?;
                if !(0..slru::XACT_PAGES).contains(&page) {
                    return Err(record.damaged(format!("pg_xact can not have a page {page}")));
                }
                ctx.clog.zero_page(page);
                Ok(())
            }
            _ => Err(record.unsupported()),
        }
    }
}
