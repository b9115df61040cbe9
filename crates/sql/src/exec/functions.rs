//! Functions. An argument is NULL only if the function takes NULL.

use super::arguments::{int, oid, text, wrong_argument};
use super::cast::out_of_range;
use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::plan::Function;
use crate::settings::SetScope;
use forebay_aio::sync::Duration;
use forebay_engine::{ALL_FORKS, BlockRange, Fork, IndexCheckOptions, PrewarmMode};
use forebay_types::{Datum, Numeric, SqlType, ValueError};
use std::ops::Range;

fn count(n: usize) -> Datum<'static> {
    Datum::Int4(i32::try_from(n).unwrap_or(i32::MAX))
}

/// Calls a function.
pub fn call<'a>(function: Function, args: &[Datum<'a>], host: &mut Host) -> Result<Datum<'a>> {
    Ok(match function {
        Function::CharLength => count(text(args, 0)?.chars().count()),
        Function::OctetLength => count(text(args, 0)?.len()),
        Function::Lower => Datum::string(text(args, 0)?.to_ascii_lowercase()),
        Function::Upper => Datum::string(text(args, 0)?.to_ascii_uppercase()),
        Function::Trim => Datum::string(text(args, 0)?.trim_matches(' ').to_owned()),
        Function::Concat => super::text::concat(args)?,
        Function::Replace => super::text::replace(text(args, 0)?, text(args, 1)?, text(args, 2)?)?,
        Function::StartsWith => Datum::Bool(text(args, 0)?.starts_with(text(args, 1)?)),
        Function::Strpos => {
            let (whole, part) = (text(args, 0)?, text(args, 1)?);
            count(
                whole.find(part).map_or(0, |at| whole.get(..at).unwrap_or("").chars().count() + 1),
            )
        }
        Function::Left => left(text(args, 0)?, int(args, 1)?),
        Function::Right => right(text(args, 0)?, int(args, 1)?),
        Function::Substr => substr(args)?,
        Function::Repeat => super::text::repeat(text(args, 0)?, int(args, 1)?)?,
        Function::Abs => abs(args)?,
        Function::Ceil | Function::Floor | Function::Round | Function::RoundTo | Function::Sqrt => {
            rounding(function, args)?
        }
        Function::FormatType => {
            Datum::text(SqlType::from_oid(oid(args, 0)?).map_or("???", |ty| ty.sql_name()))
        }
        Function::Random => Datum::Float8(host.random()),
        Function::Rows(rows) => super::rowsets::row_value(rows, args, host)?,
        Function::Version => Datum::string(host.identity.version.clone()),
        Function::CurrentDatabase => Datum::string(host.identity.database.clone()),
        Function::CurrentUser => Datum::string(host.identity.user.clone()),
        Function::CurrentSchema => Datum::text("public"),
        Function::PgBackendPid => Datum::Int4(host.identity.pid),
        Function::PgIsInRecovery => Datum::Bool(false),
        Function::CurrentSetting => current_setting(args, host)?,
        Function::SetConfig => set_config(args, host)?,
        Function::PgSizePretty => size_pretty(args),
        Function::PgSleep => sleep(args, host)?,
        Function::AdvisoryLock(_)
        | Function::AdvisoryUnlock { .. }
        | Function::AdvisoryUnlockAll
        | Function::PgBlockingPids
        | Function::PgCancelBackend
        | Function::PgSessionIsBlocked
        | Function::CurrentXid
        | Function::XidIfAssigned => super::advisory::call(function, args, host)?,
        Function::Nextval
        | Function::Currval
        | Function::Lastval
        | Function::Setval
        | Function::SequenceLastValue
        | Function::SerialSequence => super::sequences::call(function, args, host)?,
        Function::IndexCheck { parents } => check_index(args, parents, host)?,
        Function::PgPrewarm => prewarm(args, host)?,
        Function::PgRelationSize => relation_size(args, host)?,
        Function::PgTableSize => table_size(args, false, host)?,
        Function::PgTotalRelationSize => table_size(args, true, host)?,
        Function::PgReloadConf => Datum::Bool(host.settings.reload_server()),
        Function::PgStatResetShared => super::views::reset(args, host)?,
        Function::PgCreateRestorePoint
        | Function::PgCurrentWalLsn
        | Function::PgCurrentWalFlushLsn
        | Function::PgCurrentWalInsertLsn
        | Function::PgSwitchWal
        | Function::PgBackupStart
        | Function::PgWalfileName
        | Function::PgWalLsnDiff => super::log::call(function, args, host)?,
        Function::RegclassName => regclass_name(args, host)?,
    })
}

/// The name of a relation, by its OID.
fn regclass_name<'a>(args: &[Datum<'a>], host: &mut Host) -> Result<Datum<'a>> {
    let oid = match args.first() {
        // The output of a subquery is a name already.
        Some(name @ Datum::Text(_)) => return Ok(name.clone()),
        Some(Datum::Carried(ty, _)) => return Err(ValueError::carried("output", *ty).into()),
        _ => oid(args, 0)?,
    };
    Ok(match host.table_by_oid(oid)? {
        Some(table) => Datum::string(table.name.clone()),
        None if oid == 0 => Datum::text("-"),
        None => Datum::string(oid.to_string()),
    })
}

