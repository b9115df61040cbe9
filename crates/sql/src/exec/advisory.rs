//! Functions of advisory locks, of waits and their end, and of transaction ids.

use super::arguments::{int, wrong_argument};
use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::plan::{AdvisoryLock, Function};
use forebay_engine::{AdvisoryKey, AdvisoryScope, InterruptKind, LockMode, Session};
use forebay_types::Datum;

/// Calls one of these functions.
pub fn call<'a>(function: Function, args: &[Datum<'a>], host: &mut Host) -> Result<Datum<'a>> {
    Ok(match function {
        Function::AdvisoryLock(lock) => advisory_lock(lock, args, host)?,
        Function::AdvisoryUnlock { shared } => advisory_unlock(shared, args, host)?,
        Function::AdvisoryUnlockAll => {
            host.call(Session::advisory_unlock_all)?;
            Datum::text("")
        }
        Function::PgBlockingPids => Datum::string(array(&blocking(args, host)?)),
        Function::PgCancelBackend => cancel(int(args, 0)?, host)?,
        Function::PgSessionIsBlocked => {
            let interesting = elements(args.get(1))?;
            Datum::Bool(blocking(args, host)?.iter().any(|pid| interesting.contains(pid)))
        }
        Function::CurrentXid => Datum::Xid8(host.call(Session::assign_transaction_id)?),
        Function::XidIfAssigned => {
            let id = host.session()?.full_transaction_id();
            id.map_or(Datum::Null, Datum::Xid8)
        }
        other => unreachable!("{other:?} is no function of locks"),
    })
}

/// The key of an advisory lock: one number, or two.
fn key(args: &[Datum<'_>]) -> Result<AdvisoryKey> {
    match args {
        [Datum::Int8(key)] => Ok(AdvisoryKey::One(*key)),
        [Datum::Int4(class), Datum::Int4(object)] => Ok(AdvisoryKey::Two(*class, *object)),
        _ => Err(wrong_argument(args, 0)),
    }
}

fn mode(shared: bool) -> LockMode {
    if shared { LockMode::Share } else { LockMode::Exclusive }
}

fn advisory_lock<'a>(lock: AdvisoryLock, args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let key = key(args)?;
    let scope = if lock.transaction { AdvisoryScope::Transaction } else { AdvisoryScope::Session };
    let mode = mode(lock.shared);
    if lock.wait {
        host.call(|session| session.advisory_lock(key, mode, scope))?;
        return Ok(Datum::text(""));
    }
    host.call(|session| session.try_advisory_lock(key, mode, scope)).map(Datum::Bool)
}

fn advisory_unlock<'a>(shared: bool, args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let (key, mode) = (key(args)?, mode(shared));
    let held = host.call(|session| session.advisory_unlock(key, mode))?;
    if !held {
        let message = format!("you don't own a lock of type {mode}");
        host.warn(SqlError::warning(state::WARNING, message));
    }
    Ok(Datum::Bool(held))
}

/// Cancels the statement of a session. False, with a warning, if there is no such session.
fn cancel<'a>(session: i32, host: &mut Host) -> Result<Datum<'a>> {
    let found = host.engine()?.interrupt_session(session, InterruptKind::Cancel);
    if !found {
        let message = format!("PID {session} is not a PostgreSQL backend process");
        host.warn(SqlError::warning(state::WARNING, message));
    }
    Ok(Datum::Bool(found))
}

/// The sessions for which a session waits.
fn blocking(args: &[Datum<'_>], host: &Host) -> Result<Vec<i32>> {
    Ok(host.engine()?.blocking_sessions(int(args, 0)?))
}

/// Integers as an array's text form.
fn array(elements: &[i32]) -> String {
    let elements: Vec<String> = elements.iter().map(i32::to_string).collect();
    format!("{{{}}}", elements.join(","))
}

/// The integers of an array.
fn elements(array: Option<&Datum<'_>>) -> Result<Vec<i32>> {
    let Some(Datum::Array(array)) = array else { return Err(wrong_argument(&[], 1)) };
    let read = |element: &Datum<'_>| match element {
        Datum::Int4(element) => Ok(*element),
        _ => Err(wrong_argument(&[], 1)),
    };
    array.items()?.iter().map(read).collect()
}
