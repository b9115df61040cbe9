//! Pages of `pg_commit_ts`.

use forebay_format::Xid;
use forebay_format::commit_ts::page_of;
use forebay_format::wal::Rmgr;
use forebay_format::wal::commit_ts::{
    CommitTsTruncate, TRUNCATE, ZEROPAGE, decode_zero_page, name,
};
use forebay_format::wal::rmgr::INFO_RMGR_MASK;

use super::context::RedoContext;
use super::error::RedoError;
use super::manager::ResourceManager;
use super::record::RedoRecord;

/// Redoes new pages of `pg_commit_ts`, and the removal of old files.
pub struct CommitTsRedo;

impl ResourceManager for CommitTsRedo {
    fn id(&self) -> Rmgr {
        Rmgr::COMMIT_TS
    }

    fn knows(&self, info: u8) -> bool {
        name(info & INFO_RMGR_MASK) != "UNKNOWN"
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        let main = record.record.main;
        match record.kind() {
            ZEROPAGE => {
                let page = decode_zero_page(main).map_err(|e| record.damaged(e.to_string()))?;
                check_page(record, page)?;
                ctx.clog.times().redo_zero_page(page);
                Ok(())
            }
            TRUNCATE => {
                let truncate =
                    CommitTsTruncate::decode(main).map_err(|e| record.damaged(e.to_string()))?;
                check_page(record, truncate.page)?;
                ctx.before_files_go(record)?;
                let removed = ctx.clog.times().redo_truncate(&truncate);
                removed.map_err(|error| record.failed(error))
            }
            _ => Err(record.unsupported()),
        }
    }
}

fn check_page(record: &RedoRecord<'_>, page: i64) -> Result<(), RedoError> {
    match (0..=page_of(Xid::MAX)).contains(&page) {
        true => Ok(()),
        false => Err(record.damaged(format!("pg_commit_ts can not have a page {page}"))),
    }
}