fn left<'a>(whole: &str, n: i32) -> Datum<'a> {
    let length = whole.chars().count();
    let take = if n >= 0 { n as usize } else { length.saturating_sub(n.unsigned_abs() as usize) };
    Datum::string(whole.chars().take(take).collect())
}

fn right<'a>(whole: &str, n: i32) -> Datum<'a> {
    let length = whole.chars().count();
    let skip = if n >= 0 { length.saturating_sub(n as usize) } else { n.unsigned_abs() as usize };
    Datum::string(whole.chars().skip(skip).collect())
}

/// The characters that substr() takes, by number from 0, which may be none.
pub(super) fn substr_range(args: &[Datum<'_>]) -> Result<Range<usize>> {
    let from = i64::from(int(args, 1)?);
    let end = match args.get(2).map(|_| int(args, 2)).transpose()? {
        Some(n) if n < 0 => {
            return Err(SqlError::new("22011", "negative substring length not allowed"));
        }
        Some(n) => from + i64::from(n),
        None => i64::MAX,
    };
    Ok((from - 1).max(0) as usize..(end - 1).max(0) as usize)
}

fn substr<'a>(args: &[Datum<'_>]) -> Result<Datum<'a>> {
    let (whole, Range { start, end }) = (text(args, 0)?, substr_range(args)?);
    Ok(Datum::string(whole.chars().skip(start).take(end.saturating_sub(start)).collect()))
}

fn fits<'a>(result: Option<Datum<'a>>, ty: SqlType) -> Result<Datum<'a>> {
    result.ok_or_else(|| out_of_range(ty))
}

fn abs<'a>(args: &[Datum<'a>]) -> Result<Datum<'a>> {
    match args.first() {
        Some(Datum::Int2(v)) => fits(v.checked_abs().map(Datum::Int2), SqlType::Int2),
        Some(Datum::Int4(v)) => fits(v.checked_abs().map(Datum::Int4), SqlType::Int4),
        Some(Datum::Int8(v)) => fits(v.checked_abs().map(Datum::Int8), SqlType::Int8),
        Some(Datum::Float4(v)) => Ok(Datum::Float4(v.abs())),
        Some(Datum::Float8(v)) => Ok(Datum::Float8(v.abs())),
        Some(Datum::Numeric(v)) => Ok(Datum::numeric(v.abs())),
        _ => Err(wrong_argument(args, 0)),
    }
}

fn rounding<'a>(function: Function, args: &[Datum<'a>]) -> Result<Datum<'a>> {
    Ok(match (function, args.first()) {
        (Function::Ceil, Some(Datum::Float8(v))) => Datum::Float8(v.ceil()),
        (Function::Floor, Some(Datum::Float8(v))) => Datum::Float8(v.floor()),
        (Function::Round, Some(Datum::Float8(v))) => Datum::Float8(v.round_ties_even()),
        (Function::Sqrt, Some(Datum::Float8(v))) if *v < 0.0 => {
            return Err(SqlError::new("2201F", "cannot take square root of a negative number"));
        }
        (Function::Sqrt, Some(Datum::Float8(v))) => Datum::Float8(v.sqrt()),
        (Function::Round, Some(Datum::Numeric(v))) => Datum::numeric(v.round(0)),
        (Function::RoundTo, Some(Datum::Numeric(v))) => Datum::numeric(v.round_to(int(args, 1)?)?),
        (Function::Ceil | Function::Floor, Some(Datum::Numeric(v))) => {
            let Numeric::Finite { .. } = **v else { return Ok(Datum::Numeric(v.clone())) };
            let nearest = v.round(0);
            let one = Numeric::from_int(1);
            Datum::numeric(match function {
                Function::Ceil if nearest < **v => nearest.add(&one)?,
                Function::Floor if nearest > **v => nearest.sub(&one)?,
                _ => nearest,
            })
        }
        _ => return Err(wrong_argument(args, 0)),
    })
}

fn current_setting<'a>(args: &[Datum<'_>], host: &Host) -> Result<Datum<'a>> {
    let missing_ok = matches!(args.get(1), Some(Datum::Bool(true)));
    match host.show(text(args, 0)?) {
        Ok(shown) => Ok(Datum::string(shown.value)),
        Err(e) if missing_ok && e.sqlstate == state::UNDEFINED_OBJECT => Ok(Datum::Null),
        Err(e) => Err(e),
    }
}

fn set_config<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let local = matches!(args.get(2), Some(Datum::Bool(true)));
    let scope = if local { SetScope::Local } else { SetScope::Session };
    host.set(text(args, 0)?, Some(text(args, 1)?), scope)?;
    Ok(Datum::string(host.show(text(args, 0)?)?.value))
}

