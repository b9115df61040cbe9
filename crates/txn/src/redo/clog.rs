//! Pages of `pg_xact`.

use forebay_format::slru;
use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{Rmgr, clog};

use super::context::RedoContext;
use super::error::RedoError;
use super::manager::ResourceManager;
use super::record::RedoRecord;

/// Redoes new pages of `pg_xact`, and the removal of old files.
pub struct ClogRedo;

impl ResourceManager for ClogRedo {
    fn id(&self) -> Rmgr {
        Rmgr::CLOG
    }

    fn knows(&self, info: u8) -> bool {
        matches!(info & INFO_RMGR_MASK, clog::ZEROPAGE | clog::TRUNCATE)
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() {
            clog::ZEROPAGE => {
                let page = clog::decode_zero_page(record.record.main)
                    .map_err(|error| record.damaged(error.to_string()))?;
                check_page(record, page)?;
                ctx.clog.zero_page(page);
                Ok(())
            }
            clog::TRUNCATE => {
                let truncate = clog::ClogTruncate::decode(record.record.main)
                    .map_err(|error| record.damaged(error.to_string()))?;
                check_page(record, truncate.page)?;
                ctx.counters.advance_oldest_xid(truncate.oldest_xid, truncate.oldest_xid_db);
                ctx.before_files_go(record)?;
                let removed = ctx.clog.truncate_files(truncate.page);
                removed.map(drop).map_err(|error| record.failed(error))
            }
            _ => Err(record.unsupported()),
        }
    }
}

fn check_page(record: &RedoRecord<'_>, page: i64) -> Result<(), RedoError> {
    if (0..slru::XACT_PAGES).contains(&page) {
        return Ok(());
    }
    Err(record.damaged(format!("pg_xact can not have a page {page}")))
}
