//! EXPLAIN, parsed by hand up to the statement.

use super::cursor::Cursor;
use super::source::Source;
use super::statement::{Explain, Kind};
use crate::error::{Result, SqlError, state};
use sqlparser::tokenizer::Token;
use std::sync::Arc;

/// Options as they were given.
#[derive(Default)]
struct Options {
    analyze: bool,
    costs: Option<bool>,
    timing: Option<bool>,
    summary: Option<bool>,
    buffers: Option<bool>,
    io: bool,
}

/// Reads the options; `parse` reads what follows them.
pub(super) fn parse(
    c: &mut Cursor<'_>,
    source: &Source,
    parse: impl FnOnce(&mut Cursor<'_>, &Source) -> Result<Kind>,
) -> Result<Explain> {
    c.advance();
    let mut options = Options::default();
    if c.peek() == Some(&Token::LParen) && starts_options(c) {
        c.advance();
        loop {
            option(&mut options, c)?;
            if c.accept_token(&Token::RParen) {
                break;
            }
            c.expect_token(&Token::Comma)?;
        }
    } else {
        options.analyze = c.accept("analyze") || c.accept("analyse");
        if c.accept("verbose") {
            return Err(SqlError::unsupported("EXPLAIN VERBOSE"));
        }
    }
    let Options { analyze, costs, timing, summary, buffers, io } = options;
    for (given, name) in [(timing == Some(true), "TIMING"), (io, "IO")] {
        if given && !analyze {
            let message = format!("EXPLAIN option {name} requires ANALYZE");
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        }
    }
    if c.at_end() || c.peek_word().as_deref() == Some("explain") {
        return Err(c.error());
    }
    let statement = match parse(c, source)? {
        kind @ (Kind::Query(_) | Kind::Insert(..) | Kind::Update(..) | Kind::Delete(..)) => kind,
        _ => return Err(SqlError::unsupported("EXPLAIN of this statement")),
    };
    Ok(Explain {
        analyze,
        costs: costs.unwrap_or(true),
        timing: timing.unwrap_or(true),
        summary: summary.unwrap_or(analyze),
        buffers: buffers.unwrap_or(analyze),
        io,
        statement: Arc::new(statement),
    })
}

/// Whether the parenthesis begins options, and not a query.
fn starts_options(c: &Cursor<'_>) -> bool {
    !matches!(c.word_behind().as_deref(), None | Some("select" | "values" | "with" | "table"))
}

fn option(options: &mut Options, c: &mut Cursor<'_>) -> Result<()> {
    let position = c.position();
    let Some(name) = c.peek_word() else { return Err(c.error()) };
    c.advance();
    let value = match c.peek() {
        Some(Token::RParen | Token::Comma) | None => None,
        _ => match c.accept_string().or_else(|| c.accept_number()) {
            Some(text) => Some(text),
            None => {
                let word = c.peek_word().ok_or_else(|| c.error())?;
                c.advance();
                Some(word)
            }
        },
    };
    let on = match value.as_deref().map(str::to_lowercase).as_deref() {
        None | Some("true" | "on" | "1") => Some(true),
        Some("false" | "off" | "0") => Some(false),
        _ => None,
    };
    let boolean = || {
        let message = format!("{name} requires a Boolean value");
        on.ok_or_else(|| SqlError::new(state::SYNTAX_ERROR, message))
    };
    match name.as_str() {
        "analyze" | "analyse" => options.analyze = boolean()?,
        "costs" => options.costs = Some(boolean()?),
        "timing" => options.timing = Some(boolean()?),
        "summary" => options.summary = Some(boolean()?),
        "buffers" => options.buffers = Some(boolean()?),
        "io" => options.io = boolean()?,
        "verbose" | "settings" | "generic_plan" | "wal" | "memory" => {
            if boolean()? {
                let what = format!("EXPLAIN ({})", name.to_uppercase());
                return Err(SqlError::unsupported(what));
            }
        }
        "serialize" if matches!(value.as_deref(), Some("none" | "off")) => {}
        "serialize" => return Err(SqlError::unsupported("EXPLAIN (SERIALIZE)")),
        "format" => match value.as_deref() {
            Some("text") => {}
            Some("json" | "xml" | "yaml") => {
                return Err(SqlError::unsupported("EXPLAIN (FORMAT) other than text"));
            }
            other => {
                let value = other.unwrap_or_default();
                let message =
                    format!("unrecognized value for EXPLAIN option \"{name}\": \"{value}\"");
                return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message).at(position));
            }
        },
        _ => {
            let message = format!("unrecognized EXPLAIN option \"{name}\"");
            return Err(SqlError::new(state::SYNTAX_ERROR, message).at(position));
        }
    }
    Ok(())
}
