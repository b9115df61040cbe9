//! Commit and abort. Prepared transactions are not redone: a directory that has one, or whose log
//! has one, is refused.

use forebay_format::Xid;
use forebay_format::commit_ts::CommitStamp;
use forebay_format::ids::xid_is_normal;
use forebay_format::wal::{Rmgr, xact};

use super::context::RedoContext;
use super::error::RedoError;
use super::manager::ResourceManager;
use super::record::RedoRecord;
use crate::clog::Outcome;

/// Redoes commit and abort, with the files that they remove.
pub struct XactRedo;

impl ResourceManager for XactRedo {
    fn id(&self) -> Rmgr {
        Rmgr::XACT
    }

    fn knows(&self, info: u8) -> bool {
        matches!(
            info & xact::OPMASK,
            xact::COMMIT | xact::ABORT | xact::ASSIGNMENT | xact::INVALIDATIONS
        )
    }

    fn redo(&self, record: &RedoRecord<'_>, ctx: &mut RedoContext<'_>) -> Result<(), RedoError> {
        match record.kind() & xact::OPMASK {
            xact::COMMIT => end(record, ctx, Outcome::Committed),
            xact::ABORT => end(record, ctx, Outcome::Aborted),
            xact::ASSIGNMENT | xact::INVALIDATIONS => Ok(()),
            _ => Err(record.unsupported()),
        }
    }
}

fn end(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    outcome: Outcome,
) -> Result<(), RedoError> {
    let header = &record.record.header;
    let end = xact::XactEnd::decode(header.info, record.record.main)
        .map_err(|error| record.damaged(error.to_string()))?;
    if header.xid < forebay_format::ids::FIRST_NORMAL_XID {
        return Err(record.damaged(format!("transaction {} can not end", header.xid)));
    }
    for &xid in end.subxacts.iter().chain([&header.xid]) {
        ctx.counters.advance_past(xid);
    }
    let origin = record.record.origin.unwrap_or_default();
    // A transaction that another server has committed first has its time.
    let time = end.origin.map_or(end.time, |(_, time)| time);
    note_end(record, ctx, &end.subxacts, outcome, CommitStamp { time, origin })?;
    if let Some((remote, _)) = end.origin {
        ctx.cluster.origins.advance(origin, remote, false);
    }
    if !end.rels.is_empty() {
        ctx.before_files_go(record)?;
    }
    for rel in end.rels {
        ctx.forget_relation(rel);
        let dropped = ctx.pool.drop_relation(ctx.backend, rel);
        dropped.map_err(|source| RedoError::Storage { lsn: record.start, source })?;
    }
    Ok(())
}

/// Sets the outcomes of a transaction and its subtransactions.
fn note_end(
    record: &RedoRecord<'_>,
    ctx: &mut RedoContext<'_>,
    subxacts: &[Xid],
    outcome: Outcome,
    stamp: CommitStamp,
) -> Result<(), RedoError> {
    forebay_aio::planted_bug!(ctx.backend.io.aio(), RedoIgnoresTransactionEnds, return Ok(()));
    let mut subxacts = subxacts;
    let aio = ctx.backend.io.aio();
    forebay_aio::planted_bug!(aio, RedoForgetsSubtransactions, subxacts = &[]);
    if let Some(xid) = subxacts.iter().find(|xid| !xid_is_normal(**xid)) {
        return Err(record.damaged(format!("transaction {xid} can not end")));
    }
    let (io, xid) = (&mut ctx.backend.io, record.record.header.xid);
    let prepared = ctx.clog.prepare_tree(io, xid, subxacts);
    let prepared = prepared.map_err(|error| record.failed(error))?;
    match outcome {
        Outcome::Committed => prepared.commit(stamp),
        _ => prepared.set(outcome),
    }
    Ok(())
}
