//! Statements that sqlparser reads, without what it does not know.

use super::extras::{Extras, take_out};
use super::parser::run_parser;
use super::source::Source;
use crate::error::Result;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::TokenWithSpan;

/// Runs sqlparser over all of the tokens. What it does not know is taken out before.
pub(super) fn with_parser<T>(
    tokens: &[TokenWithSpan],
    end: Option<&TokenWithSpan>,
    source: &Source,
    parse: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
) -> Result<(T, Extras)> {
    let (tokens, extras) = take_out(tokens, end, source)?;
    Ok((run_parser(&tokens, end, source, parse)?, extras))
}
