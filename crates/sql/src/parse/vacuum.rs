//! VACUUM and ANALYZE, parsed by hand, with both syntaxes of options.

use super::cursor::{Cursor, QualifiedName};
use crate::error::{Result, SqlError, state};
use forebay_engine::{AnalyzeOptions, IndexCleanup, VacuumOptions};
use sqlparser::tokenizer::Token;

/// Most parallel workers that an option may name.
const MOST_WORKERS: u32 = 1024;
/// kB that BUFFER_USAGE_LIMIT may name, beside 0.
const USAGE_LIMITS: std::ops::RangeInclusive<u64> = 128..=16_777_216;

/// VACUUM or ANALYZE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacuum {
    /// The tables, with the columns to be analyzed; none stands for all.
    pub tables: Vec<(QualifiedName, Option<Vec<String>>)>,
    /// How they are vacuumed. None: they are only analyzed.
    pub options: Option<VacuumOptions>,
    /// How they are analyzed. None: they are not.
    pub analyze: Option<AnalyzeOptions>,
    /// FULL: tables get new files.
    pub full: bool,
    /// SKIP_DATABASE_STATS: the database's oldest ids stay as they are.
    pub skip_database_stats: bool,
    /// ONLY_DATABASE_STATS: no table is vacuumed.
    pub only_database_stats: bool,
}

/// The options as they are written.
#[derive(Default)]
struct Written {
    options: VacuumOptions,
    full: bool,
    analyze: bool,
    skip_database_stats: bool,
    only_database_stats: bool,
}

