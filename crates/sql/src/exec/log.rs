//! Functions of the write-ahead log: where it stands, the names of its files, the switch to the
//! next one, named points in it, the begin of a base backup.

use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::plan::Function;
use forebay_engine::Lsn;
use forebay_types::{Datum, Numeric};

/// A position as a value of type pg_lsn.
fn position(lsn: Lsn) -> Datum<'static> {
    Datum::Int8(lsn.0 as i64)
}

/// An argument of type pg_lsn.
fn lsn(args: &[Datum<'_>], i: usize) -> Lsn {
    match args.get(i) {
        Some(Datum::Int8(v)) => Lsn(*v as u64),
        _ => Lsn::INVALID,
    }
}

/// pg_create_restore_point(name): where recovery from an archive may stop.
fn restore_point(name: &str, host: &mut Host) -> Result<Datum<'static>> {
    const MOST: usize = 63;
    if name.len() > MOST {
        let message = format!("value too long for restore point (maximum {MOST} characters)");
        return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
    }
    Ok(position(host.session()?.create_restore_point(name)?))
}

/// Calls one of these functions.
pub fn call<'a>(function: Function, args: &[Datum<'a>], host: &mut Host) -> Result<Datum<'a>> {
    Ok(match function {
        Function::PgCurrentWalLsn => position(host.session()?.wal_written_lsn()),
        Function::PgCurrentWalFlushLsn => position(host.session()?.wal_flushed_lsn()),
        Function::PgCurrentWalInsertLsn => position(host.session()?.wal_insert_lsn()),
        Function::PgBackupStart => {
            let label = args.first().and_then(Datum::as_str).unwrap_or_default();
            let fast = matches!(args.get(1), Some(Datum::Bool(true)));
            position(host.session()?.start_backup(label, fast)?)
        }
        Function::PgCreateRestorePoint => {
            restore_point(args.first().and_then(Datum::as_str).unwrap_or(""), host)?
        }
        Function::PgSwitchWal => position(host.session()?.switch_wal()?),
        Function::PgWalfileName => Datum::string(host.session()?.wal_file_name(lsn(args, 0))),
        Function::PgWalLsnDiff => Datum::numeric(Numeric::from_int(
            i128::from(lsn(args, 0).0) - i128::from(lsn(args, 1).0),
        )),
        _ => Datum::Null,
    })
}
