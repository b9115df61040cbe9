//! Rows locked on their way: FOR UPDATE and its kind.

use super::eval::Params;
use super::host::Host;
use super::recheck::recheck;
use super::row::{Flow, Row, Visit};
use crate::error::{Result, SqlError};
use crate::plan::{LockPolicy, Node, RowLock};
use forebay_engine::{RowOutcome, RowWait, Table};
use std::sync::Arc;

/// Locks a row, and hands it on. Of a row that another transaction has changed, the newest version
/// is locked and handed on, if the plan below still makes a row of it.
pub(super) fn locked(
    row: Row<'_>,
    below: &Node,
    table: &Arc<Table>,
    lock: RowLock,
    params: Params<'_>,
    host: &mut Host,
    visit: Visit<'_>,
) -> Result<Flow> {
    let place = row.ctid.expect("rows that are locked come from a table");
    let wait = match lock.policy {
        LockPolicy::Wait => RowWait::Wait,
        LockPolicy::Skip | LockPolicy::Fail => RowWait::NoWait,
    };
    match host.call(|session| session.lock_row(table, place, lock.strength, wait))? {
        RowOutcome::Done(_) => visit(row, host),
        RowOutcome::Changed(newest) => recheck(below, &newest, params, host, visit),
        RowOutcome::Gone => Ok(Flow::Continue),
        RowOutcome::Held if lock.policy == LockPolicy::Skip => Ok(Flow::Continue),
        RowOutcome::Held => {
            let message = format!("could not obtain lock on row in relation \"{}\"", table.name);
            Err(SqlError::new("55P03", message))
        }
    }
}
