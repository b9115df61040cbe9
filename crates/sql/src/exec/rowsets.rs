//! Functions whose result is a row, or several.

use super::functions::arguments::{int, oid, text};
use super::host::Host;
use super::row::OwnedRow;
use crate::error::{Result, SqlError, state};
use crate::plan::{RowFunction, rowsets as columns};
use crate::views::values;
use forebay_engine::{Oid, Session, SkipPages, TableCheckOptions};
use forebay_types::{Datum, to_text};

/// The rows a function returns. No argument is NULL, unless it takes that.
fn rows(function: RowFunction, args: &[Datum<'_>], host: &mut Host) -> Result<Vec<OwnedRow>> {
    host.check_superuser(|| "a function of the system".to_owned())?;
    Ok(match function {
        RowFunction::Summary => values(columns::SUMMARY, [host.engine()?.pool_summary()]),
        RowFunction::UsageCounts => {
            values(columns::USAGE_COUNTS, (0..).zip(host.engine()?.usage_counts()))
        }
        RowFunction::Checksums => values(columns::CHECKSUMS, [host.call(Session::verify_memory)?]),
        RowFunction::BackupStop => {
            let wait = !matches!(args.first(), Some(Datum::Bool(false)));
            values(columns::BACKUP_STOP, [host.call(|s| s.stop_backup(wait))?])
        }
        RowFunction::ControlSystem => {
            values(columns::CONTROL_SYSTEM, [host.engine()?.control_system()])
        }
        RowFunction::KernelCache => {
            let table = host.open_by_oid(oid(args, 0)?)?;
            values(columns::KERNEL_CACHE, host.call(|s| s.kernel_cache(&table))?)
        }
        RowFunction::Evict => {
            let (number, buffer) = buffer(args)?;
            let done = host.call(|s| s.evict_buffer(buffer))?;
            values(columns::EVICT, [done.ok_or_else(|| no_buffer(number))?])
        }
        RowFunction::EvictRelation => {
            let table = host.open_by_oid(oid(args, 0)?)?;
            values(columns::EVICT_ALL, [host.call(|s| s.evict_table(&table))?])
        }
        RowFunction::EvictAll => values(columns::EVICT_ALL, [host.call(Session::evict_all)?]),
        RowFunction::MarkDirty => {
            let (number, buffer) = buffer(args)?;
            let done = host.call(|s| s.dirty_buffer(buffer))?;
            values(columns::MARK_DIRTY, [done.ok_or_else(|| no_buffer(number))?])
        }
        RowFunction::MarkDirtyRelation => {
            let table = host.open_by_oid(oid(args, 0)?)?;
            values(columns::MARK_DIRTY_ALL, [host.call(|s| s.dirty_table(&table))?])
        }
        RowFunction::MarkDirtyAll => {
            values(columns::MARK_DIRTY_ALL, [host.call(Session::dirty_all)?])
        }
        RowFunction::SequenceData => {
            let sequence = oid(args, 0)?;
            let data = host.call(|s| s.sequence_data(sequence));
            values(columns::SEQUENCE_DATA, [no_sequence(data)?])
        }
        RowFunction::SequenceParameters => {
            let sequence = oid(args, 0)?;
            let found = no_sequence(host.call(|s| s.sequence_info(sequence)))?;
            let found = found.ok_or_else(|| {
                let message = format!("relation with OID {sequence} does not exist");
                SqlError::new(state::UNDEFINED_TABLE, message)
            })?;
            values(columns::SEQUENCE_PARAMETERS, [found.def])
        }
        RowFunction::VerifyHeap => {
            let (relation, options) = table_check(args)?;
            values(columns::VERIFY_HEAP, host.call(|s| s.check_table(relation, &options))?)
        }
    })
}

/// None if an OID is no sequence's.
fn no_sequence<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(error.sqlstate, state::WRONG_OBJECT_TYPE | state::INTERNAL_ERROR) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The rows a function in FROM returns, whose arguments may be NULL.
pub fn rows_or_null(
    function: RowFunction,
    args: &[Datum<'_>],
    host: &mut Host,
) -> Result<Vec<OwnedRow>> {
    if function.takes_null() || !args.iter().any(Datum::is_null) {
        return rows(function, args, host);
    }
    let nulls = || vec![Datum::Null; function.columns().len()];
    Ok(if function.is_set() { Vec::new() } else { vec![nulls()] })
}

/// The one row of a function as a value, in the text form of a composite. No argument is NULL.
pub fn row_value<'a>(
    function: RowFunction,
    args: &[Datum<'_>],
    host: &mut Host,
) -> Result<Datum<'a>> {
    let row = rows(function, args, host)?.into_iter().next().unwrap_or_default();
    let mut out = String::from("(");
    for (n, (value, (_, ty))) in row.iter().zip(function.columns()).enumerate() {
        if n > 0 {
            out.push(',');
        }
        if !value.is_null() {
            out.push_str(&quoted(to_text(value, ty)?));
        }
    }
    out.push(')');
    Ok(Datum::string(out))
}

/// A field of a composite's text form.
fn quoted(field: String) -> String {
    let special = |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace();
    if field.is_empty() || field.contains(special) {
        format!("\"{}\"", field.replace('\\', "\\\\").replace('"', "\"\""))
    } else {
        field
    }
}

/// verify_heapam(relation, on_error_stop, check_toast, skip, startblock, endblock)
fn table_check(args: &[Datum<'_>]) -> Result<(Oid, TableCheckOptions)> {
    let invalid = |message: &str| SqlError::new(state::INVALID_PARAMETER_VALUE, message);
    let names = ["relation", "on_error_stop", "check_toast", "skip"];
    for (arg, name) in args.iter().zip(names) {
        if arg.is_null() {
            return Err(invalid(&format!("{name} cannot be null")));
        }
    }
    let skip = match text(args, 3)?.to_ascii_lowercase().as_str() {
        "none" => SkipPages::None,
        "all-visible" => SkipPages::AllVisible,
        "all-frozen" => SkipPages::AllFrozen,
        _ => {
            return Err(invalid("invalid skip option")
                .hint("Valid skip options are \"all-visible\", \"all-frozen\", and \"none\"."));
        }
    };
    let flag = |n: usize| matches!(args.get(n), Some(Datum::Bool(true)));
    let blocks = [4, 5].map(|n| match args.get(n) {
        Some(Datum::Int8(block)) => Some(*block),
        _ => None,
    });
    let options = TableCheckOptions { stop_on_error: flag(1), check_toast: flag(2), skip, blocks };
    Ok((oid(args, 0)?, options))
}

/// A buffer as the user numbers them, from 1, and as the pool does.
fn buffer(args: &[Datum<'_>]) -> Result<(i32, u32)> {
    let number = int(args, 0)?;
    // Buffer 0 and those below do not exist; neither does what becomes of their numbers.
    Ok((number, u32::try_from(i64::from(number) - 1).unwrap_or(u32::MAX)))
}

fn no_buffer(number: i32) -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, format!("bad buffer ID: {number}"))
}
