//! A tuple's status: whether its insertion counts, and whether its deletion does.
//!
//! Reading, deleting and locking rows all ask [`tuple_status`]. They differ in the [`Observer`]:
//! a scan asks as of its snapshot, a change asks as of now.

use forebay_aio as aio;
use forebay_format::{CommandId, Xid, tuple as ht, tuple::HeapTuple};
use forebay_txn::ComboCommands;

use crate::error::AccessError;

/// A tuple as an observer finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TupleStatus {
    /// Its insertion does not count: the inserter aborted, still runs, or is the current or a later
    /// command of the observer's own transaction.
    NotInserted,
    /// No deletion counts.
    Live,
    /// No deletion counts; a transaction, or several of them, locked it.
    Locked { by: Xid, multi: bool },
    /// The observer's own transaction deleted it in this command.
    DeletedByOwn(CommandId),
    /// Another transaction deleted it and still runs.
    BeingDeleted(Xid),
    /// Another transaction deleted it and committed.
    Deleted,
}

/// What became of a transaction, as an observer finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Running,
    Committed,
    Aborted,
}

/// What a transaction did to a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Inserter,
    Deleter,
}

/// Who asks for a tuple's status.
pub(super) trait Observer {
    /// Whether this is the observer's own transaction.
    fn is_own(&self, xid: Xid) -> bool;

    /// The observer's command: it does not see its own effects.
    fn command(&self) -> CommandId;

    /// The combined command ids of the own transaction.
    fn combos(&self) -> &ComboCommands;

    /// What became of another transaction. `hinted`: the tuple says that it committed.
    fn fate(
        &mut self,
        io: &mut aio::IoBackend,
        role: Role,
        xid: Xid,
        hinted: bool,
    ) -> Result<Fate, AccessError>;
}

/// The status of a tuple. May read `pg_xact`.
pub(super) fn tuple_status(
    io: &mut aio::IoBackend,
    observer: &mut impl Observer,
    tuple: HeapTuple<'_>,
) -> Result<TupleStatus, AccessError> {
    let mask = tuple.infomask();
    if mask & (ht::HEAP_MOVED_OFF | ht::HEAP_MOVED_IN) != 0 {
        let what = "tuples moved by a VACUUM FULL before version 9.0";
        return Err(AccessError::Unsupported(what));
    }
    if tuple.xmin_invalid() || !is_inserted(io, observer, tuple)? {
        return Ok(TupleStatus::NotInserted);
    }
    if mask & ht::HEAP_XMAX_INVALID != 0 {
        return Ok(TupleStatus::Live);
    }
    let (xmax, multi) = (tuple.xmax(), mask & ht::HEAP_XMAX_IS_MULTI != 0);
    if tuple.xmax_is_locked_only() {
        return Ok(TupleStatus::Locked { by: xmax, multi });
    }
    if multi {
        return Err(AccessError::Unsupported("multixacts"));
    }
    if observer.is_own(xmax) {
        let (_, cmax) = commands(observer.combos(), tuple)?;
        return Ok(TupleStatus::DeletedByOwn(cmax));
    }
    let hinted = mask & ht::HEAP_XMAX_COMMITTED != 0;
    Ok(match observer.fate(io, Role::Deleter, xmax, hinted)? {
        Fate::Running => TupleStatus::BeingDeleted(xmax),
        Fate::Committed => TupleStatus::Deleted,
        Fate::Aborted => TupleStatus::Live,
    })
}

/// Whether a tuple's insertion counts.
fn is_inserted(
    io: &mut aio::IoBackend,
    observer: &mut impl Observer,
    tuple: HeapTuple<'_>,
) -> Result<bool, AccessError> {
    if tuple.xmin_frozen() {
        return Ok(true);
    }
    let xmin = tuple.xmin();
    if observer.is_own(xmin) {
        let (cmin, _) = commands(observer.combos(), tuple)?;
        return Ok(cmin < observer.command());
    }
    let hinted = tuple.infomask() & ht::HEAP_XMIN_COMMITTED != 0;
    Ok(observer.fate(io, Role::Inserter, xmin, hinted)? == Fate::Committed)
}

/// The inserting and the deleting command of a tuple that the own transaction inserted or deleted.
/// If it did only one of these, both are that command.
pub(super) fn commands(
    combos: &ComboCommands,
    tuple: HeapTuple<'_>,
) -> Result<(CommandId, CommandId), AccessError> {
    let cid = tuple.cid();
    if tuple.infomask() & ht::HEAP_COMBOCID == 0 {
        return Ok((cid, cid));
    }
    combos.resolve(cid).ok_or_else(|| {
        AccessError::Internal(format!("tuple has unknown combined command id {cid}"))
    })
}
