//! Redo of the log's own records.

use forebay_format::wal::rmgr::INFO_RMGR_MASK;
use forebay_format::wal::{Rmgr, xlog};
use forebay_txn::redo::{RedoContext, RedoError, RedoRecord, ResourceManager};

use super::pages::restore_image;

/// Redoes checkpoints, the OID counter, settings that pg_control has, and full-page images.
pub(super) struct XlogRedo;

impl ResourceManager for XlogRedo {
    fn id(&self) -> Rmgr {
        Rmgr::XLOG
    }

    fn knows(&self, info: u8) -> bool {
        let kind = info & INFO_RMGR_MASK;
        // All kinds that have a name.
        xlog::name(kind) != "UNKNOWN"
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        let main = record.record.main;
        let damaged = |error: forebay_format::wal::PayloadError| record.damaged(error.to_string());
        match record.kind() {
            xlog::CHECKPOINT_SHUTDOWN => {
                let checkpoint = xlog::CheckPoint::decode(main).map_err(damaged)?;
                ctx.counters.next_xid = checkpoint.next_xid;
                ctx.counters.next_oid = checkpoint.next_oid;
                ctx.counters.next_multi = checkpoint.next_multi;
                ctx.counters.next_multi_offset = checkpoint.next_multi_offset;
                (ctx.counters.oldest_xid, ctx.counters.oldest_xid_db) =
                    (checkpoint.oldest_xid, checkpoint.oldest_xid_db);
                ctx.multis.redo_oldest(checkpoint.oldest_multi, checkpoint.oldest_multi_db);
            }
            xlog::CHECKPOINT_ONLINE => {
                // Its OID counter may be older than NEXTOID records after its redo pointer.
                let checkpoint = xlog::CheckPoint::decode(main).map_err(damaged)?;
                let counters = &mut ctx.counters;
                counters.next_xid = counters.next_xid.max(checkpoint.next_xid);
                counters.advance_multis(checkpoint.next_multi, checkpoint.next_multi_offset);
                counters.advance_oldest_xid(checkpoint.oldest_xid, checkpoint.oldest_xid_db);
                ctx.multis.redo_oldest(checkpoint.oldest_multi, checkpoint.oldest_multi_db);
            }
            xlog::NEXTOID => {
                ctx.counters.next_oid = xlog::decode_next_oid(main).map_err(damaged)?
            }
            xlog::PARAMETER_CHANGE => {
                let change = xlog::ParameterChange::decode(main).map_err(damaged)?;
                let (times, io) = (ctx.clog.times(), &mut ctx.backend.io);
                match change.track_commit_timestamp {
                    true => times.keep(io, ctx.counters.next_xid),
                    false if times.are_kept() => {
                        ctx.before_files_go(record)?;
                        times.discard()
                    }
                    false => Ok(()),
                }
                .map_err(|error| record.failed(error))?;
                ctx.cluster.parameters = Some(change);
            }
            xlog::FPI | xlog::FPI_FOR_HINT => {
                for block in &record.record.blocks {
                    if block.image.is_none() {
                        if record.kind() == xlog::FPI_FOR_HINT {
                            continue;
                        }
                        return Err(record.damaged("a full-page image record without an image"));
                    }
                    restore_image(ctx, record, block)?;
                }
            }
            xlog::NOOP
            | xlog::SWITCH
            | xlog::BACKUP_END
            | xlog::RESTORE_POINT
            | xlog::FPW_CHANGE
            | xlog::END_OF_RECOVERY
            | xlog::OVERWRITE_CONTRECORD
            | xlog::CHECKPOINT_REDO => {}
            _ => return Err(record.unsupported()),
        }
        Ok(())
    }
}