fn size_pretty<'a>(args: &[Datum<'_>]) -> Datum<'a> {
    let Some(Datum::Int8(bytes)) = args.first() else { return Datum::Null };
    let mut size = *bytes;
    let mut half_rounded = false;
    // PostgreSQL keeps halves until the last division, and moves on at 10 kB, 20 MB (in halves) and
    // so on.
    for (i, unit) in ["bytes", "kB", "MB", "GB", "TB", "PB"].iter().enumerate() {
        let limit = if i == 0 { 10 * 1024 } else { 20 * 1024 - 1 };
        if size.unsigned_abs() < limit || *unit == "PB" {
            if half_rounded {
                size = (size + size.signum()) / 2;
            }
            return Datum::string(format!("{size} {unit}"));
        }
        // The first step leaves halves of kB; later ones keep them.
        size /= if i == 0 { 512 } else { 1024 };
        half_rounded = true;
    }
    Datum::Null
}

fn sleep<'a>(args: &[Datum<'_>], host: &Host) -> Result<Datum<'a>> {
    let seconds = match args.first() {
        Some(Datum::Float8(v)) if *v > 0.0 => v.min(1e9),
        _ => 0.0,
    };
    host.sleep(Duration::from_secs_f64(seconds))?;
    Ok(Datum::text(""))
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER_VALUE, message)
}

/// A fork by its name.
fn fork(name: &str) -> Result<Fork> {
    Fork::from_name(name).ok_or_else(|| {
        invalid("invalid fork name")
            .hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")
    })
}

/// pg_prewarm(relation, mode, fork, first block, last block), all but the first with defaults, the
/// last two perhaps NULL.
fn prewarm<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let null = |i: usize| matches!(args.get(i), Some(Datum::Null));
    if null(0) {
        return Err(invalid("relation cannot be null"));
    }
    if null(1) {
        return Err(invalid("prewarm type cannot be null"));
    }
    let mode = match args.get(1).and_then(Datum::as_str).unwrap_or("buffer") {
        "prefetch" => PrewarmMode::Prefetch,
        "read" => PrewarmMode::Read,
        "buffer" => PrewarmMode::Buffer,
        _ => {
            return Err(invalid("invalid prewarm type")
                .hint("Valid prewarm types are \"prefetch\", \"read\", and \"buffer\"."));
        }
    };
    if null(2) {
        return Err(invalid("relation fork cannot be null"));
    }
    let fork = fork(args.get(2).and_then(Datum::as_str).unwrap_or("main"))?;
    let block = |i: usize| match args.get(i) {
        Some(Datum::Int8(block)) => Some(*block),
        _ => None,
    };
    let blocks = BlockRange { first: block(3), last: block(4) };
    let table = host.open_by_oid(oid(args, 0)?)?;
    let blocks = host.call(|s| s.prewarm_range(&table, mode, fork, blocks))?;
    Ok(Datum::Int8(i64::try_from(blocks).unwrap_or(i64::MAX)))
}

/// bt_index_check(index, heapallindexed, checkunique), or bt_index_parent_check(index,
/// heapallindexed, rootdescend, checkunique), all but the first with defaults. Keys of a parent are
/// always compared with its children, which is what rootdescend adds.
fn check_index<'a>(args: &[Datum<'_>], parents: bool, host: &mut Host) -> Result<Datum<'a>> {
    let flag = |i: usize| matches!(args.get(i), Some(Datum::Bool(true)));
    let distinct = flag(if parents { 3 } else { 2 });
    let options = IndexCheckOptions { parents, all_rows: flag(1), distinct };
    let index = oid(args, 0)?;
    host.call(|session| session.check_index(index, options))?;
    // A void has an empty text.
    Ok(Datum::text(""))
}

fn relation_size<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    let fork = fork(args.get(1).and_then(Datum::as_str).unwrap_or("main"))?;
    let oid = oid(args, 0)?;
    let Some(table) = host.table_by_oid(oid)? else { return index_size(oid, &[fork], host) };
    let blocks = host.call(|s| s.fork_blocks(&table, fork))?.unwrap_or(0);
    Ok(bytes_of(blocks.into()))
}

/// The size of a table with its TOAST table, and with its indexes, if they are wanted.
fn table_size<'a>(args: &[Datum<'_>], indexes: bool, host: &mut Host) -> Result<Datum<'a>> {
    let oid = oid(args, 0)?;
    let Some(table) = host.table_by_oid(oid)? else { return index_size(oid, &ALL_FORKS, host) };
    Ok(bytes_of(host.call(|s| s.total_blocks(&table, indexes))?))
}

/// The size of an index. NULL if the OID is not one's.
fn index_size<'a>(oid: u32, forks: &[Fork], host: &mut Host) -> Result<Datum<'a>> {
    let blocks = host.call_if_any(|session| session.blocks_of_index(oid, forks))?.flatten();
    Ok(blocks.map_or(Datum::Null, bytes_of))
}

fn bytes_of<'a>(blocks: u64) -> Datum<'a> {
    const BLOCK_SIZE: u64 = 8192;
    Datum::Int8(i64::try_from(blocks * BLOCK_SIZE).unwrap_or(i64::MAX))
}
