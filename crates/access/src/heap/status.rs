//! A tuple's status: whether its insertion counts, and whether an update or a deletion does.
//!
//! Reading, changing, locking and pruning rows all ask [`tuple_status`]. They differ in the
//! [`Observer`]: a scan asks as of its snapshot, the others ask as of now.

use forebay_aio as aio;
use forebay_format::multixact::Member;
use forebay_format::tuple::{HeapTuple, Xmax};
use forebay_format::{CommandId, Xid, tuple as ht};
use forebay_txn::ComboCommands;

use super::outcomes::RowSets;
use crate::error::AccessError;

/// A tuple as an observer finds it. An update here is a deletion too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TupleStatus {
    /// Its insertion does not count: the inserter aborted, or still runs, or is the current or a
    /// later command of the observer's own transaction, which counts as running.
    NotInserted(Fate),
    /// No update counts, and nobody has locked it.
    Live,
    /// No update counts. Transactions have locked it, and some of them may still run.
    Locked,
    /// The observer's own transaction updated it in this command.
    UpdatedByOwn(CommandId),
    /// This transaction updated it and still runs.
    BeingUpdated(Xid),
    /// This transaction updated it and committed.
    Updated(Xid),
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
    Updater,
}

/// Something that asks for a tuple's status.
pub(super) trait Observer {
    /// Whether this is the observer's own transaction, or a subtransaction of it that has not
    /// aborted.
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

    /// The MultiXacts that it has met.
    fn sets(&mut self) -> &mut RowSets;
}

/// The status of a tuple. May read `pg_xact`, `pg_subtrans` and `pg_multixact`.
pub(super) fn tuple_status(
    io: &mut aio::IoBackend,
    observer: &mut impl Observer,
    tuple: HeapTuple<'_>,
) -> Result<TupleStatus, AccessError> {
    if tuple.is_moved() {
        let what = "tuples moved by a VACUUM FULL before version 9.0";
        return Err(AccessError::Unsupported(what));
    }
    if tuple.xmin_invalid() {
        return Ok(TupleStatus::NotInserted(Fate::Aborted));
    }
    match inserter_fate(io, observer, tuple)? {
        Fate::Committed => {}
        fate => return Ok(TupleStatus::NotInserted(fate)),
    }
    let kind = tuple.xmax_kind();
    let updater = match kind {
        Xmax::None | Xmax::UpgradedLockers => return Ok(TupleStatus::Live),
        _ => updater(io, observer, tuple)?,
    };
    let Some(updater) = updater else { return Ok(TupleStatus::Locked) };
    if observer.is_own(updater) {
        let (_, cmax) = commands(observer.combos(), tuple)?;
        return Ok(TupleStatus::UpdatedByOwn(cmax));
    }
    let hinted = tuple.infomask() & ht::HEAP_XMAX_COMMITTED != 0;
    Ok(match observer.fate(io, Role::Updater, updater, hinted)? {
        Fate::Running => TupleStatus::BeingUpdated(updater),
        Fate::Committed => TupleStatus::Updated(updater),
        // Others may have locked it.
        Fate::Aborted if matches!(kind, Xmax::Multi { .. }) => TupleStatus::Locked,
        Fate::Aborted => TupleStatus::Live,
    })
}

/// What became of a tuple's inserter.
fn inserter_fate(
    io: &mut aio::IoBackend,
    observer: &mut impl Observer,
    tuple: HeapTuple<'_>,
) -> Result<Fate, AccessError> {
    if tuple.xmin_frozen() {
        return Ok(Fate::Committed);
    }
    let xmin = tuple.xmin();
    if observer.is_own(xmin) {
        let (cmin, _) = commands(observer.combos(), tuple)?;
        return Ok(if cmin < observer.command() { Fate::Committed } else { Fate::Running });
    }
    observer.fate(io, Role::Inserter, xmin, tuple.xmin_committed())
}

/// The transaction that updated a tuple, whatever became of it. None if xmax only locked it.
pub(super) fn updater(
    io: &mut aio::IoBackend,
    observer: &mut impl Observer,
    tuple: HeapTuple<'_>,
) -> Result<Option<Xid>, AccessError> {
    Ok(match tuple.xmax_kind() {
        Xmax::Transaction(status) => status.is_update().then(|| tuple.xmax()),
        Xmax::Multi { lock_only: false } => {
            let members = observer.sets().members(io, tuple.xmax(), false)?;
            members.iter().find(|member| member.status.is_update()).map(|member| member.xid)
        }
        Xmax::None | Xmax::UpgradedLockers | Xmax::Multi { lock_only: true } => None,
    })
}

/// The transactions in a tuple's xmax: lockers, and at most one updater. They may have ended.
pub(super) fn holders(
    io: &mut aio::IoBackend,
    observer: &mut impl Observer,
    tuple: HeapTuple<'_>,
) -> Result<Vec<Member>, AccessError> {
    match tuple.xmax_kind() {
        Xmax::None | Xmax::UpgradedLockers => Ok(Vec::new()),
        Xmax::Transaction(status) => Ok(vec![Member { xid: tuple.xmax(), status }]),
        Xmax::Multi { lock_only } => observer.sets().members(io, tuple.xmax(), lock_only),
    }
}

/// The inserting and the updating command of a tuple that the own transaction inserted or updated.
/// If it did only one of these, both are that command.
pub(super) fn commands(
    combos: &ComboCommands,
    tuple: HeapTuple<'_>,
) -> Result<(CommandId, CommandId), AccessError> {
    let cid = tuple.cid();
    if !tuple.has_combo_cid() {
        return Ok((cid, cid));
    }
    combos.resolve(cid).ok_or_else(|| {
        AccessError::Internal(format!("tuple has unknown combined command id {cid}"))
    })
}