/// Parses VACUUM.
pub(super) fn parse(c: &mut Cursor<'_>) -> Result<Vacuum> {
    c.advance();
    let options = VacuumOptions { parallel: None, ..VacuumOptions::default() };
    let mut written = Written { options, ..Written::default() };
    if !parenthesized(c, |c| option(&mut written, c))? {
        written.full = c.accept("full");
        written.options.freeze = c.accept("freeze");
        written.options.verbose = c.accept("verbose");
        written.analyze = c.accept("analyze") || c.accept("analyse");
    }
    let Written { options, full, analyze, skip_database_stats, only_database_stats } = written;
    let VacuumOptions { verbose, skip_locked, buffer_usage_limit, .. } = options;
    let analyze = analyze.then_some(AnalyzeOptions {
        verbose,
        skip_locked,
        buffer_usage_limit,
        vacuumed: true,
    });
    let tables = tables(c)?;
    if full {
        check_full(&options, analyze.is_some())?;
    }
    if analyze.is_none() && tables.iter().any(|(_, columns)| columns.is_some()) {
        let message = "ANALYZE option must be specified when a column list is provided";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    let vacuum = Vacuum {
        tables,
        options: Some(options),
        analyze,
        full,
        skip_database_stats,
        only_database_stats,
    };
    check(&vacuum, &options)?;
    Ok(vacuum)
}

/// Parses ANALYZE.
pub(super) fn parse_analyze(c: &mut Cursor<'_>) -> Result<Vacuum> {
    c.advance();
    let mut options = AnalyzeOptions::default();
    if !parenthesized(c, |c| analyze_option(&mut options, c))? {
        options.verbose = c.accept("verbose");
    }
    Ok(Vacuum {
        tables: tables(c)?,
        options: None,
        analyze: Some(options),
        full: false,
        skip_database_stats: true,
        only_database_stats: false,
    })
}

/// A list of options in parentheses. False if there is none.
pub(super) fn parenthesized(
    c: &mut Cursor<'_>,
    mut option: impl FnMut(&mut Cursor<'_>) -> Result<()>,
) -> Result<bool> {
    if !c.accept_token(&Token::LParen) {
        return Ok(false);
    }
    loop {
        option(c)?;
        if c.accept_token(&Token::RParen) {
            return Ok(true);
        }
        c.expect_token(&Token::Comma)?;
    }
}

/// The tables, up to the statement's end.
fn tables(c: &mut Cursor<'_>) -> Result<Vec<(QualifiedName, Option<Vec<String>>)>> {
    let mut tables = Vec::new();
    while !c.at_end() {
        let name = c.qualified_name()?;
        let columns = c.optional_names()?;
        let columns = columns.map(|list| list.into_iter().map(|(name, _)| name).collect());
        tables.push((name, columns));
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect_end()?;
    Ok(tables)
}

/// Refuses options that do not go with FULL.
fn check_full(options: &VacuumOptions, analyze: bool) -> Result<()> {
    let message = match options {
        VacuumOptions { parallel: Some(1..), .. } => "VACUUM FULL cannot be performed in parallel",
        VacuumOptions { buffer_usage_limit: Some(_), .. } if !analyze => {
            "BUFFER_USAGE_LIMIT cannot be specified for VACUUM FULL"
        }
        VacuumOptions { disable_page_skipping: true, .. } => {
            "VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL"
        }
        VacuumOptions { process_toast: false, .. } => "PROCESS_TOAST required with VACUUM FULL",
        _ => return Ok(()),
    };
    Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
}

fn check(vacuum: &Vacuum, options: &VacuumOptions) -> Result<()> {
    if !vacuum.only_database_stats {
        return Ok(());
    }
    let VacuumOptions { verbose, index_cleanup, parallel, .. } = *options;
    let plain = VacuumOptions { verbose, index_cleanup, parallel, ..VacuumOptions::default() };
    let others =
        vacuum.full || vacuum.skip_database_stats || vacuum.analyze.is_some() || *options != plain;
    let other = match () {
        () if !vacuum.tables.is_empty() => "a list of tables",
        () if others => "other VACUUM options",
        () => return Ok(()),
    };
    let message = format!("ONLY_DATABASE_STATS cannot be specified with {other}");
    Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
}

fn option(vacuum: &mut Written, c: &mut Cursor<'_>) -> Result<()> {
    let position = c.position();
    let Some(name) = c.peek_word() else { return Err(c.error()) };
    c.advance();
    let value = value(c);
    let on = |value| boolean(&name, value);
    let is_auto = |value: &String| value.eq_ignore_ascii_case("auto");
    let Written { options, .. } = vacuum;
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
        "index_cleanup" if value.as_ref().is_none_or(is_auto) => {
            options.index_cleanup = Some(IndexCleanup::Auto);
        }
        "index_cleanup" => {
            let cleanup = if on(value)? { IndexCleanup::On } else { IndexCleanup::Off };
            options.index_cleanup = Some(cleanup);
        }
        "parallel" => {
            options.parallel = Some(workers(value).map_err(|error| error.at(position))?);
        }
        "full" => vacuum.full = on(value)?,
        "analyze" | "analyse" => vacuum.analyze = on(value)?,
        "buffer_usage_limit" => options.buffer_usage_limit = Some(usage_limit(value)?),
        _ => return Err(unrecognized("VACUUM", &name, position)),
    }
    Ok(())
}

fn analyze_option(options: &mut AnalyzeOptions, c: &mut Cursor<'_>) -> Result<()> {
    let position = c.position();
    let Some(name) = c.peek_word() else { return Err(c.error()) };
    c.advance();
    let value = value(c);
    match name.as_str() {
        "verbose" => options.verbose = boolean(&name, value)?,
        "skip_locked" => options.skip_locked = boolean(&name, value)?,
        "buffer_usage_limit" => options.buffer_usage_limit = Some(usage_limit(value)?),
        _ => return Err(unrecognized("ANALYZE", &name, position)),
    }
    Ok(())
}

pub(super) fn unrecognized(statement: &str, name: &str, position: u32) -> SqlError {
    let message = format!("unrecognized {statement} option \"{name}\"");
    SqlError::new(state::SYNTAX_ERROR, message).at(position)
}

/// The value of an option, if it has one.
pub(super) fn value(c: &mut Cursor<'_>) -> Option<String> {
    if let Some(text) = c.accept_string().or_else(|| c.accept_number()) {
        return Some(text);
    }
    let word = c.peek_word()?;
    c.advance();
    Some(word)
}

pub(super) fn boolean(name: &str, value: Option<String>) -> Result<bool> {
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

/// A number of threads.
fn workers(value: Option<String>) -> Result<u32> {
    let message = match value.map(|value| value.parse()) {
        None => format!("parallel option requires a value between 0 and {MOST_WORKERS}"),
        Some(Ok(n @ 0..=MOST_WORKERS)) => return Ok(n),
        Some(_) => format!("parallel workers for vacuum must be between 0 and {MOST_WORKERS}"),
    };
    Err(SqlError::new(state::SYNTAX_ERROR, message))
}
