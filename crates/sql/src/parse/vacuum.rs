//! VACUUM, parsed by hand, with both syntaxes of options.

use super::cursor::{Cursor, QualifiedName};
use crate::error::{Result, SqlError, state};
use forebay_engine::VacuumOptions;
use sqlparser::tokenizer::Token;

/// Most parallel workers that an option may name.
const MOST_WORKERS: i64 = 1024;
/// kB that BUFFER_USAGE_LIMIT may name, beside 0.
const USAGE_LIMITS: std::ops::RangeInclusive<u64> = 128..=16_777_216;

/// VACUUM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacuum {
    /// The tables; none stands for all.
    pub names: Vec<QualifiedName>,
    /// How they are vacuumed.
    pub options: VacuumOptions,
    /// SKIP_DATABASE_STATS: the database's oldest ids stay as they are.
    pub skip_database_stats: bool,
    /// ONLY_DATABASE_STATS: no table is vacuumed.
    pub only_database_stats: bool,
}

pub(super) fn parse(c: &mut Cursor<'_>) -> Result<Vacuum> {
    c.advance();
    let mut vacuum = Vacuum {
        names: Vec::new(),
        options: VacuumOptions::default(),
        skip_database_stats: false,
        only_database_stats: false,
    };
    if c.accept_token(&Token::LParen) {
        loop {
            option(&mut vacuum, c)?;
            if c.accept_token(&Token::RParen) {
                break;
            }
            c.expect_token(&Token::Comma)?;
        }
    } else {
        if c.accept("full") {
            return Err(SqlError::unsupported("VACUUM FULL"));
        }
        vacuum.options.freeze = c.accept("freeze");
        vacuum.options.verbose = c.accept("verbose");
        if c.accept("analyze") || c.accept("analyse") {
            return Err(SqlError::unsupported("VACUUM ANALYZE"));
        }
    }
    while !c.at_end() {
        vacuum.names.push(c.qualified_name()?);
        if c.peek() == Some(&Token::LParen) {
            c.optional_names()?;
            let message = "ANALYZE option must be specified when a column list is provided";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        }
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect_end()?;
    check(&vacuum)?;
    Ok(vacuum)
}

fn check(vacuum: &Vacuum) -> Result<()> {
    if !vacuum.only_database_stats {
        return Ok(());
    }
    let plain = VacuumOptions { verbose: vacuum.options.verbose, ..VacuumOptions::default() };
    let other = match () {
        () if !vacuum.names.is_empty() => "a list of tables",
        () if vacuum.skip_database_stats || vacuum.options != plain => "other VACUUM options",
        () => return Ok(()),
    };
    let message = format!("ONLY_DATABASE_STATS cannot be specified with {other}");
    Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
}

fn option(vacuum: &mut Vacuum, c: &mut Cursor<'_>) -> Result<()> {
    let position = c.position();
    let Some(name) = c.peek_word() else { return Err(c.error()) };
    c.advance();
    let value = value(c);
    let on = |value| boolean(&name, value);
    let Vacuum { options, .. } = vacuum;
    match name.as_str() {
        "verbose" => options.verbose = on(value)?,
        "freeze" => options.freeze = on(value)?,
        "disable_page_skipping" => options.disable_page_skipping = on(value)?,
        "skip_locked" => options.skip_locked = on(value)?,
        "truncate" => options.truncate = Some(on(value)?),
        "process_main" => options.process_main = on(value)?,
        "process_toast" => options.process_toast = on(value)?,
        "skip_database_stats" => vacuum.skip_database_stats = on(value)?,
        "only_database_stats" => vacuum.only_database_stats = on(value)?,
        // There are no indexes.
        "index_cleanup" if value.as_deref() == Some("auto") => {}
        "index_cleanup" => drop(on(value)?),
        "parallel" => workers(value).map_err(|error| error.at(position))?,
        "full" | "analyze" | "analyse" if !on(value.clone())? => {}
        "full" => return Err(SqlError::unsupported("VACUUM FULL")),
        "analyze" | "analyse" => return Err(SqlError::unsupported("VACUUM ANALYZE")),
        "buffer_usage_limit" => options.buffer_usage_limit = Some(usage_limit(value)?),
        _ => {
            let message = format!("unrecognized VACUUM option \"{name}\"");
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
    }
    Ok(())
}

/// The value of an option, if it has one.
fn value(c: &mut Cursor<'_>) -> Option<String> {
    if let Some(text) = c.accept_string().or_else(|| c.accept_number()) {
        return Some(text);
    }
    let word = c.peek_word()?;
    c.advance();
    Some(word)
}

fn boolean(name: &str, value: Option<String>) -> Result<bool> {
    match value.map(|value| value.to_lowercase()).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(_) => {
            let message = format!("{name} requires a Boolean value");
            Err(SqlError::new(state::SYNTAX_ERROR, message))
        }
    }
}

/// kB of buffers: a number of them, or a text with a unit. 0 stands for no limit.
fn usage_limit(value: Option<String>) -> Result<u32> {
    let value = value.ok_or_else(|| {
        SqlError::new(state::SYNTAX_ERROR, "buffer_usage_limit requires a parameter")
    })?;
    match kilobytes(&value) {
        Some(kb) if kb == 0 || USAGE_LIMITS.contains(&kb) => Ok(kb as u32),
        _ => {
            let (least, most) = (USAGE_LIMITS.start(), USAGE_LIMITS.end());
            let message =
                format!("BUFFER_USAGE_LIMIT option must be 0 or between {least} kB and {most} kB");
            Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// A size as settings have it, in kB; without a unit it is kB.
fn kilobytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = number.parse().ok()?;
    match unit.trim_start() {
        "B" => Some((number + 512) / 1024),
        "" | "kB" => Some(number),
        "MB" => number.checked_mul(1 << 10),
        "GB" => number.checked_mul(1 << 20),
        "TB" => number.checked_mul(1 << 30),
        _ => None,
    }
}

/// Without indexes there is nothing to do in parallel.
fn workers(value: Option<String>) -> Result<()> {
    let message = match value.map(|value| value.parse::<i64>()) {
        None => format!("parallel option requires a value between 0 and {MOST_WORKERS}"),
        Some(Ok(n)) if (0..=MOST_WORKERS).contains(&n) => return Ok(()),
        Some(_) => format!("parallel workers for vacuum must be between 0 and {MOST_WORKERS}"),
    };
    Err(SqlError::new(state::SYNTAX_ERROR, message))
}
