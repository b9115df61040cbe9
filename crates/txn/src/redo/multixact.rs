//! Sets of transactions.

use forebay_format::multixact::{members_page, multi_next, offsets_page};
use forebay_format::wal::Rmgr;
use forebay_format::wal::multixact::{
    CREATE_ID, MultiXactCreate, MultiXactTruncate, TRUNCATE_ID, ZERO_MEM_PAGE, ZERO_OFF_PAGE,
    decode_zero_page,
};
use forebay_format::wal::rmgr::INFO_RMGR_MASK;

use super::context::RedoContext;
use super::error::RedoError;
use super::manager::ResourceManager;
use super::record::RedoRecord;

/// Redoes new sets and pages of `pg_multixact`, and their removal.
pub struct MultiXactRedo;

impl ResourceManager for MultiXactRedo {
    fn id(&self) -> Rmgr {
        Rmgr::MULTIXACT
    }

    fn knows(&self, info: u8) -> bool {
        matches!(info & INFO_RMGR_MASK, ZERO_OFF_PAGE | ZERO_MEM_PAGE | CREATE_ID | TRUNCATE_ID)
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        let (multis, main) = (ctx.multis, record.record.main);
        match record.kind() {
            kind @ (ZERO_OFF_PAGE | ZERO_MEM_PAGE) => {
                let page = decode_zero_page(main).map_err(|e| record.damaged(e.to_string()))?;
                let of_members = kind == ZERO_MEM_PAGE;
                let last = if of_members { members_page } else { offsets_page }(u32::MAX);
                if !(0..=last).contains(&page) {
                    return Err(record.damaged(format!("pg_multixact has no page {page}")));
                }
                if of_members {
                    multis.redo_members_page(page);
                    return Ok(());
                }
                let added = multis.redo_offsets_page(&mut ctx.backend.io, page);
                added.map_err(|error| record.failed(error))
            }
            CREATE_ID => {
                let create =
                    MultiXactCreate::decode(main).map_err(|e| record.damaged(e.to_string()))?;
                redo_create(record, ctx, &create)
            }
            TRUNCATE_ID => {
                let truncate =
                    MultiXactTruncate::decode(main).map_err(|e| record.damaged(e.to_string()))?;
                ctx.before_files_go(record)?;
                multis.redo_truncate(&truncate).map_err(|error| record.failed(error))
            }
            _ => Err(record.unsupported()),
        }
    }
}

fn redo_create(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    create: &MultiXactCreate,
) -> Result<(), RedoError> {
    if create.multi == 0 || create.offset == 0 || create.members.is_empty() {
        return Err(record.damaged(format!("MultiXact {} is impossible", create.multi)));
    }
    let written = ctx.multis.redo_create(&mut ctx.backend.io, create);
    written.map_err(|error| record.failed(error))?;
    let counters = &mut ctx.counters;
    let end = create.offset.wrapping_add(create.members.len() as u32);
    counters.advance_multis(multi_next(create.multi), end);
    for member in &create.members {
        counters.advance_past(member.xid);
    }
    counters.advance_past(record.record.header.xid);
    Ok(())
}
