//! Functions of advisory locks, of waits and their end, and of transaction ids.

use super::Area;
use super::arguments::{int, wrong_argument};
use crate::error::{Result, SqlError, state};
use crate::exec::host::Host;
use forebay_engine::{AdvisoryKey, AdvisoryScope, InterruptKind, LockMode, Session};
use forebay_types::{Array, Datum, oids};

/// How a function takes an advisory lock.
#[derive(Clone, Copy)]
struct AdvisoryLock {
    /// It waits for it; if not, it returns whether it got it.
    wait: bool,
    /// To the end of the transaction, not of the session.
    transaction: bool,
    /// Beside others that are shared.
    shared: bool,
}

macro_rules! lock {
    ($wait:expr, $transaction:expr, $shared:expr) => {
        |_, args, host| {
            let lock = AdvisoryLock { wait: $wait, transaction: $transaction, shared: $shared };
            advisory_lock(lock, args, host)
        }
    };
}

/// Keys are a bigint, or two integers.
pub(super) const TABLE: Area = &[
    (2880, lock!(true, false, false)),
    (2886, lock!(true, false, false)),
    (2881, lock!(true, false, true)),
    (2887, lock!(true, false, true)),
    (3089, lock!(true, true, false)),
    (3093, lock!(true, true, false)),
    (3090, lock!(true, true, true)),
    (3094, lock!(true, true, true)),
    (2882, lock!(false, false, false)),
    (2888, lock!(false, false, false)),
    (2883, lock!(false, false, true)),
    (2889, lock!(false, false, true)),
    (3091, lock!(false, true, false)),
    (3095, lock!(false, true, false)),
    (3092, lock!(false, true, true)),
    (3096, lock!(false, true, true)),
    (2884, |_, args, host| advisory_unlock(false, args, host)),
    (2890, |_, args, host| advisory_unlock(false, args, host)),
    (2885, |_, args, host| advisory_unlock(true, args, host)),
    (2891, |_, args, host| advisory_unlock(true, args, host)),
    (2892, |_, _, host| {
        host.call(Session::advisory_unlock_all)?;
        Ok(Datum::text(""))
    }),
    (2561, |_, args, host| array(&blocking(args, host)?)),
    (2171, |_, args, host| cancel(int(args, 0)?, host)),
    (3378, |_, args, host| {
        let interesting = elements(args.get(1))?;
        Ok(Datum::Bool(blocking(args, host)?.iter().any(|pid| interesting.contains(pid))))
    }),
    (5059, |_, _, host| Ok(Datum::Xid8(host.call(Session::assign_transaction_id)?))),
    (2943, |_, _, host| Ok(Datum::Int8(host.call(Session::assign_transaction_id)? as i64))),
    (5060, |_, _, host| Ok(host.session()?.full_transaction_id().map_or(Datum::Null, Datum::Xid8))),
    (3348, |_, _, host| {
        let id = host.session()?.full_transaction_id();
        Ok(id.map_or(Datum::Null, |id| Datum::Int8(id as i64)))
    }),
];

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

/// An array of integers.
fn array<'a>(elements: &[i32]) -> Result<Datum<'a>> {
    let elements: Vec<Datum<'_>> = elements.iter().copied().map(Datum::Int4).collect();
    Ok(Datum::Array(Array::list(oids::INT4, &elements)?))
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
