//! Functions of the write-ahead log: its positions, the names of its files, switching to the next
//! one, restore points, the begin of a base backup.

use super::Area;
use super::arguments::{text, wrong_argument};
use crate::error::{Result, SqlError, state};
use crate::exec::host::Host;
use forebay_engine::{Lsn, Session};
use forebay_types::{Datum, Numeric};

pub(super) const TABLE: Area = &[
    (2849, |_, _, host| Ok(position(host.session()?.wal_written_lsn()))),
    (3330, |_, _, host| Ok(position(host.session()?.wal_flushed_lsn()))),
    (2852, |_, _, host| Ok(position(host.session()?.wal_insert_lsn()))),
    (2172, |_, args, host| {
        let label = text(args, 0)?;
        let fast = matches!(args.get(1), Some(Datum::Bool(true)));
        Ok(position(host.call(|s| s.start_backup(label, fast))?))
    }),
    (3098, |_, args, host| restore_point(text(args, 0)?, host)),
    (2848, |_, _, host| Ok(position(host.call(Session::switch_wal)?))),
    (2851, |_, args, host| Ok(Datum::string(host.session()?.wal_file_name(lsn(args, 0)?)))),
    (3165, |_, args, _| {
        let difference = i128::from(lsn(args, 0)?.0) - i128::from(lsn(args, 1)?.0);
        Ok(Datum::numeric(Numeric::from_int(difference)))
    }),
];

/// A position as a value of type pg_lsn.
fn position(lsn: Lsn) -> Datum<'static> {
    Datum::Lsn(lsn.0)
}

/// An argument of type pg_lsn.
fn lsn(args: &[Datum<'_>], i: usize) -> Result<Lsn> {
    match args.get(i) {
        Some(Datum::Lsn(v)) => Ok(Lsn(*v)),
        _ => Err(wrong_argument(args, i)),
    }
}

/// pg_create_restore_point(name): where recovery from an archive may stop.
fn restore_point(name: &str, host: &mut Host) -> Result<Datum<'static>> {
    const MOST: usize = 63;
    if name.len() > MOST {
        let message = format!("value too long for restore point (maximum {MOST} characters)");
        return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
    }
    Ok(position(host.call(|s| s.create_restore_point(name))?))
}
