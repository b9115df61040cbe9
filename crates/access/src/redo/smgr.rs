//! Redo of relation files created and truncated.

use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{Rmgr, smgr};
use forebay_format::{BlockNumber, Fork, RelFileLocator};
use forebay_storage::StorageError;
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use crate::fsm::FreeSpaceMap;
use crate::vm;

/// Redoes creation and truncation.
pub(super) struct SmgrRedo;

impl ResourceManager for SmgrRedo {
    fn id(&self) -> Rmgr {
        Rmgr::SMGR
    }

    fn knows(&self, info: u8) -> bool {
        matches!(info & INFO_RMGR_MASK, smgr::CREATE | smgr::TRUNCATE)
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        let main = record.record.main;
        let storage = |source: StorageError| RedoError::Storage { lsn: record.start, source };
        match record.kind() {
            smgr::CREATE => {
                let create = smgr::SmgrCreate::decode(main)
                    .map_err(|error| record.damaged(error.to_string()))?;
                ctx.made.files.insert(create.rel);
                ctx.pool.smgr().create(create.rel, create.fork, true).map_err(storage)
            }
            smgr::TRUNCATE => {
                let truncate = smgr::SmgrTruncate::decode(main)
                    .map_err(|error| record.damaged(error.to_string()))?;
                self.truncate(record, ctx, &truncate)
            }
            _ => Err(record.unsupported()),
        }
    }
}

impl SmgrRedo {
    fn truncate(
        &self,
        record: &RedoRecord<'_>,
        ctx: &mut RedoContext<'_>,
        what: &smgr::SmgrTruncate,
    ) -> Result<(), RedoError> {
        let storage = |source: StorageError| RedoError::Storage { lsn: record.start, source };
        ctx.before_files_go(record)?;
        // A later record may drop the relation, so its file may be gone.
        ctx.pool.smgr().create(what.rel, Fork::Main, true).map_err(storage)?;
        if what.flags & smgr::TRUNCATE_HEAP != 0 {
            cut(ctx, what.rel, Fork::Main, what.blocks).map_err(storage)?;
        }
        if what.flags & smgr::TRUNCATE_VM != 0 {
            let clear = vm::clear_from(ctx.pool, ctx.backend, what.rel, what.blocks);
            let keep = clear.map_err(|error| record.failed(error))?;
            cut(ctx, what.rel, Fork::Vm, keep).map_err(storage)?;
        }
        if what.flags & smgr::TRUNCATE_FSM != 0 {
            let map = FreeSpaceMap { pool: ctx.pool, rel: what.rel };
            let keep = map.clear_from(ctx.backend, what.blocks).map_err(storage)?;
            cut(ctx, what.rel, Fork::Fsm, keep).map_err(storage)?;
        }
        Ok(())
    }
}

/// Cuts a fork to `blocks` blocks, if it has more.
fn cut(
    ctx: &mut RedoContext<'_>,
    rel: RelFileLocator,
    fork: Fork,
    blocks: BlockNumber,
) -> Result<(), StorageError> {
    ctx.forget_from(rel, fork, blocks);
    let smgr = ctx.pool.smgr();
    if smgr.exists(rel, fork)? && smgr.nblocks(rel, fork)? > blocks {
        ctx.pool.truncate(ctx.backend, rel, fork, blocks)?;
    }
    Ok(())
}
