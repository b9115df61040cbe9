//! Functions whose result is a row, or several.

use super::arguments::{int, oid};
use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::plan::RowFunction;
use forebay_engine::Session;
use forebay_types::{Datum, to_text};

type RowOf = Vec<Datum<'static>>;

fn int32(n: u32) -> Datum<'static> {
    Datum::Int4(i32::try_from(n).unwrap_or(i32::MAX))
}

fn int64(n: u64) -> Datum<'static> {
    Datum::Int8(i64::try_from(n).unwrap_or(i64::MAX))
}

/// The rows a function returns. No argument is NULL.
fn rows(function: RowFunction, args: &[Datum<'_>], host: &mut Host) -> Result<Vec<RowOf>> {
    Ok(match function {
        RowFunction::Summary => {
            let sum = host.engine()?.pool_summary();
            let usage = sum.usage.map_or(Datum::Null, Datum::Float8);
            vec![vec![
                int32(sum.used),
                int32(sum.unused),
                int32(sum.dirty),
                int32(sum.pinned),
                usage,
            ]]
        }
        RowFunction::UsageCounts => {
            let counts = host.engine()?.usage_counts();
            let row = |(n, c): (u32, _)| {
                let forebay_engine::views::UsageCount { buffers, dirty, pinned } = c;
                vec![int32(n), int32(buffers), int32(dirty), int32(pinned)]
            };
            (0..).zip(counts).map(row).collect()
        }
        RowFunction::Checksums => {
            let found = host.call(Session::verify_memory)?;
            let millis = found.time.as_secs_f64() * 1e3;
            vec![vec![
                int64(found.computed),
                int64(found.compared),
                int64(found.failures),
                Datum::Float8(millis),
            ]]
        }
        RowFunction::BackupStop => {
            let wait = !matches!(args.first(), Some(Datum::Bool(false)));
            let end = host.call(|s| s.stop_backup(wait))?;
            vec![vec![Datum::Int8(end.lsn.0 as i64), Datum::string(end.label), Datum::text("")]]
        }
        RowFunction::ControlSystem => {
            let control = host.engine()?.control_system();
            vec![vec![
                int32(control.version),
                int32(control.catalog_version),
                Datum::Int8(control.system_id as i64),
                crate::views::timestamp(control.modified),
            ]]
        }
        RowFunction::KernelCache => {
            let table = host.open_by_oid(oid(args, 0)?)?;
            let files = host.call(|s| s.kernel_cache(&table))?;
            files
                .into_iter()
                .map(|f| {
                    vec![
                        Datum::text(f.fork.name()),
                        int32(f.segment),
                        int64(f.pages),
                        int64(f.cached),
                    ]
                })
                .collect()
        }
        RowFunction::Evict
        | RowFunction::EvictRelation
        | RowFunction::EvictAll
        | RowFunction::MarkDirty
        | RowFunction::MarkDirtyRelation
        | RowFunction::MarkDirtyAll => vec![change_buffers(function, args, host)?],
    })
}

/// Evicts buffers or marks them dirty, and counts them.
fn change_buffers(function: RowFunction, args: &[Datum<'_>], host: &mut Host) -> Result<RowOf> {
    Ok(match function {
        RowFunction::Evict => {
            let (number, buffer) = buffer(args)?;
            let evicted =
                host.call(|s| s.evict_buffer(buffer))?.ok_or_else(|| no_buffer(number))?;
            vec![Datum::Bool(evicted.evicted), Datum::Bool(evicted.flushed)]
        }
        RowFunction::EvictRelation => {
            let table = host.open_by_oid(oid(args, 0)?)?;
            let report = host.call(|s| s.evict_table(&table))?;
            vec![int32(report.evicted), int32(report.flushed), int32(report.skipped)]
        }
        RowFunction::EvictAll => {
            let report = host.call(Session::evict_all)?;
            vec![int32(report.evicted), int32(report.flushed), int32(report.skipped)]
        }
        RowFunction::MarkDirty => {
            let (number, buffer) = buffer(args)?;
            let done = host.call(|s| s.dirty_buffer(buffer))?.ok_or_else(|| no_buffer(number))?;
            vec![Datum::Bool(done.dirtied), Datum::Bool(done.already)]
        }
        RowFunction::MarkDirtyRelation => {
            let table = host.open_by_oid(oid(args, 0)?)?;
            let report = host.call(|s| s.dirty_table(&table))?;
            vec![int32(report.dirtied), int32(report.already), int32(report.skipped)]
        }
        RowFunction::MarkDirtyAll => {
            let report = host.call(Session::dirty_all)?;
            vec![int32(report.dirtied), int32(report.already), int32(report.skipped)]
        }
        other => unreachable!("{other:?} changes no buffers"),
    })
}

/// The rows a function in FROM returns, whose arguments may be NULL.
pub fn rows_or_null(
    function: RowFunction,
    args: &[Datum<'_>],
    host: &mut Host,
) -> Result<Vec<RowOf>> {
    if !args.iter().any(Datum::is_null) {
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
            out.push_str(&quoted(to_text(value, *ty)?));
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

/// A buffer as the user numbers them, from 1, and as the pool does.
fn buffer(args: &[Datum<'_>]) -> Result<(i32, u32)> {
    let number = int(args, 0)?;
    // Buffer 0 and those below do not exist; neither does what becomes of their numbers.
    Ok((number, u32::try_from(i64::from(number) - 1).unwrap_or(u32::MAX)))
}

fn no_buffer(number: i32) -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, format!("bad buffer ID: {number}"))
}
